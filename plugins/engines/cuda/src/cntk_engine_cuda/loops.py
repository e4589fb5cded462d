"""Recurrent loops: the steps of each time step are bound to its rows, so that a loop is a straight line of calls.

It is bound anew for time steps of other sizes, and becomes part of the CUDA graph of the step where sizes come again;
where sequences begin and whether they go on from minibatch to minibatch is in tables (:mod:`delay_tables`).
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


class _Rows(Mapping[Node, Array]):
    """Arrays of which those with the axis of a loop are cut to the rows of a time step, when somebody wants them."""

    def __init__(self, whole: Mapping[Node, Array], axis: str, rows: slice) -> None:
        self._whole = whole
        self._axis = axis
        self._rows = rows
        self._cut: dict[Node, Array] = {}

    def __getitem__(self, node: Node) -> Array:
        if not (node.framed and node.axis == self._axis):
            return self._whole[node]
        if node not in self._cut:
            self._cut[node] = self._whole[node][self._rows]
        return self._cut[node]

    def __contains__(self, node: object) -> bool:
        return node in self._whole

    def __iter__(self) -> Iterator[Node]:
        return iter(self._whole)

    def __len__(self) -> int:
        return len(self._whole)


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
        contexts = {node: attrs.evolve(site.contexts[node], saved={}) for node in self.loop.nodes}
        offsets = dict(self._drawn)
        for node in self.loop.nodes:
            if node.op.random:
                self._drawn[node] = self._drawn.get(node, 0) + count * int(np.prod(node.known_shape))
        return attrs.evolve(
            site,
            frames={**site.frames, self._axis: count},
            values=_Rows(site.values, self._axis, rows),
            gradients=_Rows(site.gradients, self._axis, rows),
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


def bind_forward(site: Site, loop: Loop, bind: Binder) -> list[Call]:
    """Return the calls that compute a loop; ``bind`` gives those of a step."""
    sites = site.step_sites[loop] = StepSites(site, loop)
    reads = {delay: delays.Reads(site, delay) for delay in loop.delays}
    body: list[Call] = []
    for rows in time_steps(delays.layout_of(site, loop.nodes[0]), loop.direction):
        part = sites.at(rows)
        for step in loop.steps:
            first = step.nodes[0]
            body += reads[first].read(part.values[first], rows) if first in reads else bind(part, step)
    before = [call for each in reads.values() for call in each.before]
    if sites.interpreted:
        site.interpreted.update(loop.nodes)
        before.append(Call(sites.refresh, captured=False))
    return [*before, *body, *(call for each in reads.values() for call in each.finish())]


def bind_gradient(site: Site, step: LoopGradient, bind: Binder) -> list[Call]:
    """Return the calls that compute the gradients of a loop, after :func:`bind_forward`."""
    sites = site.step_sites[step.loop]
    index = {delay: site.delays.rows(site, delay) for delay in step.loop.delays}
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
