"""Recurrent loops: the steps of each time step are bound to its rows, so that a loop is a straight line of calls.

It is bound anew for each arrangement of sequences, and runs as one CUDA graph where an arrangement comes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from cntk_core.api import Loop, LoopGradient, Node, OpContext, SequenceLayout, frame_layout, is_delay
from cntk_engine_cuda import delays
from cntk_engine_cuda.gpu import Array, Call
from cntk_engine_cuda.site import Site

Binder = Callable[..., list[Call]]


def time_steps(layout: SequenceLayout, direction: int) -> Iterator[slice]:
    """Yield the rows of each time step, in the order of a loop."""
    for start, count in list(zip(layout.start.tolist(), layout.alive.tolist(), strict=True))[::direction]:
        yield slice(start, start + count)


class StepSites:
    """What the steps of a loop see of each time step.

    Args:
        site: of all time steps.
        loop: the loop.
    """

    def __init__(self, site: Site, loop: Loop) -> None:
        self.loop = loop
        self._site = site
        self._axis = loop.nodes[0].axis
        self._sites: dict[int, Site] = {}
        self._drawn: dict[Node, int] = {}
        layout = delays.layout_of(site, loop.nodes[0])
        for rows in time_steps(layout, loop.direction):
            self._sites[rows.start] = self._make(rows)

    def _make(self, rows: slice) -> Site:
        site, count = self._site, rows.stop - rows.start

        def cut(arrays: Mapping[Node, Array]) -> dict[Node, Array]:
            return {node: array[rows] if _moves(node, self._axis) else array for node, array in arrays.items()}

        contexts = {node: attrs.evolve(site.contexts[node], saved={}) for node in self.loop.nodes}
        offsets = dict(self._drawn)
        for node in self.loop.nodes:
            if node.op.random:
                self._drawn[node] = self._drawn.get(node, 0) + count * int(np.prod(node.known_shape))
        return attrs.evolve(
            site,
            frames={**site.frames, self._axis: count},
            values=cut(site.values),
            gradients=cut(site.gradients),
            contexts={**site.contexts, **contexts},
            interpreted=set(),
            drawn=offsets,
        )

    def at(self, rows: slice) -> Site:
        """The site of a time step."""
        return self._sites[rows.start]

    def refresh(self) -> None:
        """Let the contexts of all time steps have what is new in this minibatch; one random stream serves them all."""
        generators: dict[Node, Any] = {}
        for node in self.loop.nodes:
            whole = self._site.contexts[node]
            if node.op.random:
                generators[node] = whole.random()
        for part in self._sites.values():
            count = part.frames[self._axis]
            for node in self.loop.nodes:
                _renew(part.contexts[node], self._site.contexts[node], count)
                if node in generators:
                    part.contexts[node].random = _always(generators[node])

    @property
    def interpreted(self) -> bool:
        """Whether a step looks at its context."""
        return any(part.interpreted for part in self._sites.values())


def _always(generator: Any) -> Callable[[], Any]:
    return lambda: generator


def _renew(context: OpContext, whole: OpContext, count: int) -> None:
    context.frames = count
    context.layout = frame_layout(count)
    context.layouts = whole.layouts
    context.training = whole.training
    context.settings = whole.settings
    context.carried = whole.carried


def _moves(node: Node, axis: str) -> bool:
    return bool(node.framed) and node.axis == axis


def bind_forward(site: Site, loop: Loop, bind: Binder) -> list[Call]:
    """Return the calls that compute a loop; ``bind`` gives those of a step."""
    sites = site.step_sites[loop] = StepSites(site, loop)
    index = {delay: delays.sources(site, delay) for delay in loop.delays}
    calls = [call for delay in loop.delays for call in delays.prepare(site, delay)]
    body: list[Call] = []
    for rows in time_steps(delays.layout_of(site, loop.nodes[0]), loop.direction):
        part = sites.at(rows)
        for step in loop.steps:
            first = step.nodes[0]
            if is_delay(first):
                body += delays.gather(site, index[first][rows], site.values[first.inputs[0]], part.values[first])
            else:
                body += bind(part, step)
    if sites.interpreted:
        site.interpreted.update(loop.nodes)
        calls.append(Call(sites.refresh, captured=False))
    return [*calls, *body, *(call for delay in loop.delays for call in delays.finish(site, delay))]


def bind_gradient(site: Site, step: LoopGradient, bind: Binder) -> list[Call]:
    """Return the calls that compute the gradients of a loop, after :func:`bind_forward`."""
    sites = site.step_sites[step.loop]
    index = {delay: delays.sources(site, delay) for delay in step.loop.delays}
    calls = [call for node in step.cleared for call in site.gpu.fill(site.gradients[node], 0.0)]
    for rows in time_steps(delays.layout_of(site, step.loop.nodes[0]), -step.loop.direction):
        part = sites.at(rows)
        for each in step.steps:
            first = each.step.nodes[0]
            if is_delay(first):
                given = site.gradients[first.inputs[0]]
                calls += delays.add_back(site, index[first][rows], part.gradients[first], given)
            else:
                calls += bind(part, each)
    return calls
