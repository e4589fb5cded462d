"""Recurrent loops as ``Scan``: its state is what delays hold, its body one time step of all sequences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
from onnx import GraphProto, ValueInfoProto, helper

from cntk_core.api import Node
from cntk_core.api.engines import Loop
from cntk_model_onnx.export.graph import TYPES, GraphWriter, Refused
from cntk_model_onnx.export.scope import Scope, Value
from cntk_model_onnx.export.sequences import initial_state

WriteNode = Callable[[Scope, Node, Callable[[Node], Value]], Value]


@attrs.define
class _Body:
    """The body of a loop while it is written.

    Attributes:
        outer: where the loop stands.
        inner: takes the nodes of the body.
        values: of nodes in the body.
        taken: tensors outside whose frames are given to the body one by one, with their names there.
    """

    outer: Scope
    inner: Scope
    values: dict[Node, Value]
    taken: dict[str, str] = attrs.field(factory=dict)

    def take(self, name: str) -> str:
        """Return what the body calls a frame of a tensor ``(N, T, ...)``."""
        if name not in self.taken:
            self.taken[name] = self.inner.graph.store.unique(f"{name}/frame")
        return self.taken[name]


def write_loop(scope: Scope, loop: Loop, value_of: Callable[[Node], Value], write: WriteNode) -> Mapping[Node, Value]:
    """Write a loop, and return the values of those of its nodes that are read outside.

    Args:
        scope: where.
        loop: what.
        value_of: the value of a node outside of the loop.
        write: writes a node of the body, whose inputs it asks for.

    Raises:
        Refused: a node cannot be written; the message of a node's own writer says which.
    """
    graph = GraphWriter(scope.graph.store)
    graph.near = f"{loop.nodes[0].name}/loop"
    body = _Body(scope, Scope(graph, scope.axes, scope), {})
    axis = loop.nodes[0].axis
    if scope.axes[axis].lead != 2:
        raise Refused("it is part of a loop, and its axis has no sequences")
    inside = set(loop.nodes)

    def seen(node: Node) -> Value:
        """A node as the body sees it."""
        if node in body.values:
            return body.values[node]
        value = value_of(node)
        if node in inside or value.lead != 2:
            return value
        if value.axis != axis:
            raise Refused(f"in a loop it reads '{node.name}', whose sequences are others")
        return attrs.evolve(value, name=body.take(value.name), lead=1)

    states = [_states(scope, body, delay, value_of, axis) for delay in loop.delays]
    for node in loop.nodes:
        if node not in body.values:
            graph.near = node.name
            body.values[node] = write(body.inner, node, seen)
    following = _next_states(scope, body, loop, seen, states)
    return _finish(scope, body, loop, states, following)


@attrs.frozen
class _States:
    """What a delay holds: the nearest step first.

    Attributes:
        initial: tensors outside, before the first step.
        names: tensors of the body.
    """

    delay: Node
    initial: str
    names: list[str]


def _states(scope: Scope, body: _Body, delay: Node, value_of: Callable[[Node], Value], axis: str) -> _States:
    """What a delay holds. Its value in the body is the farthest step."""
    scope.graph.near = delay.name
    like = Value(scope.axes[axis].like, delay.known_shape, 2, axis)
    given = [like, *(value_of(child) for child in delay.inputs[1:])]
    initial = initial_state(scope, delay, given, like)
    store = scope.graph.store
    names = [store.unique(f"{delay.name}/state") for _ in range(delay.attributes.time_step)]
    body.values[delay] = Value(names[-1], delay.known_shape, 1, axis)
    return _States(delay, initial, names)


def _next_states(
    scope: Scope, body: _Body, loop: Loop, seen: Callable[[Node], Value], states: list[_States]
) -> list[str]:
    """The states after a step. Going back in time, they stay what they are until a sequence begins at its end."""
    inner = body.inner
    found = []
    for state in states:
        inner.graph.near = state.delay.name
        new = [seen(state.delay.inputs[0]).name, *state.names[:-1]]
        if loop.direction == -1:
            ones = inner.ints(*range(1, 1 + len(state.delay.known_shape)))
            there = inner.op("Unsqueeze", body.take(scope.mask(state.delay.axis)), ones)
            new = [inner.op("Where", there, now, old) for now, old in zip(new, state.names, strict=True)]
        found += [inner.op("Identity", name) for name in new]
    return found


def _finish(scope: Scope, body: _Body, loop: Loop, states: list[_States], following: list[str]) -> Mapping[Node, Value]:
    store, inner = scope.graph.store, body.inner.graph
    if not body.taken:
        body.take(scope.mask(loop.nodes[0].axis))
    written = list(loop.writes)
    results = []
    for node in written:  # what a step gives is no state of it, and has a name of its own
        inner.near = node.name
        results.append(inner.op("Identity", body.values[node].name))
    names = [store.unique(f"{node.name}/all") for node in written]
    rank = {name: len(state.delay.known_shape) for state in states for name in state.names}
    number = TYPES[store.dtype]
    inputs = [_info(name, number, rank[name] + 1) for state in states for name in state.names]
    inputs += [helper.make_tensor_value_info(name, 0, None) for name in body.taken.values()]
    for info in inputs[len(rank) :]:
        info.type.Clear()
    outputs = [_info(name, number, rank[old] + 1) for name, old in zip(following, rank, strict=True)]
    outputs += [_info(name, number, len(node.known_shape) + 1) for name, node in zip(results, written, strict=True)]
    graph: GraphProto = helper.make_graph(inner.nodes, f"{loop.nodes[0].name}/loop", inputs, outputs)
    backward = int(loop.direction == -1)
    ends = [store.unique(f"{name}/end") for name in rank]
    given = [state.initial for state in states for _ in state.names]
    scope.graph.nodes.append(
        helper.make_node(
            "Scan",
            [*given, *body.taken],
            [*ends, *names],
            name=f"{loop.nodes[0].name}/loop",
            body=graph,
            num_scan_inputs=len(body.taken),
            scan_input_axes=[1] * len(body.taken),
            scan_input_directions=[backward] * len(body.taken),
            scan_output_axes=[1] * len(names),
            scan_output_directions=[backward] * len(names),
        )
    )
    axis = loop.nodes[0].axis
    return {node: Value(name, node.known_shape, 2, axis) for node, name in zip(written, names, strict=True)}


def _info(name: str, kind: int, rank: int) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, [None] * rank)
