"""Derivatives as networks: compared with gradients by the reference engine, and second ones with differences."""

from __future__ import annotations

from contextlib import nullcontext, suppress

import numpy as np
import pytest

from cntk_core.contract.store import ParameterStore
from cntk_core.errors import NetworkError, Problems, UnsupportedError
from cntk_core.model import Model
from cntk_core.network.model_file import load_model, save_model
from cntk_core.network.node import Input
from cntk_core.ops.families.convolution import ConvolutionAttributes
from cntk_core.ops.families.dropout import DropoutAttributes
from cntk_core.ops.families.normalization import BatchNormalizationAttributes
from cntk_core.ops.families.outputs import MultiplexerAttributes
from cntk_core.ops.families.pooling import PoolingAttributes
from cntk_core.ops.families.recurrence import DelayAttributes
from cntk_core.ops.families.slicing import SliceAttributes
from cntk_core.ops.table import core_ops
from cntk_core.plan.make import make_plan
from cntk_kit_builders.derivatives.differentiate import derivative_name, differentiate
from cntk_kit_builders.derivatives.find_rule import rule_of
from cntk_kit_builders.draw import to_svg
from cntk_testing.gradients import assert_close, numeric_gradient
from cntk_testing.networks import SAMPLES, Sketch, dropout
from cntk_testing.op_examples import EXAMPLES, MOVES
from cntk_testing.op_networks import cases_together, network_of
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES, SequenceSketch, sequences_for

TABLE = core_ops()
WITH_RULES = sorted(op for op in EXAMPLES if rule_of(TABLE.find("", op)) is not None and TABLE.find("", op).gradient)

PARTLY = {"AveragePooling", "BatchNormalization", "CosDistance", "Dropout", "LookupTable", "Logistic", "MaxPooling"}
"""Ops of which some forms have no rule."""

NETWORKS = (
    "chain",
    "shared",
    "reductions",
    "softmaxes",
    "by_frame",
    "slices",
    "lstm",
    "bidirectional",
    "learned_state",
    "unpacked",
    "looking",
    "remembering",
    "gathered",
    "reduced",
)


def program_of(network, roots, by=()):
    return ReferenceEngine().compile(make_plan(network, roots, by=by), ParameterStore(network.parameters, "float64"))


def leaves_of(network, root):
    order = network.order([root])
    return [node for node in order if not node.inputs and not (isinstance(node, Input) and node.sparse)]


def assert_same_derivatives(network, root, by, data, what):
    """Compare a derivative network with gradients; return it."""
    made = differentiate(network, root, by)
    gradients = program_of(network, [root], by)
    gradients.forward(data, training=False)
    gradients.backward()
    names = [derivative_name(root.name, node.name) for node in by]
    derivatives = program_of(made, [made[name] for name in names])
    derivatives.evaluate(data)
    for node, name in zip(by, names, strict=True):
        assert_close(derivatives.value(name), gradients.gradient(node.name), f"{what} by '{node.name}'", tolerance=1e-9)
    return made


def assert_same_alone(network, root, by, data, together):
    """Compare derivatives by one node, where no other is asked for, with those that were asked for together."""
    names = [derivative_name(root.name, node.name) for node in by]
    expected = program_of(together, [together[name] for name in names])
    expected.evaluate(data)
    for node, name in zip(by if len(by) > 1 else (), names, strict=False):
        made = differentiate(network, root, node)
        assert [each.name for each in made.roots["output"]] == [name]
        alone = program_of(made, [made[name]])
        alone.evaluate(data)
        assert_close(alone.value(name), expected.value(name), f"{name} alone", tolerance=1e-12)


@pytest.mark.parametrize("name", ["unpacked", "looking", "remembering", "gathered"])
def test_each_input_of_what_moves_between_axes_may_be_the_only_one_that_is_asked_for(name):
    sample = SEQUENCE_SAMPLES[name]("float64")
    data = sequences_for(sample, [3, 1])
    moving = [node for node in sample.network.order([sample.criterion]) if node.op.name in MOVES]
    flows = {child: None for node in moving for index, child in enumerate(node.inputs) if node.op.flows_to(index)}
    together = differentiate(sample.network, sample.criterion, list(flows))
    assert_same_alone(sample.network, sample.criterion, list(flows), data, together)


@pytest.mark.parametrize("name", NETWORKS)
def test_derivatives_of_derivatives_are_gradients_of_derivatives(name):
    sample = {**SAMPLES, **SEQUENCE_SAMPLES}[name]("float64")
    data = sequences_for(sample, [3, 1, 2]) if name in SEQUENCE_SAMPLES else sample.minibatch(4)
    root = sample.criterion
    by = [*leaves_of(sample.network, root), next(node for node in sample.network if node.inputs)]
    made = assert_same_derivatives(sample.network, root, by, data, "derivative")
    for node in (by[0], by[-1]):
        first = made[derivative_name(root.name, node.name)]
        leaves = [leaf for leaf in leaves_of(made, first) if not leaf.name.startswith(f"{root.name}.d")]
        if leaves:
            assert_same_derivatives(made, first, leaves, data, "second derivative")


@pytest.mark.parametrize("op", WITH_RULES)
def test_rules_give_the_gradients_of_their_ops(op):
    for cases in cases_together(TABLE.find("", op), EXAMPLES[op]):
        sample, data = network_of(cases, "float64", learned=False)
        for root in sample.roots:
            by = [
                child
                for index, child in enumerate(root.inputs)
                if root.op.flows_to(index) and root.inputs.count(child) == 1
            ]
            refused = suppress(UnsupportedError) if op in PARTLY else nullcontext()
            with refused:
                made = assert_same_derivatives(sample.network, root, by, data, f"derivative of {op}")
                assert_same_alone(sample.network, root, by, data, made)


@pytest.mark.parametrize(
    ("begin", "end", "step"), [(0, 0, 2), (1, 0, 3), (0, 6, -1), (1, 0, -2), (0, 5, -3), (2, 3, 4)]
)
@pytest.mark.parametrize("axis", [1, 2])
def test_every_few_elements(begin, end, step, axis):
    made = Sketch("float64")
    x = made.input("x", 7, 8)
    part = made.op("Slice", x, attributes=SliceAttributes(begin, end, axis, step))
    value = made.op("SumElements", made.op("ElementTimes", part, made.op("Exp", part)), name="value")
    sample = made.finish(None, value)
    made = assert_same_derivatives(sample.network, value, [x], sample.minibatch(3), "derivative")
    assert "Slice" in {node.op.name for node in made}


def test_second_derivatives_agree_with_differences_of_first_ones():
    made = Sketch("float64")
    x, weights = made.input("x", 3), made.parameter("W", 3, 2)
    hidden = made.op("Tanh", made.op("Times", weights, x))
    value = made.op("SumElements", made.op("ElementTimes", hidden, made.op("Exp", hidden)), name="value")
    sample = made.finish(None, value)
    data = sample.minibatch(3)
    slope = differentiate(sample.network, "value", "x")
    squares = slope.add(_squares(slope, "value.by.x"))
    curvature = differentiate(slope, squares, "W")
    found = program_of(curvature, [curvature["penalty.by.W"]])
    found.evaluate(data)
    program = program_of(slope, [squares])

    def penalty():
        program.evaluate(data)
        return float(program.value("penalty")[0])

    expected = numeric_gradient(penalty, program.store.value(slope["W"]))
    assert_close(found.value("penalty.by.W"), expected, "gradient of the penalty")


def _squares(network, name):
    made = Sketch("float64")
    made.network = network
    squared = made.op("ElementTimes", network[name], network[name])
    total = made.op("SumElements", squared, name="penalty")
    network.infer()
    network.remove(total)
    return total


def test_a_convolutional_network():
    made = Sketch("float64")
    image, labels = made.input("image", 2, 5, 6), made.input("labels", 3)
    first = made.op(
        "Convolution", made.parameter("K", 4, 2, 3, 3), image, attributes=ConvolutionAttributes((3, 3), (4,), (2, 2, 2))
    )
    second = made.op(
        "Convolution",
        made.parameter("T", 4, 2, 3, 3),
        made.op("Tanh", first),
        attributes=ConvolutionAttributes((3, 3, 2), (4,), (2, 2, 2), auto_padding=(True, True, False), transpose=True),
    )
    size = int(np.prod(_inferred(made, second)))
    scores = made.op("Times", made.parameter("W", size, 3), made.op("Sigmoid", second))
    sample = made.finish(made.op("CrossEntropyWithSoftmax", labels, scores, name="ce"), one_hot={"labels"})
    by = [sample.network[name] for name in ("image", "K", "T", "W")]
    data = sample.minibatch(3)
    slopes = assert_same_derivatives(sample.network, sample.criterion, by, data, "derivative")
    again = [slopes[name] for name in ("image", "K", "T")]
    assert_same_derivatives(slopes, slopes["ce.by.image"], again, data, "second derivative")
    assert_same_derivatives(slopes, slopes["ce.by.K"], again, data, "second derivative")


def in_training(network, roots, by, data, step=0):
    """Return the values of roots in training and their gradients; what changes by itself stays as it was."""
    program = program_of(network, roots, by)
    program.begin_epoch(0, {"dropoutRate": 0.25}, minibatches_done=step)
    before = program.store.values.copy()
    program.forward(data)
    found = [program.value(root.name) for root in roots]
    program.backward()
    program.store.values[...] = before
    return found, [program.gradient(node.name) for node in by]


def assert_same_in_training(network, root, by, data, what):
    """Compare a derivative network with gradients in training; return it."""
    made = differentiate(network, root, by)
    names = [derivative_name(root.name, node.name) for node in by]
    for step in (0, 7):
        _, gradients = in_training(network, [root], by, data, step)
        found, _ = in_training(made, [made[name] for name in names], [made[node.name] for node in by], data, step)
        for name, ours, wanted in zip(names, found, gradients, strict=True):
            assert_close(ours, wanted, f"{what} {name}", tolerance=1e-9)
    return made


def pooled_image(made):
    """An image that is convolved in groups, normalized, pooled, put back, pooled again and dropped out."""
    image = made.input("image", 4, 6, 6)
    settings = ConvolutionAttributes((3, 3), (4,), groups=2, dilation=2)
    h = made.op("Convolution", made.parameter("K", 4, 2, 3, 3), image, attributes=settings)
    sizes = [(4,)] * 4
    parameters = [made.parameter(name, *size) for name, size in zip(("scale", "bias", "m", "v"), sizes, strict=True)]
    for node, learned in zip(parameters, (1.0, 1.0, 0.0, 0.0), strict=True):
        node.learning_rate_multiplier = learned
    h = made.op("BatchNormalization", h, *parameters, attributes=BatchNormalizationAttributes(True))
    largest = made.op("Pooling", h, attributes=PoolingAttributes((3, 3), stride=(2,)))
    back = made.op("MaxUnpooling", made.op("Tanh", largest), h, attributes=PoolingAttributes((3, 3), stride=(2,)))
    mean = made.op("Pooling", made.op("Exp", back), attributes=PoolingAttributes((2, 2), "average", (2,), (False,)))
    dropped = made.op("Dropout", mean, attributes=DropoutAttributes(seed=5))
    z = made.op("Times", made.parameter("W", 36, 3), made.op("LayerNormalization", dropped))
    return made.op("SumElements", made.op("Tanh", z), name="total")


def test_derivatives_of_images_in_training_and_out_of_it():
    made = Sketch("float64")
    total = pooled_image(made)
    sample = made.finish(None, total)
    sample.network["v"].value[...] = np.abs(sample.network["v"].value) + 0.5
    data, by = sample.minibatch(4), [sample.network[name] for name in ("image", "K", "scale", "bias", "W")]
    assert_same_derivatives(sample.network, total, by, data, "derivative")
    slopes = assert_same_in_training(sample.network, total, by, data, "derivative")
    again = [slopes[name] for name in ("image", "K", "scale")]
    for name in ("total.by.image", "total.by.K", "total.by.scale"):
        assert_same_in_training(slopes, slopes[name], again, data, "second derivative")
        assert_same_derivatives(slopes, slopes[name], again, data, "second derivative")


def test_second_derivatives_of_images_agree_with_differences():
    made = Sketch("float64")
    sample = made.finish(None, pooled_image(made))
    sample.network["v"].value[...] = np.abs(sample.network["v"].value) + 0.5
    data = sample.minibatch(2)
    slope = differentiate(sample.network, "total", "image")
    squares = slope.add(_squares(slope, "total.by.image"))
    curvature = differentiate(slope, squares, ["K", "scale"])
    program = program_of(slope, [squares])

    def penalty():
        program.evaluate(data)
        return float(program.value("penalty")[0])

    for name in ("K", "scale"):
        found = program_of(curvature, [curvature[f"penalty.by.{name}"]])
        found.evaluate(data)
        expected = numeric_gradient(penalty, program.store.value(slope[name]))
        assert_close(found.value(f"penalty.by.{name}"), expected, f"gradient of the penalty by {name}")


def test_outputs_of_one_operation_lie_side_by_side():
    made = Sketch("float64")
    x = made.input("x", 2, 3)
    moments = made.op("BatchMoments", x, made.parameter("m", 6), made.parameter("v", 6))
    parts = [
        made.op("OutputMultiplexer", moments, attributes=MultiplexerAttributes(index), name=f"o{index}")
        for index in range(3)
    ]
    mixed = made.op("ElementTimes", made.op("Exp", parts[0]), made.op("Tanh", parts[1]))
    sample = made.finish(None, made.op("ElementTimes", mixed, parts[2], name="z"))
    data, by = sample.minibatch(5), [sample.network[name] for name in ("x", "o0", "o2")]
    slopes = assert_same_in_training(sample.network, sample.roots[0], by, data, "derivative")
    assert_same_in_training(slopes, slopes["z.by.x"], [slopes["x"]], data, "second derivative")


def _inferred(made, node):
    made.network.infer()
    return node.known_shape


def test_several_steps_and_initial_states():
    made = SequenceSketch("float64")
    back = made.op("PastValue", made.x, made.parameter("begin", 3), attributes=DelayAttributes((3,), 2))
    ahead = made.op("FutureValue", back, made.parameter("end", 1), attributes=DelayAttributes((3,), 1))
    far = made.op("FutureValue", made.op("Exp", ahead), attributes=DelayAttributes((3,), 3, 0.25))
    sample = made.finish(None, made.op("ElementTimes", far, ahead, name="z"))
    by = [sample.network[name] for name in ("x", "begin", "end")]
    data = sequences_for(sample, [5, 1, 3])
    slopes = assert_same_derivatives(sample.network, sample.roots[0], by, data, "derivative")
    assert_same_derivatives(slopes, slopes["z.by.x"], [slopes[node.name] for node in by], data, "second derivative")


def test_the_network_stays_as_it_is_and_the_derivative_has_values_of_its_own():
    sample = SAMPLES["classifier"]("float64")
    before = [(node, list(node.inputs)) for node in sample.network]
    sample.network.mark(sample.criterion, "criterion")
    made = differentiate(sample.network, "ce", ["x", "W0"])
    assert [(node, list(node.inputs)) for node in sample.network] == before
    made["W0"].value[...] = 0.0
    assert sample.network["W0"].value.any()
    assert [node.name for node in made.roots["output"]] == ["ce.by.x", "ce.by.W0"]
    assert [node.name for node in made.roots["criterion"]] == ["ce"]
    assert "err" not in made


def test_the_derivative_has_shapes():
    sample = SAMPLES["shared"]("float64")
    slopes = differentiate(sample.network, "se", "x")
    assert slopes["se.by.x"].known_shape == sample.network["x"].known_shape
    assert all(node.shape is not None for node in slopes)


def test_numbers_of_the_derivative_are_not_learned():
    sample = SAMPLES["shared"]("float64")
    slopes = differentiate(sample.network, "se", "x")
    ours = [node for node in slopes.parameters if node.name not in sample.network]
    assert ours
    assert not any(node.needs_gradient or node.learned for node in ours)


def test_the_derivative_can_be_saved_drawn_and_learned(tmp_path):
    sample = SAMPLES["shared"]("float64")
    slopes = differentiate(sample.network, "se", "x")
    total = slopes.add(_squares(slopes, "se.by.x"))
    path = tmp_path / "slopes.dnn"
    slopes.infer()
    save_model(slopes, path)
    found = load_model(path, TABLE.find)
    rows = np.linspace(-1.0, 1.0, 15).reshape(3, 5)
    one, other = (
        Model(network, engine="cpu").evaluate({"x": rows}, "se.by.x")["se.by.x"] for network in (slopes, found)
    )
    np.testing.assert_array_equal(one, other)
    assert "se.by.x" in to_svg(found)
    tape = Model(slopes, engine="cpu").differentiable(["W", "b"], total.name)
    penalties = []
    for _ in range(5):
        penalties.append(tape.forward({"x": rows})[total.name].item())
        for name, gradient in tape.backward().items():
            slopes[name].value -= 0.002 * gradient
    assert penalties == sorted(penalties, reverse=True)


REFUSED = {
    "comparing": "no node has the sums of its pairs",
    "dropping in a loop": "in a loop it draws in the order of the time steps",
    "blending": "statistics of the minibatch are blended with running ones",
    "sharing": "only some of its statistics are used",
    "choosing": "whether its sequences are as long or one frame each, minibatches tell",
    "cutting": "its axis may be longer than the longest sequence",
}


def _refused(made, name):
    """A value of the sequences ``x`` whose derivative cannot be written as nodes."""
    x = made.x
    if name == "comparing":
        return made.op("AdditiveAttentionWeights", made.op("UnpackSequence", x), x, made.parameter("v", 3))
    if name == "dropping in a loop":
        past, close = made.delay(dim=3)
        return close(made.op("Dropout", made.op("Plus", x, past), attributes=DropoutAttributes(0.5, 1)))
    if name in ("blending", "sharing"):
        attributes = BatchNormalizationAttributes(blend_time_constant=4.0 if name == "blending" else 0.0)
        size = (3,) if name == "blending" else (3, 1)
        return made.op("BatchNormalization", x, *(made.parameter(n, *size) for n in "sbmv"), attributes=attributes)
    other = made.network.add(Input.make("other", (3,) if name == "choosing" else (5, 3), axis="words"))
    return made.op("ReconcileDynamicAxis" if name == "choosing" else "ToSequenceLike", other, x)


def test_all_that_cannot_be_differentiated_is_named():
    sample = dropout("float64")
    with pytest.raises(Problems) as caught:
        differentiate(sample.network, "se", "W0")
    assert [error.message for error in caught.value.errors] == [
        f"the derivative through '{name}' (Dropout) cannot be written as a network: without a seed of its own nobody "
        "else can drop the same elements"
        for name in ("d1", "d0")
    ]
    for name, reason in REFUSED.items():
        made = SequenceSketch("float64")
        sample = made.finish(None, made.op("Exp", _refused(made, name), name="z"))
        with pytest.raises(UnsupportedError, match=reason):
            differentiate(sample.network, "z", "other" if "other" in sample.network else "x")
    made = SequenceSketch("float64")
    delayed = made.op("PastValue", made.x, made.x, attributes=DelayAttributes((3,)))
    sample = made.finish(None, made.op("Exp", delayed, name="z"))
    with pytest.raises(UnsupportedError, match="its initial state has a dynamic axis"):
        differentiate(sample.network, "z", "x")


def test_mistakes():
    sample = SAMPLES["classifier"]("float64")
    with pytest.raises(NetworkError, match="the network has no node 'cee'"):
        differentiate(sample.network, "cee", "x")
    sample.network.rename(sample.roots[0], "z")
    with pytest.raises(NetworkError, match="there is no gradient by 'ce': 'z' does not depend on it"):
        differentiate(sample.network, "z", "ce")


def test_logistic_of_labels_between_0_and_1():
    made = Sketch("float64")
    labels, chances = made.input("labels", 3), made.op("Sigmoid", made.input("x", 3))
    sample = made.finish(None, made.op("Logistic", made.op("Sigmoid", labels), chances, name="loss"))
    data = sample.minibatch(4)
    assert_same_derivatives(sample.network, sample.roots[0], [sample.network["x"]], data, "derivative")
