"""The forms of the builder's value, files, and what the network is made of."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_builder_brainscript import BrainScriptNetworkBuilder

from cntk_core.api import BuildContext, CntkError, core_ops
from cntk_core.api.builders import parse_text

BODY = "\n x = Input {4}\n z = Sigmoid (x)\n outputNodes = (z)\n"


@pytest.mark.parametrize(
    "value", ["{%s}", "[%s]", "(new ComputationNetwork {%s})", "(new ComputationNetwork ([%s]))", '"{%s}"']
)
def test_the_forms_of_a_description(build, value):
    network = build(value % BODY)
    assert [node.describe() for node in network] == ["x = InputValue () : [4 x *]", "z = Sigmoid (x) : [4 x *]"]


def test_a_file_with_members(build, tmp_path):
    (tmp_path / "net.bs").write_text(BODY)
    assert build('"net.bs"', directory=tmp_path)["z"].where.line == 3


def test_a_file_with_an_expression(build, tmp_path):
    (tmp_path / "net.bs").write_text("(new ComputationNetwork {" + BODY + "})")
    assert "z" in build("net.bs", directory=tmp_path)


def test_a_value_that_is_no_description(error_of):
    assert error_of("nothing.bs") == (
        "r.cntk:1:27: BrainScriptNetworkBuilder must be a record in braces, an expression in parentheses or the name"
        " of a file\n    Write { ... }, or ( expression )."
    )


def test_an_expression_that_is_no_network(error_of):
    assert error_of("( [ a = 4 ].a )") == (
        "r.cntk:1:27: the expression must give a network, not the number 4\n"
        "    Write new ComputationNetwork { ... }, BS.Network.Load (...) or BS.Network.Edit (...)."
    )


def test_included_files(build, error_of, tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "layers.bs").write_text('include "more.bs"\nTwice (x) = Half (x) + Half (x)')
    (tmp_path / "parts" / "more.bs").write_text("Half (x) = 0.5 * x")
    text = '{ include "parts/layers.bs"\n x = Input {4} ; z = Twice (x) }'
    assert build(text, directory=tmp_path)["z"].op.name == "Plus"
    error = error_of('{ include "gone.bs" }', directory=tmp_path)
    assert error.splitlines()[0] == "r.cntk:1:37: there is no file 'gone.bs' to include"


def test_the_core_library_may_be_included(build):
    assert "z" in build("{ include 'CNTK.core.bs'" + BODY + "}")


def test_precision_and_device_are_known(build):
    text = "{ x = Input {4} ; z = if precision == 'double' && deviceId < 0 then Exp (x) else Sin (x) }"
    assert build(text, dtype=np.dtype(np.float64))["z"].op.name == "Exp"


def test_variables_of_the_recipe():
    recipe = "dim = 7\nBrainScriptNetworkBuilder={ x = Input {$dim$} ; z = Foo (x) }"
    block = parse_text(recipe, file="r.cntk").own("BrainScriptNetworkBuilder")
    table = core_ops()
    context = BuildContext(find_op=table.find, op_names=lambda language: tuple(table.names(language)))
    with pytest.raises(CntkError) as caught:
        BrainScriptNetworkBuilder().build(block, context)
    assert str(caught.value.where) == "r.cntk:2:53"


def test_check_finds_what_the_parser_finds():
    block = parse_text("B={ a = 1 ; b = = Foo (2) }", file="r.cntk").own("B")
    table = core_ops()
    context = BuildContext(find_op=table.find, op_names=lambda language: tuple(table.names(language)))
    with pytest.raises(CntkError):
        BrainScriptNetworkBuilder().check(block, context)
    sound = parse_text("B={ b = Foo (2) }", file="r.cntk").own("B")
    BrainScriptNetworkBuilder().check(sound, context)


def test_roots_and_groups(build):
    network = build(
        """{
        features = Input {4} ; labels = Input {4, tag = 'label'}
        h = Exp (features, tag = 'output')
        unused = Sin (features)
        inner = { hidden = Tanh (features) }
        ce = SquareError (labels, h)
        criterionNodes = (ce)
        evalNodes = ce : SquareError (labels, features)
        }"""
    )
    assert {role: [node.name for node in nodes] for role, nodes in network.roots.items()} == {
        "feature": ["features"],
        "label": ["labels"],
        "criterion": ["ce"],
        "evaluation": ["ce", "evalNodes[1]"],
        "output": ["h"],
    }
    assert "unused" in network
    assert not any(node.op.name == "Tanh" for node in network)


def test_parameters_are_in_the_order_of_their_making(build):
    network = build(
        """{
        b = ParameterTensor {(2), init = 'gaussian'} ; a = ParameterTensor {(2), init = 'gaussian'}
        z = b + a + ParameterTensor {(2), init = 'gaussian'}
        outputNodes = (z)
        }"""
    )
    assert [parameter.name for parameter in network.parameters] == ["b", "a", "z.PlusArgs[1]"]
