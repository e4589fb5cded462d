"""What few networks have: shifts, tables of words, random numbers; and which nodes are outputs of a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_model_onnx.check import session_of
from cntk_model_onnx.export.choose import outputs_of
from judge import difference, written

from cntk_core.api import Input, Network, Node, core_ops
from cntk_testing.networks import Sketch


def op(made: Sketch, kind: str, *inputs: Any, name: str = "y", **settings: Any) -> Node:
    found = core_ops().find("", kind)
    assert found is not None
    return made.op(kind, *inputs, name=name, attributes=found.attributes(**settings))


def finished(made: Sketch, root: Node) -> Network:
    network = made.finish(None, root).network
    network.roots["output"] = [root]
    return network


def words(made: Sketch, size: int) -> Node:
    return made.network.add(Input.make("words", (size,), sparse=True))


@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 2])
@pytest.mark.parametrize("shape", [(1,), (3,), (1, 1, 3)])
def test_shifts_along_sequences(offset: int, shape: tuple[int, ...], tmp_path: Path) -> None:
    made = Sketch("float32")
    boundary = made.parameter("b", *shape)
    network = finished(made, op(made, "Shift", made.input("x", 3), boundary, from_offset=offset, dim=-1))
    for settings in ({}, {"sequences": "one"}):
        assert difference(network, tmp_path / "net.onnx", **settings) < 1e-6


TABLES: dict[str, Callable[[Sketch], Node]] = {
    "words by their numbers": lambda made: op(made, "LookupTable", made.parameter("E", 7, 3), words(made, 7)),
    "a table of several axes": lambda made: op(made, "LookupTable", made.parameter("E", 7, 1, 3), words(made, 7)),
    "vectors": lambda made: op(made, "LookupTable", made.parameter("E", 7, 3), made.input("x", 7)),
    "vectors of a table of several axes": lambda made: op(
        made, "LookupTable", made.parameter("E", 7, 1, 3), made.input("x", 7)
    ),
    "several words": lambda made: op(made, "LookupTable", made.parameter("E", 7, 3), made.input("x", 14)),
    "a product": lambda made: op(made, "Times", made.parameter("E", 7, 3), words(made, 7)),
    "both": lambda made: op(
        made, "RowStack", op(made, "Times", made.parameter("E", 7, 3), words(made, 7), name="vectors"),
        op(made, "Exp", made.network["words"], name="powers"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("sparse", ["index", "dense"])
def test_tables_of_words(name: str, sparse: str, tmp_path: Path) -> None:
    made = Sketch("float32")
    network = finished(made, TABLES[name](made))
    assert difference(network, tmp_path / "net.onnx", sparse=sparse) < 1e-6


DRAWN: list[tuple[str, tuple[float, ...], float, float]] = [
    # kind, what it is told, mean and deviation
    ("uniform", (-1.0, 3.0), 1.0, 4 / 12**0.5),
    ("normal", (2.0, 0.5), 2.0, 0.5),
    ("gumbel", (1.0, 2.0), 1 + 2 * 0.5772, 2 * np.pi / 6**0.5),
    ("bernoulli", (0.3,), 0.3, 0.21**0.5),
]


@pytest.mark.parametrize(("kind", "given", "mean", "deviation"), DRAWN)
def test_random_numbers_have_the_distribution(
    kind: str, given: tuple[float, ...], mean: float, deviation: float, tmp_path: Path
) -> None:
    made = Sketch("float32")
    drawn = op(made, "RandomDistribution", made.input("x", 200), type=kind, args=given)
    (found,) = session_of(written(finished(made, drawn), tmp_path / "net.onnx")).run(
        None, {"x": np.zeros((500, 200), np.float32)}
    )
    assert found.shape == (500, 200)
    assert found.mean() == pytest.approx(mean, abs=0.05)
    assert found.std() == pytest.approx(deviation, abs=0.05)
    if kind == "uniform":
        assert -1 <= found.min() < -0.99
        assert 2.99 < found.max() <= 3
    if kind == "bernoulli":
        assert set(np.unique(found)) == {0.0, 1.0}


# -- outputs ----------------------------------------------------------------------------------------------


def trained() -> Network:
    """``z`` and its exponential; a criterion, an error and something of the labels alone."""
    made = Sketch("float32")
    x, labels = made.input("x", 3), made.input("labels", 2)
    z = made.op("Times", made.parameter("W", 3, 2), x, name="z")
    made.op("Exp", z, name="exp")
    turned = made.op("Negate", labels, name="turned")
    ce = made.op("CrossEntropyWithSoftmax", labels, z, name="ce")
    error = made.op("SquareError", turned, z, name="error")
    network = made.finish(ce, error).network
    for role in list(network.roots):
        network.roots[role] = []
    network.roots["label"] = [labels]
    return network


@pytest.mark.parametrize(
    ("roles", "wanted"),
    [
        ({}, ["exp", "z"]),
        ({"output": ["z"]}, ["z"]),
        ({"output": ["exp", "z", "exp"]}, ["exp", "z"]),
        ({"criterion": ["ce"]}, ["exp", "z"]),
        ({"criterion": ["ce"], "evaluation": ["error"]}, ["exp", "z"]),
        ({"output": ["ce"]}, ["z"]),
        ({"output": ["ce", "exp"]}, ["exp"]),
        ({"criterion": ["exp"]}, ["z"]),
        ({"criterion": ["exp"], "output": ["exp", "z"]}, ["z"]),
    ],
)
def test_which_nodes_are_outputs(roles: dict[str, list[str]], wanted: list[str]) -> None:
    network = trained()
    for role, names in roles.items():
        network.roots[role] = [network[name] for name in names]
    assert [node.name for node in outputs_of(network)] == wanted
