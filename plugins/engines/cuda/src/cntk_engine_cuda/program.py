"""CudaProgram: buffers for the largest minibatch so far, and the bound code for each number of frames."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import (
    Minibatch,
    NetworkError,
    Node,
    OpContext,
    Parameter,
    ParameterStore,
    Plan,
    PlanProgram,
    ProgramState,
    Stage,
    UpdateRule,
    check_axes,
    check_lengths,
    label_inputs,
    meetings_of,
    path_of,
    sparse_inputs,
    stages_of,
)
from cntk_engine_cuda.binding import has_delays
from cntk_engine_cuda.bound import Bound
from cntk_engine_cuda.gpu import Array, Call, Gpu
from cntk_engine_cuda.inputs import Inlet, Staging
from cntk_engine_cuda.mirror import DeviceStore
from cntk_engine_cuda.open_arrays import OpenArrays
from cntk_engine_cuda.site import RandomState, Site, elements_of
from cntk_engine_cuda.sparse import SparseInlet
from cntk_engine_cuda.storage import Storage
from cntk_engine_cuda.update import Scalars, Update

REMEMBERED = 64
"""Numbers of frames, or arrangements of sequences, whose bound code and CUDA graphs are kept."""

RATE = "dropoutRate"


@attrs.frozen
class Settings:
    """How programs are made.

    Attributes:
        graphs: whether CUDA graphs are made.
    """

    graphs: bool = True


class CudaProgram(PlanProgram):
    """A plan compiled for a GPU.

    Args:
        gpu: the device.
        plan: what to compute.
        store: the parameters; their precision is the program's.
        rule: the update, for training.
        settings: how.
        seed: keys the random streams.
    """

    def __init__(
        self, gpu: Gpu, plan: Plan, store: ParameterStore, rule: UpdateRule | None, settings: Settings, seed: int
    ) -> None:
        super().__init__(plan, seed)
        self.gpu = gpu
        self.store = store
        self._settings = settings
        self._dtype = store.dtype
        self._path = path_of(plan)
        self._stages = stages_of(plan)
        self._meetings = meetings_of(plan)
        self._storage = Storage(gpu, plan, store.dtype, lambda: self.axes.frames)
        self._bound: OrderedDict[Any, Bound] = OrderedDict()
        self._last: Bound | None = None
        self._update: Update | None = None
        self._timed = _timed_axes(plan)
        self._written = {target.node for step in plan.gradients for target in step.targets}
        stays_sparse = sparse_inputs(plan.steps, plan.roots)
        occurring = {node for inputs in plan.sparse.values() for node in inputs}
        labels = label_inputs(plan.steps, plan.roots)
        self._sparse_labels: frozenset[Node] = frozenset()
        with self._told(), gpu.current():
            self._numbers = DeviceStore.of(gpu, store)
            self._labels = {node: SparseInlet(gpu, node, store.dtype) for node in plan.inputs if node in labels}
            self._sparse = {
                node: SparseInlet(gpu, node, store.dtype) for node in plan.inputs if node in stays_sparse | occurring
            }
            self._inlets = {node: Inlet(gpu, node, store.dtype) for node in plan.inputs if node not in stays_sparse}
            self._open = OpenArrays(plan, gpu, store.dtype)
            if rule is not None:
                self._update = Update(gpu, plan, self._numbers, rule, self._storage.workspace)
            self._constants = {
                node: gpu.cupy.asarray(np.ascontiguousarray(node.value, self._dtype).reshape(node.known_shape))
                for node in plan.network
                if not isinstance(node, Parameter) and node.value is not None
            }
            self._sums = gpu.cupy.zeros((max(1, len(self.scalars)),), dtype=np.float64)
            self._random = RandomState(
                seed, gpu.cupy.zeros((1,), dtype=np.uint64), gpu.cupy.zeros((1,), dtype=np.float64)
            )
            self._step_staging = Staging(gpu, np.dtype(np.uint64))
            self._rate_staging = Staging(gpu, np.dtype(np.float64))
        self._draws = any(node.op.random for node in plan.network)
        self._remarks: dict[str, str] = {}

    # -- running ------------------------------------------------------------------------------------------

    def evaluate(self, minibatch: Minibatch) -> None:
        """Run the forward part."""
        with self._told(), self.gpu.current():
            bound = self._run_stages(minibatch, training=False)
            bound.run(bound.forward, lambda site: self._place_contexts(site, training=False))
            self._finish(bound, training=False)

    def compute_gradients(self, minibatch: Minibatch) -> None:
        """Run forward and backward; the gradients are in the store afterwards, as soon as somebody asks for them.

        Raises:
            NetworkError: the plan has no criterion.
        """
        self.check_training()
        with self._told(), self.gpu.current():
            self._compute(minibatch, ())

    def _compute(self, minibatch: Minibatch, update: Sequence[Call]) -> None:
        bound = self._run_stages(minibatch, training=True)
        for parameter in self.plan.trained:
            if parameter not in self._written or parameter in self.plan.sparse:
                self._numbers.view("gradients", parameter).fill(self._dtype.type(0))
        bound.run(bound.training(update), lambda site: self._place_contexts(site, training=True))
        self._numbers.changed("gradients")
        self._touch()
        self._finish(bound, training=True)
        self.step += 1

    def update(self, scalars: Sequence[Scalars]) -> None:
        """Apply the rule with the gradients in the store.

        Raises:
            NetworkError: the program was compiled without a rule.
        """
        update = self._needed_update()
        with self._told(), self.gpu.current():
            self._fetch()
            together = update.set_numbers(scalars)
            for call in update.calls(together=together):
                call()
            self._update_rows(update)
            self._changed_by_update()

    def train_step(self, minibatch: Minibatch, scalars: Sequence[Scalars]) -> None:
        """Do a whole step; nothing is waited for."""
        self.check_training()
        update = self._needed_update()
        with self._told(), self.gpu.current():
            self._fetch(gradients=False)
            together = update.set_numbers(scalars)
            self._compute(minibatch, update.calls(together=together))
            self._update_rows(update)
            self._changed_by_update()

    def _needed_update(self) -> Update:
        if self._update is None:
            raise NetworkError("the program was compiled without an update rule")
        return self._update

    def _fetch(self, *, gradients: bool = True) -> None:
        self._numbers.fetch("values")
        self._numbers.fetch("slots")
        if gradients:
            self._numbers.fetch("gradients")

    def _changed_by_update(self) -> None:
        self._numbers.changed("values")
        self._numbers.changed("slots")

    def _update_rows(self, update: Update) -> None:
        for parameter in update.by_rows:
            count = elements_of(self.plan.sparse[parameter][0])
            if self._numbers.is_newest("gradients"):
                touched = self.store.touched(parameter, count)
                rows = np.flatnonzero(touched)
                touched[...] = False
            else:  # others may have added to the gradient
                rows = self.store.take_touched(parameter, count)
                self._numbers.fetch("gradients")
            update.update_rows(parameter, rows)

    def _touch(self) -> None:
        """Note which rows of parameters with sparse gradients the minibatch has come to."""
        for parameter, inputs in self.plan.sparse.items():
            touched = self.store.touched(parameter, elements_of(inputs[0]))
            for node in inputs:
                touched[self._sparse[node].columns] = True

    def _run_stages(self, minibatch: Minibatch, *, training: bool) -> Bound:
        """Take a minibatch in, run all stages but the last, and return the code of the last."""
        self._numbers.fetch("values")
        self._send_random(training=training)
        self._take(minibatch)
        bound: Bound | None = None
        for stage in self._stages:
            before, bound = bound, self._bind(stage, bound, training=training)
            if before is not None and before.stage.makes is not None:
                made = before.stage.makes
                bound.site.values[made][...] = before.site.made[made]
            if stage.makes is not None:
                bound.run(bound.forward, lambda site: self._place_contexts(site, training=training))
                self.axes.make(stage.makes, bound.site.contexts[stage.makes].new_layout)
        assert bound is not None
        check_axes(self._meetings, self.axes.layouts)
        return bound

    def _finish(self, bound: Bound, *, training: bool) -> None:
        self._last = bound
        if training and any(node.op.updates for step in self.plan.steps for node in step.nodes):
            self._numbers.changed("values")

    def _send_random(self, *, training: bool) -> None:
        """Tell the device what random numbers depend on."""
        if not self._draws:
            return
        self._step_staging.send(np.array([self.step & ((1 << 64) - 1)], np.uint64), self._random.step)
        rate = self.settings.get(RATE, 0.0) if training else 0.0
        self._rate_staging.send(np.array([rate]), self._random.rate)

    def _take(self, minibatch: Minibatch) -> None:
        streams = self.axes.take(minibatch)
        sparse_labels = frozenset(node for node in self._labels if streams[node].sparse)
        if sparse_labels != self._sparse_labels:
            self._sparse_labels = sparse_labels
            self._bound.clear()
        self._grow_for(self.axes.frames)
        for node, stream in streams.items():
            if node in self._sparse and self._sparse[node].take(stream):
                self._bound.clear()
            if node in sparse_labels:
                if self._labels[node].take(stream):
                    self._bound.clear()
            elif node in self._inlets:
                self._inlets[node].take(stream)

    # -- results ------------------------------------------------------------------------------------------

    def fetch(self, node: Node) -> NDArray[Any] | None:
        """Return a root's value of the last run, None if there was no run."""
        if self._last is None:
            return None
        with self._told(), self.gpu.current():
            found: NDArray[Any] = self._last.site.values[node].get()
        return found

    def read_totals(self) -> Mapping[str, float]:
        """Return the sums of the scalar roots since the last call, and set them to zero."""
        found = self._all_totals()
        with self.gpu.current():
            self._sums.fill(0.0)
        self.totals = dict.fromkeys(self.totals, 0.0)
        return found

    def _all_totals(self) -> dict[str, float]:
        with self._told(), self.gpu.current():
            sums = self._sums.get().tolist()
        return {node.name: self.totals[node.name] + sums[index] for index, node in enumerate(self.scalars)}

    def state(self) -> ProgramState:
        """Return what goes on from one minibatch to the next."""
        return attrs.evolve(super().state(), totals=self._all_totals())

    def restore(self, state: ProgramState) -> None:
        """Go on from such a state."""
        super().restore(state)
        with self.gpu.current():
            self._sums.set(np.array([*(self.totals[node.name] for node in self.scalars), 0.0])[: self._sums.size])
        self.totals = dict.fromkeys(self.totals, 0.0)

    def remarks(self) -> Sequence[str]:
        """Return which convolutions cuDNN did not compute, though it is in use, and why."""
        return tuple(self._remarks.values())

    def memory(self) -> int:
        """Bytes of the buffers and of copied inputs on the device."""
        copies = sum(inlet.nbytes for inlet in self._inlets.values())
        return copies + self._storage.nbytes + self._open.nbytes

    # -- binding ------------------------------------------------------------------------------------------

    def _bind(self, stage: Stage, before: Bound | None, *, training: bool) -> Bound:
        longest = self.axes.longest(self._open.axes)
        frames = self.axes.frames
        key = (
            stage.first,
            training,  # what ops do in training is known when they are bound
            tuple(frames[axis] for axis in stage.axes),
            tuple(longest.values()),
            tuple(_arrangement(self.axes.layouts[axis]) for axis in self._timed if axis in self.axes.layouts),
        )
        bound = self._bound.get(key)
        if bound is not None and bound.before is before:
            self._bound.move_to_end(key)
            return bound
        if longest:
            check_lengths([node for step in self.plan.steps[stage.first : stage.end] for node in step.nodes], longest)
        self._grow_for(frames)
        site = self._site(longest, before)
        self._place_contexts(site, training=training, every=True)
        totals = self._totals_calls(site) if stage is self._stages[-1] else []
        bound = self._bound[key] = Bound(site, stage, before, totals, graphs=self._settings.graphs)
        if len(self._bound) > REMEMBERED:
            self._bound.popitem(last=False)
        return bound

    def _totals_calls(self, site: Site) -> list[Call]:
        kernel = self.gpu.named("common", "add_total", self._dtype)
        return [
            self.gpu.launch(kernel, (1,), (1,), (site.values[node].reshape(-1), self._sums[index : index + 1]))
            for index, node in enumerate(self.scalars)
        ]

    def _place_contexts(self, site: Site, *, training: bool, every: bool = False) -> None:
        for node in site.contexts if every else site.interpreted:
            self.set_context(site.contexts[node], node, training=training)

    def _grow_for(self, frames: Mapping[str, int]) -> None:
        """Have room for so many frames; if new buffers are needed, what was bound to the old ones is forgotten."""
        axes = self._storage.lacking(frames)
        if axes is None:
            return
        self._bound.clear()
        self._last = None
        self._storage.grow(axes, frames)
        for node, inlet in self._inlets.items():
            if node.axis in axes:
                inlet.reserve(self._storage.capacity[node.axis])

    def _site(self, longest: Mapping[str, int], before: Bound | None) -> Site:
        frames, plan = dict(self.axes.frames), self.plan

        def view(node: Node, places: Mapping[Node, int]) -> Array:
            shape = (frames[node.axis], *node.known_shape) if node.framed else node.known_shape
            return self._storage.view(places[node], shape)

        def views(places: Mapping[Node, int]) -> dict[Node, Array]:
            return {node: view(node, places) for node in places if not node.framed or node.axis in frames}

        sparse = self._sparse_inlets()
        values: dict[Node, Array] = {
            node: inlet.view(frames[node.axis]) for node, inlet in self._inlets.items() if node not in sparse
        }
        parameters = [node for node in plan.parameters if isinstance(node, Parameter)]
        values |= {node: self._numbers.view("values", node) for node in parameters}
        values |= self._constants
        values |= views(plan.value_buffer)
        gradients = views(plan.gradient_buffer)
        gradients |= {parameter: self._numbers.view("gradients", parameter) for parameter in plan.trained}
        criterion = plan.criterion
        if criterion is not None and (not criterion.framed or criterion.axis in frames):
            # A criterion by frame counts as the sum over its frames.
            rows = (frames[criterion.axis],) if criterion.framed else ()
            gradients[criterion] = self.gpu.cupy.ones((*rows, *criterion.known_shape), dtype=self._dtype)
        site = Site(
            plan=plan,
            gpu=self.gpu,
            dtype=self._dtype,
            frames=frames,
            values=values,
            gradients=gradients,
            path=self._path,
            contexts=self._contexts(before),
            numbers=self.place,
            scratch=self._storage.scratch,
            fixed=self._storage.fixed,
            workspace=self._storage.workspace,
            random=self._random,
            longest=longest,
            sparse=sparse,
            step_sites=before.site.step_sites if before is not None else {},
            remarks=self._remarks,
        )
        self._open.add(site, None if before is None else before.site)
        return site

    def _contexts(self, before: Bound | None) -> dict[Node, OpContext]:
        found = {
            node: OpContext(framed=tuple(bool(child.framed) for child in node.inputs), frames=count)
            for step in self.plan.steps
            for node in step.nodes
            for count in [self.axes.rows_for(node)]
            if count >= 0
        }
        return found if before is None else found | dict(before.site.contexts)

    def _sparse_inlets(self) -> dict[Node, SparseInlet]:
        """The inputs that stay sparse, in the minibatches that are bound now."""
        found: dict[Node, SparseInlet] = {
            node: inlet for node, inlet in self._sparse.items() if node not in self._inlets
        }
        return found | {node: self._labels[node] for node in self._labels if node in self._sparse_labels}

    # -- memory -------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Tell in words when the device's memory does not suffice.

        Raises:
            TrainingError: it does not; with the bytes that the plan needs.
        """
        try:
            yield
        except self.gpu.cupy.cuda.memory.OutOfMemoryError as error:
            kept = 2 + (len(self._update.rule.slots) if self._update is not None else 0)
            told = self._storage.shortage(kept * self.store.size * self._dtype.itemsize)
            self._forget()
            raise told from error

    def _forget(self) -> None:
        """Give back all storage: the next minibatch gets new one."""
        self._bound.clear()
        self._last = None
        self._storage.forget()
        self.gpu.cupy.get_default_memory_pool().free_all_blocks()


def _timed_axes(plan: Plan) -> tuple[str, ...]:
    """The dynamic axes whose sequences bound code depends on."""
    found = {node.axis for step in plan.steps if has_delays(step) for node in step.nodes if node.framed}
    return tuple(sorted(found))


def _arrangement(layout: Any) -> tuple[bytes, ...]:
    """What tells arrangements of sequences apart."""
    return tuple(np.asarray(part).tobytes() for part in (layout.alive, layout.begins, layout.lengths, layout.continues))
