"""featureTransform: what becomes of the frames of a table, as a file of Kaldi's nnet1 says.

The components are those of K. Vesely's nnet1. Frames before the first and behind the last are that frame.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Location
from cntk_reader_kaldi.nnet1_components import Component, read_components

Frames = NDArray[Any]


class Step(ABC):
    """One component of a transform."""

    @abstractmethod
    def apply(self, frames: Frames) -> Frames:
        """Return what becomes of the frames ``(frames, values)`` of one utterance, in their precision."""


@attrs.frozen(eq=False)
class Transform:
    """Components, one after the other.

    Attributes:
        input_dim: values of a frame of the table.
        output_dim: values of a frame after it.
        steps: the components.
    """

    input_dim: int
    output_dim: int
    steps: tuple[Step, ...]

    def apply(self, frames: Frames) -> Frames:
        """Return what becomes of the frames ``(frames, input_dim)`` of one utterance: ``(frames, output_dim)``."""
        for step in self.steps:
            frames = step.apply(frames)
        return frames


@attrs.frozen(eq=False)
class _Pick(Step):
    """Frames around each frame, one after the other."""

    offsets: NDArray[np.int64]

    def apply(self, frames: Frames) -> Frames:
        places = np.clip(np.arange(len(frames))[:, None] + self.offsets, 0, len(frames) - 1)
        found: Frames = frames[places].reshape(len(frames), -1)
        return found


@attrs.frozen(eq=False)
class _Columns(Step):
    places: NDArray[np.int64]

    def apply(self, frames: Frames) -> Frames:
        found: Frames = frames[:, self.places]
        return found


@attrs.frozen(eq=False)
class _Add(Step):
    values: NDArray[np.float64]

    def apply(self, frames: Frames) -> Frames:
        found: Frames = frames + self.values.astype(frames.dtype)
        return found


@attrs.frozen(eq=False)
class _Scale(Step):
    values: NDArray[np.float64]

    def apply(self, frames: Frames) -> Frames:
        found: Frames = frames * self.values.astype(frames.dtype)
        return found


@attrs.frozen(eq=False)
class _Times(Step):
    """The weights are ``(output, input)``."""

    weights: NDArray[np.float64]

    def apply(self, frames: Frames) -> Frames:
        found: Frames = frames @ self.weights.astype(frames.dtype).T
        return found


@attrs.frozen(eq=False)
class _Each(Step):
    function: Callable[[Frames], Frames]

    def apply(self, frames: Frames) -> Frames:
        return self.function(frames)


def read_transform(path: Path, where: Location) -> Transform:
    """Read a file of Kaldi's nnet1.

    Raises:
        DataError: it cannot be read, or has a component that is no transform of features.
    """
    found = read_components(path, where, _STEPS, _UNKNOWN)
    steps = [step for one in found for step in _STEPS[one.kind](one)]
    return Transform(found[0].given, found[-1].output, tuple(steps))


def _sigmoid(frames: Frames) -> Frames:
    with np.errstate(over="ignore"):  # exp of a large number is infinite, and its inverse 0
        found: Frames = 1 / (1 + np.exp(-frames))
    return found


def _softmax(frames: Frames) -> Frames:
    powers = np.exp(frames - frames.max(axis=1, keepdims=True))
    found: Frames = powers / powers.sum(axis=1, keepdims=True)
    return found


def _to_length_one(frames: Frames) -> Frames:
    lengths = np.linalg.norm(frames, axis=1, keepdims=True)
    found: Frames = frames / np.where(lengths == 0, 1, lengths).astype(frames.dtype)
    return found


_STEPS: Mapping[str, Callable[[Component], list[Step]]] = {
    "Splice": lambda one: [_Pick(np.array(one.places, dtype=np.int64))],
    "Copy": lambda one: [_Columns(np.array(one.places, dtype=np.int64))],
    "AddShift": lambda one: [_Add(one.arrays["values"])],
    "Rescale": lambda one: [_Scale(one.arrays["values"])],
    "AffineTransform": lambda one: [_Times(one.arrays["W"]), _Add(one.arrays["b"])],
    "LinearTransform": lambda one: [_Times(one.arrays["W"])],
    "Sigmoid": lambda one: [_Each(_sigmoid)],
    "Tanh": lambda one: [_Each(np.tanh)],
    "Softmax": lambda one: [_Each(_softmax)],
    "LengthNormComponent": lambda one: [_Each(_to_length_one)],
}
_UNKNOWN = "Write the transformed features to an archive with Kaldi's nnet-forward."


def transform_of(path: Path | None, where: Location) -> Transform | None:
    """Read a transform, if there is one; see :func:`read_transform`. Its place is that of the recipe."""
    if path is None:
        return None
    try:
        return read_transform(path, where)
    except DataError as error:
        raise DataError(error.message, where=error.where or where, hint=error.hint) from None
