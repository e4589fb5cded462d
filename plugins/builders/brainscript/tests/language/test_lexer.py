from __future__ import annotations

import pytest
from cntk_builder_brainscript.lexer import Lexer

from cntk_core.api import BuildError, Location
from cntk_core.api.builders import SourceText


def tokens(text, include=None):
    lexer = Lexer(include)
    found = lexer.tokens(SourceText.of(text, "r"))
    return [(t.kind, t.text) for t in found[:-1]], [str(e) for e in lexer.errors]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("a _b c1 A", ["name"] * 4),
        ("new with true false if then else array", ["keyword"] * 8),
        ("1 1.5 .5 1e3 1.e-2 0x1F 1E+2", ["number"] * 7),
        ("'a' \"b\" 'a\nb' ''", ["text"] * 4),
        ("** .* || && << >> == >= != <= => .. [| |]", ["mark"] * 14),
        ("= ; , [ ] ( ) { } + - * / % ! < > : .", ["mark"] * 19),
        ("", []),
        ("# all of it\n// and this /* too\n/* a\n * b */", []),
    ],
)
def test_kinds(text, kinds):
    found, errors = tokens(text)
    assert [kind for kind, _ in found] == kinds
    assert errors == []


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("1..2", ["1", "..", "2"]),
        ("1...2", ["1", "..", ".2"]),
        ("a.b", ["a", ".", "b"]),
        ("x.*y", ["x", ".*", "y"]),
        ("1.*y", ["1.", "*", "y"]),
        ("a=>b>=c", ["a", "=>", "b", ">=", "c"]),
        ("[|1|]", ["[|", "1", "|]"]),
        ("a[1]", ["a", "[", "1", "]"]),
        ("'it''s'", ["it", "s"]),
        ("'say \"x\"'", ['say "x"']),
        ("'# no comment // here'", ["# no comment // here"]),
        ("a//b\nc#d\ne", ["a", "c", "e"]),
        ("3x", ["3", "x"]),
        ("1e", ["1", "e"]),
        ("\ufeffa\u00a0b\tc\r\nd", ["a", "b", "c", "d"]),
    ],
)
def test_cuts(text, texts):
    found, errors = tokens(text)
    assert [piece for _, piece in found] == texts
    assert errors == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a = $x",
            "r:1:5: unexpected character '$'\n    Variables such as $name$ are filled in outside of BrainScript.",
        ),
        ("a ^ b", "r:1:3: unexpected character '^'"),
        ("a\x00", "r:1:2: unexpected character 'U+0000'"),
        ("a & b & c", "r:1:3: unexpected character '&'"),
        ("a = /* x", "r:1:5: this comment has no end\n    It ends with */."),
        (
            "\na = 'x",
            "r:2:5: this text has no closing quotation mark\n    It ends with '; there is no other way to write ' "
            "into it than the other kind of mark.",
        ),
        ("include a", 'r:1:9: include needs the path of a file\n    Written: include "file.bs"'),
        ("include", 'r:1:8: include needs the path of a file\n    Written: include "file.bs"'),
        ("include 'f.bs'", "r:1:9: include 'f.bs' is not possible here"),
    ],
)
def test_mistakes(text, message):
    assert tokens(text)[1] == [message]


def files(**texts):
    def include(path, where):
        if path not in texts:
            raise BuildError(f"no file '{path}'", where=where)
        return SourceText.of(texts[path], path)

    return include


def test_an_included_text_stands_where_the_include_is():
    lexer = Lexer(files(f="b = 2"))
    found = lexer.tokens(SourceText.of("a = 1 include 'f'\nc = 3", "r"))
    assert [t.text for t in found] == ["a", "=", "1", "b", "=", "2", "c", "=", "3", ""]
    assert found[3].where == Location("f", 1, 1)
    assert found[6].where == Location("r", 2, 1)
    assert found[3].first
    assert found[6].first


def test_a_missing_file_is_an_error_at_the_include():
    assert tokens("x = 1\ninclude 'g'", files())[1] == ["r:2:9: no file 'g'"]


def test_includes_that_include_each_other():
    assert tokens("include 'a'", files(a="include 'b'", b="include 'a'"))[1] == [
        "b:1:9: 'a' includes itself\n    a -> b -> a"
    ]


def test_includes_that_multiply_are_stopped():
    texts = {f"f{n}": f"include 'f{n + 1}' " * 2 for n in range(12)}
    errors = tokens("include 'f0'", files(**texts, f12=""))[1]
    assert errors[0].endswith("more than 1000 files are included")
