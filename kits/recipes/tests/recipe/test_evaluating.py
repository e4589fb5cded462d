"""What the action test asks the evaluation for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cntk_core.config import parse_text
from cntk_core.errors import DataError, NetworkError
from cntk_core.network.network import Network
from cntk_core.network.node import Input
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.test import evaluation_nodes
from cntk_kit_recipes.recipe.write import NodeValues, _nodes
from cntk_testing.small_recipe import recipe

__all__ = ["recipe"]


@pytest.fixture
def asked(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Train, and note what every evaluation is asked for, which then does nothing."""
    found: list[dict[str, Any]] = []

    def evaluate(network, engine, reader, nodes, minibatch_size, epoch_size, log, **more):
        names = [node.name for node in nodes]
        found.append({"nodes": names, "minibatch_size": minibatch_size, "epoch_size": epoch_size, **more})
        return {}

    assert main(["configFile=r.cntk"]) == 0
    monkeypatch.setattr("cntk_kit_recipes.recipe.test.evaluate", evaluate)
    return found


NUMBERS = ("minibatch_size", "epoch_size", "show_every", "show_first", "parts")


def run(asked: list[dict[str, Any]], keys: str = "") -> tuple[int, ...]:
    assert main(["configFile=r.cntk", "command=Test", f"Test=[{keys}]"]) == 0
    return tuple(asked[-1][name] for name in NUMBERS)


def test_by_default(asked: list[dict[str, Any]]) -> None:
    assert run(asked) == (40960, 0, 100, 0, 1)
    assert asked[0]["nodes"] == ["errs", "ce"]
    assert asked[0]["ranks"].size == 1


def test_what_a_recipe_says(asked: list[dict[str, Any]]) -> None:
    assert run(asked, "minibatchSize=7:8;epochSize=3;numMBsToShowResult=5;firstMBsToShowResult=2") == (7, 3, 5, 2, 1)
    assert run(asked, "minibatchSize=7;numSubminibatches=3") == (7, 0, 100, 0, 3)


@pytest.mark.parametrize(("limit", "parts"), [(4, 3), (5, 2), (9, 2), (10, 1), (11, 1)])
def test_parts_that_fit_into_memory(asked: list[dict[str, Any]], limit: int, parts: int) -> None:
    assert run(asked, f"minibatchSize=10;maxSamplesInRAM={limit};numSubminibatches=7")[-1] == parts


@pytest.mark.usefixtures("asked")
def test_the_reader_is_closed_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    def evaluate(network, engine, reader, *arguments, **more):
        close = reader.close
        monkeypatch.setattr(reader, "close", lambda: closed.append("closed") or close())
        raise DataError("this was injected")

    monkeypatch.setattr("cntk_kit_recipes.recipe.test.evaluate", evaluate)
    assert main(["configFile=r.cntk", "command=Test"]) == 1
    assert closed == ["closed"]


def section(text: str = "") -> Any:
    return parse_text(f"X=[ {text} ]", file="r.cntk").section("X")


def test_networks_that_say_not_what_to_evaluate_or_to_write() -> None:
    context: Any = SimpleNamespace(log=SimpleNamespace(plain=lambda text: None))
    network = Network()
    x = network.add(Input.make("x", (2,)))
    with pytest.raises(NetworkError) as caught:
        evaluation_nodes(context, network, section())
    assert str(caught.value) == (
        "r.cntk:1:1: There is no default evaluation node or training criterion specified in the network.\n"
        "    Give evalNodeNames=..."
    )
    with pytest.raises(NetworkError) as caught:
        _nodes(context, network, section())
    assert str(caught.value) == (
        "r.cntk:1:1: There is no default output node specified in the network.\n"
        "    Give outputNodeNames=...; the nodes are: x"
    )
    network.roots["output"] = [x, x]
    assert _nodes(context, network, section()) == [x]
    assert _nodes(context, network, section("outputNodeNames=x:y:X")) == [x]
    with pytest.raises(NetworkError, match=r"^r\.cntk:1:5: none of the outputNodeNames is in the network\n"):
        _nodes(context, network, section("outputNodeNames=y"))
    with pytest.raises(
        NetworkError, match=r"^r\.cntk:1:\d+: Criterion nodes to evaluate must have dimension 1x1; 'x' is"
    ):
        evaluation_nodes(context, network, section("evalNodeNames=x"))


def test_layouts_of_values_that_nothing_computes() -> None:
    """Of an input that the reader gives; another input of the axis may be missing."""
    network = Network()
    for name in ("missing", "x"):
        network.add(Input.make(name, (2,)))
    layout = SequenceLayout.of_frames(3)
    minibatch = Minibatch({"x": StreamData(np.zeros((3, 2)), layout)}, 3)
    values = NodeValues(network, None)
    for name in ("x", "missing"):
        assert values.layout(network[name], minibatch) is layout
