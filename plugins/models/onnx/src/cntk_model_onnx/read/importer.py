"""The walk over a graph: each node becomes one or several of a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto

from cntk_core.api import (
    CntkError,
    FindOp,
    Input,
    ModelFormatError,
    Network,
    Node,
    Parameter,
    ShapeError,
    UnsupportedError,
)
from cntk_core.api.builders import BATCH, Free, infer_node
from cntk_model_onnx.read import (  # noqa: F401 - what they read is found by READERS
    borders,
    control,
    einsum,
    elementwise,
    layers,
    matrices,
    places,
    products,
    recurrent,
    reductions,
    shapes,
)
from cntk_model_onnx.read.folding import folded, folds
from cntk_model_onnx.read.functions import expanded, functions_of, has_definition, key_of
from cntk_model_onnx.read.kinds import kind_of_type, kind_of_value, kinds_of
from cntk_model_onnx.read.table import READERS
from cntk_model_onnx.read.values import WHOLE, Array, Constant, Tensor, Unreadable, Value
from cntk_model_onnx.wire import Read

_NAMES_OF_BATCH = ("batch", "n", "batch_size", "b", "samples")
_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_DOMAINS = ("", "ai.onnx")
_SMALL = 16
"""Constants without a name that have no more elements are kept once."""

_MOST_STEPS = 1 << 14
"""So many nodes of bodies and functions are read."""


@attrs.frozen
class Trial:
    """A reading of a file: which axis of its inputs is that of the samples, if no input says so.

    Attributes:
        axis: the axis; :data:`~cntk_model_onnx.read.values.WHOLE` takes all inputs as values of the whole minibatch,
            if they have fixed sizes.
    """

    axis: int = 0


class Importer:
    """Reads a graph.

    Args:
        path: named in errors.
        read: what the file has.
        find_op: finds operations.
        dtype: precision of the network; None is that of the weights.
        trial: how inputs of known sizes are taken.

    Attributes:
        network: what was made so far.
        samples: how many samples the file is for; 0 for any number.
        opset: the version of ONNX's operators.
        functions: those that the file brings.
        depth: in how many functions and bodies the node is that is read.
    """

    def __init__(self, path: Path, read: Read, find_op: FindOp, dtype: Any, trial: Trial) -> None:
        self.path, self.graph, self.find_op, self.trial = path, read.model.graph, find_op, trial
        kinds = {array.dtype for array in read.tensors.values() if array.dtype.kind == "f"}
        own = np.float64 if np.dtype(np.float64) in kinds else np.float32
        self.network = Network(own if dtype is None else dtype)
        self.opset = max((entry.version for entry in read.model.opset_import if entry.domain in _DOMAINS), default=1)
        self.functions = functions_of(read.model.functions)
        self.values: dict[str, Value | None] = {name: Constant(array, name) for name, array in read.tensors.items()}
        self.samples = self.depth = 0
        self._parameters: dict[tuple[Any, ...], Parameter] = {}
        self._near = ""
        self._kinds: dict[str, str] = {}
        self._made: list[Node] = []
        self._steps = 0
        self._numbers: dict[str, int] = {}
        self._lost: dict[str, str] = {}
        self._is_read = _names_read(self.graph)
        self._kept: list[Array] = []  # whose identities are keys

    def run(self) -> Network:
        """Read all of it.

        Raises:
            UnsupportedError: names all operations that are not known, or all nodes that cannot be read.
            ModelFormatError: the graph makes no sense.
        """
        self._check_operations()
        for info in self.graph.input:
            if info.name not in self.values:
                self.values[info.name] = self._input(info)
        problems: list[str] = []
        broken: set[str] = set()
        for node in self.graph.node:
            if broken.isdisjoint(node.input):
                problem = self._node(node)
                if problem:
                    problems.append(problem)
                    broken.update(node.output)
            else:
                broken.update(node.output)
        if problems:
            raise UnsupportedError(self._listed("has nodes that cannot be read", problems))
        self._outputs()
        self._finish()
        return self.network

    # -- what is there ------------------------------------------------------------------------------------

    def _check_operations(self) -> None:
        missing: dict[str, int] = {}
        for node in self.graph.node:
            own = node.domain in _DOMAINS
            if not self._is_known(node):
                name = node.op_type if own else f"{node.domain}.{node.op_type}"
                missing[name[:60]] = missing.get(name[:60], 0) + 1
        if missing:
            listed = [f"{name} ({count} nodes)" if count > 1 else name for name, count in sorted(missing.items())]
            raise UnsupportedError(self._listed("has operations that cannot be read", listed))

    def _is_known(self, node: NodeProto) -> bool:
        if key_of(node) in self.functions:
            return True
        own = node.domain in _DOMAINS
        known = (
            node.op_type in READERS
            or folds(node.op_type)
            or node.op_type == "Shape"
            or has_definition(node, self.opset)
        )
        return own and known

    def _listed(self, what: str, problems: Sequence[str]) -> str:
        shown = [*problems[:20], *([f"and {len(problems) - 20} more"] if len(problems) > 20 else [])]
        return f"'{self.path}' {what}: " + "; ".join(shown)

    def _input(self, info: ValueInfoProto) -> Value:
        kind = info.type.tensor_type
        dims: list[Any] = [
            dim.dim_value if dim.WhichOneof("value") == "dim_value" and dim.dim_value > 0 else dim.dim_param
            for dim in kind.shape.dim
        ]
        if not kind.HasField("shape") or (not dims and self.trial.axis != WHOLE):
            raise UnsupportedError(f"'{self.path}': the input '{info.name[:100]}' is no tensor with a shape")
        if len(dims) > 16 or any(isinstance(dim, int) and dim >= 2**31 for dim in dims):
            raise ModelFormatError(f"'{self.path}' is damaged: the sizes of '{info.name[:100]}' make no sense")
        self._kinds[info.name] = kind_of_type(kind.elem_type)
        if self.trial.axis == WHOLE:
            if any(isinstance(dim, str) for dim in dims):
                raise UnsupportedError(f"'{self.path}': the input '{info.name[:100]}' has no fixed sizes")
            node = self.network.add(Input.make(self._name(info.name), tuple(dims), framed=False))
            self.network.mark(node, "feature")
            return Tensor(node, WHOLE)
        batch = self._batch_axis(dims)
        if isinstance(dims[batch], int):
            if self.samples not in (0, dims[batch]):
                raise UnsupportedError(f"'{self.path}': its inputs are for different numbers of samples")
            self.samples = dims[batch]
        shape = [Free(dim) if isinstance(dim, str) else dim for dim in dims]
        del shape[batch]
        node = self.network.add(Input.make(self._name(info.name), tuple(shape), axis=BATCH))
        self.network.mark(node, "feature")
        return Tensor(node, batch)

    def _batch_axis(self, dims: Sequence[Any]) -> int:
        """Which axis is that of the samples: one that is called so, the first without a size, or as is tried."""
        free = [axis for axis, dim in enumerate(dims) if isinstance(dim, str)]
        named = [axis for axis in free if dims[axis].lower() in _NAMES_OF_BATCH]
        return next(iter([*named, *free]), min(self.trial.axis, len(dims) - 1))

    def _outputs(self) -> None:
        for info in self.graph.output:
            value = self.values.get(info.name)
            if info.name in self._lost:
                what = f"a further output of {self._lost[info.name][:60]}"
                raise UnsupportedError(f"'{self.path}' has the output '{info.name[:100]}', {what}, which is not read")
            if value is None:
                raise ModelFormatError(f"'{self.path}' is damaged: nothing computes the output '{info.name[:100]}'")
            try:
                node = self.node_of(value)
            except Unreadable as error:
                what = f"has the output '{info.name[:100]}', which cannot be read: {error}"
                raise UnsupportedError(f"'{self.path}' {what}") from None
            if isinstance(node, Input | Parameter) or node in self.network.roots["output"]:
                node = self.add("Pass", [node], near=info.name)
            if node.name != info.name and info.name and info.name not in self.network:
                self.network.rename(node, info.name)
            self.network.mark(node, "output")

    def _finish(self) -> None:
        """Leave out what no output needs."""
        needed = set(self.network.order(self.network.roots["output"]))
        for node in [node for node in self.network if node not in needed]:
            self.network.remove(node)

    # -- nodes --------------------------------------------------------------------------------------------

    def _node(self, node: NodeProto) -> str:
        """Read a node; return why it cannot be read, or nothing."""
        self._near = next(iter(node.output), "")
        name = node.name or self._near
        made = self._made = []
        try:
            found = self._outputs_of(node)
        except Unreadable as error:
            return f"{node.op_type} '{name[:100]}': {error}"
        except ModelFormatError:
            raise
        except CntkError as error:
            return f"{node.op_type} '{name[:100]}': {error.message[:300]}"
        if found and isinstance(found[0], Tensor):
            self._settle(found[0].node, set(made))
        return ""

    def _outputs_of(self, node: NodeProto) -> list[Value]:
        """Read a node, keep its outputs under their names, and return them."""
        inputs = [self._value(name) for name in node.input]
        read = self._read(node, inputs)
        found = [read] if isinstance(read, Constant | Tensor) else list(read)
        self.values.update({output: value for output, value in zip(node.output, found, strict=False) if output})
        self._lost.update(dict.fromkeys(node.output[len(found) :], node.op_type))
        self._kinds.update(zip(node.output, kinds_of(node, self.kind), strict=False))
        return found

    def run_nodes(
        self,
        nodes: Iterable[NodeProto],
        given: Mapping[str, Value | None],
        kinds: Mapping[str, str],
        wanted: Sequence[str],
        *,
        opset: int = 0,
    ) -> list[Value | None]:
        """Read nodes that stand elsewhere than in the graph itself: in a body, or in the definition of a function.

        Args:
            nodes: in order.
            given: values by the names that they have there; None is one that is left out.
            kinds: what they hold.
            wanted: which values to return.
            opset: the version of ONNX's operators of a function. A body has that of the graph (0), and sees what is
                around it.

        Raises:
            Unreadable: a node cannot be read.
        """
        outer = self.values, self._kinds, self.opset, self._near
        self.values = {**({} if opset else self.values), **given}
        self._kinds = {**({} if opset else self._kinds), **kinds}
        self.opset, self.depth = opset or self.opset, self.depth + 1
        try:
            for node in nodes:
                self._steps += 1
                if self._steps > _MOST_STEPS:
                    raise Unreadable("it runs too often to be written out")
                self._outputs_of(node)
            return [self._value(name) for name in wanted]
        finally:
            self.values, self._kinds, self.opset, self._near = outer
            self.depth -= 1

    def _settle(self, node: Node, made: set[Node]) -> None:
        """Let a result have the name of the tensor, not a step on the way to it."""
        other = self.network[self._near] if self._near in self.network else None  # noqa: SIM401 - it has no get
        if node not in made or other is node or not self._near or (other is not None and other not in made):
            return
        others = {} if other is None else {other: self._name(self._near)}
        self.network.rename_all({**others, node: self._near})

    def _value(self, name: str) -> Value | None:
        if not name or name in self.values:
            return self.values.get(name)
        if name in self._lost:
            raise Unreadable(f"it needs a further output of {self._lost[name][:60]}, which is not read")
        if self.depth:
            raise Unreadable(f"a part of it has no '{name[:100]}'")
        raise ModelFormatError(f"'{self.path}' is damaged: nothing computes the tensor '{name[:100]}'")

    def _read(self, node: NodeProto, inputs: Sequence[Value | None]) -> Value | Sequence[Value]:
        if node.op_type == "Shape" and isinstance(inputs[0], Tensor):
            return shapes.sizes(self, node, inputs[0])
        constants = [each for each in inputs if each is None or isinstance(each, Constant)]
        if node.domain in _DOMAINS and folds(node.op_type) and len(constants) == len(inputs):
            return folded(node, constants, self.opset)
        read = READERS.get(node.op_type) if node.domain in _DOMAINS else None
        defined = key_of(node) in self.functions or has_definition(node, self.opset)
        if read is None and defined:
            return expanded(self, node, inputs)
        if read is not None:
            try:
                return read(self, node, inputs)
            except Unreadable as refused:  # its definition may be readable
                if not defined:
                    raise
                return self._by_definition(node, inputs, refused)
        if self.depth:
            raise Unreadable(f"a part of it is {node.op_type[:60]}, which cannot be read")
        raise Unreadable("it depends on the data, and is known for constants only")

    def _by_definition(
        self, node: NodeProto, inputs: Sequence[Value | None], refused: Unreadable
    ) -> Value | Sequence[Value]:
        try:
            return expanded(self, node, inputs)
        except (Unreadable, ShapeError):
            raise refused from None

    # -- for those who read -------------------------------------------------------------------------------

    def is_read(self, name: str) -> bool:
        """Whether something may read a tensor."""
        return bool(name) and (self.depth > 0 or name in self._is_read)

    def kind(self, name: str) -> str:
        """Return what a tensor holds: numbers (``f``), whole numbers (``i``) or truth values (``b``)."""
        return self._kinds.get(name) or kind_of_value(self.values.get(name))

    def add(self, op: str, inputs: Sequence[Node], near: str = "", **settings: Any) -> Node:
        """Add a node, infer its shape, and return it.

        Args:
            op: name of the operation.
            inputs: its inputs.
            near: a name to take; by default that of the output of ONNX's node.
            settings: its attributes.

        Raises:
            ShapeError: the inputs do not fit.
        """
        found = self.find_op("model", op)
        if found is None:
            raise Unreadable(f"the operation {op} is not installed")
        node = Node(self._name(near or self._near), found, list(inputs), found.attributes(**settings))
        try:
            infer_node(node)
        except ShapeError as error:
            raise Unreadable(error.message[:300]) from None
        self._made.append(node)
        return self.network.add(node)

    def _name(self, wanted: str) -> str:
        """A name that no node has; case does not count."""
        wanted = wanted or "node"
        found, number = wanted, self._numbers.get(wanted, 1)
        while found in self.network:
            number += 1
            found = f"{wanted}_{number}"
        self._numbers[wanted] = number
        return found

    def parameter(self, constant: Constant, array: Array, near: str = "") -> Parameter:
        """Return the parameter with the values of a constant, laid out like ``array``; weights of the file are learned.

        Raises:
            Unreadable: they are no numbers, or there is none.
        """
        if array.dtype == object:
            raise Unreadable("it computes with the number of samples")
        if not array.size:
            raise Unreadable("a constant has no elements")
        small = not constant.name and array.size <= _SMALL
        content = (array.dtype.str, array.tobytes()) if small else id(constant.array)
        key = (constant.name or content, array.shape, array.strides)
        if key not in self._parameters:
            values = np.ascontiguousarray(array, self.network.dtype)
            name = self._name(constant.name or near or f"{self._near}_constant")
            made = Parameter.make(name, values.shape, value=values)
            if not constant.name:
                made.learning_rate_multiplier, made.needs_gradient = 0.0, False
            self.network.add(made)
            self._parameters[key] = made
            self._kept.append(constant.array)
        return self._parameters[key]

    def number(self, value: float) -> Parameter:
        """Return a constant number."""
        return self.parameter(Constant(np.asarray(value, np.float64)), np.full((1,), value))

    def node_of(self, value: Value) -> Node:
        """Return the node of a value; a constant becomes one."""
        if isinstance(value, Tensor):
            return value.node
        return self.parameter(value, value.array)


def _names_read(graph: GraphProto) -> set[str]:
    """The tensors that are outputs of a graph, or that nodes read, in bodies too."""
    found = {info.name for info in graph.output}
    for node in graph.node:
        found.update(node.input)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found |= _names_read(attribute.g)
    return found
