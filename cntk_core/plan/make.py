"""From a network and roots to a plan: order, fusion, gradients, buffers."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from cntk_core.errors import NetworkError
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.shapes import elements, show
from cntk_core.plan.buffers import assign_buffers
from cntk_core.plan.fusion import consumers_of, gradient_reads, group
from cntk_core.plan.plan import GradientStep, Plan, Step, Target
from cntk_core.plan.runnable import check_runnable


def make_plan(
    network: Network,
    roots: Sequence[Node],
    criterion: Node | None = None,
    *,
    fuse: bool = True,
    runnable: bool = True,
) -> Plan:
    """Plan the computation of ``roots`` and, if a criterion is given, of its gradients by the learned parameters.

    Args:
        network: with shapes inferred.
        roots: nodes whose values can be read after a run.
        criterion: a scalar node; its gradient is that of the sum over the samples of the minibatch.
        fuse: compute neighbouring element-wise nodes in one pass.
        runnable: refuse nodes whose operation is only declared; otherwise the plan is only to look at.

    Raises:
        NetworkError: the criterion is not a scalar or depends on no learned parameter; a precomputed node has no value.
        UnsupportedError, Problems: names every node that cannot run yet.
    """
    wanted = tuple(dict.fromkeys([*roots, *([criterion] if criterion is not None else [])]))
    if runnable:
        check_runnable(network, wanted)
    order = network.order(wanted, stop_at_constants=True)
    _check(order, criterion)
    computed = [node for node in order if node.value is None and not isinstance(node, Input | Parameter)]
    consumers = consumers_of(order)
    path = _gradient_path(order, criterion)
    groups = group(computed, consumers, fuse=fuse)
    reads = [_backward_reads(members, path) for members in groups]
    steps = _steps(groups, reads, consumers, set(wanted))
    gradients = _gradient_steps(steps, reads, path, criterion, consumers)
    value_buffer, gradient_buffer, buffers = assign_buffers(steps, gradients, wanted)
    return Plan(
        network=network,
        roots=wanted,
        criterion=criterion,
        inputs=tuple(node for node in order if isinstance(node, Input)),
        parameters=tuple(node for node in order if isinstance(node, Parameter)),
        trained=tuple(node for node in order if isinstance(node, Parameter) and node in path),
        steps=steps,
        gradients=gradients,
        buffers=buffers,
        value_buffer=value_buffer,
        gradient_buffer=gradient_buffer,
    )


def _check(order: Sequence[Node], criterion: Node | None) -> None:
    for node in order:
        if node.op.role == "precompute" and node.value is None:
            raise NetworkError(f"the node '{node.name}' ({node.op.name}) is not computed yet", where=node.where)
    if criterion is not None and elements(criterion.known_shape) != 1:
        raise NetworkError(
            f"the criterion '{criterion.name}' is {show(criterion.known_shape)}, not a scalar", where=criterion.where
        )


def _gradient_path(order: Sequence[Node], criterion: Node | None) -> set[Node]:
    """Nodes through which a gradient flows from the criterion to a learned parameter."""
    if criterion is None:
        return set()
    needing: set[Node] = set()
    for node in order:
        if isinstance(node, Parameter):
            if node.learned:
                needing.add(node)
        elif node.value is None and any(_flows(node, index, needing) for index in range(len(node.inputs))):
            needing.add(node)
    if criterion not in needing:
        # Legal as long as there is something to learn: all gradients are zero (a criterion behind Floor, say).
        if not any(isinstance(node, Parameter) and node.learned for node in order):
            message = f"the criterion '{criterion.name}' depends on no learned parameter"
            raise NetworkError(message, where=criterion.where)
        return set()
    path = {criterion}
    for node in reversed(order):
        if node in path and not isinstance(node, Parameter):
            path.update(child for index, child in enumerate(node.inputs) if _flows(node, index, needing))
    return path


def _flows(node: Node, index: int, needing: set[Node]) -> bool:
    return node.op.flows_to(index) and node.inputs[index] in needing


def needs_of(node: Node, path: set[Node]) -> list[bool]:
    """For each input of a node, whether its gradient is wanted."""
    return [node.op.flows_to(index) and child in path for index, child in enumerate(node.inputs)]


def _backward_reads(members: tuple[Node, ...], path: set[Node]) -> tuple[Node, ...]:
    """Forward values that the gradients of a step look at, members and outside values alike."""
    found: dict[Node, None] = {}
    for node in members:
        needs = needs_of(node, path) if node in path else []
        if not any(needs):
            continue
        if node.op.elementwise is not None:
            output, inputs = gradient_reads(node.op.elementwise, node, needs)
        else:
            output = node.op.reads_output
            inputs = frozenset(range(len(node.inputs)) if node.op.reads_inputs else ())
        if output:
            found[node] = None
        for index in sorted(inputs):
            found[node.inputs[index]] = None
    return tuple(found)


def _steps(
    groups: Sequence[tuple[Node, ...]],
    backward_reads: Sequence[tuple[Node, ...]],
    consumers: dict[Node, list[Node]],
    roots: set[Node],
) -> tuple[Step, ...]:
    kept = {node for reads in backward_reads for node in reads}
    steps = []
    for members in groups:
        inside = set(members)
        reads = dict.fromkeys(child for node in members for child in node.inputs if child not in inside)
        writes = [
            node
            for node in members
            if node in roots or node in kept or any(user not in inside for user in consumers[node])
        ]
        steps.append(Step(members, tuple(reads), tuple(writes)))
    return tuple(steps)


def _gradient_steps(
    steps: Sequence[Step],
    backward_reads: Sequence[tuple[Node, ...]],
    path: set[Node],
    criterion: Node | None,
    consumers: dict[Node, list[Node]],
) -> tuple[GradientStep, ...]:
    result: list[GradientStep] = []
    written: set[Node] = set()
    for step, reads in reversed(list(zip(steps, backward_reads, strict=True))):
        inside = set(step.nodes)
        sources = tuple(
            node
            for node in step.nodes
            if node in path
            and (node is criterion or any(_takes(user, node, path) for user in consumers[node] if user not in inside))
        )
        if not sources:
            continue
        outside = dict.fromkeys(
            child
            for node in step.nodes
            if node in path
            for child, need in zip(node.inputs, needs_of(node, path), strict=True)
            if need and child not in inside
        )
        targets = tuple(Target(child, accumulate=child in written, last=False) for child in outside)
        written.update(outside)
        result.append(GradientStep(step, sources, reads, targets))
    return _mark_last(result)


def _takes(user: Node, node: Node, path: set[Node]) -> bool:
    """Whether ``user`` sends a gradient to ``node``."""
    if user not in path:
        return False
    return any(child is node and need for child, need in zip(user.inputs, needs_of(user, path), strict=True))


def _mark_last(gradients: Sequence[GradientStep]) -> tuple[GradientStep, ...]:
    seen: set[Node] = set()
    result = []
    for step in reversed(gradients):
        targets = tuple(attrs.evolve(target, last=target.node not in seen) for target in step.targets)
        seen.update(target.node for target in targets)
        result.append(attrs.evolve(step, targets=targets))
    return tuple(reversed(result))
