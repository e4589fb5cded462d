"""Choosing the kernels: compiled ones where there is a compiler, else those with NumPy. Both give the same bits."""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cntk_parallel_onebit import portable
from cntk_parallel_onebit.format import Blocks, Words, word_type

Array = NDArray[Any]


class Kernels(Protocol):
    """What ``portable`` and ``compiled`` have."""

    def quantize(
        self,
        gradients: Array,
        residual: Array,
        words: Words,
        scales: Array,
        blocks: Blocks,
        bits: int,
        by_sign: bool,
        /,
    ) -> None:
        """See ``portable``."""

    def unquantize(
        self, words: Words, scales: Array, gradients: Array, blocks: Blocks, bits: int, add: bool, /
    ) -> None:
        """See ``portable``."""


@cache
def kernels() -> Kernels:
    """Return the fastest kernels that can run here."""
    from cntk_core.api.engines import can_compile

    if not can_compile():
        return portable
    from cntk_parallel_onebit import compiled

    return compiled


def prepare(dtype: Any) -> None:
    """Have the kernels compiled for a type, or taken from the disk, before it counts."""
    words = np.zeros(1, word_type(dtype))
    nothing, none = np.zeros(1, dtype), np.zeros((0, 5), np.int64)
    kernels().quantize(nothing, nothing.copy(), words, words.view(dtype), none, 1, True)
    kernels().unquantize(words, words.view(dtype), nothing, none, 1, False)
