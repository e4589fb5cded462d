"""Random numbers as the original draws them on the CPU for the first values of parameters.

A 64-bit Mersenne Twister feeds ``uniform_real_distribution`` and ``normal_distribution`` of Boost 1.60, the version
that CNTK 2.0 was built with. All arithmetic is done in the precision of the parameter, as there. The normal
distribution is a ziggurat of 128 layers (G. Marsaglia and W. W. Tsang, "The Ziggurat Method for Generating Random
Variables", Journal of Statistical Software 5 (2000)), of which each draw takes one word: the lowest bit is the sign,
the next seven are the layer, the others the place in it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.ops.families.mersenne_twister import MersenneTwister64, Words

_BLOCKS = 64
"""States of the generator per step: small enough to stay in the cache, large enough for NumPy."""
_LAYERS = 128
_UNIT = 2.0**-64
Floats = NDArray[Any]


def fill_uniform(values: Floats, low: float, high: float, seed: int) -> None:
    """Fill an array in memory order with numbers from [low, high)."""
    number = values.dtype.type
    low, high = number(low), number(high)
    flat = values.reshape(-1)

    def draw(words: Words) -> tuple[Floats, int]:
        numbers = words.astype(values.dtype)
        numbers *= number(_UNIT)
        numbers *= high - low
        numbers += low
        return numbers[numbers < high], len(words)

    _fill(flat, seed, draw)


def fill_normal(values: Floats, deviation: float, seed: int, limit: float | None = None) -> None:
    """Fill an array in memory order with numbers of mean 0; those beyond ``limit`` deviations are drawn again."""
    number = values.dtype.type
    scale = number(deviation)
    bound = math.inf if limit is None else number(limit) * scale
    ziggurat = _ziggurat(values.dtype.char)

    def draw(words: Words) -> tuple[Floats, int]:
        numbers, used = ziggurat.draw(words)
        numbers *= scale
        return numbers if limit is None else numbers[np.abs(numbers) <= bound], used

    _fill(values.reshape(-1), seed, draw)


def _fill(flat: Floats, seed: int, draw: Callable[[Words], tuple[Floats, int]]) -> None:
    """Fill with what ``draw`` makes of the words of a seed: the numbers and how many words they took."""
    twister = MersenneTwister64(seed)
    words = np.empty(0, np.uint64)
    filled = 0
    while filled < flat.size:
        count = min(_BLOCKS, (flat.size - filled) // 300 + 1)
        words = np.concatenate([words, twister.blocks(count)])
        numbers, used = draw(words)
        numbers = numbers[: flat.size - filled]
        flat[filled : filled + numbers.size] = numbers
        filled += numbers.size
        words = words[used:]


class RandomStream:
    """Numbers of a seed that go on from call to call, as those of one node of the original.

    Args:
        seed: of the generator.
        used: so many of its words were taken before.

    Attributes:
        seed: as above.
        used: how many words were taken.
    """

    def __init__(self, seed: int, used: int = 0) -> None:
        self.seed = seed
        self._twister = MersenneTwister64(seed)
        self._words = np.empty(0, np.uint64)
        self.used = 0
        while used > self.used:
            self._more(used)
            self._drop(min(used - self.used, self._words.size))

    def uniform(self, count: int, dtype: Any, low: float, high: float) -> Floats:
        """Return the next numbers from [low, high)."""
        real = np.dtype(dtype).type
        first, last = real(low), real(high)

        def draw(words: Words) -> tuple[Floats, NDArray[np.intp]]:
            numbers = words.astype(dtype) * real(_UNIT) * (last - first) + first
            return numbers[numbers < last], np.flatnonzero(numbers < last)

        return self._draw(count, dtype, draw)

    def normal(self, count: int, dtype: Any, mean: float, deviation: float) -> Floats:
        """Return the next numbers of a normal distribution; an odd one leaves one out, as there."""
        real = np.dtype(dtype).type
        found = self._draw(count + count % 2, dtype, _ziggurat(np.dtype(dtype).char).located)
        found = found[:count]
        found *= real(deviation)
        found += real(mean)
        return found

    def _draw(self, count: int, dtype: Any, draw: Callable[[Words], tuple[Floats, NDArray[np.intp]]]) -> Floats:
        parts: list[Floats] = [np.empty(0, dtype)]
        left = count
        while left:
            numbers, places = draw(self._words)
            take = min(left, numbers.size)
            if not take:
                self._more(left)
                continue
            parts.append(numbers[:take])
            left -= take
            start = length = int(places[take - 1])
            while not draw(self._words[start : length + 1])[0].size:  # how many words the last one took
                length += 1
            self._drop(length + 1)
        return np.concatenate(parts)

    def _more(self, count: int) -> None:
        blocks = min(_BLOCKS, count // 300 + 1)
        self._words = np.concatenate([self._words, self._twister.blocks(blocks)])

    def _drop(self, count: int) -> None:
        self._words = self._words[count:]
        self.used += count


TAIL = Decimal("3.442619855896652121424320491467339704337")
"""Where the tail starts: for this the topmost layer ends at the height 1. Finding it takes ten times as long."""


@functools.cache
def ziggurat_tables() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the widths and the heights of the layers' edges, 129 each, exact to the last bit.

    All layers have the area that the lowest one has with its tail; ``width[0]`` is that area over the height of the
    lowest one, ``width[1]`` where the tail begins.
    """
    with localcontext() as context:
        context.prec = 40
        widths, heights, _ = _edges(TAIL)
        return tuple(map(float, widths)), tuple(map(float, heights))


def _edges(tail: Decimal) -> tuple[list[Decimal], list[Decimal], Decimal]:
    """Return the edges for a start of the tail, and by how much the topmost layer misses the height 1."""
    foot = (-tail * tail / 2).exp()
    area = tail * foot + foot * _tail_area(tail)
    widths, heights = [area / foot, tail], [Decimal(0), foot]
    for _ in range(_LAYERS - 2):
        heights.append(heights[-1] + area / widths[-1])
        widths.append((-2 * heights[-1].ln()).sqrt())
    return [*widths, Decimal(0)], [*heights, Decimal(1)], heights[-1] + area / widths[-1] - 1


def _tail_area(start: Decimal) -> Decimal:
    """Return the area of exp(-x^2 / 2) beyond ``start`` over its value there: Laplace's continued fraction."""
    fraction = start
    for step in range(400, 0, -1):
        fraction = start + step / fraction
    return 1 / fraction


@functools.cache
def _ziggurat(char: str) -> _Ziggurat:
    widths, heights = ziggurat_tables()
    return _Ziggurat(np.dtype(char), np.array(widths), np.array(heights))


class _TooFewWords(Exception):
    """A draw needs more words than there are."""


@attrs.frozen(eq=False)
class _Ziggurat:
    """Draws normal numbers in one precision. Draws that end inside of their layer (98.8 %) are made all at once."""

    dtype: np.dtype[Any]
    widths: NDArray[np.float64]
    heights: NDArray[np.float64]

    def draw(self, words: Words) -> tuple[Floats, int]:
        """Return the numbers of as many draws as the words are enough for, and how many words they took."""
        numbers, counts = self._drawn(words)
        return numbers[counts], len(counts)

    def located(self, words: Words) -> tuple[Floats, NDArray[np.intp]]:
        """Return the numbers of as many draws as the words are enough for, and the place of the first word of each."""
        numbers, counts = self._drawn(words)
        return numbers[counts], np.flatnonzero(counts)

    def _drawn(self, words: Words) -> tuple[Floats, NDArray[np.bool_]]:
        """Return a number for each word that the draws take, and whether it is that of a draw."""
        numbers, layers, signs = self._read(words)
        outside = np.flatnonzero(numbers >= self.widths[layers + 1])
        verdicts = self._verdicts(words, outside, numbers, layers)
        counts = np.ones(len(words), bool)
        end, free = len(words), 0
        for place, under in zip(outside.tolist(), verdicts.tolist(), strict=True):
            if place < free:
                continue
            if under >= 0:
                counts[place], counts[place + 1] = under, False
                free = place + 2
                continue
            try:
                number, free = self._outside(numbers[place], int(layers[place]), words, place + 1)
            except _TooFewWords:
                end = place
                break
            counts[place:free] = False
            if number is not None:
                counts[place] = True
                numbers[place] = number
        numbers *= signs
        return numbers[:end], counts[:end]

    def _verdicts(
        self, words: Words, places: NDArray[np.intp], numbers: Floats, layers: NDArray[np.intp]
    ) -> NDArray[np.int8]:
        """Return for each place whether the draw that begins there is under the curve: 1, 0, or -1 for not decided."""
        number, layer = numbers[places], layers[places]
        parts = words[np.minimum(places + 1, len(words) - 1)].astype(self.dtype) * self.dtype.type(_UNIT)
        verdicts: NDArray[np.int8] = self._under_curve(number, layer, parts).astype(np.int8)
        verdicts[(layer == 0) | (parts >= 1) | (places + 1 == len(words))] = -1
        return verdicts

    def _under_curve(self, number: Any, layer: Any, part: Any) -> Any:
        """Tell whether the height ``part`` of a layer (0 to 1) is under the curve at ``number``."""
        heights = self.heights.astype(self.dtype)[layer]
        rises = np.diff(self.heights).astype(self.dtype)[layer]
        return heights + part * rises < np.exp((-number * number / 2).astype(np.float64)).astype(self.dtype)

    def _read(self, words: Words) -> tuple[Floats, NDArray[np.intp], Floats]:
        """Return what each word gives if a draw begins with it: a number, its layer and its sign."""
        unused = np.uint64(64 - (np.finfo(self.dtype).nmant + 1))
        numbers = (words & ~(np.uint64(1) << unused)) >> np.uint64(8)  # Boost clears this one bit, and no other
        layers = (words >> np.uint64(1) & np.uint64(_LAYERS - 1)).astype(np.intp)
        signs = (words & np.uint64(1)).astype(self.dtype) * 2 - 1
        scaled = numbers.astype(self.dtype) * self.dtype.type(2.0**-56)
        return scaled * self.widths.astype(self.dtype)[layers], layers, signs

    def _outside(self, number: Any, layer: int, words: Words, place: int) -> tuple[Any, int]:
        """End a draw in the tail, or where the layer reaches over the curve.

        Returns:
            The number, None if it lies above the curve, and the place of the word after those that were taken.

        Raises:
            _TooFewWords: the words end before the draw does.
        """
        if layer == 0:
            return self._tail(words, place)
        part, place = self._unit(words, place)
        return number if self._under_curve(number, layer, part) else None, place

    def _tail(self, words: Words, place: int) -> tuple[Any, int]:
        start = self.dtype.type(self.widths[1])
        while True:
            beyond, place = self._exponential(words, place)
            other, place = self._exponential(words, place)
            beyond = beyond / start
            if 2 * other > beyond * beyond:
                return beyond + start, place

    def _exponential(self, words: Words, place: int) -> tuple[Any, int]:
        part, place = self._unit(words, place)
        return -self.dtype.type(math.log(1 - part)), place

    def _unit(self, words: Words, place: int) -> tuple[Any, int]:
        """Return a number from [0, 1)."""
        real = self.dtype.type
        while place < len(words):
            part = real(words[place]) * real(_UNIT)
            place += 1
            if part < 1:
                return part, place
        raise _TooFewWords
