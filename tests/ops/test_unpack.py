"""UnpackSequence: sequences as matrices whose length every minibatch has its own of, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.contract.store import ParameterStore
from cntk_core.errors import CntkError, DataError, ShapeError
from cntk_core.network.model_file import load_model, save_model
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.layouts import sequence_layout, slot_layout
from cntk_core.ops.language.shapes import FREE, Longest, longest_axes, show, with_lengths
from cntk_core.ops.table import core_ops
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_engines.explain import explain
from cntk_kit_recipes.recipe.formatting import with_elements
from cntk_testing.examples import examples
from cntk_testing.gradients import check_gradients
from cntk_testing.reference import ReferenceEngine, ReferenceProgram

TABLE = core_ops()
LENGTHS = st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(any)
DIM = 3


def add(network: Network, name: str, op: str, *inputs: Node, **attributes) -> Node:
    found = TABLE.find("ndl", op)
    return network.add(Node(name, found, inputs=list(inputs), attributes=found.attributes(**attributes)))


def unpacking(**attributes) -> tuple[Network, Node, Node]:
    network = Network(np.float64)
    x = network.add(Input.make("x", (DIM,)))
    return network, x, add(network, "u", "UnpackSequence", x, **attributes)


def values_of(lengths: Sequence[int]) -> list[np.ndarray]:
    return [np.random.default_rng(number).standard_normal((length, DIM)) for number, length in enumerate(lengths)]


def minibatch(lengths: Sequence[int], names: Sequence[str] = ("x",)) -> Minibatch:
    layout, values = sequence_layout(lengths), values_of(lengths)
    rows = [values[number][step] for step in range(layout.steps) for number in layout.order[: layout.alive[step]]]
    data = StreamData(np.array(rows).reshape(-1, DIM), layout)
    return Minibatch(dict.fromkeys(names, data), layout.frames)


def program(network: Network, *names: str) -> ReferenceProgram:
    plan = make_plan(network, [network[name] for name in names])
    return ReferenceEngine().compile(plan, ParameterStore(network.parameters, network.dtype))


class TestValues:
    @examples(30)
    @given(LENGTHS, st.sampled_from([0.0, -1.5]))
    def test_sequences_become_matrices(self, lengths: list[int], padding: float) -> None:
        network, _, u = unpacking(padding_value=padding)
        network.infer()
        assert show(u.known_shape, framed=bool(u.framed)) == "[3 x ? x *]"
        run = program(network, "u")
        run.evaluate(minibatch(lengths))
        found, layout = run.value("u"), run.layout("u")
        assert layout.frames == sum(map(bool, lengths))
        expected = [sequence for sequence in values_of(lengths) if len(sequence)]
        assert found.shape == (len(expected), max(lengths), DIM)
        for matrix, sequence in zip(found, expected, strict=True):
            np.testing.assert_array_equal(matrix[: len(sequence)], sequence)
            assert (matrix[len(sequence) :] == padding).all()

    @examples(20)
    @given(LENGTHS)
    def test_there_and_back(self, lengths: list[int]) -> None:
        network, x, u = unpacking()
        add(network, "same", "ToSequenceLike", u, x)
        ones = add(network, "ones", "UnpackSequence", add(network, "one", "Equal", x, x))
        count = add(network, "sums", "ReduceElements", ones, reduction_op="Sum", axis=2, keep_dimensions=False)
        first = add(network, "count", "Slice", count, begin=0, end=1)
        add(network, "again", "ToSequence", u, first)
        network.infer()
        run = program(network, "same", "again")
        batch = minibatch(lengths)
        run.evaluate(batch)
        np.testing.assert_array_equal(run.value("same"), batch.streams["x"].data)
        assert run.layout("again").lengths[: np.count_nonzero(lengths)].tolist() == sorted(filter(None, lengths))[::-1]
        np.testing.assert_array_equal(run.value("again"), batch.streams["x"].data)

    @examples(10)
    @given(LENGTHS)
    def test_gradients(self, lengths: list[int]) -> None:
        network, _, _ = unpacking()
        x = network["x"]
        weights = network.add(Parameter.make("W", (DIM, DIM), value=np.linspace(-1, 1, DIM * DIM).reshape(DIM, DIM)))
        product = add(network, "product", "UnpackSequence", add(network, "y", "Times", weights, x), padding_value=0.5)
        columns = add(network, "columns", "TransposeDimensions", product, axis1=1, axis2=2)
        total = add(network, "total", "ReduceElements", columns, reduction_op="LogSum", axis=1)
        add(network, "criterion", "SumElements", add(network, "both", "ElementTimes", columns, total))
        network.infer()
        check_gradients(network, network["criterion"], minibatch(lengths))

    def test_cut_sequences(self) -> None:
        network, _, _ = unpacking()
        network.infer()
        layout = slot_layout([[2]], continues=[True])
        with pytest.raises(DataError) as caught:
            program(network, "u").evaluate(Minibatch({"x": StreamData(np.zeros((2, DIM)), layout)}, 2))
        assert str(caught.value) == (
            "UnpackSequence needs whole sequences, and those of this minibatch are cut\n"
            "    Train without truncated=true."
        )

    def test_a_sequence_that_is_longer_than_the_axis(self) -> None:
        network, x, _ = unpacking()
        add(network, "back", "ToSequenceLike", add(network, "two", "Slice", network["u"], begin=0, end=2, axis=2), x)
        network.infer()
        run = program(network, "back")
        run.evaluate(minibatch([2, 1]))
        with pytest.raises(DataError) as caught:
            run.evaluate(minibatch([3, 1]))
        assert str(caught.value) == "ToSequenceLike: a sequence of 3 frames for an axis of 2"

    def test_a_slice_needs_its_frames(self) -> None:
        network, _, u = unpacking()
        add(network, "two", "Slice", u, begin=0, end=2, axis=2)
        network.infer()
        run = program(network, "two")
        run.evaluate(minibatch([2, 1]))
        assert run.value("two").shape == (2, 2, DIM)
        with pytest.raises(DataError) as caught:
            run.evaluate(minibatch([1, 1]))
        assert str(caught.value) == (
            "Slice 'two', in a minibatch whose longest sequence has the length 1: the range 0 to 2 of axis 2 is not "
            "inside [3 x 1]"
        )


class TestShapes:
    def test_numbers(self) -> None:
        longest = Longest("words")
        assert longest == Longest("words") != Longest("")
        assert longest < 0
        assert show((longest, 3)) == "[3 x ?]"
        assert longest_axes((longest, 3, Longest(""))) == {"words", ""}
        assert with_lengths((longest, 3), {"words": 7}) == (7, 3)
        assert with_elements((longest, 3), 12) == (4, 3) == with_elements((FREE, 3), 12)

    def infer(self, build: Callable[[Network, Node, Node], object]) -> Node:
        network, x, u = unpacking()
        build(network, x, u)
        network.infer()
        return list(network)[-1]

    @pytest.mark.parametrize(
        ("build", "shape"),
        [
            (lambda n, x, u: add(n, "s", "Times", n.add(Parameter.make("W", (0, 5))), u), "[5 x ? x *]"),
            (lambda n, x, u: add(n, "s", "RowStack", u, u), "[6 x ? x *]"),
            (lambda n, x, u: add(n, "s", "Slice", u, begin=0, end=2, axis=2), "[3 x 2 x *]"),
            (lambda n, x, u: add(n, "s", "TransposeDimensions", u, axis1=1, axis2=2), "[? x 3 x *]"),
            (lambda n, x, u: add(n, "s", "ReduceElements", u, reduction_op="Max", axis=2), "[3 x 1 x *]"),
            (lambda n, x, u: add(n, "s", "Plus", u, n.add(Parameter.make("b", (1, 3)))), "[3 x ? x *]"),
            (lambda n, x, u: add(n, "s", "Softmax", u), "[3 x ? x *]"),
            (lambda n, x, u: add(n, "s", "ToSequence", u), "[3 x *]"),
            (lambda n, x, u: add(n, "s", "SumElements", u), "[1]"),
        ],
    )
    def test_what_can_be_done_with_it(self, build: Callable[[Network, Node, Node], object], shape: str) -> None:
        node = self.infer(build)
        assert show(node.known_shape, framed=bool(node.framed)) == shape

    @pytest.mark.parametrize(
        ("build", "text"),
        [
            (
                lambda n, x, u: add(n, "s", "Plus", u, n.add(Parameter.make("W", (4, 3)))),
                "Plus 's': the shapes [3 x ?] and [3 x 4] do not fit: axis 2 is 4 and ?\n"
                "    Inputs: u [3 x ?], W [3 x 4]",
            ),
            (
                lambda n, x, u: add(n, "s", "Plus", u, n.add(Parameter.make("W", (0, 3)))),
                "Plus 's': a parameter would be as long as the longest sequence of a minibatch\n"
                "    Parameters have fixed dimensions: give them, or multiply along another axis.",
            ),
            (
                lambda n, x, u: add(n, "s", "Reshape", u, dims=(0,)),
                "Reshape 's': its dimensions would depend on the longest sequence of a minibatch in a way that it "
                "cannot\n    Inputs: u [3 x ?]",
            ),
            (
                lambda n, x, u: add(n, "s", "Slice", u, begin=0, end=-1, axis=2),
                "Slice 's': its dimensions would depend on the longest sequence of a minibatch in a way that it "
                "cannot\n    Inputs: u [3 x ?]",
            ),
        ],
    )
    def test_what_cannot(self, build: Callable[[Network, Node, Node], object], text: str) -> None:
        with pytest.raises(ShapeError) as caught:
            self.infer(build)
        assert str(caught.value) == text

    def test_sequences_of_different_axes(self) -> None:
        network, _, u = unpacking()
        other = add(network, "v", "UnpackSequence", network.add(Input.make("y", (DIM,), axis="other")))
        add(network, "s", "Plus", u, other)
        with pytest.raises(ShapeError, match=r"the shapes \[3 x \?\] and \[3 x \?\] do not fit"):
            network.infer()

    def test_not_inside_a_loop(self) -> None:
        network = Network(np.float64)
        x = network.add(Input.make("x", (DIM,)))
        past = add(network, "past", "PastValue", dims=(DIM,), time_step=1)
        u = add(network, "u", "UnpackSequence", past)
        past.inputs = [add(network, "h", "Plus", x, add(network, "back", "ToSequenceLike", u, x))]
        network.infer()
        with pytest.raises(
            CntkError, match=r"'u' \(UnpackSequence\) cannot be in the loop of .*: it needs whole sequences"
        ):
            make_plan(network, [network["h"]])

    def test_explained(self) -> None:
        network, _, u = unpacking()
        add(network, "t", "Tanh", u)
        network.infer()
        text = explain(make_plan(network, [network["t"]]), frames=4)
        assert "Tanh t [3 x ? x *] -> t in storage of its own" in text

    def test_model_files(self, tmp_path: Path) -> None:
        network, _, u = unpacking(padding_value=2.0)
        add(network, "t", "Tanh", u)
        network.infer()
        save_model(network, tmp_path / "model")
        loaded = load_model(tmp_path / "model", TABLE.find)
        assert loaded["t"].known_shape == network["t"].known_shape
        assert show(loaded["t"].known_shape) == "[3 x ?]"
        assert loaded["u"].attributes.padding_value == 2.0
