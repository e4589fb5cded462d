"""CpuProgram: buffers for the largest minibatch so far, and the bound code for each number of frames."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import (
    DataError,
    Input,
    LoopGradient,
    Minibatch,
    NetworkError,
    Node,
    Parameter,
    ParameterStore,
    Plan,
    Program,
    SequenceLayout,
    StreamData,
    UpdateRule,
    did_you_mean,
    layout_of_root,
    random_stream,
)
from cntk_engine_cpu.binding import Bound, contexts_of, empty, whole_update
from cntk_engine_cpu.gemm import Gemm
from cntk_engine_cpu.inputs import Inlet, Ports, apart
from cntk_engine_cpu.kernels import KernelLibrary
from cntk_engine_cpu.site import Site, elements_of
from cntk_engine_cpu.update import Scalars, Update

REMEMBERED = 32
"""Numbers of frames whose bound code is kept."""

Array = NDArray[Any]
Streams = list[tuple[Input, StreamData]]


class CpuProgram(Program):
    """A plan compiled for the CPU.

    Args:
        plan: what to compute.
        store: the parameters; their precision is the program's.
        rule: the update, for training.
        gemm, kernels: the tools.
        seed: keys the random streams.
    """

    def __init__(
        self,
        plan: Plan,
        store: ParameterStore,
        rule: UpdateRule | None,
        gemm: Gemm,
        kernels: KernelLibrary,
        seed: int,
    ) -> None:
        self.plan = plan
        self.store = store
        self.settings: dict[str, float] = {}
        self.step = 0
        self.seed = seed
        self._dtype = store.dtype
        self._gemm = gemm
        self._kernels = kernels
        self._update = Update(plan, store, rule, kernels) if rule is not None else None
        self._apply = whole_update(plan, self._update) if self._update is not None and plan.trained else None
        self._place = {node: index for index, node in enumerate(plan.network)}
        self._path = _path_of(plan)
        self._capacity: dict[str, int] = {}
        self._buffers: list[Array] = []
        self._inlets = {node: Inlet(node, store.dtype, kept=node in plan.roots) for node in plan.inputs}
        self._bound: OrderedDict[tuple[int, ...], Bound] = OrderedDict()
        self._last: Bound | None = None
        self._axes = sorted({node.axis for node in plan.inputs})
        self._scratch: dict[Node, Array] = {}
        self._layouts: dict[str, SequenceLayout] = {}
        self._carried: dict[Node, dict[str, Any]] = {}
        self._scalars = tuple(node for node in plan.roots if _is_total(node))
        self._totals = {node.name: 0.0 for node in self._scalars}
        self._constants = {
            node: np.ascontiguousarray(node.value, self._dtype).reshape(node.known_shape)
            for node in plan.network
            if node.value is not None and not isinstance(node, Parameter)
        }

    def begin_epoch(
        self, epoch: int, settings: Mapping[str, float] | None = None, *, minibatches_done: int = 0
    ) -> None:
        """Start an epoch; nothing is carried into it."""
        super().begin_epoch(epoch, settings, minibatches_done=minibatches_done)
        self._carried.clear()

    def evaluate(self, minibatch: Minibatch) -> None:
        """Run the forward part."""
        streams = self._streams(minibatch)
        bound = self._take(streams)
        self._run_forward(bound, streams, training=False)

    def compute_gradients(self, minibatch: Minibatch) -> None:
        """Run forward and backward; the gradients are in the store afterwards.

        Raises:
            NetworkError: the plan has no criterion.
        """
        self._check_training()
        streams = self._streams(minibatch)
        bound = self._take(streams)
        backward = bound.backward
        self._run_forward(bound, streams, training=True)
        backward()
        self.step += 1

    def update(self, scalars: Sequence[Scalars]) -> None:
        """Apply the rule with the gradients in the store.

        Raises:
            NetworkError: the program was compiled without a rule.
        """
        if self._apply is None:
            raise NetworkError("the program was compiled without an update rule")
        self._apply(scalars)

    def train_step(self, minibatch: Minibatch, scalars: Sequence[Scalars]) -> None:
        """Do a whole step; where the rule allows, gradients go straight into the learner's slot."""
        self._check_training()
        streams = self._streams(minibatch)
        bound = self._take(streams)
        train = bound.train
        if train is None:
            raise NetworkError("the program was compiled without an update rule")
        self._run_forward(bound, streams, training=True)
        train(scalars)
        self.step += 1

    def value(self, name: str) -> Array:
        """Return a copy of a root's value after the last run.

        Raises:
            NetworkError: the plan has no such root, or nothing has been computed yet.
        """
        for node in self.plan.roots:
            if node.name.lower() == name.lower():
                if self._last is None:
                    raise NetworkError(f"the root '{node.name}' has not been computed yet")
                return np.array(self._last.site.values[node])
        guess = did_you_mean(name, [node.name for node in self.plan.roots])
        raise NetworkError(f"the plan has no root '{name}'{guess}")

    def layout(self, name: str) -> SequenceLayout:
        """Return the sequences of a root's dynamic axis in the last run.

        Raises:
            NetworkError: there is no such root, or it has none.
        """
        return layout_of_root(self.plan, name, self._layouts)

    def read_totals(self) -> Mapping[str, float]:
        """Return the sums of the scalar roots since the last call, and set them to zero."""
        totals = self._totals
        self._totals = dict.fromkeys(totals, 0.0)
        return totals

    def memory(self) -> int:
        """Bytes of the buffers and of copied inputs."""
        copies = sum(inlet.nbytes for inlet in self._inlets.values())
        return copies + sum(array.nbytes for array in [*self._buffers, *self._scratch.values()])

    def _check_training(self) -> None:
        if not self.plan.training:
            raise NetworkError("the plan has no gradients: it was made without a criterion")

    def _streams(self, minibatch: Minibatch) -> Streams:
        return [(node, _stream_of(minibatch, node)) for node in self.plan.inputs]

    def _take(self, streams: Streams) -> Bound:
        """Take the inputs in and return the code for their numbers of frames."""
        frames: dict[str, int] = {}
        arrays: dict[Input, Array] = {}
        for node, stream in streams:
            rows = stream.data.shape[0]
            if frames.setdefault(node.axis, rows) != rows:
                raise DataError(
                    f"the streams of one minibatch differ in length: '{node.name}' has {rows} frames, "
                    f"another has {frames[node.axis]}"
                )
            arrays[node] = self._inlets[node].take(stream)
            self._layouts[node.axis] = stream.layout
        return self._bind(frames, arrays)

    def _run_forward(self, bound: Bound, streams: Streams, *, training: bool) -> None:
        if bound.site.interpreted:
            self._set_contexts(bound, training=training)
        self._last = bound
        bound.forward()
        totals, values = self._totals, bound.site.values
        for node in self._scalars:
            totals[node.name] += values[node].item()

    def _set_contexts(self, bound: Bound, *, training: bool) -> None:
        for node in bound.site.interpreted:
            context = bound.site.contexts[node]
            context.training = training
            context.settings = self.settings
            context.layouts = tuple(self._layouts.get(child.axis) if child.framed else None for child in node.inputs)
            context.layout = next((layout for layout in context.layouts if layout is not None), None)
            context.carried = self._carried.setdefault(node, {})
            if node.op.random:
                context.random = functools.partial(random_stream, self.seed, self._place[node], self.step)

    def _bind(self, frames: Mapping[str, int], arrays: Mapping[Input, Array]) -> Bound:
        key = tuple(frames[axis] for axis in self._axes)
        bound = self._bound.get(key)
        if bound is None:
            if not self._bound or any(frames[axis] > self._capacity.get(axis, -1) for axis in self._axes):
                self._grow(frames)
            bound = self._bound[key] = Bound(self._site(frames, apart(arrays)), self._update)
            if len(self._bound) > REMEMBERED:
                self._bound.popitem(last=False)
        else:
            self._bound.move_to_end(key)
            for node, port in bound.site.ports.ports.items():
                if arrays[node] is not port.array:
                    port.move(arrays[node])
                    bound.site.values[node] = arrays[node]
        return bound

    def _grow(self, frames: Mapping[str, int]) -> None:
        """Allocate all buffers anew; what was bound to the old ones is forgotten."""
        self._bound.clear()
        self._last = None
        self._buffers = []
        self._scratch = {}
        self._capacity = {axis: max(frames[axis], self._capacity.get(axis, 0)) for axis in self._axes}
        for buffer in self.plan.buffers:
            count = buffer.per_frame * self._capacity.get(buffer.axis, 0) + buffer.fixed
            self._buffers.append(empty((count,), self._dtype))

    def _site(self, frames: Mapping[str, int], arrays: Mapping[Input, Array]) -> Site:
        def view(flat: Array, node: Node) -> Array:
            shape = (frames[node.axis], *node.known_shape) if node.framed else node.known_shape
            return flat[: int(np.prod(shape, dtype=np.int64))].reshape(shape)

        values: dict[Node, Array] = dict(arrays.items())
        values |= {node: self.store.value(node) for node in self.plan.parameters if isinstance(node, Parameter)}
        values |= self._constants
        values |= {node: view(self._buffers[index], node) for node, index in self.plan.value_buffer.items()}
        gradients: dict[Node, Array] = {
            node: view(self._buffers[index], node) for node, index in self.plan.gradient_buffer.items()
        }
        gradients |= {parameter: self.store.gradient(parameter) for parameter in self.plan.trained}
        if self.plan.criterion is not None:
            gradients[self.plan.criterion] = np.ones(self.plan.criterion.known_shape, self._dtype)
        return Site(
            plan=self.plan,
            dtype=self._dtype,
            frames=frames,
            ports=Ports(arrays),
            values=values,
            gradients=gradients,
            path=self._path,
            gemm=self._gemm,
            kernels=self._kernels,
            contexts=contexts_of(self.plan, frames),
            numbers=self._place,
            scratch=self._scratch_for,
        )

    def _scratch_for(self, node: Node, like: Array, axis: str) -> Array:
        """Storage that a kernel keeps from forward to gradient: one for a node, whatever the number of frames."""
        if node not in self._scratch:
            per_frame = like.size // max(1, like.shape[0])
            self._scratch[node] = empty((self._capacity[axis] * per_frame,), like.dtype)
        return self._scratch[node][: like.size].reshape(like.shape)


def _stream_of(minibatch: Minibatch, node: Input) -> StreamData:
    stream = minibatch.streams.get(node.name)
    if stream is not None:
        return stream
    for name, data in minibatch.streams.items():
        if name.lower() == node.name.lower():
            return data
    known = ", ".join(minibatch.streams)
    raise DataError(f"the minibatch has no stream for the input '{node.name}'", hint=f"Streams: {known}")


def _is_total(node: Node) -> bool:
    return not node.framed and elements_of(node) == 1 and not isinstance(node, Input | Parameter)


def _path_of(plan: Plan) -> dict[Node, list[bool]]:
    """For each node through which a gradient flows, which of its inputs want one."""
    path: dict[Node, list[bool]] = {}
    parts = [part for step in plan.gradients for part in (step.steps if isinstance(step, LoopGradient) else [step])]
    for step in parts:
        wanted = {*step.step.nodes, *(target.node for target in step.targets)}
        arriving = set(step.sources)
        for node in reversed(step.step.nodes):
            if node not in arriving:
                continue
            needs = [node.op.flows_to(index) and child in wanted for index, child in enumerate(node.inputs)]
            known = path.get(node, [False] * len(needs))  # a step of a loop has one part inside it and one after it
            path[node] = [need or before for need, before in zip(needs, known, strict=True)]
            arriving.update(child for child, need in zip(node.inputs, needs, strict=True) if need)
    return path
