"""Recurrent loops: the steps of each time step are bound to its rows, so that a loop is a straight line of calls.

It is bound anew for time steps of other sizes, and becomes part of the CUDA graph of the step where sizes come again;
where sequences begin and whether they go on from minibatch to minibatch is in tables (:mod:`delay_tables`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from cntk_core.api import Node, OpContext, is_delay
from cntk_core.api.engines import Loop, LoopGradient, axis_of_scratch, elements_of, frame_layout, time_steps
from cntk_engine_cuda import delays
from cntk_engine_cuda.gpu import Array, Call
from cntk_engine_cuda.site import Site
from cntk_engine_cuda.slices import Group, grouped, grouped_gradients
from cntk_engine_cuda.templates import ALIGNED, Cut, Key, Rows, make_template

Binder = Callable[..., list[Call]]


class StepSites:
    """What the steps of a loop see of each time step, and their code.

    Args:
        site: of all time steps.
        loop: the loop.
    """

    def __init__(self, site: Site, loop: Loop) -> None:
        self.loop = loop
        self._site = site
        self._axis = loop.nodes[0].axis
        self._sites: dict[int, Site] = {}
        self._cuts: dict[Key, Cut] = {}
        self._flat: dict[Key, Array] = {}
        self._is_fixed = False
        self._random = [node for node in loop.nodes if node.op.random]
        self._drawn: dict[int, int] = {}
        before = 0
        for rows in time_steps(delays.layout_of(site, loop.nodes[0]), loop.direction):
            self._drawn[rows.start] = before
            before += rows.stop - rows.start

    def calls(self, group: Group, nodes: Sequence[Node], rows: slice, bind: Binder) -> list[Call]:
        """The calls of steps that are bound together, for the rows of a time step.

        ``bind`` gives them where they are not known yet.
        """
        count = rows.stop - rows.start
        key = group, count, rows.start % (ALIGNED // self._site.dtype.itemsize), self._site.contexts[nodes[0]].training
        templates = self._site.templates
        template = templates.get(key)
        if template is not None:
            return template.at(rows.start, self._whole)
        self._cuts.clear()
        self._is_fixed = False
        site = self._site
        found = bind(self._at(rows), group)
        if key not in templates:
            moves = not self._is_fixed and not any(node.op.random for node in nodes)
            templates[key] = make_template(found, self._cuts, site.gpu.cupy.ndarray) if moves else None
        return found

    def _whole(self, key: Key) -> Array:
        """An array of all rows, flat."""
        if key not in self._flat:
            kind, *rest = key
            site = self._site
            kinds = {"values": site.values, "gradients": site.gradients}
            found = kinds[kind][rest[0]].reshape(-1) if kind in kinds else site.scratch(*rest)
            self._flat[key] = found
        return self._flat[key]

    def _at(self, rows: slice) -> Site:
        """The site of a time step."""
        if rows.start not in self._sites:
            self._sites[rows.start] = self._make(rows)
        return self._sites[rows.start]

    def _make(self, rows: slice) -> Site:
        site, count, axis = self._site, rows.stop - rows.start, self._axis
        contexts = {node: attrs.evolve(site.contexts[node], saved={}, first=rows.start) for node in self.loop.nodes}

        def scratch(node: Node, purpose: str, each: int, dtype: Any = None) -> Array:
            whole = site.scratch(node, purpose, each, dtype)
            if axis_of_scratch(node) != axis:
                return whole
            cut = whole[rows.start * each : rows.stop * each]
            key = "scratch", node, purpose, each, dtype
            self._cuts[key] = Cut.of(key, cut, count)
            return cut

        def fixed(node: Node, purpose: str, elements: int) -> Array:
            self._is_fixed = True
            return site.fixed(node, f"{purpose} {rows.start}", elements)

        drawn = {node: self._drawn[rows.start] * elements_of(node) for node in self._random}
        return attrs.evolve(
            site,
            frames={**site.frames, axis: count},
            values=Rows("values", site.values, axis, rows, self._cuts),
            gradients=Rows("gradients", site.gradients, axis, rows, self._cuts),
            contexts={**site.contexts, **contexts},
            scratch=scratch,
            fixed=fixed,
            interpreted=set(),
            drawn=drawn,
        )

    def refresh(self) -> None:
        """Let the contexts of all time steps have what is new in this minibatch; one random stream serves them all."""
        generators = {node: self._site.contexts[node].random() for node in self._random}
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
    """Return the calls that compute a loop; ``bind`` gives those of steps that go together."""
    groups = grouped(loop.steps)
    sites = site.step_sites[loop] = StepSites(site, loop)
    reads = {delay: delays.Reads(site, delay) for delay in loop.delays}
    body: list[Call] = []
    for rows in time_steps(delays.layout_of(site, loop.nodes[0]), loop.direction):
        for group in groups:
            first = group[0].nodes[0]
            if first in reads:
                body += reads[first].read(site.values[first][rows], rows)
            else:
                body += sites.calls(group, [node for step in group for node in step.nodes], rows, bind)
    before = [call for each in reads.values() for call in each.before]
    if sites.interpreted:
        site.interpreted.update(loop.nodes)
        before.append(Call(sites.refresh, captured=False))
    return [*before, *body, *(call for each in reads.values() for call in each.finish())]


def bind_gradient(site: Site, step: LoopGradient, bind: Binder) -> list[Call]:
    """Return the calls that compute the gradients of a loop, after :func:`bind_forward`."""
    sites = site.step_sites[step.loop]
    groups = grouped_gradients(step.steps)
    index = {delay: site.delays.rows(site, delay) for delay in step.loop.delays}
    calls = [call for node in step.cleared for call in site.gpu.fill(site.gradients[node], 0.0)]
    for rows in time_steps(delays.layout_of(site, step.loop.nodes[0]), -step.loop.direction):
        for group in groups:
            first = group[0].step.nodes[0]
            if is_delay(first):
                given = site.gradients[first.inputs[0]]
                calls += delays.add_back(site, index[first][rows], site.gradients[first][rows], given)
            else:
                calls += sites.calls(group, [node for each in group for node in each.step.nodes], rows, bind)
    return calls
