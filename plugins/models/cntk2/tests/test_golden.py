"""Models of the original: they come in, compute what it computes, go on with their training, and go out again."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_model_cntk2.load import load_model
from cntk_model_cntk2.save import save_model
from golden_files import arrays, differences, index, write

from cntk_core.api import UnsupportedError
from cntk_core.api.recipes import PluginManager
from cntk_core.api.training import Model
from cntk_testing.networks import Sketch
from cntk_testing.reference import ReferenceEngine

TOOLS = Path(__file__).resolve().parents[4] / "tools"

NAMES = sorted(index())
COMPARED = [name for name in NAMES if index()[name]["compare"]]
STATES = [name for name in NAMES if "checkpoint" in index()[name]]

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text(encoding="utf-8"))
"""What the original made of our files."""

BY_CHANCE = {"forward-backward-ctc": 23.138086}
"""What the original computes of memory behind its arrays, too, and its figure where that memory holds zeros."""

EQUAL = [name for name in COMPARED if name not in BY_CHANCE]


@cache
def find_op() -> Any:
    return PluginManager(load_hooks=False).registry.ops.find


@cache
def tool(name: str) -> Any:
    """A program of ``tools/``."""
    if str(TOOLS) not in sys.path:
        sys.path.insert(0, str(TOOLS))
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_values(name: str, path: Path, engine: Any) -> None:
    found = tool("evaluate_model").evaluate(path, arrays(name, "in/"), engine)
    tolerance = index()[name]["tolerance"]
    assert not differences(arrays(name, "out/"), found, tolerance["relative"], tolerance["absolute"])


@pytest.mark.sampled(12)
@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", EQUAL)
def test_values(name: str, tmp_path: Path) -> None:
    check_values(name, write(name, tmp_path), ReferenceEngine())


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["cpu", "xla"])
@pytest.mark.parametrize("name", ["net-convnet-bn", "net-seq2seq-attention", "sequence-slice"])
def test_values_of_some_models(name: str, engine: str, tmp_path: Path) -> None:
    check_values(name, write(name, tmp_path), engine)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["cpu", "xla"])
@pytest.mark.parametrize("name", EQUAL)
def test_values_of_engines(name: str, engine: str, tmp_path: Path) -> None:
    check_values(name, write(name, tmp_path), engine)


@pytest.mark.parametrize("name", BY_CHANCE)
def test_what_is_not_compared(name: str, tmp_path: Path) -> None:
    found = tool("evaluate_model").evaluate(write(name, tmp_path), arrays(name, "in/"), ReferenceEngine())
    expected = arrays(name, "out/")
    assert differences(expected, found, 1e-4, 1e-5), "it is compared after all"
    assert not differences(dict.fromkeys(expected, np.asarray(BY_CHANCE[name])), found, 1e-6, 0.0)


@pytest.mark.sampled(16)
@pytest.mark.thinned(8)
@pytest.mark.parametrize("name", EQUAL)
def test_written_models_come_back(name: str, tmp_path: Path) -> None:
    first = load_model(write(name, tmp_path), find_op())
    path = tmp_path / "again.model"
    save_model(first.network, path)
    again = load_model(path, find_op())
    assert {node.name for node in again.network.inputs} == {node.name for node in first.network.inputs}
    values = {parameter.name: parameter.value for parameter in again.network.parameters}
    for parameter in first.network.parameters:
        if parameter.learned:
            np.testing.assert_array_equal(values[parameter.name], parameter.value)
    found = tool("evaluate_model").evaluate(path, arrays(name, "in/"), ReferenceEngine())
    keys = tool("evaluate_model").keys_of(first)
    renamed = {f"out/{result.node.name}": f"out/{key}" for key, result in zip(keys, first.results, strict=True)}
    found = {_renamed(key, renamed): value for key, value in found.items()}
    tolerance = index()[name]["tolerance"]
    assert not differences(arrays(name, "out/"), found, tolerance["relative"], tolerance["absolute"])


def _renamed(key: str, names: dict[str, str]) -> str:
    head, _, last = key.rpartition("/")
    return names[key] if key in names else f"{names[head]}/{last}"


@pytest.mark.slow
@pytest.mark.thinned(5)
@pytest.mark.parametrize("name", STATES)
def test_training_goes_on(name: str, tmp_path: Path) -> None:
    model, state = write(name, tmp_path), write(name, tmp_path, "ckp")
    found = tool("continue_training").go_on(model, state, arrays(name, "next/"), index()[name]["learner"])
    assert not differences(arrays(name, "after/"), found, 1e-3, 1e-4)


@pytest.mark.slow
@pytest.mark.thinned(5)
@pytest.mark.parametrize("name", STATES)
def test_training_goes_on_from_our_checkpoint(name: str, tmp_path: Path) -> None:
    """CNTK 2.7 did so from these very files, too: the parameters were the same to 2e-7."""
    model, state = write(name, tmp_path), write(name, tmp_path, "ckp")
    minibatches, learner = arrays(name, "next/"), index()[name]["learner"]
    first = {key: values for key, values in minibatches.items() if key.startswith("next/0/")}
    rest = {key: values for key, values in minibatches.items() if key not in first}
    ours = tmp_path / "ours"
    tool("continue_training").go_on(model, state, first, learner, save=str(ours))
    found = tool("continue_training").go_on(ours, tmp_path / "ours.ckp", rest, learner)
    assert not differences(arrays(name, "after/"), found, 1e-3, 1e-4)


def test_a_list_of_places_alone_is_written(tmp_path: Path) -> None:
    name = "topk-straightthrough"
    network = load_model(write(name, tmp_path), find_op()).network
    save_model(network, tmp_path / "again.model")
    again = load_model(tmp_path / "again.model", find_op())
    assert sorted(result.name for result in again.results) == sorted(node.name for node in network.roots["output"])


@pytest.mark.parametrize("op", ["PerDimMeanVarNormalization", "PerDimMeanVarDeNormalization"])
def test_statistics_of_recipes(op: str, tmp_path: Path) -> None:
    """The ops of recipes for mean and variance are two of the ops that CNTK 2 has."""
    made = Sketch("float32")
    x = made.input("x", 3)
    mean, inverse = made.parameter("mean", 3), made.parameter("inverse", 3)
    inverse.value = np.array([0.5, 2.0, 4.0], np.float32)
    root = made.op(op, x, mean, inverse, name="normal")
    network = made.finish(None, root).network
    network.roots["output"] = [root]
    save_model(network, tmp_path / "again.model")
    again = load_model(tmp_path / "again.model", find_op()).network
    data = {"x": np.arange(12, dtype=np.float32).reshape(4, 3)}
    expected = Model(network, engine=ReferenceEngine()).evaluate(data, ["normal"])["normal"]
    found = Model(again, engine=ReferenceEngine()).evaluate(data, ["normal"])["normal"]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_what_the_original_has_not_is_refused_by_name(tmp_path: Path) -> None:
    network = load_model(write("unary-positive", tmp_path), find_op()).network
    node = network["sqrt"]
    node.inputs[0].op = find_op()("model", "Erf")
    with pytest.raises(UnsupportedError, match=r"CNTK 2 has no operation Erf, which is that of '.*'"):
        save_model(network, tmp_path / "no.model")
    assert not (tmp_path / "no.model").exists()


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_what_the_original_loaded_is_what_we_write(name: str, tmp_path: Path) -> None:
    """``tools/record_cntk2.py`` had the original load and evaluate these very files."""
    path = write(name, tmp_path)
    save_model(load_model(path, find_op()).network, path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == RECORDED[name]["sha256"], "record it again"
    assert (RECORDED[name]["difference"] is None) == (not index()[name]["compare"])
    assert (RECORDED[name]["difference"] or 0.0) <= 1.0
