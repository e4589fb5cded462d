"""Labels of utterances: one class, a class for each frame, or the tokens of a text for CTC."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import CntkError, DataError, Location, did_you_mean
from cntk_reader_audio.waves import read_lines

Form = Literal["category", "alignment", "ctc"]
Units = Literal["words", "characters"]
SPACE = "<space>"
"""What stands for a blank between words among the tokens of characters."""

_FORMS = {
    "category": "A line is the key of an utterance and its class.",
    "alignment": "A line is the key of an utterance and the class of each frame.",
    "ctc": "A line is the key of an utterance and its tokens.",
}


@attrs.frozen(eq=False)
class Labels:
    """The labels of a file.

    Attributes:
        form: what a line says.
        classes: key to the classes of its line.
        places: key to the line.
        errors: what is wrong with other lines.
    """

    form: Form
    classes: Mapping[str, NDArray[np.int32]]
    places: Mapping[str, Location]
    errors: tuple[CntkError, ...]

    def of_frames(self, key: str, frames: int, speed: float) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return the class of each frame of an utterance, and the value that stands there.

        The value is 1, and for CTC 2 where a token begins: its tokens share the frames evenly, since only their
        order counts.

        Raises:
            DataError: they do not fit.
        """
        classes, where = self.classes[key], self.places[key]
        values = np.ones(frames)
        if self.form == "category":
            return np.repeat(classes, frames), values
        if self.form == "alignment":
            if speed == 1 and len(classes) != frames:
                text = f"'{key}' has {frames} frames, and {len(classes)} classes"
                raise DataError(text, where=where, hint="An alignment was made with the same frames.")
            places = np.minimum((np.arange(frames) * speed).round().astype(np.int64), len(classes) - 1)
            return classes[places], values
        if len(classes) > frames:
            text = f"'{key}' has {frames} frames, and {len(classes)} tokens"
            raise DataError(text, where=where, hint="CTC needs a frame for each token; leave the utterance out.")
        starts = np.arange(len(classes)) * frames // len(classes)
        values[starts] = 2
        return np.repeat(classes, np.diff(np.append(starts, frames))), values


def read_tokens(path: Path, where: Location, max_line_bytes: int) -> dict[str, int]:
    """Read names of classes: a name to a line, in their order, or a name and its number.

    Raises:
        DataError: it cannot be read, or a name is there twice.
    """
    found: dict[str, int] = {}
    for place, line in read_lines(path, where, "list of classes", max_line_bytes):
        words = line.split()
        if len(words) > 2 or (len(words) == 2 and not _is_number(words[1])):
            hint = "A line is the name of a class, perhaps with its number behind it."
            raise DataError(f"'{line[:60]}' names no class", where=place, hint=hint)
        if words[0] in found:
            raise DataError(f"'{words[0]}' is there twice", where=place, hint="Each class has one line.")
        found[words[0]] = int(words[1]) if len(words) == 2 else len(found)
    return found


def read_labels(
    path: Path,
    where: Location,
    *,
    form: Form,
    units: Units,
    dim: int,
    tokens: Mapping[str, int] | None,
    max_line_bytes: int,
) -> Labels:
    """Read a file of labels.

    Args:
        path: the file.
        where: its place in the recipe.
        form: what a line says behind the key.
        units: whether a text is cut into words or characters.
        dim: number of classes.
        tokens: the numbers of classes by their names; None: there are numbers in the file.
        max_line_bytes: a longer line is refused.

    Raises:
        DataError: it cannot be read.
    """
    classes: dict[str, NDArray[np.int32]] = {}
    places: dict[str, Location] = {}
    errors: list[CntkError] = []
    for place, line in read_lines(path, where, "list of labels", max_line_bytes):
        key, *words = line.split()
        if units == "characters":
            words = [SPACE if letter == " " else letter for letter in " ".join(words)]
        try:
            if key in places:
                text = f"the key '{key}' stands in line {places[key].line} already"
                raise DataError(text, where=place, hint="Each utterance has one line.")
            if not words or (form == "category" and len(words) > 1):
                raise DataError(f"'{key}' has {len(words)} labels", where=place, hint=_FORMS[form])
            classes[key] = np.array([_class(word, tokens, dim, place) for word in words], dtype=np.int32)
            places[key] = place
        except CntkError as error:
            errors.append(error)
    return Labels(form, classes, places, tuple(errors))


def _class(word: str, tokens: Mapping[str, int] | None, dim: int, place: Location) -> int:
    if tokens is not None and word not in tokens:
        text = f"labelMappingFile has no class '{word}'{did_you_mean(word, tokens)}"
        raise DataError(text, where=place, hint="It has a name to a line, in the order of the classes.")
    if tokens is None and not _is_number(word):
        raise DataError(
            f"'{word}' is no number of a class", where=place, hint="labelMappingFile has the names of classes."
        )
    number = int(word) if tokens is None else tokens[word]
    if number >= dim:
        text = f"'{word}' is class {number}, but labelDim={dim}"
        raise DataError(text, where=place, hint="Classes are counted from 0; labelDim is how many there are.")
    return number


def _is_number(word: Any) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 10
