"""What operators and ``if`` do with nodes (docs/original-rules.md#brainscript-operators)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from cntk_builder_brainscript.graph import Graph
from cntk_builder_brainscript.leaves import make_constant
from cntk_builder_brainscript.nodes import NodeMaker
from cntk_core.api import BuildError, Location, Node

BINARY = {
    "+": "Plus",
    "-": "Minus",
    ".*": "ElementTimes",
    "<": "Less",
    "==": "Equal",
    ">": "Greater",
    ">=": "GreaterEqual",
    "!=": "NotEqual",
    "<=": "LessEqual",
}
"""Operators that are the operation of that name whatever the operands are."""

_NUMERIC, _LOGICAL = (Node, float), (Node, bool)
KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys((*BINARY, "*", "/", "!"), _NUMERIC),
    **dict.fromkeys(("&&", "||"), _LOGICAL),
    "if": (Node, float, bool),
}
"""The operands that an operator takes beside nodes."""


@attrs.frozen
class Operators:
    """Makes the nodes of operators.

    Attributes:
        describe: says what a value is, for messages.
    """

    maker: NodeMaker
    graph: Graph
    describe: Callable[[object], str]

    def apply(self, operator: str, operands: Sequence[object], path: str, where: Location) -> object:
        """Return the node of an operator of which at least one operand is a node.

        A truth value comes back where ``&&`` and ``||`` know their result without the node.

        Raises:
            BuildError: the operator does not take these operands.
        """
        self._check(operator, operands, where)
        if operator == "if":
            return self._node("If", operands, path, where)
        if len(operands) == 1:
            return self._unary(operator, operands[0], path, where)
        if operator in ("&&", "||"):
            return self._logic(operator, operands, path, where)
        if operator == "*":
            numbers = any(isinstance(operand, float) for operand in operands)
            return self._node("ElementTimes" if numbers else "Times", operands, path, where)
        if operator == "/":
            return self._quotient(operands, path, where)
        return self._node(BINARY[operator], operands, path, where)

    def _check(self, operator: str, operands: Sequence[object], where: Location) -> None:
        kinds = KINDS.get(operator)
        if kinds is None or not all(isinstance(operand, kinds) for operand in operands):
            raise self._unfit(operator, operands, where)

    def _unfit(self, operator: str, operands: Sequence[object], where: Location, hint: str | None = None) -> BuildError:
        listed = " and ".join(self.describe(operand) for operand in operands)
        return BuildError(f"'{operator}' cannot be applied to {listed}", where=where, hint=hint)

    def _unary(self, operator: str, operand: object, path: str, where: Location) -> Node:
        if operator == "-":
            return self._node("Negate", [operand], path, where)
        return self._node("Minus", [1.0, operand], path, where)  # !x

    def _logic(self, operator: str, operands: Sequence[object], path: str, where: Location) -> object:
        decisive = operator == "||"
        if any(operand is decisive for operand in operands):
            return decisive
        if operator == "||":
            raise self._unfit(operator, operands, where, "Write BS.Boolean.Or (a, b).")
        return self._node("ElementTimes", operands, path, where)

    def _quotient(self, operands: Sequence[object], path: str, where: Location) -> Node:
        dividend, divisor = operands
        if isinstance(divisor, float):
            if divisor == 0:
                raise BuildError("division by zero", where=where)
            return self._node("ElementTimes", [dividend, 1.0 / divisor], path, where)
        if dividend == 1.0:
            return self._node("Reciprocal", [divisor], path, where)
        raise self._unfit("/", operands, where, "Write ElementDivide (a, b), or a .* Reciprocal (b).")

    def _node(self, operation: str, operands: Sequence[object], path: str, where: Location) -> Node:
        inputs = [self._as_node(operand, path, where) for operand in operands]
        return self.maker.combine(operation, inputs, path, where)

    def _as_node(self, operand: object, path: str, where: Location) -> Node:
        if isinstance(operand, Node):
            return operand
        assert isinstance(operand, float | bool)
        # The original names constants like the node that they are for; the network tells the two apart.
        return self.graph.add(make_constant(float(operand), path, where))
