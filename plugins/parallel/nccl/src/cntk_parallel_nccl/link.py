"""The connection between GPUs: NCCL's communicator of some ranks, with a stream and a deadline for everything on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import attrs
import numpy as np

from cntk_core.api import RankGone, RankMissing, TrainingError
from cntk_core.api.parallel import Watch
from cntk_parallel_nccl.guard import PERIOD, Background, Guard

SPINS = 200
"""Looks without a pause; most operations take less."""

LONGEST_PAUSE = 0.001

CONNECTING = "connecting the GPUs"

CHECK_EVERY = 0.5
"""Seconds between two questions to NCCL whether a connection is broken."""


@attrs.frozen
class Place:
    """Bytes on the GPU.

    Attributes:
        pointer: where they begin.
        size: how many there are.
    """

    pointer: int
    size: int


class Link:
    """What is sent between the GPUs of some ranks. All of them make it, and do everything on it, together.

    Args:
        cupy, nccl: the modules. This rank's GPU is the current one.
        identity: NCCL's unique id, the same on all ranks.
        rank, size: this rank and how many there are.
        failure: says why nothing can come any more; empty while all is well.

    Raises:
        RankGone: a rank has failed meanwhile.
        RankMissing: it took longer than the deadline.
        TrainingError: NCCL does not connect the GPUs.
    """

    def __init__(
        self,
        cupy: Any,
        nccl: Any,
        identity: tuple[int, ...],
        rank: int,
        size: int,
        failure: Callable[[], str],
        watch: Watch,
    ) -> None:
        self._cupy, self._nccl, self._rank = cupy, nccl, rank
        self.stream = cupy.cuda.Stream(non_blocking=True)
        begun = time.monotonic()
        connecting = Background(lambda: nccl.NcclCommunicator(size, identity, rank), cupy.cuda.Device())
        while not connecting.is_over(PERIOD):  # NCCL itself waits for ever, and there is nothing yet to abort
            waited = time.monotonic() - begun
            if failure():
                raise RankGone(failure())
            if waited >= watch.deadline:
                raise self._late(waited, CONNECTING, watch)
        try:
            self._comm = connecting.result()
        except self._nccl.NcclError as error:
            raise self._failed(CONNECTING, error) from None
        self._guard = Guard(self._comm.abort, failure)

    # -- what can be put on the stream, inside of `do` ------------------------------------------------------

    def exchange(self, sends: Iterable[tuple[int, Place]], receives: Iterable[tuple[int, Place]]) -> None:
        """Send bytes to ranks and receive bytes from ranks, all at once. Nothing is sent of places without bytes."""
        kind, stream = self._nccl.NCCL_UINT8, self.stream.ptr
        self._nccl.groupStart()
        try:
            for to, place in sends:
                if place.size:
                    self._comm.send(place.pointer, place.size, kind, to, stream)
            for source, place in receives:
                if place.size:
                    self._comm.recv(place.pointer, place.size, kind, source, stream)
        finally:
            self._nccl.groupEnd()

    def broadcast(self, place: Place, root: int) -> None:
        """Overwrite bytes with those of a rank."""
        kind = self._nccl.NCCL_UINT8
        self._comm.broadcast(place.pointer, place.pointer, place.size, kind, root, self.stream.ptr)

    def sums(self, dtype: Any) -> bool:
        """Whether NCCL adds up numbers of a type."""
        return np.dtype(dtype).name in _TYPES

    def sum(self, place: Place, dtype: Any) -> None:
        """Sum numbers over all ranks in place, in the order that NCCL takes."""
        kind = getattr(self._nccl, _TYPES[np.dtype(dtype).name])
        count = place.size // np.dtype(dtype).itemsize
        self._comm.allReduce(place.pointer, place.pointer, count, kind, self._nccl.NCCL_SUM, self.stream.ptr)

    # -- doing it -----------------------------------------------------------------------------------------

    def do(self, work: Callable[[], None], watch: Watch, operation: str) -> None:
        """Put work on the stream, and wait until it is done. All ranks do it.

        Raises:
            RankGone: a rank has failed meanwhile.
            RankMissing: it took longer than the deadline.
            TrainingError: NCCL or CUDA has failed.
        """
        begun = time.monotonic()
        errors = (self._nccl.NcclError, self._cupy.cuda.runtime.CUDARuntimeError)
        with self._guard.during(watch.deadline):
            try:
                self._check(begun, watch, operation)
                with self.stream:
                    work()
                self._wait(self.stream.record(), begun, watch, operation)
            except errors as error:
                self._check(begun, watch, operation)
                self.abort()
                raise self._failed(operation, error) from None
        self._check(begun, watch, operation)

    def _wait(self, event: Any, begun: float, watch: Watch, operation: str) -> None:
        for _ in range(SPINS):
            if event.done:
                return
            time.sleep(0)
        pause, report_at, check_at = 2e-5, watch.report_after, CHECK_EVERY
        while not event.done:
            self._check(begun, watch, operation)
            time.sleep(pause)
            pause = min(1.5 * pause, LONGEST_PAUSE)
            waited = time.monotonic() - begun
            if waited >= check_at:
                check_at += CHECK_EVERY
                self._comm.check_async_error()
            if waited >= report_at:
                report_at += max(watch.report_after, 1.0)
                watch.say(f"Warning: {self._text(waited, operation, watch)}")

    def _check(self, begun: float, watch: Watch, operation: str) -> None:
        """Raise what the guard has ended the operation for, if it has."""
        if self._guard.is_late:
            raise self._late(time.monotonic() - begun, operation, watch)
        if self._guard.reason:
            raise RankGone(self._guard.reason)

    def _late(self, waited: float, operation: str, watch: Watch) -> RankMissing:
        return RankMissing(
            self._text(waited, operation, watch),
            hint="GPUs that are only slow need a longer communicationTimeout in parallelTrain; NCCL_DEBUG=INFO "
            "makes NCCL say how it connects them.",
        )

    def _text(self, waited: float, operation: str, watch: Watch) -> str:
        at = f" ({watch.doing})" if watch.doing else ""
        return f"rank {self._rank} has waited {waited:.0f} s in {operation}{at} for NCCL; all ranks have come to it"

    def _failed(self, operation: str, error: Exception) -> TrainingError:
        return TrainingError(
            f"rank {self._rank}: NCCL has failed in {operation}: {error}",
            hint="NCCL_DEBUG=INFO in the environment makes it say why.",
        )

    # -- the end ------------------------------------------------------------------------------------------

    def abort(self) -> None:
        """Give up what is under way. Nothing can be done any more."""
        self._guard.close()
        with suppress(self._nccl.NcclError):
            self._comm.abort()

    def close(self) -> None:
        """Let go of it, after the last operation."""
        self._guard.close()
        if not self._guard.reason:
            self._comm.destroy()


_TYPES = {
    "int8": "NCCL_INT8",
    "uint8": "NCCL_UINT8",
    "int32": "NCCL_INT32",
    "uint32": "NCCL_UINT32",
    "int64": "NCCL_INT64",
    "uint64": "NCCL_UINT64",
    "float16": "NCCL_FLOAT16",
    "float32": "NCCL_FLOAT32",
    "float64": "NCCL_FLOAT64",
}
"""NCCL's names of types."""
