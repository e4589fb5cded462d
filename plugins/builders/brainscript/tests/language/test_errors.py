"""The texts of errors: the place in the user's text, the value that was wrong, the chain of calls."""

from __future__ import annotations

import pytest
from cntk_builder_brainscript import evaluate


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("z = Opp (1)", "r:1:5: unknown identifier 'Opp'; did you mean 'Op'?"),
        ("weights = 1 ; z = wieghts", "r:1:19: unknown identifier 'wieghts'; did you mean 'weights'?"),
        ("z = qqqqqq", "r:1:5: unknown identifier 'qqqqqq'"),
        ("z = Op (1, 2, 3)", "r:1:5: 'Op' takes 1 argument (x), not 3\n    Optional: tag."),
        ("z = Op ()", "r:1:5: 'Op' takes 1 argument (x), not 0\n    Optional: tag."),
        ("z = Two (1)", "r:1:5: 'Two' takes 2 arguments (left, right), not 1"),
        ("f () = 1 ; z = f (2)", "r:1:16: 'f' takes no arguments, not 1"),
        ("f (dims) = 1 ; z = f (1, 2)",
         "r:1:20: 'f' takes 1 argument (dims), not 2\n    Write several dimensions as one argument: f (m : n)."),
        ("f (dims) = 1 ; z = f ()", "r:1:20: 'f' takes 1 argument (dims), not 0"),
        ("f (dims, b) = 1 ; z = f (1, 2, 3)", "r:1:23: 'f' takes 2 arguments (dims, b), not 3"),
        ("z = (x => x) (1, 2)", "r:1:14: the function takes 1 argument (x), not 2"),
        ("z = Two (1, right = 2)",
         "r:1:5: 'Two' takes 2 arguments (left, right), not 1\n"
         "    Give right by position: only optional parameters have names."),
        ("z = Two (1, 2, right = 2)",
         "r:1:5: 'Two' has no optional parameter 'right'\n"
         "    Give right by position: only optional parameters have names."),
        ("z = Op (1, tga = 'a')",
         "r:1:5: 'Op' has no optional parameter 'tga'; did you mean 'tag'?\n    Optional: tag."),
        ("z = (x => x) (1, a = 2)", "r:1:14: the function has no optional parameter 'a'"),
        ("z = 3 (4)", "r:1:7: only functions can be called, not the number 3"),
        ("a = [ b = 1 ] ; z = a (4)", "r:1:21: only functions can be called, not a record [b]"),
        ("a = [ bias = 1 ] ; z = a.bais",
         "r:1:26: a record [bias] has no member 'bais'; did you mean 'bias'?\n    Members: bias"),
        ("z = 'x'.y", "r:1:9: '.y' needs a record, not the text 'x'"),
        ("z = (1 : 2).y", "r:1:13: '.y' needs a record, not an array"),
        ("n = Op (1) ; z = n.dimm",
         "r:1:20: the node 'n' has no member 'dimm'; did you mean 'dim'?\n    Members: name, dim"),
        ("n = Op (1) + 2 ; z = n.dim", "r:1:24: the dimension is not known yet"),
        ("z = 3[0]", "r:1:6: '[ ]' needs an array, not the number 3"),
        ("z = (1 : 2)[5]", "r:1:13: the array has no element 5\n    It has the indices 0 to 1."),
        ("z = [| |][0]", "r:1:11: the array has no element 0\n    It is empty."),
        ("V[i:3..4] = i ; z = V[0]", "r:1:23: the array has no element 0\n    It has the indices 3 to 4."),
        ("z = (1 : 2)[0.5]", "r:1:13: an index must be a whole number, not the number 0.5"),
        ("z = (1 : 2)['a']", "r:1:13: an index must be a whole number, not the text 'a'"),
        ("z = array[0..'a'] (i => i)", "r:1:14: the last index must be a whole number, not the text 'a'"),
        ("z = array[0..1/0] (i => i)", "r:1:15: the last index must be a whole number, not the number inf"),
        ("z = array[0..1000000] (i => i)", "r:1:5: an array has at most 100000 elements, not 1000001"),
        ("z = array[0..1] (3)", "r:1:18: the elements of an array come from a function, not the number 3"),
        ("z = array[0..1] ((a => b => a) (1) : 2)",
         "r:1:36: the elements of an array come from a function, not an array"),
        ("f (a, b) = a ; z = array[0..1] (f)", "r:1:33: 'f' takes 2 arguments (a, b), not 1"),
        ("z = if 1 then 2 else 3", "r:1:8: the condition must be true or false, not the number 1"),
        ("z = 1 + true", "r:1:7: '+' cannot be applied to the number 1 and true"),
        ("z = 'a' * 2", "r:1:9: '*' cannot be applied to the text 'a' and the number 2"),
        ("z = 1 .* 2", "r:1:7: '.*' cannot be applied to the number 1 and the number 2"),
        ("z = 1 == 'a'", "r:1:7: '==' cannot be applied to the number 1 and the text 'a'"),
        ("z = true && 3", "r:1:10: '&&' cannot be applied to true and the number 3"),
        ("z = [ a = 1 ; b = 2 ; c = 3 ; d = 4 ; e = 5 ] + [| |]",
         "r:1:47: '+' cannot be applied to a record [a, b, c, d, ...] and an array"),
        ("z = 1 with [ a = 1 ]", "r:1:7: 'with' cannot be applied to the number 1 and a record [a]"),
        ("z = Op (1) % 2", "r:1:12: '%' cannot be applied to the node 'z.ModArgs[0]' and the number 2"),
        ("z = Op (1) ** 2", "r:1:12: nodes have no powers"),
        ("z = 1 >> 2", "r:1:7: '>>' cannot be applied to the number 1 and the number 2"),
        ("z = (1 : 2) << 0.5", "r:1:16: '<<' needs a whole number from 0 on, not 0.5"),
        ("z = -'a'", "r:1:5: '-' cannot be applied to the text 'a'"),
        ("z = !1", "r:1:5: '!' cannot be applied to the number 1"),
        ("f (a, b) = a ; G (x) = x ; z = (G >> f) (1)", "r:1:35: 'f' takes 2 arguments (a, b), not 1"),
        ("z = new Nod [ ]",
         "r:1:5: unknown kind of object 'Nod'; did you mean 'Node'?\n    Kinds: BoolVector, Broken, CompareFunction, "
         "Debug, FailAction, Node, NumericFunction, PrintAction, StringFunction, TensorShape."),
        ("z = new Broken [ ]", "r:1:5: this never works"),
        ("z = new Node [ kind = 3 ]", "r:1:23: 'kind' must be a text, not the number 3"),
        ("z = new Node [ kind = 'Op' ]", "r:1:14: 'inputs' is missing here"),
        ("a = 'x' + a ; z = a", "r:1:9: circular reference: 'a' needs its own value\n    a -> a"),
        ("a = b\nb = c * 2\nc = a\nz = a", "r:1:5: circular reference: 'a' needs its own value\n    a -> b -> c -> a"),
        ("f (x) = x + w ; w = f (1) ; z = w",
         "r:1:21: circular reference: 'w' needs its own value\n    w -> w"),
        ("V = V : 1 ; z = V[0]", "r:1:7: this array is an element of itself"),
        ("V = 1 : W ; W = 2 : V ; z = V[4]", "r:1:7: this array is an element of itself"),
        ("z = Op (y) ; y = Op (z)",
         "r:1:5: circular reference: 'z' needs its own value\n    z -> z.x -> y -> y.x -> z"),
    ],
)  # fmt: skip
def test_messages(problem, text, message):
    assert problem(text) == message


def test_the_chain_of_calls_goes_from_the_inside_out(problem):
    text = (
        "f (a) = a * 'x'\ng (b, name) = f (b + 1)\nh (c) = g (c, 'a text that is much too long for a line')\nz = h (2)"
    )
    assert problem(text) == (
        "r:1:11: '*' cannot be applied to the number 3 and the text 'x'\n"
        "    in f (a = 3) called at r:2:15\n"
        "    in g (b = 2, name = 'a text that is mu...') called at r:3:9\n"
        "    in h (c = 2) called at r:4:5"
    )


def test_an_error_in_the_library_is_shown_where_it_was_called(problem):
    text = "m = Layer {3}\nf (y) = m (y)\nz = f ('x')"
    assert problem(text) == (
        "r:2:9: '*' of a node and a text\n    in apply (x = 'x') called at r:2:9\n    in f (y = 'x') called at r:3:5"
    )


def test_an_argument_that_is_wrong_is_shown_where_it_is_written(problem):
    assert problem("f (x) = Op (x)\nz = f (\n  y)") == "r:3:3: unknown identifier 'y'"


def test_long_chains_are_shortened(problem):
    text = "f (n) = if n == 0 then Fail ('deep') else f (n - 1)\nz = f (20)"
    lines = problem(text).splitlines()
    assert lines[0] == "r:1:24: deep"
    assert lines[1] == "    in Fail (what = 'deep') called at r:1:24"
    assert lines[2] == "    in f (n = 0) called at r:1:43"
    assert lines[-1] == "    ... and 13 more calls"
    assert len(lines) == 1 + 10


@pytest.mark.parametrize(
    "text",
    [
        "f (n) = 1 + f (n)",
        "f (n) = f (n + 1)",
        "f (n) = Length (f (n) : 1)",
        "f (n) = (f (n) << 1)[0]",
        "f (n) = [ a = f (n) ].a",
    ],
)
@pytest.mark.sampled(3)
def test_endless_recursion(problem, text):
    message = problem(text + "\nz = f (1)", max_depth=5000).splitlines()[0]
    assert message.endswith("calls and expressions are nested more than 5000 deep: does the recursion end?")


@pytest.mark.slow
def test_endless_recursion_at_full_depth(problem):
    message = problem("f (n) = Length (f (n) : 1)\nz = f (1)").splitlines()[0]
    assert message.endswith("calls and expressions are nested more than 50000 deep: does the recursion end?")


def test_endless_networks(problem, monkeypatch):
    monkeypatch.setattr(evaluate, "MAX_SEGMENTS", 200)
    message = problem("f (n) = Op (f (n))\nz = f (1)").splitlines()
    assert message[0] == "r:1:9: the name of this object has more than 200 parts: does the recursion end?"
    assert message[1].startswith("    z.x.x.x.x.x.")


def test_endless_work(problem):
    text = "f (n) = if n == 0 then 0 else f (n - 1) + f (n - 1)\nz = f (100)"
    assert (
        problem(text, max_steps=10_000).splitlines()[0].endswith("this takes more than 10000 steps: does it ever end?")
    )


def test_texts_that_grow_without_bounds(problem):
    text = "a0 = '0123456789'\n" + "\n".join(f"a{n + 1} = a{n} + a{n}" for n in range(40)) + "\nz = a40"
    assert problem(text).endswith("this text has more than 1000000 characters")


REPLACE = "Replace (arg, replacewhat, withwhat) = new StringFunction [ what = 'Replace' ]\n"
THOUSAND = f"{REPLACE}text = '{'x' * 1000}'\n"


@pytest.mark.parametrize("expression", ["text + ''", "Replace (text, 'y', '')"])
def test_copying_a_text_counts_a_step_for_ten_characters(script, problem, expression):
    text = f"{THOUSAND}z = {expression}"
    assert script(text, max_steps=150).get("z") == "x" * 1000
    assert "this takes more than 90 steps: does it ever end?" in problem(text, max_steps=90)


@pytest.mark.parametrize("more", ["million + ' '", "Replace (million + '', text, text + ' ')"])
def test_the_longest_text(script, problem, more):
    text = f"{THOUSAND}million = Replace (text, 'x', text)\n"
    assert script(f"{text}z = Replace (million + '', 'x', 'y')").get("z") == "y" * 1_000_000
    message = problem(f"{text}z = {more}").splitlines()[0]
    assert message.endswith("this text has more than 1000000 characters")


def test_arrays_that_grow_without_bounds(problem):
    text = "a0 = 1 : 2\n" + "\n".join(f"a{n + 1} = a{n} : a{n}" for n in range(40)) + "\nz = Length (a40)"
    assert problem(text).splitlines()[0] == "r:17:11: an array has at most 100000 elements, not 131072"
    nested = text.replace(" : a", " ; a").replace("= a", "= [| a").replace("\na", " |]\na").replace("\nz", " |]\nz")
    shape = nested.replace("1 : 2 |]", "1 : 2").replace("Length (a40)", "new TensorShape [ dims = a40 ]")
    assert problem(shape).splitlines()[0].endswith("an array has at most 100000 elements")


def test_after_an_error_everything_can_be_asked_again(script, problem):
    made = script("a = Op (b) ; b = Fail ('no') ; z = a ; y = 1 + 1")
    for _ in range(3):
        with pytest.raises(Exception, match="no"):
            made.get("z")
    assert made.get("y") == 2.0
