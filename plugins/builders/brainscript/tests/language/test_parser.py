from __future__ import annotations

import pytest
from cntk_builder_brainscript.parser import parse, parse_expression
from cntk_builder_brainscript.syntax import (
    ArrayLiteral,
    ArrayRange,
    Call,
    Conditional,
    Function,
    Identifier,
    Index,
    Infix,
    Literal,
    Member,
    New,
    RecordLiteral,
    Unary,
)

from cntk_core.api import CntkError, Problems
from cntk_core.api.builders import SourceText


def show(e):
    """The tree with all its brackets."""
    match e:
        case Literal():
            return repr(e.value)
        case Identifier():
            return e.name
        case Member():
            return f"{show(e.record)}.{e.name}"
        case Index():
            return f"{show(e.array)}[{show(e.index)}]"
        case Unary():
            return f"({e.operator}{show(e.operand)})"
        case Infix():
            return f"({show(e.left)} {e.operator} {show(e.right)})"
        case Conditional():
            return f"(if {show(e.condition)} then {show(e.positive)} else {show(e.negative)})"
        case New():
            return f"new {e.kind} {show(e.record)}"
        case Call():
            named = [f"{name}={show(a.value)}" for name, a in e.named.items()]
            return f"{show(e.function)}({', '.join([*map(show, e.arguments), *named])})"
        case Function():
            named = [f"{name}={show(a.value)}" for name, a in e.optional.items()]
            return f"({e.name}({', '.join([*e.parameters, *named])}) => {show(e.body)})"
        case RecordLiteral():
            return "{" + "; ".join(f"{name} = {show(m.value)}" for name, m in e.members.items()) + "}"
        case ArrayLiteral():
            return f"({' : '.join(map(show, e.items))})" if e.joins else f"[|{'; '.join(map(show, e.items))}|]"
        case ArrayRange():
            return f"array[{show(e.first)}..{show(e.last)}]({show(e.function)})"


def expression(text):
    return show(parse_expression(SourceText.of(text, "r")))


def text(lines, include=None):
    return show(parse(SourceText.of(lines, "r"), include))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("a + b * c", "(a + (b * c))"),
        ("a * b + c", "((a * b) + c)"),
        ("a - b - c", "((a - b) - c)"),
        ("a * b ** c", "((a * b) ** c)"),
        ("a ** b ** c", "((a ** b) ** c)"),
        ("a / b .* c % d", "(((a / b) .* c) % d)"),
        ("a + b == c - d", "((a + b) == (c - d))"),
        ("a < b && c >= d", "((a < b) && (c >= d))"),
        ("a || b && c", "(a || (b && c))"),
        ("a || b >> c", "((a || b) >> c)"),
        ("a >> b >> c", "((a >> b) >> c)"),
        ("a << 1 >> b", "((a << 1.0) >> b)"),
        ("a : b >> c : d", "(a : (b >> c) : d)"),
        ("a with b + c", "((a with b) + c)"),
        ("a != b <= c", "((a != b) <= c)"),
        ("-a * b", "((-a) * b)"),
        ("-a.b", "(-a.b)"),
        ("-a ** 2", "((-a) ** 2.0)"),
        ("-f (x)", "(-f(x))"),
        ("!a && b", "((!a) && b)"),
        ("- -a", "(-(-a))"),
        ("+a[0]", "(+a[0.0])"),
        ("a - -b", "(a - (-b))"),
        ("(a + b) * c", "((a + b) * c)"),
        ("x => x + 1", "((x) => (x + 1.0))"),
        ("x => y => x : y", "((x) => ((y) => (x : y)))"),
        ("a : x => x", "a : x => x"),
        ("if a then b else c : d", "(if a then b else (c : d))"),
        ("if a then b else if c then d else e", "(if a then b else (if c then d else e))"),
        ("a + if b then c else d", "(a + (if b then c else d))"),
    ],
)
def test_precedence(written, read):
    if written == read:
        with pytest.raises(CntkError, match="a name expected before '=>'"):
            expression(written)
    else:
        assert expression(written) == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1.5", "1.5"),
        ("0x10", "16.0"),
        ("1e999", "inf"),
        ("'a' + \"b\"", "('a' + 'b')"),
        ("true", "True"),
        ("a.b.c", "a.b.c"),
        ("a.b (c).d", "a.b(c).d"),
        ("f (a, b, c = d)", "f(a, b, c=d)"),
        ("f {a, c = d, b}", "f(a, b, c=d)"),
        ("f () {}", "f()()"),
        ("f (a) (b) [0]", "f(a)(b)[0.0]"),
        ("[ a = 1 ; b = 2 ]", "{a = 1.0; b = 2.0}"),
        ("{ a = 1\n b = 2 }", "{a = 1.0; b = 2.0}"),
        ("{ a = 1 b = 2 }", "{a = 1.0; b = 2.0}"),
        ("[]", "{}"),
        ("{ a = [ b = { c = 1 } ] }.a.b", "{a = {b = {c = 1.0}}}.a.b"),
        ("{ f (x, y = 1) = x }", "{f = (f(x, y=1.0) => x)}"),
        ("{ f {x} = x }", "{f = (f(x) => x)}"),
        ("{ V[i:0..n - 1] = i * i }", "{V = array[0.0..(n - 1.0)](((i) => (i * i)))}"),
        ("{ V[i:0..1] (x) = x }", "{V = array[0.0..1.0](((i) => (V(x) => x)))}"),
        ("[| |]", "[||]"),
        ("[| a |]", "[|a|]"),
        ("[| a : b ; c |]", "[|(a : b); c|]"),
        ("a : b : c", "(a : b : c)"),
        ("(a : b) : c", "(a : b : c)"),
        ("a : (b : c)", "(a : (b : c))"),
        ("array[0..3] (i => i)", "array[0.0..3.0](((i) => i))"),
        ("new Kind [ a = 1 ]", "new Kind {a = 1.0}"),
        ("new Kind { a = 1 }.b", "new Kind {a = 1.0}.b"),
        ("(a)", "a"),
        ("a\n  + b\n  (c)", "(a + b(c))"),
        ("r\nwith [ a = 1 ]", "(r with {a = 1.0})"),
    ],
)
def test_forms(written, read):
    assert expression(written) == read


def test_a_text_of_definitions():
    assert text("a = 1 ;; b = a + 1\nf (x) = x\n  * 2\nc = f (b) ;") == (
        "{a = 1.0; b = (a + 1.0); f = (f(x) => (x * 2.0)); c = f(b)}"
    )
    assert text("# nothing") == "{}"


def test_included_definitions():
    assert text("a = 1\ninclude 'f'\nc = 3", lambda path, where: SourceText.of("b = 2", path)) == (
        "{a = 1.0; b = 2.0; c = 3.0}"
    )


def test_places():
    record = parse(SourceText.of("a = f (x)\n  + r.m [0]", "r"))
    plus = record.members["a"].value
    assert str(record.members["a"].where) == "r:1:1"
    assert str(plus.where) == "r:2:3"
    assert str(plus.left.where) == "r:1:5"
    assert str(plus.right.where) == "r:2:9"
    assert str(plus.right.array.where) == "r:2:7"


OPEN = "\n    The '{}' at r:1:{} is still open."


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("a = ", "r:1:5: a value expected, not the end of the text"),
        ("a", "r:1:2: '=' expected, not the end of the text"),
        ("a = 1 2", "r:1:7: a definition (name = value) expected, not '2'"),
        ("= 1", "r:1:1: a definition (name = value) expected, not '='"),
        ("a = 'x' 'y'", "r:1:9: a definition (name = value) expected, not the text 'y'"),
        ("a = (1", "r:1:7: ')' expected, not the end of the text" + OPEN.format("(", 5)),
        ("a = f (1 2)", "r:1:10: ',' or ')' expected, not '2'" + OPEN.format("(", 7)),
        ("a = f (1,)", "r:1:10: an argument expected, not ')'" + OPEN.format("(", 7)),
        ("a = [ b = 1 }", "r:1:13: a definition (name = value) expected, not '}'" + OPEN.format("[", 5)),
        ("a = { 1 }", "r:1:7: a definition (name = value) expected, not '1'" + OPEN.format("{", 5)),
        ("a = [| 1, 2 |]", "r:1:9: ';' or '|]' expected, not ','" + OPEN.format("[|", 5)),
        ("a = x[1", "r:1:8: ']' expected, not the end of the text" + OPEN.format("[", 6)),
        ("a = if b then c", "r:1:16: 'else' expected, not the end of the text"),
        ("a = if b c", "r:1:10: 'then' expected, not 'c'"),
        ("a = new [ ]", "r:1:9: a name expected, not '['"),
        ("a = new K x", "r:1:11: a record of arguments after new K expected, not 'x'"),
        ("a = b.1", "r:1:6: a definition (name = value) expected, not '.1'"),
        ("a = b.if", "r:1:7: a name expected, not 'if'"),
        ("a = (1) => 2", "r:1:6: a name expected before '=>'"),
        ("a = array[1] (i => i)", "r:1:12: '..' expected, not ']'" + OPEN.format("[", 10)),
        ("f (1) = 2", "r:1:4: a parameter must be a name"),
        ("f (x, x) = 2", "r:1:7: two parameters are named 'x'"),
        ("f (x, x = 1) = 2", "r:1:4: two parameters are named 'x'"),
        ("a = f (b = 1, b = 2)", "r:1:15: 'b' is given twice"),
        ("V[1:0..2] = 1", "r:1:3: a name expected, not '1'" + OPEN.format("[", 2)),
        ("a = 1\nb = 2\na = 3", "r:3:1: 'a' is defined twice\n    The first definition is at r:1:1."),
        ("a = [ b = 1 ; b = 2 ]", "r:1:15: 'b' is defined twice\n    The first definition is at r:1:7."),
        ("if = 1", "r:1:1: a definition (name = value) expected, not 'if'"),
        ("a =\nb = 1", "r:2:1: a value expected, not 'b'"),
        ("x = Input {4\nz = x\n", "r:2:1: ',' or '}' expected, not 'z'" + OPEN.format("{", 11)),
        ("a = " + "(" * 2000, "r:1:1005: expressions are nested more than 1000 deep"),
        ("a = " + "-" * 2000, "r:1:1005: expressions are nested more than 1000 deep"),
        ("a = " + "[a=" * 2000, "r:1:3005: expressions are nested more than 1000 deep"),
    ],
)
def test_mistakes(written, message):
    with pytest.raises(CntkError) as caught:
        text(written)
    assert str(caught.value) == message


def test_one_pass_finds_all_mistakes():
    with pytest.raises(Problems) as caught:
        text("a = 1 +\nb = [ c = ; d = 2\n e = ) ]\nf (x = 2\ng = $3\nh = 4\nh = 5\n")
    assert [str(error).split("\n")[0] for error in caught.value.errors] == [
        "r:2:1: a value expected, not 'b'",
        "r:3:6: a value expected, not ')'",
        "r:5:1: ',' or ')' expected, not 'g'",
        "r:5:5: unexpected character '$'",
        "r:7:1: 'h' is defined twice",
    ]


def test_junk_after_an_expression():
    with pytest.raises(CntkError, match=r"^r:1:7: the end of the text expected, not '\)'$"):
        expression("{a=1} )")


def test_mistakes_do_not_add_to_the_depth():
    with pytest.raises(CntkError) as caught:
        text("\n".join(f"a{n} = ((((+)" for n in range(15)) + "\nb = " + "(" * 990 + "1" + ")" * 990)
    assert "nested" not in str(caught.value)


def test_no_more_than_twenty_mistakes():
    with pytest.raises(Problems) as caught:
        text("a = )\n" * 50)
    assert len(caught.value.errors) == 20


def test_long_chains_need_no_depth():
    sum_of_many = parse_expression(SourceText.of(" + ".join("a" * 3000), "r"))
    count = 0
    while isinstance(sum_of_many, Infix):
        sum_of_many = sum_of_many.left
        count += 1
    assert count == 2999
    assert len(parse_expression(SourceText.of(" : ".join("a" * 3000), "r")).items) == 3000
