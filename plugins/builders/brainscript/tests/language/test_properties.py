from __future__ import annotations

import contextlib
import math

from cntk_builder_brainscript.evaluate import Evaluator
from cntk_builder_brainscript.parser import PRECEDENCE, parse, parse_expression
from cntk_builder_brainscript.syntax import Infix, Literal
from cntk_builder_brainscript.values import Array, flatten
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.api import CntkError
from cntk_core.api.builders import SourceText

NUMBERS = st.floats(allow_nan=False, allow_infinity=False, min_value=0)
PIECES = [
    "a", "b", "f", "1", "0.5", "'t'", "=", "(", ")", "{", "}", "[", "]", "[|", "|]", ",", ";", ":", "..", ".", "+", "-",
    "*", "!", "<", "==", "&&", "||", ">>", "<<", "=>", "with", "new", "K", "if", "then", "else", "true", "array", "\n",
    "include", "# c\n", "/*", "*/", "$", "a = 1\n", "f (a) = a\n", "V[i:0..3] = i\n", "b = f (a)\n",
]  # fmt: skip


class NoNodes:
    """A runtime that makes nothing."""

    kinds = ()

    def definition(self, name):
        return None

    def further_names(self):
        return ()

    def is_node(self, value):
        return False

    def describe(self, value):
        return str(value)


def evaluate(text):
    return Evaluator(NoNodes(), max_steps=20_000).value(parse_expression(SourceText.of(text)))


def read(text):
    """The tree, or None for one of our errors."""
    with contextlib.suppress(CntkError):
        return parse(SourceText.of(text))
    return None


@given(st.text())
def test_any_text_is_a_tree_or_one_of_our_errors(text):
    read(text)


@given(st.lists(st.sampled_from(PIECES), max_size=40).map(" ".join))
def test_any_row_of_tokens_is_a_tree_or_one_of_our_errors(text):
    tree = read(text)
    if tree is None:
        return
    machine = Evaluator(NoNodes(), max_steps=20_000)
    record = machine.record(tree)
    for name in record.names():
        with contextlib.suppress(CntkError):
            machine.run(lambda name=name: record.get(name))


@given(NUMBERS)
def test_numbers_are_read_as_they_are_written(number):
    assert evaluate(repr(number)) == number


@given(st.text(alphabet=st.characters(exclude_characters="'")))
def test_texts_are_read_as_they_are_written(text):
    assert evaluate(f"'{text}'") == text


BINARY = [operator for operator, level in PRECEDENCE.items() if 5 <= level < 90 and operator != "with"]


@given(st.lists(st.sampled_from(BINARY), min_size=1, max_size=12))
def test_operators_bind_by_their_level_and_to_the_left(operators):
    text = "0" + "".join(f" {operator} {index}" for index, operator in enumerate(operators, start=1))

    def check(e):
        """The leaves of an expression from left to right; no side has an operator that should be outside."""
        if isinstance(e, Literal):
            return [e.value]
        level = PRECEDENCE[e.operator]
        assert not isinstance(e.left, Infix) or PRECEDENCE[e.left.operator] >= level
        assert not isinstance(e.right, Infix) or PRECEDENCE[e.right.operator] > level
        return check(e.left) + check(e.right)

    assert check(parse_expression(SourceText.of(text))) == [float(i) for i in range(len(operators) + 1)]


@given(st.lists(st.one_of(NUMBERS, st.lists(NUMBERS, max_size=3)), min_size=2, max_size=8))
def test_joining_takes_arrays_apart(parts):
    def write(part):
        return f"[| {' ; '.join(map(repr, part))} |]" if isinstance(part, list) else repr(part)

    array = evaluate(" : ".join(map(write, parts)))
    expected = [x for part in parts for x in (part if isinstance(part, list) else [part])]
    assert isinstance(array, Array)
    assert [array.at(i) for i in reversed(range(len(expected)))] == expected[::-1]
    assert array.values() == flatten(array) == expected


@given(st.integers(-20, 20), st.integers(0, 20))
def test_ranges_keep_their_indices(first, count):
    array = evaluate(f"array[{first}..{first + count - 1}] (i => i * 2)")
    assert isinstance(array, Array)
    assert (array.first, len(array), array.last) == (first, count, first + count - 1)
    assert [array.at(i) for i in range(first, first + count)] == [2.0 * i for i in range(first, first + count)]


@given(st.floats(-100, 100), st.floats(-100, 100), st.sampled_from("+-*/%"))
def test_arithmetic_is_that_of_doubles(a, b, operator):
    result = evaluate(f"({a!r}) {operator} ({b!r})")
    assert isinstance(result, float)
    if b == 0 and operator in "/%":
        assert math.isinf(result) or math.isnan(result)
    else:
        python = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else 0, "%": math.fmod(a, b) if b else 0}
        assert result == python[operator]
