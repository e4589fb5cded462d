"""Named parts of a network: functions and layers whose calls are blocks, and copies of parts.

A block is drawn, listed and found as one thing, and can be applied once more: see :func:`call`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from cntk_builder_python.graph import Recording, Term, caller
from cntk_core.api import BuildError, CntkError, Network, NetworkError, Node
from cntk_core.api.builders import Block, call_block, find_block
from cntk_core.api.builders import clone as clone_nodes

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def block(kind: str, name: str = "") -> Callable[[Callable[_Given, _Result]], Callable[_Given, _Result]]:
    """Return a decorator of functions from terms to a term or several: each call is then a block.

    The terms that the function is given are the block's arguments, by the names of its parameters. Other terms that
    it reads are not: parameters, and values from around it.

    Args:
        kind: what it is: ``Highway``.
        name: of the blocks; by default the kind in small letters.
    """

    def decorate(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        signature = inspect.signature(function)

        @wraps(function)
        def apply(*operands: _Given.args, **more: _Given.kwargs) -> _Result:
            bound = _bound(signature, operands, more)
            if bound is None:
                return function(*operands, **more)  # for Python to say what is wrong
            return _record(function, bound, kind=kind, name=lambda term: name or kind.lower(), strict=True)

        return apply

    return decorate


def layer(call: Callable[..., _Result]) -> Callable[..., _Result]:
    """Let each call of a layer be a block of the layer's class and name; decorates its ``__call__``."""
    whole = inspect.signature(call)
    signature = whole.replace(parameters=list(whole.parameters.values())[1:])  # without self

    @wraps(call)
    def apply(self: Any, *operands: Any, **more: Any) -> _Result:
        bound = _bound(signature, operands, more)
        if bound is None:
            return call(self, *operands, **more)  # for Python to say what is wrong
        return _record(partial(call, self), bound, kind=type(self).__name__, name=self._enter, strict=False)

    return apply


def _bound(
    signature: inspect.Signature, operands: Sequence[Any], more: Mapping[str, Any]
) -> inspect.BoundArguments | None:
    """What is given, by parameter; None if it does not fit."""
    try:
        return signature.bind(*operands, **more)
    except TypeError:
        return None


def _record(
    function: Callable[..., _Result],
    bound: inspect.BoundArguments,
    *,
    kind: str,
    name: Callable[[Term], str],
    strict: bool,
) -> _Result:
    """Call a function and let what it makes be a block.

    Args:
        function: what is called.
        bound: what it is called with.
        kind: of the block.
        name: gives the name of the block for one of the terms.
        strict: refuse what is no function of its arguments. A call of a layer that is none is no block.

    Raises:
        BuildError: no term is given, one that is given is not read, or no term is returned.
    """
    recording = Recording()
    for key, value in bound.arguments.items():
        bound.arguments[key] = _marked(recording, key, value)
    first = next(iter(recording.terms), None)
    if first is None:
        if strict:
            raise BuildError(f"the block '{kind}' was given no term", where=caller())
        return function(*bound.args, **bound.kwargs)
    title = name(first)
    with first.graph.recorded(recording):
        result = function(*bound.args, **bound.kwargs)
        if strict:
            result = _inside(result, recording)
    outputs = [term.node for term in _terms(result)]
    if strict:
        _check(title, recording, outputs)
    if outputs and all(node in recording.nodes for node in outputs):
        first.graph.network.add_block(Block(title, kind, recording.nodes, outputs, recording.places))
    return result


def _marked(recording: Recording, key: str, value: Any) -> Any:
    """What a function is given in place of a value: where it reads terms is recorded."""
    if isinstance(value, Term):
        return recording.argument(key, value)
    if isinstance(value, tuple) and any(isinstance(item, Term) for item in value):
        return tuple(_marked(recording, f"{key}{number}", item) for number, item in enumerate(value, 1))
    return value


def _inside(result: Any, recording: Recording) -> Any:
    """What a function returns, with a node of the block for each term that is none."""
    if isinstance(result, Term):
        return result if result.node in recording.nodes else result.graph.apply("Pass", result)
    return tuple(_inside(item, recording) for item in result) if isinstance(result, tuple) else result


def _terms(result: Any) -> Iterator[Term]:
    if isinstance(result, Term):
        yield result
    elif isinstance(result, tuple | list):
        for item in result:
            yield from _terms(item)


def _check(title: str, recording: Recording, outputs: Sequence[Node]) -> None:
    if not outputs:
        raise BuildError(f"the block '{title}' returned no term", where=caller())
    unread = [key for key, places in recording.places.items() if not places]
    if unread:
        raise BuildError(
            f"the block '{title}' does not read its argument '{unread[0]}'",
            where=caller(),
            hint="Leave the argument out.",
        )


# -- used again -------------------------------------------------------------------------------------------


def call(function: Block | str, *operands: Term, parameters: str = "shared", name: str = "") -> Any:
    """Apply the function of a block once more; return its result, or a tuple of them.

    Args:
        function: the block, or its name.
        operands: what it is applied to, in the order of its arguments.
        parameters: ``shared`` are those of the block; ``learnable`` and ``constant`` are copies.
        name: of the new block and, in place of the block's own, in the names of its nodes.

    Raises:
        BuildError: there is no operand.
        NetworkError: there is no such block, it has other arguments, or there is no such use of parameters.
    """
    if not operands:
        raise BuildError("a block is called with terms", where=caller())
    graph = operands[0].graph
    try:
        old = find_block(graph.network, function) if isinstance(function, str) else function
        made = call_block(graph.network, old, [term.node for term in operands], parameters=parameters, name=name)
    except NetworkError as error:
        raise _placed(error) from None
    results = tuple(Term(graph, node) for node in made.outputs)
    return results if len(results) > 1 else results[0]


def clone(
    output: str | Term,
    substitutions: Mapping[str | Term, Term],
    *,
    source: Network | None = None,
    parameters: str = "learnable",
    name: str = "",
) -> Term:
    """Copy what computes a node, with terms in the place of nodes that it reads.

    Args:
        output: what is wanted of the copy: a term, or the name of a node.
        substitutions: nodes that are not copied, and what stands in their place; at least one.
        source: the network to copy from, such as that of a trained model; by default that of the terms.
        parameters: copies that learn on (``learnable``) or do not (``constant``), or the same (``shared``).
        name: stands before the names of the copies, with a dot.

    Raises:
        BuildError: nothing is substituted.
        NetworkError, Problems: the output does not depend on a node that is substituted, there is no such node, or
            parameters are to be shared with another network.
    """
    graph = next((term.graph for term in substitutions.values()), None)
    if graph is None:
        raise BuildError("a copy needs a term in the place of something that it reads", where=caller())
    network = graph.network if source is None else source
    prefix = f"{name}." if name else ""
    try:
        root, *old = (_node(network, one) for one in (output, *substitutions))
        links = dict(zip(old, (term.node for term in substitutions.values()), strict=True))
        copies = clone_nodes(
            network, [root], links, parameters=parameters, into=graph.network, rename=lambda old: prefix + old
        )
    except CntkError as error:
        raise _placed(error) from None
    return Term(graph, copies.get(root, root))


def _node(network: Network, one: str | Term) -> Node:
    return network[one] if isinstance(one, str) else one.node


def _placed(error: CntkError) -> CntkError:
    error.where = error.where or caller()
    return error
