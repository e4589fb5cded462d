"""From a network and roots to a plan: order, loops, fusion, gradients, buffers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

import attrs

from cntk_core.errors import NetworkError
from cntk_core.network.inference import is_delay
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.shapes import elements, show
from cntk_core.plan.buffers import assign_buffers
from cntk_core.plan.fusion import consumers_of, group
from cntk_core.plan.gradients import Flow, gradient_steps
from cntk_core.plan.loops import Component, components
from cntk_core.plan.plan import GradientStep, Loop, LoopGradient, Plan, Step, is_open
from cntk_core.plan.runnable import check_runnable
from cntk_core.plan.sparse import find_sparse


def make_plan(
    network: Network,
    roots: Sequence[Node],
    criterion: Node | None = None,
    *,
    learn: Collection[Node] | None = None,
    by: Sequence[Node] = (),
    fuse: bool = True,
    runnable: bool = True,
) -> Plan:
    """Plan the computation of ``roots`` and, if a criterion is given, of its gradients by the learned parameters.

    With ``by``, gradients flow from all the roots by any nodes instead, from seeds that the program is given.

    Args:
        network: with shapes inferred.
        roots: nodes whose values can be read after a run.
        criterion: a scalar node, or one with a number for each frame; its gradient is that of the sum over the samples
            of the minibatch.
        learn: those of the learned parameters that are to be trained; by default all.
        by: parameters (learned or not), inputs and inner nodes by which the gradients of the roots are wanted; a
            criterion then is one root more.
        fuse: compute neighbouring element-wise nodes in one pass.
        runnable: refuse nodes whose operation is only declared; otherwise the plan is only to look at.

    Raises:
        NetworkError: the criterion is not a scalar or depends on no learned parameter; the roots do not depend on one
            of ``by``, or it is a sparse input; a precomputed node has no value; a loop is not one that can be computed.
        UnsupportedError, Problems: names every node that cannot run yet.
    """
    wanted = tuple(dict.fromkeys([*roots, *([criterion] if criterion is not None else [])]))
    if runnable:
        check_runnable(network, wanted)
    parts = components(wanted, stop_at_constants=True)
    order = [node for part in parts for node in part.nodes]
    _check(order, criterion)
    asked, wanted = wanted, tuple(dict.fromkeys([*wanted, *(node for node in order if node.op.traits.assigns)]))
    consumers = consumers_of(order)
    by = tuple(dict.fromkeys(by))
    flow = Flow.between(order, consumers, asked, by) if by else Flow.make(order, consumers, criterion, learn)
    # What is fused with its readers has no gradient of its own.
    units = _units(parts, consumers, partial(group, fuse=fuse, apart=frozenset(by)))
    steps = _steps(units, flow, consumers, set(wanted))
    gradients = _mark_last(gradient_steps(steps, flow))
    trained = tuple(node for node in order if isinstance(node, Parameter) and node in flow.path)
    seeded = tuple(node for node in wanted if node in flow.begins) if by else ()
    value_buffer, gradient_buffer, buffers = assign_buffers(steps, gradients, wanted, seeded=seeded, by=by)
    return Plan(
        network=network,
        roots=wanted,
        criterion=None if by else criterion,
        inputs=tuple(node for node in order if isinstance(node, Input)),
        parameters=tuple(node for node in order if isinstance(node, Parameter)),
        trained=trained,
        steps=steps,
        gradients=gradients,
        buffers=buffers,
        value_buffer=value_buffer,
        gradient_buffer=gradient_buffer,
        sparse=find_sparse(gradients, trained),
        open_values=tuple(node for step in steps for node in step.writes if is_open(node)),
        open_gradients=_open_gradients(gradients, seeded),
        seeded=seeded,
        by=by,
    )


def _check(order: Sequence[Node], criterion: Node | None) -> None:
    for node in order:
        if node.op.role == "precompute" and node.value is None:
            raise NetworkError(f"the node '{node.name}' ({node.op.name}) is not computed yet", where=node.where)
    if criterion is not None and elements(criterion.known_shape) != 1:
        raise NetworkError(
            f"the criterion '{criterion.name}' is {show(criterion.known_shape)}, not a scalar", where=criterion.where
        )


@attrs.frozen(eq=False)
class _Unit:
    """What one step of the plan will compute: groups of nodes, one alone or the body of a loop."""

    groups: tuple[tuple[Node, ...], ...]
    direction: int = 0

    @property
    def last(self) -> Node:
        return self.groups[-1][-1]


_Groups = Callable[..., list[tuple[Node, ...]]]


def _units(parts: Sequence[Component], consumers: dict[Node, list[Node]], group: _Groups) -> list[_Unit]:
    """Group nodes for fusion, outside loops and in each loop by itself, and put all in a valid order."""
    order = [node for part in parts for node in part.nodes]
    place = {node: index for index, node in enumerate(order)}
    straight = [node for part in parts if not part.direction for node in part.nodes if _is_computed(node)]
    units = [_Unit((members,)) for members in group(straight, consumers, place)]
    for part in parts:
        if part.direction:
            units.append(_Unit(tuple(_body(part, consumers, group)), part.direction))
    return sorted(units, key=lambda unit: place[unit.last])


def _is_computed(node: Node) -> bool:
    return node.value is None and not isinstance(node, Input | Parameter)


def _body(part: Component, consumers: dict[Node, list[Node]], group: _Groups) -> list[tuple[Node, ...]]:
    """Group the nodes of a loop for one time step. A delay reads what another time step left: it is no consumer."""
    inside = {node for node in part.nodes if not is_delay(node)}
    same_step = {node: [user for user in consumers[node] if user in inside] for node in part.nodes}
    place = {node: index for index, node in enumerate(part.nodes)}
    return group(part.nodes, same_step, place)


def _steps(
    units: Sequence[_Unit], flow: Flow, consumers: dict[Node, list[Node]], roots: set[Node]
) -> tuple[Step | Loop, ...]:
    kept = {node for unit in units for members in unit.groups for node in flow.reads(members)}
    result: list[Step | Loop] = []
    for unit in units:
        steps = tuple(_step(members, consumers, kept | roots) for members in unit.groups)
        if not unit.direction:
            result.append(steps[0])
            continue
        inside = {node for step in steps for node in step.nodes}
        reads = dict.fromkeys(node for step in steps for node in step.reads if node not in inside)
        result.append(Loop(steps, unit.direction, tuple(reads), tuple(node for step in steps for node in step.writes)))
    return tuple(result)


def _step(members: tuple[Node, ...], consumers: dict[Node, list[Node]], kept: set[Node]) -> Step:
    inside = set(members)
    reads = dict.fromkeys(child for node in members for child in node.inputs if child not in inside)
    writes = [node for node in members if node in kept or any(user not in inside for user in consumers[node])]
    return Step(members, tuple(reads), tuple(writes))


def _open_gradients(gradients: Sequence[GradientStep | LoopGradient], seeded: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes whose gradients have a dimension that every minibatch has its own of, those inside loops included."""
    targets = (target.node for step in gradients for target in step.targets)
    return tuple(dict.fromkeys(node for node in (*seeded, *targets) if is_open(node)))


def _mark_last(gradients: Sequence[GradientStep | LoopGradient]) -> tuple[GradientStep | LoopGradient, ...]:
    seen: set[Node] = set()
    result: list[GradientStep | LoopGradient] = []
    for step in reversed(gradients):
        targets = tuple(attrs.evolve(target, last=target.node not in seen) for target in step.targets)
        seen.update(target.node for target in targets)
        result.append(attrs.evolve(step, targets=targets))
    return tuple(reversed(result))
