"""Evaluating functions, and gradients as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import attrs
import numpy as np

from cntk._graph.errors import GraphError, told
from cntk._graph.feeding import from_core, is_sparse, seeds_of, to_core
from cntk._graph.pieces import are_pieces
from cntk._graph.primitive import SAMPLE
from cntk._graph.run import Graph, onlooker
from cntk._graph.run import forward as run_forward
from cntk._graph.samples import csr_of
from cntk.internal import sanitize_var_map, sanitize_variables_or_functions
from cntk_core.api import NetworkError
from cntk_core.api.builders import BATCH

if TYPE_CHECKING:
    from cntk.ops.functions import Function
    from cntk.variables import Variable

Given = Mapping["Variable", Any]
_GIVEN = "given"
"""Beside the programs of a function: the values that it gave last."""


@attrs.frozen(eq=False)
class State:
    """What :meth:`Function.forward` keeps for gradients.

    Attributes:
        graph: the functions.
        given: the data, as the core takes them.
        roots: from which gradients may flow.
        tapes: by what they are of.
    """

    graph: Graph
    given: dict[str, Any]
    roots: tuple[Variable, ...]
    tapes: dict[tuple[Variable, ...], Any]

    @property
    def device(self) -> Any:
        """The device that was named."""
        from cntk.device import use_default_device

        return use_default_device()


def _data(graph: Graph, given: Given) -> dict[str, Any]:
    """Return data by the names of the core's inputs.

    Raises:
        GraphError: something is missing, or does not fit.
    """
    from cntk.core import Value

    found: dict[str, Any] = {}
    missing = []
    for each, node in graph.nodes.items():
        if node.op.role != "input" or each._owner is not None or each.is_parameter or each.is_constant:
            continue
        if each not in given:
            missing.append(each)
            continue
        value = given[each]
        if isinstance(value, Value):
            value = value.for_variable(each) if (each._axes or ()) else value.asarray()
        found[node.name] = to_core(each, value)
    if missing:
        names = ", ".join(map(repr, missing))
        raise GraphError(f"values for {len(missing)} required arguments {names} have not been provided")
    return found


def _values(graph: Graph, tape_values: Mapping[str, Any], wanted: Iterable[Variable]) -> dict[Variable, Any]:
    found = {}
    for each in wanted:
        node = graph.nodes[each]
        found[each] = from_core(each, tape_values[node.name], scalar=node in graph.scalars)
        if each._owner is not None and each._owner.number == SAMPLE:
            found[each] = csr_of(found[each])
    return found


def _told_as(found: dict[Variable, Any], as_numpy: bool, root: Variable | None = None) -> dict[Variable, Any]:
    """Return values as they are wanted; those that the function of a root gave before are not valid any more."""
    kept = {} if root is None or root._owner is None else root._owner.programs
    for each in kept.pop(_GIVEN, ()):
        each._outdated = True
    if as_numpy:
        return found
    from cntk.core import Value

    values: dict[Variable, Any] = {}
    for each, value in found.items():
        if not (each._axes or ()):
            values[each] = Value(value)
        else:
            several = value if isinstance(value, list) else [row[None] for row in value]
            values[each] = Value._of(each, several)
    if root is not None:
        kept[_GIVEN] = WeakSet(values.values())
    return values


def evaluate(wanted: Sequence[Variable], given: Given, *, as_numpy: bool) -> dict[Variable, Any]:
    """Compute variables, as :meth:`Function.eval` says."""
    graph = Graph.of(wanted)
    starts = {start for value in given.values() if are_pieces(value) for start in value._starts}
    data = _data(graph, given)
    stream = _stream_of(graph, starts) if starts else None
    with told():
        found = run_forward(graph, (), data, training=False).values if stream is None else stream.feed(data)
    return _told_as(_seen(given, _values(graph, found, wanted)), as_numpy, wanted[0])


def _seen(given: Given, found: dict[Variable, Any]) -> dict[Variable, Any]:
    """Return values, when whoever looks on has seen them."""
    look = onlooker()
    if look is not None:
        look.values(given, found)
    return found


def _seen_back(root: Variable, found: dict[Variable, Any]) -> dict[Variable, Any]:
    """Return gradients, when whoever looks on has seen them."""
    look = onlooker()
    if look is not None:
        look.gradients(root, found)
    return found


def _stream_of(graph: Graph, starts: set[bool]) -> Any:
    """Return what evaluates pieces of sequences, so that what recurrences remember goes on from one to the next.

    Raises:
        GraphError: some go on and others begin; or they go on, and nothing came before, or something needs the whole.
    """
    if len(starts) > 1:
        raise GraphError("sequences of an evaluation all begin, or all go on from the one before")
    if "stream" not in graph.programs:
        if False in starts:
            raise GraphError("sequences go on, but no evaluation came before that they could go on from")
        try:
            graph.programs["stream"] = graph.model.stream([node.name for node in graph.network.roots["output"]])
        except NetworkError as error:
            graph.programs["stream"] = error
    found = graph.programs["stream"]
    if isinstance(found, NetworkError):  # whole sequences that begin here need nothing that would go on
        if True in starts:
            return None
        with told():
            raise found
    if True in starts:
        found.restart()
    return found


def forward(
    asked: Sequence[Variable], wanted: Sequence[Variable], given: Given, kept: Sequence[Variable], *, as_numpy: bool
) -> tuple[State | None, dict[Variable, Any]]:
    """Compute variables and keep what gradients need, as :meth:`Function.forward` says."""
    roots = tuple(dict.fromkeys([*asked, *kept]))
    graph = Graph.of(roots)
    data = _data(graph, given)
    if not kept:
        tape = run_forward(graph, (), data, training=False)
        return None, _told_as(_seen(given, _values(graph, tape.values, wanted)), as_numpy, roots[0])
    by = flowing(graph)
    tape = run_forward(graph, by, data, training=True, keep=True)
    state = State(graph, data, tuple(kept), {by: tape})
    return state, _told_as(_seen(given, _values(graph, tape.values, wanted)), as_numpy, roots[0])


def flowing(graph: Graph) -> tuple[Variable, ...]:
    """Return the variables to which gradients may flow: parameters, and inputs that want them."""
    found = [
        each
        for each, node in graph.nodes.items()
        if each._owner is None
        and (each.is_parameter or (each.is_input and each.needs_gradient))
        and not getattr(node, "sparse", False)
        and _is_read(graph, node)
    ]
    return tuple(found)


def _is_read(graph: Graph, node: Any) -> bool:
    return any(node in each.inputs for each in graph.network) or node in graph.network.roots["output"]


def backward(
    state: State | None, seeds: Mapping[Variable, Any], variables: Sequence[Variable], *, as_numpy: bool
) -> dict[Variable, Any]:
    """Let gradients flow back, as :meth:`Function.backward` says."""
    if state is None:
        raise GraphError("nothing was kept for the gradients; say keep_for_backward in forward()")
    graph = state.graph
    for each in variables:
        if each not in graph.nodes:
            raise GraphError(f"the function does not depend on {each}")
        if each.is_constant or (each.is_input and not each.needs_gradient):
            raise GraphError(f"{each} does not need gradients, so none flow to it; say needs_gradient=True")
    by = next((known for known in state.tapes if set(variables) <= set(known)), None)
    if by is None:
        by = tuple(variables)
        state.tapes[by] = run_forward(graph, by, state.given, training=True, keep=True)
    given = {}
    for each, value in seeds.items():
        node = graph.nodes[each]
        if hasattr(value, "asarray"):
            value = value.for_variable(each) if hasattr(value, "for_variable") and each._axes else value.asarray()
        given[node.name] = seeds_of(each, value, scalar=node in graph.scalars, listed=node.axis != BATCH)
    with told():
        found = state.tapes[by].backward(given)
    values = {each: from_core(each, found[graph.nodes[each].name], scalar=not each._shape) for each in variables}
    return _told_as(_seen_back(state.roots[0], values), as_numpy)


def gradients(f: Function, at: Any, wrt: Any, outputs: Any, grad_root: Any, *, as_numpy: bool) -> Any:
    """Compute gradients and perhaps values, as :meth:`Function.grad` says."""
    given = sanitize_var_map(f.arguments, at)
    by = [each for each in f.arguments if each.needs_gradient] if wrt is None else sanitize_variables_or_functions(
        list(wrt) if isinstance(wrt, list | tuple | set | frozenset) else wrt
    )  # fmt: skip
    if not by:
        raise GraphError("there is nothing by which gradients could be wanted; say needs_gradient=True of an input")
    root = f.output if grad_root is None else sanitize_variables_or_functions(grad_root)[0]
    wanted = [] if outputs is None else sanitize_variables_or_functions(
        list(outputs) if isinstance(outputs, list | tuple | set | frozenset) else outputs
    )  # fmt: skip
    for each in by:
        if each.is_constant or (each.is_input and not each.needs_gradient):
            raise GraphError(f"{each} does not need gradients, so none flow to it; say needs_gradient=True")
    graph = Graph.of(tuple(dict.fromkeys([root, *wanted])))
    strange = next((each for each in by if each not in graph.nodes), None)
    if strange is not None:
        raise GraphError(f"the function does not depend on {strange}, so there is no gradient by it")
    tape = run_forward(graph, tuple(by), _data(graph, given), training=True)
    values = _seen(given, _values(graph, tape.values, dict.fromkeys([*wanted, root] if onlooker() else wanted)))
    with told():
        found = tape.backward(None if not wanted else {graph.nodes[root].name: 1.0})
    grads = {each: from_core(each, found[graph.nodes[each].name], scalar=not each._shape) for each in by}
    told_grads = _told_as(_seen_back(root, grads), as_numpy, root)
    result = told_grads[by[0]] if len(by) == 1 else told_grads
    if outputs is None:
        return result
    told_values = _told_as(values, as_numpy)
    return result, told_values[wanted[0]] if len(wanted) == 1 else told_values


__all__ = ["State", "backward", "evaluate", "flowing", "forward", "gradients", "is_sparse", "np"]
