from __future__ import annotations

import math

import pytest

INF = math.inf


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("z = 1 + 2 * 3 - 4 / 8", 6.5),
        ("z = 7 % 4 + -7 % 4", 0.0),
        ("z = 2 ** 10 ** 0.5", 32.0),
        ("z = 1 / 0", INF),
        ("z = -1 / 0", -INF),
        ("z = 10 ** 1000", INF),
        ("z = 0 ** -1", INF),
        ("z = 1 < 2 && 2 <= 2 && 3 > 2 && 3 >= 3 && 1 == 1 && 1 != 2", True),
        ("z = 'a' < 'b' && 'a' + 'b' == 'ab' && 'a' != 'b'", True),
        ("z = true == true && true != false && !false", True),
        ("z = false || true", True),
        ("z = +3 - -3", 6.0),
        ("z = 'n' + 3", "n3"),
        ("z = 0.5 + 'x' + 1e-5", "0.5x1e-05"),
        ("z = if 1 > 2 then 'a' else 'b'", "b"),
        ("z = a ; a = b ; b = 3", 3.0),
        ("z = [ a = 1 ; b = a + 1 ].b", 2.0),
        ("a = 1 ; z = [ a = 2 ; b = a ].b", 2.0),
        ("a = 1 ; z = [ b = [ c = a ] ].b.c", 1.0),
        ("z = 1 : 2 : 3", [1.0, 2.0, 3.0]),
        ("z = (1 : 2) : (3 : 4) : [| |]", [1.0, 2.0, 3.0, 4.0]),
        ("z = [| (1 : 2) ; 3 |]", [[1.0, 2.0], 3.0]),
        ("a = 1 : 2 ; z = a : 0 : a", [1.0, 2.0, 0.0, 1.0, 2.0]),
        ("z = (5 : 6 : 7)[1]", 6.0),
        ("V = 1 : V[0] + 1 : V[1] + V[0] ; z = V", [1.0, 2.0, 3.0]),
        ("V = (1 : 2) : W ; W = V[0] : V[1] ; z = V", [1.0, 2.0, 1.0, 2.0]),
        ("z = array[2..4] (i => i * i)", [4.0, 9.0, 16.0]),
        ("z = array[2..4] (i => i * i)[3]", 9.0),
        ("V[i:-1..1] = i + 1 ; z = V[-1] : V[1]", [0.0, 2.0]),
        ("z = array[1..0] (i => i)", []),
        ("V[i:0..5] = if i < 2 then i else V[i-1] + V[i-2] ; z = V[5]", 5.0),
        ("z = (1 : 2 : 3) << 1", [2.0, 3.0]),
        ("z = (1 : 2 : 3) << 5", []),
        ("V[i:3..5] = i ; z = (V << 1)[3]", 4.0),
        ("f (x) = x + 1 ; z = f (2)", 3.0),
        ("f {x, y = 5} = x + y ; z = f {1} : f {1, y = 2}", [6.0, 3.0]),
        ("z = (x => y => x - y) (5) (3)", 2.0),
        ("f () = 4 ; z = f ()", 4.0),
        ("f (n) = if n <= 1 then 1 else n * f (n - 1) ; z = f (10)", 3628800.0),
        ("sum (a) = if Length (a) == 0 then 0 else a[0] + sum (a << 1) ; z = sum (1 : 2 : 3)", 6.0),
        ("f (x) = { y = x + 1 ; w = y } ; z = f (1).w", 2.0),
        ("f (x) = { y = 1 } ; z = f (7).x", 7.0),
        ("F (x) = x + 1 ; G (x) = x * 2 ; H = F >> G ; z = H (3)", 8.0),
        ("F (x, y, w = 1) = x + y + w ; G (x) = x * 2 ; z = (F >> G) (3, 4, w = 0)", 14.0),
        ("G (x) = x * 2 ; z = 3 >> G", 6.0),
        ("z = BS.Ops.Neg (3)", -3.0),
        ("f (x, g = (y => y * 2)) = g (x) ; z = f (2) : f (2, g = (y => y + 5))", [4.0, 7.0]),
        ("a = 2 ; f (x = a) = x ; z = [ a = 3 ; b = f () ].b", 2.0),
        ("g (x) = [ a = x ; f () = a ] ; z = g (4).f ()", 4.0),
        ("z = [ a = 1 ; b = (2 : 'x') ]", {"a": 1.0, "b": [2.0, "x"]}),
    ],
)
def test_values(value, text, expected):
    result = value(text)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize("text", ["z = 0 / 0", "z = 1 % 0", "z = (-8) ** 0.5"])
def test_not_a_number(value, text):
    assert math.isnan(value(text))


@pytest.mark.parametrize(
    "text",
    [
        "z = if true then 1 else Fail ('no')",
        "z = if false then Fail ('no') else 1",
        "z = [ a = 1 ; b = Fail ('no') ].a",
        "f (x, y) = x ; z = f (1, Fail ('no'))",
        "f (x = Fail ('no')) = 1 ; z = f ()",
        "f (x = Fail ('no')) = x ; z = f (x = 1)",
        "z = (1 : Fail ('no'))[0]",
        "z = [| Fail ('no') ; 1 |][1]",
        "z = array[0..3] (i => if i == 1 then 1 else Fail ('no'))[1]",
        "z = if false && Fail ('no') then 0 else 1",
        "z = if true || Fail ('no') then 1 else 0",
        "a = Fail ('no') ; z = 1",
        "z = Length (array[0..0] (i => Fail ('no')))",
    ],
)
def test_what_is_not_needed_is_not_evaluated(value, text):
    assert value(text) == 1.0


def test_everything_is_evaluated_once(script):
    made = script("a = Print ('a') ; f (x) = [| x ; x ; x |] ; z = f (a) : a : f (Print ('b'))")
    made.get()
    assert made.runtime.said == ["a", "b"]


def test_a_default_value_is_evaluated_once_for_all_calls(script):
    made = script("f (x = Print ('d')) = x ; z = f () : f ()")
    assert made.get() == ["d", "d"]
    assert made.runtime.said == ["d"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r = [ a = 1 ; b = a + 1 ] ; z = r with [ a = 5 ]", {"a": 5.0, "b": 6.0}),
        ("r = [ a = 1 ; b = a + 1 ] ; s = r with [ a = 5 ] ; z = r", {"a": 1.0, "b": 2.0}),
        ("r = [ a = 1 ; b = [ c = a ] ] ; z = (r with { a = 5 }).b.c", 5.0),
        ("r = [ a = 1 ; f (x) = x + a ] ; z = (r with [ a = 5 ]).f (1)", 6.0),
        ("r = [ a = 1 ; b = a ; c = b ] ; z = (r with [ a = 2 ] with [ b = 7 ])", {"a": 2.0, "b": 7.0, "c": 7.0}),
        ("r = [ a = 1 ] ; z = r with [ b = 2 ]", {"a": 1.0, "b": 2.0}),
        ("k = 9 ; r = [ k = 1 ; a = k ] ; z = (r with [ a = k ]).a", 9.0),
        ("r = [ a = Fail ('no') ; b = a ] ; z = (r with [ a = 3 ]).b", 3.0),
        ("f (n) = [ a = n ; b = a * 2 ] ; z = (f (3) with [ a = 1 ]).b", 2.0),
        ("r = [ a = 1 ; b = a + 1 ] ; s = r with [ a = 2 ] ; t = s with [ b = a ] ; a = 50 ; z = t.b", 50.0),
    ],
)
def test_with(value, text, expected):
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("z = Op (x) ; x = Op (1)", ["x = Op(1.0)", "z = Op(x)"]),
        ("z = Op (Op (1))", ["z.x = Op(1.0)", "z = Op(z.x)"]),
        ("a = Op (1) ; z = a + a", ["a = Op(1.0)", "z = +(a, a)"]),
        ("z = Op (1) + 2 * Op (3)", ["z.PlusArgs[0] = Op(1.0)", "z.PlusArgs[1].TimesArgs[1] = Op(3.0)",
                                     "z.PlusArgs[1] = *(2.0, z.PlusArgs[1].TimesArgs[1])",
                                     "z = +(z.PlusArgs[0], z.PlusArgs[1])"]),
        ("z = -Op (1)", ["z._negate = Op(1.0)", "z = -(z._negate)"]),
        ("z = !Op (1)", ["z._not = Op(1.0)", "z = !(z._not)"]),
        ("z = +Op (1)", ["z = Op(1.0)"]),
        ("z = [ W = Op (1) ; y = Op (W) ].y", ["z.W = Op(1.0)", "z.y = Op(z.W)"]),
        ("L = [ W = Op (1) ; y = Op (W) ] ; z = L.y", ["L.W = Op(1.0)", "L.y = Op(L.W)"]),
        ("L[i:0..1] = Op (i) ; z = L[1]", ["L[1] = Op(1.0)"]),
        ("L[i:0..1] = [ b = Op (i) ] ; z = L[1].b", ["L[1].b = Op(1.0)"]),
        ("z = (Op (1) : Op (2))", ["z[0] = Op(1.0)", "z[1] = Op(2.0)"]),
        ("z = (Op (1) : Op (2)) : Op (3)", ["z[0] = Op(1.0)", "z[1] = Op(2.0)", "z[2] = Op(3.0)"]),
        ("z = Op (0) : (Op (1) : Op (2))", ["z[0] = Op(0.0)", "z[1][0] = Op(1.0)", "z[1][1] = Op(2.0)"]),
        ("z = Op (0) : [| [ a = Op (1) ].a |]", ["z[0] = Op(0.0)", "z[1][0].a = Op(1.0)"]),
        ("z = (Op (1) : Op (2))[0]", ["z._vector[0] = Op(1.0)"]),
        ("f (x) = Op (x) ; z = f (Op (1))", ["z.x = Op(1.0)", "z = Op(z.x)"]),
        ("f (a) = g (a) ; g (b) = Op (b) ; z = f (Op (1))", ["z.a = Op(1.0)", "z = Op(z.a)"]),
        ("f (a) = g (Op (a)) ; g (b) = Op (b) ; z = f (1)", ["z.b = Op(1.0)", "z = Op(z.b)"]),
        ("f (x, o = Op (2)) = Two (x, o) ; z = f (1)", ["f.o = Op(2.0)", "z = Two(1.0, f.o)"]),
        ("f (x, o = 0) = Two (x, o) ; z = f (1, o = Op (3))", ["z.o = Op(3.0)", "z = Two(1.0, z.o)"]),
        ("z = if true then Op (1) else Op (2)", ["z = Op(1.0)"]),
        ("z = if Op (0) then Op (1) else Op (2)",
         ["z.if = Op(0.0)", "z.then = Op(1.0)", "z.else = Op(2.0)", "z = if(z.if, z.then, z.else)"]),
        ("F (x) = Op (x) ; z = (F >> F) (1)", ["z.arg = Op(1.0)", "z = Op(z.arg)"]),
        ("F (x) = Op (x) ; z = Op (1) >> F", ["z.BeforeArgs[0] = Op(1.0)", "z = Op(z.BeforeArgs[0])"]),
        ("m = Layer {3} ; z = m (1)",
         ["m.W = Parameter()", "z.PlusArgs[0] = *(m.W, 1.0)", "m.b = Parameter()", "z = +(z.PlusArgs[0], m.b)"]),
        ("z = Layer {3, bias = false} (1)", ["z.W = Parameter()", "z = *(z.W, 1.0)"]),
        ("r = [ a = Op (1) ; b = Op (a) ] ; y = r with [ k = 0 ] ; z = y.b", ["y.a = Op(1.0)", "y.b = Op(y.a)"]),
        ("r = [ a = Op (1) ; b = Op (a) ] ; y = r with [ a = Op (2) ] ; z = y.b", ["y.WithArgs[1].a = Op(2.0)",
                                                                                   "y.b = Op(y.WithArgs[1].a)"]),
        ("z = Op (1) <= Op (2)",
         ["z.LEArgs[0] = Op(1.0)", "z.LEArgs[1] = Op(2.0)", "z = <=(z.LEArgs[0], z.LEArgs[1])"]),
        ("z = Op (1) && true", ["z.AndArgs[0] = Op(1.0)", "z = &&(z.AndArgs[0], True)"]),
        ("a = Op (1) ; z = a.name + a.name", ["a = Op(1.0)"]),
        ("p = Parameter {5} ; z = p.dim * 2", ["p = Parameter()"]),
    ],
)  # fmt: skip
def test_names(script, text, nodes):
    made = script(text)
    made.get()
    assert made.nodes == nodes


def test_arguments_of_a_node_have_names_from_the_root(script):
    made = script("N (x) = new Node [ kind = 'Two' ; inputs = x : Op (2) ] ; z = N (Op (1))")
    made.get()
    assert made.nodes == ["z.x = Op(1.0)", "inputs[1] = Op(2.0)", "z = Two(z.x, inputs[1])"]


def test_a_loop_through_a_delay(script):
    made = script("h = Op (Two (1, Delay (h))) ; z = h")
    made.get()
    assert made.nodes == ["h.x.right = Delay(h)", "h.x = Two(1.0, h.x.right)", "h = Op(h.x)"]


def test_a_loop_in_the_body_of_a_function(script):
    made = script("R {} = { apply (x) = { s = Op (Two (x, Delay (s))) }.s }.apply ; z = R {} (Op (1))")
    made.get()
    assert made.nodes == [
        "z.x = Op(1.0)",
        "z.s.x.right = Delay(z.s)",
        "z.s.x = Two(z.x, z.s.x.right)",
        "z.s = Op(z.s.x)",
    ]


def test_places_of_nodes_are_in_the_users_text(script):
    made = script("x = 1\nm = Layer {3}\nz = m (Op (x))")
    made.get()
    assert {name: str(where) for name, where in made.runtime.places.items()} == {
        "m.W": "r:2:5",
        "z.x": "r:3:8",
        "m.b": "r:2:5",
    }


def test_a_network_of_many_layers(script):
    made = script("f (x, n) = if n == 0 then x else Op (f (x, n - 1)) ; z = f (Op (0), 1500)")
    made.get()
    assert len(made.nodes) == 1501


def test_functions_called_from_outside(script):
    made = script("f (x, y = 1) = x + y ; z = 0")
    f = made.get("f")
    assert made.evaluator.call(f, [2.0]) == 3.0
    assert made.evaluator.call(f, [2.0], named={"y": 5.0}) == 7.0


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("r = [\nn = 4 ; m = 2\n]\nz = r with [\n n = 8 ]", {"n": 5, "m": 2}),
        ("r = [\nn = 4 ; m = n\n]\nz = r with [\n n = 8 + 1 ] with [\n m = 3 ]", {"n": 5, "m": 6}),
        ("r = [\nn = 4 ]\nb = [\n n = 8 ; k = 'a' ]\nz = r with b", {"n": 4, "k": 4}),
    ],
)
def test_members_of_with_know_where_they_are_written(script, text, line):
    made = script(text)
    record = made.evaluator.run(lambda: made.record.get("z"))
    assert {name: record.where_of(name).line for name in line} == line
