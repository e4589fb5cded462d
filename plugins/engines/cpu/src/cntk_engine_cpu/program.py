"""CpuProgram: buffers for the largest minibatch so far, and the bound code for each number of frames."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Input, Minibatch, Node, Parameter, ParameterStore, Plan, UpdateRule
from cntk_core.api.engines import (
    Inlets,
    OpenArrays,
    PlanProgram,
    Stage,
    Storage,
    check_axes,
    check_lengths,
    constants_of,
    contexts_of,
    criterion_shape,
    meetings_of,
    path_of,
    stages_of,
)
from cntk_engine_cpu.binding import Bound
from cntk_engine_cpu.denormals import FloatMode, computing
from cntk_engine_cpu.gemm import Gemm
from cntk_engine_cpu.images import Images, channels_last_nodes, primitives_of, stored_view
from cntk_engine_cpu.inputs import Inlet, Ports, apart
from cntk_engine_cpu.kernels import KernelLibrary
from cntk_engine_cpu.op_kernels import OpKernels
from cntk_engine_cpu.passes import whole_update
from cntk_engine_cpu.site import Site, empty
from cntk_engine_cpu.sparse import SparseInlet
from cntk_engine_cpu.update import Scalars, Update

REMEMBERED = 256
"""Numbers of frames whose bound code is kept."""

Array = NDArray[Any]


class CpuProgram(PlanProgram):
    """A plan compiled for the CPU.

    Args:
        plan: what to compute.
        store: the parameters; their precision is the program's.
        rule: the update, for training.
        gemm, kernels: the tools.
        op_kernels: of ops.
        floats: how denormals are treated while it computes.
        seed: keys the random streams.
    """

    def __init__(
        self,
        plan: Plan,
        store: ParameterStore,
        rule: UpdateRule | None,
        gemm: Gemm,
        kernels: KernelLibrary,
        op_kernels: OpKernels,
        floats: FloatMode,
        seed: int,
    ) -> None:
        super().__init__(plan, seed)
        self.store = store
        self.floats = floats
        self._dtype = store.dtype
        self._gemm = gemm
        self._kernels = kernels
        self._op_kernels = op_kernels
        self._update = Update(plan, store, rule, kernels, gemm.team) if rule is not None else None
        self._apply = whole_update(plan, self._update) if self._update is not None and plan.trained else None
        self._path = path_of(plan)
        self._inputs = Inlets(
            plan,
            lambda node: Inlet(node, store.dtype, kept=bool(plan.by) or node in plan.roots),
            lambda node: SparseInlet(node, store.dtype),
        )
        self._bound: OrderedDict[tuple[int, ...], Bound] = OrderedDict()
        self._last: Bound | None = None
        self._stages = stages_of(plan)
        self._meetings = meetings_of(plan)
        self._storage = Storage(plan, store.dtype, lambda count, dtype: empty((count,), dtype))
        self._primitives = primitives_of(gemm, self._dtype)
        self._channels_last = self._nodes_channels_last()
        self._open = OpenArrays(plan, lambda count: empty((count,), store.dtype))
        self._constants = constants_of(plan, store.dtype)

    @computing
    def evaluate(self, minibatch: Minibatch) -> None:
        """Run the forward part."""
        self._run_forward(minibatch, training=False)

    @computing
    def compute_gradients(self, minibatch: Minibatch) -> None:
        """Run forward and backward; the gradients are in the store afterwards.

        Raises:
            NetworkError: the plan has no criterion.
        """
        self.check_training()
        self._run_forward(minibatch, training=True, prepare=lambda bound: bound.backward).backward()
        self._inputs.mark(self.store)
        self.step += 1

    @computing
    def run_forward(self, minibatch: Minibatch, *, training: bool) -> None:
        """Run the forward part."""
        self._run_forward(minibatch, training=training, prepare=lambda bound: bound.backward)

    @computing
    def run_backward(self, seeds: Mapping[Node, Array]) -> None:
        """Run the backward part."""
        assert self._last is not None
        for node, seed in seeds.items():
            self._last.site.gradients[node][...] = seed
        self._last.backward()
        self._inputs.mark(self.store)

    def fetch_gradient(self, node: Node) -> Array | None:
        """Return the gradient by a node, None if none comes there."""
        return None if self._last is None else self._last.site.gradients.get(node)

    @computing
    def update(self, scalars: Sequence[Scalars]) -> None:
        """Apply the rule with the gradients in the store.

        Raises:
            NetworkError: the program was compiled without a rule.
        """
        self.needed_rule(self._apply)(scalars)

    @computing
    def train_step(self, minibatch: Minibatch, scalars: Sequence[Scalars]) -> None:
        """Do a whole step; where the rule allows, gradients go straight into the learner's slot."""
        self.check_training()
        self.needed_rule(self._update)
        train = self._run_forward(minibatch, training=True, prepare=lambda bound: bound.train).train
        assert train is not None
        self._inputs.mark(self.store, self._inputs.read_dense)  # the others' gradients are never in the store
        train(scalars)
        self.step += 1

    def fetch(self, node: Node) -> Array | None:
        """Return a root's value of the last run, None if there was no run."""
        return None if self._last is None else self._last.site.values[node]

    def memory(self) -> int:
        """Bytes of the buffers and of copied inputs."""
        copies = sum(inlet.nbytes for inlet in self._inputs.dense.values())
        return copies + self._storage.nbytes + self._open.nbytes

    def _take(self, minibatch: Minibatch) -> dict[Input, Array]:
        """Take the inputs in; return the arrays of those that do not stay sparse."""
        streams = self.axes.take(minibatch)
        if self._inputs.note_labels(streams):
            self._bound.clear()
        arrays, _ = self._inputs.take(streams)
        return arrays

    def _run_forward(
        self, minibatch: Minibatch, *, training: bool, prepare: Callable[[Bound], object] | None = None
    ) -> Bound:
        """Run the forward part, stage by stage; return the last stage's code.

        ``prepare`` gets the code of the last stage before it runs, to bind what will run after it.
        """
        arrays = self._take(minibatch)
        bound: Bound | None = None
        for stage in self._stages:
            before, bound = bound, self._bind(stage, arrays, bound)
            if before is not None and before.stage.makes is not None:
                made = before.stage.makes
                np.copyto(bound.site.values[made], before.site.made[made])
            if stage is self._stages[-1]:
                check_axes(self._meetings, self.axes.layouts)
                if prepare is not None:
                    prepare(bound)
            if bound.site.interpreted:
                self._set_contexts(bound, training=training)
            bound.forward()
            if stage.makes is not None:
                self.axes.make(stage.makes, bound.site.contexts[stage.makes].new_layout)
        assert bound is not None
        self._last = bound
        totals, values = self.totals, bound.site.values
        for node in self.scalars:
            totals[node.name] += values[node].item()
        return bound

    def _set_contexts(self, bound: Bound, *, training: bool) -> None:
        for node in bound.site.interpreted:
            self.set_context(bound.site.contexts[node], node, training=training)

    def _bind(self, stage: Stage, arrays: Mapping[Input, Array], before: Bound | None) -> Bound:
        frames = self.axes.frames
        longest = self.axes.longest(self._open.axes) if self._open.axes else {}
        key = (stage.first, *(frames[axis] for axis in stage.axes), *longest.values())
        bound = self._bound.get(key)
        if bound is None or bound.before is not before:
            if longest:
                check_lengths(
                    [node for step in self.plan.steps[stage.first : stage.end] for node in step.nodes], longest
                )
            lacking = self._storage.lacking({axis: frames[axis] for axis in stage.axes})
            if lacking is not None:  # what was bound to the old buffers is forgotten
                self._bound.clear()
                self._last = None
                self._storage.grow(lacking, frames)
            site = self._site(frames, longest, apart(arrays), before)
            bound = self._bound[key] = Bound(site, self._update, stage, before, self.told)
            if len(self._bound) > REMEMBERED:
                self._bound.popitem(last=False)
        else:
            self._bound.move_to_end(key)
            for node, port in bound.site.ports.ports.items():
                if arrays[node] is not port.array:
                    port.move(arrays[node])
                    bound.site.values[node] = arrays[node]
        return bound

    def _site(
        self,
        frames: Mapping[str, int],
        longest: Mapping[str, int],
        arrays: Mapping[Input, Array],
        before: Bound | None,
    ) -> Site:
        def shaped(flat: Array, node: Node, shape: tuple[int, ...]) -> Array:
            return stored_view(flat, node, shape[0]) if node in self._channels_last else flat.reshape(shape)

        storage = self._storage
        values: dict[Node, Array] = dict(arrays.items())
        values |= {node: self.store.value(node) for node in self.plan.parameters if isinstance(node, Parameter)}
        values |= self._constants
        values |= storage.views(self.plan.value_buffer, frames, shaped)
        gradients = storage.views(self.plan.gradient_buffer, frames, shaped)
        gradients |= {parameter: self.store.gradient(parameter) for parameter in self.plan.trained}
        first = criterion_shape(self.plan, frames)
        if self.plan.criterion is not None and first is not None:
            gradients[self.plan.criterion] = np.ones(first, self._dtype)
        contexts = contexts_of(self.plan, self.axes)
        site = Site(
            plan=self.plan,
            dtype=self._dtype,
            frames=dict(frames),
            ports=Ports(arrays),
            values=values,
            gradients=gradients,
            path=self._path,
            gemm=self._gemm,
            kernels=self._kernels,
            sparse=self._inputs.sparse(),
            contexts=contexts if before is None else contexts | dict(before.site.contexts),
            numbers=self.place,
            scratch=self._scratch_for,
            workspace=storage.workspace,
            op_kernels=self._op_kernels,
            images=Images(self._primitives, self._channels_last) if self._primitives is not None else None,
            longest=longest,
        )
        self._open.add(site, values, gradients, None if before is None else before.site.values)
        return site if before is None else site.continuing(before.site)

    def _scratch_for(self, node: Node, like: Array, axis: str, purpose: str = "") -> Array:
        """Storage that a kernel keeps from forward to gradient: one for a node, whatever the number of frames."""
        each = like.size // max(1, like.shape[0])
        found: Array = self._storage.scratch((node, purpose), axis, each, like.dtype)[: like.size].reshape(like.shape)
        return found

    def _nodes_channels_last(self) -> frozenset[Node]:
        """The nodes that lie channels last; none where a dynamic axis becomes known on the way."""
        if self._primitives is None or len(self._stages) > 1:
            return frozenset()
        nodes = [node for step in self.plan.steps for node in step.nodes]
        sources = filter(self._op_kernels.begins_channels_last, nodes)
        return channels_last_nodes(self.plan, sources, filter(self._op_kernels.follows_channels, nodes))
