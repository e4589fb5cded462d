"""The backward part of a plan: where gradients flow, and the gradient steps of steps and loops."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import attrs

from cntk_core.errors import CntkError, NetworkError, raise_problems
from cntk_core.network.inference import is_delay
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.plan.fusion import gradient_reads
from cntk_core.plan.plan import GradientStep, Loop, LoopGradient, Step, Target


@attrs.frozen(eq=False)
class Flow:
    """Where gradients flow.

    Attributes:
        begins: where they begin.
        path: nodes through which one flows from there to where one is wanted.
        consumers: for each node, who reads it.
        seeded: they begin with what they are given, to which others of these nodes may add; else with ones.
    """

    begins: frozenset[Node]
    path: frozenset[Node]
    consumers: Mapping[Node, Sequence[Node]]
    seeded: bool = False

    @classmethod
    def make(
        cls,
        order: Sequence[Node],
        consumers: Mapping[Node, Sequence[Node]],
        criterion: Node | None,
        learn: Collection[Node] | None = None,
    ) -> Flow:
        """Find the way from a criterion to the learned parameters of an order, or to those that are to ``learn``.

        Raises:
            NetworkError: there is nothing to learn.
        """
        if criterion is None:
            return cls(frozenset(), frozenset(), consumers)
        learned = [node for node in order if isinstance(node, Parameter) and node.learned]
        learned = learned if learn is None else [node for node in learned if node in learn]
        needing = _upward(learned, consumers)
        if criterion not in needing:
            # Legal as long as there is something to learn: all gradients are zero (a criterion behind Floor, say).
            if not learned:
                message = f"the criterion '{criterion.name}' depends on no learned parameter"
                raise NetworkError(message, where=criterion.where)
            return cls(frozenset(), frozenset(), consumers)
        return cls(frozenset([criterion]), frozenset(_downward([criterion], needing)), consumers)

    @classmethod
    def between(
        cls, order: Sequence[Node], consumers: Mapping[Node, Sequence[Node]], roots: Sequence[Node], by: Sequence[Node]
    ) -> Flow:
        """Find the ways from some roots to the nodes by which their gradients are wanted.

        Raises:
            NetworkError, Problems: the roots do not depend on one of these, or it is a sparse input.
        """
        raise_problems(list(_problems(order, roots, by)))
        needing = _upward(by, consumers)
        begins = [root for root in roots if root in needing]
        return cls(frozenset(begins), frozenset(_downward(begins, needing)), consumers, seeded=True)

    def needs(self, node: Node) -> list[bool]:
        """For each input of a node, whether its gradient is wanted."""
        return [node.op.flows_to(index) and child in self.path for index, child in enumerate(node.inputs)]

    def takes(self, user: Node, node: Node) -> bool:
        """Whether ``user`` sends a gradient to ``node``."""
        if user not in self.path:
            return False
        return any(child is node and need for child, need in zip(user.inputs, self.needs(user), strict=True))

    def sources(self, members: Sequence[Node]) -> tuple[Node, ...]:
        """The members whose gradients come from nodes outside."""
        inside = set(members)
        return tuple(
            node
            for node in members
            if node in self.path
            and (
                node in self.begins
                or any(self.takes(user, node) for user in self.consumers[node] if user not in inside)
            )
        )

    def targets(self, members: Sequence[Node]) -> tuple[Node, ...]:
        """The nodes outside the members that get gradients from them."""
        inside = set(members)
        return tuple(
            dict.fromkeys(
                child
                for node in members
                if node in self.path
                for child, need in zip(node.inputs, self.needs(node), strict=True)
                if need and child not in inside
            )
        )

    def reads(self, members: Sequence[Node]) -> tuple[Node, ...]:
        """Forward values that the gradients of a step look at, members and outside values alike."""
        found: dict[Node, None] = {}
        for node in members:
            needs = self.needs(node) if node in self.path else []
            if not any(needs):
                continue
            if node.op.elementwise is not None:
                output, inputs = gradient_reads(node, needs)
            else:
                output = node.op.reads_output
                inputs = frozenset(range(len(node.inputs)) if node.op.reads_inputs else ())
            if output:
                found[node] = None
            for index in sorted(inputs):
                found[node.inputs[index]] = None
        return tuple(found)


def _problems(order: Sequence[Node], roots: Sequence[Node], by: Sequence[Node]) -> Iterator[CntkError]:
    inside = set(order)
    names = ", ".join(f"'{root.name}'" for root in roots)
    for node in by:
        if node not in inside:
            depend = "do not depend" if len(roots) > 1 else "does not depend"
            yield NetworkError(f"there is no gradient by '{node.name}': {names} {depend} on it", where=node.where)
        elif isinstance(node, Input) and node.sparse:
            yield NetworkError(
                f"there is no gradient by '{node.name}': it is a sparse input",
                where=node.where,
                hint="Declare the input dense, or ask for the gradient by a node that reads it.",
            )


def _upward(wanted: Sequence[Node], consumers: Mapping[Node, Sequence[Node]]) -> set[Node]:
    """Everything that a gradient by one of the nodes could come from."""
    found = set(wanted)
    work = list(wanted)
    while work:
        node = work.pop()
        for user in consumers[node]:
            if user in found or user.value is not None:
                continue
            if any(child is node and user.op.flows_to(index) for index, child in enumerate(user.inputs)):
                found.add(user)
                work.append(user)
    return found


def _downward(begins: Sequence[Node], needing: set[Node]) -> set[Node]:
    found = set(begins)
    work = list(begins)
    while work:
        node = work.pop()
        if node.value is not None:
            continue
        for index, child in enumerate(node.inputs):
            if child in needing and child not in found and node.op.flows_to(index):
                found.add(child)
                work.append(child)
    return found


def gradient_steps(steps: Sequence[Step | Loop], flow: Flow) -> list[GradientStep | LoopGradient]:
    """Return the gradient steps of all steps, in the order in which they are done."""
    result: list[GradientStep | LoopGradient] = []
    written = set(flow.begins)
    for step in reversed(steps):
        if isinstance(step, Loop):
            result += _loop(step, flow, written)
            continue
        sources, outside = flow.sources(step.nodes), flow.targets(step.nodes)
        if sources and outside:
            result.append(_straight(step, sources, outside, flow, written))
    return result


def _straight(
    step: Step, sources: tuple[Node, ...], outside: Sequence[Node], flow: Flow, written: set[Node]
) -> GradientStep:
    targets = tuple(Target(child, accumulate=child in written, last=False) for child in outside)
    written.update(outside)
    return GradientStep(step, sources, flow.reads(step.nodes), targets)


def _loop(loop: Loop, flow: Flow, written: set[Node]) -> list[GradientStep | LoopGradient]:
    """The gradient of a loop, and the steps after it that work on all frames at once."""
    inside = set(loop.nodes)
    from_outside = flow.sources(loop.nodes)
    if not any(node in flow.path for node in loop.nodes):
        return []
    state = _LoopState(flow, written, inside)
    body: list[GradientStep] = []
    after: list[tuple[Step, tuple[Node, ...], list[Node]]] = []
    for step in reversed(loop.steps):
        sources = flow.sources(step.nodes)
        if not sources:
            continue
        outside = flow.targets(step.nodes)
        at_end = all(node.op.traits.summed_at_end for node in step.nodes)
        # What is given whole in each time step gets its gradient as a weight does.
        whole = [node.inputs[index] for node in step.nodes for index in node.op.whole if index < len(node.inputs)]
        constant = [child for child in outside if child not in inside and (not child.framed or child in whole)]
        batched = constant if at_end else []
        if is_delay(step.nodes[0]):  # its initial state has no row for each frame
            batched = [child for child in outside if child is not step.nodes[0].inputs[0]]
        stepwise = [child for child in outside if child not in batched]
        if stepwise:
            body.append(GradientStep(step, sources, flow.reads(step.nodes), state.targets(step, stepwise)))
        if batched:
            after.append((step, sources, batched))
    reads = dict.fromkeys(node for step in body for node in step.reads)
    targets = dict.fromkeys(target.node for step in body for target in step.targets)
    result: list[GradientStep | LoopGradient] = [
        LoopGradient(
            loop=loop,
            steps=tuple(body),
            cleared=tuple(state.cleared),
            sources=from_outside,
            reads=tuple(reads),
            targets=tuple(Target(node, accumulate=node in written, last=False) for node in targets),
        )
    ]
    written.update(targets)
    return result + [_straight(step, sources, batched, flow, written) for step, sources, batched in after]


class _LoopState:
    """Decides who is first to write a gradient in a time step, and what has to be zero before."""

    def __init__(self, flow: Flow, written: set[Node], inside: set[Node]) -> None:
        self.cleared: dict[Node, None] = {}
        self._written = set(written)
        # What a delay adds to, a later time step has written already.
        for node in inside:
            for user in flow.consumers[node]:
                if user in inside and is_delay(user) and flow.takes(user, node):
                    self._clear(node)

    def _clear(self, node: Node) -> None:
        if node not in self._written:
            self.cleared[node] = None
            self._written.add(node)

    def targets(self, step: Step, children: Sequence[Node]) -> tuple[Target, ...]:
        """The targets of a step of the body."""
        result = []
        for child in children:
            if not child.framed:  # summed over the time steps
                self._clear(child)
            result.append(Target(child, accumulate=child in self._written, last=False))
            self._written.add(child)
        return tuple(result)
