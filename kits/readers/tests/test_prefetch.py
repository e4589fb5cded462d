from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from cntk_core.errors import DataError
from cntk_kit_readers.prefetch import Prefetcher


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "cntk-prefetch"]


@pytest.mark.parametrize("depth", [1, 2, 7, 100])
def test_same_items_for_every_depth(depth: int) -> None:
    assert list(Prefetcher(lambda: iter(range(50)), depth)) == list(range(50))
    assert threads() == []


def test_an_error_comes_in_its_place() -> None:
    def broken() -> Iterator[int]:
        yield 1
        yield 2
        raise DataError("row 3")

    items = Prefetcher(broken, 10)
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(DataError, match="row 3"):
        next(items)
    with pytest.raises(StopIteration):
        next(items)
    assert threads() == []


def test_close_ends_the_thread() -> None:
    def endless() -> Iterator[int]:
        while True:
            yield 0

    with Prefetcher(endless, 3) as items:
        assert next(items) == 0
        assert len(threads()) == 1
    assert threads() == []
    items.close()
    with pytest.raises(StopIteration):
        next(items)


def test_a_forgotten_iterator_ends_its_thread() -> None:
    def endless() -> Iterator[int]:
        while True:
            yield 0

    items = Prefetcher(endless, 3)
    thread = items.thread
    next(items)
    del items
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


def test_at_most_depth_items_ahead() -> None:
    made: list[int] = []
    room = threading.Event()

    def source() -> Iterator[int]:
        for i in range(20):
            made.append(i)
            if i == 4:
                room.set()
            yield i

    with Prefetcher(source, 4) as items:
        assert room.wait(60)
        assert next(items) == 0
        # One item is with the user, four are ready, and the thread may hold one more.
        assert len(made) <= 6
