"""What lies in one place inside a loop, where all that it computes lives at the same time.

Outside loops, lives that follow each other decide (:mod:`buffers`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from cntk_core.network.node import Node, Parameter
from cntk_core.plan.plan import GradientStep, Loop, LoopGradient, Step


def same_values(
    steps: Sequence[Step | Loop], gradients: Sequence[GradientStep | LoopGradient], roots: set[Node]
) -> dict[Node, Node]:
    """Return values of loops that are written over values computed before the loop: each with that value.

    An element-wise step may do so if nobody else reads the value: it reads the rows of a time step and writes them.
    """
    readers = Counter(node for step in _all_steps(steps) for node in step.reads)
    readers.update(node for step in gradients for node in step.reads)
    computed = {node for step in steps if not isinstance(step, Loop) for node in step.writes} - roots
    found: dict[Node, Node] = {}
    for loop in steps:
        if not isinstance(loop, Loop):
            continue
        for step in loop.steps:
            if any(node.op.elementwise is None for node in step.nodes):
                continue
            free = [node for node in step.reads if node in computed and readers[node] == 1]
            for written in step.writes:
                fitting = [node for node in free if _alike(node, written)]
                if fitting and written not in roots:
                    found[written] = fitting[0]
                    free.remove(fitting[0])
    return found


def _all_steps(steps: Sequence[Step | Loop]) -> Iterator[Step]:
    for step in steps:
        yield from step.steps if isinstance(step, Loop) else (step,)


def _alike(first: Node, second: Node) -> bool:
    """Whether two values are laid out alike."""
    framed = bool(first.framed and second.framed)
    return framed and first.axis == second.axis and first.known_shape == second.known_shape


def same_gradients(gradients: Sequence[GradientStep | LoopGradient], seeded: Sequence[Node] = ()) -> dict[Node, Node]:
    """Return gradients that a loop only passes on (sums do): each with the one that it equals.

    No other step may send anything to them, nor may they be ``seeded``.
    """
    senders = Counter(target.node for step in _all_gradients(gradients) for target in step.targets)
    senders.update(seeded)
    found: dict[Node, Node] = {}
    for loop in gradients:
        if not isinstance(loop, LoopGradient):
            continue
        for step in loop.steps:
            if [node.op.traits.sums for node in step.step.nodes] != [True] or len(step.sources) != 1:
                continue
            (source,) = step.sources
            inputs = step.step.nodes[0].inputs
            for target in step.targets:
                node = target.node
                alone = senders[node] == 1 and node not in loop.cleared and inputs.count(node) == 1
                if alone and not isinstance(node, Parameter) and _alike(source, node):
                    found[node] = found.get(source, source)
    return found


def _all_gradients(gradients: Sequence[GradientStep | LoopGradient]) -> Iterator[GradientStep]:
    for step in gradients:
        yield from step.steps if isinstance(step, LoopGradient) else (step,)
