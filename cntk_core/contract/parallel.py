"""Communicator, gradient aggregation and strategy: the three layers of parallel training.

A strategy (:class:`Parallelizer`) decides what is exchanged and when, an aggregation (:class:`GradientAggregation`) how
gradients are added up, a communicator (:class:`Communicator`) moves arrays. Each knows the layer below by its interface
alone: a compression scheme runs on every communicator, and under every strategy that adds gradients.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.component import Component
from cntk_core.errors import UnsupportedError

if TYPE_CHECKING:
    from cntk_core.contract.simulation import Simulation, SimulationPlan
    from cntk_core.contract.store import ParameterStore

Array = NDArray[Any]
T = TypeVar("T")


@attrs.frozen(eq=False)
class Message:
    """An array from one rank to another.

    Attributes:
        source: the rank that sent it.
        tag: a number that says what it is about, from 0 to 255.
        array: a copy that belongs to the receiver.
    """

    source: int
    tag: int
    array: Array


@attrs.define(eq=False)
class Watch:
    """How long ranks wait for each other, and who hears of it.

    Attributes:
        deadline: seconds after which an operation that is not complete ends all ranks.
        report_after: seconds after which a rank that waits says for whom.
        say: gets a line from a rank that waits.
        doing: what this rank is at (``minibatch 7 of epoch 2``), for these lines.
    """

    deadline: float = 600.0
    report_after: float = 30.0
    say: Callable[[str], None] = lambda text: None
    doing: str = ""


@attrs.frozen
class Launcher:
    """How processes are started that find each other through a communicator.

    Attributes:
        command: what stands in front of the command that each of them runs.
        environment: variables that the launcher itself needs.
        title: what it is, for messages.
        shown: of the lines that come from it and from the ranks, those that people see; all without it.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    title: str
    shown: Callable[[Iterable[str]], Iterable[str]] | None = None


class RankLauncher(Component):
    """Starts the ranks of ``cntk train recipe.cntk -n 4 --on NAME``. Made without arguments.

    Attributes:
        communicator: connects the ranks where the recipe names none; empty: the one that goes with their variables.
        is_here: all ranks are on this machine, and share its processors.
    """

    communicator: ClassVar[str] = ""
    is_here: ClassVar[bool] = False

    @abstractmethod
    def launcher(self, ranks: int, *, elastic: bool = False) -> Launcher:
        """Return what starts so many processes; as :meth:`Communicator.launcher`, wherever they are.

        The ranks get the environment of the command and find their number in variables of their own. A signal to the
        launcher is one to all of them.
        """

    def ended(self, code: int) -> None:
        """All ranks have ended, and been told of; the command ends with this exit code (138 after SIGUSR1)."""


class Pending(Generic[T]):
    """Work in the background (:meth:`Communicator.background`), here done already; who overlaps overrides both."""

    def __init__(self, result: T | None = None, error: BaseException | None = None) -> None:
        self._result = result
        self._error = error

    @property
    def is_done(self) -> bool:
        """Whether :meth:`wait` would return at once. It may differ between ranks: no collective may depend on it."""
        return True

    def wait(self) -> T:
        """Return the result when it is there. Raises what the work raised."""
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]


class Communicator(Component):
    """Moves arrays between ranks. It knows nothing of training. Made without arguments.

    Collective operations are called by all ranks in the same order. Sums are added in the order of the ranks, so that
    they are the same to the last bit whatever the communicator. Arrays are contiguous. Every operation ends within
    ``watch.deadline`` seconds: it is complete, or all ranks end and the error names the ranks that were missing.

    Attributes:
        rank, size: this rank, from 0, and the number of ranks.
        bytes_sent: payload that this rank has handed to other ranks so far.
        takes_device_arrays: collective operations take arrays on this rank's GPU, too (those of CuPy, and others that
            have ``__cuda_array_interface__``), and then return such of CuPy. All ranks give the same kind.
        watch: how long ranks wait.
        is_elastic: the others go on when a rank is lost; see :meth:`tolerate_losses`.
        takes_newcomers: :meth:`regroup` takes in ranks that come to those that have begun without them.
        has_joined: this rank has come so; the others tell it what they are at.
        priority: where nobody names a communicator, ``cntk -n`` asks the one with the highest first for its launcher.
        rank_variables: the variables in which a launcher of these ranks says which one a process is and how many there
            are, ``"MY_RANK.MY_SIZE"``; with ``".fallback"`` behind, they count where no other launcher's are set. A
            wheel has an entry point of the group ``cntk.rank_variables`` of that name instead, which nothing loads.
    """

    priority: ClassVar[int] = 0
    rank_variables: ClassVar[tuple[str, ...]] = ()
    takes_device_arrays: ClassVar[bool] = False
    takes_newcomers: ClassVar[bool] = False

    rank: int = 0
    size: int = 1
    bytes_sent: int = 0
    watch: Watch
    is_elastic: bool = False
    has_joined: bool = False

    def __init__(self) -> None:
        self.watch = Watch()

    @property
    def newcomers(self) -> int:
        """How many wait for the next :meth:`regroup`, as rank 0 knows."""
        return 0

    @classmethod
    def launcher(cls, ranks: int, *, elastic: bool = False) -> Launcher:
        """Return what starts so many processes on this machine.

        Args:
            ranks: how many.
            elastic: for :meth:`tolerate_losses`: the launcher does not end the others when one ends.

        Raises:
            UnsupportedError: nothing can.
        """
        raise UnsupportedError(f"the communicator {cls.__name__} starts no processes")

    @classmethod
    def simulation(cls, plan: SimulationPlan) -> Simulation:
        """Return ranks of this process on a simulated network; each run of them begins anew at 0 s.

        Raises:
            UnsupportedError: this communicator moves arrays for real.
        """
        raise UnsupportedError(f"the communicator {cls.__name__} simulates nothing")

    # -- all ranks together -------------------------------------------------------------------------------

    @abstractmethod
    def allreduce(self, array: Array) -> None:
        """Sum ``array`` over all ranks, in place, added in the order of the ranks."""

    def allreduce_all(self, arrays: Sequence[Array]) -> None:
        """Sum several arrays as :meth:`allreduce` does; where messages are slow to come, in one go."""
        for array in arrays:
            self.allreduce(array)

    @abstractmethod
    def allgather(self, array: Array) -> list[Array]:
        """Return the arrays of all ranks, by rank. Shapes may differ between the ranks, types too."""

    @abstractmethod
    def alltoall(self, arrays: Sequence[Array]) -> list[Array]:
        """Send ``arrays[r]`` to rank ``r``, for all ranks; return what they sent to this one, by rank.

        Shapes may differ, and arrays may be empty.
        """

    @abstractmethod
    def broadcast(self, array: Array, root: int = 0) -> None:
        """Overwrite ``array`` with that of rank ``root``, in place."""

    @abstractmethod
    def barrier(self) -> None:
        """Wait until every rank is here."""

    @abstractmethod
    def split(self, color: int) -> Communicator:
        """Return the communicator of the ranks that gave the same color, in the order of their ranks here."""

    @abstractmethod
    def background(self, work: Callable[[Communicator], T]) -> Pending[T]:
        """Run ``work(communicator)`` on all ranks while they go on with something else.

        The work gets a communicator with the same ranks, on which only it operates. Works run in the order in which
        they were started. A communicator that cannot overlap does the work at once.
        """

    # -- one rank to another ------------------------------------------------------------------------------

    @abstractmethod
    def send(self, array: Array, to: int, tag: int = 0) -> None:
        """Send a copy of an array, also to oneself. Does not wait for the receiver.

        Messages with the same source, receiver and tag arrive in the order in which they were sent.
        """

    @abstractmethod
    def receive(self, source: int | None = None, tag: int | None = None) -> Message:
        """Wait for a message, from any rank or with any tag where none is given."""

    @abstractmethod
    def poll(self, source: int | None = None, tag: int | None = None) -> Message | None:
        """Return a message if one is there, like :meth:`receive` without waiting."""

    # -- all else -----------------------------------------------------------------------------------------

    @abstractmethod
    def now(self) -> float:
        """Seconds since some instant; of a simulated network, those that are simulated."""

    @abstractmethod
    def abort(self, reason: str) -> None:
        """End all ranks."""

    # -- going on without a rank; a communicator need not offer it ----------------------------------------

    def tolerate_losses(self) -> None:
        """From now on the other ranks go on when one is lost, on this communicator and those that are made of it.

        All ranks call it, before they use the communicator for anything else. Afterwards an operation that a lost rank
        has to do with raises ``RankGone`` on ranks that it has not been completed on, instead of ending them, and so
        does every later operation until :meth:`regroup`.

        Raises:
            UnsupportedError: this cannot be done here; says what is needed.
        """
        raise UnsupportedError(
            f"the communicator {type(self).__name__} cannot go on without a rank",
            hint="Leave --elastic (elastic=true) away, or name another one: communicator=...",
        )

    def regroup(self, done: bool) -> Communicator | None:
        """Find out who is left.

        All ranks that are left call it: when a piece of work is done, and after ``RankGone`` or ``RankMissing`` in it.
        A rank that does not come to it within the deadline is lost, too.

        Args:
            done: this rank has done the work.

        Returns:
            None if all ranks are here and have done it. Otherwise, on all ranks alike, a communicator of the ranks that
            are left, in their order, with which the work may be done again; this one is of no use any more.

        Raises:
            RankGone: the others have gone on without this rank.
        """
        raise UnsupportedError(f"the communicator {type(self).__name__} cannot go on without a rank")

    def leave(self, reason: str) -> None:
        """Say that this rank fails, so that the others go on without it; the process ends at once."""
        self.abort(reason)

    def close(self) -> None:
        """Let go of what the communicator holds, after the last operation. May be called more than once."""


class GradientAggregation(Component):
    """Adds up the gradients of all ranks. Made as ``Aggregation(options)``, which are its ``settings``.

    Options are read from the strategy's block in the recipe (``DataParallelSGD=[ ... ]``), beside the strategy's own.
    Whatever is compressed away must be kept and sent later (error feedback); it is part of :meth:`state`.
    """

    def __init__(self, options: Any = None) -> None:
        self.settings = options if options is not None else type(self).options()

    def begin(self, store: ParameterStore, communicator: Communicator) -> None:
        """Called once before training, on every rank. The store has the shapes; its values are equal on all ranks."""
        self.store = store
        self.communicator = communicator

    def begin_epoch(self, epoch: int) -> None:
        """Called before each epoch (from 0) that is trained in parallel."""

    def works_on_device(self, communicator: Communicator) -> bool:
        """Whether :meth:`aggregate` takes gradients that lie on a GPU (an array with ``__cuda_array_interface__``).

        It has then done everything there when it returns.
        """
        return False

    @abstractmethod
    def aggregate(self, gradients: Array, header: Array, communicator: Communicator) -> None:
        """Overwrite gradients and header with their sums over all ranks, in place; all ranks get the same numbers.

        Args:
            gradients: a buffer laid out as that of the store (``store.range(parameter)``); it may be another one.
            header: float64 numbers that ride along. They are always summed exactly.
            communicator: to be used here; it is not the one of :meth:`begin` when gradients are exchanged in the
                background.
        """

    def state(self) -> Mapping[str, Array]:
        """Arrays of this rank to keep in a checkpoint (residuals)."""
        return {}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Take back what :meth:`state` gave on this rank, with as many ranks as now."""

    def adopt(self, states: Sequence[Mapping[str, Array]]) -> str:
        """Take over the states of a run that had another number of ranks, by rank; called on every rank.

        Returns what is different from going on with the same number, in one line; empty if nothing is.
        """
        return "the aggregation begins anew" if any(states) else ""


@attrs.frozen
class StepCounts:
    """What rides along with the gradients: of one rank before :meth:`Parallelizer.reduce`, of all ranks after it.

    Attributes:
        samples: N, by which an update goes: columns of CNTK's matrix of the minibatch, gaps included.
        criteria: sums of the criteria, by name.
        counted: samples that the criteria count.
        read: samples that the reader counts.
        flags: numbers of the session that are summed, too.
        learning_rate: per sample, in this step. It is the same on all ranks and is not summed.
        pending: True if the sums come later than the step (double buffering) and are not there yet.
    """

    samples: int
    criteria: Mapping[str, float]
    counted: int = 0
    read: int = 0
    flags: tuple[float, ...] = ()
    learning_rate: float = 0.0
    pending: bool = False

    def header(self) -> Array:
        """Return the numbers to be summed, as float64."""
        return np.array([self.samples, self.counted, self.read, *self.flags, *self.criteria.values()], np.float64)

    def summed(self, header: Array) -> StepCounts:
        """Return these counts with the numbers of a header that was summed over the ranks."""
        samples, counted, read, *others = header.tolist()
        flags, sums = others[: len(self.flags)], others[len(self.flags) :]
        return attrs.evolve(
            self,
            samples=round(samples),
            counted=round(counted),
            read=round(read),
            flags=tuple(flags),
            criteria=dict(zip(self.criteria, sums, strict=True)),
        )

    @property
    def is_end(self) -> bool:
        """True, after :meth:`Parallelizer.reduce`, if no rank had data in this step: the epoch is over."""
        return self.samples == 0 and not self.pending


class Parallelizer(Component):
    """A way to train on several ranks (a strategy). Made as ``Parallelizer(options, aggregations)``.

    Gradient schemes fill :meth:`reduce`, model schemes :meth:`sync`; both do nothing by default.

    With a gradient scheme all ranks make the same steps: a rank whose data has ended goes on with empty steps until
    :meth:`reduce` returns counts without samples. With a model scheme each rank makes the steps of its own share
    and only :meth:`sync` brings ranks together; ranks may have more or fewer steps than others.

    A model scheme may have groups of ranks that make the same steps, as with a gradient scheme: it sets :attr:`group`
    in :meth:`begin`, and :meth:`reduce` merges the gradients and counts of a group. Its :meth:`sync` gets these counts.

    The order of calls: ``begin``, perhaps ``restore`` or ``adopt`` of what was saved between two epochs; for each epoch
    ``begin_epoch``, perhaps ``restore`` of what was saved inside it, then for each step
    ``reduce``, the update, ``sync``, and at the end of the epoch ``sync(..., epoch_end=True)``; ``state`` between two
    steps (with a gradient scheme, and with a model scheme that :attr:`has_met`) or two epochs; ``finish``. All this
    begins with the first epoch that is trained in parallel. After a roll-back to an earlier epoch there may be another
    ``restore`` before the next ``begin_epoch``. A trial before an epoch is ``begin_epoch`` and steps, with a gradient
    scheme; afterwards there are another ``begin_epoch`` and a ``restore``.

    Attributes:
        reduces_gradients: whether this is a gradient scheme.
        group: of a model scheme, the ranks whose gradients are merged with those of this one; None for no others.
        saves_inside: of a model scheme, whether :attr:`has_met` is ever true, so that training can be saved inside an
            epoch; a gradient scheme can always be. After ``meet_every`` samples of a rank, if that is not 0, it should.
        has_met: of a model scheme, that all ranks have just come together in :meth:`sync`, none of them at the end of
            its data: they have the same parameters, and :meth:`state` may be asked for.
        aggregations: made for :meth:`needs`, by name.
        say: gets lines for the log.
        show_every: say how fast it goes every so many exchanges (``syncPerfStats``); 0 is never.
    """

    reduces_gradients: ClassVar[bool] = True
    saves_inside: ClassVar[bool] = False

    def __init__(self, options: Any = None, aggregations: Mapping[str, GradientAggregation] | None = None) -> None:
        self.settings = options if options is not None else type(self).options()
        self.aggregations: Mapping[str, GradientAggregation] = dict(aggregations or {})
        self.group: Communicator | None = None
        self.has_met, self.meet_every = False, 0
        self.say: Callable[[str], None] = lambda text: None
        self.show_every = 0

    @classmethod
    def needs(cls, options: Any) -> tuple[str, ...]:
        """Names of the aggregations, as plugins offer them, that it wants with these options."""
        return ()

    def describe(self, epoch: int) -> str:
        """Say in a few words, for the log, how an epoch is trained; empty for a default text."""
        return ""

    def begin(self, store: ParameterStore, communicator: Communicator) -> None:
        """Called once, on every rank, with the same parameters on all of them, before the first parallel epoch."""

    def begin_epoch(self, epoch: int) -> None:
        """Called before each epoch (from 0) that is trained in parallel.

        What is still under way from an epoch that was given up (a roll-back) is dropped.
        """

    def reduce(self, store: ParameterStore, counts: StepCounts) -> StepCounts:
        """Merge the gradients in the store over all ranks, in place; return the counts of all ranks together.

        No update is done where the counts that are returned have no samples.
        """
        return counts

    def sync(self, store: ParameterStore, counts: StepCounts, *, epoch_end: bool = False) -> None:
        """Merge the parameters after an update, when it is time to.

        Args:
            store: values and the learner's slots.
            counts: of this step on this rank with a model scheme (no samples at the end of an epoch), of all ranks with
                a gradient scheme.
            epoch_end: the rank has no more data in this epoch; afterwards all ranks have the same parameters.
        """

    def state(self) -> Mapping[str, Array]:
        """Arrays of this rank to keep in a checkpoint (residuals, block state). All ranks are asked at the same point.

        Nothing may be under way afterwards that is not in the arrays.
        """
        return {}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Take back what :meth:`state` gave on this rank, with as many ranks as now."""

    def adopt(self, states: Sequence[Mapping[str, Array]]) -> str:
        """Take over the states of a run that had another number of ranks, by rank; called on every rank.

        Returns what is different from going on with the same number, in one line; empty if nothing is.
        """
        return "the state of parallel training begins anew" if any(states) else ""

    def finish(self) -> None:
        """Called once after training, also after a failure; other ranks may be gone."""
