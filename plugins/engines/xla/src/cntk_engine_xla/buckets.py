"""Sizes to which arrays are padded, so that minibatches of any sizes need few compilations."""

from __future__ import annotations


def bucket(count: int) -> int:
    """Return the smallest size, not below a number, of the series 0, 1, ..., 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, ...

    Four sizes for each doubling: at most a fifth of the rows is padding, and powers of two have none. It depends on the
    number alone, so that a resumed run does the same sums.
    """
    if count <= 8:
        return count
    step = 1 << ((count - 1).bit_length() - 3)
    return -(-count // step) * step
