"""Functions that users wrote, as operations of the core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cntk._graph.feeding import has_sequences, sequences_of
from cntk._graph.primitive import Primitive
from cntk.device import cpu
from cntk_core.api import Node
from cntk_core.api.builders import UserFunction as Bridge
from cntk_core.api.builders import op_of

if TYPE_CHECKING:
    from cntk._graph.lower import Maker
    from cntk.ops._user import UserFunction
    from cntk.variables import Variable


def make_nodes(maker: Maker, primitive: Primitive, inputs: list[Node]) -> list[Node]:
    """Make the nodes of a function that a user wrote, one for each output."""
    assert primitive.user is not None
    kind = _bridge(primitive.user, primitive)
    op, outputs = op_of(kind), primitive.outputs
    network = maker.network
    widest = next((place for place, each in enumerate(primitive.inputs) if has_sequences(each)), None)
    if widest is not None:
        inputs = [
            _spread(maker, f"{primitive.uid}.input{place}", node, inputs[widest])
            if len(each._axes or ()) == 1
            else node
            for place, (each, node) in enumerate(zip(primitive.inputs, inputs, strict=True))
        ]
    made = network.add(Node(primitive.uid, op, inputs, kind()))
    maker.current.append(made)
    if len(outputs) == 1 and not kind.output_axes:
        return [made]
    return [
        maker.add(f"{primitive.uid}.{name}", "OutputMultiplexer", [made], _multiplexed(maker, index))
        for index, name in enumerate(kind.outputs)
    ]


def _spread(maker: Maker, name: str, node: Node, like: Node) -> Node:
    """Return a value of each sample at each step of sequences, since an op has inputs of one dynamic axis."""
    return maker.add(name, "ReconcileDynamicAxis", [node, like])


def _multiplexed(maker: Maker, index: int) -> Any:
    return maker._op("OutputMultiplexer").attributes(output_index=index)


def _bridge(user: UserFunction, primitive: Primitive) -> type[Bridge]:
    """Return the core's class of a function: it gives the user what he is told of in the docs, by variable."""
    variables, declared = list(primitive.inputs), list(primitive.outputs)
    framed, steps = any(each._axes for each in variables), any(map(has_sequences, variables))
    rows: dict[int, Literal["sequence", "minibatch"]] = (
        {0: "minibatch", 1: "sequence"} if steps else {0: "minibatch"} if framed else {}
    )
    spread = {each for each in variables if steps and len(each._axes or ()) == 1}

    class _Written(Bridge):
        outputs = tuple(f"output{index}" for index in range(len(declared)))
        output_axes = {  # noqa: RUF012
            name: rows[len(each._axes or ())]
            for name, each in zip(outputs, declared, strict=True)
            if len(each._axes or ()) in rows
        }

        def infer_outputs(self, *shapes: Any) -> Any:
            known = shapes[0] if shapes else ()
            found = tuple(
                tuple(
                    known[place] if dim < 0 and place < len(known) else dim
                    for place, dim in enumerate(each._shape or ())
                )
                for each in declared
            )
            return found if len(found) > 1 else found[0]

        def forward(self, context: Any, *inputs: Any) -> Any:
            given = tuple(
                _of_sequences(self, context, value) if each in spread else _told(self, context, value, each)
                for value, each in zip(inputs, variables, strict=True)
            )
            state, values = _call_forward(user, given, declared)
            context.saved["state"] = state
            context.saved["inputs"] = inputs if not any(each._gradient for each in declared) else ()
            found = [
                _frames(self, context, values[each], each) if each._axes else np.asarray(values[each])
                for each in declared
            ]
            return found if len(found) > 1 else found[0]

        def backward(self, context: Any, *gradients: Any) -> Any:
            if context.saved["inputs"]:  # no output needs gradients, so the user's function is not asked
                return tuple(np.zeros_like(each) for each in context.saved["inputs"])
            roots = {each: _told(self, context, value, each) for each, value in zip(declared, gradients, strict=True)}
            wanted: dict[Variable, Any] = dict.fromkeys(each for each in variables if each.needs_gradient)
            found = _call_backward(user, context.saved["state"], roots, wanted, variables)
            return tuple(
                None
                if found.get(each) is None
                else _at_first_steps(self, context, _frames(self, context, found[each], each))
                if each in spread
                else _frames(self, context, found[each], each)
                if each._axes
                else np.asarray(found[each])
                for each in variables
            )

    _Written.__name__ = _Written.__qualname__ = f"{type(user).__name__}_{primitive.uid}"
    return _Written


def _told(bridge: Bridge, context: Any, value: Any, variable: Variable) -> Any:
    return bridge.sequences_of(context, value) if has_sequences(variable) else np.array(value)


def _of_sequences(bridge: Bridge, context: Any, value: Any) -> Any:
    """Return for each sequence what is the same at all its steps."""
    return np.stack([one[0] for one in bridge.sequences_of(context, value)])


def _at_first_steps(bridge: Bridge, context: Any, rows: Any) -> Any:
    """Return gradients by what is the same at all steps of a sequence: the first step has them."""
    sequences = bridge.sequences_of(context, np.zeros((context.frames, *rows.shape[1:]), rows.dtype))
    for one, row in zip(sequences, rows, strict=True):
        one[0] = row
    return bridge.frames_of(context, sequences)


def _frames(bridge: Bridge, context: Any, value: Any, variable: Variable) -> Any:
    found = sequences_of(variable, value.asarray() if hasattr(value, "asarray") else value)
    if len(variable._axes or ()) < 2:
        return np.concatenate(found)
    return bridge.frames_of(context, found)


def _call_forward(user: UserFunction, given: tuple[Any, ...], declared: list[Variable]) -> tuple[Any, Any]:
    if not user.as_numpy:
        from cntk.core import Value

        given = tuple(
            Value._of(each, value if isinstance(value, list) else list(value[:, None]))
            for value, each in zip(given, user._primitive.inputs, strict=True)
        )
    argument = given if len(given) > 1 else given[0]
    if len(declared) == 1:
        state, value = user.forward(argument, cpu(), ())
        return state, {declared[0]: value}
    outputs: dict[Variable, Any] = dict.fromkeys(declared)
    state = user.forward(argument, outputs, cpu(), ())
    if any(each is None for each in outputs.values()):
        raise ValueError("not all outputs have been provided")
    return state, outputs


def _call_backward(
    user: UserFunction, state: Any, roots: dict[Variable, Any], wanted: dict[Variable, Any], inputs: list[Variable]
) -> dict[Variable, Any]:
    gradients: Any = roots if len(roots) > 1 else next(iter(roots.values()))
    if not user.as_numpy and len(roots) == 1:
        from cntk.core import Value

        each = next(iter(roots))
        given: Any = gradients
        gradients = Value._of(each, given if isinstance(given, list) else list(given[:, None]))
    if len(inputs) > 1:
        user.backward(state, gradients, wanted)
        return wanted
    return {inputs[0]: user.backward(state, gradients)}
