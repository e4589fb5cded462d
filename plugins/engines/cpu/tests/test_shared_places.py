"""Gradients of a value with several readers: whoever passes its gradient on, in whatever order, each arrives whole.

Buffers are shared, fused steps write several gradients at once, and one of them may lie where another one is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from cpu_networks import (
    BACKENDS,
    OPS,
    Net,
    assert_same_gradients,
    assert_same_training,
    compile_on,
    engine,
    minibatch,
    momentum_rule,
)

from cntk_core.api import Minibatch, Node, Plan

STREAMS = {"x": (4,), "l": ("class", 2)}
WIDTH = 3


class Readers(Net):
    """A network in which every reader gives a vector of :data:`WIDTH`."""

    def __init__(self) -> None:
        super().__init__(dtype=np.float64)
        self.x = self.input("x", 4)

    def apply(self, operation: str, *inputs: Node, **attributes: Any) -> Node:
        made = self.node(operation, *inputs, attributes=OPS[operation].attributes(**attributes))
        self.network.infer()
        return made

    def times(self, data: Node, size: int = WIDTH) -> Node:
        return self.apply("Times", self.parameter(data.known_shape[-1], size), data)

    def classify(self, z: Node) -> Plan:
        labels = self.input("l", 2)
        return self.plan(self.apply("CrossEntropyWithSoftmax", labels, self.times(z, 2)))


Reader = Callable[[Readers, Node], Node]

READERS: dict[str, Reader] = {
    "Pass": lambda net, value: net.apply("Pass", value),
    "RowStack": lambda net, value: net.times(net.apply("RowStack", value, net.x)),
    "Slice": lambda net, value: net.times(net.apply("Slice", value, begin=1, end=3, axis=1)),
    "Reshape": lambda net, value: net.times(net.apply("Reshape", value, dims=(WIDTH,))),
    "Times": lambda net, value: net.times(value),
    "Negate": lambda net, value: net.apply("Negate", value),
    "Tanh": lambda net, value: net.apply("Tanh", value),
    "Softmax": lambda net, value: net.apply("Softmax", value),
    "times a number": lambda net, value: net.apply("ElementTimes", value, net.parameter(1)),
    "itself": lambda net, value: net.apply("ElementTimes", value, value),
}
"""Those that pass the gradient on as it is, as a part of it, as its opposite, or changed."""

JOINS: dict[str, Callable[[Readers, Node, Node], Node]] = {
    "Plus": lambda net, one, other: net.apply("Plus", one, other),
    "Minus": lambda net, one, other: net.apply("Minus", one, other),
    "Minus a row": lambda net, one, other: net.apply("Minus", one, net.apply("Plus", other, net.parameter(WIDTH))),
    "RowStack": lambda net, one, other: net.apply("RowStack", one, other),
    "ElementTimes": lambda net, one, other: net.apply("ElementTimes", one, other),
}
"""How what two readers have made meets: two gradients that go out of one step."""


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> str:
    if "compiled" in request.param:
        pytest.importorskip("llvmlite")
    return str(request.param)


def plan_of(first: Reader, second: Reader, join: Callable[[Readers, Node, Node], Node], *, direct: bool) -> Plan:
    """Both readers read one value, and ``direct`` so does what joins them."""
    net = Readers()
    value = net.apply("Plus", net.times(net.x), net.parameter(WIDTH))
    one, other = first(net, value), second(net, value)
    met = join(net, value, other) if direct else join(net, one, other)
    return net.classify(net.apply("RowStack", met, one) if direct else met)


def batch_of(frames: int, seed: int = 3) -> Minibatch:
    return minibatch(np.random.default_rng(seed), frames, STREAMS, np.float64)


@pytest.mark.parametrize("kernels", ["numpy+blas", pytest.param("compiled+blas", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("first", READERS)
@pytest.mark.sampled(5)
@pytest.mark.thinned(5)
def test_two_readers(first: str, join: str, kernels: str) -> None:
    if "compiled" in kernels:
        pytest.importorskip("llvmlite")
    for second, direct in itertools.product(READERS, (False, True)):
        plan = plan_of(READERS[first], READERS[second], JOINS[join], direct=direct)
        assert_same_gradients(plan, kernels, batch_of(3), np.float64)


def stacked_and_subtracted() -> Plan:
    """What a fuzzer found: the gradient goes out of one step as it is and as its opposite."""
    return plan_of(READERS["Pass"], READERS["RowStack"], JOINS["Minus a row"], direct=True)


def test_a_step_that_passes_a_gradient_on_beside_its_opposite(backend: str) -> None:
    assert_same_gradients(stacked_and_subtracted(), backend, batch_of(5), np.float64)
    assert_same_training(
        stacked_and_subtracted(), backend, [batch_of(n, n) for n in (1, 3, 1)], momentum_rule(), np.float64
    )


def repeated(operation: str, *shape: int) -> Plan:
    """A computed value without samples, which a step repeats for all of them and reads for the last time."""
    net = Readers()
    made = net.apply("ElementTimes", net.parameter(*shape), net.parameter(*shape))
    made = net.apply("Times", net.parameter(*shape, *shape), made)
    return net.classify(net.apply(operation, net.times(net.x), made))


@pytest.mark.parametrize("operation", ["ElementTimes", "LogPlus"])
def test_the_gradient_of_a_value_that_is_repeated(backend: str, operation: str) -> None:
    for size, frames in ((WIDTH, 4), (WIDTH, 2048), (1, 4)):
        assert_same_gradients(repeated(operation, size), backend, batch_of(frames), np.float64)


def differences(plan: Plan, batch: Minibatch, backend: str) -> Iterator[tuple[str, Any, Any]]:
    """For each trained parameter the gradient, and what small changes of its elements do to the criterion."""
    store, program = compile_on(engine(backend), plan, None, np.float64)
    program.compute_gradients(batch)
    gradients = {parameter: np.array(store.gradient(parameter)) for parameter in plan.trained}
    assert plan.criterion is not None
    for parameter, gradient in gradients.items():
        value, found = store.value(parameter), np.empty_like(gradient)
        for index in np.ndindex(value.shape):
            kept, sides = value[index], []
            for step in (1e-5, -1e-5):
                value[index] = kept + step
                program.evaluate(batch)
                sides.append(program.value(plan.criterion.name).item())
            value[index] = kept
            found[index] = (sides[0] - sides[1]) / 2e-5
        yield parameter.name, gradient, found


@pytest.mark.parametrize(
    "build", [stacked_and_subtracted, lambda: repeated("ElementTimes", WIDTH)], ids=["twice", "row"]
)
def test_gradients_by_differences(backend: str, build: Callable[[], Plan]) -> None:
    for name, gradient, found in differences(build(), batch_of(3), backend):
        np.testing.assert_allclose(gradient, found, rtol=1e-6, atol=1e-8, err_msg=name)
