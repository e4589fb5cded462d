"""What is known of the class of each frame: an alignment names one, a posterior some with weights, or none."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

_PAIR = np.dtype([("a", "u1"), ("class", "<i4"), ("b", "u1"), ("weight", "<f4")])
_ITEM = np.dtype([("lead", "u1"), ("class", "<i4")])
_LEAD = b"\4"
_CLASS = re.compile(rb"[0-9]{1,9}")
NUMBER = re.compile(rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|nan|inf)", re.IGNORECASE)
"""A number in text form."""

ReadBytes = Callable[[int, int], bytes]
"""``(offset, count) -> bytes``, fewer at the end of the file."""


@attrs.frozen(eq=False)
class Posterior:
    """The classes of the frames of an utterance.

    Attributes:
        counts: classes of each frame. Shape ``(frames,)``.
        classes: of all frames, one after the other. Shape ``(counts.sum(),)``.
        weights: of these classes, float64.
    """

    counts: NDArray[np.int64]
    classes: NDArray[np.int32]
    weights: NDArray[np.float64]

    @classmethod
    def of_alignment(cls, classes: NDArray[Any]) -> Posterior:
        """Return one class with weight 1 for each frame."""
        ones = np.ones(len(classes))
        return cls(np.ones(len(classes), dtype=np.int64), np.asarray(classes, dtype=np.int32), ones)

    def __len__(self) -> int:
        return len(self.counts)

    def part(self, first: int, last: int) -> Posterior:
        """Return some frames, the last one not included."""
        ends = np.concatenate([[0], np.cumsum(self.counts)])
        inside = slice(int(ends[first]), int(ends[last]))
        return Posterior(self.counts[first:last], self.classes[inside], self.weights[inside])

    def frame_of(self, place: int) -> int:
        """Return the frame of one of the classes."""
        return int(np.searchsorted(np.cumsum(self.counts), place, side="right"))

    def delayed(self, frames: int) -> Posterior:
        """Return the classes that many frames later; the first ones get those of the first frame."""
        if not frames:
            return self
        source = np.maximum(np.arange(len(self)) - frames, 0)
        starts = np.cumsum(self.counts) - self.counts
        counts = self.counts[source]
        places = np.repeat(starts[source] - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
        return Posterior(counts, self.classes[places], self.weights[places])

    def largest(self) -> Posterior:
        """Return the class with the largest weight of each frame, with weight 1; the first of several.

        What is no number is larger than all. A frame without classes has none.
        """
        starts = np.cumsum(self.counts) - self.counts
        kept = [
            int(begin + np.argmax(self.weights[begin : begin + n]))
            for begin, n in zip(starts, self.counts, strict=True)
            if n
        ]
        counts = np.minimum(self.counts, 1)
        return Posterior(counts, self.classes[kept], np.ones(len(kept)))


def read_alignment(read: ReadBytes, at: int, frames: int) -> tuple[Posterior, int] | None:
    """Read an alignment in binary form, and return it with the offset after it; None if the bytes are none.

    A posterior begins as an alignment does, and goes on behind as many numbers as it has frames; what comes after an
    alignment is the end of the file, or a key. (A posterior without any class has the bytes of an alignment of zeros.)

    Args:
        read: reads bytes of the file.
        at: where its first frame begins.
        frames: how many it has.
    """
    end = at + _ITEM.itemsize * frames
    raw = read(at, end - at)
    if len(raw) < end - at or read(end, 1) == _LEAD:
        return None
    items = np.frombuffer(raw, _ITEM)
    if (items["lead"] != _LEAD[0]).any():
        return None
    return Posterior.of_alignment(items["class"]), end


def read_binary(read: ReadBytes, at: int, size: int, frames: int) -> tuple[Posterior, int] | None:
    """Read a posterior in binary form, and return it with the offset after it; None if the bytes are none.

    Args:
        read: reads bytes of the file.
        at: where its first frame begins.
        size: bytes of the file.
        frames: how many it has.
    """
    counts = np.zeros(frames, dtype=np.int64)
    found: list[NDArray[Any]] = [np.zeros(0, dtype=_PAIR)]
    for frame in range(frames):
        head = read(at, 5)
        if len(head) < 5 or head[0] != 4:
            return None
        (count,) = struct.unpack_from("<i", head, 1)
        at += 5
        if not 0 <= count <= (size - at) // _PAIR.itemsize:
            return None
        pairs = np.frombuffer(read(at, _PAIR.itemsize * count), dtype=_PAIR)
        if (pairs["a"] != 4).any() or (pairs["b"] != 4).any():
            return None
        counts[frame] = count
        found.append(pairs)
        at += _PAIR.itemsize * count
    pairs = np.concatenate(found)
    return Posterior(counts, pairs["class"].astype(np.int32), pairs["weight"].astype(np.float64)), at


def read_text(line: bytes) -> Posterior:
    """Read an alignment, ``class class ...``, or a posterior, ``[ class weight ... ] [ ... ]``.

    Raises:
        ValueError: it is neither.
    """
    if b"[" not in line:
        return Posterior.of_alignment(np.array([_class(word) for word in line.split()], dtype=np.int32))
    before, *groups = line.split(b"[")
    if before.strip():
        raise ValueError("something stands before the first frame")
    counts, classes, weights = [], [], []
    for group in groups:
        inside, close, behind = group.partition(b"]")
        words = inside.split()
        if not close or behind.strip() or len(words) % 2:
            raise ValueError("this is no frame")
        counts.append(len(words) // 2)
        classes += [_class(word) for word in words[::2]]
        weights += [_weight(word) for word in words[1::2]]
    return Posterior(np.array(counts, dtype=np.int64), np.array(classes, dtype=np.int32), np.array(weights))


def _class(word: bytes) -> int:
    """Return the number of a class. Raises ValueError if it is none."""
    if _CLASS.fullmatch(word) is None:
        raise ValueError(word)
    return int(word)


def _weight(word: bytes) -> float:
    """Return a weight. Raises ValueError if it is none."""
    if NUMBER.fullmatch(word) is None:
        raise ValueError(word)
    return float(word)
