"""Operations that reduce axes, or normalize along one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto

from cntk_model_onnx.read.elementwise import of_two
from cntk_model_onnx.read.folding import attributes_of, axes_of
from cntk_model_onnx.read.shapes import cntk_axis, picked, size_of, squeezed, tensor
from cntk_model_onnx.read.table import reads
from cntk_model_onnx.read.values import Constant, Tensor, Value, numbers

if TYPE_CHECKING:
    from cntk_model_onnx.read.importer import Importer

_REDUCTIONS = {
    "ReduceSum": "Sum", "ReduceMean": "Mean", "ReduceMax": "Max", "ReduceMin": "Min", "ReduceProd": "Prod",
    "ReduceLogSumExp": "LogSum", "ReduceL1": "Sum", "ReduceL2": "Sum", "ReduceSumSquare": "Sum",
    "ReduceLogSum": "Sum",
}  # fmt: skip


@reads(*_REDUCTIONS)
def _reduce(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value, given = tensor(inputs[0]), attributes_of(node)
    listed = [None, numbers(inputs[1], "axes")] if len(inputs) > 1 and inputs[1] is not None else []
    axes = axes_of(node, listed)
    if not axes:
        if given.get("noop_with_empty_axes", 0):
            return value
        axes = list(range(value.rank))
    kept = reduced(reader, value, node.op_type.removeprefix("Reduce"), axes)
    return kept if given.get("keepdims", 1) else squeezed(reader, kept, axes)


def reduced(reader: Importer, value: Tensor, kind: str, axes: Sequence[int]) -> Tensor:
    """Return a tensor reduced along axes, which then have the length 1.

    Args:
        reader: takes the nodes.
        value: what is reduced.
        kind: how; the name of ONNX's operation without ``Reduce``.
        axes: of the tensor.
    """
    found = value.node
    if kind == "L1":
        found = reader.add("Abs", [found])
    elif kind in ("L2", "SumSquare"):
        found = reader.add("ElementTimes", [found, found])
    for axis in axes:
        how: dict[str, Any] = {
            "reduction_op": _REDUCTIONS[f"Reduce{kind}"],
            "axis": cntk_axis(value, axis),
            "keep_dimensions": True,
        }
        found = reader.add("ReduceElements", [found], **how)
    if kind == "L2":
        found = reader.add("Sqrt", [found])
    elif kind == "LogSum":
        found = reader.add("Log", [found])
    return Tensor(found, value.batch, value.fold)


@reads("ArgMax", "ArgMin")
def _arg(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value, given = tensor(inputs[0]), attributes_of(node)
    axis = given.get("axis", 0)
    if given.get("select_last_index", 0):  # the first one, counted from the end
        size = size_of(value, axis)
        value = picked(reader, value, axis, range(size)[::-1])
    kind = "Argmax" if node.op_type == "ArgMax" else "Argmin"
    found = reader.add(
        "ReduceElements", [value.node], reduction_op=kind, axis=cntk_axis(value, axis), keep_dimensions=True
    )
    if given.get("select_last_index", 0):
        found = reader.add("Minus", [reader.number(size - 1), found])
    kept = Tensor(found, value.batch, value.fold)
    return kept if given.get("keepdims", 1) else squeezed(reader, kept, [axis])


@reads("Softmax", "LogSoftmax", "Hardmax")
def _softmax(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value = tensor(inputs[0])
    axis = attributes_of(node).get("axis", -1 if reader.opset >= 13 else 1)
    place = value.place(axis)
    if len(value.shape) == 1 or (reader.opset < 13 and place == value.batch == 0):
        return Tensor(reader.add(node.op_type, [value.node]), value.batch, value.fold)
    if node.op_type == "Hardmax":
        how: dict[str, Any] = {"reduction_op": "Argmax", "axis": cntk_axis(value, axis), "keep_dimensions": True}
        largest = Tensor(reader.add("ReduceElements", [value.node], **how), value.batch, value.fold)
        own = np.arange(size_of(value, axis), dtype=np.float64).reshape(-1, *[1] * (value.rank - 1 - axis % value.rank))
        return of_two(reader, "Equal", largest, Constant(own))
    total = reader.add(
        "ReduceElements", [value.node], reduction_op="LogSum", axis=cntk_axis(value, axis), keep_dimensions=True
    )
    found = reader.add("Minus", [value.node, total])
    if node.op_type == "Softmax":
        found = reader.add("Exp", [found])
    return Tensor(found, value.batch, value.fold)
