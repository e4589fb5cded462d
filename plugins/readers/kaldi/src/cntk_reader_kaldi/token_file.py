"""The words and numbers of a file that Kaldi writes for one object (nnet1's networks, models), in binary or text form.

Names stand in angle brackets, with numbers and arrays behind them. In binary form a whole number follows a byte 4, a
real one a byte 4 or 8; arrays begin as those of archives do.
"""

from __future__ import annotations

import re
import struct
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Location

_WORD = re.compile(rb"\[|\]|[^\s\[\]]+")
_INTEGER = re.compile(rb"[+-]?[0-9]{1,9}")
_BLANK = b" \t\r\n"
_LONGEST = 100
_KINDS: dict[bytes, np.dtype[Any]] = {b"F": np.dtype("<f4"), b"D": np.dtype("<f8")}
_HINT = "featureTransform is a file of Kaldi's nnet1, as nnet-concat and nnet-initialize write it."
_CUT = "The file is damaged or was not copied to its end."


class TokenFile(ABC):
    """Reads a file from its beginning to its end. Every method raises DataError where something else stands.

    Attributes:
        binary: whether it is in binary form.
    """

    binary: ClassVar[bool]

    def __init__(self, path: Path, data: bytes, hint: str) -> None:
        self.path = path
        self.data = data
        self.hint = hint

    @staticmethod
    def open(path: Path, where: Location | None, what: str = "featureTransform", hint: str = _HINT) -> TokenFile:
        """Open a file, binary or text.

        Args:
            path: of the file.
            where: the place that names it.
            what: what it is called there.
            hint: what it should be, for messages.

        Raises:
            DataError: it cannot be read.
        """
        try:
            data = path.read_bytes()
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise DataError(f"cannot open the {what} '{path}': {reason}", where=where) from None
        return (_BinaryFile if data.startswith(b"\0B") else _TextFile)(path, data, hint)

    @abstractmethod
    def wrong(self, message: str, hint: str | None = None) -> DataError:
        """Return the error that something is wrong at the place that was read last."""

    @abstractmethod
    def peek_name(self) -> bool:
        """Tell whether a name in angle brackets comes next."""

    @abstractmethod
    def peeks(self, name: str) -> bool:
        """Tell whether this name comes next."""

    @abstractmethod
    def name(self) -> str:
        """Read a name, ``<Splice>``; empty at the end of the file."""

    @abstractmethod
    def integer(self) -> int:
        """Read a whole number."""

    @abstractmethod
    def real(self) -> float:
        """Read a number."""

    @abstractmethod
    def integers(self) -> list[int]:
        """Read an array of whole numbers."""

    @abstractmethod
    def array(self, *shape: int) -> NDArray[np.float64]:
        """Read a vector or a matrix of this shape."""


class _BinaryFile(TokenFile):
    binary: ClassVar[bool] = True

    def __init__(self, path: Path, data: bytes, hint: str) -> None:
        super().__init__(path, data, hint)
        self._at = self._last = 2

    def wrong(self, message: str, hint: str | None = None) -> DataError:
        return DataError(f"'{self.path}', byte {self._last}: {message}", hint=hint or self.hint)

    def peek_name(self) -> bool:
        self._skip_blank()
        return self.data[self._at : self._at + 1] == b"<"

    def peeks(self, name: str) -> bool:
        self._skip_blank()
        return self.data.startswith(name.encode() + b" ", self._at)

    def name(self) -> str:
        self._skip_blank()
        self._last = self._at
        if self._at >= len(self.data):
            return ""
        end = self.data.find(b" ", self._at, self._at + _LONGEST)
        word = self.data[self._at : end if end > 0 else self._at + _LONGEST].strip()
        if not (word.startswith(b"<") and word.endswith(b">") and word.isascii()):
            raise self.wrong("the name of a component was expected")
        self._at += len(word) + 1
        return word.decode()

    def integer(self) -> int:
        return int(self._number({4: "<i"}, "a whole number"))

    def real(self) -> float:
        return float(self._number({4: "<f", 8: "<d"}, "a number"))

    def integers(self) -> list[int]:
        count = self.integer()
        raw = self._take(4 * count, f"an array of {count} whole numbers")
        return list(struct.unpack(f"<{count}i", raw))

    def array(self, *shape: int) -> NDArray[np.float64]:
        token = self._take(3, "an array")
        kind = _KINDS.get(token[:1])
        if kind is None or token[1:] != (b"V " if len(shape) == 1 else b"M "):
            raise self.wrong("the values of the component were expected")
        found = tuple(self.integer() for _ in shape)
        if found != shape:
            raise self.wrong(f"an array of {_sizes(shape)} was expected, not of {_sizes(found)}")
        count = int(np.prod(shape, dtype=np.int64))
        raw = self._take(kind.itemsize * count, f"an array of {_sizes(shape)}")
        values: NDArray[np.float64] = np.frombuffer(raw, dtype=kind).astype(np.float64)
        return values.reshape(shape)

    def _number(self, forms: dict[int, str], what: str) -> Any:
        (size,) = self._take(1, what)
        if size not in forms:
            raise self.wrong(f"{what} was expected")
        return struct.unpack(forms[size], self._take(size, what))[0]

    def _take(self, count: int, what: str) -> bytes:
        self._last = self._at
        if count < 0 or self._at + count > len(self.data):
            raise self.wrong(f"the file ends inside {what}", _CUT)
        self._at += count
        return self.data[self._last : self._at]

    def _skip_blank(self) -> None:
        while self.data[self._at : self._at + 1] and self.data[self._at] in _BLANK:
            self._at += 1


class _TextFile(TokenFile):
    binary: ClassVar[bool] = False

    def __init__(self, path: Path, data: bytes, hint: str) -> None:
        super().__init__(path, data, hint)
        self._words = _WORD.finditer(data)
        self._next: re.Match[bytes] | None = next(self._words, None)
        self._last = 0

    def wrong(self, message: str, hint: str | None = None) -> DataError:
        line = self.data.count(b"\n", 0, self._last) + 1
        return DataError(message, where=Location(str(self.path), line), hint=hint or self.hint)

    def peek_name(self) -> bool:
        return self._next is not None and self._next[0].startswith(b"<")

    def peeks(self, name: str) -> bool:
        return self._next is not None and self._next[0] == name.encode()

    def name(self) -> str:
        if self._next is None:
            return ""
        word = self._word("the name of a component")
        if not (word.startswith(b"<") and word.endswith(b">") and word.isascii()):
            raise self.wrong("the name of a component was expected")
        return word.decode()

    def integer(self) -> int:
        word = self._word("a whole number")
        if _INTEGER.fullmatch(word) is None:
            raise self.wrong("a whole number was expected")
        return int(word)

    def real(self) -> float:
        word = self._word("a number")
        try:
            return float(word)
        except ValueError:
            raise self.wrong("a number was expected") from None

    def integers(self) -> list[int]:
        self._bracket(b"[")
        found = []
        while self._next is not None and self._next[0] != b"]":
            found.append(self.integer())
        self._bracket(b"]")
        return found

    def array(self, *shape: int) -> NDArray[np.float64]:
        self._bracket(b"[")
        found: list[float] = []
        while self._next is not None and self._next[0] != b"]":
            found.append(self.real())
        count = int(np.prod(shape, dtype=np.int64))
        if len(found) != count:
            raise self.wrong(f"an array of {_sizes(shape)} was expected, not {len(found)} numbers")
        self._bracket(b"]")
        return np.array(found).reshape(shape)

    def _bracket(self, bracket: bytes) -> None:
        if self._word("an array") != bracket:
            raise self.wrong(f"'{bracket.decode()}' of an array was expected")

    def _word(self, what: str) -> bytes:
        if self._next is None:
            self._last = len(self.data)
            raise self.wrong(f"the file ends where {what} should be")
        found, self._next = self._next, next(self._words, None)
        self._last = found.start()
        return found[0]


def _sizes(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
