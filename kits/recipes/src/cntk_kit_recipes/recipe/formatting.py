"""How the write action prints values: the ``format=[...]`` block and the text of one minibatch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.config import Config, option, options
from cntk_core.errors import ConfigError, DataError
from cntk_core.ops.language.shapes import Shape, elements, to_cntk

_PRECISION = re.compile(r"[-+ #0]*\d*(\.\d*)?")
_ESCAPES = (("\\n", "\n"), ("\\r", "\r"), ("\\t", "\t"), ("\\s", " "))

Kind = Literal["real", "category", "sparse"]
Matrix = NDArray[Any]


@options
class WriteFormat:
    r"""The ``format=[...]`` block of a write action.

    ``prologue`` and ``epilogue`` go to the file as they are. The other texts may hold the escapes ``\n \r \t \s``
    (a blank), ``%s`` (node name) and ``%n`` (minibatch number, from 0); ``sequencePrologue`` and ``sampleSeparator``
    also ``%x`` (shape), ``%d`` (number of the sequence in its minibatch) and ``%k`` (its key).
    """

    type: Kind = option(default="real", doc="real: numbers; category: the largest element; sparse: non-zero elements")
    label_mapping_file: str = option(default="", doc="names of the categories, one per line")
    transpose: bool = option(default=True, doc="one line per sample; false: one line per element")
    prologue: str = option(default="")
    epilogue: str = option(default="")
    sequence_separator: str = option(default="")
    sequence_prologue: str = option(default="")
    sequence_epilogue: str = option(default="\\n")
    element_separator: str = option(default=" ")
    sample_separator: str = option(default="\\n")
    precision_format: str = option(default="", doc="width and precision of a number, such as .4 or 10.5")


def read_format(section: Config) -> WriteFormat:
    """Return the format of a write section.

    Raises:
        ConfigError: a key or value of the block is wrong.
    """
    value = section.own("format")
    if value is None:
        return WriteFormat()
    block = value.config()
    if block.own("type") is None:  # a type outside the block is somebody else's
        block = block.with_entries("type = real")
    found = block.bind(WriteFormat, what="the format of the write action")
    if not _PRECISION.fullmatch(found.precision_format):
        raise ConfigError(
            f"precisionFormat must be a width and a precision, not '{found.precision_format}'",
            where=block.location("precisionFormat"),
            hint="Accepted: what stands between % and f in C, such as .4 or 10.5.",
        )
    return found


def read_labels(path: str) -> tuple[str, ...]:
    """Return the lines of a label mapping file.

    Raises:
        DataError: it cannot be read.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the labelMappingFile '{path}' cannot be read: {_reason(error)}") from None
    return tuple(line.strip() for line in lines if line.strip())


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or "unknown" if isinstance(error, OSError) else "it is not UTF-8 text"


@attrs.frozen(eq=False)
class SequenceValue:
    """The values of a node for one sequence.

    Attributes:
        number: index of the sequence in its minibatch.
        key: the reader's key of the sequence, "" if it has none.
        values: ``(steps, elements)``; elements in CNTK's column-major order.
    """

    number: int
    key: str
    values: Matrix


@attrs.define(eq=False)
class Formatter:
    """Prints the values of one node.

    Args:
        format: the block of the recipe.
        name: the node's name.
        shape: its sample shape in memory order, with at most one dimension that every minibatch has its own of.
        labels: names of the categories, empty if there are none.
        keys: whether ``%k`` is filled in.
        real: categories are printed as other numbers are.
        warn: called with one line if the label mapping does not fit.
    """

    format: WriteFormat
    name: str
    shape: Shape
    labels: Sequence[str] = ()
    keys: bool = False
    real: bool = False
    warn: Callable[[str], None] = print
    _dims: Shape = attrs.field(init=False)
    _letter: str = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Choose how a value is printed."""
        self._dims = to_cntk(self.shape)
        self._letter = "f"
        if self.format.type == "category" and not self.real:
            self._letter = "s" if self.format.label_mapping_file and self._labels_fit() else "d"

    def _labels_fit(self) -> bool:
        size = int(np.prod(self._dims))
        if len(self.labels) in (size, self._dims[0] if self._dims else 1):
            return True
        self.warn(
            f"write: Row dimension {size} does not match number of entries {len(self.labels)} in labelMappingFile, "
            "not using mapping"
        )
        return False

    def text(self, sequences: Sequence[SequenceValue], minibatch: int) -> str:
        """Return the text of a minibatch. ``minibatch`` counts from 0."""
        if min(self.shape, default=0) < 0 and sequences:
            self._dims = to_cntk(with_elements(self.shape, sequences[0].values.shape[1]))
        separator = self._fill(self.format.sequence_separator, minibatch)
        prologue = self._fill(self.format.sequence_prologue, minibatch)
        epilogue = self._fill(self.format.sequence_epilogue, minibatch)
        between = self._fill(self.format.sample_separator, minibatch)
        elements = self._fill(self.format.element_separator, minibatch)
        parts: list[str] = []
        for index, sequence in enumerate(sequences):
            if index:
                parts.append(separator)
            parts.append(self._of_sequence(prologue, sequence))
            if self.format.type == "sparse":
                parts.append(self._sparse(sequence.values, elements, between))
            else:
                parts.append(self._dense(sequence.values, elements, self._of_sequence(between, sequence)))
            parts.append(epilogue)
        return "".join(parts)

    def _fill(self, text: str, minibatch: int) -> str:
        for escape, meaning in _ESCAPES:
            text = text.replace(escape, meaning)
        return text.replace("%s", self.name).replace("%n", str(minibatch))

    def _of_sequence(self, text: str, sequence: SequenceValue) -> str:
        if "%" not in text:
            return text
        shape = " ".join(str(dim) for dim in (*self._dims, len(sequence.values)))
        text = text.replace("%x", shape).replace("%d", str(sequence.number))
        return text.replace("%k", sequence.key) if self.keys else text

    def _dense(self, values: Matrix, elements: str, between: str) -> str:
        category = self.format.type == "category"
        if category:
            values = _last_largest(values)[:, np.newaxis]
        rows = values if self.format.transpose else values.T
        row_format = elements.replace("%", "%%").join([self._value_format] * rows.shape[1])
        lines = [row_format % self._printable(row) for row in rows]
        if not self.format.transpose and len(self._dims) > 1 and not category:
            lines = [f"{self._index(index)}\t{line}" for index, line in enumerate(lines)]
        return between.join(lines)

    @property
    def _value_format(self) -> str:
        return f"%{self.format.precision_format}{self._letter}"

    def _printable(self, row: Matrix) -> tuple[Any, ...]:
        if self._letter == "s":
            return tuple(self.labels[int(value) % len(self.labels)] for value in row)
        return tuple((row + 0.0).tolist())  # adding zero clears the sign of a negative zero

    def _sparse(self, values: Matrix, elements: str, between: str) -> str:
        return (between if self.format.transpose else elements).join(self._nonzero(values))

    def _nonzero(self, values: Matrix) -> Iterator[str]:
        by_element = self.format.transpose  # the original goes through the elements outside and the steps inside
        places = np.argwhere(values.T)[:, ::-1] if by_element else np.argwhere(values)
        steps = len(values)
        for step, element in places.tolist():
            value = values[step, element]
            number = "" if value == 1 else self._value_format % value
            time = f";{step}]" if steps > 1 else "]"
            yield number + self._index(element, annotate=True)[:-1] + time

    def _index(self, element: int, *, annotate: bool = False) -> str:
        """``[row,column]`` of an element, with the names of the labels where a dimension matches them."""
        parts = []
        for dim in self._dims:
            element, position = divmod(element, dim)
            note = f"={self.labels[position]}" if annotate and dim == len(self.labels) else ""
            parts.append(f"{position}{note}")
        return f"[{','.join(parts)}]"


def _last_largest(values: Matrix) -> Matrix:
    """Index of the largest element of each row; of equal ones the last, as in the original."""
    from_the_end = np.argmax(values[:, ::-1], axis=1)
    found: Matrix = values.shape[1] - 1 - from_the_end
    return found


def with_elements(shape: Shape, count: int) -> Shape:
    """Return a shape with one open dimension, which is negative, as a shape of so many elements."""
    others = elements([dim for dim in shape if dim >= 0])
    return tuple(count // max(others, 1) if dim < 0 else dim for dim in shape)
