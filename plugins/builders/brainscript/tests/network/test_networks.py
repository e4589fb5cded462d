"""Networks that are loaded, edited, or of which a part becomes a function."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def edit(build, loader):
    """Build a network from models in memory."""
    return lambda text, **nets: build(text, load_model=loader(**nets))


def test_load(edit, trained):
    network = edit("( BS.Network.Load ('old') )", old=trained())
    assert [node.name for node in network] == [node.name for node in trained()]
    assert {role: [node.name for node in nodes] for role, nodes in network.roots.items()} == {
        "feature": ["x"],
        "label": ["y"],
        "criterion": ["ce"],
        "evaluation": [],
        "output": ["z"],
    }


def test_a_loaded_network_is_a_record(edit, trained):
    network = edit("{ net = BS.Network.Load ('old') ; top = Exp (net.layer_b) }", old=trained())
    assert [node.name for node in network] == ["layer.b", "top"]


def test_a_node_that_a_network_does_not_have(error_of, loader, trained):
    error = error_of("{ net = BS.Network.Load ('old') ; a = net.Z1 }", load_model=loader(old=trained()))
    assert error.splitlines()[0] == "r.cntk:1:69: a network of 10 nodes has no member 'Z1'; did you mean 'z'?"


def test_edit_replaces_a_node_and_copies_what_uses_it(edit, trained):
    old = trained()
    network = edit(
        """(
        [
          net = BS.Network.Load ('old')
          out = BS.Network.Edit (net, BS.Network.Editing.ReplaceLinksToNode (net.h, Exp (net.t)), BS.Constants.None)
        ].out )""",
        old=old,
    )
    assert network["p"].inputs[1].op.name == "Exp"
    assert network["z"] is not old["z"]
    assert network["W"] is old["W"]
    assert old["p"].inputs[1] is old["h"]
    assert "h" not in network
    assert [node.name for node in network.roots["output"]] == ["z"]
    assert network.roots["criterion"] == [network["ce"]]


def test_edit_by_name_with_further_roots(edit, trained):
    network = edit(
        """(
        [
          net = BS.Network.Load ('old')
          more = Pass (net.h, tag = 'output')
          out = BS.Network.Edit (net, (BS.Network.Editing.ReplaceLinksToNamedNode ('x', Sin (net.x)) : (n => n)), more)
        ].out )""".replace("Sin (net.x)", "new ComputationNode [ operation = 'Sin' ; inputs = Input {4} ; tag = '' ]"),
        old=trained(),
    )
    assert network["t"].inputs[1].op.name == "Sin"
    assert len(network.roots["output"]) == 2


def test_a_replacement_that_depends_on_what_it_replaces(error_of, loader, trained):
    text = """( [
      net = BS.Network.Load ('old')
      out = BS.Network.Edit (net, BS.Network.Editing.ReplaceLinksToNode (net.h, Tanh (net.h)), BS.Constants.None)
    ].out )"""
    error = error_of(text, load_model=loader(old=trained()))
    assert error.splitlines()[0] == (
        "r.cntk:3:24: Network.Edit: a replacement depends on the node that it replaces: the nodes "
        "network.out.editFunctions.replacement -> network.out.editFunctions.replacement form a cycle without a delay"
    )


def test_replacements_of_each_other(error_of, loader, trained):
    text = """( [
      net = BS.Network.Load ('old')
      Swap (a, b) = BS.Network.Editing.ReplaceLinksToNode (a, b)
      out = BS.Network.Edit (net, (Swap (net.h, net.t) : Swap (net.t, net.h)), BS.Constants.None)
    ].out )"""
    error = error_of(text, load_model=loader(old=trained()))
    assert error.splitlines()[0] == "r.cntk:4:24: Network.Edit replaces nodes by each other: h -> t -> h"


def test_edit_needs_functions_that_give_nodes(error_of, loader, trained):
    text = "( BS.Network.Edit (BS.Network.Load ('old'), %s, BS.Constants.None) )"
    models = loader(old=trained())
    assert "'editFunctions' must be a function or an array of them, not the number 3" in error_of(
        text % "3", load_model=models
    )
    assert "an edit function must return a node, not the number 1 (for 'ce')" in error_of(
        text % "(n => 1)", load_model=models
    )


CLONE = """{
  net = BS.Network.Load ('old')
  f = BS.Network.CloneFunction (net.x, %s, parameters = '%s')
  a = Input {4}
  out = f (a)
  outputNodes = (%s)
}"""


def test_clone_learnable(edit, trained):
    old = trained()
    network = edit(CLONE % ("net.z", "learnable", "out"), old=old)
    names = [node.name for node in network]
    assert sorted(names) == sorted(["a", "out", "out.h", "out.layer.b", "out.p", "out.t", "out.W", "out.V"])
    copy = network["out.W"]
    assert copy is not old["W"]
    assert copy.value is not old["W"].value
    np.testing.assert_array_equal(copy.value, old["W"].value)
    assert copy.learned
    assert network["out.t"].inputs == [copy, network["a"]]


def test_clone_constant(edit, trained):
    network = edit(CLONE % ("net.z", "constant", "out"), old=trained())
    assert [node.learned for node in network.parameters] == [False] * 3


def test_clone_shared(edit, trained):
    old = trained()
    network = edit(CLONE % ("net.z", "shared", "out"), old=old)
    assert network["W"] is old["W"]
    assert "out.t" in network


def test_clone_with_a_record_of_outputs(edit, trained):
    network = edit(CLONE % ("{ low = net.t ; high = net.z }", "learnable", "out.low : out.high"), old=trained())
    assert {node.name for node in network.roots["output"]} == {"out.t", "out.z"}


def test_two_clones_have_their_own_parameters(edit, trained):
    network = edit(
        """{
        net = BS.Network.Load ('old')
        f = BS.Network.CloneFunction (net.x, net.h)
        a = Input {4} ; b = Input {4}
        one = f (a) ; two = f (b)
        }""",
        old=trained(),
    )
    assert network["one.W"] is not network["two.W"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("net.x, net.z, parameters = 'frozen'", "'parameters' of Network.CloneFunction cannot be 'frozen'"),
        ("net.y, net.z", "no output of the cloned function depends on its input 'y'"),
        ("net.x, 3", "'outputNodes' must be a node or a record of nodes, not the number 3"),
        ("3, net.z", "'inputNodes' must be a node or an array of nodes, not the number 3"),
    ],
)
def test_what_cannot_be_cloned(error_of, arguments, message, loader, trained):
    text = f"{{ net = BS.Network.Load ('old') ; f = BS.Network.CloneFunction ({arguments}) }}"
    error = error_of(text, load_model=loader(old=trained()))
    assert error.splitlines()[0].split(": ", 1)[1] == message


def test_a_cloned_function_takes_nodes(error_of, loader, trained):
    text = "{ net = BS.Network.Load ('old') ; f = BS.Network.CloneFunction (net.x, net.z) ; g = f (3) }"
    error = error_of(text, load_model=loader(old=trained()))
    assert "a cloned function takes nodes, not the number 3" in error
