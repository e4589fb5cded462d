"""Streams, events and graphs of the stand-in.

Work on a stream of its own waits in a queue until somebody synchronises with it, so that a missing event shows each
time. Where ranks are threads that wait for each other on their GPUs, streams have threads, too (``background``). Work
on the default stream is done at once.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar
from weakref import WeakSet, WeakValueDictionary

import attrs

Work = Callable[[], object]

PATIENCE = 60.0
"""Seconds after which a stream that does nothing is taken for stuck."""

NOT_PERMITTED = "cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing"


launched: Counter[str] = Counter()
"""How often what was launched: ``graph``, ``gemm``, ``fill``, and kernels outside of graphs by their names."""


class CudaError(RuntimeError):
    """What a GPU or its runtime would refuse."""


@attrs.define(eq=False)
class Graph:
    """What a stream has captured.

    Attributes:
        work: what it does.
        kept: the arrays of it.
    """

    work: list[Work]
    kept: list[Any]

    def launch(self, stream: Stream | None = None) -> None:
        """Do it all on a stream."""
        target = stream or current_stream()
        launched["graph"] += 1
        for each in self.work:
            target.add(each, self.kept)

    def upload(self, stream: Stream | None = None) -> None:
        """Nothing has to go anywhere."""


class Stream:
    """A queue of work.

    Attributes:
        ptr: its number; that of the default stream is 0.
        by_pointer: all streams that are in use.
        background: work is done by a thread, as soon as it can be.
    """

    background: ClassVar[bool] = False
    by_pointer: ClassVar[WeakValueDictionary[int, Stream]] = WeakValueDictionary()
    _numbers = itertools.count(1)

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False) -> None:
        self.non_blocking = non_blocking
        self.ptr = 0 if null else next(self._numbers)
        self.by_pointer[self.ptr] = self
        self._queue: deque[tuple[Work, Sequence[Any]]] = deque()
        self._lock = threading.Lock()
        self._is_running = False
        self._captured: Graph | None = None
        self._before: list[Stream | None] = []
        _streams.add(self)

    def __enter__(self) -> Stream:
        self._before.append(_here.stream)
        _here.stream = self
        return self

    def __exit__(self, *exception: object) -> None:
        _here.stream = self._before.pop()

    def use(self) -> Stream:
        """Make it the current stream."""
        _here.stream = self
        return self

    # -- work ---------------------------------------------------------------------------------------------

    def add(self, work: Work, kept: Sequence[Any] = ()) -> None:
        """Put work behind what is there, or into the graph that is captured.

        Args:
            work: what to do.
            kept: what it needs: memory that is freed meanwhile is not given to others before the work is done.
        """
        if self._captured is not None:
            self._captured.work.append(work)
            self._captured.kept.extend(kept)
        elif self.ptr == 0:
            work()
        elif not self.background:
            self._queue.append((work, kept))
        else:
            with self._lock:
                self._queue.append((work, kept))
                if not self._is_running:
                    self._is_running = True
                    threading.Thread(target=self._run, name="stream", daemon=True).start()

    submit = add

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._is_running = False
                    return
                work, _ = self._queue.popleft()
            work()

    def step(self) -> None:
        """Do what stands first."""
        work, _ = self._queue.popleft()
        work()

    @property
    def waiting(self) -> int:
        """How much work waits."""
        return len(self._queue)

    def synchronize(self) -> None:
        """Wait until all is done."""
        if self.capturing:
            raise CudaError(NOT_PERMITTED)
        if self.background:
            if self._is_running:
                self.record().synchronize()
        else:
            while self._queue:
                self.step()

    # -- events -------------------------------------------------------------------------------------------

    def wait_event(self, event: Event) -> None:
        """Let what comes wait for an event."""
        self.add(event.waiter())

    def record(self, event: Event | None = None) -> Event:
        """Put an event behind what is in the queue."""
        made = event or Event()
        made.record(self)
        return made

    # -- graphs -------------------------------------------------------------------------------------------

    @property
    def capturing(self) -> bool:
        """Whether work goes into a graph."""
        return self._captured is not None

    def is_capturing(self) -> bool:
        """As CuPy's."""
        return self.capturing

    def begin_capture(self, mode: int | None = None) -> None:
        """Have a graph made of what comes."""
        if self.ptr == 0:
            raise CudaError("cudaErrorStreamCaptureUnsupported: the default stream cannot be captured")
        self._captured = Graph([], [])

    def end_capture(self) -> Graph:
        """Return the graph."""
        graph, self._captured = self._captured, None
        assert graph is not None, "nothing was captured"
        return graph


class Event:
    """A place in a queue; one that was never recorded has been reached."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self._stream: Stream | None = None
        self._reached = threading.Event()
        self._reached.set()

    def record(self, stream: Stream | None = None) -> None:
        """Stand behind what is in a queue."""
        target = self._stream = stream or current_stream()
        self._reached = threading.Event()
        target.add(self._reached.set)

    @property
    def done(self) -> bool:
        """Whether the queue has come so far."""
        return self._reached.is_set()

    def waiter(self) -> Work:
        """What waits for the place where the event stands now; it may be recorded anew before that."""
        stream, reached = self._stream, self._reached

        def wait() -> None:
            if stream is not None and not stream.background:
                while not reached.is_set():
                    stream.step()
            elif not reached.wait(PATIENCE):
                raise CudaError("a stream has been stuck for a minute")

        return wait

    def synchronize(self) -> None:
        """Wait until the queue has come so far."""
        self.waiter()()


class _Here(threading.local):
    device = 0
    stream: Stream | None = None


_here = _Here()
_streams: WeakSet[Stream] = WeakSet()
_NULL = Stream(null=True)


def current_stream() -> Stream:
    """The stream that work of this thread goes to."""
    return _here.stream or _NULL


def current_device() -> int:
    """The device of this thread."""
    return _here.device


def use_device(number: int) -> None:
    """Choose the device of this thread."""
    _here.device = number


def submit(work: Work, *kept: Any) -> None:
    """Do work on the current stream: it may be captured."""
    current_stream().add(work, kept)


def launch(name: str, work: Work, *kept: Any) -> None:
    """Do the work of a kernel or of a library on the current stream, and count it if no graph holds it."""
    stream = current_stream()
    if not stream.capturing:
        launched[name] += 1
    stream.add(work, kept)


def settle() -> None:
    """Do what waits in the current stream: somebody looks at a result, or CuPy computes one.

    Raises:
        CudaError: it is captured.
    """
    current_stream().synchronize()


def is_idle() -> bool:
    """Whether no stream has work that waits."""
    return not any(stream.waiting for stream in list(_streams))
