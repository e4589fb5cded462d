"""The page "One network, three spellings": what it says is run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cntk_core.network.model_file import load_model
from cntk_core.network.network import Network
from cntk_core.ops.table import core_ops
from cntk_kit_recipes.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "three-spellings.md"
FOLDERS = ("ndl", "bs", "py")
STAGES = ("net.dnn.0", "net.dnn.1", "net.dnn")
PARAMETERS = ("W1", "b1", "W2", "b2", "W3", "b3")


def blocks(chapter: int, language: str) -> list[str]:
    """The code of the page's first part, or of its second part on a recurrent network."""
    text = PAGE.read_text(encoding="utf-8").split("\n## A recurrent network\n")[chapter]
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def write_files(chapter: int, data: str) -> None:
    Path(("points.ctf", "sentences.ctf")[chapter]).write_text(data, encoding="utf-8")
    Path("r.cntk").write_text("\n".join(blocks(chapter, "cntk")), encoding="utf-8")
    (network,) = [text for text in blocks(chapter, "python") if "def build" in text]
    Path(("net.py", "lstm.py")[chapter]).write_text(network, encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(5)
    lines = []
    for _ in range(40):
        kind = random.integers(3)
        features = np.eye(4)[kind] + random.standard_normal(4)
        labels = np.eye(3, dtype=int)[kind]
        lines.append(f"|features {' '.join(map(str, features.round(3)))} |labels {' '.join(map(str, labels))}\n")
    write_files(0, "".join(lines))
    return tmp_path


@pytest.fixture
def sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of which each gets the class of the word before it; lengths from 1 to 9."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(3)
    lines = []
    for number in range(30):
        before = 0
        for word in random.integers(7, size=random.integers(1, 10)):
            lines.append(f"{number} |words {word}:1 |classes {before % 3}:1\n")
            before = word
    write_files(1, "".join(lines))


def trained(stage: str) -> list[Network]:
    return [load_model(f"{name}/{stage}", core_ops().find) for name in FOLDERS]


@pytest.mark.parametrize("precision", ["float", "double"])
def test_training_is_the_same_bit_for_bit(precision: str, folder: Path) -> None:
    assert main(["configFile=r.cntk", f"precision={precision}"]) == 0
    for stage in STAGES:
        networks = trained(stage)
        assert {network.dtype.name for network in networks} == {"float32" if precision == "float" else "float64"}
        for name in PARAMETERS:
            values = {network[name].value.tobytes() for network in networks}
            assert len(values) == 1, f"{name} of {stage}"
    first, _, last = (trained(stage)[0]["W1"].value for stage in STAGES)
    assert not np.array_equal(first, last)


def test_without_seeds_brainscript_counts_from_the_output(folder: Path) -> None:
    recipe = Path("r.cntk")
    text, count = re.subn(r", randomSeed = \d", "", recipe.read_text(encoding="utf-8"))
    assert count == 3
    recipe.write_text(text, encoding="utf-8")
    assert main(["configFile=r.cntk", "command=NDL:BrainScript", "SGD=[maxEpochs=1]"]) == 0
    ndl, brainscript = (load_model(f"{name}/net.dnn.0", core_ops().find) for name in FOLDERS[:2])
    for name in ("W1", "W3"):
        assert not np.array_equal(ndl[name].value, brainscript[name].value)
    assert np.array_equal(ndl["W2"].value, brainscript["W2"].value)


def test_the_numbers_of_parameters_are_those_of_the_page(folder: Path) -> None:
    from cntk_kit_builders.first_values.initializers import Random

    assert main(["configFile=r.cntk", "command=NDL", "SGD=[maxEpochs=1]"]) == 0
    network = load_model("ndl/net.dnn.0", core_ops().find)
    single = np.dtype(np.float32)
    assert np.array_equal(network["W1"].value, Random("uniform", 4.0)((4, 6), single, 1))
    assert np.array_equal(network["W2"].value, Random("gaussian")((6, 5), single, 2))
    assert np.array_equal(network["W3"].value, Random("glorotUniform")((5, 3), single, 3))


@pytest.mark.parametrize("precision", ["float", "double"])
@pytest.mark.thinned(2)
def test_recurrent_training_is_the_same_bit_for_bit(precision: str, sentences: None) -> None:
    assert main(["configFile=r.cntk", f"precision={precision}"]) == 0
    for stage in STAGES:
        networks = trained(stage)
        for name in ("E", "V", "B", "W", "H", "Co", "Cf", "Ci"):
            short = [f"lstm.{name}", *[f"lstm.lstm.{name}"] * 2] if name not in "EV" else [name] * 3
            values = {network[full].value.tobytes() for network, full in zip(networks, short, strict=True)}
            assert len(values) == 1, f"{name} of {stage}"
    first, _, last = (trained(stage)[0]["lstm.H"].value for stage in STAGES)
    assert np.abs(first - last).max() > 1e-3
