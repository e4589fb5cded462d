"""What element-wise ops give when they are traced, checked: an op of a plugin may return anything."""

from __future__ import annotations

from collections.abc import Sequence

from cntk_core.errors import WrongResult, shown
from cntk_core.network.node import Node
from cntk_core.ops.language.expression import Expr, TraceMath

_MATH = TraceMath()

Tree = Expr | float


def traced_forward(node: Node, inputs: Sequence[Tree]) -> Tree:
    """Return the tree of an element-wise node's value over those of its inputs.

    Raises:
        WrongResult: its op gives something else.
    """
    assert node.op.elementwise is not None
    tree = node.op.elementwise.forward(_MATH, node.attributes, *inputs)
    if not isinstance(tree, Expr | float | int):
        raise WrongResult(node.op.elementwise.forward, f"returned {shown(tree)}, not an expression over m")
    return tree


def traced_gradient(node: Node, gradient: Tree, output: Tree, inputs: Sequence[Tree]) -> Sequence[Tree | None]:
    """Return the tree of each input's gradient, None where it is zero.

    Args:
        node: element-wise.
        gradient: of the value.
        output: the value.
        inputs: of the node.

    Raises:
        WrongResult: its op gives something else.
    """
    parts = node.op.elementwise
    assert parts is not None
    results = parts.gradient(_MATH, node.attributes, gradient, output, *inputs)
    if not isinstance(results, Sequence) or len(results) != len(inputs):
        told = f"has a gradient that returned {shown(results)}, not one for each of {len(inputs)} inputs"
        raise WrongResult(parts.forward, told)
    for result in results:
        if not (result is None or isinstance(result, Expr | float | int)):
            raise WrongResult(parts.forward, f"has a gradient that returned {shown(result)}, not an expression over m")
    return results
