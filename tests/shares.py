"""The order of tests: each worker begins with what is slow, so that none is busy with it when the others have ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def in_shares(tests: Sequence[T], workers: int, is_quick: Callable[[T], bool]) -> list[T]:
    """Order tests for workers that begin with parts of the same size, one behind the other in the list.

    xdist deals them out so (``--dist worksteal``); a worker that has done its part takes the last half of another's,
    which are quick ones.

    Args:
        tests: all of them, in the same order in each worker.
        workers: how many there are.
        is_quick: whether a test may be among the last ones.
    """
    slow = [test for test in tests if not is_quick(test)]
    quick = iter([test for test in tests if is_quick(test)])
    ordered: list[T] = []
    for worker in range(workers):
        own = slow[worker::workers]
        end = len(tests) * (worker + 1) // workers
        ordered += own
        ordered += [test for _, test in zip(range(end - len(ordered)), quick, strict=False)]
    return [*ordered, *quick]
