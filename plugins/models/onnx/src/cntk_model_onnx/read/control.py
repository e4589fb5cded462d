"""Scan, Loop and If: bodies are read as often as they run, with the values that they have then."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, numpy_helper

from cntk_core.api import elements
from cntk_model_onnx.read.elementwise import together
from cntk_model_onnx.read.folding import attributes_of
from cntk_model_onnx.read.kinds import kind_of_type
from cntk_model_onnx.read.shapes import joined, length_of, part, squeezed, unsqueezed
from cntk_model_onnx.read.table import reads
from cntk_model_onnx.read.values import WHOLE, Constant, Tensor, Unreadable, Value, numbers, operand

if TYPE_CHECKING:
    from cntk_model_onnx.read.importer import Importer

_MOST_STEPS = 512


class _Body:
    """A graph that is read once for each time that it runs."""

    def __init__(self, reader: Importer, graph: GraphProto) -> None:
        self._reader, self._graph = reader, graph
        self._names = [info.name for info in graph.input]
        self._kinds = {info.name: kind_of_type(info.type.tensor_type.elem_type) for info in graph.input}
        self._constants = {each.name: self._constant(each) for each in graph.initializer}

    def _constant(self, tensor: TensorProto) -> Constant:
        if tensor.data_location == TensorProto.EXTERNAL:
            raise Unreadable("constants of its body lie in another file")
        name = "" if tensor.name in self._reader.values else tensor.name
        return Constant(np.asarray(numpy_helper.to_array(tensor)), name)

    def run(self, given: Sequence[Value | None]) -> list[Value]:
        """Return what the graph computes of its inputs."""
        if len(self._names) != len(given):
            raise Unreadable("its body has not as many inputs as it gets")
        wanted = [info.name for info in self._graph.output]
        inner = {**self._constants, **dict(zip(self._names, given, strict=True))}
        found = self._reader.run_nodes(self._graph.node, inner, self._kinds, wanted)
        if any(each is None for each in found):
            raise Unreadable("its body does not compute all of its outputs")
        return [each for each in found if each is not None]


def _truth(value: Value | None, what: str) -> bool:
    if not isinstance(value, Constant) or value.array.size != 1:
        raise Unreadable(f"{what} is known only with the data")
    return bool(value.array.reshape(-1)[0])


@reads("If")
def _if(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Sequence[Value]:
    given = attributes_of(node)
    branches = given["then_branch"], given["else_branch"]
    condition = inputs[0]
    if isinstance(condition, Constant):
        return _Body(reader, branches[0 if _truth(condition, "its condition") else 1]).run([])
    sides = [_Body(reader, branch).run([]) for branch in branches]
    return [_either(reader, condition, *pair) for pair in zip(*sides, strict=True)]


def _either(reader: Importer, condition: Value | None, yes: Value, no: Value) -> Value:
    """One of two values: for the whole minibatch, or for each sample by its own condition.

    A file whose condition is of the samples runs for one sample at a time, since a condition is one truth.
    """
    if not isinstance(condition, Tensor) or elements(condition.shape) != 1:
        raise Unreadable("its condition is more than one truth")
    known = isinstance(yes, Constant) and isinstance(no, Constant) and condition.batch == WHOLE
    nodes, batch, fold = together(reader, [yes, no, condition] if known else [yes, no])
    nodes = nodes[:2]
    if nodes[0].known_shape != nodes[1].known_shape:
        raise Unreadable("its results have other sizes if its condition holds")
    if condition.batch != WHOLE and (batch == WHOLE or fold != 1):
        raise Unreadable("its condition differs from sample to sample, and its results do not")
    truth = reader.add("Reshape", [condition.node], dims=(1,) * max(1, len(nodes[0].known_shape)))
    return Tensor(reader.add("If", [truth, *nodes]), batch, fold)


@reads("Loop")
def _loop(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Sequence[Value]:
    body = _Body(reader, attributes_of(node)["body"])
    most: float = math.inf
    if inputs and inputs[0] is not None:
        trips = numbers(inputs[0], "number of steps").reshape(-1)[0]
        most = int(trips) if isinstance(trips, int | np.integer) else most
    condition = operand(inputs, 1)
    going = condition is None or _truth(condition, "its condition")
    states = list(inputs[2:])
    rows: list[list[Value]] = []
    step = 0
    while going and step < most:
        if step == _MOST_STEPS:
            raise Unreadable(f"it takes more than {_MOST_STEPS} steps")
        found = body.run([Constant(np.asarray(step)), Constant(np.asarray(True)), *states])
        going = _truth(found[0], "how many steps it takes")
        states = list(found[1 : 1 + len(states)])
        rows.append(found[1 + len(states) :])
        step += 1
    if not rows and len(node.output) > len(states):
        raise Unreadable("it takes no steps")
    ends = [each for each in states if each is not None]
    return [*ends, *(_stacked(reader, each, 0) for each in zip(*rows, strict=True))]


def _stacked(reader: Importer, parts: Sequence[Value], axis: int) -> Value:
    """Values of steps along a new axis."""
    if all(isinstance(each, Constant) for each in parts):
        return Constant(np.stack([each.array for each in parts if isinstance(each, Constant)], axis))
    like = next(each for each in parts if isinstance(each, Tensor))
    found = []
    for each in parts:
        if isinstance(each, Constant):
            (node,), *_ = _constants(reader, each, like)
            each = Tensor(node, like.batch, like.fold)
        found.append(unsqueezed(reader, each, axis % (each.rank + 1)))
    return joined(reader, found, axis)


def _constants(reader: Importer, value: Constant, like: Tensor) -> tuple[Any, ...]:
    nodes, batch, fold = together(reader, [value, like])
    return nodes[:1], batch, fold


@reads("Scan")
def _scan(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Sequence[Value]:
    given = attributes_of(node)
    if reader.opset < 9:
        raise Unreadable("it is of a version of ONNX before 9")
    body, count = _Body(reader, given["body"]), given["num_scan_inputs"]
    states, scanned = list(inputs[: len(inputs) - count]), list(inputs[len(inputs) - count :])
    axes = given.get("scan_input_axes", [0] * count)
    backward = given.get("scan_input_directions", [0] * count)
    lengths = {length_of(value, axis) for value, axis in zip(scanned, axes, strict=True)}
    if len(lengths) != 1 or not 0 < (steps := lengths.pop()) <= _MOST_STEPS:
        raise Unreadable("how many steps it takes is not the same for all, or more than can be written out")
    rows: list[list[Value]] = []
    for step in range(steps):
        places = [steps - 1 - step if back else step for back in backward]
        frames = [_frame(reader, *each) for each in zip(scanned, axes, places, strict=True)]
        found = body.run([*states, *frames])
        states = list(found[: len(states)])
        rows.append(found[len(states) :])
    columns = list(zip(*rows, strict=True))
    axes = given.get("scan_output_axes", [0] * len(columns))
    turned = given.get("scan_output_directions", [0] * len(columns))
    ends = [each for each in states if each is not None]
    made = zip(columns, axes, turned, strict=True)
    return [*ends, *(_stacked(reader, column[::-1] if back else column, axis) for column, axis, back in made)]


def _frame(reader: Importer, value: Value | None, axis: int, place: int) -> Value:
    """A value at a place of an axis, without the axis."""
    if isinstance(value, Constant):
        return Constant(np.take(value.array, place, axis))
    assert isinstance(value, Tensor)
    return squeezed(reader, part(reader, value, axis, place, place + 1), [axis])
