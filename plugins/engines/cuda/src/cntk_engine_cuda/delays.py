"""Delays: rows of the time steps before, gathered on the device; what comes from outside of sequences."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from cntk_core.api import GradientStep, Node, SequenceLayout, Step, delay_rows, fill_outside, keep_tail, shift_of
from cntk_engine_cuda.gpu import THREADS, Array, Call
from cntk_engine_cuda.site import Site

TAIL = "tail"


def shift_and_default(delay: Node) -> tuple[int, float]:
    """How many steps back a delay reads, and the number that stands before the first step."""
    return shift_of(delay.op.name, delay.attributes.time_step), delay.attributes.default_hidden_activation


def layout_of(site: Site, node: Node) -> SequenceLayout:
    """The sequences of a node for which code is bound."""
    layout = site.contexts[node].layout
    assert layout is not None, "a delay needs the sequences of its minibatch"
    return layout


def sources(site: Site, delay: Node) -> Array:
    """The row that each row of a delay reads, -1 for those from outside: on the device."""
    return site.gpu.cupy.asarray(np.array(delay_rows(layout_of(site, delay), shift_and_default(delay)[0]).source))


def prepare(site: Site, delay: Node) -> list[Call]:
    """The calls that write what a delay reads from outside the sequences of the minibatch."""
    shift, default = shift_and_default(delay)
    rows = delay_rows(layout_of(site, delay), shift)
    out = site.values[delay]
    if not len(rows.initial) and not len(rows.carried):
        return []
    if len(delay.inputs) == 1 and not len(rows.carried):
        return site.gpu.fill(out, default)
    site.interpreted.add(delay)
    return [Call(_write_outside, (site, delay), captured=False)]


def _write_outside(site: Site, delay: Node) -> None:
    shift, default = shift_and_default(delay)
    context = site.contexts[delay]
    assert context.layout is not None
    found = delay_rows(context.layout, shift)
    rows = np.concatenate([found.initial, found.carried])
    out = site.values[delay]
    values = np.empty(out.shape, out.dtype)
    fill_outside(values, _initial(site, delay), context, shift, default)
    xp = site.gpu.cupy
    out[xp.asarray(rows)] = xp.asarray(values[rows])


def _initial(site: Site, delay: Node) -> list[Any]:
    return [site.values[child].get() for child in delay.inputs[1:]]


def finish(site: Site, delay: Node) -> list[Call]:
    """The calls that keep what the next minibatch needs of this one."""
    shift, _ = shift_and_default(delay)
    site.interpreted.add(delay)
    if shift <= 0 or not layout_of(site, delay).continues:
        site.afterwards.append(functools.partial(_forget, site, delay))
        return []
    return [Call(_keep, (site, delay), captured=False)]


def _forget(site: Site, delay: Node) -> None:
    site.contexts[delay].carried.pop(TAIL, None)


def _keep(site: Site, delay: Node) -> None:
    value = site.values[delay.inputs[0]].get()
    keep_tail(value, _initial(site, delay), site.contexts[delay], *shift_and_default(delay))


def gather(site: Site, source: Array, from_rows: Array, to_rows: Array) -> list[Call]:
    """The calls that write ``to_rows[i] = from_rows[source[i]]`` where there is such a row."""
    return _rows_call(site, "gather_rows", from_rows, source, to_rows, len(source))


def add_back(site: Site, source: Array, from_rows: Array, to_rows: Array) -> list[Call]:
    """The calls that add ``to_rows[source[i]] += from_rows[i]`` where there is such a row."""
    return _rows_call(site, "add_rows", from_rows, source, to_rows, len(source))


def _rows_call(site: Site, name: str, given: Array, index: Array, out: Array, rows: int) -> list[Call]:
    width = out.size // len(out) if len(out) else 0
    count = rows * width
    if not count:
        return []
    kernel = site.gpu.named("common", name, site.dtype)
    arguments = (given, index, out, np.int64(rows), np.int64(width))
    return [site.gpu.launch(kernel, site.gpu.grid(count), (THREADS,), arguments)]


def bind_forward(site: Site, step: Step) -> list[Call]:
    """Return the calls that compute a delay that is in no loop."""
    (delay,) = step.nodes
    moved = gather(site, sources(site, delay), site.matrix(delay.inputs[0]), site.matrix(delay))
    return [*prepare(site, delay), *moved, *finish(site, delay)]


def bind_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls that compute the gradient of a delay by its input; None if the initial state wants one."""
    (delay,) = step.step.nodes
    given = delay.inputs[0]
    if [target.node for target in step.targets] != [given] or given in delay.inputs[1:]:
        return None
    before = [] if step.targets[0].accumulate else site.gpu.fill(site.gradients[given], 0.0)
    return [*before, *add_back(site, sources(site, delay), site.gradient_matrix(delay), site.gradient_matrix(given))]
