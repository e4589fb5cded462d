"""Prepare the next items of an iterator in a background thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")


class Prefetcher(Iterator[T], Generic[T]):
    """An iterator whose items are made ahead of time, in order.

    Items are the same for every depth. An exception of the source appears at the place where its item would be. The
    thread ends with the items, with :meth:`close`, or when nobody holds the iterator any more.

    Args:
        make: makes the source; it is called, and its items are made, in the thread.
        depth: how many items are prepared at most.

    Attributes:
        thread: the thread that prepares the items.
    """

    def __init__(self, make: Callable[[], Iterator[T]], depth: int) -> None:
        self._shared = _Shared[T](max(depth, 1))
        # The thread must not hold this object, or it would never be collected.
        self.thread = threading.Thread(target=_work, args=(make, self._shared), name="cntk-prefetch", daemon=True)
        self.thread.start()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        shared = self._shared
        with shared.changed:
            while not shared.items and not shared.finished:
                shared.changed.wait()
            if shared.items:
                item = shared.items.popleft()
                # Waking the thread for several items at once costs less than for each.
                if len(shared.items) <= shared.depth // 2:
                    shared.changed.notify_all()
                return item
            error, shared.error = shared.error, None
        self.thread.join()
        if error is not None:
            raise error
        raise StopIteration

    def close(self) -> None:
        """End the thread and forget what it prepared. May be called more than once."""
        self._shared.stop()
        self.thread.join()

    def __enter__(self) -> Prefetcher[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self._shared.stop()


class _Shared(Generic[T]):
    """What the thread and its user share."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.items: deque[T] = deque()
        self.changed = threading.Condition()
        self.stopped = False
        self.finished = False
        self.error: BaseException | None = None

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.finished = True
            self.items.clear()
            self.error = None
            self.changed.notify_all()

    def put(self, item: T) -> bool:
        """Add an item when there is room; False if nobody wants it."""
        with self.changed:
            while len(self.items) >= self.depth and not self.stopped:
                self.changed.wait()
            if self.stopped:
                return False
            self.items.append(item)
            self.changed.notify_all()
            return True

    def finish(self, error: BaseException | None) -> None:
        with self.changed:
            if not self.stopped:
                self.error = error
            self.finished = True
            self.changed.notify_all()


def _work(make: Callable[[], Iterator[T]], shared: _Shared[T]) -> None:
    error: BaseException | None = None
    try:
        for item in make():
            if not shared.put(item):
                break
    except BaseException as problem:
        error = problem
    shared.finish(error)
