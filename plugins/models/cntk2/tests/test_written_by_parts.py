"""What single parts of a network become in a file: numbers, loops, seeds, windows, results, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_model_cntk2.load import load_model
from cntk_model_cntk2.operations import OPERATIONS
from cntk_model_cntk2.records import CONSTANT, PARAMETER, PLACEHOLDER, read_dictionary
from cntk_model_cntk2.save import carried, save_model
from cntk_model_cntk2.values import NDShape
from drafts import lines

from cntk_core.api import CntkError, Network, NetworkError, Node, Parameter, UnsupportedError, core_ops
from cntk_core.api.training import Model
from cntk_testing.networks import Sketch
from cntk_testing.reference import ReferenceEngine

find_op = core_ops().find
BATCH = ("x", ())


class Net:
    """A network that grows with each call."""

    def __init__(self) -> None:
        self.made = Sketch("float32")
        self.network: Network = self.made.network

    def input(self, name: str, *shape: int, **more: Any) -> Node:
        return self.made.input(name, *shape, **more)

    def parameter(self, name: str, *shape: int, value: Any = 1.0, learned: bool = True) -> Parameter:
        values = np.broadcast_to(np.asarray(value, np.float32), shape).copy()
        return self.network.add(Parameter.make(name, shape, value=values, learning_rate_multiplier=float(learned)))

    def op(self, kind: str, name: str, *inputs: Node, **settings: Any) -> Node:
        op = find_op("model", kind)
        assert op is not None
        return self.network.add(Node(name, op, list(inputs), op.attributes(**settings)))

    def values(self, path: Path, *roots: Node, blocks: bool = False) -> dict[str, Any]:
        """Save it and return what the file says."""
        for root in roots:
            self.network.mark(root, "output")
        self.network.infer()
        save_model(self.network, path, blocks=blocks)
        return read_dictionary(path)


def functions(values: dict[str, Any]) -> list[str]:
    return [
        OPERATIONS[each["op"]].name if each["op"] in OPERATIONS else "Combine" for each in values["primitive_functions"]
    ]


def same_values(net: Net, path: Path, data: dict[str, Any], *names: str) -> None:
    again = load_model(path, find_op).network
    expected, found = (Model(one, engine=ReferenceEngine()).evaluate(data, names) for one in (net.network, again))
    for name in names:
        for one, other in zip(_listed(expected[name]), _listed(found[name]), strict=True):
            np.testing.assert_allclose(np.reshape(other, np.shape(one)), one, rtol=1e-5)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


# -- what is written ----------------------------------------------------------------------------------------


def test_without_outputs_what_nobody_reads_is_written(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", 2)
    a = net.op("Tanh", "a", x)
    net.op("Exp", "b", a)
    net.op("Sin", "c", x)
    values = net.values(tmp_path / "x.model")
    assert functions(values) == ["Tanh", "Exp", "Sin", "Combine"]
    again = load_model(tmp_path / "x.model", find_op).network
    assert [node.name for node in again.roots["output"]] == ["b", "c"]


@pytest.mark.parametrize("leaf", [True, False])
def test_nothing_to_write(leaf: bool, tmp_path: Path) -> None:
    net = Net()
    if leaf:
        net.input("x", 2)
    with pytest.raises(NetworkError) as caught:
        net.values(tmp_path / "x.model")
    assert caught.value.message == "there is nothing to write: the network computes nothing"
    assert not (tmp_path / "x.model").exists()


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    net = Net()
    x, w = net.input("x", 2), net.parameter("W", 2)
    root = net.op("Erf", "e", net.op("Plus", "p", net.op("Erf", "f", x), w))
    net.network.mark(root, "output")
    net.network.infer()
    w._value = None
    with pytest.raises(CntkError) as caught:
        save_model(net.network, tmp_path / "x.model")
    told = str(caught.value)
    assert "the parameter 'W' has no value" in told
    assert "CNTK 2 has no operation Erf, which is that of 'e'" in told
    assert "CNTK 2 has no operation Erf, which is that of 'f'" in told


@pytest.mark.parametrize(
    ("op", "both"),
    [
        ("Plus", (True, True)),
        ("MaxPooling", (False, True)),
        ("PerDimMeanVarNormalization", (False, True)),
        ("Erf", (False, False)),
        ("LearnableParameter", (True, True)),
    ],
)
def test_what_is_carried_in_and_out(op: str, both: tuple[bool, bool]) -> None:
    found = find_op("model", op)
    assert found is not None
    assert carried(found) == both


@pytest.mark.parametrize(
    ("op", "version"), [("Tanh", 15), ("StableSigmoid", 15), ("RandomDistribution", 15), ("Sinh", 24)]
)
def test_functions_have_the_version_that_knows_them(op: str, version: int, tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", 2)
    settings = {"type": "uniform", "args": (0.0, 1.0)} if op == "RandomDistribution" else {}
    values = net.values(tmp_path / "x.model", net.op(op, "y", x, **settings))
    assert {int(each["version"]) for each in values["primitive_functions"]} == {version}


def test_leaves_are_what_they_are(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", 3, 2)
    x.needs_gradient = True
    w, c = net.parameter("W", 3, 2), net.parameter("c", 2, learned=False)
    values = net.values(tmp_path / "x.model", net.op("Plus", "y", net.op("Plus", "z", x, w), c))
    told = [(one["name"], int(one["kind"]), one["shape"].dims, one["needs_gradient"]) for one in values["inputs"]]
    assert told == [("x", 0, (2, 3), True), ("W", PARAMETER, (2, 3), True), ("c", CONSTANT, (2,), False)]


# -- loops --------------------------------------------------------------------------------------------------


def placeholders(values: dict[str, Any]) -> list[tuple[str, tuple[int, ...], int]]:
    return [
        (one["uid"], one["shape"].dims, len(one["dynamic_axis"]))
        for one in values["inputs"]
        if one["kind"] == PLACEHOLDER
    ]


def test_what_a_delay_reads_before_it_is_there_is_announced_once(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", 2)
    first = net.op("PastValue", "first", x, dims=(2,))
    second = net.op("PastValue", "second", x, dims=(2,), time_step=2)
    total = net.op("Plus", "sum", net.op("Plus", "inner", first, second), x)
    first.inputs[0] = second.inputs[0] = total
    values = net.values(tmp_path / "x.model", total)
    (sums,) = (one["uid"] for one in values["primitive_functions"] if one.get("name") == "sum")
    assert placeholders(values) == [(f"{sums}_Output_0", (2,), 2)]
    same_values(net, tmp_path / "x.model", {"x": [np.ones((4, 2), np.float32)]}, "sum")


def test_what_is_there_already_is_not_announced(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", 2)
    values = net.values(tmp_path / "x.model", net.op("Tanh", "y", net.op("PastValue", "p", x, dims=(2,))))
    assert placeholders(values) == []


@pytest.mark.parametrize("widened", [False, True])
def test_numbers_in_loops(widened: bool, tmp_path: Path) -> None:
    """A number has no axes there, but if something needs the one that it has here."""
    net = Net()
    x = net.input("x", 2)
    past = net.op("PastValue", "past", x, dims=(1,))
    total = net.op(
        "Plus", "sum", net.op("ReduceElements", "r", x, axis=0, keep_dimensions=False, reduction_op="Sum"), past
    )
    past.inputs[0] = total
    root = net.op("RowStack", "both", total, total) if widened else net.op("Tanh", "t", total)
    values = net.values(tmp_path / "x.model", root)
    assert [dims for _, dims, _ in placeholders(values)] == [(1,) if widened else ()]
    same_values(net, tmp_path / "x.model", {"x": [np.ones((4, 2), np.float32)]}, root.name)


# -- attributes ---------------------------------------------------------------------------------------------


def test_every_function_of_chance_has_a_seed_of_its_own(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", 2)
    for index in range(4):
        x = net.op("Dropout", f"d{index}", x, dropout_rate=0.5)
    values = net.values(tmp_path / "x.model", x)
    seeds = [int(each["attributes"]["rngSeed"]) - 2**31 for each in values["primitive_functions"]]
    assert seeds == sorted(set(seeds))
    assert all(0 <= seed < 100 for seed in seeds)


@pytest.mark.parametrize(
    ("matrix", "shape", "found"),
    [((4, 3), (3,), ["Times"]), ((4, 6), (2, 3), ["Reshape", "Times"])],
)
def test_products_with_what_has_more_axes(
    matrix: tuple[int, int], shape: tuple[int, ...], found: list[str], tmp_path: Path
) -> None:
    """A matrix times what has its columns in several axes: there they are one."""
    net = Net()
    w, x = (
        net.parameter("W", *matrix[::-1], value=np.arange(np.prod(matrix)).reshape(matrix[::-1])),
        net.input("x", *shape),
    )
    values = net.values(tmp_path / "x.model", net.op("Times", "y", w, x))
    assert functions(values) == found
    same_values(net, tmp_path / "x.model", {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(1, *shape)}, "y")


def image_net(*shape: int) -> tuple[Net, Node]:
    net = Net()
    return net, net.input("x", *shape)


WINDOW = {"kernel_shape": (2, 2, 3), "map_count": (4,), "stride": (1, 1, 3), "auto_padding": (False,)}


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("groups", [1, 3])
def test_weights_that_are_a_matrix_become_kernels(learned: bool, groups: int, tmp_path: Path) -> None:
    net, x = image_net(3, 4, 5)
    maps = 6
    columns = 2 * 2 * 3 // groups
    w = net.parameter("W", maps, columns, value=np.arange(maps * columns).reshape(maps, columns), learned=learned)
    settings = {**WINDOW, "map_count": (maps,), "groups": groups, "kernel_shape": (2, 2, 3 // groups)}
    root = net.op("Convolution", "y", w, x, **settings)
    values = net.values(tmp_path / "x.model", root)
    (leaf,) = (one for one in values["inputs"] if one["kind"] in (PARAMETER, CONSTANT) and len(one["shape"].dims) == 4)
    assert leaf["name"] == "W"
    assert leaf["kind"] == (PARAMETER if learned else CONSTANT)
    assert leaf["shape"] == NDShape((2, 2, 3 // groups, maps))
    (function,) = values["primitive_functions"]
    assert function["attributes"]["kernelShape"] == NDShape((2, 2, 3 // groups))
    same_values(net, tmp_path / "x.model", {"x": np.arange(60, dtype=np.float32).reshape(1, 3, 4, 5)}, "y")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"map_count": (2, 1, 2)}, "has maps along several axes"),
        ({"computed": True}, "takes its weights as a matrix"),
    ],
)
def test_convolutions_that_are_not_written(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    net, x = image_net(3, 4, 5)
    settings = {**WINDOW, **{key: value for key, value in change.items() if key != "computed"}}
    w: Node = net.parameter("W", 4, 12)
    if change.get("computed"):
        w = net.op("Tanh", "t", w)
    root = net.op("Convolution", "y", w, x, **settings)
    with pytest.raises(UnsupportedError) as caught:
        net.values(tmp_path / "x.model", root)
    assert caught.value.message == f"Convolution 'y' {message}, which is not written"


# -- results ------------------------------------------------------------------------------------------------


def test_the_places_of_the_largest_elements_alone(tmp_path: Path) -> None:
    """They are the second result of their function, whose first one is another output or none."""
    for both in (True, False):
        net = Net()
        x = net.input("x", 5)
        values = net.op("TopK", "v", x, k=2)
        places = net.op("TopK", "i", x, k=2, output="indices")
        roots = [values, places] if both else [places]
        net.values(tmp_path / "x.model", *roots)
        again = load_model(tmp_path / "x.model", find_op)
        assert [one.name for one in again.results] == [root.name for root in roots] if not both else True
        data = {"x": np.array([[3, 1, 5, 2, 4]], np.float32)}
        same = Model(again.network, engine=ReferenceEngine()).evaluate(data, [again.results[-1].node.name])
        np.testing.assert_array_equal(same[again.results[-1].node.name], [[2, 4]])


def test_lines_of_a_network(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", 2)
    net.values(tmp_path / "x.model", net.op("Tanh", "y", x))
    assert lines(load_model(tmp_path / "x.model", find_op).network) == ["y = Tanh(x) [2]"]
