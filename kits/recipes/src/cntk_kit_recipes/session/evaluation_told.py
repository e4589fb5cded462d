"""Who hears of an evaluation: each minibatch, and what came of it in the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from cntk_core.contract.events import EvaluationResult, Job, MinibatchResult
from cntk_core.training.loop.criteria import Criterion, CriterionSums, since
from cntk_kit_recipes.session.run_log import averages

MINIBATCH, END = "cntk_evaluation_minibatch_end", "cntk_evaluation_end"


class Listeners(Protocol):
    """Who listens to hooks."""

    def listeners(self, hook_name: str) -> Sequence[Callable[..., Any]]:
        """Functions that want to hear of an event; usually none."""
        ...


@attrs.define(eq=False)
class Audience:
    """Tells the listeners of one evaluation.

    Attributes:
        each: of minibatches; usually none.
        end: of the end.
        job: what they are told about the action.
        model: the file that is evaluated, if there is one.
        epoch: that training has ended (from 0), for its validation set; None for other evaluations.
    """

    each: Sequence[Callable[..., Any]]
    end: Sequence[Callable[..., Any]]
    job: Job
    model: str = ""
    epoch: int | None = None
    _heard: Mapping[str, Criterion] = attrs.field(factory=dict)
    _samples: int = 0
    _began: float = attrs.field(factory=time.perf_counter)

    @classmethod
    def of(
        cls, hooks: Listeners | None, job: Job | None, *, model: str = "", epoch: int | None = None
    ) -> Audience | None:
        """Return who listens; None if nobody does, or if there is no job to tell of."""
        if hooks is None or job is None:
            return None
        each, end = hooks.listeners(MINIBATCH), hooks.listeners(END)
        return cls(each, end, job, model, epoch) if each or end else None

    def minibatch(self, count: int, sums: CriterionSums) -> None:
        """Tell of a minibatch, the one that has made the count this; the sums are fetched if anybody listens."""
        if not self.each:
            return
        now = sums.read()
        fresh = averages(since(now, self._heard))
        seconds = time.perf_counter() - self._began
        samples = sums.samples - self._samples
        self._heard, self._samples = now, sums.samples
        result = MinibatchResult(self.epoch or 0, count - 1, samples, sums.samples, fresh, seconds)
        for listener in self.each:
            listener(job=self.job, result=result)

    def ended(self, criteria: Mapping[str, Criterion], count: int) -> None:
        """Tell what came of it."""
        samples = next(iter(criteria.values())).samples if criteria else 0
        result = EvaluationResult(averages(criteria), samples, count, self.model, self.epoch)
        for listener in self.end:
            listener(job=self.job, result=result)
