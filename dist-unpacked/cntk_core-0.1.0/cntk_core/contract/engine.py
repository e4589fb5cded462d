"""ExecutionEngine: from a Plan to a Program that computes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from numpy.typing import NDArray

from cntk_core.contract.component import Component
from cntk_core.errors import UnsupportedError

if TYPE_CHECKING:
    from cntk_core.contract.learner import UpdateRule
    from cntk_core.contract.store import ParameterStore
    from cntk_core.ops.kernel import Kernel
    from cntk_core.plan.plan import AnyStep, Plan
    from cntk_core.records.layout import SequenceLayout
    from cntk_core.records.minibatch import Minibatch


@attrs.frozen(eq=False)
class ProgramState:
    """What a program takes along from minibatch to minibatch, beside parameters and random streams.

    Attributes:
        carried: by node, what it keeps of the minibatches before (the ends of sequences that go on), by name: arrays,
            numbers and tuples of them.
        totals: sums of the scalar roots since :meth:`Program.read_totals` was last called.
    """

    carried: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    totals: Mapping[str, float] = attrs.field(factory=dict)


class Program(ABC):
    """A compiled plan. Results stay where they were computed until somebody asks for them.

    Attributes:
        plan: what it computes.
        settings: numbers that training changes from outside, by name (``dropoutRate``); ops see them.
        step: the epoch, times 2**32, plus the computations of gradients in it (of minibatches, or of parts of them).
            It keys the random streams.
    """

    plan: Plan
    settings: dict[str, float]
    step: int

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            f"{type(self).__name__} cannot be pickled: its engine does not say what it was compiled of",
            hint="Pickle the network, and compile it again.",
        )

    def begin_epoch(
        self, epoch: int, settings: Mapping[str, float] | None = None, *, minibatches_done: int = 0
    ) -> None:
        """Start an epoch (from 0): its random streams, and the numbers that ops ask for by name.

        Random numbers depend on the seed of :meth:`ExecutionEngine.compile`, the node, the epoch and the number of the
        minibatch in the epoch, never on what ran before, so that a resumed run draws the same ones.
        """
        self.step = (epoch << 32) + minibatches_done
        if settings is not None:
            self.settings = dict(settings)

    @abstractmethod
    def evaluate(self, minibatch: Minibatch) -> None:
        """Run the forward part. Scalar roots are added to the totals."""

    @abstractmethod
    def compute_gradients(self, minibatch: Minibatch) -> None:
        """Run forward and backward; parameter gradients (sums over samples) are in the store afterwards.

        The plan must have been made with gradients.
        """

    @abstractmethod
    def update(self, scalars: Sequence[Mapping[str, float]]) -> None:
        """Apply the update rule with the gradients in the store; ``scalars[i]`` belongs to ``plan.trained[i]``."""

    def train_step(self, minibatch: Minibatch, scalars: Sequence[Mapping[str, float]]) -> None:
        """Do a whole step. An engine may fold the update into the gradients, which then are not in the store."""
        self.compute_gradients(minibatch)
        self.update(scalars)

    def forward(self, minibatch: Minibatch, *, training: bool = True) -> None:
        """Run the forward part as :meth:`evaluate` does, and keep what gradients need.

        Args:
            minibatch: the data; the program may go on reading its arrays until the last :meth:`backward`.
            training: dropout is on and statistics are those of the minibatch, as in training; it counts as a step.

        Raises:
            NetworkError, UnsupportedError: the plan or the engine has no gradients by nodes.
        """
        raise no_gradients(self)

    def backward(self, seeds: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Let gradients flow back through what :meth:`forward` has computed; any number of times.

        The gradients of parameters are in the store then, where :meth:`update` finds them.

        Args:
            seeds: by root, the gradient of what is sought by the root's value, in the shape of :meth:`value`, or a
                number for all its elements. Roots that are not named get none. None are ones for all roots: gradients
                of the sum of all their elements.

        Raises:
            NetworkError: :meth:`forward` did not run before, or there is no such root.
            DataError: a seed has another shape than its root.
        """
        raise no_gradients(self)

    def gradient(self, name: str) -> NDArray[Any]:
        """Return a copy of the gradient by a node of ``plan.by``, in the shape of its value.

        Raises:
            NetworkError: there is no such node, or :meth:`backward` did not run.
        """
        raise no_gradients(self)

    @abstractmethod
    def value(self, name: str) -> NDArray[Any]:
        """Return a copy of a root's value after the last run: ``(frames, *shape)`` or ``shape``."""

    @abstractmethod
    def layout(self, name: str) -> SequenceLayout:
        """Return the sequences of a root's dynamic axis in the last run, or of that of a node of ``plan.by``.

        Raises:
            NetworkError: it has none, or there is no such node.
        """

    @abstractmethod
    def read_totals(self) -> Mapping[str, float]:
        """Return the sums of the scalar roots since the last call, and set them to zero."""

    def state(self) -> ProgramState | None:
        """Return what goes on from one minibatch to the next, without changing it.

        None if the program cannot say; then training cannot be saved inside an epoch.
        """
        return None

    def restore(self, state: ProgramState) -> None:
        """Go on from what :meth:`state` gave, after :meth:`begin_epoch` with the minibatches done by then.

        Only programs that have a state are asked.
        """
        raise NotImplementedError

    def memory(self) -> int:
        """Bytes that this program holds beside the parameter store."""
        return 0

    def remarks(self) -> Sequence[str]:
        """Lines for the log when training has ended: what the engine has to say of this program."""
        return ()


def no_gradients(program: Program) -> UnsupportedError:
    """What is raised where a program computes no gradients but those of training."""
    return UnsupportedError(f"{type(program).__name__} computes the gradients of training alone")


class ExecutionEngine(Component):
    """Makes programs. Made as ``Engine(options)``; its fields are read from the configuration (``numCPUThreads``).

    Attributes:
        priority: ``engine = auto`` takes the engine with the highest one that can run here; 0 is taken where there is
            nothing better, the processor's own engine has 10, and one for a GPU that may be taken unasked has 20.
        kernels: kernels for this engine from elsewhere, which the run finds and sets before it compiles anything. The
            first that does a node's op is taken, then the engine's own, then the op's own functions.
    """

    kernels: Sequence[Kernel] = ()
    priority: ClassVar[int] = 0

    def __init__(self, options: Any = None) -> None:
        self.settings = options if options is not None else type(self).options()

    @classmethod
    def devices(cls) -> tuple[int, ...]:
        """Return the numbers of the devices (``deviceId``) that it can compute on here; none for the processor.

        Must not raise. What it computes on is its own to decide; an engine with devices reads the key ``deviceId``.
        """
        return ()

    def on_host(self, plan: Plan) -> Collection[AnyStep]:
        """Return the steps of a plan that it computes on the host, between others on its device; by default none.

        Nothing is compiled, and no device is needed: ``cntk explain`` marks them.
        """
        return ()

    @abstractmethod
    def compile(self, plan: Plan, store: ParameterStore, rule: UpdateRule | None = None, *, seed: int = 0) -> Program:
        """Make a program of a plan. ``rule`` is given for training; ``seed`` keys its random streams."""
