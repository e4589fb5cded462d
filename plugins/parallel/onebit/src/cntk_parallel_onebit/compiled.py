"""Quantizing and unquantizing columns, compiled; ``portable`` gives the same numbers without a compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api.engines import byte_loop
from cntk_parallel_onebit import format as layout
from cntk_parallel_onebit import loops
from cntk_parallel_onebit.format import LANES, Blocks, Words

Array = NDArray[Any]


def quantize(
    gradients: Array, residual: Array, words: Words, scales: Array, blocks: Blocks, bits: int, by_sign: bool
) -> None:
    """Write the records of all columns and leave in the residual what they do not say: see ``portable.quantize``."""
    signed = _signed(words)
    lanes = np.zeros(3 * LANES, residual.dtype)
    filled = np.zeros(blocks[:, 3].max(initial=1), signed.dtype)
    _loop("quantize", loops.QUANTIZE, scales, signed)(
        gradients, residual, signed, scales, blocks, bits, by_sign, 8 * words.itemsize, lanes, filled
    )


def unquantize(words: Words, scales: Array, gradients: Array, blocks: Blocks, bits: int, add: bool) -> None:
    """Write or add what the records of all columns stand for: see ``portable.unquantize``."""
    signed = _signed(words)
    _loop("unquantize", loops.UNQUANTIZE, scales, signed)(
        signed, scales, gradients, blocks, bits, add, 8 * words.itemsize
    )


def _signed(words: Words) -> Words:
    return words.view(f"i{words.itemsize}")


def _loop(name: str, signature: str, numbers: Array, words: Words) -> Any:
    return byte_loop(loops.__file__, name, signature.format(numbers=numbers.dtype, words=words.dtype), layout.__file__)
