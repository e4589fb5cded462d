"""Arrays become minibatches, and values come back in the form in which they were given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

from cntk_core.errors import DataError
from cntk_core.model import Model, one_hot
from cntk_core.network.network import Network
from cntk_core.network.node import BATCH, Input, Node
from cntk_core.ops.families.recurrence import PAST_VALUE, DelayAttributes
from cntk_core.ops.language.op import Op
from cntk_core.ops.language.shapes import FREE
from cntk_core.ops.language.traits import Traits
from cntk_core.ops.table import core_op
from cntk_core.plan.arrays import looked_along, take_arrays
from cntk_core.plan.make import make_plan
from cntk_testing import ReferenceEngine


class Engines:
    """Gives the reference engine alone."""

    class Registry:
        class kernels:
            @staticmethod
            def of(engine: Any) -> tuple[()]:
                return ()

    registry = Registry

    @staticmethod
    def engine(name: str) -> type[ReferenceEngine]:
        return ReferenceEngine


def model(*inputs: Input, delayed: bool = False) -> Model:
    """A model with an output for each input: ``x`` itself with a name, or what it was a step before."""
    network = Network(np.float64)
    for node in inputs:
        network.add(node)
        passed = network.add(Node(f"{node.name}.out", core_op("Pass"), [node]))
        if delayed:
            passed = network.add(Node(f"{node.name}.past", PAST_VALUE, [passed], DelayAttributes((), 1, 0.0)))
        network.mark(passed, "output")
    network.infer()
    return Model(network, plugins=Engines())  # type: ignore[arg-type]


def value(made: Model, data: Any) -> Any:
    (found,) = made.evaluate(data).values()
    return found


def assert_sequences(found: Any, expected: Any) -> None:
    assert isinstance(found, list)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


IMAGES = np.arange(24.0).reshape(2, 3, 2, 2)


def test_a_batch_of_images_is_one_array():
    for axis in (BATCH, "", "frames"):
        made = model(Input.make("x", (3, 2, 2), axis=axis))
        np.testing.assert_array_equal(value(made, {"X": IMAGES}), IMAGES)
        np.testing.assert_array_equal(value(made, IMAGES), IMAGES)
        np.testing.assert_array_equal(value(made, list(IMAGES)), IMAGES)
        np.testing.assert_array_equal(value(made, IMAGES.reshape(2, 12)), IMAGES)
        np.testing.assert_array_equal(value(made, IMAGES.tolist()), IMAGES)


def test_sequences_come_back_as_a_list():
    made = model(Input.make("x", (2,)), delayed=True)
    before = [np.array([[0.0, 0], [1, 2]]), np.array([[0.0, 0], [5, 6]])]
    equal = np.array([[[1.0, 2], [3, 4]], [[5, 6], [7, 8]]])
    assert_sequences(value(made, equal), before)
    assert_sequences(value(made, list(equal)), before)
    assert_sequences(value(made, equal.tolist()), before)
    assert_sequences(value(made, [equal[0], equal[1][:1]]), [before[0], before[1][:1]])


def test_samples_are_no_sequences():
    with pytest.raises(DataError) as error:
        model(Input.make("x", (2,)), delayed=True).evaluate(np.zeros((5, 2)))
    assert str(error.value) == (
        "the input 'x' is given as 5 samples, but PastValue 'x.past' looks along sequences\n"
        "    Give a list of sequences, each (frames, 2), or one array (sequences, frames, 2)."
    )


def test_single_numbers():
    made = model(Input.make("x", (1,)))
    np.testing.assert_array_equal(value(made, [1.0, 2.0, 3.0]), [[1], [2], [3]])
    np.testing.assert_array_equal(value(made, np.array([[1], [2]])), [[1], [2]])
    assert_sequences(value(made, [[1.0, 2.0], [3.0]]), [[[1], [2]], [[3]]])
    assert_sequences(value(made, np.array([[1.0, 2.0], [3.0, 4.0]])), [[[1], [2]], [[3], [4]]])


def test_whole_numbers_are_numbers_unless_one_hot_is_asked_for():
    for axis in ("", BATCH):
        made = model(Input.make("x", (4,), axis=axis))
        np.testing.assert_array_equal(value(made, [[0, 1, 2, 3]]), [[0, 1, 2, 3]])
        np.testing.assert_array_equal(value(made, one_hot([3, 0])), np.eye(4)[[3, 0]])
    made = model(Input.make("x", (2, 2)))
    assert_sequences(
        value(made, one_hot([[3], [0, 1]])), [np.eye(4)[[3]].reshape(1, 2, 2), np.eye(4)[:2].reshape(2, 2, 2)]
    )


def test_sparse_inputs():
    rows = np.eye(4)[[3, 1]]
    for axis in ("", BATCH):
        made = model(Input.make("x", (4,), sparse=True, axis=axis))
        for given in (rows, csr_array(rows), csr_matrix(rows), [3, 1], np.array([3, 1]), one_hot([3, 1])):
            np.testing.assert_array_equal(value(made, given), rows)
    made = model(Input.make("x", (4,), sparse=True))
    for several in ([[3], [1, 1]], [rows[:1], rows[[1, 1]]], [csr_array(rows[:1]), csr_array(rows[[1, 1]])]):
        assert_sequences(value(made, several), [rows[:1], rows[[1, 1]]])
    assert_sequences(value(made, np.array([[3, 1], [1, 1]])), [rows, rows[[1, 1]]])
    assert_sequences(value(made, [[3, 1, 3, 1]]), [rows[[0, 1, 0, 1]]])


def test_an_array_that_may_mean_two_things_is_refused():
    with pytest.raises(DataError) as error:
        model(Input.make("x", (2,), sparse=True)).evaluate(np.array([[0, 1], [1, 0], [1, 1]]))
    assert str(error.value) == (
        "whole numbers of the shape (3, 2) for the input 'x' may be samples or numbers of one-hot elements\n"
        "    Give samples as floating-point numbers, or say one_hot."
    )


def test_a_value_for_the_whole_minibatch():
    made = model(Input.make("scale", (2,), framed=False), Input.make("x", (2,)))
    found = made.evaluate({"scale": [1, 2], "x": np.ones((3, 2))})
    np.testing.assert_array_equal(found["scale.out"], [1, 2])
    np.testing.assert_array_equal(found["x.out"], np.ones((3, 2)))


def test_leaves_and_constant_expressions_have_values():
    network = Network(np.float64)
    x = network.add(Input.make("x", (2,)))
    scale = network.add(Input.make("scale", (2,), framed=False))
    network.add(Node("twice", core_op("Plus"), [scale, scale]))
    network.infer()
    made = Model(network, plugins=Engines())  # type: ignore[arg-type]
    np.testing.assert_array_equal(made.evaluate([1, 2], ["twice"])["twice"], [2, 4])
    np.testing.assert_array_equal(made.evaluate(np.ones((3, 2)), [x.name])["x"], np.ones((3, 2)))


def test_free_dimensions_take_the_sizes_of_the_array():
    made = model(Input.make("x", (2, FREE)))
    for size in (1, 4):
        array = np.arange(6.0 * size).reshape(3, 2, size)
        np.testing.assert_array_equal(value(made, array), array)
    ragged = [np.ones((1, 2, 3)), np.ones((2, 2, 3))]
    assert_sequences(value(made, ragged), ragged)


BATCHED, FRAMED = (
    "It takes one array (samples, 3, 2).",
    "It takes one array (samples, 3, 2) or a list of sequences, each (frames, 3, 2).",
)
SAMPLE = "A sample is [2 x 3], in memory (3, 2)."


@pytest.mark.parametrize(
    ("made", "data", "message"),
    [
        (
            Input.make("x", (3, 2), axis=BATCH),
            np.zeros((4, 2, 3)),
            f"the input 'x' has the shape (4, 2, 3)\n{SAMPLE}\n{BATCHED}",
        ),
        (Input.make("x", (3, 2)), np.zeros((4, 2, 3)), f"the input 'x' has the shape (4, 2, 3)\n{SAMPLE}\n{FRAMED}"),
        (
            Input.make("x", (3, 2), axis=BATCH),
            [np.zeros((3, 2)), np.zeros((3, 1))],
            f"the input 'x' is given values of the shapes (3, 2) and (3, 1)\n{SAMPLE}\n{BATCHED}",
        ),
        (
            Input.make("x", (3, 2)),
            [np.zeros((5, 3, 2)), np.zeros((1, 3, 1))],
            f"a sequence of the input 'x' has the shape (1, 3, 1)\n{SAMPLE}\n{FRAMED}",
        ),
        (
            Input.make("x", (3, 2), framed=False),
            np.zeros((1, 3, 2)),
            f"the input 'x' has the shape (1, 3, 2)\n{SAMPLE}\nIt takes one array of this shape.",
        ),
        (Input.make("x", (3, 2)), {1, 2}, f"the input 'x' is given a set, not an array\n{SAMPLE}\n{FRAMED}"),
        (Input.make("x", (3, 2)), 3.0, f"the input 'x' has the shape ()\n{SAMPLE}\n{FRAMED}"),
        (Input.make("x", (3, 2)), [], "no sequences are given for the input 'x'"),
        (Input.make("x", (3, 2)), ["a", "b"], "the input 'x' is given values of the type <U1, not numbers"),
        (
            Input.make("x", (3,)),
            one_hot([0.5]),
            "the input 'x' is given values of the type float64, not whole numbers, which one_hot wants",
        ),
        (
            Input.make("x", (FREE,)),
            np.zeros((2, 0)),
            "the input 'x' has the shape (2, 0)\nA sample is [?], in memory (?).\n"
            "It takes one array (samples, ?) or a list of sequences, each (frames, ?).",
        ),
        (
            Input.make("x", (FREE,)),
            one_hot([1]),
            "the input 'x' is given one-hot samples, but how many elements there are is not known\n"
            "A sample is [?], in memory (?).\n"
            "It takes one array (samples, ?) or a list of sequences, each (frames, ?).",
        ),
        (Input.make("x", (3,)), one_hot([0, 3]), "the input 'x' has elements 0 to 2; given are 0 to 3"),
        (
            Input.make("x", (2, FREE), axis="s"),
            [np.zeros((1, 2, 3)), np.zeros((1, 2, 4))],
            "the input 'x' is given sequences of samples (2, 3) and (2, 4); in a minibatch all have one size\n"
            "A sample is [? x 2], in memory (2, ?).\n"
            "It takes one array (samples, 2, ?) or a list of sequences, each (frames, 2, ?).",
        ),
    ],
)
def test_mistakes(made: Input, data: Any, message: str) -> None:
    with pytest.raises(DataError) as error:
        model(made).evaluate(data)
    assert str(error.value) == message.replace("\n", "\n    ")


def test_mistakes_in_several_inputs():
    made = model(Input.make("first", (1,)), Input.make("second", (1,)), Input.make("third", (1,), axis=BATCH))
    good = {"first": [[1.0, 2.0]], "second": [[3.0, 4.0]], "third": [5.0]}
    assert_sequences(made.evaluate(good)["second.out"], [[[3], [4]]])
    for data, message in (
        (
            [1.0],
            "one array was given without a name\n    The inputs are 'first', 'second', 'third': give {name: array}.",
        ),
        (
            {"first": [1.0], "thirds": [1.0], "second": [1.0]},
            "there are no values for the input 'third'; did you mean 'thirds'?\n    Given: first, thirds, second",
        ),
        (
            {**good, "second": [[3.0]]},
            "the sequences of 'first' and 'second' have different lengths: [2] and [1]",
        ),
        (
            {**good, "third": [1.0, 2.0]},
            "the inputs differ in the number of samples or sequences: 'first' has 1, 'third' has 2",
        ),
    ):
        with pytest.raises(DataError) as error:
            made.evaluate(data)
        assert str(error.value) == message


def test_dense_arrays_for_sparse_inputs_are_looked_at_each_time():
    made = model(Input.make("x", (3,), sparse=True))
    plan = make_plan(made.network, made.network.roots["output"])
    for factor in (1.0, 2.0):
        stream = take_arrays(plan, {"x": factor * np.eye(3)}).minibatch.streams["x"]
        assert stream.sparse
        assert stream.data.toarray().tolist() == (factor * np.eye(3)).tolist()


def test_what_looks_along_sequences_by_axis():
    words, samples = Input.make("w", (1,), axis="text"), Input.make("s", (1,), axis=BATCH)
    made = model(words, samples, delayed=False)
    network = made.network
    roots = list(network.roots["output"])
    assert looked_along(make_plan(network, roots)) == {}
    begins = network.add(Node("begins", PAST_VALUE, [words, samples], DelayAttributes((), 1, 0.0)))
    network.infer()
    assert looked_along(make_plan(network, [*roots, begins])) == {"text": begins}


def alike(count: int) -> dict[str, dict[str, Any]]:
    """Return minibatches of the inputs ``x`` (3) and ``y`` (2, 2), each given in another way."""
    x, y = np.arange(3.0 * count).reshape(count, 3) + 1, np.arange(4.0 * count).reshape(count, 2, 2) - 1
    return {
        "plain": {"x": x, "y": y},
        "other numbers": {"x": -x, "y": y + 7},
        "other order": {"y": y, "x": x},
        "other names": {"X": x, "Y": y},
        "both names": {"x": -x, "X": x, "y": y},
        "more names": {"x": x, "z": y, "y": y},
        "single precision": {"x": x.astype(np.float32), "y": y},
        "whole numbers": {"x": x.astype(np.int64), "y": y > 2},
        "columns first": {"x": np.asfortranarray(x), "y": y[::-1]},
        "rows": {"x": x, "y": y.reshape(count, 4)},
        "lists": {"x": x.tolist(), "y": y},
        "sparse": {"x": csr_array(x), "y": y},
        "a subclass": {"x": np.ma.masked_array(x), "y": y},
    }


KINDS = list(alike(4))


def two_inputs(*, axis: str = "") -> Any:
    made = model(Input.make("x", (3,), axis=axis), Input.make("y", (2, 2), axis=axis))
    return make_plan(made.network, made.network.roots["output"])


@pytest.mark.parametrize("axis", ["", BATCH])
def test_what_is_remembered_of_the_arrays_before_changes_nothing(axis):
    known, given = two_inputs(axis=axis), {count: alike(count) for count in (4, 2)}
    expected = {
        (now, count): take_arrays(two_inputs(axis=axis), given[count][now]) for now in KINDS for count in (4, 2)
    }
    for before in KINDS:
        for now in KINDS:
            take_arrays(known, given[4][before])
            for count in (4, 2):
                found = take_arrays(known, given[count][now])
                fresh = expected[now, count]
                assert (found.flat, found.minibatch.samples) == (fresh.flat, fresh.minibatch.samples)
                assert list(found.minibatch.streams) == list(fresh.minibatch.streams)
                for name, stream in fresh.minibatch.streams.items():
                    one = found.minibatch.streams[name]
                    assert (one.data.dtype, one.layout) == (stream.data.dtype, stream.layout)
                    np.testing.assert_array_equal(one.data, stream.data)


def test_sequences_after_samples_of_their_shape():
    plan = two_inputs()
    steps = {"x": np.ones((4, 2, 3)), "y": np.ones((4, 2, 2, 2))}
    assert take_arrays(plan, alike(4)["plain"]).flat == {""}
    for _ in range(2):
        taken = take_arrays(plan, steps)
        assert (taken.flat, taken.minibatch.samples) == (set(), 8)
    assert take_arrays(plan, alike(4)["plain"]).flat == {""}


def test_arrays_as_those_before_are_not_copied():
    plan, data = two_inputs(), alike(4)["plain"]
    for _ in range(3):
        streams = take_arrays(plan, data).minibatch.streams
        assert all(np.shares_memory(streams[name].data, data[name]) for name in data)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"x": np.ones((4, 2)), "y": np.ones((4, 2, 2))}, "the input 'x' has the shape (4, 2)"),
        ({"x": np.ones((4, 3)), "y": np.ones((3, 2, 2))}, "the sequences of 'x' and 'y' have different lengths"),
        (
            {"x": np.ones((4, 3), complex), "y": np.ones((4, 2, 2))},
            "the input 'x' is given values of the type complex128",
        ),
        ({"x": np.ones((4, 3)), "w": np.ones((4, 2, 2))}, "there are no values for the input 'y'"),
    ],
)
def test_a_mistake_after_a_good_minibatch(data, told):
    plan = two_inputs()
    for _ in range(2):
        take_arrays(plan, alike(4)["plain"])
        with pytest.raises(DataError) as error:
            take_arrays(plan, data)
        assert str(error.value).startswith(told)
        with pytest.raises(DataError) as fresh:
            take_arrays(two_inputs(), data)
        assert str(error.value) == str(fresh.value)


@pytest.mark.parametrize("through", [True, False])
def test_the_axis_of_a_result_is_looked_along(through):
    """Unless the op only hands its first input on, with the sequences of another one."""
    network = Network()
    x, y = (network.add(Input.make(name, (2,), axis=name)) for name in "xy")
    traits = Traits(passes_through=through)
    op = Op("Own", (2, 2), lambda shapes, _: (2,), forward=lambda *_: None, axis_of=1, traits=traits)
    node = network.add(Node("own", op, [x, y]))
    network.infer()
    assert looked_along(make_plan(network, [node])) == ({} if through else {"y": node})
