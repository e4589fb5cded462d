"""From functions to a network of the core, by what reads the original's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from cntk_model_cntk2.axes import dynamic_axis, memory_shape
from cntk_model_cntk2.load import NetworkMaker
from cntk_model_cntk2.records import CONSTANT, INPUT, PARAMETER, Composite, Function
from cntk_model_cntk2.records import Variable as Record

from cntk._graph.draws import draw_as_there, drop_as_there
from cntk._graph.leaves import node_of
from cntk._graph.primitive import DROPOUT, FREQUENCY, RANDOM, RESHAPE, SAMPLE, USER, Primitive, postorder
from cntk._graph.records import composite_record, output_uid, variable_record
from cntk._graph.reshapes import reshape_open
from cntk._graph.samples import sample_as_there
from cntk.initializer import OwnSeed
from cntk_core.api import Input, Node, Parameter, core_ops
from cntk_core.api.builders import Free

if TYPE_CHECKING:
    from cntk.variables import Variable


class Maker(NetworkMaker):
    """Makes a network of records.

    Args:
        composite: the records.
        dtype: float32 or float64.
        users: functions that users wrote, and those that draw random numbers, by uid.
        kept: the core's parameters of those leaves that have one, by uid.
    """

    def __init__(
        self,
        composite: Composite,
        dtype: Any,
        users: Mapping[str, Primitive],
        kept: Mapping[str, Parameter],
    ) -> None:
        super().__init__(composite, core_ops().find, dtype)
        self.users = users
        self.kept = kept

    def make(self) -> None:
        """Make the nodes of all functions; shapes are known as far as there are no loops."""
        for function in self.graph.order():
            self._make(function)
        for node, function in self.later:
            node.inputs[0] = self.variable(function.inputs[0])
        for uid, primitive in self.users.items():
            seed = primitive.attributes.get("rngSeed") if primitive.number == DROPOUT else None
            if seed is not None and not isinstance(seed, OwnSeed) and not _goes_round(self.made[uid][0]):
                drop_as_there(primitive, self.made[uid][0])
        self._free_loops()

    def _leaf(self, variable: Record) -> Node:
        if variable.uid in self.kept:
            return self.kept[variable.uid]
        shape = memory_shape(variable.dims)
        if variable.kind == INPUT:
            axis = dynamic_axis(variable.axes)
            fixed = axis is not None and min(variable.dims, default=1) > 0
            sparse = variable.sparse and not variable.needs_gradient and fixed
            return Input.make(variable.uid, shape, sparse=sparse, axis=axis or "", framed=axis is not None)
        if variable.kind in (PARAMETER, CONSTANT):  # its shape alone is wanted; -1 there is 0 here
            dims = tuple(0 if dim == -1 else dim for dim in shape)
            return Parameter.make(variable.uid, dims, learning_rate_multiplier=float(variable.kind == PARAMETER))
        return variable.entry.fail("stands for something that is not known yet")

    def _make(self, function: Function) -> None:
        if function.operation != USER:
            super()._make(function)
            if function.operation == RANDOM and function.uid in self.users:
                draw_as_there(self, self.users[function.uid], self.made[function.uid][0])
            if function.operation in (SAMPLE, FREQUENCY) and function.uid in self.users:
                sample_as_there(self.users[function.uid], self.members[function.uid][0])
            if function.operation == RESHAPE:
                reshape_open(self.made[function.uid][0])
            return
        from cntk._graph.user import make_nodes

        self.members[function.uid] = self.current = []
        inputs = [self.variable(uid) for uid in function.inputs]
        self.made[function.uid] = make_nodes(self, self.users[function.uid], inputs)

    def shape_of(self, node: Node) -> tuple[int, ...]:
        """Return a node's shape as variables have it."""
        if node in self.scalars:
            return ()
        return tuple(-3 if isinstance(dim, Free) or dim < 0 else int(dim) for dim in node.known_shape)


def _goes_round(node: Node) -> bool:
    """Return whether a node depends on itself."""
    seen: set[Node] = set()
    waiting = list(node.inputs)
    while waiting:
        one = waiting.pop()
        if one is node:
            return True
        if one not in seen:
            seen.add(one)
            waiting += one.inputs
    return False


def precision_of(variables: Sequence[Variable]) -> Any:
    """Return float64 if one of the variables has such numbers, else float32."""
    return np.float64 if any(each._dtype == np.float64 for each in variables) else np.float32


def lower(roots: Sequence[Variable], *, bare: bool = False) -> tuple[Maker, dict[Variable, Node]]:
    """Make the network that computes variables.

    Args:
        roots: what is asked for.
        bare: parameters are nodes of this network alone, without values.

    Returns:
        What made it, and the nodes of the variables and of all leaves that they depend on.

    Raises:
        CntkError: something does not fit.
    """
    primitives = postorder([each._owner for each in roots if each._owner is not None])
    inner = {each for one in primitives if one.inside is not None for each in one.inside.arguments}
    leaves = {each: None for one in primitives for each in one.inputs if each._owner is None and each not in inner}
    for one in primitives:
        if one.inside is not None:
            leaves.update({each: None for each in one.inside.arguments.values() if each._owner is None})
            leaves.update({each: None for each in one.inside.roots if each._owner is None})
    leaves.update({each: None for each in roots if each._owner is None})
    wanted = [each for each in leaves if each not in inner]
    numbers = [] if bare else [each for each in wanted if each.is_parameter or each.is_constant]
    kept = {each.uid: node_of(each) for each in numbers}  # type: ignore[arg-type]
    dtype = precision_of([*wanted, *(output for one in primitives for output in one.outputs)])
    composite = composite_record(primitives, {each: variable_record(each) for each in leaves}, roots)
    users = {one.uid: one for one in primitives if one.number in (USER, RANDOM, DROPOUT, SAMPLE, FREQUENCY)}
    maker = Maker(composite, dtype, users, kept)
    maker.make()
    nodes: dict[Variable, Node] = {}
    for each in dict.fromkeys([*roots, *wanted]):
        nodes[each] = maker.variable(output_uid(each))
    for each in roots:
        made = nodes[each]
        if made.op.role in ("input", "parameter") and each._owner is None:
            nodes[each] = made
    maker.network.infer()
    return maker, nodes
