"""From a network to a file of CNTK 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cntk_core.api import (
    CntkError,
    Input,
    Network,
    NetworkError,
    Node,
    Op,
    Parameter,
    UnsupportedError,
    raise_problems,
)
from cntk_core.api.builders import BATCH, write_file
from cntk_model_cntk2.axes import SEQUENCE, dynamic_axes
from cntk_model_cntk2.encode import encode
from cntk_model_cntk2.operations import OPERATIONS, SHAPED
from cntk_model_cntk2.records import BLOCK, COMBINE, CONSTANT, DOUBLE, FLOAT, INPUT, PARAMETER, PLACEHOLDER
from cntk_model_cntk2.save_blocks import BlockPlan, Part, is_leaf
from cntk_model_cntk2.values import FREE, Array, NDShape, SizeT
from cntk_model_cntk2.writers import WRITERS, finds_one_step, makes_number
from cntk_model_cntk2.written import Written

_COMPOSITE = 3
_OLD, _NEW = 15, 24
"""Versions of functions: CNTK 2.0 writes the first, and knows operations up to :data:`_LAST_OLD`; 2.7 the second."""

_LAST_OLD = 76
_ROLES = ("output", "criterion", "evaluation")
NUMBERS = {
    **{operation.ours: number for number, operation in reversed(OPERATIONS.items())},
    "Pass": 62,
    "SumColumnElements": 39,
    "DiagTimes": 21,
    "MaxPooling": 17,
    "AveragePooling": 17,
    "LookupTable": 31,
    "PerDimMeanVarNormalization": 21,
    "PerDimMeanVarDeNormalization": 19,
}
"""Our op to the number of the operation that computes it."""

_AXES_MATTER = {*SHAPED, "TransposeDimensions"}
"""Ops that need the one axis that a number has here and not there."""


def save_model(network: Network, path: Path, *, blocks: bool = False) -> None:
    """Write a network with its values: what its outputs, criteria and evaluations need, or what nobody reads.

    Args:
        network: the network.
        path: the file.
        blocks: write blocks as functions; by default as what is inside them.

    Raises:
        Problems, UnsupportedError: operations that CNTK 2 does not have; all of them, with their nodes.
        NetworkError: a parameter has no value.
        OSError: the file cannot be written.
    """
    write_file(path, encode(_Exporter(network, blocks=blocks).dictionary()))


class _Exporter:
    def __init__(self, network: Network, *, blocks: bool) -> None:
        self.network = network
        self.roots = list(dict.fromkeys(node for role in _ROLES for node in network.roots[role]))
        read = {child for node in network for child in node.inputs}
        self.roots = self.roots or [node for node in network if node not in read and node.inputs]
        self.nodes = network.order(self.roots)
        self.variables: list[dict[str, Any]] = []
        self.functions: list[dict[str, Any]] = []
        self.uids: dict[Node, str] = {}
        self.written: set[str] = set()
        self.count = self.seeds = 0
        self.newest = 0
        self.data_type = SizeT(DOUBLE if network.dtype == np.float64 else FLOAT)
        self.single = {node.axis for node in self.nodes if _has_single_steps(node)}
        self.plan = BlockPlan(network, self.nodes, self.roots, wanted=blocks)
        self.block_uids = dict.fromkeys(self.plan.parts, "")
        self.readers: dict[Node, set[str]] = {}
        for node in self.nodes:
            for child in node.inputs:
                self.readers.setdefault(child, set()).add(node.op.name)
        self.scalars = self._numbers()

    def dictionary(self) -> dict[str, Any]:
        """Return the file.

        Raises:
            Problems, UnsupportedError, NetworkError: as for :func:`save_model`.
        """
        self._check()
        for node in self.nodes:
            self._leaf_or_name(node)
        for part in self.block_uids:
            self.block_uids[part] = self.unique("Block")
        self._units(None)
        if not self.functions and not self.roots:
            raise NetworkError("there is nothing to write: the network computes nothing")
        outputs = [self._output(node) for node in self.roots]
        root = self.functions[-1]["uid"]
        several = any(len(part.outputs) > 1 for part, uid in self.block_uids.items() if uid == root)
        if several or len(outputs) != 1 or not outputs[0].startswith(f"{root}_Output_"):
            root = self.add_function("Combine", COMBINE, outputs, {})
        version = SizeT(_NEW if self.newest > _LAST_OLD else _OLD)
        for function in self.functions:
            function["version"] = version
        return {
            "version": SizeT(_COMPOSITE),
            "type": "CompositeFunction",
            "root": root,
            "uid": self.unique("CompositeFunction"),
            "inputs": self.variables,
            "primitive_functions": self.functions,
        }

    def _check(self) -> None:
        problems: list[CntkError] = []
        for node in self.nodes:
            if isinstance(node, Parameter) and node.value is None:
                problems.append(NetworkError(f"the parameter '{node.name}' has no value", where=node.where))
            known = isinstance(node, Input | Parameter) or node.value is not None or node.op.name in NUMBERS
            if not known:
                message = f"CNTK 2 has no operation {node.op.name}, which is that of '{node.name}'"
                problems.append(UnsupportedError(message, where=node.where))
        raise_problems(problems)

    def _numbers(self) -> set[Node]:
        """The nodes whose value has no axes there: what sums up all, and what is computed of nothing else."""
        own = {node for node in self.nodes if node.op.name in NUMBERS and _makes_number(node)}
        found = {node for node in self.nodes if node.inputs and node.shape == (1,) and node.op.name not in SHAPED} | own
        while wrong := {node for node in found - own if any(self._has_axes(child, found) for child in node.inputs)}:
            found -= wrong
        return found

    def _has_axes(self, node: Node, numbers: set[Node]) -> bool:
        return node.shape != () and (node not in numbers or self._is_widened(node))

    def _is_widened(self, node: Node) -> bool:
        """Whether a number gets the one axis that it has here, since something needs it."""
        return not self.readers.get(node, set()).isdisjoint(_AXES_MATTER)

    # -- variables ----------------------------------------------------------------------------------------

    def unique(self, kind: str) -> str:
        """Return a uid that nothing else has."""
        self.count += 1
        return f"{kind}{self.count}"

    def variable(self, kind: int, uid: str, dims: Sequence[int], name: str = "", **more: Any) -> str:
        """Add a variable and return its uid."""
        record = {
            "version": SizeT(1),
            "type": "Variable",
            "uid": uid,
            "kind": SizeT(kind),
            "data_type": self.data_type,
            "dynamic_axis": [],
            "is_sparse": False,
            "needs_gradient": False,
            "shape": NDShape(tuple(dims)),
        }
        self.variables.append({**record, **({"name": name} if name else {}), **more})
        return uid

    def constant(self, value: Any, name: str = "", *, learned: bool = False) -> str:
        """Add a parameter or a constant with a value in memory order, and return its uid."""
        value = np.asarray(value, self.network.dtype)
        kind, called = (PARAMETER, "Parameter") if learned else (CONSTANT, "Constant")
        dims = value.shape[::-1]
        array = Array(dims, value.reshape(-1))
        return self.variable(kind, self.unique(called), dims, name, value=array, needs_gradient=learned)

    def _leaf_or_name(self, node: Node) -> None:
        if isinstance(node, Input):
            axes = dynamic_axes(bool(node.framed), node.axis)
            dims = tuple(FREE if dim < 0 else dim for dim in node.known_shape[::-1])
            more = {"dynamic_axis": axes, "is_sparse": node.sparse, "needs_gradient": node.needs_gradient}
            self.uids[node] = self.variable(INPUT, self.unique("Input"), dims, node.name, **more)
        elif node.value is not None:
            learned = isinstance(node, Parameter) and node.learned
            self.uids[node] = self.constant(node.value, node.name, learned=learned)
        else:
            number = NUMBERS[node.op.name]
            called = "NoOp" if number == NUMBERS["Pass"] else OPERATIONS[number].name
            second = node.op.name == "TopK" and node.attributes.output == "indices"
            self.uids[node] = f"{self.unique(called)}_Output_{int(second)}"

    # -- functions ----------------------------------------------------------------------------------------

    def add_function(
        self,
        called: str,
        number: int,
        inputs: Sequence[str],
        attributes: dict[str, Any],
        *,
        name: str = "",
        uid: str = "",
    ) -> str:
        """Add a function and return its uid."""
        self.newest = max(self.newest, number)
        record: dict[str, Any] = {"type": "PrimitiveFunction", "uid": uid or self.unique(called), "op": SizeT(number)}
        record |= {"inputs": list(inputs), "attributes": attributes, **({"name": name} if name else {})}
        self.functions.append(record)
        self.written.add(record["uid"])
        return str(record["uid"])

    def helper(self, called: str, inputs: Sequence[str], attributes: dict[str, Any]) -> str:
        """Add a function that no node of ours is, and return the uid of its output."""
        number = next(number for number, operation in OPERATIONS.items() if operation.name == called)
        return f"{self.add_function(called, number, inputs, attributes)}_Output_0"

    def _function(self, node: Node) -> None:
        uid = _function_of(self.uids[node])
        written = WRITERS[node.op.name](self, node) if node.op.name in WRITERS else Written()
        number = NUMBERS[written.ours or node.op.name]
        operation = OPERATIONS[number]
        inputs = [self.uids[child] for child in node.inputs] if written.inputs is None else written.inputs
        if node.op.traits.delay:
            self._announce(node.inputs[0])
        if len(operation.order) > 0 and written.inputs is None:
            arranged = operation.arranged(len(inputs))
            inputs = [inputs[arranged.index(index)] for index in range(len(inputs))]
        widened = node in self.scalars and self._is_widened(node)
        own = self.unique(operation.name) if widened else uid
        name = "" if widened else node.name
        self.add_function(operation.name, number, inputs, written.attributes, name=name, uid=own)
        if widened:
            shape = {"newShape": NDShape((1,))}
            self.add_function("Reshape", NUMBERS["Reshape"], [f"{own}_Output_0"], shape, name=node.name, uid=uid)

    # -- blocks -------------------------------------------------------------------------------------------

    def _units(self, scope: Part | None) -> None:
        """Add what a block, or the network, is made of. Outputs of a block are called by it, as seen from here."""
        units = self.plan.orders[scope]
        inside = {node: self.uids[node] for unit in units if isinstance(unit, Part) for node in unit.outputs}
        for part in (unit for unit in units if isinstance(unit, Part)):
            for index, node in enumerate(part.outputs):
                self.uids[node] = f"{self.block_uids[part]}_Output_{index}"
        for unit in units:
            if isinstance(unit, Part):
                self._block(unit, {node: inside[node] for node in unit.outputs})
            else:
                self._function(unit)

    def _block(self, part: Part, inside: Mapping[Node, str]) -> None:
        """Add a block: what is inside it, which reads placeholders, and the function that it is."""
        operands = self.plan.operands(part)
        outside = {node: self.uids[node] for node in (*operands, *part.outputs)}
        for node in operands:
            self._announce(node)
        keys = {node: self._argument(node, name) for node, name in operands.items()}
        self.uids.update({**keys, **inside})
        self._units(part)
        results = [self.uids[node] for node in part.outputs]
        root = _function_of(results[0])
        if len(results) > 1 or results[0] != f"{root}_Output_0" or not self._is_alone(part.outputs[0], part):
            root = self.add_function("Combine", COMBINE, results, {})
        self.uids.update(outside)
        leaves = dict.fromkeys(self.uids[child] for node in part.nodes for child in node.inputs if is_leaf(child))
        values = [self.uids[node] for node in operands]
        composite = {"version": SizeT(_COMPOSITE), "type": "CompositeFunction", "root": root}
        inputs = [uid for uid in leaves if uid not in values] + values
        self.add_function("Block", BLOCK, inputs, {}, name=part.name(self.roots), uid=self.block_uids[part])
        self.functions[-1] |= {
            "block_function_composite": {**composite, "uid": self.unique("CompositeFunction")},
            "block_function_op_name": part.block.kind,
            "block_function_composite_arguments_map_keys": list(keys.values()),
            "block_function_composite_arguments_map_values": values,
        }

    def _output(self, node: Node) -> str:
        """Return the uid of an output of the network. One of several results gets its name by a function."""
        unit = self.plan.unit(node, None)
        shares = len(unit.outputs) > 1 if isinstance(unit, Part) else self._is_second(node)
        if not shares:
            return self.uids[node]
        return f"{self.add_function('NoOp', NUMBERS['Pass'], [self.uids[node]], {}, name=node.name)}_Output_0"

    def _is_second(self, node: Node) -> bool:
        """Whether a node is the second result of a function whose first one is no output of the network."""
        second = node.op.name == "TopK" and node.attributes.output == "indices"
        return second and not any(
            root.op is node.op and root.inputs == node.inputs for root in self.roots if root is not node
        )

    def _is_alone(self, node: Node, scope: Part) -> bool:
        """Whether the function that a node is in a block has no other output."""
        unit = self.plan.unit(node, scope)
        return len(unit.outputs) == 1 if isinstance(unit, Part) else node.op.name != "TopK"

    def _argument(self, node: Node, name: str) -> str:
        """Add a placeholder for what a block reads, and return its uid."""
        uid = self.unique("Placeholder")
        self.written.add(uid)
        return self._placeholder(node, uid, name)

    def _announce(self, node: Node) -> None:
        """Add a placeholder for a value that is not there yet when a delay reads it."""
        uid = self.uids[node]
        if isinstance(node, Input | Parameter) or _function_of(uid) in self.written or uid in self.written:
            return
        self.written.add(uid)
        self._placeholder(node, uid)

    def _placeholder(self, node: Node, uid: str, name: str = "") -> str:
        """Add a placeholder for the value of a node. What has one step in each sequence has no sequences there."""
        axes = dynamic_axes(bool(node.framed), BATCH if node.axis in self.single else node.axis)
        dims = tuple(FREE if dim < 0 else dim for dim in node.known_shape[::-1])
        dims = () if node in self.scalars and not self._is_widened(node) else dims
        return self.variable(PLACEHOLDER, uid, dims, name, dynamic_axis=axes)


def _makes_number(node: Node) -> bool:
    """Whether the value of a node has no axes there, whatever it reads."""
    return OPERATIONS[NUMBERS[node.op.name]].scalar or makes_number(node)


def _has_single_steps(node: Node) -> bool:
    """Whether a node makes an axis with one step in each sequence."""
    if node.op.name == "Where":
        return finds_one_step(node)
    if node.op.name == "ToBatch":
        return node.axis == node.name  # otherwise it is that of the samples from which it comes
    return node.op.name == "UnpackSequence" or (node.op.name == "ReduceElements" and node.attributes.axis == SEQUENCE)


def _function_of(uid: str) -> str:
    """Return the uid of the function of an output."""
    return uid.rpartition("_Output_")[0]


def carried(op: Op) -> tuple[bool, bool]:
    """Return whether version 2 brings an operation in, and whether it carries it out, for the table of all formats."""
    leaf = op.role in ("input", "parameter")
    return leaf or op.name in {operation.ours for operation in OPERATIONS.values()}, leaf or op.name in NUMBERS
