"""Every op of the core on this engine, with values and gradients as on the reference, fused and not."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_networks import Net, assert_same_gradients, compile_on, engine
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.api import Minibatch, StreamData, core_ops
from cntk_core.api.engines import frame_layout
from cntk_testing.examples import examples
from cntk_testing.op_examples import EXAMPLES as OP_EXAMPLES

FRAMES = 5


EXAMPLES = [(name, example) for name, found in OP_EXAMPLES.items() for example in found]


def values(rng, kind, shape, framed):
    if kind == "one_hot":
        rows = shape[0] if framed else 1
        size = int(np.prod(shape)) // rows
        return np.eye(size)[rng.integers(size, size=rows)].reshape(shape)
    if kind in ("binary", "index"):
        return rng.integers(2 if kind == "binary" else 4, size=shape).astype(float)
    if kind == "chance":
        return rng.uniform(0.1, 0.9, size=shape)
    found = rng.normal(size=shape)
    return (np.abs(found) if kind == "positive" else found) + np.sign(found) * 0.2 * (kind != "positive") + 0.2


def network_of(name, example, framed, dtype, fuse):
    """The op between element-wise neighbours, a parameter behind every operand, and a weighted sum as criterion."""
    net, streams = Net(dtype=dtype), {}
    rng = np.random.default_rng(1)
    operands = []
    for index, (shape, has) in enumerate(zip(example.shapes, framed, strict=True)):
        kind = example.kinds[index] if example.kinds else "smooth"
        value = values(rng, kind, (FRAMES, *shape) if has else shape, has).astype(dtype)
        if index in example.values:
            value = example.given(index, value.shape).astype(dtype)
        if has:
            operand = net.input(f"x{index}", *shape)
            streams[f"x{index}"] = StreamData(value, frame_layout(FRAMES))
            if kind in ("smooth", "positive"):
                operand = net.node("Plus", operand, net.parameter(*shape, value=0.01))
        else:
            operand = net.parameter(*shape, value=value)
        operands.append(operand)
    result = net.node(name, *operands, name="result", attributes=example.attributes)
    net.network.infer()
    shape = result.known_shape
    if not (int(np.prod(shape)) == 1 and not result.framed):
        weighted = net.node("ElementTimes", result, net.parameter(*shape, rate=0.0))
        # A second element-wise op, so that something can be fused; and one on parameters alone.
        weighted = net.node("Plus", weighted, net.node("Tanh", weighted))
        result_sum = net.node("SumElements", weighted)
    else:
        result_sum = result
    plan_roots = [] if result_sum is result else [result]
    extra = net.node("SumElements", net.parameter(2))
    criterion = net.node("Plus", result_sum, extra, name="total")
    return net.plan(criterion, *plan_roots, fuse=fuse), Minibatch(streams, FRAMES)


CASES = pytest.mark.parametrize(
    ("name", "example"),
    [pytest.param(name, example, id=f"{name}-{index}") for index, (name, example) in enumerate(EXAMPLES)],
)


@CASES
@pytest.mark.sampled(4)
def test_op(name, example):
    for framed in example.mixes():
        plan, batch = network_of(name, example, framed, np.float64, fuse=True)
        assert_same_gradients(plan, "numpy+blas", batch, np.float64, **example.settings)


@pytest.mark.slow  # every case compiles kernels of its own
@pytest.mark.thinned
@pytest.mark.sampled(4)
@CASES
def test_op_compiled(name, example):
    framed = next(iter(example.mixes()))
    plan, batch = network_of(name, example, framed, np.float64, fuse=True)
    assert_same_gradients(plan, "compiled+onednn", batch, np.float64, **example.settings)


@pytest.mark.parametrize("name", ["Plus", "ElementTimes", "Sigmoid", "Tanh", "Exp", "Log", "Times", "SquareError"])
@pytest.mark.sampled(4)
def test_single_precision_and_single_steps(name):
    example = next(example for other, example in EXAMPLES if other == name)
    plan, batch = network_of(name, example, next(iter(example.mixes())), np.float32, fuse=False)
    assert_same_gradients(plan, "compiled+onednn", batch, np.float32)


UNARY = ("Sigmoid", "Tanh", "Abs", "Cosine", "Negate", "Pass", "Softmax", "LogSoftmax", "Exp")
BINARY = ("Plus", "Minus", "ElementTimes", "LogPlus")


@st.composite
def recipes(draw):
    """Steps of a random network: ``(operation, first operand, second operand)`` by position."""
    count = draw(st.integers(1, 9))
    steps = []
    for index in range(count):
        operation = draw(st.sampled_from([*UNARY, *BINARY, "Times"]))
        steps.append((operation, draw(st.integers(0, index + 1)), draw(st.integers(0, index + 3))))
    return steps


def random_network(recipe, fuse):
    net = Net(dtype=np.float64)
    nodes = [net.input("x", 4), net.node("Plus", net.input("y", 4), net.parameter(4))]
    extras = [net.parameter(4), net.parameter(1)]
    for operation, first, second in recipe:
        left = nodes[first % len(nodes)]
        if operation == "Times":
            node = net.node("Times", net.parameter(4, 4), left)
        elif operation in BINARY:
            others = [*nodes, *extras]
            node = net.node(operation, left, others[second % len(others)])
        else:
            node = net.node("Tanh", left) if operation == "Exp" else left
            node = net.node(operation, node)
        nodes.append(node)
    loss = net.node("SquareError", net.node("Tanh", nodes[-1]), nodes[1])
    return net.plan(loss, nodes[len(nodes) // 2], fuse=fuse)


def check(recipe, fuse, backend):
    plan = random_network(recipe, fuse)
    rng = np.random.default_rng(len(recipe))
    batch = Minibatch({name: StreamData(rng.normal(size=(3, 4)), frame_layout(3)) for name in ("x", "y")}, 3)
    assert_same_gradients(plan, backend, batch, np.float64)


@given(recipe=recipes(), fuse=st.booleans())
@examples(80)
def test_random_networks(recipe, fuse):
    check(recipe, fuse, "numpy+blas")


@pytest.mark.slow
@given(recipe=recipes())
@examples(8, derandomize=True)
def test_random_networks_compiled(recipe):
    check(recipe, True, "compiled+blas")


@pytest.mark.parametrize("backend", ["numpy+blas", "compiled+onednn"])
def test_a_network_knows_whether_it_is_trained(backend):
    net = Net(dtype=np.float64)
    environment = core_ops().find("", "EnvironmentInput")
    assert environment is not None
    training = net.node("EnvironmentInput", attributes=environment.attributes("isTraining"))
    z = net.node("ElementTimes", net.parameter(2, value=3.0), training, name="z")
    plan = net.plan(net.node("SquareError", z, net.input("x", 2), name="se"), z)
    batch = Minibatch({"x": StreamData(np.ones((3, 2)), frame_layout(3))}, 3)
    assert_same_gradients(plan, backend, batch, np.float64)
    _, program = compile_on(engine(backend), plan, None, np.float64)
    program.compute_gradients(batch)
    assert program.value("z").tolist() == [3.0, 3.0]
    program.evaluate(batch)
    assert program.value("z").tolist() == [0.0, 0.0]
