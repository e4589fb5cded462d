"""A plan bound to arrays for given numbers of frames: the calls of its parts, each made when it is first wanted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from cntk_core.api.engines import Stage
from cntk_engine_cuda.binding import forward_group, gradient_group
from cntk_engine_cuda.gpu import Call
from cntk_engine_cuda.runner import Runner
from cntk_engine_cuda.site import Site
from cntk_engine_cuda.slices import grouped, grouped_gradients


class Bound:
    """The code for given numbers of frames, and given arrangements of sequences where it depends on them.

    Args:
        site: the arrays.
        stage: which forward steps.
        before: the code of the stage before.
        totals: the calls that add scalar roots to their totals.
        graphs: whether CUDA graphs are made.
    """

    def __init__(self, site: Site, stage: Stage, before: Bound | None, totals: Sequence[Call], *, graphs: bool) -> None:
        self.site = site
        self.stage = stage
        self.before = before
        self._totals = list(totals)
        self._graphs = graphs
        self._steps: dict[int, Runner] = {}

    @functools.cached_property
    def _forward(self) -> list[Call]:
        steps = self.site.plan.steps[self.stage.first : self.stage.end]
        return [*(call for group in grouped(steps) for call in forward_group(self.site, group)), *self._totals]

    @functools.cached_property
    def _backward(self) -> list[Call]:
        assert self._forward is not None  # loops leave there what their gradients need
        plan, gpu = self.site.plan, self.site.gpu
        # The criterion's gradient begins with ones again, where a run adds to them.
        begin = gpu.fill(self.site.gradients[plan.criterion], 1.0) if plan.criterion and plan.fed_back else []
        groups = grouped_gradients(plan.gradients)
        return [*begin, *(call for group in groups for call in gradient_group(self.site, group))]

    @property
    def calls(self) -> int:
        """How many calls are bound by now."""
        made = [name for name in ("_forward", "_backward") if name in self.__dict__]
        return sum(len(self.__dict__[name]) for name in made)

    @functools.cached_property
    def forward(self) -> Runner:
        """Computes the values of the stage."""
        return Runner(self.site.gpu, self._forward, graphs=self._graphs)

    @functools.cached_property
    def backward(self) -> Runner:
        """Computes the gradients, after ``forward``; it is bound before that runs."""
        return Runner(self.site.gpu, self._backward, graphs=self._graphs)

    def training(self, update: Sequence[Call] = ()) -> Runner:
        """Computes values and gradients, and then does what ``update`` says; the same object for the same update."""
        key = id(update) if update else 0
        if key not in self._steps:
            calls = [*self._forward, *self._backward, *update]
            self._steps[key] = Runner(self.site.gpu, calls, graphs=self._graphs)
        return self._steps[key]

    def run(self, runner: Runner, place_contexts: Callable[[Site], None]) -> None:
        """Run some of its code."""
        if self.site.interpreted:
            place_contexts(self.site)
        for each in (*self.site.refreshed.values(), *self.site.beforehand):
            each()
        runner()
        for each in self.site.afterwards:
            each()
