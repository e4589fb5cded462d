"""From a network to a file of the original, in the oldest version of the format that can say all of it.

The sections are those of :mod:`.load`. As in the original, nodes stand in the order of their names without regard to
case, and every node of the network is written, whoever reads it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import numpy as np

from cntk_core.api import (
    CntkError,
    Input,
    Network,
    NetworkError,
    Node,
    Parameter,
    UnsupportedError,
    UsageError,
    raise_problems,
)
from cntk_core.api.builders import BATCH, write_file
from cntk_model_cntk1.bcn.attributes import NO_SEQUENCE
from cntk_model_cntk1.bcn.operations import STORED, stored_name
from cntk_model_cntk1.bcn.write_attributes import WRITERS, Target, Write, count_of, needed_version, swaps
from cntk_model_cntk1.bcn.writer import BinaryWriter, Piece

LEAST = 10
"""Oldest version that is written. Normalizations need 13 and recurrent stacks 14: what they stored before was other."""

PREFERRED = 14
"""The version that is written if it can say everything: all programs since the end of 2016 read it."""

_COUNTS_ARE_INPUTS = 19
_PERMUTATIONS = 25
_EVERYTHING = -1
_NEGATIVES = "CosDistanceWithNegativeSamples"
_GROUPS = (
    ("FeatureNodes", "feature"),
    ("LabelNodes", "label"),
    ("CriterionNodes", "criterion"),
    ("EvalNodes", "evaluation"),
    ("OutputNodes", "output"),
)


def save_bcn(network: Network, path: Path, version: int = 0) -> int:
    """Write a network with its values in version 1 of the original's format.

    Args:
        network: all of its nodes are written; blocks are not, the format has none.
        path: the file.
        version: of the format; 0 is the oldest one from :data:`PREFERRED` on that can say everything.

    Returns:
        the version.

    Raises:
        Problems, UnsupportedError: the format, or that version of it, cannot say something; all of that, with nodes.
        NetworkError: a parameter has no value.
        UsageError: there is no such version.
        OSError: the file cannot be written.
    """
    exporter = _Exporter(network, chosen_version(network, version))
    write_file(path, exporter.pieces())
    return exporter.version


def chosen_version(network: Network, version: int = 0) -> int:
    """Return the version in which a network is written. Raises as :func:`save_bcn`, but OSError."""
    if version and not LEAST <= version <= NEWEST:
        raise UsageError(f"there is no version {version} to write", hint=f"Versions: {LEAST} to {NEWEST}.")
    problems: list[CntkError] = []
    least = version or PREFERRED
    for node in network:
        try:
            needed = _needed(node)
        except CntkError as error:
            problems.append(error)
            continue
        if version and needed > version:
            message = f"{node.op.name} '{node.name}' says what version {version} cannot say; version {needed} can"
            problems.append(UnsupportedError(message, where=node.where))
        least = max(least, needed)
    raise_problems(problems)
    return least


def _needed(node: Node) -> int:
    """The oldest version that can say a node. Raises UnsupportedError, NetworkError: none can."""
    if isinstance(node, Parameter):
        if node.value is None:
            raise NetworkError(f"the parameter '{node.name}' has no value", where=node.where)
        return 0
    if isinstance(node, Input):
        missing = "" if node.framed is not False else "has no frames"
        missing = "has dimensions that each minibatch brings" if any(dim < 0 for dim in node.known_shape) else missing
        if missing:
            message = f"the input '{node.name}' {missing}, which version 1 of CNTK's models cannot say"
            raise UnsupportedError(message, where=node.where)
        return 0
    if node.op.name not in STORED:
        message = f"version 1 of CNTK's models has no operation {node.op.name}, which is that of '{node.name}'"
        raise UnsupportedError(message, where=node.where)
    return needed_version(node)


def _sums_everything(node: Node) -> bool:
    """Whether a reduction is what SumElements is, which all versions know."""
    given = node.attributes
    return given.operation == "Sum" and given.axis == _EVERYTHING and not given.keeps


@attrs.frozen(eq=False)
class _Entry:
    """A node of the file: its operation, its name, what stores it, and the names of its inputs."""

    operation: str
    name: str
    store: Callable[[], None]
    inputs: Sequence[str] = ()


class _Exporter:
    def __init__(self, network: Network, version: int) -> None:
        self.network = network
        self.version = version
        self.writer = BinaryWriter()
        self.dtype = np.dtype(np.float64 if network.dtype == np.float64 else np.float32)
        self.names = {node.name.lower() for node in network}
        self.axes: dict[str, str] = {}
        self.entries: list[_Entry] = []

    def pieces(self) -> list[Piece]:
        """Return the content of the file."""
        left_out = self._untied_counts()
        for node in self.network:
            if node not in left_out:
                self._add(node)
        self.entries.sort(key=lambda entry: entry.name.lower())
        writer = self.writer
        writer.wide("BCN", "BVersion")
        writer.size(self.version)
        writer.wide("EVersion")
        writer.size(len(self.entries))
        writer.wide("BNodeList")
        for entry in self.entries:
            writer.wide("double" if self.dtype.itemsize == 8 else "float", entry.operation, entry.name)
            entry.store()
        writer.wide("ENodeList", "BRelation")
        for entry in self.entries:
            writer.wide(entry.name)
            writer.names(entry.inputs)
        writer.wide("ERelation", "BRootNodes")
        for group, role in _GROUPS:
            writer.wide(f"B{group}")
            writer.names([node.name for node in self.network.roots[role]])
            writer.wide(f"E{group}")
        writer.wide("ERootNodes", "ECN")
        return writer.pieces

    def _untied_counts(self) -> set[Node]:
        """Counts of normalizations that stand in the node, in a version that knows no others."""
        if self.version >= _COUNTS_ARE_INPUTS:
            return set()
        counts: set[Node] = {count for node in self.network if (count := count_of(node)) is not None}
        roots = {node for nodes in self.network.roots.values() for node in nodes}
        elsewhere = {
            child
            for node in self.network
            for index, child in enumerate(node.inputs)
            if not (index == 5 and count_of(node) is child)
        }
        return counts - roots - elsewhere

    # -- nodes --------------------------------------------------------------------------------------------

    def _add(self, node: Node) -> None:
        if isinstance(node, Parameter):
            self._parameter(node)
        elif isinstance(node, Input):
            self._input(node)
        elif node.op.role == "precompute":
            names = [child.name for child in node.inputs]
            self.entries.append(_Entry(node.op.name, node.name, lambda: self._computed(node), names))
        else:
            self._operation(node)

    def _operation(self, node: Node) -> None:
        if node.op.name == "TransposeDimensions" and node.attributes.permutation and self.version < _PERMUTATIONS:
            self._transpose(node)
            return
        inputs = list(node.inputs)
        if node.op.name == "BatchNormalization" and self.version < _COUNTS_ARE_INPUTS:
            del inputs[5:]
        names = [child.name for child in inputs]
        if node.op.name == _NEGATIVES:
            given = node.attributes  # nodes that the network has kept of them say nothing more
            shift = self._number(f"{node.name}.shift", given.shift)
            names[2:] = [shift, self._number(f"{node.name}.negatives", given.negatives)]
        if node.op.name == "ReduceElements" and _sums_everything(node):
            self._store("SumElements", node, names)
        else:
            self._store(stored_name(node.op.name, self.version), node, names, WRITERS.get(node.op.name))

    def _store(self, called: str, node: Node, names: Sequence[str], write: Write | None = None) -> None:
        target = Target(self.writer, self.version, self.dtype, node)
        self.entries.append(_Entry(called, node.name, lambda: write(target) if write else None, names))

    def _transpose(self, node: Node) -> None:
        """Add a permutation of axes as exchanges of two, one after the other; the last one bears the name."""
        before, pairs = node.inputs[0].name, swaps(node.attributes.permutation)
        for index, pair in enumerate(pairs or [(1, 1)]):
            name = node.name if index >= len(pairs) - 1 else self._free(f"{node.name}.{index + 1}")
            store = functools.partial(self.writer.int32, *pair)
            self.entries.append(_Entry("TransposeDimensions", name, store, [before]))
            before = name

    def _parameter(self, node: Parameter) -> None:
        assert node.value is not None
        self._constant(node.name, node.known_shape[::-1], node.value, node.learning_rate_multiplier)

    def _number(self, wanted: str, value: float) -> str:
        """Add a constant, and return its name."""
        name = self._free(wanted)
        self._constant(name, (1, 1), np.array([value]), 0.0)
        return name

    def _constant(self, name: str, dims: Sequence[int], value: np.ndarray, rate: float) -> None:
        def store() -> None:
            self.writer.put("f", rate)
            self.writer.dims(dims)
            self.writer.matrix(dims, value.astype(self.dtype, copy=False))

        self.entries.append(_Entry("LearnableParameter", name, store))

    def _computed(self, node: Node) -> None:
        value = np.zeros(node.known_shape, self.dtype) if node.value is None else node.value
        self.writer.flag(node.value is not None)
        self.writer.matrix(node.known_shape[::-1], value.astype(self.dtype, copy=False))

    def _input(self, node: Input) -> None:
        axis = self._axis(node.axis) if node.axis else ""

        def store() -> None:
            self.writer.size(0, 0)  # once the numbers of rows and columns
            self.writer.dims(node.known_shape[::-1] or (1,))
            self.writer.put("I", 1)
            self.writer.wide(axis)
            self.writer.put("f", float(bool(node.needs_gradient)))

        self.entries.append(_Entry("SparseInputValue" if node.sparse else "InputValue", node.name, store))

    def _axis(self, name: str) -> str:
        """Return the name of the node that stands for a dynamic axis, which is added if it is not there."""
        name = NO_SEQUENCE if name == BATCH else name
        if name in self.network and self.network[name].op.name == "DynamicAxis":
            return name
        if name not in self.axes:
            self.axes[name] = self._free(name)
            self.entries.append(_Entry("DynamicAxis", self.axes[name], lambda: None))
        return self.axes[name]

    def _free(self, wanted: str) -> str:
        """Return a name that no node has."""
        while wanted.lower() in self.names:
            wanted += "_"
        self.names.add(wanted.lower())
        return wanted


NEWEST = 26
"""The newest version that is written: those after it say nothing that a network of ours needs."""
