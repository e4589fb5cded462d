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
from cntk_reader_kaldi.token_file import TokenFile

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
    file = TokenFile.open(path, where)
    steps: list[Step] = []
    dims: list[int] = []
    while (name := file.name()) not in ("", "</Nnet>"):
        if name in ("<Nnet>", "<!EndOfComponent>"):
            continue
        read = _COMPONENTS.get(name)
        if read is None:
            known = ", ".join(one.strip("<>") for one in _COMPONENTS)
            hint = f"These are known: {known}. Write the transformed features to an archive with Kaldi's nnet-forward."
            raise file.wrong(f"the component {name} is not known here", hint)
        output, given = file.integer(), file.integer()
        if min(output, given) < 1 or (dims and dims[-1] != given):
            before = f", and the one before it gives {dims[-1]}" if dims else ""
            raise file.wrong(f"{name} takes {given} values and gives {output}{before}")
        dims += [output] if dims else [given, output]
        steps += read(file, output, given)
    if not steps:
        raise file.wrong("there are no components")
    return Transform(dims[0], dims[-1], tuple(steps))


def _read_splice(file: TokenFile, output: int, given: int) -> list[Step]:
    offsets = file.integers()
    if len(offsets) * given != output:
        raise file.wrong(f"<Splice> has {len(offsets)} offsets, but makes {output} values out of {given}")
    return [_Pick(np.array(offsets, dtype=np.int64))]


def _read_copy(file: TokenFile, output: int, given: int) -> list[Step]:
    places = file.integers()
    if len(places) != output or not all(1 <= place <= given for place in places):
        raise file.wrong(f"<Copy> must name {output} values from 1 to {given}")
    return [_Columns(np.array(places, dtype=np.int64) - 1)]


def _read_shift(file: TokenFile, output: int, given: int) -> list[Step]:
    file.skip_named_numbers()
    return [_Add(file.array(_same(file, output, given)))]


def _read_scale(file: TokenFile, output: int, given: int) -> list[Step]:
    file.skip_named_numbers()
    return [_Scale(file.array(_same(file, output, given)))]


def _read_linear(file: TokenFile, output: int, given: int) -> list[Step]:
    file.skip_named_numbers()
    return [_Times(file.array(output, given))]


def _read_affine(file: TokenFile, output: int, given: int) -> list[Step]:
    return [*_read_linear(file, output, given), _Add(file.array(output))]


def _each(function: Callable[[Frames], Frames]) -> Callable[[TokenFile, int, int], list[Step]]:
    def read(file: TokenFile, output: int, given: int) -> list[Step]:
        _same(file, output, given)
        return [_Each(function)]

    return read


def _same(file: TokenFile, output: int, given: int) -> int:
    if output != given:
        raise file.wrong(f"the component takes {given} values and gives {output}: they should be equally many")
    return output


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


_COMPONENTS: Mapping[str, Callable[[TokenFile, int, int], list[Step]]] = {
    "<Splice>": _read_splice,
    "<Copy>": _read_copy,
    "<AddShift>": _read_shift,
    "<Rescale>": _read_scale,
    "<AffineTransform>": _read_affine,
    "<LinearTransform>": _read_linear,
    "<Sigmoid>": _each(_sigmoid),
    "<Tanh>": _each(np.tanh),
    "<Softmax>": _each(_softmax),
    "<LengthNormComponent>": _each(_to_length_one),
}


def transform_of(path: Path | None, where: Location) -> Transform | None:
    """Read a transform, if there is one; see :func:`read_transform`. Its place is that of the recipe."""
    if path is None:
        return None
    try:
        return read_transform(path, where)
    except DataError as error:
        raise DataError(error.message, where=error.where or where, hint=error.hint) from None
