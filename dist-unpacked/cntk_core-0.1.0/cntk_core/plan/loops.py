"""Recurrent loops: strongly connected components of the network, and the order of everything around and inside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from cntk_core.errors import CntkError, NetworkError, raise_problems
from cntk_core.network.components import components as connected
from cntk_core.network.components import inputs_of
from cntk_core.network.inference import is_delay
from cntk_core.network.node import Node


@attrs.frozen(eq=False)
class Component:
    """Nodes that depend on each other, or one node alone.

    Attributes:
        nodes: in the order of computation; for a loop, that of one time step, so that its delays come first.
        direction: 1 for a loop that goes forward in time, -1 for one that goes back, 0 for a node outside loops.
    """

    nodes: tuple[Node, ...]
    direction: int = 0


def direction_of(delay: Node) -> int:
    """1 if a delay looks at the past, so that the loop through it goes forward in time; -1 if at the future."""
    past = delay.op.traits.delay
    return past if delay.attributes.time_step >= 0 else -past


def components(roots: Iterable[Node], *, stop_at_constants: bool = False) -> list[Component]:
    """Return everything that the roots need, loops together, each component after what it reads.

    Args:
        roots: where to begin.
        stop_at_constants: leave out what only feeds nodes that have their value.

    Raises:
        NetworkError, Problems: a loop without delay, with delays in both directions, or with a delay of 0 steps;
            names the nodes of the cycle.
    """
    found = [
        _component(members, stop_at_constants) for members in connected(roots, stop_at_constants=stop_at_constants)
    ]
    problems = [problem for item in found for problem in _problems(item)]
    raise_problems(problems)
    return found


def _component(members: list[Node], stop_at_constants: bool) -> Component:
    (first, *others) = members
    if not others and first not in inputs_of(first, stop_at_constants):
        return Component((first,))
    delays = [node for node in members if is_delay(node)]
    direction = direction_of(delays[0]) if delays else 1
    return Component(_time_step_order(members), direction)


def _time_step_order(members: Sequence[Node]) -> tuple[Node, ...]:
    """Order the nodes of a loop for one time step: delays first, then depth first.

    What is left in a cycle without delay keeps its place; :func:`_problems` tells about it.
    """
    inside = set(members)
    done: dict[Node, None] = {node: None for node in members if is_delay(node)}
    for root in members:
        stack = [(root, iter(root.inputs))]
        path = {root}
        while stack and root not in done:
            node, rest = stack[-1]
            for child in rest:
                if child in inside and child not in done and child not in path:
                    path.add(child)
                    stack.append((child, iter(child.inputs)))
                    break
            else:
                done[node] = None
                path.discard(node)
                stack.pop()
    return tuple(done)


def _problems(component: Component) -> Iterator[CntkError]:
    if not component.direction:
        return
    cycle = _cycle_without_delay(component.nodes)
    if cycle:
        yield NetworkError(
            f"the nodes {_show(cycle)} form a cycle without a delay",
            where=cycle[0].where,
            hint="A cycle is legal only through PastValue or FutureValue.",
        )
        return
    delays = [node for node in component.nodes if is_delay(node)]
    backward = [node for node in delays if direction_of(node) != component.direction]
    if backward:
        yield NetworkError(
            f"the loop of {_some(component.nodes)} goes in both directions of time: "
            f"'{delays[0].name}' is {delays[0].op.name}, '{backward[0].name}' is {backward[0].op.name}",
            where=backward[0].where,
            hint="Nodes that depend on each other must all wait for the past, or all for the future.",
        )
    for node in delays:
        if node.attributes.time_step == 0:
            yield NetworkError(f"the delay '{node.name}' closes a loop, but waits for 0 time steps", where=node.where)
    whole = [node for node in component.nodes if _needs_whole_sequences(node, component)]
    for node in whole[:1]:  # the others mostly serve this one
        yield NetworkError(
            f"'{node.name}' ({node.op.name}) cannot be in the loop of {_some(component.nodes)}: it needs whole "
            "sequences, and a loop is computed one time step after the other",
            where=node.where,
            hint="Take it out of the loop, for example by giving it a node outside with the same sequences. "
            "The second input of PastValue is the state before the first step.",
        )


def _needs_whole_sequences(node: Node, loop: Component) -> bool:
    if is_delay(node):
        return False
    if node.op.reduces_frames or node.op.output_axes or node.op.makes_axis(node.inputs[0].shape, node.attributes):
        return True
    if node.op.whole:
        return any(node.inputs[index] in loop.nodes for index in node.op.whole if index < len(node.inputs))
    # Within a loop all sequences are the same, so that nothing has to be reconciled.
    same = node.op.traits.passes_through and node.inputs[0] in loop.nodes
    return node.op.axis_of is not None and not same


def _cycle_without_delay(members: Sequence[Node]) -> list[Node]:
    """Find a cycle among the nodes that does not pass through a delay."""
    inside = {node: None for node in members if not is_delay(node)}
    seen: set[Node] = set()
    for root in inside:
        path: dict[Node, Iterator[Node]] = {} if root in seen else {root: iter(root.inputs)}
        while path:
            node = next(reversed(path))
            for child in path[node]:
                if child in path:
                    names = list(path)
                    return [*names[names.index(child) :], child]
                if child in inside and child not in seen:
                    path[child] = iter(child.inputs)
                    break
            else:
                del path[node]
                seen.add(node)
    return []


def _show(cycle: Sequence[Node]) -> str:
    return " -> ".join(node.name for node in cycle)


def _some(nodes: Sequence[Node]) -> str:
    names = [node.name for node in nodes]
    return ", ".join(names) if len(names) <= 8 else f"{', '.join(names[:8])} and {len(names) - 8} more"
