"""Files of CNTK 1 and DBN files keep the contract of model formats, and their actions that of actions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from bcn_writer import small_model
from cntk_model_cntk1.bcn.model_format import Cntk1Format
from cntk_model_cntk1.convert_dbn import ConvertDbnAction
from cntk_model_cntk1.dbn_file import Dbn, DbnLayer, write_dbn
from cntk_model_cntk1.dbn_format import DbnFormat
from cntk_model_cntk1.export_dbn import ExportDbnAction

from cntk_testing import README, ActionContract, ModelFormatContract, PackagingContract, RecipeContract


def write_small_dbn(path: Path) -> Path:
    random = np.random.default_rng(1)
    layers = [
        DbnLayer("rbmgaussbernoulli", random.random((3, 4), np.float32), random.random(3, np.float32)),
        DbnLayer("perceptron", random.random((2, 3), np.float32), random.random(2, np.float32)),
    ]
    mean, deviation = random.random(4, np.float32), np.full(4, 0.5, np.float32)
    write_dbn(Dbn(mean, deviation, layers, np.array([0.25, 0.75], np.float32)), path)
    return path


class TestCntk1(ModelFormatContract):
    format_class = Cntk1Format
    writes = True

    def model_file(self, folder: Path) -> Path:
        path = folder / "old.dnn"
        small_model().in_order().write(path)
        return path


class TestDbn(ModelFormatContract):
    format_class = DbnFormat
    writes = True

    def model_file(self, folder: Path) -> Path:
        return write_small_dbn(folder / "net.dbn")


CONVERT = "modelPath = net.dnn ; dbnModelPath = in.dbn ; layerSizes = 4:3:2"


class TestConvert(ActionContract):
    action_class = ConvertDbnAction
    recipe = f'command = A\nA = [ action = "contract" ; {CONVERT} ]\n'
    broken_recipe = 'command = A\nA = [ action = "contract" ; modelPath = net.dnn ]\n'

    def prepare(self, folder: Path) -> None:
        write_small_dbn(folder / "in.dbn")

    def verify(self, folder: Path, log: str) -> None:
        assert (folder / "net.dnn").is_file()


class TestExport(ActionContract):
    action_class = ExportDbnAction
    recipe = (
        f'command = M:A\nM = [ action = "convertdbn" ; {CONVERT} ]\n'
        'A = [ action = "contract" ; modelPath = net.dnn ; dbnModelPath = out.dbn ]\n'
    )
    broken_recipe = 'command = A\nA = [ action = "contract" ; modelPath = net.dnn ]\n'

    def prepare(self, folder: Path) -> None:
        write_small_dbn(folder / "in.dbn")

    def verify(self, folder: Path, log: str) -> None:
        assert (folder / "out.dbn").read_bytes() == (folder / "in.dbn").read_bytes()


class TestReadme(RecipeContract):
    recipe = README
    recipe_key = "exportdbn"


class TestPackaging(PackagingContract):
    distribution = "cntk-model-cntk1"
    kind = "model_format"
