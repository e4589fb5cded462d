"""From a file of CNTK 2 to a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from cntk_core.api import (
    CntkError,
    FindOp,
    Input,
    ModelFormatError,
    Network,
    Node,
    Op,
    Parameter,
    Problems,
    UnsupportedError,
)
from cntk_core.api.builders import BATCH, Placeholder, infer_node, unsound
from cntk_model_cntk2.attributes import READERS, attributes_of
from cntk_model_cntk2.axes import SEQUENCE, dynamic_axis, memory_shape
from cntk_model_cntk2.graph import Graph
from cntk_model_cntk2.naming import add_blocks, choose_names
from cntk_model_cntk2.operations import COUNTED, FUTURE, OPERATIONS, PAST, REFUSED, SHAPED, Operation
from cntk_model_cntk2.parts import PARTS, Part
from cntk_model_cntk2.records import CONSTANT, INPUT, PARAMETER, Composite, Function, Variable, read_composite
from cntk_model_cntk2.values import INFERRED, Axis

_RESHAPE = attributes_of("Reshape")
_LANGUAGE = "model"
_MARKS = {"aggregateLoss": "criterion", "aggregateEvalMetric": "evaluation"}
"""How a Trainer of the original calls what it adds up over a minibatch."""


@attrs.frozen(eq=False)
class Result:
    """An output of the function that was saved.

    Attributes:
        name: as the original calls it; "" if it has no name.
        uid: as the original calls its variable.
        node: ours.
        shape: in memory order; as in the original, a single number may have no axes.
        axes: ``none``, ``batch`` or ``sequence``.
    """

    name: str
    uid: str
    node: Node
    shape: tuple[int, ...]
    axes: str


@attrs.frozen(eq=False)
class Cntk2Model:
    """A network with what its file says beside.

    Attributes:
        network: ours.
        results: the outputs of the function that was saved, in its order.
        parameters: what a learner of the original has, in its order: those of the saved function, by uid.
        leaves: all parameters and constants that are nodes here, by uid.
    """

    network: Network
    results: tuple[Result, ...]
    parameters: Mapping[str, Parameter]
    leaves: Mapping[str, Parameter]


def load_model(path: Path, find_op: FindOp, dtype: Any = None) -> Cntk2Model:
    """Read a model of CNTK 2 and infer its shapes.

    Args:
        path: the file.
        find_op: ``(language, name) -> Op or None``; the language is ``"model"``.
        dtype: convert to this precision; None keeps that of the file.

    Raises:
        ModelFormatError: the file is damaged or newer, or describes no sound network.
        UnsupportedError: it holds something that is not there; says what.
    """
    composite = read_composite(path)
    try:
        return _Importer(composite, find_op, dtype).load()
    except (ModelFormatError, UnsupportedError):
        raise
    except CntkError as error:
        parts = error.errors if isinstance(error, Problems) else (error,)
        missing = next((part for part in parts if isinstance(part, UnsupportedError)), None)
        raise missing or unsound(path, error) from None
    except Exception as error:
        # Whatever hostile numbers make an op's shape rule do, it is the file that is wrong.
        raise ModelFormatError(f"'{path}' is damaged: its description of the network makes no sense") from error


_SHAPED = {*COUNTED, "Slice", "Convolution"}
"""Operations that are read by the shapes of their inputs."""


class _Importer:
    def __init__(self, composite: Composite, find_op: FindOp, dtype: Any) -> None:
        self.composite = composite
        self.find_op = find_op
        self.graph = Graph(composite)
        leaves = [each for each in composite.variables.values() if each.kind in (INPUT, PARAMETER, CONSTANT)]
        precision = "f8" if any(each.double for each in leaves) else "f4"
        self.network = Network(np.dtype(dtype) if dtype is not None else np.dtype(precision))
        self.leaves: dict[str, Node] = {}
        self.made: dict[str, list[Node]] = {}
        self.members: dict[str, list[Node]] = {}
        self.places: dict[str, list[tuple[Node, int]]] = {}
        self.scalars: set[Node] = set()
        self.single: list[Node] = []
        self.single_axes: set[str] = {BATCH}
        self.current: list[Node] = []
        self.later: list[tuple[Node, Function]] = []

    def load(self) -> Cntk2Model:
        for function in self.graph.order():
            self._make(function)
        for node, function in self.later:
            node.inputs[0] = self.variable(function.inputs[0])
            self._note_places(node, 0, function.inputs[0])
        self._free_loops()
        root = self.composite.functions[self.composite.root]
        uids = [self.graph.steps(uid) for uid in self.graph.results()]
        nodes = [self._output(self.variable(steps[0])) for steps in uids]
        add_blocks(self)
        labels = choose_names(self, dict(zip(nodes, uids, strict=True)))
        for node, role in _roles(nodes).items():
            self.network.mark(node, role)
        self.network.infer()
        for node in self.network:
            self._note_scalar(node)
        single = {node.axis for node in self.single} | {BATCH}
        results = [
            Result(*labels[node], node, () if node in self.scalars else node.known_shape, _axes(node, single))
            for node in nodes
        ]
        leaves = {uid: leaf for uid, leaf in self.leaves.items() if isinstance(leaf, Parameter)}
        return Cntk2Model(self.network, tuple(results), self._parameters(root), leaves)

    # -- variables ----------------------------------------------------------------------------------------

    def variable(self, uid: str) -> Node:
        """Return the node of a variable, which is made if it is a leaf.

        Raises:
            ModelFormatError: there is no such variable, or it stands for nothing.
        """
        last = self.graph.steps(uid)[-1]
        owned = self.graph.owner(last)
        if owned is not None:
            outputs = self.made.get(owned[0].uid, [])
            if owned[1] >= len(outputs):
                raise self.graph.fail(f"there is no output '{last[:80]}'")
            return outputs[owned[1]]
        if last not in self.leaves:
            variable = self.composite.variables.get(last)
            if variable is None:
                raise self.graph.fail(f"there is no variable '{last[:80]}'")
            self.leaves[last] = self.network.add(self._leaf(variable))
        return self.leaves[last]

    def _leaf(self, variable: Variable) -> Node:
        shape = memory_shape(variable.dims)
        if variable.kind == INPUT:
            axis = dynamic_axis(variable.axes)
            framed, name = axis is not None, variable.uid
            made = Input.make(name, shape, sparse=variable.sparse and framed, axis=axis or "", framed=framed)
            made.needs_gradient = variable.needs_gradient
            return made
        if variable.kind not in (PARAMETER, CONSTANT) or variable.value is None:
            variable.entry.fail("stands for nothing")
        if variable.value.dims != variable.dims:
            variable.entry.fail("has values of another shape")
        with np.errstate(all="ignore"):  # what is too large for single precision becomes infinite
            value = variable.value.values.astype(self.network.dtype).reshape(shape)
        rate = float(variable.kind == PARAMETER)
        node = Parameter.make(variable.uid, shape, value=value, learning_rate_multiplier=rate)
        node.needs_gradient = variable.needs_gradient or not rate
        return node

    def constant(self, uid: str) -> float | None:
        """Return the number that a variable always is, None if it is anything else."""
        variable = self.composite.variables.get(self.graph.steps(uid)[-1])
        if variable is None or variable.kind != CONSTANT or variable.value is None or variable.value.values.size != 1:
            return None
        return float(variable.value.values[0])

    def _output(self, node: Node) -> Node:
        """Return an output; a leaf gets a node that passes it on."""
        if node.inputs or node.op.role not in ("input", "parameter"):
            return node
        return self.add(f"{node.name}.output", "Pass", [node])

    # -- functions ----------------------------------------------------------------------------------------

    def _make(self, function: Function) -> None:
        self.members[function.uid] = self.current = []
        operation = OPERATIONS.get(function.operation)
        if operation is None:
            what = REFUSED.get(function.operation, f"number {function.operation}")
            raise UnsupportedError(
                f"'{self.composite.path}': {function.attributes.place} is of the operation {what}, which is not there"
            )
        part = PARTS.get(operation.ours)
        if function.operation in (PAST, FUTURE):
            outputs = [self._delay(function, operation)]
        elif part is not None:
            outputs = part(Part(self, function, self._inputs(function, operation)))
        else:
            outputs = [self._plain(function, operation)]
        self.made[function.uid] = outputs
        if operation.scalar and (outputs[0].shape or (1,)) == (1,):
            self.scalars.add(outputs[0])

    def _inputs(self, function: Function, operation: Operation) -> list[Node]:
        arranged = operation.arranged(len(function.inputs))
        if len(arranged) < self._op(operation.ours).arity[0]:
            function.attributes.fail(f"has {len(arranged)} inputs")
        if sorted(arranged) != list(range(len(function.inputs))):
            function.attributes.fail(f"has {len(function.inputs)} inputs")
        inputs = [self.variable(function.inputs[index]) for index in arranged]
        if operation.ours in _SHAPED and any(node.shape is None for node in inputs):
            self._settle()
        if operation.ours in COUNTED:
            inputs = [self._number(node) if node in self.scalars else node for node in inputs]
        return self.reconciled(operation.ours, inputs)

    def _settle(self) -> None:
        """Find out shapes that come from loops whose functions are all made."""
        for node, function in self.later:
            owned = self.graph.owner(self.graph.steps(function.inputs[0])[-1])
            if owned is None or owned[0].uid in self.made:
                node.inputs[0] = self.variable(function.inputs[0])
        with suppress(CntkError):  # said again when all is known
            self.network.infer(partial=True)

    def _number(self, node: Node) -> Node:
        """Return a single number without the axis that it has here."""
        if node.shape != (1,):
            return node
        name = f"{node.name}.number"
        return self.network[name] if name in self.network else self.add(name, "Reshape", [node], _RESHAPE((), 1, 0))

    def _plain(self, function: Function, operation: Operation) -> Node:
        inputs = self._inputs(function, operation)
        read = READERS.get(operation.ours)
        attributes = None if read is None else read(function.attributes, inputs)
        node = self.add(function.uid, operation.ours, inputs, attributes)
        for index, given in enumerate(operation.arranged(len(function.inputs))):
            self._note_places(node, index, function.inputs[given])
        if operation.ours == "Where" and _is_single(function):
            self._note_single(node)
        if operation.ours == "BatchNormalization" and function.version < 4 and len(node.inputs) == 5:
            count = Parameter.make(f"{node.name}.run_sample_count", (1,), value=np.zeros(1, self.network.dtype))
            count.learning_rate_multiplier = 0.0
            node.inputs.append(self.network.add(count))
        return node

    def _delay(self, function: Function, operation: Operation) -> Node:
        if len(function.inputs) != 2:
            function.attributes.fail(f"has {len(function.inputs)} inputs")
        attributes = READERS[operation.ours](function.attributes, ())
        source, state = function.inputs
        declared = self.composite.variables.get(source)
        dims = declared.dims if declared is not None and INFERRED not in declared.dims else None
        if dims is not None and min(dims, default=1) > 0:
            attributes = attrs.evolve(attributes, dims=dims)
        number = self.constant(state)
        if number is not None:
            attributes = attrs.evolve(attributes, default_hidden_activation=number)
        inputs = [self._stand_in(source, declared)] + ([] if number is not None else [self.variable(state)])
        single = dims == () and isinstance(inputs[0], Placeholder)
        if single:  # a loop of numbers, which have one axis here
            attributes = attrs.evolve(attributes, dims=(1,))
        node = self.add(function.uid, operation.ours, inputs, attributes)
        if single:
            self.scalars.add(node)
        if number is None:
            self._note_places(node, 1, state)
        self.later.append((node, function))
        return node

    def _stand_in(self, source: str, declared: Variable | None) -> Node:
        """Return what stands for the input of a delay until all functions are made."""
        last = self.graph.steps(source)[-1]
        owned = self.graph.owner(last)
        if owned is None or owned[0].uid in self.made:
            return self.variable(source)
        known = declared is not None and min(declared.dims, default=1) > 0 and len(declared.axes) > 0
        if not known or declared is None:
            return Placeholder.make(f"before {last}")
        shape = memory_shape(declared.dims) or (1,)
        return Placeholder.make(f"before {last}", shape, axis=dynamic_axis(declared.axes))

    def _free_loops(self) -> None:
        """Let what is repeated for the steps of a loop take them from where the loop has them from.

        The original asks a value in the loop for its steps, before it is there.
        """
        for node in self.network:
            if node.op.name == "ReconcileDynamicAxis":
                like = node.inputs[1]
                if like.op.role != "input" and _depends(like, node):
                    node.inputs[1] = _source_of_axis(like)

    # -- nodes --------------------------------------------------------------------------------------------

    def add(self, name: str, op_name: str, inputs: list[Node], attributes: Any = None) -> Node:
        """Add a node, and find out its shape if those of its inputs are known."""
        op = self._op(op_name)
        node = self.network.add(Node(name, op, inputs, op.attributes() if attributes is None else attributes))
        if all(child.shape is not None for child in inputs):
            with suppress(CntkError):  # said again when all is known
                infer_node(node)
        self._note_scalar(node)
        over_steps = node.op.name == "ReduceElements" and node.attributes.axis == SEQUENCE
        if over_steps or node.op.name in ("UnpackSequence", "ToBatch"):
            self._note_single(node)
        self.current.append(node)
        return node

    def _note_scalar(self, node: Node) -> None:
        """Note a node whose value is made of numbers without axes, and has none there either."""
        plain = node.op.name not in SHAPED and bool(node.inputs)
        if node.shape == (1,) and plain and all(each.shape == () or each in self.scalars for each in node.inputs):
            self.scalars.add(node)

    def _note_single(self, node: Node) -> None:
        """Note a node that makes an axis with one step in each sequence."""
        self.single.append(node)
        self.single_axes.add(node.axis or node.name)

    def _op(self, name: str) -> Op:
        op = self.find_op(_LANGUAGE, name)
        if op is None:
            raise UnsupportedError(f"'{self.composite.path}' needs the operation {name}, which is not there")
        return op

    def reconciled(self, op_name: str, inputs: list[Node]) -> list[Node]:
        """Return inputs of an op that meet: what has one value for each sequence is repeated for its steps."""
        op = self._op(op_name)
        if op.axis_of is not None or len(inputs) < 2:
            return inputs
        single = self.single_axes
        like = next((node for node in inputs if node.framed and node.axis not in single), None)
        if like is None:
            return inputs
        return [self._repeated(node, like) if node.framed and node.axis in single else node for node in inputs]

    def _repeated(self, node: Node, like: Node) -> Node:
        if isinstance(like, Placeholder):
            return node
        name = f"{node.name}.repeated"
        while name in self.network:
            name += "'"
        return self.add(name, "ReconcileDynamicAxis", [node, like])

    def _note_places(self, node: Node, index: int, uid: str) -> None:
        for step in self.graph.steps(uid):
            self.places.setdefault(step, []).append((node, index))

    # -- parameters ---------------------------------------------------------------------------------------

    def _parameters(self, root: Function) -> dict[str, Parameter]:
        """The parameters in the order in which the original lists those of a function."""
        found: dict[str, Parameter] = {}
        seen = {root.uid}
        waiting = [root]
        while waiting:
            function = waiting.pop()
            following: list[Function] = []
            for uid in function.inputs:
                steps = self.graph.steps(uid)
                leaf = self.leaves.get(steps[-1])
                if isinstance(leaf, Parameter) and leaf.learning_rate_multiplier > 0:
                    found.setdefault(steps[-1], leaf)
                owned = next((each for step in steps if (each := self.graph.owner(step)) is not None), None)
                if owned is not None and owned[0].uid not in seen:
                    seen.add(owned[0].uid)
                    following.append(owned[0])
            waiting += reversed(following)
        return found


def _roles(roots: Sequence[Node]) -> dict[Node, str]:
    """The group of each root. Its name says it where a Trainer has added it; beside other outputs, a loss is none."""
    told = {node: _MARKS.get(node.name, "output") for node in roots}
    losses = [node for node in roots if node.op.role == "criterion"]
    if len(losses) < len(roots):
        for node in losses:
            learns = any(node.op.flows_to(index) for index in range(len(node.inputs)))
            told[node] = _MARKS.get(node.name, "criterion" if learns else "evaluation")
    return told


def _depends(node: Node, other: Node) -> bool:
    """Whether a node needs another one's value, at whatever step."""
    seen, waiting = {node}, [node]
    while waiting:
        for child in waiting.pop().inputs:
            if child is other:
                return True
            if child not in seen:
                seen.add(child)
                waiting.append(child)
    return False


def _source_of_axis(node: Node) -> Node:
    """Return an input, or what makes an axis, with the steps of a node; the node itself if there is none."""
    seen, waiting = {node}, [node]
    while waiting:
        found = waiting.pop(0)
        if found.op.role == "input" or found.op.new_axis:
            return found
        if found.op.axis_of is not None:
            following = [found.inputs[found.op.axis_of]]
        else:
            following = [child for child in found.inputs if child.axis == node.axis and child.framed is not False]
        new = [child for child in following if child not in seen]
        seen.update(new)
        waiting += new
    return node


def _is_single(function: Function) -> bool:
    """Whether a Where finds one step in each sequence, so that the original has no sequences there."""
    entry = function.attributes
    if "newDynamicAxes" in entry:
        return not any(axis.ordered for axis in entry.each("newDynamicAxes", Axis))
    factor, more = (entry.take(f"newSequenceAxisLength{each}Factor", int, -1) for each in ("Scaling", "Additive"))
    return (factor, more) == (0, 1)


def _axes(node: Node, single: Iterable[str]) -> str:
    return "none" if not node.framed else "batch" if node.axis in single else "sequence"


NetworkMaker = _Importer
"""Makes a network of records, wherever they come from: what front ends extend for functions that no file has."""
