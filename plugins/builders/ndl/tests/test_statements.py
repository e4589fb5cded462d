"""Statements that add to a network which is there already."""

from __future__ import annotations

import pytest
from cntk_builder_ndl import Statements, add_statements, snippet_sources

from cntk_core.api import BuildContext, CntkError, Location, Network, core_ops
from cntk_core.api.builders import SourceText

TABLE = core_ops()
CONTEXT = BuildContext(find_op=TABLE.find, op_names=lambda language: tuple(TABLE.names(language)))
NET = "x=Input(4, tag=feature)\nM(a) { W=Parameter(3, 4) ; t=Times(W, a) }\nL1=M(x)\nz=Sigmoid(L1, tag=output)"


def text(lines: str) -> SourceText:
    return SourceText.of(lines, "e.mel")


@pytest.fixture
def there(net) -> Network:
    made: Network = net(NET)
    made.infer()
    return made


def test_operands_are_nodes_of_the_network(there: Network) -> None:
    new = add_statements(text("h=Tanh(L1.t)\nr=Plus(h, Z, tag=output)"), there, CONTEXT)
    assert [node.name for node in new] == ["h", "r"]
    assert new[0].inputs == [there["L1.t"]]
    assert new[1].inputs == [new[0], there["z"]]
    assert [node.name for node in there.roots["output"]] == ["z", "r"]
    assert str(new[1].where) == "e.mel:2:3"
    there.infer()
    assert new[1].shape == (3,)


def test_names_stay_known(there: Network) -> None:
    statements = Statements(there, CONTEXT, [text("Twice(a) { s=Tanh(a) ; u=Tanh(s) }\nlost=Input(9)")])
    statements.add(text("rows=5\nL2=Twice(z)\nP=Parameter(rows, 3)"))
    new = statements.add(text("t=Times(P, L2)\nu=Plus(L2.s, L2.u)\nOutputNodes=(t)"))
    assert [[child.name for child in node.inputs] for node in new] == [["P", "L2.u"], ["L2.s", "L2.u"]]
    statements.add(text("v=Tanh(t)\nOutputNodes=(v)"))
    assert [node.name for node in there.roots["output"]] == ["z", "t", "v"]


def test_texts_that_use_each_other(there: Network) -> None:
    new = Statements(there, CONTEXT).add(text("a=Tanh(b)"), text("b=Tanh(z)"))
    assert new[0].inputs == [new[1]]


def test_names_of_removed_and_renamed_nodes_can_be_used_again(there: Network) -> None:
    statements = Statements(there, CONTEXT)
    (old,) = statements.add(text("h=Tanh(z)"))
    there.rename(old, "k")
    (new,) = statements.add(text("h=Sigmoid(k)"))
    assert new.inputs == [old]
    there.remove(new)
    (again,) = statements.add(text("h=Tanh(k)"))
    assert again.op.name == "Tanh"


def test_numbers_of_nodes_without_a_name_go_on(there: Network) -> None:
    first = add_statements(text("a=Tanh(Sigmoid(z))"), there, CONTEXT)
    second = add_statements(text("b=Tanh(Sigmoid(z))"), there, CONTEXT)
    assert [node.name for node in first] == ["a", "unnamed2"]
    assert [node.name for node in second] == ["b", "unnamed4"]


WRONG = {
    "unknown name": ("h=Tanh(zz)", "e.mel:1:8: the name 'zz' is not defined; did you mean 'z'?"),
    "unknown member": (
        "h=Tanh(L1.u)",
        "e.mel:1:8: the name 'L1.u' is not defined; did you mean 'L1.W'?",
    ),
    "name of the network": (
        "k=Tanh(z)\nz=Tanh(k)",
        "e.mel:2:3: the node name 'z' is already used (first at r.cntk:5:3)",
    ),
    "number": ("h=RowSlice(z, 1, z)", "e.mel:1:12: the first row must be a number, not 'z'"),
    "syntax": ("h=Tanh(z)\nk=", "e.mel:2:3: a value is missing for 'k'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_leave_the_network_as_it_was(there: Network, case: str) -> None:
    lines, expected = WRONG[case]
    before = list(there)
    statements = Statements(there, CONTEXT)
    with pytest.raises(CntkError) as error:
        statements.add(text(lines))
    assert str(error.value) == expected
    assert list(there) == before
    assert [node.name for node in statements.add(text("k=Tanh(z)"))] == ["k"]


def test_mistakes_of_macros(there: Network) -> None:
    with pytest.raises(CntkError, match=r"^e\.mel:1:10: there is no function or macro 'Tahn'"):
        Statements(there, CONTEXT, [text("M(a) { y=Tahn(a) }")])


@pytest.mark.parametrize(
    ("file", "section", "name"),
    [
        ("a=Tanh(z)", "", "a"),
        ("run=n\nn=[ b=Tanh(z) ]\nm=[ c=Tanh(z) ]", "", "b"),
        ("run=n\nn=[ b=Tanh(z) ]\nm=[ c=Tanh(z) ]", "m", "c"),
    ],
)
def test_snippets(there: Network, shipped, file: str, section: str, name: str) -> None:
    sources = snippet_sources(shipped("s.ndl", file), section, None, Location("e.mel", 1, 1))
    assert [node.name for node in Statements(there, CONTEXT).add(*sources)] == [name]


def test_a_section_that_a_snippet_lacks(shipped) -> None:
    with pytest.raises(CntkError) as error:
        snippet_sources(shipped("s.ndl", "n=[ b=Tanh(z) ]"), "m", None, Location("e.mel", 1, 1))
    assert str(error.value) == "e.mel:1:1: there is no section 'm', which 'section' names\n    Sections here: n"
