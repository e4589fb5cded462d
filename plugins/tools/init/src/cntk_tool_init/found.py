"""What is known of data: as they are found, and as a recipe reads them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import attrs

CLASSIFY, REGRESS, TAG, LANGUAGE_MODEL = "classify", "regress", "tag", "language-model"
TASKS = {
    CLASSIFY: "say of each sample, or each sequence, to which class it belongs",
    REGRESS: "find numbers",
    TAG: "say of each step of a sequence to which class it belongs",
    LANGUAGE_MODEL: "say which word comes next",
}
"""What a recipe can be about, and what that means."""


@attrs.frozen
class Stream:
    """Values of one kind that a reader gives.

    Attributes:
        name: of the stream, and of the network's input.
        dim: values of a sample, as the network takes them.
        sparse: most of them are zero, and the others are listed.
    """

    name: str
    dim: int
    sparse: bool = False


@attrs.frozen
class Wishes:
    """What the user says about data.

    Attributes:
        target: the column or the stream that is to be learned; empty: the one that looks like it.
        share: the part of the data that is held out, 0 to below 1.
        held_out: a file or folder whose data are held out instead.
    """

    target: str = ""
    share: float = 0.1
    held_out: Path | None = None

    @property
    def every(self) -> int:
        """One in so many is held out; 0: none."""
        return max(2, round(1 / self.share)) if self.share > 0 else 0

    def of(self, count: int) -> Wishes:
        """Return what can be done where there are so many things: at least one is held out, and one is not."""
        if self.every <= count or not self.every:
            return self
        return attrs.evolve(self, share=1 / count if count > 1 else 0.0)

    def holds_out(self, number: int) -> bool:
        """Whether something is held out, by its number from 0 on."""
        return bool(self.every) and number % self.every == self.every - 1


@attrs.frozen
class Prepared:
    """Data as a recipe reads them.

    Attributes:
        x: what the network is given.
        y: what it learns to say.
        reader: the lines of the reader's block, for training.
        held_out: those for data that are held out; empty if there are none.
        samples: of training: of sequences, the steps.
        sequential: samples belong to sequences.
        whole: a sequence has one label.
        image: width, height and channels, where x is pictures.
        centre: of numbers that are learned, their mean, and ...
        spread: ... their standard deviation.
        words: the words of a language model; 0 elsewhere.
        before: a section of the recipe that has been run already, to make files anew.
        files: what was written beside the recipe, and what it is.
    """

    x: Stream
    y: Stream
    reader: Sequence[str]
    held_out: Sequence[str] = ()
    samples: int = 0
    sequential: bool = False
    whole: bool = False
    image: tuple[int, int, int] | None = None
    centre: float = 0.0
    spread: float = 1.0
    words: int = 0
    before: Sequence[str] = ()
    files: Sequence[tuple[str, str]] = ()


class Data(ABC):
    """Data of a format, looked at. A subclass says of which."""

    title: str
    """What the format is called."""

    takes_second = True
    """Whether data of a second file can be held out."""

    @property
    @abstractmethod
    def tasks(self) -> Sequence[str]:
        """What they can teach, what they look most like first."""

    @abstractmethod
    def seen(self) -> Sequence[str]:
        """Say what is there, a line for each thing."""

    @property
    def odd(self) -> Sequence[str]:
        """Say what looks like a mistake."""
        return ()

    @property
    def targets(self) -> Sequence[str]:
        """Columns or streams that could be learned, where there is a choice; the chosen one first."""
        return ()

    @property
    @abstractmethod
    def writes(self) -> Sequence[str]:
        """Names of the files that :meth:`prepare` writes."""

    @abstractmethod
    def prepare(self, folder: Path, task: str) -> Prepared:
        """Write into a folder what a recipe there needs beside what is there already.

        Raises:
            DataError: the data are not as they seemed.
        """


def several(count: int, what: str, plural: str = "") -> str:
    """Return ``1 row``, ``1,347 rows``."""
    return f"{count:,} {what if count == 1 else plural or what + 's'}"


def some(names: Sequence[object], most: int = 6) -> str:
    """Return names, the first ones of many."""
    shown = ", ".join(str(name) for name in names[:most])
    return f"{shown}, ... ({len(names)})" if len(names) > most else shown


def split_names(wishes: Wishes, suffix: str) -> list[str]:
    """Names of the files for the two parts of data that are split."""
    return [f"train{suffix}", f"heldout{suffix}"] if wishes.every else [f"train{suffix}"]


def word_classes(words: int) -> int:
    """About the square root of the words: then class and word are equally hard to find."""
    return max(2, min(math.isqrt(words), words // 2))
