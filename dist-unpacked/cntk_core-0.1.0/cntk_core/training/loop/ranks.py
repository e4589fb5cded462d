"""The ranks that train together, as one of them sees them: shares of the data, agreement, everybody's state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.parallel import Communicator, Parallelizer
from cntk_core.contract.reader import EpochSpec
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import TrainingError
from cntk_core.plan.plan import Plan
from cntk_core.records.minibatch import Minibatch
from cntk_core.training.loop.subminibatch import share

Array = NDArray[Any]

STATE_TAG = 255
"""Tag of the messages with which ranks give their state to rank 0."""

STREAMS = 1 << 22
"""Random streams of a rank in an epoch; those of the next rank follow."""

_PREFIX = "rank/"


@attrs.frozen
class ParallelSettings:
    """What a recipe says of parallel training beside the strategy's own options.

    Attributes:
        start_epoch: the first epoch, counted from 1, that the ranks train together. Before it each trains all of it.
        distributed_reading: each rank reads its share; otherwise each reads all and takes its part of each minibatch.
        deadline, report_after: seconds; see ``Watch``.
        check_every: compare the parameters of all ranks every so many updates; 0 is never.
        show_every: see ``Parallelizer.show_every``.
    """

    start_epoch: int = 1
    distributed_reading: bool = True
    deadline: float = 600.0
    report_after: float = 30.0
    check_every: int = 0
    show_every: int = 0


class NoExchange(Parallelizer):
    """The strategy of ranks that do not train together: nothing is exchanged, and a step is done when it is done."""

    requires_api = "1.0"
    reduces_gradients = False

    def __init__(self) -> None:
        super().__init__()
        self.has_met = True  # whoever learns alone may be saved after each step


@attrs.define(eq=False)
class Ranks:
    """The ranks of a training or an evaluation. One rank by itself is :class:`~cntk_core.training.loop.alone.Alone`.

    Attributes:
        communicator: of all ranks.
        strategy: how they train.
        name: of the strategy, as the recipe has it; empty if they do not train together.
        settings: the rest of the block.
    """

    communicator: Communicator
    strategy: Parallelizer = attrs.field(factory=NoExchange)
    name: str = ""
    settings: ParallelSettings = attrs.field(factory=ParallelSettings)
    _has_begun: bool = attrs.field(default=False, init=False)
    _kept: tuple[Mapping[str, Any], Mapping[str, Array]] = attrs.field(default=({}, {}), init=False)

    def __attrs_post_init__(self) -> None:
        self.communicator.watch.deadline = self.settings.deadline
        self.communicator.watch.report_after = self.settings.report_after
        self.strategy.show_every = self.settings.show_every

    @property
    def rank(self) -> int:
        """This rank, from 0."""
        return self.communicator.rank

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self.communicator.size

    @property
    def is_main(self) -> bool:
        """Whether this rank writes files."""
        return self.communicator.rank == 0

    @property
    def distributed(self) -> bool:
        """Whether each rank reads its share only."""
        return self.settings.distributed_reading

    @property
    def exchange(self) -> bool:
        """Whether they have a strategy; otherwise they only evaluate together, or each trains on everything."""
        return not isinstance(self.strategy, NoExchange)

    @property
    def merge_gradients(self) -> bool:
        """Whether a step of this rank merges its gradients with those of others: of all ranks, or of a group."""
        return self.strategy.reduces_gradients or self.strategy.group is not None

    @property
    def saves_inside(self) -> bool:
        """Whether all ranks ever are at the same place inside an epoch, so that a checkpoint can be written there."""
        return self.strategy.reduces_gradients or self.strategy.saves_inside

    @property
    def count_for(self) -> int:
        """For how many ranks the samples that this one counts in an epoch stand: for a group of them, or for all."""
        if self.strategy.reduces_gradients:
            return self.size
        return 1 if self.strategy.group is None else self.strategy.group.size

    def doing(self, what: str) -> None:
        """Note what this rank is at, for reports of ranks that wait."""
        self.communicator.watch.doing = what

    # -- who does what ------------------------------------------------------------------------------------

    def train_epoch(self, epoch: int) -> bool:
        """Whether an epoch (from 0) is trained together."""
        return self.exchange and epoch + 1 >= self.settings.start_epoch

    def spec(self, whole: EpochSpec) -> EpochSpec:
        """What this rank asks its reader for."""
        return attrs.evolve(whole, rank=self.rank, ranks=self.size) if self.distributed else whole

    def shares(self, minibatches: Iterable[Minibatch]) -> Iterator[tuple[int, Minibatch | None]]:
        """For each minibatch that the reader gives, its samples and what this rank learns of it; None for nothing."""
        for minibatch in minibatches:
            yield minibatch.samples, minibatch if self.distributed else share(minibatch, self.rank, self.size)

    def describe(self, epoch: int) -> str:
        """Say in a few words how an epoch is trained."""
        text = self.strategy.describe(epoch) or f"{self.name} training (myRank = {self.rank}, numNodes = {self.size})"
        return text + (", distributed reading is ENABLED" if self.distributed else "")

    @property
    def first_stream(self) -> int:
        """Number of the first random stream of this rank in an epoch."""
        return self.rank * STREAMS

    # -- agreement ----------------------------------------------------------------------------------------

    def meet(self, what: str) -> None:
        """Wait for all ranks."""
        self.doing(what)
        self.communicator.barrier()

    def first_text(self, text: str) -> str:
        """Return the first text, by rank, that is not empty: the same one on all ranks."""
        texts = self.communicator.allgather(np.frombuffer(text.encode(), np.uint8))
        return next((bytes(one).decode() for one in texts if one.size), "")

    def agree(self, what: str, value: Any) -> None:
        """Check that all ranks have the same value.

        Raises:
            TrainingError: they have not; says what each has.
        """
        self.doing(f"comparing {what}")
        own = np.frombuffer(json.dumps(value, sort_keys=True).encode(), np.uint8)
        texts = [bytes(one).decode() for one in self.communicator.allgather(own)]
        if len(set(texts)) > 1:
            shown = "\n".join(f"rank {rank}: {text}" for rank, text in enumerate(texts))
            raise TrainingError(
                f"the ranks do not have the same {what}",
                hint=f"All ranks need the same recipe, data and model files.\n{shown}",
            )

    def add(self, numbers: Sequence[float]) -> list[float]:
        """Return the sums of numbers over all ranks."""
        total = np.array(numbers, np.float64)
        self.communicator.allreduce(total)
        return [float(number) for number in total]

    def check_assigned(self, plan: Plan) -> None:
        """Make sure that operations of a plan change nothing by themselves that the ranks learn together.

        Raises:
            TrainingError: one does; each rank would have a value of its own.
        """
        for node in (node for step in plan.steps for node in step.nodes if self.exchange):
            places = node.op.updates | ({0} if node.op.traits.assigns else frozenset[int]())
            changed = (child for place, child in enumerate(node.inputs) if place in places)
            found = next((child for child in changed if child in plan.trained), None)
            if found is not None:
                raise TrainingError(
                    f"{node.op.name} '{node.name}' changes '{found.name}', which several ranks learn together",
                    where=node.where,
                    hint=f"Do not learn '{found.name}' (learningRateMultiplier = 0), or train with one rank.",
                )

    def check_parameters(self, store: ParameterStore, when: str) -> None:
        """Check that the learned parameters are equal on all ranks, to the last bit.

        Raises:
            TrainingError: they are not; names the ranks that differ from rank 0.
        """
        self.doing(f"comparing parameters {when}")
        learned = np.ascontiguousarray(store.values[: store.learned_size])
        digest = hashlib.blake2b(learned.view(np.uint8).data, digest_size=16).digest()
        found = [bytes(one) for one in self.communicator.allgather(np.frombuffer(digest, np.uint8))]
        others = [rank for rank, one in enumerate(found) if one != found[0]]
        if others:
            named = ", ".join(map(str, others))
            raise TrainingError(
                f"{when} the parameters of rank {named} are not those of rank 0",
                hint="The ranks do not compute the same: different machines, libraries or recipes, or a fault of "
                f"the strategy '{self.name}'.",
            )

    def add_up(self, numbers: Sequence[float]) -> list[float]:
        """Add numbers of an epoch that ranks have trained apart; those of a group are the same on all its ranks."""
        group = self.strategy.group
        return self.add(numbers if group is None or group.rank == 0 else [0.0] * len(numbers))

    def share_statistics(self, store: ParameterStore) -> None:
        """Give all ranks what rank 0 has in parameters that are not learned, such as running means.

        Each rank counts them over its own share while it trains; a model has those of rank 0, as in the original.
        """
        size = store.learned_size
        if size < store.size:
            statistics = np.ascontiguousarray(store.values[size:])
            self.communicator.broadcast(statistics)
            store.values[size:] = statistics

    def compare(self, store: ParameterStore, count: int, epoch: int) -> None:
        """Check the parameters after a step that all ranks have made, if it is time to (:attr:`ParallelSettings`).

        Args:
            store: the parameters.
            count: minibatches of the epoch so far.
            epoch: its index, from 0.
        """
        every = self.settings.check_every
        if every and self.strategy.group is None and count and count % every == 0:
            self.check_parameters(store, f"after minibatch {count} of epoch {epoch + 1}")

    # -- state --------------------------------------------------------------------------------------------

    def begin_epoch(self, store: ParameterStore, epoch: int, *, inside: bool = False) -> str:
        """Begin an epoch that is trained together; return a line about a state that was taken over, if there is one.

        Args:
            store: the parameters.
            epoch: its index, from 0.
            inside: training goes on inside the epoch: what was remembered is of a later time than its beginning.
        """
        said = self.begin(store, inside=inside)
        self.strategy.begin_epoch(epoch)
        return said or self._take_back()

    def begin(self, store: ParameterStore, *, inside: bool = False) -> str:
        """Begin parallel training if it has not begun yet; the arguments and what is returned are as above."""
        if self._has_begun:
            return ""
        self._has_begun = True
        self.communicator.broadcast(store.values)
        self.strategy.begin(store, self.communicator)
        return "" if inside else self._take_back()

    @contextmanager
    def trial(self, epoch: int) -> Iterator[None]:
        """Within, the ranks train the beginning of an epoch; then the strategy remembers what it did before."""
        before = {name: np.array(array) for name, array in self.strategy.state().items()}
        self.strategy.begin_epoch(epoch)
        yield
        self.strategy.begin_epoch(epoch)  # drops what is still under way
        self.strategy.restore(before)

    def remember(self, entries: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
        """Take the state of all ranks from a checkpoint, now or when parallel training begins.

        Args:
            entries: of :meth:`entries`; empty for one that ranks did not write together.
            arrays: of the checkpoint; those of other things are left alone.
        """
        self._kept = (entries, arrays)
        return self._take_back() if self._has_begun else ""

    def _take_back(self) -> str:
        (entries, arrays), self._kept = self._kept, ({}, {})
        before = int(entries.get("ranks", 0))
        states = [rank_arrays(arrays, rank, "strategy/") for rank in range(before)]
        if not before or not any(states):
            return ""
        if entries.get("strategy") != self.name:
            return f"The state of '{entries.get('strategy')}' in the checkpoint is of no use to '{self.name}'."
        if before == self.size:
            self.strategy.restore(states[self.rank])
            return ""
        said = self.strategy.adopt(states)
        return f"The checkpoint is of {before} ranks, now there are {self.size}" + (f": {said}." if said else ".")

    def entries(self) -> Mapping[str, Any]:
        """What a checkpoint says of the ranks."""
        return {"ranks": self.size, "strategy": self.name} if self.exchange else {}

    def collect(self, own: Mapping[str, Array]) -> dict[str, Array]:
        """Bring the state of all ranks together on rank 0, for a checkpoint; the others get nothing.

        Args:
            own: what the session has of this rank beside the state of the strategy.
        """
        self.doing("collecting states for a checkpoint")
        state = {f"session/{name}": array for name, array in own.items()}
        if self._has_begun:
            state.update({f"strategy/{name}": array for name, array in self.strategy.state().items()})
        if not self.is_main:
            self.communicator.send(np.frombuffer(json.dumps(list(state)).encode(), np.uint8), 0, STATE_TAG)
            for array in state.values():
                self.communicator.send(np.ascontiguousarray(array), 0, STATE_TAG)
            return {}
        found = {f"{_PREFIX}0/{name}": np.array(array) for name, array in state.items()}
        for rank in range(1, self.size):
            names = json.loads(bytes(self.communicator.receive(rank, STATE_TAG).array))
            for name in names:
                found[f"{_PREFIX}{rank}/{name}"] = self.communicator.receive(rank, STATE_TAG).array
        return found

    def finish(self) -> None:
        """End parallel training, also after a failure."""
        if self._has_begun:
            self.strategy.finish()


def rank_arrays(arrays: Mapping[str, Array], rank: int, part: str) -> dict[str, Array]:
    """Arrays of a checkpoint that belong to a rank, by their names there; ``part`` is ``strategy/`` or ``session/``."""
    prefix = f"{_PREFIX}{rank}/{part}"
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
