"""Small networks, minibatches, and runs of them on this engine and on the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from cntk_engine_cpu import CpuEngine

from cntk_core.api import (
    Input,
    Minibatch,
    Network,
    Node,
    Parameter,
    ParameterStore,
    Plan,
    Slot,
    StreamData,
    UpdateRule,
    core_ops,
)
from cntk_core.api.engines import Program, frame_layout, make_plan
from cntk_testing.reference import ReferenceEngine

OPS = {op.name: op for op in core_ops()}

BACKENDS: dict[str, Mapping[str, Any]] = {
    "compiled+onednn": {"cpu_kernels": "compiled", "cpu_products": "auto"},
    "compiled+blas": {"cpu_kernels": "compiled", "cpu_products": "blas"},
    "numpy+blas": {"cpu_kernels": "numpy", "cpu_products": "blas"},
}


class Net:
    """A network under construction, with numbered nodes and random parameters."""

    def __init__(self, seed: int = 0, dtype: Any = np.float32) -> None:
        self.network = Network(dtype)
        self.rng = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)

    def input(self, name: str, *shape: int) -> Node:
        return self.network.add(Input.make(name, shape))

    def parameter(self, *shape: int, name: str = "", scale: float = 0.5, value: Any = None, rate: float = 1.0) -> Node:
        values = self.rng.normal(size=shape) * scale if value is None else np.broadcast_to(value, shape).copy()
        node = Parameter.make(
            name or f"p{len(self.network)}", shape, value=values.astype(self.dtype), learning_rate_multiplier=rate
        )
        return self.network.add(node)

    def node(self, operation: str, *inputs: Node, name: str = "", attributes: Any = None) -> Node:
        op = OPS[operation]
        return self.network.add(
            Node(
                name or f"n{len(self.network)}",
                op,
                list(inputs),
                op.attributes() if attributes is None else attributes,
            )
        )

    def plan(self, criterion: Node | None, *roots: Node, fuse: bool = True) -> Plan:
        self.network.infer()
        return make_plan(self.network, [*roots, *([criterion] if criterion is not None else [])], criterion, fuse=fuse)


def momentum_rule(*, nesterov: bool = False, clip: float | None = None) -> UpdateRule:
    """CNTK's momentum, as one expression."""

    def expression(m: Any, value: Any, gradient: Any, slots: Any, scalars: Any) -> Any:
        if clip is not None:
            gradient = m.minimum(m.maximum(gradient, -clip), clip)
        momentum, new = scalars["momentum"], scalars["step"] * gradient
        smoothed = momentum * slots["s"] + new
        return value - (momentum * smoothed + new if nesterov else smoothed), {"s": smoothed}

    return UpdateRule((Slot("s"),), ("momentum", "step"), expression, identity_gradient=clip is None)


def adagrad_rule() -> UpdateRule:
    """A rule that is not linear in the gradient."""

    def expression(m: Any, value: Any, gradient: Any, slots: Any, scalars: Any) -> Any:
        total = slots["a"] + gradient * gradient
        return value - scalars["step"] * gradient / m.sqrt(total + 1e-6), {"a": total}

    return UpdateRule((Slot("a"),), ("step",), expression)


SCALARS = {"momentum": 0.9, "step": 0.01}


def minibatch(rng: np.random.Generator, frames: int, streams: Mapping[str, Any], dtype: Any = np.float32) -> Minibatch:
    """Random streams; a name with the shape ``("class", n)`` gets one-hot rows."""
    layout = frame_layout(frames)
    data = {}
    for name, shape in streams.items():
        if shape[0] == "class":
            rows = np.eye(shape[1], dtype=dtype)[rng.integers(shape[1], size=frames)]
        else:
            rows = rng.normal(size=(frames, *shape)).astype(dtype)
        data[name] = StreamData(rows, layout)
    return Minibatch(data, frames)


def engine(backend: str, threads: int = 1) -> CpuEngine:
    return CpuEngine(CpuEngine.options(num_cpu_threads=threads, **BACKENDS[backend]))


def compile_on(engine: Any, plan: Plan, rule: UpdateRule | None = None, dtype: Any = np.float32, seed: int = 7) -> Any:
    """A program on a store of its own, whatever happened to the network's values since."""
    parameters = plan.network.parameters
    first = {parameter: np.array(parameter.value) for parameter in parameters}
    store = ParameterStore(parameters, dtype)
    for parameter, value in first.items():
        parameter.collect = None  # it leaves this store, which keeps its own
        parameter.value = value  # the next store starts from the same values
    return store, engine.compile(plan, store, rule, seed=seed)


def reference(plan: Plan, rule: UpdateRule | None = None) -> Any:
    return compile_on(ReferenceEngine(), plan, rule, np.float64)


def assert_same_gradients(
    plan: Plan, backend: str, batch: Minibatch, dtype: Any = np.float32, **settings: float
) -> None:
    """Roots and gradients of one minibatch agree with the reference."""
    tolerance = {"rtol": 2e-4, "atol": 2e-5} if np.dtype(dtype) == np.float32 else {"rtol": 1e-9, "atol": 1e-11}
    (wanted, expected), (store, program) = reference(plan), compile_on(engine(backend), plan, None, dtype)
    for each in (expected, program):
        each.begin_epoch(0, settings)
        each.compute_gradients(batch)
    for root in plan.roots:
        np.testing.assert_allclose(program.value(root.name), expected.value(root.name), **tolerance, err_msg=root.name)
    for parameter in plan.trained:
        np.testing.assert_allclose(
            store.gradient(parameter), wanted.gradient(parameter), **tolerance, err_msg=parameter.name
        )


def train(program: Program, batches: Sequence[Minibatch], *, folded: bool, scalars: Any = SCALARS) -> None:
    numbers = [scalars] * len(program.plan.trained)
    for batch in batches:
        if folded:
            program.train_step(batch, numbers)
        else:
            program.compute_gradients(batch)
            program.update(numbers)


def assert_same_training(
    plan: Plan,
    backend: str,
    batches: Sequence[Minibatch],
    rule: UpdateRule,
    dtype: Any = np.float32,
    scalars: Any = SCALARS,
) -> None:
    """After some steps every parameter has changed as on the reference, folded and not."""
    tolerance = 1e-4 if np.dtype(dtype) == np.float32 else 1e-9
    wanted, expected = reference(plan, rule)
    first = {parameter: wanted.value(parameter).copy() for parameter in plan.trained}
    train(expected, batches, folded=False, scalars=scalars)
    totals = expected.read_totals()
    for folded in (False, True):
        store, program = compile_on(engine(backend), plan, rule, dtype)
        train(program, batches, folded=folded, scalars=scalars)
        for parameter in plan.trained:
            change = wanted.value(parameter) - first[parameter]
            found = store.value(parameter).astype(np.float64) - first[parameter].astype(dtype)
            error = np.linalg.norm(found - change)
            # Single precision rounds the value itself, not only its change.
            rounding = np.finfo(dtype).eps * np.linalg.norm(first[parameter]) * len(batches)
            assert error <= tolerance * np.linalg.norm(change) + rounding, f"{parameter.name}, folded: {folded}"
            for slot in rule.slots:
                np.testing.assert_allclose(
                    store.slot(slot.name, parameter), wanted.slot(slot.name, parameter), rtol=1e-3, atol=tolerance
                )
        for name, total in program.read_totals().items():
            np.testing.assert_allclose(total, totals[name], rtol=10 * tolerance)
