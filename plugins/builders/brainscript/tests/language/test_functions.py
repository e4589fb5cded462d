from __future__ import annotations

import pytest
from cntk_builder_brainscript.values import BoolVector, TensorShape


def new(kind, **arguments):
    return f"z = new {kind} [ {' ; '.join(f'{name} = {text}' for name, text in arguments.items())} ]"


@pytest.mark.parametrize(
    ("value_text", "how", "text"),
    [
        ("3", "", "3"),
        ("0.5", "", "0.500000"),
        ("0.5", ".2", "0.50"),
        ("3", ".2", "03"),
        ("3", "d", "3"),
        ("3", "5d", "    3"),
        ("3", "05", "00003"),
        ("-3", "-5", "-3   "),
        ("3", ".1f", "3.0"),
        ("0.001", "g", "0.001"),
        ("0.00001", ".1e", "1.0e-05"),
        ("255", "x", "ff"),
        ("65", "c", "A"),
        ("2.5", "s", "2.5"),
        ("2.9", "d", "2"),
        ("1/0", "", "inf"),
        ("1/0", "d", "inf"),
        ("'abc'", "", "abc"),
        ("'abc'", "5", "  abc"),
        ("'abc'", ".2s", "ab"),
        ("true", "", "true"),
        ("[ a = 1 ; b = 'x' ]", "", "[\n  a = 1\n  b = x\n]"),
        ("1 : 2.5", "", "( 1\n  2.500000 )"),
        ("[ a = [ b = (1 : 2) ] ]", "", "[\n  a = [\n    b = ( 1\n      2 )\n  ]\n]"),
        ("new TensorShape [ dims = 3 : 4 ]", "", "3 x 4"),
        ("Op (1)", "", "the node 'z.value'"),
    ],
)
def test_format(value, value_text, how, text):
    assert value(f"z = Format ({value_text}, '{how}')") == text


def test_a_record_that_has_itself_as_a_member_can_be_shown(value):
    assert "..." in value("a = [ b = a ] ; z = Format (a, '')")


def test_many_values_beside_each_other_are_all_shown(value):
    found = value("a = array[1..80] (i => [ b = i ]) ; z = Format (a, '')")
    assert "..." not in found
    assert "80" in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (new("StringFunction", what="'Chr'", arg="65"), "A"),
        (new("StringFunction", what="'Substr'", arg="'hello'", pos="1", chars="3"), "ell"),
        (new("StringFunction", what="'Substr'", arg="'hello'", pos="-3", chars="2"), "ll"),
        (new("StringFunction", what="'Substr'", arg="'hello'", pos="1", chars="-1"), "ello"),
        (new("StringFunction", what="'Substr'", arg="'hello'", pos="9", chars="1"), ""),
        (new("StringFunction", what="'Replace'", arg="'aXbX'", replacewhat="'X'", withwhat="'--'"), "a--b--"),
        (new("StringFunction", what="'Replace'", arg="'ab'", replacewhat="''", withwhat="'x'"), "ab"),
        (new("NumericFunction", what="'Floor'", arg="-1.5"), -2.0),
        (new("NumericFunction", what="'Length'", arg="'abc'"), 3.0),
        (new("NumericFunction", what="'Length'", arg="[| |]"), 0.0),
        (new("NumericFunction", what="'Length'", arg="array[2..4] (i => i)"), 3.0),
        (new("NumericFunction", what="'Mod'", args="(7 : 4)"), 3.0),
        (new("NumericFunction", what="'Mod'", args="(-7 : 4)"), -3.0),
        (new("NumericFunction", what="'IntDiv'", args="(-7 : 4)"), -1.0),
        (new("CompareFunction", what="'IsArray'", args="(1 : 2)"), True),
        (new("CompareFunction", what="'IsArray'", args="1"), False),
        (new("CompareFunction", what="'IsDouble'", args="1"), True),
        (new("CompareFunction", what="'IsDouble'", args="true"), False),
        (new("CompareFunction", what="'IsBool'", args="true"), True),
        ("z = IsSame (BS.None, BS.None)", True),
        ("z = IsSame ([| |], BS.None)", False),
        ("a = Op (1) ; b = a ; z = IsSame (a, b)", True),
        ("z = IsSame (Op (1), Op (1))", False),
        (new("TensorShape", dims="3"), TensorShape((3,))),
        (new("TensorShape", dims="(3 : 4) : 0"), TensorShape((3, 4, 0))),
        ("f (dims) = new TensorShape [ ] ; z = f (2 : 3)", TensorShape((2, 3))),
        (new("TensorShape", dims="new TensorShape [ dims = 7 ]"), TensorShape((7,))),
        (new("BoolVector", items="true : false"), BoolVector((True, False))),
        (new("BoolVector", items="true"), BoolVector((True,))),
    ],
)
def test_objects(value, text, expected):
    assert value(text) == expected


@pytest.mark.parametrize(
    ("what", "said"),
    [("'text'", ["text"]), ("3", ["3"]), ("(1 : 2)", ["( 1\n  2 )"])],
)
def test_print(script, what, said):
    made = script(f"z = Print ({what})")
    made.get()
    assert made.runtime.said == said


@pytest.mark.parametrize(
    ("enabled", "say", "said"), [("true", "'it is'", ["it is", "3"]), ("true", "''", ["3"]), ("false", "'no'", [])]
)
def test_debug(script, enabled, say, said):
    made = script(new("Debug", value="1 + 2", say=say, enabled=enabled))
    assert made.get() == 3.0
    assert made.runtime.said == said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "z = Format (3, '5.2q')",
            "r:1:5: '5.2q' is not a format\n    A format is what stands between % and the end of a printf format, "
            "such as '.2' or '05d'.\n    at <library>/toy.bs:12:85\n"
            "    in Format (value = 3, format = '5.2q') called at r:1:5",
        ),
        (
            new("StringFunction", what="'Frmat'", arg="3"),
            "r:1:33: 'what' cannot be 'Frmat'; did you mean 'Format'?\n    Accepted: Format, Chr, Substr, Replace.",
        ),
        (new("StringFunction", what="'Chr'", arg="-1"),
         "r:1:47: 'arg' must be the number of a character, not the number -1"),
        (new("NumericFunction", what="'Mod'", args="(7 : 0)"), "r:1:52: Mod by zero"),
        (new("NumericFunction", what="'Mod'", args="(7 : 0.5)"),
         "r:1:52: 'args' must be two whole numbers, not the number 0.5"),
        (new("NumericFunction", what="'Mod'", args="7"), "r:1:49: Mod needs an array of two arguments"),
        (new("NumericFunction", what="'Length'", arg="3"),
         "r:1:51: 'arg' must be a text or an array, not the number 3"),
        (new("NumericFunction", what="'Floor'", arg="'x'"), "r:1:50: 'arg' must be a number, not the text 'x'"),
        (new("TensorShape", dims="2.5"), "r:1:30: 'dims' must be whole numbers, not the number 2.5"),
        (new("TensorShape", dims="-2"), "r:1:30: 'dims' must be dimensions, not the number -2"),
        (new("BoolVector", items="1"), "r:1:30: 'items' must be true or false, not the number 1"),
        (new("TensorShape"), "r:1:21: 'dims' is missing here"),
        (
            "z = Fail ('stop here please')",
            "r:1:5: stop here please\n"
            "    in Fail (what = 'stop here please') called at r:1:5",
        ),
    ],
)  # fmt: skip
def test_mistakes(problem, text, message):
    assert problem(text) == message
