"""A network as a graph of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from cntk_core.api import CntkError, Input, Network, Node, Parameter, Shape, ShapeError, is_delay, raise_problems
from cntk_core.api.builders import BATCH
from cntk_core.api.engines import Loop, make_plan
from cntk_model_onnx.export import chains, elementwise, images, products, randomness, regions, sequences, shapes  # noqa: F401
from cntk_model_onnx.export.cells import write_cells
from cntk_model_onnx.export.choose import OF_TRAINING, outputs_of
from cntk_model_onnx.export.graph import TYPES, Array, GraphWriter, Refused, Store
from cntk_model_onnx.export.loops import write_loop
from cntk_model_onnx.export.scope import Frames, Scope, Value
from cntk_model_onnx.export.table import ALIASES, REFUSED, TAKES_INDEX, WRITERS
from cntk_model_onnx.settings import OPSET, ExportSettings
from cntk_model_onnx.sizes import are_free

IR_VERSION = 10
"""The version of the file format that belongs to :data:`~cntk_model_onnx.settings.OPSET`."""

PRODUCER = "cntk-core"


@attrs.frozen
class Exported:
    """A graph, and what it is made of.

    Attributes:
        model: without the constant tensors.
        tensors: these, by name.
    """

    model: ModelProto
    tensors: Mapping[str, Array]


def export(network: Network, settings: ExportSettings) -> Exported:
    """Write a network, with its values, as a graph.

    Raises:
        Problems, UnsupportedError: names all nodes that cannot be written, and why.
        NetworkError: there is no output.
    """
    return _Exporter(network, settings).run()


def looks_along(node: Node) -> bool:
    """Whether a node treats the frames of a sequence otherwise than each by itself."""
    op = node.op
    makes = op.makes_axis(node.inputs[0].shape if node.inputs else None, node.attributes)
    others = op.axis_of is not None and not op.traits.passes_through
    over_time = op.name == "OptimizedRNNStack" and node.attributes.axis == -1
    return bool(is_delay(node) or makes or others or over_time or op.along_sequences)


class _Exporter:
    def __init__(self, network: Network, settings: ExportSettings) -> None:
        self.network, self.settings = network, settings
        self.outputs = outputs_of(network)
        self.plan = make_plan(network, self.outputs, fuse=False, runnable=False)
        self.order = [node for step in self.plan.steps for node in step.nodes]
        self.store = Store(network.dtype, [node.name for node in network])
        self.graph = GraphWriter(self.store)
        self.scope = Scope(self.graph, {})
        self.values: dict[Node, Value] = {}
        self.inputs: list[ValueInfoProto] = []
        self.lengths: dict[str, str] = {}
        self.dense: dict[Node, Value] = {}
        self.problems: dict[Node, CntkError] = {}
        self.sequential = any(looks_along(node) for node in self.order)

    def run(self) -> Exported:
        for given in self.plan.inputs:
            self._input(given)
        for step in self.plan.steps:
            if isinstance(step, Loop):
                self._loop(step)
            else:
                for node in step.nodes:
                    self._single(node)
        raise_problems(list(dict.fromkeys(self.problems.values())))
        outputs = [self._output(node) for node in self.outputs]
        return Exported(self._model(outputs), self.store.initializers)

    # -- leaves -------------------------------------------------------------------------------------------

    def _lead(self, node: Node) -> int:
        if not node.framed:
            return 0
        return 2 if self.sequential and node.axis != BATCH else 1

    def _input(self, node: Input) -> None:
        lead = self._lead(node)
        shape = node.known_shape
        index = node.sparse and self.settings.sparse == "index" and len(shape) == 1
        one = lead > 0 and self.settings.sequences == "one" and self.sequential
        sizes = self._lead_names(node, lead)[int(one) :] + ([] if index else self._sizes(node.name, shape))
        kind = TensorProto.INT64 if index else TYPES[self.store.dtype]
        self.inputs.append(helper.make_tensor_value_info(node.name, kind, sizes))
        if index:
            self.inputs[-1].doc_string = f"numbers of the elements that are 1, from 0 to {shape[0] - 1}"
        self.graph.near = node.name
        name = self.scope.op("Unsqueeze", node.name, self.scope.ints(0)) if one else node.name
        self.values[node] = Value(name, shape, lead, node.axis, index)
        if lead and node.axis not in self.scope.axes:
            frames = self.scope.axes[node.axis] = Frames(lead, name)
            if lead == 2 and one:
                frames.lengths = self.scope.op("Shape", name, start=1, end=2)
            elif lead == 2:
                wanted = f"{node.axis}_lengths" if node.axis else "lengths"
                frames.lengths = self.lengths[node.axis] = self.store.unique(wanted)

    def _lead_names(self, node: Node, lead: int) -> list[Any]:
        return ["N", f"T_{node.axis}" if node.axis else "T"][:lead]

    def _sizes(self, name: str, shape: Shape) -> list[Any]:
        return [
            getattr(dim, "name", "") or f"{name}_{place}" if are_free([dim]) else int(dim)
            for place, dim in enumerate(shape)
        ]

    def value_of(self, node: Node) -> Value:
        """Return the value of a node that is there: written before, or constant.

        Raises:
            Refused: it could not be written; that was told already.
        """
        found = self.values.get(node)
        if found is not None:
            return found
        if node in self.problems or node.value is None:
            raise Refused("")
        self.store.initializers[node.name] = np.asarray(node.value, self.store.dtype)
        self.values[node] = Value(node.name, node.known_shape)
        return self.values[node]

    def _dense(self, node: Node, value: Value, scope: Scope) -> Value:
        """One-hot samples of the numbers of their elements."""
        if scope is self.scope and node in self.dense:
            return self.dense[node]
        depth = self.store.constant(value.shape[0])
        name = scope.op("OneHot", value.name, depth, scope.numbers([0.0, 1.0]), axis=-1)
        found = attrs.evolve(value, name=name, index=False)
        if scope is self.scope:
            self.dense[node] = found
        return found

    # -- nodes --------------------------------------------------------------------------------------------

    def _single(self, node: Node) -> None:
        if isinstance(node, Input | Parameter) or node.value is not None:
            return
        self.graph.near = node.name
        if node.framed and node.axis not in self.scope.axes:  # one frame for each sequence, if its writer says nothing
            self.scope.axes[node.axis] = Frames(1, "")
        try:
            self.values[node] = self._write(self.scope, node, self.value_of)
        except Refused as refused:
            self._refuse(node, refused)
            return
        if node.framed and not self.scope.axes[node.axis].like:
            self.scope.axes[node.axis].like = self.values[node].name

    def _refuse(self, node: Node, refused: Refused) -> None:
        """Keep why a node cannot be written; what reads it is silent."""
        if refused.reason:
            self.problems.setdefault(node, refused.as_error(node))
        else:
            self.problems.setdefault(node, self._first_problem(node))

    def _first_problem(self, node: Node) -> CntkError:
        return next((self.problems[child] for child in node.inputs if child in self.problems), UNKNOWN)

    def _loop(self, loop: Loop) -> None:
        inside = set(loop.nodes)
        read = {child for node in self.order if node not in inside for child in node.inputs} | set(self.outputs)
        loop = attrs.evolve(loop, writes=tuple(node for node in loop.writes if node in read))
        try:
            found = self._as_operation(loop)
            if found is None:
                found = write_loop(self.scope, loop, self.value_of, self._write_or_tell)
        except Refused as refused:
            for node in loop.nodes:
                self._refuse(node, refused if not self.problems else Refused(""))
            return
        self.values.update(found)

    def _as_operation(self, loop: Loop) -> Mapping[Node, Value] | None:
        if self.settings.loops == "scan":
            return None
        count = len(self.graph.nodes)
        try:
            return write_cells(self.scope, loop, self.value_of)
        except Refused:
            del self.graph.nodes[count:]
            return None

    def _write_or_tell(self, scope: Scope, node: Node, value_of: Callable[[Node], Value]) -> Value:
        try:
            return self._write(scope, node, value_of)
        except Refused as refused:
            self._refuse(node, refused)
            return Value(node.name, node.known_shape, 1, node.axis)  # goes on, to find all problems

    def _write(self, scope: Scope, node: Node, value_of: Callable[[Node], Value]) -> Value:
        name = node.op.name
        if name in REFUSED:
            raise Refused(*REFUSED[name])
        if name in OF_TRAINING:
            raise Refused("it belongs to training", "Mark other outputs, which do not need it.")
        write = WRITERS.get(name)
        if write is None and name not in ALIASES:
            raise Refused("there is no such operation in ONNX", "Write the node with other operations.")
        values = [value_of(child) for child in node.inputs]
        if name in ALIASES:
            return values[0]
        assert write is not None
        values = [
            self._dense(child, value, scope) if value.index and not (name in TAKES_INDEX and place == 1) else value
            for place, (child, value) in enumerate(zip(node.inputs, values, strict=True))
        ]
        count = len(scope.graph.nodes)
        try:
            found = write(scope, node, values)
        except ShapeError as error:
            known = not any(are_free(value.shape) for value in values)
            reason = "" if known else "it needs sizes that only the data have: "
            raise Refused(f"{reason}{error.message}", "Give the input a fixed size.") from None
        if isinstance(found, Value):
            return found
        if not scope.outer:  # what the body of a loop computes is told apart from what comes out of the loop
            found = scope.graph.name_last(found, node.name, count)
        return Value(found, node.known_shape, scope.lead_of(node), node.axis)

    # -- the file -----------------------------------------------------------------------------------------

    def _output(self, node: Node) -> ValueInfoProto:
        value = self.value_of(node)
        if value.index:
            value = self._dense(node, value, self.scope)
        self.graph.near = node.name
        name = value.name
        lead = value.lead
        if lead and self.settings.sequences == "one" and self.sequential:
            name, lead = self.scope.op("Squeeze", name, self.scope.ints(0)), lead - 1
            names = self._lead_names(node, value.lead)[1:]
        else:
            names = self._lead_names(node, lead)
        wanted = node.name
        if name != wanted or any(info.name == name for info in self.inputs) or name in self.store.initializers:
            taken = {output for each in self.graph.nodes for output in each.output}
            taken |= {info.name for info in self.inputs} | self.store.initializers.keys()
            wanted = self.store.unique(f"{node.name}_output") if node.name in taken else node.name
            self.graph.nodes.append(helper.make_node("Identity", [name], [wanted], name=wanted))
        return helper.make_tensor_value_info(
            wanted, TYPES[self.store.dtype], [*names, *self._sizes(node.name, node.known_shape)]
        )

    def _model(self, outputs: Sequence[ValueInfoProto]) -> ModelProto:
        nodes = _needed(self.graph.nodes, [info.name for info in outputs])
        read = set(_read(nodes))
        batch = ["N"]
        extra = [
            helper.make_tensor_value_info(name, TensorProto.INT64, batch)
            for name in self.lengths.values()
            if name in read
        ]
        for name in [name for name in self.store.initializers if name not in read]:
            del self.store.initializers[name]
        graph = helper.make_graph(nodes, "network", [*self.inputs, *extra], list(outputs))
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name=PRODUCER,
        )


UNKNOWN = CntkError("a node that it needs cannot be written")


def _needed(nodes: Sequence[NodeProto], outputs: Sequence[str]) -> list[NodeProto]:
    """Nodes without those that no output needs: what a loop that became one operation had around it."""
    wanted, found = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            found.append(node)
            wanted.update(_read([node]))
    return found[::-1]


def _read(nodes: Sequence[Any]) -> list[str]:
    """The tensors that nodes read, those of bodies too."""
    found: list[str] = []
    for node in nodes:
        found += node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += _read(attribute.g.node)
                found += [output.name for output in attribute.g.output]
    return found
