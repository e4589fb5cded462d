"""From a file of the original to a network: its sections, and the changes that old versions need.

A file has, one after the other: its version, the nodes with what they store, the inputs of each node, the groups of
roots.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import (
    CntkError,
    Input,
    ModelFormatError,
    Network,
    NetworkError,
    Node,
    Op,
    Parameter,
    Problems,
    UnsupportedError,
    elements,
    from_cntk,
    show,
)
from cntk_core.api.builders import BATCH, unsound
from cntk_model_cntk1.bcn.attributes import NO_SEQUENCE, READERS, Source
from cntk_model_cntk1.bcn.images import IMAGE_READERS
from cntk_model_cntk1.bcn.reader import BinaryReader, encoded
from cntk_model_cntk1.op_attributes import NegativeSamplesAttributes

FindOp = Callable[[str, str], Op | None]

MAGIC = "BCN".encode("utf-16-le")
"""The first bytes of a file."""

NEWEST = 31
"""Newest version of the format; the one that CNTK 2.0 writes."""

_LANGUAGE = "model"
_SMALLEST_SQUARE = 1e-30
_MOST_NEGATIVES = 2**20
_LEAST_NODE = 4
_NOTHING_STORED = ("CosDistanceWithNegativeSamples", "SequenceWithSoftmax")
"""Operations with attributes here of which the original stores none."""
_LEAST_NAME = 2
_GROUPS = (
    ("feature", ("FeatureNodes",)),
    ("label", ("LabelNodes",)),
    ("criterion", ("CriterionNodes", "CriteriaNodes")),
    ("", ("NodesReqMultiSeqHandling",)),
    ("evaluation", ("EvalNodes",)),
    ("output", ("OutputNodes",)),
    ("", ("PairNodes",)),
)
"""Groups of roots in the order of the file, under all names they ever had; nothing is kept of those without a role."""


_OF_VERSION_2 = re.compile("__v2libuid__(.+?)__v2libname__(.*)", re.DOTALL)


def load_bcn(path: Path, find_op: FindOp, dtype: Any = None) -> Network:
    """Read a model of the original and infer its shapes.

    Args:
        path: the file, which begins with :data:`MAGIC`.
        find_op: ``(language, name) -> Op or None``; the language is ``"model"``.
        dtype: convert to this precision; None keeps that of the file.

    Raises:
        ModelFormatError: the file is damaged, or describes no sound network.
        UnsupportedError: it holds something that is not there yet; says what.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelFormatError(f"the model '{path}' cannot be read: {error.strerror}") from None
    importer = _Importer(BinaryReader(content, path), find_op)
    try:
        return importer.load(dtype)
    except CntkError:
        raise
    except Exception as error:
        # Whatever hostile numbers make an op's shape rule do, it is the file that is wrong.
        raise ModelFormatError(f"'{path}' is damaged: its description of the network makes no sense") from error


class _Importer:
    def __init__(self, reader: BinaryReader, find_op: FindOp) -> None:
        self.reader = reader
        self.find_op = find_op
        self.version = 1
        self.network = Network()
        self.double = False
        self.computed: dict[Node, NDArray[Any]] = {}
        self.samples: dict[Node, int] = {}
        self.before: dict[Node, list[Any]] = {}

    def load(self, dtype: Any) -> Network:
        reader = self.reader
        reader.expect("BCN")
        self._read_version()
        try:
            self._read_nodes()
            self._read_relations()
            self._read_roots()
            reader.expect("ECN")
            self._adapt()
            self.network.dtype = np.dtype(dtype) if dtype is not None else np.dtype("f8" if self.double else "f4")
            self.network.infer()
        except (ModelFormatError, UnsupportedError):
            raise
        except CntkError as error:
            raise self._unsound(error) from None
        self._set_values()
        return self.network

    def _unsound(self, error: CntkError) -> CntkError:
        parts = error.errors if isinstance(error, Problems) else (error,)
        missing = next((part for part in parts if isinstance(part, UnsupportedError)), None)
        return missing or unsound(self.reader.path, error)

    # -- sections -----------------------------------------------------------------------------------------

    def _read_version(self) -> None:
        if not self.reader.skip("BVersion"):
            return
        self.version = self.reader.size()
        if not 1 <= self.version <= NEWEST:
            raise ModelFormatError(
                f"'{self.reader.path}' is a model of the original CNTK of format version {self.version}; "
                f"versions 1 to {NEWEST} can be read"
            )
        self.reader.expect("EVersion")

    def _read_nodes(self) -> None:
        reader = self.reader
        count = reader.count("nodes", _LEAST_NODE)
        reader.expect("BNodeList")
        common = None if self.version >= 7 else self._common_precision()
        for _ in range(count):
            begin = reader.position
            precision = common or reader.wide("the precision of a node")
            if precision not in ("float", "double"):
                reader.fail(f"there is no precision {precision[:20]!r}", begin)
            self.double = self.double or precision == "double"
            operation, name = reader.wide("an operation"), reader.wide("the name of a node")
            if not name:
                reader.fail("a node has no name")
            self.network.add(self._read_node(operation, name, np.dtype("f8" if precision == "double" else "f4")))
        reader.expect("ENodeList")

    def _common_precision(self) -> str:
        """The precision of a file that does not say it: that of its first matrix."""
        mark = encoded("BMAT")
        at = self.reader.content.find(mark)
        found = self.reader.content[at + len(mark) : at + len(mark) + 1] if at >= 0 else b""
        return "double" if found == b"\x08" else "float"

    def _read_relations(self) -> None:
        reader = self.reader
        reader.expect("BRelation")
        for _ in range(len(self.network)):
            node = self._node(reader.wide("the name of a node"))
            count = reader.count("inputs", _LEAST_NAME)
            node.inputs = [self._node(reader.wide("the name of an input")) for _ in range(count)]
        reader.expect("ERelation")

    def _read_roots(self) -> None:
        reader = self.reader
        reader.expect("BRootNodes")
        for role, names in _GROUPS:
            if not any(reader.skip(f"B{name}") for name in names):
                continue
            members = [self._member(role) for _ in range(reader.count("names", _LEAST_NAME))]
            if role:
                self.network.roots[role] = list(dict.fromkeys(node for node in members if node is not None))
            if not any(reader.skip(f"E{name}") for name in names):
                reader.expect(f"E{names[0]}")
        reader.expect("ERootNodes")

    def _member(self, role: str) -> Node | None:
        name = self.reader.wide("the name of a node")
        return self._node(name) if role else None

    def _node(self, name: str) -> Node:
        """Return a node by name, without looking for a similar name: that takes long in a large file."""
        if name not in self.network:
            raise NetworkError(f"the network has no node '{name}'")
        return self.network[name]

    # -- nodes --------------------------------------------------------------------------------------------

    def _read_node(self, operation: str, name: str, dtype: np.dtype[Any]) -> Node:
        op = self.find_op(_LANGUAGE, operation)
        if op is None:
            raise UnsupportedError(
                f"'{self.reader.path}' has a node of the unknown operation '{operation[:80]}' before byte "
                f"{self.reader.position}",
                hint="Nobody knows how much such a node stores, so that nothing behind it can be read.",
            )
        if op.role == "parameter":
            return self._read_parameter(name)
        if op.role == "input":
            return self._read_input(name, sparse=op.name.startswith("Sparse"))
        if op.role == "precompute":
            node = Node(name, op)
            ready, matrix = self.reader.flag(), self.reader.matrix()
            if ready:
                self.computed[node] = matrix.values
            return node
        source = Source(self.reader, self.version, dtype)
        node = Node(name, op, attributes=self._read_attributes(op, source))
        if source.samples is not None:
            self.samples[node] = source.samples
        if source.before:
            self.before[node] = source.before
        return node

    def _read_attributes(self, op: Op, source: Source) -> Any:
        read = READERS.get(op.name) or IMAGE_READERS.get(op.name)
        if read is not None:
            return read(source)
        if attrs.fields(op.attributes) and op.name not in _NOTHING_STORED:
            raise UnsupportedError(
                f"'{self.reader.path}' has a node of {op.name} before byte {self.reader.position}: what the original "
                "stores for that operation is not known"
            )
        return op.attributes()

    def _read_parameter(self, name: str) -> Parameter:
        reader = self.reader
        if self.version >= 3:
            rate, dims = reader.float32(), reader.dims()
        else:
            rate = float(reader.flag())
            dims = self._old_dims()
        begin, matrix = reader.position, reader.matrix()
        shape = from_cntk(dims)
        if elements(shape) != matrix.values.size:
            reader.fail(f"the parameter '{name}' is {show(shape)}, but has {matrix.values.size} values", begin)
        return Parameter.make(name, shape, value=matrix.values.reshape(shape), learning_rate_multiplier=rate)

    def _old_dims(self) -> tuple[int, ...]:
        rows, columns = self.reader.amount("number of rows"), self.reader.amount("number of columns")
        if rows:
            return (rows, columns)
        dims = self.reader.dims(legacy=True)
        return (*dims, columns) if columns > 1 else dims

    def _read_input(self, name: str, *, sparse: bool) -> Input:
        reader = self.reader
        rows, _ = reader.size(), reader.size()
        dims = reader.dims(legacy=self.version < 4)
        if rows and rows != elements(dims):
            dims = (rows,)  # as the original mends such files
        axis = ""
        if self.version >= 8:
            axes = reader.uint32()
            if axes > 1:
                reader.fail(f"the input '{name}' has {axes} dynamic axes", reader.position - 4)
            axis = reader.wide("the name of an axis") if axes else ""
        if self.version >= 10:
            reader.float32()  # a learning rate, which inputs have no use for
        return Input.make(name, from_cntk(dims), sparse=sparse, axis=axis)

    # -- what old versions need ---------------------------------------------------------------------------

    def _adapt(self) -> None:
        self._rename()
        if not any(self.network.roots.values()):
            self._mark_ends()
        converted: set[Node] = set()
        for node in list(self.network):
            if isinstance(node, Input) and node.axis == NO_SEQUENCE:
                node.axis = BATCH
            elif isinstance(node, Input) and node.axis in self.network:
                node.axis = self.network[node.axis].name
            if node.op.name == "CosDistanceWithNegativeSamples":
                _take_numbers(node)
            elif node.op.name == "OptimizedRNNStack" and self.version < 14:
                node.inputs.reverse()
            elif node.op.name == "BatchNormalization":
                self._adapt_normalization(node, converted)
            for number, attributes in enumerate(self.before.get(node, ()), start=1):
                first = Node(f"{node.name}.axis{number}", node.op, node.inputs, attributes=attributes)
                node.inputs = [self.network.add(first)]

    def _rename(self) -> None:
        """Take the names that nodes had in CNTK 2, which writes such files with names made of a uid and a name."""
        parts = {node: found for node in self.network if (found := _OF_VERSION_2.fullmatch(node.name))}
        counts = Counter((parts[node][2] if node in parts else node.name).lower() for node in self.network)
        taken = {found[1].lower() for found in parts.values()}
        names = {
            node: name if name and counts[name.lower()] == 1 and name.lower() not in taken else uid
            for node, (uid, name) in ((node, found.groups()) for node, found in parts.items())
        }
        self.network.rename_all(names)

    def _mark_ends(self) -> None:
        """What nobody reads is an output of a file without groups of roots, as in the original."""
        read = {child for node in self.network for child in node.inputs}
        for node in self.network:
            if node.inputs and node not in read:
                self.network.mark(node, "output")

    def _adapt_normalization(self, node: Node, converted: set[Node]) -> None:
        if self.version < 13 and len(node.inputs) > 4 and node.inputs[4] not in converted:
            converted.add(node.inputs[4])
            _square(node.inputs[4], node.attributes.epsilon)
        if self.version < 19:
            count = np.full((1,), float(self.samples.get(node, 0)))
            name = f"{node.name}.run_sample_count"
            node.inputs.append(self.network.add(Parameter.make(name, (1,), value=count, learning_rate_multiplier=0.0)))

    def _set_values(self) -> None:
        for node, values in self.computed.items():
            if elements(node.known_shape) != values.size:
                raise ModelFormatError(
                    f"'{self.reader.path}' holds no sound network: '{node.name}' is {show(node.known_shape)}, but has "
                    f"{values.size} values"
                )
            node.value = values.reshape(node.known_shape)
        with np.errstate(all="ignore"):  # what is too large for single precision becomes infinite
            for node in self.network:
                if node.value is not None:
                    node.value = node.value.astype(self.network.dtype)


def _square(node: Node, epsilon: float) -> None:
    """Make variances of inverse standard deviations, in which old versions kept the statistics.

    The original adds the epsilon that it should take away; networks were trained on with that, and so it stays.
    """
    if node.value is None:
        return
    with np.errstate(all="ignore"):
        squares = np.maximum(node.value * node.value, node.value.dtype.type(_SMALLEST_SQUARE))
        node.value = 1 / squares + node.value.dtype.type(np.float32(epsilon))


def _take_numbers(node: Node) -> None:
    """The shift and the number of negative samples are constants in the original, and settings of our op as well."""
    if len(node.inputs) != 4:
        return
    numbers = []
    for child in node.inputs[2:]:
        if child.value is None or child.value.size != 1 or not 0 <= float(child.value.flat[0]) <= _MOST_NEGATIVES:
            raise NetworkError(f"{node.op.name} '{node.name}' needs a number in '{child.name}'")
        numbers.append(int(child.value.flat[0]))
    node.attributes = NegativeSamplesAttributes(*numbers)
