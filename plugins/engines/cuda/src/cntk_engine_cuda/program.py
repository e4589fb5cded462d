"""CudaProgram: minibatches come in, bound code runs, results are fetched when somebody asks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Minibatch, Node, Op, ParameterStore, Plan, UpdateRule
from cntk_core.api.engines import PlanProgram, ProgramState, check_axes, meetings_of, row_count, stages_of
from cntk_engine_cuda.binder import Binder, Parts, carried_state
from cntk_engine_cuda.bound import Bound
from cntk_engine_cuda.gpu import Call, Gpu
from cntk_engine_cuda.inlets import DeviceInlets
from cntk_engine_cuda.inputs import Staging
from cntk_engine_cuda.mirror import DeviceStore
from cntk_engine_cuda.site import OpKernel, RandomState, Site
from cntk_engine_cuda.storage import DeviceStorage
from cntk_engine_cuda.update import Scalars, Update

RATE = "dropoutRate"


@attrs.frozen
class Settings:
    """How programs are made.

    Attributes:
        graphs: whether CUDA graphs are made.
        kernels: of ops, in the order in which they are asked.
    """

    graphs: bool = True
    kernels: Mapping[Op, Sequence[OpKernel]] = attrs.field(factory=dict)


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
        self._dtype = store.dtype
        self._rule = rule
        self._stages = stages_of(plan)
        self._meetings = meetings_of(plan)
        self._last: Bound | None = None
        self._update: Update | None = None
        self._written = {target.node for step in plan.gradients for target in step.targets}
        self._draws = any(node.op.random for node in plan.network)
        self._remarks: dict[str, str] = {}
        self._storage = DeviceStorage(gpu, plan, store.dtype, lambda: self.axes.frames)
        with self._told(), gpu.current():
            self._numbers = DeviceStore.of(gpu, store)
            self._inlets = DeviceInlets(gpu, plan, store.dtype)
            self._sums = gpu.cupy.zeros((max(1, len(self.scalars)),), dtype=np.float64)
            own = {each: gpu.cupy.zeros((1,), dtype=np.float64) for each in _own_rates(plan)}
            self._random = RandomState(
                seed, gpu.cupy.zeros((1,), dtype=np.uint64), gpu.cupy.zeros((1,), dtype=np.float64), own
            )
            self._step_staging = Staging(gpu, np.dtype(np.uint64))
            self._rate_staging = Staging(gpu, np.dtype(np.float64))
            self._own_staging = {each: Staging(gpu, np.dtype(np.float64)) for each in own}
            parts = Parts(
                inlets=self._inlets,
                numbers=self._numbers,
                random=self._random,
                places=self.place,
                axes=self.axes,
                set_context=self.set_context,
                totals=self._totals_calls,
                kernels=settings.kernels,
                remarks=self._remarks,
                graphs=settings.graphs,
            )
            self._binder = Binder(gpu, plan, self._storage, parts)
            if rule is not None:
                self._update = Update(gpu, plan, self._numbers, rule, self._storage.workspace)

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
        self._inlets.mark(self.store)
        self._finish(bound, training=True)
        self.step += 1

    def run_forward(self, minibatch: Minibatch, *, training: bool) -> None:
        """Run the forward part."""
        with self._told(), self.gpu.current():
            bound = self._run_stages(minibatch, training=training)
            assert bound.backward is not None  # what it needs of the host is sent before all calls
            bound.run(bound.forward, lambda site: self._place_contexts(site, training=training))
            self._finish(bound, training=training)

    def run_backward(self, seeds: Mapping[Node, NDArray[Any]]) -> None:
        """Run the backward part."""
        bound = self._last
        assert bound is not None
        with self._told(), self.gpu.current():
            self._numbers.fetch("values")  # other programs may have held the numbers since
            for node, seed in seeds.items():
                bound.site.gradients[node][...] = self.gpu.cupy.asarray(np.ascontiguousarray(seed, self._dtype))
            bound.backward()
            self._numbers.changed("gradients")
            self._inlets.mark(self.store)

    def fetch_gradient(self, node: Node) -> NDArray[Any] | None:
        """Return the gradient by a node, None if none comes there."""
        found = self._last.site.gradients.get(node) if self._last is not None else None
        if found is None:
            return None
        with self._told(), self.gpu.current():
            fetched: NDArray[Any] = found.get()
        return fetched

    def update(self, scalars: Sequence[Scalars]) -> None:
        """Apply the rule with the gradients in the store.

        Raises:
            NetworkError: the program was compiled without a rule.
        """
        update = self.needed_rule(self._update)
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
        update = self.needed_rule(self._update)
        with self._told(), self.gpu.current():
            self._fetch(gradients=False)
            together = update.set_numbers(scalars)
            self._compute(minibatch, update.calls(together=together))
            self._update_rows(update)
            self._changed_by_update()

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
            count = row_count(self.plan, parameter)
            if self._numbers.is_newest("gradients"):
                touched = self.store.touched(parameter, count)
                rows = np.flatnonzero(touched)
                touched[...] = False
            else:  # others may have added to the gradient
                rows = self.store.take_touched(parameter, count)
                self._numbers.fetch("gradients")
            update.update_rows(parameter, rows)

    def _run_stages(self, minibatch: Minibatch, *, training: bool) -> Bound:
        """Take a minibatch in, run all stages but the last, and return the code of the last."""
        self._last = None  # else its buffers would still be held while larger ones are asked for
        self._numbers.fetch("values")
        self._send_random(training=training)
        self._take(minibatch)
        bound: Bound | None = None
        for stage in self._stages:
            self._binder.grow(self.carried)
            before, bound = bound, self._binder.bind(stage, bound, training=training)
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
        for own, array in self._random.own.items():
            self._own_staging[own].send(np.array([own if training else 0.0]), array)

    def _take(self, minibatch: Minibatch) -> None:
        streams = self.axes.take(minibatch)
        if self._inlets.note_labels(streams):
            self._binder.forget_code()
        self._binder.grow(self.carried)  # inputs need their places
        _, moved = self._inlets.take(streams)
        if any(moved):
            self._binder.forget_code()

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
        with self._told(), self.gpu.current():
            carried = carried_state(self.carried)
        return ProgramState(carried, self._all_totals())

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
        return self._inlets.nbytes + self._binder.nbytes

    def _totals_calls(self, site: Site) -> list[Call]:
        kernel = self.gpu.named("common", "add_total", self._dtype)
        return [
            self.gpu.launch(kernel, (1,), (1,), (site.values[node].reshape(-1), self._sums[index : index + 1]))
            for index, node in enumerate(self.scalars)
        ]

    def _place_contexts(self, site: Site, *, training: bool) -> None:
        for node in site.interpreted:
            self.set_context(site.contexts[node], node, training=training)

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
            kept = 2 + (len(self._rule.slots) if self._rule is not None else 0)
            told = self._storage.shortage(kept * self.store.size * self._dtype.itemsize)
            self._forget()
            raise told from error

    def _forget(self) -> None:
        """Give back all storage: the next minibatch gets new one."""
        self._last = None
        self._storage.forget()
        if "_binder" in self.__dict__:  # else there is no program yet
            self._binder.forget()
        self.gpu.cupy.get_default_memory_pool().free_all_blocks()


def _own_rates(plan: Plan) -> set[float]:
    """The dropout rates that nodes have of their own."""
    rates = (getattr(node.attributes, "dropout_rate", -1.0) for step in plan.steps for node in step.nodes)
    return {rate for rate in rates if rate >= 0.0}
