"""Functions in Python as parts of a network, and the outputs of operations that have several."""

from __future__ import annotations

from collections.abc import Collection

from cntk_builder_python.graph import Operand, Term, caller
from cntk_core.api import BuildError, did_you_mean
from cntk_core.api.builders import UserFunction, op_of


def user_function(function: UserFunction, *operands: Operand, name: str | None = None) -> Term:
    """Apply a function in Python to terms; with several outputs, :func:`outputs_of` takes the term apart.

    Args:
        function: the settings of this node.
        operands: its inputs, a term among them.
        name: of the node; by default that of the class.

    Raises:
        BuildError: no operand is a term.
    """
    graph = next((operand.graph for operand in operands if isinstance(operand, Term)), None)
    if graph is None:
        raise BuildError(f"{type(function).__name__} needs a term among its inputs", where=caller())
    return graph.place(op_of(type(function)), operands, function, name)


def output_of(term: Term, output: int | str) -> Term:
    """Return one output of an operation that has several, by its number or its name.

    Raises:
        BuildError: there is no such output.
    """
    names = list(_outputs(term)) or ["output"]
    index = names.index(output) if output in names else output
    if not isinstance(index, int) or not 0 <= index < len(names):
        guess = did_you_mean(index, names) if isinstance(index, str) else ""
        raise BuildError(
            f"{term.node.op.name} '{term.node.name}' has no output {output!r}{guess}",
            where=caller(),
            hint=f"Outputs: {', '.join(names)}.",
        )
    stem = f"{term.node.name}.{names[index]}"
    return term.graph.apply("OutputMultiplexer", term, output_index=index, name=term.graph.unique(stem))


def outputs_of(term: Term) -> tuple[Term, ...]:
    """Return all outputs of an operation, in order."""
    return tuple(output_of(term, index) for index in range(max(1, len(_outputs(term)))))


def _outputs(term: Term) -> Collection[str]:
    return term.node.op.form_of(term.node.attributes).outputs
