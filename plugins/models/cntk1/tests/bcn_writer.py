"""Writes small files as the original CNTK did, in any version of its format."""

from __future__ import annotations

import struct
from pathlib import Path

import attrs
import numpy as np


def wide(text: str) -> bytes:
    return text.encode("utf-16-le") + b"\0\0"


def size(*numbers: int) -> bytes:
    return b"".join(struct.pack("<Q", number) for number in numbers)


def int32(*numbers: int) -> bytes:
    return b"".join(struct.pack("<i", number) for number in numbers)


def int64(*numbers: int) -> bytes:
    return b"".join(struct.pack("<q", number) for number in numbers)


def float32(*numbers: float) -> bytes:
    return b"".join(struct.pack("<f", number) for number in numbers)


def float64(*numbers: float) -> bytes:
    return b"".join(struct.pack("<d", number) for number in numbers)


def flag(*values: bool) -> bytes:
    return bytes(values)


def dims(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers) + 1}I", len(numbers), *numbers)


def flags(*values: bool) -> bytes:
    return size(len(values)) + flag(*values)


def matrix(values: np.ndarray) -> bytes:
    """A matrix; its values are written column by column."""
    values = np.atleast_2d(values)
    begin = b"d" + wide("BMAT") + size(values.dtype.itemsize) + wide("unnamed") + int32(0) + size(*values.shape)
    return begin + values.tobytes(order="F") + wide("EMAT")


@attrs.define
class Model:
    """A file in the making: nodes are added in order, then :meth:`content` has all of it."""

    version: int = 26
    precision: str = "float"
    nodes: list[bytes] = attrs.field(factory=list)
    relations: list[bytes] = attrs.field(factory=list)
    roots: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    names: list[str] = attrs.field(factory=list)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float64 if self.precision == "double" else np.float32)

    def add(self, operation: str, name: str, data: bytes = b"", inputs: tuple[str, ...] = ()) -> Model:
        tag = wide(self.precision) if self.version >= 7 else b""
        self.names.append(name)
        self.nodes.append(tag + wide(operation) + wide(name) + data)
        self.relations.append(wide(name) + size(len(inputs)) + b"".join(map(wide, inputs)))
        return self

    def input(self, name: str, *shape: int, axis: str = "", sparse: bool = False) -> Model:
        data = size(0, 0) + dims(*shape)
        if self.version >= 8:
            data += struct.pack("<I", 1) + wide(axis)
        if self.version >= 10:
            data += float32(0.0)
        return self.add("SparseInputValue" if sparse else "InputValue", name, data)

    def parameter(self, name: str, values: object, rate: float = 1.0, shape: tuple[int, ...] | None = None) -> Model:
        table = np.atleast_2d(np.asarray(values, self.dtype))
        shape = table.shape if shape is None else shape
        if self.version >= 3:
            return self.add("LearnableParameter", name, float32(rate) + dims(*shape) + matrix(table))
        return self.add("LearnableParameter", name, flag(rate != 0) + size(*table.shape) + matrix(table))

    def root(self, group: str, *names: str) -> Model:
        self.roots[group] = names
        return self

    def in_order(self) -> Model:
        """Put the nodes in the order of their names, in which the original writes them."""
        places = sorted(range(len(self.names)), key=lambda place: self.names[place].lower())
        self.names, self.nodes, self.relations = (
            [table[place] for place in places] for table in (self.names, self.nodes, self.relations)
        )
        return self

    def content(self) -> bytes:
        parts = [wide("BCN")]
        if self.version > 1:
            parts += [wide("BVersion"), size(self.version), wide("EVersion")]
        parts += [size(len(self.nodes)), wide("BNodeList"), *self.nodes, wide("ENodeList")]
        parts += [wide("BRelation"), *self.relations, wide("ERelation"), wide("BRootNodes")]
        for group, names in self.roots.items():
            parts += [wide(f"B{group}"), size(len(names)), *map(wide, names), wide(f"E{group}")]
        return b"".join([*parts, wide("ERootNodes"), wide("ECN")])

    def write(self, path: Path) -> Path:
        path.write_bytes(self.content())
        return path


def small_model(version: int = 26, precision: str = "float") -> Model:
    """A recurrent network: h = tanh(W x + R delay(h) + b), with a criterion."""
    model = Model(version, precision)
    model.input("features", 2).input("labels", 3)
    model.parameter("W", [[1, 2], [3, 4], [5, 6]], 0.5)
    model.parameter("R", np.eye(3), 0.0)
    model.parameter("b", [[1], [2], [3]])
    product = (size(1) if version >= 3 else b"") + (int32(-1) if version >= 12 else b"")
    model.add("Times", "Wx", product, ("W", "features"))
    state = int32(1) + (dims(3) if version > 3 else size(3, 1))
    if version >= 2:
        state += float64(0.25) if precision == "double" else float32(0.25)
    model.add("PastValue", "before", state, ("h",))
    model.add("Times", "Rh", product, ("R", "before"))
    model.add("Plus", "sum", b"", ("Wx", "Rh"))
    model.add("Plus", "z", b"", ("sum", "b"))
    model.add("Tanh", "h", b"", ("z",))
    model.add("CrossEntropyWithSoftmax", "ce", b"", ("labels", "h"))
    model.add("ErrorPrediction", "err", b"", ("labels", "h"))
    model.root("FeatureNodes", "features").root("LabelNodes", "labels")
    model.root("CriterionNodes", "ce").root("EvalNodes", "err")
    return model.root("OutputNodes", "h")
