"""Files of every format that are wrong in a small way: errors that name them, and no more memory than twice their size.

Modules, caches and messages take some memory for any file, however small: :data:`FIXED`. What is above it is measured
for a file that is large beside it, after sound files have been loaded.
"""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cntk_model_cntk2.checkpoint import read_checkpoint
from cntk_model_cntk2.write_checkpoint import learner_state, write_checkpoint
from cntk_model_weights.exchange import load_weights, save_weights

from cntk_core.api import Network
from cntk_core.api.recipes import ModelFiles, PluginManager
from cntk_core.errors import CntkError
from cntk_core.trainer import LearnerSettings, Trainer
from cntk_testing.networks import Sketch

FIXED = 256 * 1024
"""Bytes that a load may take however small its file is; at most 134 thousand were measured, for an npz file."""

MUTANTS = 200
FORMATS = {"own.dnn": "", "version1.dnn": "CNTK-1", "version2.model": "CNTK-2", "graph.onnx": "ONNX"}
NAMES = (*FORMATS, "training.ckp", "weights.npz", "weights.safetensors")


def network() -> Network:
    made = Sketch("float32")
    x, label = made.input("x", 500), made.input("label", 200)
    hidden = made.op("Sigmoid", made.op("Times", made.parameter("W", 500, 200), x, name="t"), name="h")
    criterion = made.op("SquareError", label, made.op("Plus", hidden, made.parameter("b", 200), name="z"), name="ce")
    return made.finish(criterion, made.network["z"]).network


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound file of each format, of 400 kB and more."""
    found = tmp_path_factory.mktemp("sound")
    made, files = network(), ModelFiles(PluginManager(load_hooks=False).registry)
    made.mark(made["z"], "output")
    for name, form in FORMATS.items():
        files.save(made, found / name, form)
    for name in NAMES[-2:]:
        save_weights(made, found / name)
    trainer = Trainer(made, made["ce"], LearnerSettings("adagrad", rate=0.1), engine="cpu")
    trainer.train_minibatch({"x": np.ones((2, 500), np.float32), "label": np.ones((2, 200), np.float32)})
    parameters = list(made.parameters)
    state = learner_state(trainer.model.store, parameters, samples=2, minibatches=1)
    write_checkpoint(found / "training.ckp", [state], [parameters])
    return found


def loader(name: str) -> Callable[[Path], object]:
    if name == "training.ckp":
        return read_checkpoint
    if name in NAMES[-2:]:
        target = network()
        return lambda path: load_weights(target, path)
    files = ModelFiles(PluginManager(load_hooks=False).registry)
    return lambda path: files.load(path)


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Bytes with some of them changed, taken out or put in, mostly near the begin or the end."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 8))):
        near = chance.randrange(1, 1500)
        at = chance.choice((near, len(data) - near, chance.randrange(len(data))))
        kind = chance.randrange(5)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[at : at + chance.randrange(1, 20)]
        elif kind == 2:
            data[at:at] = chance.randbytes(chance.randrange(1, 9))
        elif kind == 3:
            data[at : at + 4] = b"\xff" * 4
        else:
            data[at : at + 8] = chance.choice((2**20, 2**31 - 1, 2**40)).to_bytes(8, "little")
    return bytes(data[:-5] if chance.random() < 0.1 else data)


@pytest.mark.parametrize("count", [5, pytest.param(MUTANTS, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", NAMES)
def test_mutants(name: str, count: int, folder: Path, tmp_path: Path) -> None:
    content, load, chance = (folder / name).read_bytes(), loader(name), random.Random(name)
    path = tmp_path / name
    path.write_bytes(content)
    load(path)
    refused = 0
    for _ in range(count):
        path.write_bytes(damaged(content, chance))
        size, error = path.stat().st_size, None
        tracemalloc.start()
        try:
            load(path)
        except CntkError as caught:
            error = caught
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= 2 * size + FIXED, f"{peak} bytes for a file of {size}"
        if error is not None:
            refused += 1
            assert name in str(error)
    assert refused > count // 4
