"""Functions in Python as ops: shapes, fields, what they have to give."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from cntk_core.api import PluginError, ShapeError, UsageError, register, unregister
from cntk_core.api.builders import UserFunction, op_of
from cntk_core.errors import WrongResult
from cntk_core.ops.families.outputs import first_rows
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.layouts import slot_layout
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.language.rows import sequence_rows
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.registering import registrations_kept
from cntk_testing.op_cases import OpExample
from cntk_testing.op_contract import check_op


class Clipped(UserFunction):
    """x with its gradient limited."""

    limit: float = 0.5
    words: tuple[str, ...] = ()

    def forward(self, context, x):
        """Return x."""
        return x

    def backward(self, context, gradient):
        """Limit the gradient."""
        return np.clip(gradient, -self.limit, self.limit)


class Product(UserFunction):
    """A product with weights that have no frames, and its square."""

    outputs = ("product", "square")

    def infer_outputs(self, x, weights):
        if x != weights:
            raise ShapeError("the inputs differ")
        return x, list(x)

    def forward(self, context, x, weights):
        context.saved["arrays"] = np.array(x), np.array(weights)
        return x * weights, (x * weights) ** 2

    def backward(self, context, product, square):
        x, weights = context.saved["arrays"]
        total = product + 2 * square * x * weights
        return [total * weights, np.sum(total * x, axis=0)]


class Total(UserFunction):
    """Sum over all frames."""

    reduces_frames = True

    def infer_outputs(self, *shapes):
        return (1,)

    def forward(self, context, *inputs):
        return [sum(np.sum(each) for each in inputs)]


def test_the_contract_of_ops_is_kept():
    check_op(op_of(Product), OpExample(((4,), (4,)), framed=(True, False)))
    check_op(op_of(Total), OpExample(((4,), (2,)), framed=(True, True), nan=(0, 1)))


def test_a_class_is_one_op_with_its_fields():
    op = op_of(Clipped)
    assert op is op_of(Clipped)
    assert op is Clipped.as_op()
    assert (op.name, op.arity, op.doc, op.random) == ("Clipped", (1, 1), "x with its gradient limited.", True)
    assert op.attributes(limit=2.0).limit == 2.0
    assert not op.outputs
    assert op_of(Total).arity == (1, None)
    assert not op_of(Total).flows_to(0)
    assert list(op_of(Product).outputs) == ["product", "square"]


def test_the_gradient_is_what_backward_says():
    x = np.array([[1.0, -2.0]])
    gradient = run_gradient(op_of(Clipped), np, 3 * x, x, [x], Clipped(2.5), OpContext((True,), 1), [True])[0]
    assert gradient is not None
    assert gradient.tolist() == [[2.5, -2.5]]


def test_outputs_are_brought_to_the_precision_of_the_inputs():
    x = np.ones((2, 1), np.float32)
    found = run_forward(op_of(Total), np, [x], Total(), OpContext((True,), 2))
    assert (found.dtype, found.tolist()) == (np.float32, [2.0])


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ((3,), "returned (3,), not a tuple of as many shapes as outputs"),
        (((3,),), "returned ((3,),), not a tuple of as many shapes as outputs"),
        (((3,), 4), "returned ((3,), 4), not a tuple of as many shapes as outputs"),
        (None, "returned None, not a tuple of as many shapes as outputs"),
    ],
    ids=["one shape", "too few", "a number", "nothing"],
)
def test_shapes_of_several_outputs_are_a_tuple(shapes, message):
    class Wrong(UserFunction):
        outputs = ("first", "second")

        def infer_outputs(self, x):
            return shapes

        def forward(self, context, x):
            return x, x

    with pytest.raises(WrongResult) as caught:
        op_of(Wrong).infer([(3,)], Wrong())
    assert caught.value.message == message


def test_the_shape_of_one_output_is_a_shape():
    class Wrong(UserFunction):
        def infer_outputs(self, x):
            return 3

        def forward(self, context, x):
            return x

    with pytest.raises(WrongResult) as caught:
        op_of(Wrong).infer([(3,)], Wrong())
    assert caught.value.message == "returned 3, not a shape"


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.zeros(3), "returned an array (3,) as output 'output', which has to be (2, 3)"),
        (None, "returned an array () as output 'output', which has to be (2, 3)"),
        ("text", "returned a str as output 'output', not an array"),
    ],
    ids=["another shape", "nothing", "text"],
)
def test_what_is_no_output_is_refused(result, message):
    class Wrong(UserFunction):
        def forward(self, context, x):
            return result

    with pytest.raises(WrongResult) as caught:
        run_forward(op_of(Wrong), np, [np.zeros((2, 3))], Wrong(), OpContext((True,), 2))
    assert caught.value.message == message
    assert caught.value.function is Wrong.forward


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.zeros((2, 3)), "returned no tuple of 2 gradients, one for each input"),
        ((np.zeros((2, 3)),), "returned no tuple of 2 gradients, one for each input"),
        (
            (np.zeros((2, 3)), np.zeros((2, 3))),
            "returned an array (2, 3) as gradient by input 2, which has to be (3,)",
        ),
    ],
    ids=["an array", "too few", "not summed over frames"],
)
def test_what_are_no_gradients_are_refused(result, message):
    class Wrong(UserFunction):
        def forward(self, context, x, y):
            return x

        def backward(self, context, gradient):
            return result

    x, y = np.zeros((2, 3)), np.zeros(3)
    with pytest.raises(WrongResult) as caught:
        run_gradient(op_of(Wrong), np, x, x, [x, y], Wrong(), OpContext((True, False), 2), [True, True])
    assert caught.value.message == message
    assert caught.value.function is Wrong.backward


def test_several_outputs_are_a_tuple():
    class Wrong(UserFunction):
        outputs = ("first", "second")

        def forward(self, context, x):
            return (x,)

    with pytest.raises(WrongResult) as caught:
        run_forward(op_of(Wrong), np, [np.zeros((2, 3))], Wrong(), OpContext((True,), 2))
    assert caught.value.message == "returned no tuple of 2 arrays"


def test_inputs_are_given_by_their_order():
    class Wrong(UserFunction):
        def forward(self, context, *, x):
            return x

    with pytest.raises(PluginError) as caught:
        op_of(Wrong)
    assert str(caught.value) == (
        "Wrong.forward takes no inputs that could be given by their order\n"
        "    Write def forward(self, context, x), or with several inputs def forward(self, context, x, y)."
    )


def test_a_class_can_be_registered():
    with registrations_kept():
        register(Clipped)
        assert PluginManager().registry.ops.find("model", "clipped") is op_of(Clipped)
        unregister(Clipped)
        assert PluginManager().registry.ops.find("model", "clipped") is None


def test_an_abstract_class_is_no_op():
    with registrations_kept(), pytest.raises(UsageError, match="cannot be registered"):
        register(UserFunction)


class Lengths(UserFunction):
    """How long each sequence is."""

    outputs = ("lengths",)
    output_axes: ClassVar = {"lengths": "sequence"}

    def infer_outputs(self, x):
        return (1,)

    def forward(self, context, x):
        """Count the frames."""
        found = self.sequences_of(context, x)
        np.testing.assert_array_equal(self.frames_of(context, found), x)
        return np.array([[len(one)] for one in found])


def test_sequences_come_in_the_readers_order_also_where_they_share_a_slot():
    layout = slot_layout([[2, 1], [4]])
    own = sequence_rows(layout)
    numbers = np.stack([own.number, own.step - own.first], axis=1).astype(np.float64)
    context = OpContext((True,), layout.frames, layout=layout, layouts=(layout,))
    found = Lengths.sequences_of(context, numbers)
    lengths = [len(one) for one in found]
    assert sorted(lengths) == [1, 2, 4]
    for number, (one, length) in enumerate(zip(found, lengths, strict=True)):
        assert one.tolist() == [[number, step] for step in range(length)]
    value = run_forward(op_of(Lengths), np, [numbers], Lengths(), context)
    assert value[first_rows(layout)].ravel().tolist() == lengths
    assert value.sum() == 7


def test_axes_of_outputs_that_make_no_sense_are_refused():
    class Unknown(Lengths):
        output_axes: ClassVar = {"length": "sequence"}

    class Twice(Lengths):
        reduces_frames = True

    with pytest.raises(PluginError, match="Unknown has no output 'length', which its output_axes name"):
        op_of(Unknown)
    with pytest.raises(PluginError, match="Twice has output_axes and reduces_frames"):
        op_of(Twice)


def test_a_value_for_each_sequence_has_as_many_rows():
    class Wrong(Lengths):
        def forward(self, context, x):
            return np.zeros((3, 1))

    layout = slot_layout([[2], [1]])
    context = OpContext((True,), 3, layout=layout, layouts=(layout,))
    with pytest.raises(WrongResult, match=r"returned an array \(3, 1\) as output 'lengths', which has to be \(2, 1\)"):
        run_forward(op_of(Wrong), np, [np.zeros((3, 4))], Wrong(), context)
