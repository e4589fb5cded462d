"""A plan as text and for programs: what is computed in which order, what is fused, and what sharing saves."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from cntk_core.network.node import Node, Parameter
from cntk_core.ops.language.shapes import elements, show
from cntk_core.plan.plan import AnyStep, GradientStep, Loop, LoopGradient, Plan, Step, is_open

ON_HOST = " (on the host)"
"""Follows a step that an engine computes on the host."""


def explain(plan: Plan, *, frames: int = 1, hosted: Collection[AnyStep] = ()) -> str:
    """Describe a plan for people.

    Args:
        plan: what to describe.
        frames: the number of rows for which bytes are given.
        hosted: the steps that an engine computes on the host.
    """
    return "\n".join(_lines(plan, frames, frozenset(hosted)))


def _lines(plan: Plan, frames: int, hosted: frozenset[AnyStep]) -> Iterator[str]:
    yield f"Roots: {', '.join(node.name for node in plan.roots)}"
    yield f"Forward, {_counted(plan.steps, hosted)}:"
    for index, step in enumerate(plan.steps):
        yield from _forward(plan, index, step, ON_HOST if step in hosted else "")
    if plan.criterion is not None:
        yield f"Gradients of {plan.criterion.name}, {_counted(plan.gradients, hosted)}:"
        for index, gradient in enumerate(plan.gradients):
            yield from _backward(plan, index, gradient, ON_HOST if gradient in hosted else "")
        for parameter in plan.trained:
            note = "one product, the update may be folded into it" if plan.sole_writer(parameter) else "summed"
            yield f"  {parameter.name} {show(parameter.known_shape)}: {note}"
    yield from _memory(plan, frames)


def _counted(steps: Sequence[AnyStep], hosted: frozenset[AnyStep]) -> str:
    found = sum(step in hosted for step in steps)
    return f"{len(steps)} steps" + (f", {found} of them on the host" if found else "")


def _forward(plan: Plan, index: int, step: Step | Loop, note: str) -> Iterator[str]:
    if isinstance(step, Step):
        yield f"  {index:3}  {_step(plan, step)}{note}"
        return
    way = _order(step.direction)
    yield f"  {index:3}  loop over the time steps, {way}, {len(step.steps)} steps each{note}:"
    for part in step.steps:
        yield f"         {_step(plan, part)}"


def _backward(plan: Plan, index: int, gradient: GradientStep | LoopGradient, note: str) -> Iterator[str]:
    if isinstance(gradient, GradientStep):
        yield f"  {index:3}  {_gradient(plan, gradient)}{note}"
        return
    way = _order(-gradient.loop.direction)
    yield f"  {index:3}  loop over the time steps, {way}, {len(gradient.steps)} steps each{note}:"
    for part in gradient.steps:
        yield f"         {_gradient(plan, part)}"


def _step(plan: Plan, step: Step) -> str:
    names = " + ".join(f"{node.op.name} {node.name}" for node in step.nodes)
    fused = "fused: " if len(step.nodes) > 1 else ""
    last = step.nodes[-1]
    places = ", ".join(f"{node.name} in {_buffer(plan.value_buffer, node)}" for node in step.writes)
    return f"{fused}{names} {show(last.known_shape, framed=bool(last.framed))} -> {places}"


def _buffer(buffers: Mapping[Node, int], node: Node) -> str:
    """Where a value or gradient lies; those of a size that every minibatch has its own of lie alone."""
    return "storage of its own" if is_open(node) else f"b{buffers[node]}"


def _gradient(plan: Plan, step: GradientStep) -> str:
    def place(node: Node) -> str:
        return "store" if isinstance(node, Parameter) else _buffer(plan.gradient_buffer, node)

    sources = ", ".join(node.name for node in step.sources)
    targets = ", ".join(
        f"{'+= ' if target.accumulate else ''}{target.node.name} in {place(target.node)}" for target in step.targets
    )
    return f"from {sources} -> {targets}"


def _memory(plan: Plan, frames: int) -> Iterator[str]:
    found = _storage(plan, frames)
    alone, shared = found["bytesAlone"], found["bytes"]
    yield (
        f"Buffers for {frames} frames: {found['values']} values share "
        f"{found['buffers']} buffers, {shared} bytes instead of {alone} ({alone - shared} saved)"
    )


def _storage(plan: Plan, frames: int) -> dict[str, int]:
    size = int(plan.network.dtype.itemsize)

    def needed(node: Node) -> int:
        return elements(node.known_shape) * (frames if node.framed else 1) * size

    return {
        "frames": frames,
        "values": len(plan.value_buffer) + len(plan.gradient_buffer),
        "buffers": len(plan.buffers),
        "bytes": sum((buffer.per_frame * frames + buffer.fixed) * size for buffer in plan.buffers),
        "bytesAlone": sum(needed(node) for node in [*plan.value_buffer, *plan.gradient_buffer]),
    }


# -- for programs -----------------------------------------------------------------------------------------------


def plan_record(plan: Plan, *, frames: int = 1, hosted: Collection[AnyStep] = ()) -> dict[str, Any]:
    """Describe a plan for programs, with JSON's types alone.

    Args:
        plan, frames, hosted: as of :func:`explain`.

    Returns:
        ``roots`` and ``trained`` are names of nodes, ``criterion`` one or None. ``forward`` and ``gradients`` are steps
        in their order, each with ``host`` (the engine computes it on the host) and ``loop`` (None, or its steps over
        the time steps and ``first to last`` or ``last to first``); a forward step has the ``nodes`` that it computes,
        more than one if they are fused, a gradient step the nodes that it comes ``from`` and goes ``to``. ``memory``
        has the number of ``frames``, of ``values`` and of the ``buffers`` that they share, the ``bytes`` that these
        take, and those if no value shared one (``bytesAlone``).
    """
    on_host = frozenset(hosted)
    return {
        "roots": [node.name for node in plan.roots],
        "criterion": None if plan.criterion is None else plan.criterion.name,
        "forward": [_step_record(step, step in on_host) for step in plan.steps],
        "gradients": [_gradient_record(step, step in on_host) for step in plan.gradients],
        "trained": [node.name for node in plan.trained],
        "memory": _storage(plan, frames),
    }


def _step_record(step: Step | Loop, host: bool) -> dict[str, Any]:
    if isinstance(step, Step):
        return {"nodes": [node.name for node in step.nodes], "host": host, "loop": None}
    steps = [_step_record(part, host) for part in step.steps]
    nodes = [name for part in steps for name in part["nodes"]]
    return {"nodes": nodes, "host": host, "loop": {"order": _order(step.direction), "steps": steps}}


def _gradient_record(step: GradientStep | LoopGradient, host: bool) -> dict[str, Any]:
    record: dict[str, Any] = {
        "from": [node.name for node in step.sources],
        "to": [target.node.name for target in step.targets],
        "host": host,
        "loop": None,
    }
    if isinstance(step, LoopGradient):
        steps = [_gradient_record(part, host) for part in step.steps]
        record["loop"] = {"order": _order(-step.loop.direction), "steps": steps}
    return record


def _order(direction: int) -> str:
    return "first to last" if direction > 0 else "last to first"
