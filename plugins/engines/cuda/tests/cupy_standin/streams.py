"""Streams, events, graphs and memory of the stand-in.

Work on a stream of its own waits in a queue until somebody synchronises with it, so that a missing event shows. Work
on the default stream is done at once, after that of all other streams that it waits for.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import attrs

NOT_PERMITTED = "cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing"


class CUDARuntimeError(RuntimeError):
    """An error of the runtime."""


@attrs.define(eq=False)
class Graph:
    """What a stream has captured."""

    work: list[Callable[[], None]]
    kept: list[Any]

    def launch(self, stream: Stream | None = None) -> None:
        """Do it all on a stream."""
        target = stream or get_current_stream()
        for each in self.work:
            target.add(each)

    def upload(self, stream: Stream | None = None) -> None:
        """Nothing has to go anywhere."""


class Stream:
    """A queue of work."""

    null: Stream

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False) -> None:
        self.non_blocking = non_blocking
        self.ptr = 0 if null else id(self)
        self._queue: list[Callable[[], None]] = []
        self._captured: list[Callable[[], None]] | None = None
        self._kept: list[Any] = []
        self._before: list[Stream] = []

    def __enter__(self) -> Stream:
        self._before.append(get_current_stream())
        _state.current = self
        return self

    def __exit__(self, *exception: object) -> None:
        _state.current = self._before.pop()

    def use(self) -> Stream:
        """Make it the current stream."""
        _state.current = self
        return self

    def add(self, work: Callable[[], None], kept: Sequence[Any] = ()) -> None:
        """Put work into the queue, or into the graph that is captured."""
        if self._captured is not None:
            self._captured.append(work)
            self._kept.extend(kept)
        else:
            # Memory that is freed meanwhile is not given to others before the work is done.
            self._queue.append(functools.partial(_do, work, kept))

    @property
    def capturing(self) -> bool:
        """Whether work goes into a graph."""
        return self._captured is not None

    def is_capturing(self) -> bool:
        """As CuPy's."""
        return self.capturing

    def drain(self) -> None:
        """Do what waits."""
        while self._queue:
            self._queue.pop(0)()

    def synchronize(self) -> None:
        """Wait until all is done."""
        if self.capturing:
            raise CUDARuntimeError(NOT_PERMITTED)
        self.drain()

    def wait_event(self, event: Event) -> None:
        """Let what comes wait for an event."""
        self.add(event.waiter())

    def record(self, event: Event | None = None) -> Event:
        """Put an event behind what is in the queue."""
        made = event or Event()
        made.record(self)
        return made

    def begin_capture(self, mode: int | None = None) -> None:
        """Have a graph made of what comes."""
        if self.ptr == 0:
            raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported: the default stream cannot be captured")
        self._captured = []
        self._kept = []

    def end_capture(self) -> Graph:
        """Return the graph."""
        assert self._captured is not None
        graph = Graph(self._captured, self._kept)
        self._captured = None
        return graph


def _do(work: Callable[[], None], kept: Sequence[Any]) -> None:
    work()


class Event:
    """A place in a queue."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self._stream: Stream | None = None
        self._marker = [True]

    def record(self, stream: Stream | None = None) -> None:
        """Stand behind what is in a queue."""
        target = self._stream = stream or get_current_stream()
        marker = self._marker = [False]

        def reached() -> None:
            marker[0] = True

        target.add(reached)

    def waiter(self) -> Callable[[], None]:
        """What waits for the place where the event stands now; it may be recorded anew before that."""
        stream, marker = self._stream, self._marker

        def wait() -> None:
            while stream is not None and not marker[0]:
                stream._queue.pop(0)()

        return wait

    @property
    def done(self) -> bool:
        """Whether the queue has come so far."""
        return self._marker[0]

    def synchronize(self) -> None:
        """Wait until the queue has come so far."""
        self.waiter()()


class _State(threading.local):
    current: Stream | None = None


_state = _State()
Stream.null = Stream(null=True)


def get_current_stream() -> Stream:
    """The stream that work goes to."""
    return _state.current or Stream.null


def submit(work: Callable[[], None], *kept: Any) -> None:
    """Do work on the current stream: it may be captured."""
    get_current_stream().add(work, kept)


def settle() -> None:
    """Do what waits in the current stream: somebody looks at a result, or CuPy computes one."""
    stream = get_current_stream()
    if stream.capturing:
        raise CUDARuntimeError(NOT_PERMITTED)
    stream.drain()
