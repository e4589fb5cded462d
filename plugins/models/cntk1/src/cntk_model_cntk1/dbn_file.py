"""DBN files: feed-forward networks of the tool DBN.exe, in binary (docs/original-rules.md#dbn-files).

All numbers are little-endian: 32-bit integers and 32-bit floats. Texts end with a zero byte, tags have four bytes and
no end. A matrix is ``BMAT``, its name, rows, columns, its values, ``EMAT``. A file is the text ``DBN``, which may go on
with a line feed and a comment; ``BDBN``, a version, the number of layers; the matrices ``gmean`` and ``gstddev`` of one
frame of features; ``BNET``; for each layer its kind and the matrices ``W``, ``a`` and ``b``; ``ENET``; if the network
is complete the matrix ``Pu``, the prior probabilities of the outputs; ``EDBN``.

``W`` has a row for each input and a column for each output, and its values are written output by output. ``a`` holds
the biases of the outputs. ``b`` is left from pre-training and not used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Location, ModelFormatError
from cntk_core.api.builders import write_file

Values = NDArray[np.float32]

LAST_LAYER = "perceptron"
LINEAR_LAYER = "rbmisalinearbernoulli"
FIRST_LAYER = "rbmgaussbernoulli"
MIDDLE_LAYER = "rbmbernoullibernoulli"
KINDS = (FIRST_LAYER, MIDDLE_LAYER, LINEAR_LAYER, LAST_LAYER)
"""Kinds of layers. All but the linear ones and the last have a sigmoid."""

_MAX_TEXT = 1 << 16


@attrs.frozen(eq=False)
class DbnLayer:
    """One layer.

    Attributes:
        kind: one of :data:`KINDS`.
        weights: ``(outputs, inputs)``.
        bias: ``(outputs,)``.
    """

    kind: str
    weights: Values
    bias: Values


@attrs.frozen(eq=False)
class Dbn:
    """What a DBN file holds.

    Attributes:
        mean: mean of the features of one frame, ``(features,)``.
        deviation: their standard deviation, ``(features,)``.
        layers: from the input to the output; each has as many inputs as the one before has outputs.
        prior: probabilities of the outputs, ``(outputs,)``, None if the file has none.
    """

    mean: Values
    deviation: Values
    layers: Sequence[DbnLayer]
    prior: Values | None = None

    @property
    def complete(self) -> bool:
        """Whether the last layer is an output layer; a network that was only pre-trained has none."""
        return bool(self.layers) and self.layers[-1].kind == LAST_LAYER


# -- reading ----------------------------------------------------------------------------------------------------------


def read_dbn(path: str | Path, where: Location | None = None) -> Dbn:
    """Read a DBN file. Memory is bounded by the size of the file, whatever it says about itself.

    Raises:
        DataError: it cannot be opened; ``where`` is the place in the recipe that names it.
        ModelFormatError: it is no DBN file, ends too early, or its parts do not fit each other.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            return _Reader(file, size, Location(str(path))).dbn()
    except OSError as error:
        raise DataError(f"the DBN file '{path}' cannot be read: {error.strerror}", where=where) from None


class _Reader:
    """Takes one part of a file after the other."""

    def __init__(self, file: IO[bytes], size: int, where: Location) -> None:
        self._file = file
        self._size = size
        self._where = where

    def dbn(self) -> Dbn:
        header = self._text("the header")
        if header != "DBN" and not header.startswith("DBN\n"):
            raise self._wrong("it does not begin with DBN")
        self._tag("BDBN")
        self._integer("the version")
        count = self._integer("the number of layers")
        if count < 1:
            raise self._wrong(f"it has {count} layers")
        mean = self._vector("gmean")
        deviation = self._vector("gstddev")
        self._tag("BNET")
        layers = [self._layer(number) for number in range(count)]
        self._tag("ENET")
        prior = None
        if self._peek() == b"BMAT":
            prior = self._vector("Pu")
        self._tag("EDBN")
        made = Dbn(mean, deviation, layers, prior)
        for message in _misfits(made):
            raise self._wrong(message)
        return made

    def _layer(self, number: int) -> DbnLayer:
        kind = self._text(f"the kind of layer {number}")
        if kind not in KINDS:
            raise self._wrong(f"layer {number} is of the unknown kind '{kind[:40]}'", f"Kinds: {', '.join(KINDS)}")
        inputs, outputs, values = self._matrix("W")
        bias = self._vector("a")
        self._matrix("b")
        return DbnLayer(kind, values.reshape(outputs, inputs), bias)

    def _vector(self, name: str) -> Values:
        _, _, values = self._matrix(name)
        return values

    def _matrix(self, name: str) -> tuple[int, int, Values]:
        self._tag("BMAT")
        found = self._text("the name of a matrix")
        if found != name:
            raise self._wrong(f"the matrix '{found[:40]}' is where '{name}' should be")
        rows = self._integer(f"the rows of {name}")
        columns = self._integer(f"the columns of {name}")
        if rows < 0 or columns < 0:
            raise self._wrong(f"the matrix {name} has the size {rows} x {columns}")
        data = self._bytes(4 * rows * columns, f"the matrix {name} of {rows} x {columns}")
        self._tag("EMAT")
        return rows, columns, np.frombuffer(data, "<f4").astype(np.float32, copy=False)

    def _tag(self, tag: str) -> None:
        found = self._bytes(len(tag), f"the tag {tag}")
        if found != tag.encode("ascii"):
            raise self._wrong(f"{found!r} is where the tag {tag} should be")

    def _integer(self, what: str) -> int:
        return int(struct.unpack("<i", self._bytes(4, what))[0])

    def _text(self, what: str) -> str:
        found = bytearray()
        while (byte := self._file.read(1)) not in (b"", b"\0"):
            found += byte
            if len(found) > _MAX_TEXT:
                raise self._wrong(f"{what} is longer than {_MAX_TEXT} bytes")
        if not byte:
            raise self._wrong(f"it ends within {what}")
        return found.decode("latin-1")

    def _peek(self) -> bytes:
        place = self._file.tell()
        found = self._file.read(4)
        self._file.seek(place)
        return found

    def _bytes(self, count: int, what: str) -> bytes:
        if count > self._size - self._file.tell():
            raise self._wrong(f"it ends within {what}")
        return self._file.read(count)

    def _wrong(self, message: str, hint: str | None = None) -> ModelFormatError:
        return ModelFormatError(
            f"not a DBN file that can be read: {message} (byte {self._file.tell()})", where=self._where, hint=hint
        )


def _misfits(dbn: Dbn) -> Iterator[str]:
    """Say which parts do not fit each other."""
    features = len(dbn.mean)
    if len(dbn.deviation) != features:
        yield f"there are {features} means and {len(dbn.deviation)} deviations"
    if not features or not np.all(dbn.deviation != 0):
        yield "a deviation of a feature is 0" if features else "it has no features"
    outputs = dbn.layers[0].weights.shape[1]
    if not features or outputs % features:
        yield f"the {outputs} inputs are no multiple of the {features} features of a frame"
    for number, layer in enumerate(dbn.layers):
        rows, columns = layer.weights.shape
        if columns != outputs or not rows or not columns:
            yield f"layer {number} is [{rows} x {columns}] behind {outputs} values"
        if len(layer.bias) != rows:
            yield f"layer {number} has {rows} outputs and {len(layer.bias)} biases"
        if layer.kind == LAST_LAYER and layer is not dbn.layers[-1]:
            yield f"layer {number} of the kind {LAST_LAYER} is not the last one"
        outputs = rows
    if dbn.prior is not None and len(dbn.prior) != outputs:
        yield f"there are {outputs} outputs and {len(dbn.prior)} priors"


# -- writing ----------------------------------------------------------------------------------------------------------


def write_dbn(dbn: Dbn, path: str | Path) -> None:
    """Write a DBN file in one step.

    Raises:
        OSError: it cannot be written; an old file is untouched.
    """
    write_file(Path(path), _parts(dbn))


def _parts(dbn: Dbn) -> Iterator[bytes]:
    yield b"DBN\0BDBN" + struct.pack("<ii", 0, len(dbn.layers))
    yield from _column("gmean", dbn.mean)
    yield from _column("gstddev", dbn.deviation)
    yield b"BNET"
    for layer in dbn.layers:
        yield layer.kind.encode("ascii") + b"\0"
        outputs, inputs = layer.weights.shape
        yield from _matrix("W", inputs, outputs, layer.weights)
        yield from _column("a", layer.bias)
        yield from _matrix("b", 0, 0, np.zeros(0))
    yield b"ENET"
    if dbn.prior is not None:
        yield from _column("Pu", dbn.prior)
    yield b"EDBN"


def _column(name: str, values: NDArray[Any]) -> Iterator[bytes]:
    yield from _matrix(name, len(values), 1, values)


def _matrix(name: str, rows: int, columns: int, values: NDArray[Any]) -> Iterator[bytes]:
    yield b"BMAT" + name.encode("ascii") + b"\0" + struct.pack("<ii", rows, columns)
    yield np.ascontiguousarray(values, "<f4").tobytes()
    yield b"EMAT"
