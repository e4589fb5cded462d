"""Evaluation of criteria by several ranks, each on its share of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from cntk_core.contract.engine import Program
from cntk_core.contract.reader import DataReader, EpochSpec
from cntk_core.records.minibatch import Minibatch
from cntk_core.training.loop.criteria import CriterionSums
from cntk_core.training.loop.minibatch_sizes import MinibatchSizes
from cntk_core.training.loop.ranks import Ranks
from cntk_core.training.loop.subminibatch import split
from cntk_kit_recipes.session.traces import Traces

BLOCK = 1000
"""Minibatches after which ranks meet at the latest, so that none is far ahead."""


def evaluate_together(
    program: Program,
    reader: DataReader,
    spec: EpochSpec,
    sums: CriterionSums,
    ranks: Ranks,
    parts: int,
    is_shown: Callable[[int], bool],
    traces: Traces | None = None,
) -> Iterator[int]:
    """Evaluate this rank's share; whenever the ranks have met, yield how many minibatches there were so far.

    Ranks meet where a number of minibatches is shown, and at the end; the sums are then those of all ranks. A rank
    whose data has ended has empty minibatches. As in the original, one in which no rank has data is counted at the end
    where each rank reads its share.
    """
    share = _Share(program, reader, spec, ranks, parts, sums, traces)
    done = 0
    while True:
        ranks.doing(f"evaluating minibatches from {done + 1} on")
        upto = next((count for count in range(done + 1, done + BLOCK) if is_shown(count)), done + BLOCK)
        numbers = share.evaluate(done, upto)
        found = ranks.communicator.allgather(numbers)
        total = np.zeros_like(numbers)
        for one in found:
            total += one
        ended, _, counted, *values = total.tolist()
        sums.put(dict(zip(sums.names, values, strict=True)), round(counted))
        if round(ended) == ranks.size:
            most = max(round(float(one[1])) for one in found)
            if most:
                yield most + int(ranks.distributed)
            return
        done = upto
        yield done


class _Share:
    """What one rank evaluates."""

    def __init__(
        self,
        program: Program,
        reader: DataReader,
        spec: EpochSpec,
        ranks: Ranks,
        parts: int,
        sums: CriterionSums,
        traces: Traces | None,
    ) -> None:
        self._program = program
        self._parts = parts
        self._sums = sums
        self._traces = traces
        self._sizes = MinibatchSizes(program.plan.network)
        self._rest = ranks.shares(reader.minibatches(ranks.spec(spec)))
        self._has_ended = False
        self._count = 0

    def evaluate(self, done: int, upto: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Evaluate minibatches from ``done`` to ``upto``.

        Returns:
            Whether the data has ended, how many minibatches there were since the beginning, and of these ones the
            samples that count and the sums of the criteria.
        """
        counted, taken = 0, dict.fromkeys(self._sums.names, 0.0)
        for _ in range(upto - done):
            following = None if self._has_ended else next(self._rest, None)
            if following is None:
                self._has_ended = True
                break
            self._count += 1
            own: Minibatch | None = following[1]
            for part in split(own, self._parts) if own is not None else ():
                self._program.evaluate(part)
                if self._traces is not None:
                    self._traces.show(self._program)
                counted += self._sizes.samples(part)
                taken = self._sums.joined(taken, self._sums.take())
        return np.array([self._has_ended, self._count, counted, *taken.values()], np.float64)
