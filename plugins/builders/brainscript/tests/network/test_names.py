"""Names of nodes: expression paths, unique ones, names that differ in case."""

from __future__ import annotations


def test_names_are_expression_paths(build):
    network = build(
        """{
        x = Input {4}
        layers[i:0..1] = LinearLayer {3, init = 'zero'}
        h = { t = layers[0] (x) ; u = layers[1] (t) }
        z = Tanh (h.u) + Sin (h.t)
        }"""
    )
    names = {node.name: node.op.name for node in network}
    assert names == {
        "x": "InputValue",
        "layers[0].W": "LearnableParameter",
        "layers[0].b": "LearnableParameter",
        "layers[1].W": "LearnableParameter",
        "layers[1].b": "LearnableParameter",
        "h.t.PlusArgs[0]": "Times",
        "h.t": "Plus",
        "h.u.PlusArgs[0]": "Times",
        "h.u": "Plus",
        "z.PlusArgs[0]": "Tanh",
        "z.PlusArgs[1]": "Sin",
        "z": "Plus",
    }


def test_a_constant_gets_another_name_than_its_operator(build):
    network = build("{ x = Input {4} ; z = 2 * x + 0.5 ; n = { y = x + 1 } ; outputNodes = (n.y) }")
    assert {node.name: node.op.name for node in network} == {
        "x": "InputValue",
        "z": "Plus",
        "z.PlusArgs[0]": "ElementTimes",
        "_z.PlusArgs[0]": "LearnableParameter",
        "_z": "LearnableParameter",
        "n.y": "Plus",
        "_n.y": "LearnableParameter",
    }


def test_the_last_member_names_a_node(build):
    assert [node.name for node in build("{ x = Input {4} ; z = Exp (x) ; a = z }")] == ["x", "z"]


def test_names_that_differ_in_case(error_of):
    assert error_of("{\n x = Input {4}\n w = Exp (x)\n W = Sin (x)\n}") == (
        "r.cntk:3:6: the names 'W' (r.cntk:4:6) and 'w' differ only in case\n"
        "    The names of nodes ignore case; rename one of the two."
    )


def test_names_in_records_may_differ_in_case(build):
    network = build("{ x = Input {4} ; a = { w = Exp (x) ; W = Sin (x) } ; outputNodes = (a.w : a.W) }")
    assert sorted(node.name for node in network) == ["_a.W", "a.w", "x"]
