"""Algorithm 1 of Yu et al., "An Introduction to Computational Networks" (2014): a network that computes a derivative.

Nodes are visited so that a node comes after all that read it; each adds to the derivatives by its inputs. A derivative
through a delay comes from another time step: it is a delay in the other direction, and closes loops as that does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from cntk_core.errors import CntkError, UnsupportedError, raise_problems
from cntk_core.network.inference import is_delay
from cntk_core.network.network import Network
from cntk_core.network.node import Node, copies_of
from cntk_core.ops.families.recurrence import FUTURE_VALUE, PAST_VALUE, DelayAttributes
from cntk_core.ops.language.shapes import to_cntk
from cntk_core.plan.fusion import consumers_of
from cntk_core.plan.gradients import Flow
from cntk_kit_builders.carry import carry_blocks
from cntk_kit_builders.derivatives.find_rule import rule_of
from cntk_kit_builders.derivatives.writing import DerivativeWriter, NotDifferentiable, Term


def derivative_name(root: str, by: str) -> str:
    """Return the name of the node that computes the derivative of a root by a node."""
    return f"{root}.by.{by}"


def differentiate(network: Network, root: Node | str, by: Node | str | Iterable[Node | str]) -> Network:
    """Return a network whose nodes compute the derivative of a root by other nodes.

    It holds copies of what the root needs, and for each node of ``by`` one with the name of :func:`derivative_name`,
    marked as output, of that node's shape: the derivative of the sum of all elements of the root over all frames. It
    can be saved, drawn, evaluated, trained and differentiated again.

    Args:
        network: with shapes inferred; it is not changed.
        root: of any shape.
        by: inputs that are not sparse, parameters, inner nodes.

    Raises:
        NetworkError: there is no such node; the root does not depend on one of ``by``, or it is a sparse input.
        UnsupportedError, Problems: all nodes whose derivatives cannot be written as nodes.
    """
    names = [by] if isinstance(by, Node | str) else list(by)
    begin, *wanted = (network[each] if isinstance(each, str) else each for each in (root, *names))
    needed = set(network.order([begin]))
    Flow.between(list(needed), consumers_of(list(needed)), [begin], wanted)  # mistakes, before anything else
    made = Network(network.dtype)
    copies = copies_of(node for node in network if node in needed)
    for node in copies.values():
        made.add(node)
    for role, group in network.roots.items():
        made.roots[role] = [copies[node] for node in group if node in copies]
    made.origins = network.origins
    carry_blocks(network.blocks, copies, made)
    for derivative in add_derivatives(made, copies[begin], [copies[node] for node in wanted]).values():
        made.mark(derivative, "output")
    return made


def add_derivatives(network: Network, root: Node, by: Iterable[Node]) -> dict[Node, Node]:
    """Add nodes to a network that compute the derivative of one of its nodes by others; return these by the latter.

    They have the names of :func:`derivative_name`.

    Args:
        network: with shapes inferred; parameters need no values yet.
        root, by: as of :func:`differentiate`.

    Raises:
        NetworkError: the root does not depend on one of ``by``, or it is a sparse input; a name is taken.
        UnsupportedError, Problems: all nodes whose derivatives cannot be written as nodes.
    """
    derivatives = _Derivatives(network, root, list(by))
    return {
        node: derivatives.named(derivative, derivative_name(root.name, node.name))
        for node, derivative in derivatives.found().items()
    }


class _Derivatives:
    """The derivatives of a root by nodes, while they are put together.

    Args:
        network: where nodes are added.
        root: what is differentiated.
        by: the nodes.
    """

    def __init__(self, network: Network, root: Node, by: Sequence[Node]) -> None:
        self._network = network
        self._root = root
        self._by = by
        self._order = network.order([root])
        self._flow = Flow.between(self._order, consumers_of(self._order), [root], by)
        self._writer = DerivativeWriter(network, f"{root.name}.d")
        self._parts: dict[Node, list[Node]] = {}
        self._back: dict[Node, Node] = {}

    def found(self) -> Mapping[Node, Node]:
        """Return the derivative by each node.

        Raises:
            UnsupportedError, Problems: all nodes whose derivatives cannot be written as nodes.
        """
        self._check()
        path = [node for node in reversed(self._order) if node in self._flow.path]
        self._add(self._root, 1.0)
        for node in path:
            if is_delay(node) and self._flow.needs(node)[0]:
                self._open(node)
        problems: list[CntkError] = []
        for node in path:
            try:
                self._visit(node)
            except NotDifferentiable as error:
                problems.append(_refused(node, error.message))
        raise_problems(problems)
        return {node: self._sum(node) for node in self._by}

    def named(self, node: Node, name: str) -> Node:
        """Return a node of a name that has the value of another."""
        made = self._writer.op("Pass", node)
        self._network.rename(made, name)
        return made

    def _check(self) -> None:
        flow = self._flow
        known = [node for node in self._order if node in flow.path and any(flow.needs(node)) and not is_delay(node)]
        raise_problems(
            [_refused(node, "its operation has no rule for that") for node in known if rule_of(node.op) is None]
        )

    def _add(self, node: Node, part: Term) -> None:
        self._parts.setdefault(node, []).append(self._writer.fit(part, node))

    def _sum(self, node: Node) -> Node:
        if node not in self._parts:  # all that read it let nothing through
            self._add(node, 0.0)
        total, *others = self._parts[node]
        for other in others:
            total = self._writer.op("Plus", total, other)
        self._parts[node] = [total]
        return total

    def _open(self, delay: Node) -> None:
        """Let the derivative by what a delay reads come from where it is read; that is not known yet."""
        value, attributes = delay.inputs[0], delay.attributes
        op = PAST_VALUE if delay.op.traits.delay < 0 else FUTURE_VALUE
        settings = DelayAttributes(to_cntk(value.known_shape), attributes.time_step, 0.0)
        made = self._back[delay] = self._writer.open_op(op, value, settings)
        self._parts.setdefault(value, []).append(made)

    def _visit(self, node: Node) -> None:
        needs = self._flow.needs(node)
        if not any(needs):
            return
        gradient = self._sum(node)
        if is_delay(node):
            self._visit_delay(node, gradient, needs)
            return
        rule = rule_of(node.op)
        assert rule is not None
        for child, part, needed in zip(node.inputs, rule(self._writer, node, gradient, needs), needs, strict=True):
            if needed and part is not None:
                self._add(child, part)

    def _visit_delay(self, delay: Node, gradient: Node, needs: Sequence[bool]) -> None:
        if delay in self._back:
            self._back[delay].inputs = [gradient]
        if any(needs[1:]):
            initial = delay.inputs[1]
            if initial.framed:
                raise NotDifferentiable("its initial state has a dynamic axis")
            writer = self._writer
            ones = writer.fit(1.0, delay)
            outside = attrs.evolve(delay.attributes, default_hidden_activation=0.0)
            beyond = writer.op("Minus", ones, writer.op(delay.op, ones, attributes=outside))
            self._add(initial, writer.times(gradient, beyond))


def _refused(node: Node, reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"the derivative through '{node.name}' ({node.op.name}) cannot be written as a network: {reason}",
        where=node.where,
        hint="Gradients of values, by Model.gradients, go through every operation.",
    )
