"""Gradients checked against central differences in double precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.store import ParameterStore
from cntk_core.network.network import Network
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.ops.language.op import Op, OpContext
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch
from cntk_testing.reference import ReferenceEngine

Array = NDArray[np.float64]

TOLERANCE = 1e-6
STEP = 1e-5


def numeric_gradient(function: Callable[[], float], values: NDArray[Any], *, step: float = STEP) -> Array:
    """Central differences of a number by the elements of an array, which is changed in place and restored."""
    result = np.zeros(values.shape)
    for index in np.ndindex(values.shape):
        kept = values[index]
        values[index] = kept + step
        above = function()
        values[index] = kept - step
        below = function()
        values[index] = kept
        result[index] = (above - below) / (2.0 * step)
    return result


def assert_close(found: NDArray[Any], expected: NDArray[Any], what: str, *, tolerance: float = TOLERANCE) -> None:
    """Fail if two gradients differ by more than ``tolerance``, relative to the largest element (at least 1)."""
    assert found.shape == expected.shape, f"{what}: shape {found.shape} instead of {expected.shape}"
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    worst = float(np.max(np.abs(found - expected), initial=0.0)) / scale
    assert worst <= tolerance, f"{what}: relative error {worst:.2e}\nfound\n{found}\nexpected\n{expected}"


def check_op_gradients(
    op: Op,
    inputs: Sequence[NDArray[Any]],
    framed: Sequence[bool],
    attributes: Any = None,
    *,
    context: Callable[[], OpContext] | None = None,
    tolerance: float = TOLERANCE,
) -> None:
    """Check an op's gradients of all its inputs by central differences of a weighted sum of its output.

    Args:
        op: the op.
        inputs: values where the op is smooth; those with the dynamic axis have their frames first.
        framed: which inputs have the dynamic axis.
        attributes: the op's settings; by default all at their defaults.
        context: makes a context for each run, the same each time; by default one without randomness.
        tolerance: largest error relative to the largest gradient.
    """
    values = [np.array(value, dtype=np.float64) for value in inputs]
    settings = op.attributes() if attributes is None else attributes
    make = context if context is not None else lambda: make_context(values, framed)
    needs = [op.flows_to(index) for index in range(len(values))]
    used = make()
    output = np.array(run_forward(op, np, values, settings, used))
    weights = np.cos(np.arange(output.size, dtype=np.float64)).reshape(output.shape) + 1.5
    found = run_gradient(op, np, weights, output, values, settings, used, needs)

    def total() -> float:
        return float(np.sum(run_forward(op, np, values, settings, make()) * weights))

    for index, gradient in enumerate(found):
        if needs[index]:
            expected = numeric_gradient(total, values[index])
            zero = np.zeros_like(values[index])
            what = f"gradient of {op.name} to input {index}"
            assert_close(zero if gradient is None else gradient, expected, what, tolerance=tolerance)
        else:
            assert gradient is None, f"{op.name} has a gradient to input {index}, which is not differentiable"


def make_context(values: Sequence[NDArray[Any]], framed: Sequence[bool], **fields: Any) -> OpContext:
    """Return a context for values, its number of frames taken from them: those of two sequences, one twice as long."""
    frames = [len(value) for value, has in zip(values, framed, strict=True) if has]
    if frames:
        layout = sequence_layout([frames[0] // 3, frames[0] - frames[0] // 3])
        fields = {"layout": layout, "layouts": tuple(layout if has else None for has in framed), **fields}
    return OpContext(framed=tuple(framed), frames=frames[0] if frames else 1, **fields)


def check_gradients_by(
    network: Network, roots: Sequence[Node], by: Sequence[Node], minibatch: Minibatch, *, tolerance: float = TOLERANCE
) -> None:
    """Check gradients of a weighted sum of roots by inputs and parameters by central differences, with the reference.

    Args:
        network: of precision float64, with shapes inferred and parameters initialized; it is evaluated, not trained.
        roots: of any shapes.
        by: dense inputs and parameters.
        minibatch: data of all inputs; they are changed in place and restored.
        tolerance: largest error relative to the largest gradient by a node.
    """
    store = ParameterStore(network.parameters, np.float64)
    program = ReferenceEngine().compile(make_plan(network, roots, by=by), store)
    program.forward(minibatch, training=False)
    rng = np.random.default_rng(3)
    seeds = {node.name: rng.normal(size=program.value(node.name).shape) for node in roots}
    program.backward(seeds)
    found = {node: program.gradient(node.name) for node in by}

    def total() -> float:
        program.evaluate(minibatch)
        return sum(float(np.sum(seed * program.value(name))) for name, seed in seeds.items())

    for node, gradient in found.items():
        values: Any = store.value(node) if isinstance(node, Parameter) else minibatch.streams[node.name].data
        expected = numeric_gradient(total, values)
        assert_close(gradient, expected, f"gradient by '{node.name}'", tolerance=tolerance)


def check_gradients(
    network: Network, criterion: Node, minibatch: Minibatch, *, tolerance: float = TOLERANCE, fuse: bool = True
) -> None:
    """Check a whole network's parameter gradients by central differences, with the reference engine.

    Args:
        network: of precision float64, with shapes inferred and parameters initialized; without dropout.
        criterion: the scalar node, or one with a number for each frame.
        minibatch: data of all inputs.
        tolerance: largest error relative to the largest gradient of a parameter.
        fuse: as in :func:`~cntk_core.plan.make.make_plan`.
    """
    plan = make_plan(network, [criterion], criterion, fuse=fuse)
    store = ParameterStore(network.parameters, np.float64)
    program = ReferenceEngine().compile(plan, store)
    program.compute_gradients(minibatch)
    found = {parameter: store.gradient(parameter).copy() for parameter in plan.trained}

    def total() -> float:
        program.evaluate(minibatch)
        return float(program.value(criterion.name).sum())

    for parameter, gradient in found.items():
        expected = numeric_gradient(total, store.value(parameter))
        assert_close(gradient, expected, f"gradient of '{parameter.name}'", tolerance=tolerance)


def check_along_directions(
    network: Network, criterion: Node, by: Sequence[Node], minibatch: Minibatch, *, fuse: bool = True
) -> None:
    """Check gradients of a whole network along a random direction by each node: quicker than by all of its numbers.

    Args:
        network: of precision float64, with shapes inferred and parameters initialized; it is evaluated, not trained.
        criterion: the node whose elements are summed.
        by: dense inputs and parameters.
        minibatch: data of all inputs; they are changed in place and restored.
        fuse: as in :func:`~cntk_core.plan.make.make_plan`.
    """
    store = ParameterStore(network.parameters, np.float64)
    program = ReferenceEngine().compile(make_plan(network, [criterion], by=by, fuse=fuse), store)

    def total() -> float:
        program.forward(minibatch, training=False)
        return float(program.value(criterion.name).sum())

    total()
    program.backward({criterion.name: np.ones_like(program.value(criterion.name))})
    found = {node: program.gradient(node.name).copy() for node in by}
    rng = np.random.default_rng(7)
    for node, gradient in found.items():
        values: Any = store.value(node) if isinstance(node, Parameter) else minibatch.streams[node.name].data
        direction, before = rng.normal(size=values.shape), values.copy()
        sums = []
        for step in (STEP, -STEP):
            values[...] = before + step * direction
            sums.append(total())
        values[...] = before
        expected = (sums[0] - sums[1]) / (2 * STEP)
        told = float(np.sum(np.asarray(gradient).reshape(values.shape) * direction))
        allowed = 1e-5 * abs(expected) + 1e-6
        assert abs(told - expected) <= allowed, f"gradient by '{node.name}' along a direction: {told}, not {expected}"
