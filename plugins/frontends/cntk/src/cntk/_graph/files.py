"""Model files: functions as the original's files have them, and back."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from cntk_model_cntk2 import records
from cntk_model_cntk2.encode import encode
from cntk_model_cntk2.records import Composite, read_composite
from cntk_model_cntk2.records import Function as Record
from cntk_model_cntk2.values import Array, SizeT

from cntk._graph.draws import OFFSET
from cntk._graph.errors import GraphError, told
from cntk._graph.infer import infer_all
from cntk._graph.leaves import current_value, set_value
from cntk._graph.plain import python_value
from cntk._graph.primitive import (
    COMBINE,
    DROPOUT,
    FREQUENCY,
    RANDOM,
    SAMPLE,
    Inside,
    Primitive,
    next_uid,
    postorder,
)  # fmt: skip
from cntk._graph.records import axis_record, function_record, output_uid, shape_record
from cntk._graph.written import custom_record, user_primitive, user_record
from cntk.axis import Axis
from cntk_core.api import deliver, local_path
from cntk_core.api.builders import write_file

if TYPE_CHECKING:
    from cntk.ops._user import UserFunction
    from cntk.ops.functions import Function
    from cntk.variables import Variable
    from cntk_core.api import Network, Node

_COMPOSITE, _SEVERAL = 3, {72: 2, 87: 2}
_LEGACY = "BCN".encode("utf-16-le")
_FORMATS = ("CNTK-1", "CNTK-2")
_TYPES = {np.dtype(np.float32): records.FLOAT, np.dtype(np.float64): records.DOUBLE}


def save(function: Function, filename: Any, format: Any) -> None:
    """Write a function; arguments as of :meth:`Function.save`.

    Raises:
        GraphError: it stands for something that is not known, or holds what a file cannot.
    """
    with told():
        path = Path(local_path(str(filename)))
    if getattr(format, "name", "") == "ONNX":
        from cntk._graph.run import Graph
        from cntk_core.api.recipes import ModelFiles, PluginManager

        with told():
            network = Graph.of(list(function.outputs)).network
            ModelFiles(PluginManager().registry).save(network, path)
        return
    with told():
        write_file(path, encode(dictionary_of(function)))
        deliver()


def dictionary_of(function: Function) -> dict[str, Any]:
    """Return what a file has of a function.

    Raises:
        GraphError: what users keep with functions is of kinds that a file cannot hold.
    """
    primitives = postorder([function._primitive])
    variables: dict[Variable, None] = {}
    done: set[Primitive] = set()
    for one in primitives:
        for each in [*one.inputs, *(one.inside.arguments if one.inside is not None else ())]:
            if each._owner is None or each._owner not in done:  # outputs that a loop reads before they are there
                variables[each] = None
        done.add(one)
    return {
        "version": SizeT(_COMPOSITE),
        "type": "CompositeFunction",
        "root": function._primitive.uid,
        "uid": function.uid,
        **({"name": function.name} if function.name else {}),
        "inputs": [_variable(each) for each in variables],
        "primitive_functions": [_function(one) for one in primitives],
    }


def _variable(each: Variable) -> dict[str, Any]:
    found: dict[str, Any] = {
        "version": SizeT(1),
        "type": "Variable",
        "uid": output_uid(each),
        "kind": SizeT(each._kind if each._owner is None else records.PLACEHOLDER),
        "data_type": SizeT(_TYPES.get(np.dtype(each._dtype or np.float32), records.FLOAT)),
        "dynamic_axis": [axis_record(axis) for axis in reversed(each._axes or ())],
        "is_sparse": each.is_sparse,
        "needs_gradient": each.needs_gradient,
        "shape": shape_record(each.shape),
    }
    if each.name:
        found["name"] = each.name
    if each.is_parameter or each.is_constant:
        value = np.array(current_value(each), each._dtype)  # type: ignore[arg-type]
        found["value"] = Array(value.shape[::-1], value.reshape(-1))
    return found


def _function(one: Primitive) -> dict[str, Any]:
    if one.user is not None:
        return user_record(one)
    record = function_record(one)
    found: dict[str, Any] = {
        "version": SizeT(record.version),
        "type": "PrimitiveFunction",
        "uid": one.uid,
        "op": SizeT(one.number),
        "inputs": list(record.inputs),
        "attributes": {
            **(record.attributes.values if one.inside is None else {}),
            **custom_record(one.custom),
        },
    }
    if one.name:
        found["name"] = one.name
    if one.inside is not None:
        arguments = one.inside.arguments
        found["block_function_op_name"] = one.inside.kind
        found["block_function_composite_arguments_map_keys"] = [each.uid for each in arguments]
        found["block_function_composite_arguments_map_values"] = [output_uid(each) for each in arguments.values()]
        found["block_function_composite"] = {
            "version": SizeT(_COMPOSITE),
            "type": "CompositeFunction",
            "root": one.inside.root.uid,
            "uid": next_uid("CompositeFunction"),
        }
    return found


# -- reading ------------------------------------------------------------------------------------------------


def load(model: Any, format: Any) -> Function:
    """Read a function; arguments as of :meth:`Function.load`.

    Raises:
        GraphError: it is no model of CNTK 2.
    """
    if isinstance(model, bytes | bytearray):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model")
            path.write_bytes(model)
            return _read(path)
    return _read(_brought(model))


def _brought(name: Any) -> Path:
    with told():
        return Path(local_path(str(name), again=True))


def save_legacy(function: Function, filename: Any) -> None:
    """Write a function as a model of CNTK 1.

    Raises:
        GraphError: it cannot be written in that format.
    """
    from cntk._graph.run import Graph
    from cntk_core.api.recipes import ModelFiles, PluginManager

    with told():
        network = Graph.of(list(function.outputs)).network
        ModelFiles(PluginManager().registry).save(network, Path(str(filename)), _FORMATS[0])


def _read_legacy(path: Path) -> Composite:
    from cntk_core.api.recipes import ModelFiles, PluginManager

    files = ModelFiles(PluginManager().registry)
    network = files.load(path)
    network.roots = {role: [] for role in network.roots} | {"output": _legacy_outputs(network)}
    with tempfile.TemporaryDirectory() as folder:
        newer = Path(folder, "model")
        files.save(network, newer, _FORMATS[1])
        return read_composite(newer)


def _legacy_outputs(network: Network) -> list[Node]:
    """The outputs that 2.7 finds in a file of version 1: what nobody reads or what is marked, ordered by name."""
    read = {child for node in network for child in node.inputs}
    marked = {node for group in network.roots.values() for node in group}
    found = [node for node in network if node.inputs and (node not in read or node in marked or _is_known_first(node))]
    return sorted(found, key=lambda node: node.name)


def _is_known_first(node: Node) -> bool:
    """Whether it was computed before the training, such as the mean of an input."""
    return node.op.role == "precompute"


def _is_legacy(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_LEGACY)) == _LEGACY


def _read(path: Path, own: Sequence[UserFunction] = ()) -> Function:
    from cntk.ops.functions import Function

    with told():
        composite = _read_legacy(path) if _is_legacy(path) else read_composite(path, users=True)
        root = _Loader(composite, own).load()
    return Function._of(root)


class _Loader:
    """Makes functions of records.

    Args:
        composite: the records.
        own: functions of users that are cloned where their class makes none of a file.
    """

    def __init__(self, composite: Composite, own: Sequence[UserFunction]) -> None:
        self.composite, self.own = composite, own
        self.variables: dict[str, Variable] = {}
        self.made: dict[str, Primitive] = {}
        self.open: list[tuple[Primitive, int, str]] = []
        self.later: list[tuple[dict[Variable, Variable], Variable, str]] = []

    def load(self) -> Primitive:
        for record in self.composite.functions.values():
            self._function(record)
        for one, index, uid in self.open:
            found = self._there(uid)
            one.inputs[index] = found
            if one.number == COMBINE:
                one.outputs = list(one.inputs)
        for arguments, inner, uid in self.later:
            arguments[inner] = self._there(uid)
        root = self.made[self.composite.root]
        infer_all([root])
        return root

    def _there(self, uid: str) -> Variable:
        found = self._variable(uid)
        if found is None:
            raise GraphError(f"'{self.composite.path}' is damaged: there is no variable '{uid[:80]}'")
        return found

    def _variable(self, uid: str) -> Variable | None:
        if uid in self.variables:
            return self.variables[uid]
        name, _, index = uid.rpartition("_Output_")
        if name in self.composite.functions:
            one = self.made.get(name)
            if one is None or int(index) >= len(one.outputs):
                return None
            return one.outputs[int(index)]
        record = self.composite.variables.get(uid)
        if record is None:
            return None
        self.variables[uid] = made = self._leaf(record)
        return made

    def _leaf(self, record: records.Variable) -> Variable:
        from cntk.variables import CONSTANT, INPUT, PARAMETER, PLACEHOLDER, Constant, Parameter, Variable

        shape, dtype = record.dims[::-1], np.float64 if record.double else np.float32
        if record.kind in (PARAMETER, CONSTANT):
            assert record.value is not None
            value = record.value.values.astype(dtype).reshape(shape)
            if record.kind == PARAMETER:
                return Parameter(shape, value, dtype, name=record.name)
            return Constant(value, shape, dtype, name=record.name)
        if record.kind == INPUT:
            axes = tuple(Axis(each.name, each.ordered) for each in reversed(record.axes))
            return Variable._made(INPUT, shape, dtype, axes, name=record.name, sparse=record.sparse,
                                  gradient=record.needs_gradient)  # fmt: skip
        return Variable._made(PLACEHOLDER, None, None, None, name=record.name)

    def _function(self, record: Record) -> None:
        from cntk.variables import OUTPUT, PLACEHOLDER, Variable

        if record.written is not None:
            self.made[record.uid] = user_primitive(record, list(map(self._there, record.inputs)), self.own)
            return
        attributes = dict(record.attributes.values)
        custom = python_value(attributes.pop("customAttributes", {}))
        one = Primitive(record.operation, [], attributes, record.name, custom=custom)
        self.made[record.uid] = one
        for index, uid in enumerate(record.inputs):
            found = self._variable(uid)
            if found is None:
                self.open.append((one, index, uid))
                found = Variable._made(PLACEHOLDER, None, None, None)
            one.inputs.append(found)
        count = _SEVERAL.get(record.operation, 1)
        if record.block is not None:
            root = self.made[record.block.root]
            arguments: dict[Variable, Variable] = {}
            for inner, outer in record.block.arguments.items():
                key, value = self._variable(inner), self._variable(outer)
                if key is None:  # nothing inside reads it
                    key = Variable._made(PLACEHOLDER, None, None, None)
                if value is None:  # it is made later: there is a loop
                    value = Variable._made(PLACEHOLDER, None, None, None)
                    self.later.append((arguments, key, outer))
                arguments[key] = value
            one.inside = Inside(record.block.kind, tuple(root.outputs), root, arguments)
            count = len(root.outputs)
        if record.operation == COMBINE:
            one.outputs = list(one.inputs)
            return
        for index in range(count):
            uid = f"{one.uid}_Output_{index}"
            one.outputs.append(
                Variable._made(OUTPUT, None, None, None, name=record.name, uid=uid, owner=one, index=index)
            )


def restore(function: Function, filename: Any) -> None:
    """Take the values of parameters and constants from a file of the same function.

    Raises:
        GraphError: the file is that of another function.
    """
    users = [one.user for one in postorder([function._primitive]) if one.user is not None]
    other = _read(_brought(filename), users)
    mine, theirs = ([each for each in f.inputs if each.is_parameter or each.is_constant] for f in (function, other))
    if [each.shape for each in mine] != [each.shape for each in theirs]:
        raise GraphError(f"'{filename}' has other parameters than the function")
    for each, found in zip(mine, theirs, strict=True):
        set_value(each, found.value)  # type: ignore[attr-defined, arg-type]
    kinds = (RANDOM, DROPOUT, SAMPLE, FREQUENCY)
    drawing = ([one for one in postorder([f._primitive]) if one.number in kinds] for f in (function, other))
    for one, kept in zip(*drawing, strict=False):
        one.attributes.update({key: kept.attributes[key] for key in ("rngSeed", OFFSET) if key in kept.attributes})


__all__ = ["dictionary_of", "load", "restore", "save"]
