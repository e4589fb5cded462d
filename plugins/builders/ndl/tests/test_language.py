"""Statements, macros, names: what a description means."""

from __future__ import annotations

import pytest

from cntk_core.api import Network

NET = """
x=Input(4)
y=Input(3)
W=Parameter(3,4)
b=Parameter(3,1)
"""
GROUPS = """
FeatureNodes=(x)
LabelNodes=(y)
"""


def described(network: Network) -> dict[str, str]:
    return {node.name: f"{node.op.name}({', '.join(child.name for child in node.inputs)})" for node in network}


def test_nodes_inputs_and_groups(net) -> None:
    made = net(
        NET
        + """
        z=Plus(Times(W,x),b)
        ce=CrossEntropyWithSoftmax(y,z)
        err=ErrorPrediction(y,z)
        FeatureNodes=(x)
        LabelNodes=(y)
        CriterionNodes=(ce)
        EvalNodes=(err)
        OutputNodes=(z)
        """
    )
    assert described(made) == {
        "x": "InputValue()",
        "y": "InputValue()",
        "W": "LearnableParameter()",
        "b": "LearnableParameter()",
        "z": "Plus(unnamed12, b)",
        "unnamed12": "Times(W, x)",
        "ce": "CrossEntropyWithSoftmax(y, z)",
        "err": "ClassificationError(y, z)",
    }
    groups = {role: [node.name for node in nodes] for role, nodes in made.roots.items()}
    assert groups == {
        "feature": ["x"], "label": ["y"], "criterion": ["ce"], "evaluation": ["err"], "output": ["z"],
    }  # fmt: skip
    made.infer()
    assert made["z"].shape == (1, 3)
    assert str(made["unnamed12"].where) == "r.cntk:8:16"


@pytest.mark.parametrize(
    "group",
    ["CriterionNodes=(ce)", "criteriaNodes=(ce)", "CRITERIONNODES={ce}", "CriterionNodes=(ce:ce)"],
)
def test_spellings_of_groups(net, group: str) -> None:
    made = net(NET + f"ce=SquareError(y,Times(W,x))\n{group}" + GROUPS)
    assert [node.name for node in made.roots["criterion"]] == ["ce"]


def test_a_group_without_parentheses_names_its_node_anew(net) -> None:
    made = net(
        NET + "M(a) { t=Times(W,a) }\nm=M(x)\nce=SquareError(y,m)\nCriterionNodes=ce\nOutputNodes=m\nFeatureNodes=(x)"
    )
    assert [node.name for node in made.roots["criterion"]] == ["CriterionNodes"]
    assert [node.name for node in made.roots["output"]] == ["OutputNodes.t"]


@pytest.mark.parametrize(
    ("tag", "role"),
    [
        ("criterion", "criterion"),
        ("Criteria", "criterion"),
        ('"criteria"', "criterion"),
        ("eval", "evaluation"),
        ("evaluate", "evaluation"),
        ("OUTPUT", "output"),
        ("label", "label"),
        ("multiSeq", None),
    ],
)
def test_tags(net, tag: str, role: str | None) -> None:
    made = net(f"f=Input(2, tag=feature)\ns=Sigmoid(f, tag={tag})")
    marked = [name for name, nodes in made.roots.items() if made["s"] in nodes]
    assert marked == ([role] if role else [])


def test_tag_of_a_macro_call_is_that_of_its_value(net) -> None:
    made = net(
        """
        M(a) { s=Sigmoid(a); t=Tanh(s) }
        f=Input(2, tag=feature)
        m=M(f, tag=output)
        """
    )
    assert [node.name for node in made.roots["output"]] == ["m.t"]


MACROS = [
    "M(a, b) { t=Times(a, b) ; s=Sigmoid(t) }",
    "M(a, b)\n{\n t=Times(a, b)\n s=Sigmoid(t)\n}",
    "M(a, b)\n[\n t=Times(a, b)\n s=Sigmoid(t)\n]",
    "M(a, b) = [ t=Times(a, b) ; s=Sigmoid(t) ]",
    "M(a, b)={t=Times(a, b), s=Sigmoid(t)}",
    "M(A, B) { T=Times(a, b) ; S=SIGMOID(t) }",
    # The name of the macro is its value, wherever it stands.
    "S(a, b) { t=Times(a, b) ; S=Sigmoid(t) ; u=Tanh(S) }\nM(a, b) { M=S(a, b) }",
]


@pytest.mark.parametrize("macro", MACROS)
def test_forms_of_macros(net, macro: str) -> None:
    made = net(f"{macro}\nx=Input(4,tag=feature)\nW=Parameter(3,4)\nm=M(W, x)\nout=Tanh(m, tag=output)")
    (output,) = made.roots["output"]
    (value,) = output.inputs
    assert value.op.name == "Sigmoid"
    assert [node.name for node in value.inputs[0].inputs] == ["W", "x"]


def test_one_line_macros_have_unnamed_nodes(net) -> None:
    made = net("R(a,b)=Sigmoid(Plus(a,b))\nx=Input(4,tag=feature)\ny=R(x,x)\nz={}".replace("z={}", "z=R(y,x)"))
    # Numbers: 1 Sigmoid and 2 Plus of the definition, 3 Input and 4 its 4, 5 the call, 6 Plus of the copy.
    assert described(made) == {
        "x": "InputValue()",
        "y.unnamed1": "Sigmoid(y.unnamed6)",
        "y.unnamed6": "Plus(x, x)",
        "z.unnamed1": "Sigmoid(z.unnamed8)",
        "z.unnamed8": "Plus(y.unnamed1, x)",
    }


def test_calls_without_a_name_in_a_macro(net) -> None:
    made = net("R(a)={Dropout(Sigmoid(a))}\nx=Input(4,tag=feature)\ny=R(x)")
    assert [node.name for node in made] == ["x", "y.unnamed1", "y.unnamed6"]


def test_macros_in_macros_and_members(net) -> None:
    made = net(
        """
        FF(X1, W1, B1) [ T=Times(W1,X1); P=Plus(T, B1) ]
        BFF(in, rows, cols)
        {
            B=Parameter(rows, init=fixedvalue, value=0)
            W=Parameter(rows, cols)
            FF = FF(in, w, b)
        }
        SBFF(in, rowCount, colCount) { BFF = BFF(in, rowCount, colCount) ; S = Sigmoid(BFF) }
        again(in, source) { FF = FF(in, source.BFF.W, source.BFF.B) }
        dim=4
        x=Input(dim, tag=feature)
        L1=SBFF(x, dim, dim)
        L2=again(L1, L1)
        OutputNodes=(L1.BFF.FF.T, L2)
        """
    )
    assert described(made) == {
        "x": "InputValue()",
        "L1.BFF.B": "LearnableParameter()",
        "L1.BFF.W": "LearnableParameter()",
        "L1.BFF.FF.T": "Times(L1.BFF.W, x)",
        "L1.BFF.FF.P": "Plus(L1.BFF.FF.T, L1.BFF.B)",
        "L1.S": "Sigmoid(L1.BFF.FF.P)",
        "L2.FF.T": "Times(L1.BFF.W, L1.S)",
        "L2.FF.P": "Plus(L2.FF.T, L1.BFF.B)",
    }
    assert [node.name for node in made.roots["output"]] == ["L1.BFF.FF.T", "L2.FF.P"]
    made.infer()
    assert made["L1.BFF.W"].shape == (4, 4)


def test_macros_see_the_names_of_the_description(net) -> None:
    made = net("M(a) { s=Plus(a, shared) }\nx=Input(4,tag=feature)\nshared=Parameter(4)\nm=M(x)")
    assert described(made)["m.s"] == "Plus(x, shared)"


def test_options_of_a_macro_call_are_names_in_it(net) -> None:
    made = net("M(a) { p=Parameter(3, a, initValueScale=width) }\nx=Input(4,tag=feature)\nm=M(4, width=8)")
    assert made["m.p"].initializer.scale == 8.0


def test_macros_in_a_macro_body(net) -> None:
    made = net("Outer(a) { Inner(b) { s=Sigmoid(b) } ; i=Inner(a) }\nx=Input(4,tag=feature)\no=Outer(x)")
    assert "o.i.s" in made


def test_macro_calls_as_arguments(net) -> None:
    made = net("M(a) { s=Sigmoid(a) }\nx=Input(4,tag=feature)\nz=Tanh(M(M(x)))")
    sigmoid = made["z"].inputs[0]
    assert [sigmoid.op.name, sigmoid.inputs[0].op.name, sigmoid.inputs[0].inputs[0].name] == ["Sigmoid", "Sigmoid", "x"]


def test_forward_references(net) -> None:
    made = net("z=Sigmoid(q)\nq=Tanh(x)\nx=Input(n, tag=feature)\nn=4")
    assert described(made) == {"z": "Sigmoid(q)", "q": "Tanh(x)", "x": "InputValue()"}
    assert made["x"].shape == (4,)


def test_another_name_renames_the_node(net) -> None:
    made = net("x=Input(4,tag=feature)\na=Sigmoid(x)\nb=a\nc=Tanh(a)\nd=Tanh(b)\nOutputNodes=b")
    assert described(made) == {"x": "InputValue()", "b": "Sigmoid(x)", "c": "Tanh(b)", "d": "Tanh(b)"}


def test_separators_and_repetition(net) -> None:
    made = net("x=Input(2*2:3 ,\n 1, tag=feature); y=Sigmoid( x ) , z = Tanh (y)\n\n,;\n")
    assert made["x"].shape == (1, 3, 2, 2)
    assert described(made)["z"] == "Tanh(y)"


def test_two_statements_in_a_line_after_a_brace(net) -> None:
    assert len(net("x=Input(4,tag=feature)y=Sigmoid(x)")) == 2


def test_functions_as_arrays_of_a_group(net) -> None:
    made = net("x=Input(4,tag=feature)\nOutputNodes=(Sigmoid(x), Tanh(x))")
    assert [node.op.name for node in made.roots["output"]] == ["Sigmoid", "Tanh"]


def test_names_with_dots(net) -> None:
    made = net("M(a) { F=Tanh(a) }\nx=Input(4,tag=feature)\nCE.B=M(x)\nu.v=Sigmoid(CE.B.F)\nz=Plus(u.v, CE.B)")
    assert described(made) == {
        "x": "InputValue()",
        "CE.B.F": "Tanh(x)",
        "u.v": "Sigmoid(CE.B.F)",
        "z": "Plus(u.v, CE.B.F)",
    }


def test_nodes_without_a_name_are_known_by_the_one_they_get(net) -> None:
    made = net(
        """
        M(a) { F=Tanh(Sigmoid(a)) }
        x=Input(4,tag=feature)
        m=M(x)
        z=Plus(m.unnamed6, unnamed9)
        OutputNodes=(Exp(x))
        """
    )
    assert described(made)["z"] == "Plus(m.unnamed6, unnamed9)"


def test_options_of_other_functions_have_no_effect(net) -> None:
    notes: list[str] = []
    net("M(a) { t=Tanh(a, init=uniform) }\nx=Input(4,tag=feature)\nm=M(x)\nn=M(x)", trace=notes.append)
    assert notes == ["r.cntk:2:18: Tanh has no optional argument 'init'; it has no effect"]
