"""Recurrent loops, interpreted: one time step after the other, each on the rows of that step.

Any op can be in such a loop. Where all of its steps have compiled forms, :mod:`loop_kernels` compiles it as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from cntk_core.api import Node, OpContext, SequenceLayout, is_delay
from cntk_core.api.engines import (
    GradientStep,
    Loop,
    LoopGradient,
    Step,
    check_foreign_value,
    delay_rows,
    fallback_apart,
    fill_outside,
    flow_back,
    foreign_nodes,
    frame_layout,
    keep_tail,
    run_forward,
    shift_of,
    time_steps,
)
from cntk_engine_cpu.site import Array, Call, Site


def layout_of(site: Site, loop: Loop) -> SequenceLayout:
    """The sequences of the present minibatch on the axis of a loop."""
    layout = site.contexts[loop.nodes[0]].layout
    assert layout is not None, "a loop needs the sequences of its minibatch"
    return layout


def shift_and_default(delay: Node) -> tuple[int, float]:
    """How many steps back a delay reads, and the number that stands before the first step."""
    return shift_of(delay), delay.attributes.default_hidden_activation


def prepare_delays(site: Site, loop: Loop) -> None:
    """Write what delays read from outside the sequences of this minibatch."""
    for delay in loop.delays:
        initial = [site.values[child] for child in delay.inputs[1:]]
        fill_outside(site.values[delay], initial, site.contexts[delay], *shift_and_default(delay))


def finish_delays(site: Site, loop: Loop) -> None:
    """Keep what the next minibatch needs of this one."""
    for delay in loop.delays:
        value, *initial = (site.values[child] for child in delay.inputs)
        keep_tail(value, initial, site.contexts[delay], *shift_and_default(delay))


def bind_forward(site: Site, loop: Loop) -> Call:
    """Return the call that computes a loop."""
    site.interpreted.update(loop.nodes)
    steps = [(step, foreign_nodes(step.writes)) for step in loop.steps]

    def compute() -> None:
        prepare_delays(site, loop)
        run = _Pass(site, layout_of(site, loop))
        for rows in time_steps(run.layout, loop.direction):
            for step, foreign in steps:
                run.forward(step, rows, foreign)
        site.step_contexts[loop] = run.contexts
        finish_delays(site, loop)

    return Call(compute)


def bind_gradient(site: Site, step: LoopGradient) -> Call:
    """Return the call that computes the gradients of a loop."""

    def compute() -> None:
        for node in step.cleared:
            site.gradients[node].fill(0)
        run = _Pass(site, layout_of(site, step.loop), site.step_contexts[step.loop])
        for rows in time_steps(run.layout, -step.loop.direction):
            for part in step.steps:
                run.backward(part, rows)

    return Call(compute)


class _Pass:
    """One pass over the time steps of a loop.

    Args:
        site: the arrays.
        layout: of the minibatch.
        contexts: of the forward pass, for the pass back.
    """

    def __init__(
        self, site: Site, layout: SequenceLayout, contexts: Mapping[tuple[Node, int], OpContext] | None = None
    ) -> None:
        self.site = site
        self.layout = layout
        self.contexts = dict(contexts or {})
        self._generators: dict[Node, np.random.Generator] = {}

    def forward(self, step: Step, rows: slice, foreign: Sequence[Node]) -> None:
        """Compute a step of the body for the rows of a time step; look at what foreign ops of it give."""
        values = self.site.values
        (first, *_) = step.nodes
        if is_delay(first):
            here, source = self._delayed(first, rows)
            values[first][here] = values[first.inputs[0]][source]
            return
        inner: dict[Node, Array] = {}
        for node in step.nodes:
            context = self.contexts[node, rows.start] = self._context(node, rows)
            inputs = [
                inner[child] if child in inner else self._given(node, index, rows)
                for index, child in enumerate(node.inputs)
            ]
            inner[node] = run_forward(node.op, np, inputs, node.attributes, context)
        for node in foreign:
            check_foreign_value(node.op, inner[node], (rows.stop - rows.start, *values[node].shape[1:]))
        for node, result in zip(step.writes, fallback_apart([inner[node] for node in step.writes]), strict=True):
            values[node][rows] = np.asarray(result).reshape(-1, *values[node].shape[1:])

    def backward(self, step: GradientStep, rows: slice) -> None:
        """Add the gradients of a step for the rows of a time step."""
        gradients = self.site.gradients
        (first, *_) = step.step.nodes
        if is_delay(first):
            here, source = self._delayed(first, rows)
            gradients[first.inputs[0]][source] += gradients[first][here]
            return
        arriving: dict[Node, Array] = {node: gradients[node][rows] for node in step.sources}
        flow_back(
            step.step.nodes,
            arriving,
            np,
            lambda node: self._value(node, rows),
            lambda node: self.contexts[node, rows.start],
            self.site.path,
            targets=[target.node for target in step.targets],
            whole=self._whole,
        )
        changes = [np.array(arriving.get(target.node, 0.0)) for target in step.targets]
        for target, change in zip(step.targets, changes, strict=True):
            out = self._at(target.node, gradients[target.node], rows)
            if target.accumulate:
                out += change
            else:
                out[...] = change

    def _given(self, node: Node, index: int, rows: slice) -> Array:
        child = node.inputs[index]
        return self._whole(child) if index in node.op.whole else self._at(child, self.site.values[child], rows)

    def _whole(self, node: Node) -> Array:
        site = self.site
        return site.values[node] if node in site.values else np.zeros(site.shape(node), site.dtype)

    def _value(self, node: Node, rows: slice) -> Array:
        # What the plan does not keep no gradient looks at; only its shape counts.
        if node in self.site.values:
            return self._at(node, self.site.values[node], rows)
        return np.zeros((rows.stop - rows.start, *self.site.shape(node)[1:]), self.site.dtype)

    def _delayed(self, delay: Node, rows: slice) -> tuple[Array, Array]:
        """The rows of a time step that a delay finds in this minibatch, and where it finds them."""
        source = delay_rows(self.layout, shift_and_default(delay)[0]).source[rows]
        return rows.start + np.flatnonzero(source >= 0), source[source >= 0]

    def _at(self, node: Node, value: Array, rows: slice) -> Array:
        return value[rows] if node.framed else value

    def _context(self, node: Node, rows: slice) -> OpContext:
        whole = self.site.contexts[node]
        if node.op.random:  # one stream for all time steps, so that they differ
            generator = self._generators.setdefault(node, whole.random())
            whole = attrs.evolve(whole, random=lambda: generator)
        count = rows.stop - rows.start
        return attrs.evolve(whole, frames=count, layout=frame_layout(count), saved={}, first=rows.start)
