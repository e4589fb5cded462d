"""Delays: rows of the time steps before, gathered on the device; what comes from outside of sequences."""

from __future__ import annotations

import functools

import numpy as np

from cntk_core.api import Node, SequenceLayout
from cntk_core.api.engines import GradientStep, Step, elements_of, shift_of, symbol
from cntk_engine_cuda.delay_tables import is_truncated
from cntk_engine_cuda.elementwise import Operand, Space, map_calls, sum_calls
from cntk_engine_cuda.gpu import THREADS, Array, Call
from cntk_engine_cuda.site import Site
from cntk_engine_cuda.source import Result


def layout_of(site: Site, node: Node) -> SequenceLayout:
    """The sequences of a node for which code is bound."""
    layout = site.contexts[node].layout
    assert layout is not None, "a delay needs the sequences of its minibatch"
    return layout


def default_of(delay: Node) -> float:
    """The number that stands before the first step where no initial state is given."""
    return float(delay.attributes.default_hidden_activation)


class Reads:
    """What a delay reads: from its input, from the initial state, and from what the minibatch before ended with.

    Args:
        site: of all rows.
        delay: the node.

    Attributes:
        before: the calls that must be made before rows are read.
    """

    def __init__(self, site: Site, delay: Node) -> None:
        self.delay = delay
        self.before: list[Call] = []
        self._site = site
        self._codes = site.delays.rows(site, delay)
        # A look ahead is not carried on.
        self._keeps = shift_of(delay) > 0 and is_truncated(layout_of(site, delay))
        nothing = site.gpu.constant(0.0, site.dtype)
        self._states = self._wide_states() if len(delay.inputs) > 1 else nothing
        self._tail = site.delays.tail(delay) if self._keeps else nothing
        site.interpreted.add(delay)
        if self._keeps:
            site.beforehand.append(functools.partial(site.delays.take_tail, site, delay, default_of(delay)))
        site.afterwards.append(functools.partial(site.delays.note_tail, site, delay))

    def _wide_states(self) -> Array:
        """The initial states with as many elements as the delay."""
        site, state = self._site, self.delay.inputs[1]
        rows, width = site.rows(state), elements_of(self.delay)
        if elements_of(state) == width:
            return site.values[state].reshape(-1)
        wide = _room(site, self.delay, "state")
        space, flags = _state_space(site, self.delay)
        result = Result(symbol("s"))
        if rows and width:
            self.before += map_calls(site.gpu, space, {"s": Operand(site.values[state], flags)}, [result], [wide])
        return wide

    def read(self, out: Array, rows: slice = slice(None)) -> list[Call]:
        """The calls that write some rows of the delay."""
        return self._gather(self._codes[rows], out)

    def finish(self) -> list[Call]:
        """The calls that keep what the next minibatch needs of this one."""
        if not self._keeps:
            return []
        codes = self._site.delays.kept(self._site, self.delay)
        count = codes.size * elements_of(self.delay)
        made = self._site.fixed(self.delay, "tail", self._tail.size)[:count]
        return [*self._gather(codes, made), *self._site.gpu.copy(self._tail[:count], made)]

    def _gather(self, codes: Array, out: Array) -> list[Call]:
        site, width = self._site, elements_of(self.delay)
        rows = int(codes.size)
        if not rows * width:
            return []
        kernel = site.gpu.named("common", "read_rows", site.dtype)
        given = (site.values[self.delay.inputs[0]], self._states, self._tail, codes, out)
        numbers = (site.dtype.type(default_of(self.delay)), np.int64(rows), np.int64(width))
        return [site.gpu.launch(kernel, site.gpu.grid(rows * width), (THREADS,), (*given, *numbers))]


def _room(site: Site, delay: Node, purpose: str) -> Array:
    """Storage for rows of the initial state as wide as the delay."""
    state, width = delay.inputs[1], elements_of(delay)
    if state.framed:
        return site.scratch(state, f"{purpose} of {site.numbers[delay]}", width)
    return site.fixed(delay, purpose, width)


def _state_space(site: Site, delay: Node) -> tuple[Space, tuple[bool, ...]]:
    """The rows of the initial state, each as wide as the delay, and along which axes a state varies."""
    state = delay.inputs[1]
    rows, shape = site.rows(state), delay.known_shape
    own = (1,) * (len(shape) - len(state.known_shape)) + tuple(state.known_shape)
    varies = tuple(size != 1 or whole == 1 for size, whole in zip(own[len(own) - len(shape) :], shape, strict=True))
    return Space((rows, *shape), known=False), (True, *varies)


def add_back(site: Site, source: Array, from_rows: Array, to_rows: Array) -> list[Call]:
    """The calls that add ``to_rows[source[i]] += from_rows[i]`` where there is such a row."""
    rows = int(source.size)
    width = from_rows.size // rows if rows else 0
    if not rows * width:
        return []
    kernel = site.gpu.named("common", "add_rows", site.dtype)
    arguments = (from_rows, source, to_rows, np.int64(rows), np.int64(width))
    return [site.gpu.launch(kernel, site.gpu.grid(rows * width), (THREADS,), arguments)]


def bind_forward(site: Site, step: Step) -> list[Call]:
    """Return the calls that compute a delay that is in no loop."""
    (delay,) = step.nodes
    reads = Reads(site, delay)
    return [*reads.before, *reads.read(site.matrix(delay)), *reads.finish()]


def bind_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls that compute the gradients of a delay by its input and by its initial state."""
    (delay,) = step.step.nodes
    given = delay.inputs[0]
    if given in delay.inputs[1:]:
        return None
    calls: list[Call] = []
    for target in step.targets:
        out = site.gradients[target.node]
        if not target.accumulate:
            calls += site.gpu.fill(out, 0.0)
        if target.node is given:
            calls += add_back(site, site.delays.rows(site, delay), site.gradient_matrix(delay), out)
        else:
            calls += _to_states(site, delay, out)
    return calls


def _to_states(site: Site, delay: Node, out: Array) -> list[Call]:
    """The calls that add the gradient by the initial state."""
    state, width = delay.inputs[1], elements_of(delay)
    rows = site.rows(state)
    if not rows * width:
        return []
    start, readers = site.delays.states(site, delay)
    is_wide = elements_of(state) == width
    wide = out if is_wide else _room(site, delay, "gradient by state")
    kernel = site.gpu.named("common", "add_readers", site.dtype)
    arguments = (site.gradients[delay], start, readers, wide, np.int64(rows), np.int64(width))
    calls = [site.gpu.launch(kernel, site.gpu.grid(rows * width), (THREADS,), arguments)]
    if is_wide:
        return calls
    space, flags = _state_space(site, delay)
    operands = {"g": Operand(wide, (True,) * len(flags))}
    result = Result(symbol("g"), accumulate=True)
    added = sum_calls(site.gpu, space, operands, [result], [out], flags, site.workspace)
    return [*site.gpu.fill(wide, 0.0), *calls, *added]
