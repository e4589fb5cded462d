"""A group of one: a training without other ranks goes the same way as one with them, and exchanges nothing."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from cntk_core.contract.parallel import Array, Communicator, Message, Pending
from cntk_core.contract.reader import EpochSpec
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import TrainingError
from cntk_core.records.minibatch import Minibatch
from cntk_core.training.loop.ranks import Ranks

T = TypeVar("T")


class OneRank(Communicator):
    """The communicator of a rank without others."""

    requires_api = "1.0"

    def __init__(self) -> None:
        super().__init__()
        self._mail: deque[Message] = deque()

    def allreduce(self, array: Array) -> None:
        """Leave the array as it is."""

    def allgather(self, array: Array) -> list[Array]:
        """Return a copy of the array."""
        return [array.copy()]

    def alltoall(self, arrays: Sequence[Array]) -> list[Array]:
        """Return a copy of the array."""
        return [array.copy() for array in arrays]

    def broadcast(self, array: Array, root: int = 0) -> None:
        """Leave the array as it is."""

    def barrier(self) -> None:
        """Wait for nobody."""

    def split(self, color: int) -> Communicator:
        """Return another group of one."""
        return OneRank()

    def background(self, work: Callable[[Communicator], T]) -> Pending[T]:
        """Do the work at once."""
        return Pending(work(self))

    def send(self, array: Array, to: int, tag: int = 0) -> None:
        """Keep a copy for :meth:`receive`."""
        self._mail.append(Message(0, tag, array.copy()))

    def receive(self, source: int | None = None, tag: int | None = None) -> Message:
        """Return what was sent. Raises TrainingError if nothing was: there is nobody to wait for."""
        found = self.poll(source, tag)
        if found is None:
            raise TrainingError("there is no message, and no other rank that could send one")
        return found

    def poll(self, source: int | None = None, tag: int | None = None) -> Message | None:
        """Return what was sent first, if there is anything with this tag."""
        found = next((one for one in self._mail if tag in (None, one.tag)), None)
        if found is not None:
            self._mail.remove(found)
        return found

    def now(self) -> float:
        """Seconds since some instant."""
        return time.monotonic()

    def abort(self, reason: str) -> None:
        """End nobody else."""


@attrs.define(eq=False)
class Alone(Ranks):
    """One rank. It asks its communicator for nothing, copies nothing and leaves no mark in checkpoints."""

    communicator: Communicator = attrs.field(factory=OneRank)

    @property
    def distributed(self) -> bool:
        """The reader's minibatches are learned as they are."""
        return False

    @property
    def saves_inside(self) -> bool:
        """A checkpoint can be written after each minibatch."""
        return True

    def doing(self, what: str) -> None:
        """Nobody waits for this rank."""

    def spec(self, whole: EpochSpec) -> EpochSpec:
        """Return the whole."""
        return whole

    def shares(self, minibatches: Iterable[Minibatch]) -> Iterator[tuple[int, Minibatch | None]]:
        """Each minibatch is learned whole."""
        for minibatch in minibatches:
            yield minibatch.samples, minibatch

    def describe(self, epoch: int) -> str:
        """Return nothing: there is nothing to say."""
        return ""

    def first_text(self, text: str) -> str:
        """Return the text."""
        return text

    def agree(self, what: str, value: Any) -> None:
        """Agree with oneself."""

    def add(self, numbers: Sequence[float]) -> list[float]:
        """Return the numbers."""
        return list(numbers)

    def share_statistics(self, store: ParameterStore) -> None:
        """They are this rank's own."""

    def begin(self, store: ParameterStore, *, inside: bool = False) -> str:
        """Begin nothing."""
        return ""

    def remember(self, entries: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
        """Say so if the checkpoint is of several ranks; what they remember of each other is of no use."""
        before = int(entries.get("ranks", 1))
        return f"The checkpoint is of {before} ranks; training goes on with one." if before > 1 else ""

    def collect(self, own: Mapping[str, Array]) -> dict[str, Array]:
        """Return nothing: a checkpoint has the state of a single rank in its own places."""
        return {}
