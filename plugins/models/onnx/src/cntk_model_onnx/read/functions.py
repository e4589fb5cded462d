"""Operations that are defined by others: ONNX's own definitions, and functions that a file brings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto, TypeProto, defs, helper

from cntk_model_onnx.read.values import Constant, Multiple, Tensor, Unreadable, Value

if TYPE_CHECKING:
    from cntk_model_onnx.read.importer import Importer

_DEEPEST = 8
"""So deep functions may call functions."""


def key_of(node: NodeProto) -> tuple[str, str, str]:
    """What a function of a file is found by: domain, name, overload."""
    return node.domain, node.op_type, node.overload


def functions_of(functions: Iterable[FunctionProto]) -> dict[tuple[str, str, str], FunctionProto]:
    """Return the functions that a file brings, by :func:`key_of` the nodes that call them."""
    return {(each.domain, each.name, each.overload): each for each in functions}


def _schema(node: NodeProto, opset: int) -> Any:
    """What ONNX says of an operation; its stubs lack what is about definitions."""
    return defs.get_schema(node.op_type, opset, "")


def has_definition(node: NodeProto, opset: int) -> bool:
    """Whether ONNX defines an operation by others."""
    if node.domain not in ("", "ai.onnx"):
        return False
    try:
        schema = _schema(node, opset)
    except defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def expanded(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Read a node as the nodes that define it.

    Raises:
        Unreadable: one of these cannot be read.
    """
    function = reader.functions.get(key_of(node)) or _definition(reader, node, inputs)
    if reader.depth > _DEEPEST:
        raise Unreadable("it calls functions too deep")
    given = {attribute.name: attribute for attribute in [*function.attribute_proto, *node.attribute]}
    bound: dict[str, Value | None] = dict.fromkeys(function.input)
    bound.update(zip(function.input, inputs, strict=False))
    versions = {each.domain: each.version for each in function.opset_import}
    nodes = [_with_attributes(each, given) for each in function.node]
    wanted = [name if own else "" for name, own in zip(function.output, node.output, strict=False)]
    kinds = {formal: reader.kind(name) for formal, name in zip(function.input, node.input, strict=False)}
    version = versions.get("", versions.get("ai.onnx", reader.opset))
    found = reader.run_nodes(nodes, bound, kinds, wanted, opset=version)
    return [each for each in found if each is not None] if None not in found else _some(found, node)


def _some(found: Sequence[Value | None], node: NodeProto) -> Sequence[Value]:
    """Outputs that nobody wants may be missing."""
    if any(value is None and name for value, name in zip(found, node.output, strict=False)):
        raise Unreadable("its definition does not compute all of its outputs")
    return [Constant(np.full((), None, object)) if each is None else each for each in found]


def _with_attributes(node: NodeProto, given: Mapping[str, AttributeProto]) -> NodeProto:
    """A node of a function with the attributes of the node that calls it."""
    made = NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in given:
                made.attribute.add().CopyFrom(given[attribute.ref_attr_name])
                made.attribute[-1].name = attribute.name
            continue
        made.attribute.add().CopyFrom(attribute)
        for graph in [made.attribute[-1].g] if attribute.HasField("g") else []:
            inner = [_with_attributes(each, given) for each in graph.node]
            del graph.node[:]
            graph.node.extend(inner)
    return made


def _definition(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> FunctionProto:
    schema = _schema(node, reader.opset)
    complete = NodeProto()
    complete.CopyFrom(node)
    named = {attribute.name for attribute in node.attribute}
    defaults = ((name, each.default_value) for name, each in schema.attributes.items())
    complete.attribute.extend(value for name, value in defaults if name not in named and value.name)
    node.CopyFrom(complete)
    if schema.has_function:
        version = max((each for each in schema.function_opset_versions if each <= reader.opset), default=0)
        content = schema.get_function_with_opset_version(version or schema.function_opset_versions[0])
    else:
        known = schema.context_dependent_function_opset_versions
        version = max((each for each in known if each <= reader.opset), default=known[0])
        types = [_type(reader, name, value) for name, value in zip(node.input, inputs, strict=True)]
        content = schema.get_context_dependent_function_with_opset_version(version, complete.SerializeToString(), types)
    found = FunctionProto()
    found.ParseFromString(content)
    return found


def _type(reader: Importer, name: str, value: Value | None) -> bytes:
    """The type of an input, for definitions that depend on it."""
    if value is None:
        return bytes(TypeProto().SerializeToString())
    if isinstance(value, Tensor):
        sizes = ["N" if isinstance(size, Multiple) else int(size) for size in value.sizes(reader.samples)]
        kind = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "b": TensorProto.BOOL}[reader.kind(name)]
    else:
        sizes = list(value.array.shape)
        whole = value.array.dtype == object
        kind = TensorProto.INT64 if whole else helper.np_dtype_to_tensor_dtype(value.array.dtype)
    dims = [None if isinstance(size, int) and size < 0 else size for size in sizes]
    return bytes(helper.make_tensor_type_proto(kind, dims).SerializeToString())
