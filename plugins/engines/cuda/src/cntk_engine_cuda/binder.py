"""Binder: a plan's code for the sizes of a minibatch, made when it is first wanted and kept while it comes again."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.api import Node, Op, Parameter, Plan, SequenceLayout
from cntk_core.api.engines import (
    TAIL,
    Axes,
    Loop,
    OpenArrays,
    Stage,
    check_lengths,
    constants_of,
    contexts_of,
    criterion_shape,
    path_of,
)
from cntk_engine_cuda.binding import has_delays
from cntk_engine_cuda.bound import Bound
from cntk_engine_cuda.delay_tables import DelayTables, Tail, is_truncated
from cntk_engine_cuda.gpu import Call, Gpu
from cntk_engine_cuda.inlets import DeviceInlets
from cntk_engine_cuda.mirror import DeviceStore
from cntk_engine_cuda.site import OpKernel, RandomState, Site
from cntk_engine_cuda.storage import DeviceStorage

REMEMBERED = 64
"""Numbers of frames, or sizes of time steps, whose bound code and CUDA graphs are kept."""

MOST_CALLS = 100_000
"""Calls that are kept bound: each is a node of a CUDA graph, for which host and driver need some kilobytes."""


@attrs.frozen(eq=False)
class Parts:
    """What code is bound to beside storage of its own.

    Attributes:
        inlets: minibatches.
        numbers: the parameters.
        random: what random numbers depend on.
        places: a number for each node.
        axes: the dynamic axes of the present minibatch.
        set_context: ``(context, node)``: puts into it what every minibatch has its own of.
        totals: the calls that add scalar roots to their sums.
        kernels: of ops, in the order in which they are asked.
        remarks: what the program has to say when training has ended, by what it is about.
        graphs: whether CUDA graphs are made.
    """

    inlets: DeviceInlets
    numbers: DeviceStore
    random: RandomState
    places: Mapping[Node, int]
    axes: Axes
    set_context: Callable[..., None]
    totals: Callable[[Site], list[Call]]
    kernels: Mapping[Op, Sequence[OpKernel]]
    remarks: dict[str, str]
    graphs: bool


class Binder:
    """Binds the stages of a plan.

    Args:
        gpu: the device.
        plan: the plan.
        storage: for buffers.
        parts: what else there is.
    """

    def __init__(self, gpu: Gpu, plan: Plan, storage: DeviceStorage, parts: Parts) -> None:
        dtype = storage.dtype
        self._gpu = gpu
        self._plan = plan
        self._dtype = dtype
        self._parts = parts
        self._path = path_of(plan)
        self._timed = _timed_axes(plan)
        self._looped = {step.nodes[0].axis for step in plan.steps if isinstance(step, Loop)}
        self._bound: OrderedDict[Any, Bound] = OrderedDict()
        self._templates: dict[Any, Any] = {}
        self._leaving: deque[tuple[Any, Bound]] = deque()
        self._open = OpenArrays(plan, lambda count: gpu.empty(count, dtype))
        self._constants = {node: gpu.cupy.asarray(value) for node, value in constants_of(plan, dtype).items()}
        self.storage = storage
        self.delays = DelayTables(gpu, dtype, self.storage.capacity)

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return self.storage.nbytes + self._open.nbytes + self.delays.nbytes

    @property
    def bound(self) -> Sequence[Bound]:
        """The code that is kept, what was used last at the end."""
        return tuple(self._bound.values())

    def forget_code(self) -> None:
        """Forget what was bound: arrays are others now."""
        if self._bound:
            self._gpu.stream.synchronize()  # graphs may still run
        self._bound.clear()
        self._leaving.clear()
        self._templates.clear()

    def forget(self) -> None:
        """Give back everything but the storage, too."""
        self.forget_code()
        self.delays.forget()

    def grow(self, carried: Mapping[Node, Mapping[str, Any]]) -> None:
        """Have room for the present minibatch. What was bound is forgotten where buffers are others now.

        Args:
            carried: what nodes have kept of the minibatch before.
        """
        frames = self._parts.axes.frames
        axes = self.storage.lacking(frames)
        if axes is not None:
            self.forget_code()
            self.storage.grow(axes, frames)
            self._parts.inlets.reserve(axes, self.storage.capacity)
        if self.delays.grow(self._slots(carried)):
            self.forget_code()

    def _slots(self, carried: Mapping[Node, Mapping[str, Any]]) -> int:
        """The most slots whose sequences go on, here or in the state that a checkpoint has given back."""
        layouts = self._parts.axes.layouts
        timed = [layouts[axis] for axis in self._timed if axis in layouts]
        given = [kept[TAIL] for kept in carried.values() if isinstance(kept.get(TAIL), np.ndarray)]
        counts = [layout.slots for layout in timed if is_truncated(layout)]
        return max([*counts, *map(len, given)], default=0)

    def bind(self, stage: Stage, before: Bound | None, *, training: bool) -> Bound:
        """Return the code of a stage for the present minibatch.

        Args:
            stage: which forward steps.
            before: the code of the stage before.
            training: what ops do in training is known when they are bound.

        Raises:
            DataError: nodes cannot be computed with the longest sequences of this minibatch.
        """
        axes = self._parts.axes
        longest = axes.longest(self._open.axes)
        timed = [axis for axis in self._timed if axis in axes.layouts]
        key = (
            stage.first,
            training,
            tuple(axes.frames[axis] for axis in stage.axes),
            tuple(longest.values()),
            tuple(self._arrangement(axis, axes.layouts[axis]) for axis in timed),
        )
        bound = self._bound.get(key)
        if bound is not None and bound.before is before:
            self._bound.move_to_end(key)
            return bound
        if longest:
            check_lengths([node for step in self._plan.steps[stage.first : stage.end] for node in step.nodes], longest)
        site = self._site(longest, before)
        for node, context in site.contexts.items():
            self._parts.set_context(context, node, training=training)
        totals = self._parts.totals(site) if stage.makes is None else []
        self._make_room()
        bound = self._bound[key] = Bound(site, stage, before, totals, graphs=self._parts.graphs)
        return bound

    def _make_room(self) -> None:
        """Forget what was not used for the longest time, as soon as the device is done with it."""
        calls = sum(bound.calls for bound in self._bound.values())
        while self._bound and (len(self._bound) >= REMEMBERED or calls > MOST_CALLS):
            bound = self._bound.popitem(last=False)[1]
            calls -= bound.calls
            behind = self._gpu.event()
            behind.record(self._gpu.stream)
            self._leaving.append((behind, bound))
        while self._leaving and self._leaving[0][0].done:
            self._leaving.popleft()

    def _arrangement(self, axis: str, layout: SequenceLayout) -> tuple[Any, ...]:
        """What bound code depends on of the sequences of an axis: rows of time steps in loops, and what is carried."""
        steps = layout.alive.tobytes() if axis in self._looped else b""
        return steps, layout.slots if is_truncated(layout) else 0

    def _site(self, longest: Mapping[str, int], before: Bound | None) -> Site:
        parts, plan, frames = self._parts, self._plan, dict(self._parts.axes.frames)
        parameters = [node for node in plan.parameters if isinstance(node, Parameter)]
        values = parts.inlets.values(frames)
        values |= {node: parts.numbers.view("values", node) for node in parameters}
        values |= self._constants
        values |= self.storage.views(plan.value_buffer, frames)
        gradients = self.storage.views(plan.gradient_buffer, frames)
        gradients |= {parameter: parts.numbers.view("gradients", parameter) for parameter in plan.trained}
        first = criterion_shape(plan, frames)
        if plan.criterion is not None and first is not None:
            gradients[plan.criterion] = self._gpu.cupy.ones(first, dtype=self._dtype)
        contexts = contexts_of(plan, parts.axes)
        site = Site(
            plan=plan,
            gpu=self._gpu,
            dtype=self._dtype,
            frames=frames,
            values=values,
            gradients=gradients,
            path=self._path,
            contexts=contexts if before is None else contexts | dict(before.site.contexts),
            numbers=parts.places,
            scratch=self.storage.scratch_of,
            fixed=self.storage.fixed_of,
            workspace=self.storage.workspace,
            random=parts.random,
            delays=self.delays,
            longest=longest,
            sparse=parts.inlets.sparse(),
            templates=self._templates,
            kernels=parts.kernels,
            chosen=before.site.chosen if before is not None else {},
            remarks=parts.remarks,
            step_sites=before.site.step_sites if before is not None else {},
        )
        self._open.add(site, values, gradients, None if before is None else before.site.values)
        return site


def carried_state(carried: Mapping[Node, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What nodes keep from one minibatch to the next, by their names, as arrays of the host."""
    return {
        node.name: {name: each.get() if isinstance(each, Tail) else each for name, each in kept.items()}
        for node, kept in carried.items()
        if kept
    }


def _timed_axes(plan: Plan) -> tuple[str, ...]:
    """The dynamic axes on which there are delays."""
    found = {node.axis for step in plan.steps if has_delays(step) for node in step.nodes if node.framed}
    return tuple(sorted(found))
