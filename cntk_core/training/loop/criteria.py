"""Sums of criteria, and what a program hears of a minibatch that was learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from cntk_core.contract.engine import Program
from cntk_core.network.node import Node
from cntk_core.ops.language.shapes import elements


@attrs.frozen
class Criterion:
    """The sum of a criterion over a number of samples.

    Attributes:
        total: the sum.
        samples: how many.
        running: it is of the epoch so far already: nothing of it is from since an earlier one.
    """

    total: float = 0.0
    samples: int = 0
    running: bool = False

    @property
    def average(self) -> float:
        """Value per sample; 0 if there was none."""
        return self.total / self.samples if self.samples else 0.0

    def __sub__(self, other: Criterion) -> Criterion:
        return self if self.running else Criterion(self.total - other.total, self.samples - other.samples)


@attrs.frozen(eq=False)
class StepResult:
    """What a minibatch gave.

    Attributes:
        samples: samples that the criteria count, of all ranks that make the same steps.
        updated: whether the parameters were updated.
        ended: no rank had any data: an epoch of ranks that make the same steps is over.
    """

    samples: int
    updated: bool
    ended: bool
    _read: Callable[[], Mapping[str, Criterion]] = attrs.field(alias="read")

    @property
    def criteria(self) -> Mapping[str, Criterion]:
        """The criterion and the evaluations of this minibatch, by name, fetched from the engine when asked for.

        Raises:
            TrainingError: they are not there any more, because another minibatch was learned.
        """
        return self._read()

    @property
    def loss(self) -> float:
        """The criterion's average of a sample; see :attr:`criteria`."""
        return next(iter(self.criteria.values())).average


class CriterionSums:
    """Adds up the criteria of a program. Values are fetched from the program only when :meth:`read` asks for them.

    A criterion that is not a single number for the whole minibatch is summed over its frames and elements. One that is
    made of means of the epoch so far counts as it is, once: of several ranks it is the mean.

    Args:
        program: whose roots the nodes are.
        nodes: the criteria, in the order in which they are shown.
    """

    def __init__(self, program: Program, nodes: Sequence[Node]) -> None:
        self.program = program
        self.nodes = tuple(nodes)
        self.samples = 0
        self._running = tuple(node for node in nodes if _is_running(program, node))
        self._sums = dict.fromkeys(
            [*(node.name for node in nodes), *(node.name + _COUNT for node in self._running)], 0.0
        )
        self._by_frame = tuple(node for node in nodes if node.framed or elements(node.known_shape) != 1)
        program.read_totals()  # what ran before does not count

    @property
    def fetched(self) -> dict[str, float]:
        """The sums without what the program has added up since they were last read."""
        return dict(self._sums)

    def restore(self, fetched: Mapping[str, float], samples: int) -> None:
        """Go on from sums that were :attr:`fetched` after so many samples; the program has its part."""
        self._sums = {name: fetched.get(name, 0.0) for name in self._sums}
        self.samples = samples

    def add(self, samples: int) -> None:
        """Count a minibatch that the program has just computed."""
        self.samples += samples
        for node in self._by_frame:
            self._sums[node.name] += float(self.program.value(node.name).sum())
        if samples and self._running:
            self._sums.update(self._run())

    def _run(self) -> dict[str, float]:
        values = {node.name: float(self.program.value(node.name).sum()) for node in self._running}
        return {**values, **{name + _COUNT: 1.0 for name in values}}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers that ranks add up."""
        return tuple(self._sums)

    def take(self) -> dict[str, float]:
        """Return the sums of the minibatch that the program has just computed, without adding them up here."""
        totals = self.program.read_totals()
        found = {
            node.name: float(self.program.value(node.name).sum() if node in self._by_frame else totals[node.name])
            for node in self.nodes
        }
        return {**found, **self._run()}

    def joined(self, sums: Mapping[str, float], later: Mapping[str, float]) -> dict[str, float]:
        """Return the sums of two minibatches, or of more, that :meth:`take` gave of each."""
        running = {key for node in self._running for key in (node.name, node.name + _COUNT)}
        return {name: value + (0.0 if name in running else sums[name]) for name, value in later.items()}

    def put(self, sums: Mapping[str, float], samples: int) -> None:
        """Count a minibatch with sums from elsewhere."""
        self.samples += samples
        now = {key: sums[key] for node in self._running for key in (node.name, node.name + _COUNT)}
        for name in sums.keys() - now.keys():
            self._sums[name] += sums[name]
        if samples:
            self._sums.update(now)

    def read(self) -> dict[str, Criterion]:
        """The sums since the beginning, by name, in the order of the nodes."""
        totals = self.program.read_totals()
        for node in self.nodes:
            if node not in self._by_frame and node not in self._running:
                self._sums[node.name] += float(totals[node.name])
        return {node.name: self._criterion(node) for node in self.nodes}

    def _criterion(self, node: Node) -> Criterion:
        total = self._sums[node.name]
        if node not in self._running:
            return Criterion(total, self.samples)
        return Criterion(total, round(self._sums[node.name + _COUNT]), running=True)


_COUNT = " counted"
"""Behind the name of a criterion that is the epoch's: how many ranks it was added up of."""


def _is_running(program: Program, node: Node) -> bool:
    """Whether a node is a single number made of means of the epoch; the training criterion is added up all the same."""
    waiting, seen = [node], {node}
    while waiting:
        one = waiting.pop()
        if one.op.traits.accumulates:
            return not node.framed and node is not program.plan.criterion
        waiting += [child for child in one.inputs if child not in seen]
        seen.update(one.inputs)
    return False


def since(now: Mapping[str, Criterion], before: Mapping[str, Criterion]) -> dict[str, Criterion]:
    """What came on top, by name."""
    return {name: value - before.get(name, Criterion()) for name, value in now.items()}
