"""Residual networks: examples/resnet_cifar, on pictures that the test makes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from cntk_core.config import load_recipe
from cntk_core.network.network import Network
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.log import Log

EXAMPLE = Path(__file__).parents[2] / "examples" / "resnet_cifar"
SMALL = ["n=1", "width=4", "bnTimeConstant=30", "numCPUThreads=1", "Train=[SGD=[maxEpochs=3;minibatchSize=10]]"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example, with the files that ``cntk data cifar10`` makes of red, green and blue pictures."""
    shutil.copytree(EXAMPLE, tmp_path / "resnet", ignore=shutil.ignore_patterns("run"))
    monkeypatch.chdir(tmp_path / "resnet")
    random = np.random.default_rng(1)
    Path("raw").mkdir()
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        rows = []
        for number in range(12):
            pixels = random.integers(0, 120, size=(3, 32, 32), dtype=np.uint8)
            pixels[number % 3] += 100
            rows.append(bytes([number % 3]) + pixels.tobytes())
        Path("raw", f"{name}.bin").write_bytes(b"".join(rows))
    assert main(["data", "cifar10", "--from", "raw", "--no-checksum"]) == 0
    return Path.cwd()


def built(*arguments: str) -> Network:
    config = load_recipe([f"configFile={EXAMPLE / 'resnet.cntk'}", *arguments])
    context = ActionContext.create(config, Log(quiet=True))
    return context.build_network(config.section("Train"))


@pytest.mark.parametrize(("blocks", "layers"), [(1, 8), (3, 20)])
def test_depth(blocks: int, layers: int) -> None:
    """6 n + 2 layers, and a convolution for each of the two shortcuts where the size changes."""
    network = built(f"n={blocks}")
    convolutions = [node for node in network if node.op is not None and node.op.name == "Convolution"]
    assert len(convolutions) == layers - 1 + 2
    assert [node.op.name for node in network].count("BatchNormalization") == len(convolutions)
    widths = [node.known_shape for node in convolutions]
    assert widths.count((16, 32, 32)) == 1 + 2 * blocks
    assert widths.count((32, 16, 16)) == widths.count((64, 8, 8)) == 2 * blocks + 1


def test_20_layers_have_the_parameters_of_the_paper() -> None:
    """0.27 million, and 2752 of the convolutions of shortcuts with their normalization, which the paper leaves out."""
    learned = [item for item in built().parameters if item.learned]
    assert sum(int(np.prod(item.known_shape)) for item in learned) == 269_722 + 2752


@pytest.mark.slow
def test_110_layers() -> None:
    network = built("n=18")
    assert [node.op.name for node in network].count("Convolution") == 111


def errors(text: str) -> float:
    return float(re.findall(r"Final Results: .*?errs = ([\d.]+)% \* 12", text)[-1])


@pytest.mark.thorough
@pytest.mark.slow
def test_it_learns_from_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configFile=resnet.cntk", *SMALL]) == 0
    assert errors(capsys.readouterr().err) < 10
    assert Path("run/resnet.n1.dnn").is_file()


@pytest.mark.slow
def test_it_learns_from_pictures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cntk_reader_image")
    assert main(["configFile=resnet.cntk+pictures.cntk", *SMALL]) == 0
    assert errors(capsys.readouterr().err) < 10
