"""Functions from terms to terms without parameters, and criteria."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cntk_builder_python.graph import Operand, Term
from cntk_core.api.builders import add_derivatives

Function = Callable[[Term], Term]

MARGIN, ONE_AND_MARGIN = float(np.float32(1e-6)), float(np.float32(1) + np.float32(1e-6))
"""What CNTK 2.7 adds to chances before their logarithm is taken; numbers of single precision in double, too."""


def _unary(operation: str) -> Function:
    def apply(x: Term) -> Term:
        return x.graph.apply(operation, x)

    apply.__name__ = apply.__qualname__ = operation
    apply.__doc__ = f"Apply {operation} to a term."
    return apply


sigmoid = _unary("Sigmoid")
tanh = _unary("Tanh")
relu = _unary("RectifiedLinear")
exp = _unary("Exp")
log = _unary("Log")
sqrt = _unary("Sqrt")
sin = _unary("Sin")
absolute = _unary("Abs")
softmax = _unary("Softmax")
log_softmax = _unary("LogSoftmax")
hardmax = _unary("Hardmax")
stop_gradient = _unary("StopGradient")


def splice(*terms: Term) -> Term:
    """Put terms one after the other along their last axis, which is CNTK's first one."""
    return terms[0].graph.apply("RowStack", *terms)


def element_select(condition: Term, then: Operand, otherwise: Operand) -> Term:
    """Return ``then`` where the condition is not 0, ``otherwise`` elsewhere."""
    return condition.graph.apply("If", condition, then, otherwise)


def cross_entropy_with_softmax(z: Term, labels: Operand) -> Term:
    """Sum over the samples of ``-labels . log softmax(z)``; the output first, as in CNTK's Python interface."""
    return z.graph.apply("CrossEntropyWithSoftmax", labels, z)


def derivative(term: Term, by: Term) -> Term:
    """Return the derivative of the sum of a term's elements over all frames by another term, as nodes.

    Raises:
        CntkError: something is wrong with what is there of the network so far; the one does not depend on the other.
        UnsupportedError, Problems: all nodes whose derivatives cannot be written as nodes.
    """
    term.graph.infer()
    return Term(term.graph, add_derivatives(term.graph.network, term.node, [by.node])[by.node])


def classification_error(z: Term, labels: Operand) -> Term:
    """Count of samples whose largest output is not the label's."""
    return z.graph.apply("ClassificationError", labels, z)


def binary_cross_entropy(z: Term, targets: Operand) -> Term:
    """``-(y log z + (1 - y) log(1 - z))`` of chances, element by element, with 1e-6 added to both, as in CNTK 2.7."""
    graph = z.graph
    taken, other = graph.apply("Log", z + MARGIN), graph.apply("Log", ONE_AND_MARGIN - z)
    return -(graph.apply("ElementTimes", targets, taken) + graph.apply("Minus", 1.0, targets) * other)


def weighted_binary_cross_entropy(z: Term, targets: Operand, weights: Operand) -> Term:
    """Sum over the samples of the same, without a margin, with weights that are scaled so that their mean is 1."""
    return z.graph.apply("Logistic", targets, z, weights)


def squared_error(z: Term, targets: Operand) -> Term:
    """Sum over the samples of the squared differences."""
    return z.graph.apply("SquareError", targets, z)
