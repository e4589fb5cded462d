"""Items, braces, separators, key=value, append-on-override."""

from __future__ import annotations

import pytest

from cntk_core.config import SourceText, parse_text
from cntk_core.config.lexer import block_contents, split_items
from cntk_core.config.parser import parse_elements
from cntk_core.errors import ConfigError


def items(text: str, separator: str = ";") -> list[str]:
    source = SourceText.of(text)
    return [text[item.start : item.end] for item in split_items(source, separator)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a=1\nb=2,c=3;d", ["a=1", "b=2", "c=3", "d"]),
        ("[a=1;b=2]", ["a=1", "b=2"]),
        ("{a=1;b=2}", ["a=1", "b=2"]),
        ("[a=1] [b=2]", ["a=1", "b=2"]),
        ("[] [b=2]", ["b=2"]),
        ("a=[x=1;y=(2,3)] ; b=4", ["a=[x=1;y=(2,3)]", "b=4"]),
        ('a="x;y=[" ; b=1', ['a="x;y=["', "b=1"]),
        ('["a;b" ; c]', ["a;b", "c"]),
        ("[[a=1] ; {b}]", ["[a=1]", "{b}"]),
        ("f(x)=[y=1]", ["f(x)", "=[y=1]"]),
        ("[|a=1;2|b=3]", ["a=1;2", "b=3"]),
        ("[ |a=1]", ["|a=1"]),
        ("[|a=1] ; b=2", ["a=1", "b=2"]),
        ("", []),
        (" \n , ;", []),
    ],
)
def test_items(text: str, wanted: list[str]) -> None:
    assert [item.strip() for item in items(text)] == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a:b:c", ["a", "b", "c"]),
        ("(a:b)", ["a", "b"]),
        ("{a:b}:c", ["a", "b", "c"]),
        ("((a:b):(c:d))", ["(a:b)", "(c:d)"]),
        ("(;this;is;a path:;c:\\dir)", ["this", "is", "a path:", "c:\\dir"]),
        ("(..\\dir:b)", ["..\\dir", "b"]),
        ("(./dir:b)", ["./dir", "b"]),
        ("(.\\dir:b)", [".\\dir", "b"]),
        ("(\\\\host\\dir:b)", ["\\\\host\\dir", "b"]),
        ("(.a.b)", ["a", "b"]),
        ("(-a-b)", ["a", "b"]),
        ("(-1:2)", ["-1", "2"]),
        ("(-.5:2)", ["-.5", "2"]),
        ("(.5:.25)", [".5", ".25"]),
        ("a*3:b", ["a", "a", "a", "b"]),
        ("a * 2 : b", ["a", "a", "b"]),
        ("(W0*features:x)", ["W0*features", "x"]),
        ('("a*2":b)', ["a*2", "b"]),
        ('"a:b"', ["a", "b"]),
    ],
)
def test_elements(text: str, wanted: list[str]) -> None:
    elements = parse_elements(SourceText.of(text))
    assert [element.value.text for element in elements for _ in range(element.count)] == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a=1", {"a": "1"}),
        ("a = x y \t", {"a": "x y"}),
        ("flag", {"flag": "true"}),
        ("a=1 ; flag ; b=2", {"a": "1", "flag": "true", "b": "2"}),
        ('a=" x "', {"a": "x"}),
        ('a=""', {"a": ""}),
        ("a=[]", {"a": "[]"}),
        ("section[x=1]", {"section": "[x=1]"}),
        ("section [x=1]", {"section": "[x=1]"}),
        ("a=b=c", {"a": "b=c"}),
        ("a=f(x,y)", {"a": "f(x,y)"}),
        ("a=(1:2) b=3", {"a": "(1:2)", "b": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\nA=2", {"a": "2"}),
        ("a=[x=1]\na=[x=2]", {"a": "[x=1] [x=2]"}),
        ("a={x=1}\na=[y=2]", {"a": "{x=1} [y=2]"}),
        ("a=[x=1]\na={x=2}", {"a": "{x=2}"}),
        ("a=1\na=[x=2]", {"a": "[x=2]"}),
        ("f(x)=[y=1]\nb=2", {"f": "(x)", "b": "2"}),
        ("]\na=1", {"a": "1"}),
    ],
)
def test_entries(text: str, wanted: dict[str, str]) -> None:
    config = parse_text(text)
    assert {key: config.raw(key) for key in config.keys()} == wanted  # noqa: SIM118


def test_later_keys_of_an_appended_block_win() -> None:
    config = parse_text("Train=[SGD=[maxEpochs=5;rate=1];x=1]\ntrain=[sgd=[MAXEPOCHS=2]]")
    sgd = config.section("Train").section("SGD")
    assert (sgd.integer("maxEpochs"), sgd.real("rate"), config.section("Train").integer("x")) == (2, 1.0, 1)


def test_block_contents() -> None:
    contents = block_contents(SourceText.of("[a\n b] {c}"))
    assert contents is not None
    assert contents.text == "a\n b\nc"
    assert str(contents.locate(contents.text.index("b"))) == "<text>:2:2"
    together = block_contents(SourceText.of("[a][b]"))
    assert together is not None
    assert together.text == "a\nb"
    assert block_contents(SourceText.of("(a)")) is None
    assert block_contents(SourceText.of("[a] x")) is None


def test_stray_closing_bracket_is_a_warning() -> None:
    config = parse_text("a=[b=1]\n]\n", file="r.cntk")
    assert config.warnings == ("r.cntk:2:1: this ']' closes nothing",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=[\n b=1\n", "r:1:3: no closing ']' for this '['\n    Add a ']' where the block ends."),
        (
            "A=[\n b=(1\n]\nC=2",
            "r:3:1: ']' does not match the '(' at r:2:4\n    Close that bracket with ')' first, or remove this ']'.",
        ),
        (
            "A=[\n b=[\n]\nC=2",
            "r:1:3: no closing ']' for this '['\n"
            "    Add a ']' where the block ends. 'C' at r:4:1 stands at the left margin inside it: missing before?",
        ),
        ('a="x', "r:1:3: no closing '\"' for this quotation mark\n    Add a '\"' where the text ends."),
        (
            "x=1\n  a=\nb=1",
            "r:2:3: no value is given for 'a'\n"
            '    Write a="" for an empty text. The bracket of a block stands on the same line as its name.',
        ),
        ("a=1 ; =5", "r:1:7: a name is missing before '='\n    Write name=value."),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_text(text, file="r")
    assert str(caught.value) == message


def test_repeat_count_errors() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_text("a=1*0", file="r").array("a")
    assert (
        str(caught.value)
        == "r:1:5: '1*0' repeats its value 0 times\n    A count is a whole number from 1 to 1000000000."
    )
    with pytest.raises(ConfigError) as caught:
        parse_text("a=1*900000000", file="r").array("a")
    assert str(caught.value) == "r:1:3: a has too many elements\n    An array has at most 1000000 elements."
