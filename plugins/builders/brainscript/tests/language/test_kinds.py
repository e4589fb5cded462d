"""What objects of a kind give, and what they refuse; named options, logic and texts of numbers beside them."""

from __future__ import annotations

import math

import pytest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("new NumericFunction [ what = 'Floor' ; arg = -1.5 ]", -2.0),
        ("new NumericFunction [ what = 'IntDiv' ; args = (7 : 2) ]", 3.0),
        ("new NumericFunction [ what = 'IntDiv' ; args = (-7 : 2) ]", -3.0),
        ("new NumericFunction [ what = 'Mod' ; args = (7 : 4) ]", 3.0),
        ("Length ('abc')", 3.0),
        ("Length (1 : 2 : 3 : 4)", 4.0),
        ("Format ('a', 's')", "a"),
        ("Format ('a', '.2')", "a"),
        ("Format (true, 'd')", "true"),
        ("Format (3, 's')", "3"),
        ("Format (3.5, 'd')", "3"),
        ("Format (3.25, '.1f')", "3.2"),
        ("IsSame ('a', 'a')", True),
        ("IsSame ('a', 'b')", False),
        ("new CompareFunction [ what = 'IsBool' ; args = 1 ]", False),
        ("new CompareFunction [ what = 'IsBool' ; args = false ]", True),
        ("new CompareFunction [ what = 'IsDouble' ; args = 1 ]", True),
        ("new CompareFunction [ what = 'IsDouble' ; args = 'a' ]", False),
        ("new CompareFunction [ what = 'IsArray' ; args = (1 : 2) ]", True),
        ("new CompareFunction [ what = 'IsArray' ; args = 1 ]", False),
        ("true || (1 == 'a')", True),
        ("false || true", True),
        ("false || false", False),
        ("true || 3", True),
        ("false && (1 == 'a')", False),
        ("true && true", True),
        ("1e999", math.inf),
        ("-1e999", -math.inf),
        ("0x10", 16.0),
        (f"0x{'f' * 300}", math.inf),
        ("f (1, c = 2)", [1.0, 2.0]),
        ("f (1)", [1.0, 5.0]),
    ],
)
def test_values(script, text, expected):
    assert script(f"f (a, c = 5) = a : c ; z = {text}").get() == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("z = new CompareFunction [ what = 'IsThing' ; args = 1 ]",
         "r:1:34: 'what' cannot be 'IsThing'\n    Accepted: IsSameObject, IsArray, IsDouble, IsBool."),
        ("z = new NumericFunction [ what = 'Cos' ; arg = 1 ; args = (1 : 2) ]",
         "r:1:34: 'what' cannot be 'Cos'\n    Accepted: Floor, Length, Mod, IntDiv."),
        ("z = new NumericFunction [ what = 'Mod' ; args = (7 : 0) ]", "r:1:52: Mod by zero"),
        ("z = new NumericFunction [ what = 'Floor' ; arg = 'a' ]", "r:1:50: 'arg' must be a number, not the text 'a'"),
        ("z = Format ('a', 'd')",
         "r:1:5: a text cannot be written as 'd'\n    at <library>/toy.bs:12:71\n"
         "    in Format (value = 'a', format = 'd') called at r:1:5"),
        ("z = Length (true)",
         "r:1:5: 'arg' must be a text or an array, not true\n    at <library>/toy.bs:11:60\n"
         "    in Length (x = true) called at r:1:5"),
        ("z = new BoolVector [ ]", "r:1:20: 'items' is missing here"),
        ("z = new Debug [ ]", "r:1:15: 'value' is missing here"),
        ("z = new TensorShape [ dims = 'a' ]", "r:1:30: 'dims' must be whole numbers, not the text 'a'"),
        ("z = new TensorShape [ dims = 2.5 ]", "r:1:30: 'dims' must be whole numbers, not the number 2.5"),
        ("z = false || 3", "r:1:11: '||' cannot be applied to false and the number 3"),
        ("z = 3 || true", "r:1:7: '||' cannot be applied to the number 3 and true"),
        ("f (a, c = 5) = a ; z = f (1, d = 2)", "r:1:24: 'f' has no optional parameter 'd'\n    Optional: c."),
        ("f (a) = a ; z = f (1, c = 2)", "r:1:17: 'f' has no optional parameter 'c'"),
        ("f (a, c = 5) = f ; z = f (1) + 1",
         "r:1:30: '+' cannot be applied to the function f(a, c=) and the number 1"),
        ("z = (x => x) + 1", "r:1:14: '+' cannot be applied to a function and the number 1"),
    ],
)  # fmt: skip
def test_what_is_refused(problem, text, message):
    assert problem(text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "r:1:1: a definition (name = value) expected, not '5'"),
        ("z = 1 }", "r:1:7: a definition (name = value) expected, not '}'"),
        ("z = [ a = 1 ; 5 ]",
         "r:1:15: a definition (name = value) expected, not '5'\n    The '[' at r:1:5 is still open."),
        ("f (aa) (b) = 1", "r:1:8: '=' expected, not '('"),
        ("z = 0xZZ", "r:1:9: '=' expected, not the end of the text"),
    ],
)  # fmt: skip
def test_what_is_no_definition(problem, text, message):
    assert problem(text) == message
