"""Operators and if on nodes."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("expression", "operation", "inputs"),
    [
        ("a + b", "Plus", ["a", "b"]),
        ("a - b", "Minus", ["a", "b"]),
        ("W * b", "Times", ["W", "b"]),
        ("a .* b", "ElementTimes", ["a", "b"]),
        ("a < b", "Less", ["a", "b"]),
        ("a <= b", "LessEqual", ["a", "b"]),
        ("a == b", "Equal", ["a", "b"]),
        ("a != b", "NotEqual", ["a", "b"]),
        ("a > b", "Greater", ["a", "b"]),
        ("a >= b", "GreaterEqual", ["a", "b"]),
        ("a && b", "ElementTimes", ["a", "b"]),
        ("true && b", "ElementTimes", [1.0, "b"]),
        ("3 * b", "ElementTimes", [3.0, "b"]),
        ("a * 3", "ElementTimes", ["a", 3.0]),
        ("a / 4", "ElementTimes", ["a", 0.25]),
        ("1 / a", "Reciprocal", ["a"]),
        ("1 - a", "Minus", [1.0, "a"]),
        ("a + 2", "Plus", ["a", 2.0]),
        ("-a", "Negate", ["a"]),
        ("!a", "Minus", [1.0, "a"]),
        ("if a then b else W * a", "If", ["a", "b", "Times"]),
        ("if a then 1 else 2", "If", ["a", 1.0, 2.0]),
        ("if a then b else false", "If", ["a", "b", 0.0]),
    ],
)
def test_operators_make_nodes(build, expression, operation, inputs):
    network = build(f"{{ a = Input {{4}} ; b = Input {{4}} ; W = ParameterTensor {{(4:4)}} ; z = {expression} }}")
    node = network["z"]
    found = []
    for child in node.inputs:
        constant = child.op.name == "LearnableParameter" and child.name != "W"
        known = child.name if child.name in ("a", "b", "W") else child.op.name
        found.append(child.initializer.value if constant else known)
    assert (node.op.name, found) == (operation, inputs)


def test_a_known_truth_value_decides(build):
    assert build("{ a = Input {4} ; z = if false && a then Exp (a) else Sin (a) }")["z"].op.name == "Sin"
    assert build("{ a = Input {4} ; z = if true || a then Exp (a) else Sin (a) }")["z"].op.name == "Exp"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("a / b", "'/' cannot be applied to the node 'a' and the node 'b'"),
        ("2 / a", "'/' cannot be applied to the number 2 and the node 'a'"),
        ("a / 0", "division by zero"),
        ("a ** 2", "'**' cannot be applied to the node 'a' and the number 2"),
        ("a || b", "'||' cannot be applied to the node 'a' and the node 'b'"),
        ("a + 'x'", "'+' cannot be applied to the node 'a' and the text 'x'"),
        ("a + true", "'+' cannot be applied to the node 'a' and true"),
        ("a && 2", "'&&' cannot be applied to the node 'a' and the number 2"),
        ("if a then 'x' else b", "'if' cannot be applied to the node 'a' and the text 'x' and the node 'b'"),
    ],
)
def test_operands_that_do_not_fit(error_of, expression, message):
    error = error_of(f"{{ a = Input {{4}} ; b = Input {{4}} ; z = {expression} }}")
    assert error.splitlines()[0].split(": ", 1)[1] == message
