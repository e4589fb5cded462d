"""The checks of gradients and of the contract of ops notice what is wrong."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from sample_networks import classifier, minibatch

from cntk_core.ops.language.define import define_op, elementwise_op
from cntk_testing.gradients import check_gradients, check_op_gradients, numeric_gradient
from cntk_testing.op_cases import OpExample
from cntk_testing.op_contract import OpContract, check_op


@pytest.mark.parametrize("fuse", [True, False])
def test_a_network_keeps_its_gradients(fuse):
    network, criterion = classifier()
    check_gradients(network, criterion, minibatch(), fuse=fuse)


def test_a_wrong_gradient_in_a_network_is_noticed():
    network, criterion = classifier()
    wrong = elementwise_op("Wrong", gradient=lambda m, a, g, y, x: g * y)(lambda m, a, x: m.sigmoid(x))
    network["h"].op = wrong
    with pytest.raises(AssertionError, match="gradient of 'W0': relative error"):
        check_gradients(network, criterion, minibatch())


def test_numeric_gradient_restores_the_values():
    values = np.array([[1.0, 2.0]])
    found = numeric_gradient(lambda: float(np.sum(values**3)), values)
    np.testing.assert_allclose(found, [[3.0, 12.0]], rtol=1e-8)
    np.testing.assert_array_equal(values, [[1.0, 2.0]])


SQUARE = elementwise_op("Square", gradient=lambda m, a, g, y, x: 2.0 * g * x)(lambda m, a, x: x * x)
EXAMPLES = (OpExample(((3,),)),)


class TestSquare(OpContract):
    op = SQUARE
    examples = EXAMPLES


def same(shapes, attributes):
    return shapes[0]


def general(forward, infer=same, gradient=None, **fields):
    back = gradient or (lambda xp, g, y, inputs, attributes, context, needs: (g,))
    return define_op("Bad", infer=infer, gradient=back, **fields)(forward)


def test_a_wrong_gradient_of_an_op_is_noticed():
    wrong = elementwise_op("Bad", gradient=lambda m, a, g, y, x: g)(lambda m, a, x: x * x)
    with pytest.raises(AssertionError, match="gradient of Bad to input 0: relative error"):
        check_op_gradients(wrong, [np.ones((2, 3))], [True])


def test_a_wrong_shape_rule_is_noticed():
    bad = general(lambda xp, inputs, attributes, context: inputs[0], infer=lambda shapes, attributes: (7,))
    with pytest.raises(AssertionError, match=r"Bad of \(\(3,\),\): \(3, 3\) instead of \(3, 7\)"):
        check_op(bad, *EXAMPLES)


def test_a_change_of_precision_is_noticed():
    bad = general(lambda xp, inputs, attributes, context: inputs[0].astype(xp.float64))
    with pytest.raises(AssertionError, match="Bad of float32 gives float64"):
        check_op(bad, *EXAMPLES)


def test_a_hidden_nan_is_noticed():
    bad = general(lambda xp, inputs, attributes, context: xp.nan_to_num(inputs[0]))
    with pytest.raises(AssertionError, match="Bad hides a NaN in input 0"):
        check_op(bad, *EXAMPLES)


def test_an_array_function_in_an_expression_is_noticed():
    bad = elementwise_op("Bad", gradient=lambda m, a, g, y, x: g * np.cos(x))(lambda m, a, x: m.sin(x))
    with pytest.raises(TypeError):
        check_op(bad, *EXAMPLES)


def test_a_decision_on_values_is_noticed():
    bad = elementwise_op("Bad")(lambda m, a, x: x if np.all(x == 3.0) else -x)
    check = OpExample(((1,),), values={0: 3.0}, nan=())
    with pytest.raises(AssertionError):
        check_op(bad, check)


def test_a_changed_input_is_noticed():
    def forward(xp, inputs, attributes, context):
        inputs[0][...] = 0.0
        return inputs[0]

    with pytest.raises(AssertionError):
        check_op(general(forward, gradient=lambda xp, g, *rest: (0.0 * g,)), *EXAMPLES)


def test_reading_what_may_be_overwritten_is_noticed():
    bad = general(
        lambda xp, inputs, attributes, context: inputs[0] * inputs[0],
        gradient=lambda xp, g, y, inputs, attributes, context, needs: (2.0 * g * inputs[0],),
        reads_inputs=False,
    )
    with pytest.raises(AssertionError, match="Bad reads more than it says"):
        check_op(bad, *EXAMPLES)
    check_op(attrs.evolve(bad, reads_inputs=True), *EXAMPLES)
