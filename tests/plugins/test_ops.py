"""Ops of wheels and files beside those of the core."""

from __future__ import annotations

import sys

import pytest

from cntk_core.errors import AmbiguousPluginError, BrokenPluginError, PluginError
from cntk_core.ops.language.define import elementwise_op
from cntk_core.ops.table import core_op, core_ops
from cntk_core.plugins.manager import PluginManager, op_named

MODULE = """
from cntk_core.api import elementwise_op


@elementwise_op("Squash", aliases={"ndl": ("SoftSgn",)})
def squash(m, attributes, x):
    return x / (1 + m.abs(x))
"""


def ops():
    return PluginManager().registry.ops


def test_wheels_are_loaded_only_for_names_that_the_core_has_not(install):
    install("cntk-op-squash", {"cntk.ops": {"Squash": "cntk_op_squash"}}, MODULE)
    table = ops()
    assert table.find("ndl", "sigmoid").name == "Sigmoid"
    assert "cntk_op_squash" not in sys.modules
    assert table.find("ndl", "softsgn").name == "Squash"
    assert table.find("brainscript", "softsgn") is None
    assert {"SoftSgn", "Squash", "Sigmoid"} <= set(table.names("ndl"))
    assert len(table) == len(core_ops()) + 1 == len(list(table))


def test_an_entry_point_may_be_one_op(install):
    install("cntk-op-squash", {"cntk.ops": {"Squash": "cntk_op_squash:squash"}}, MODULE)
    assert ops().find("", "Squash").name == "Squash"


def test_a_broken_wheel_stops_nothing(install):
    install("cntk-op-bad", {"cntk.ops": {"Bad": "cntk_op_bad"}}, "import missing_library\n")
    install("cntk-op-squash", {"cntk.ops": {"Squash": "cntk_op_squash"}}, MODULE)
    table = ops()
    assert table.find("ndl", "Squash").name == "Squash"
    assert table.find("ndl", "Nothing") is None
    with pytest.raises(BrokenPluginError) as caught:
        table.find("ndl", "bad")
    assert str(caught.value) == (
        "ops 'Bad' from cntk-op-bad 0.1.0 could not be imported: No module named 'missing_library'\n"
        "    raised by site/cntk_op_bad.py:1: ModuleNotFoundError\n"
        "    Install what it needs (pip install missing_library), or remove it: pip uninstall cntk-op-bad"
    )


def test_two_wheels_with_one_op(install):
    for name in ("cntk-op-one", "cntk-op-two"):
        install(name, {"cntk.ops": {"Squash": name.replace("-", "_")}}, MODULE)
    table = ops()
    with pytest.raises(AmbiguousPluginError) as caught:
        table.find("ndl", "Squash")
    assert str(caught.value) == (
        "op 'Squash' is offered by cntk-op-one 0.1.0 and cntk-op-two 0.1.0\n"
        "    Write which one you mean: 'cntk-op-one:Squash' or 'cntk-op-two:Squash', or leave the other out: "
        "--no-plugin cntk-op-two"
    )
    assert table.find("ndl", "cntk-op-two:Squash").name == "Squash"


def test_the_core_s_names_are_taken(install):
    install("cntk-op-sigmoid", {"cntk.ops": {"MySigmoid": "cntk_op_sigmoid"}}, MODULE.replace("Squash", "Sigmoid"))
    table = ops()
    (offer,) = table.offers()
    assert str(table.problem(offer)) == (
        "ops 'MySigmoid' from cntk-op-sigmoid 0.1.0 cannot be used: "
        "the name 'Sigmoid' of the op 'Sigmoid' already means 'Sigmoid' of the core\n    Give the op another name."
    )
    assert table.find("ndl", "SoftSgn") is None


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (
            "cntk_op_none",
            "ops 'None1' from cntk-op-none 0.1.0 has no ops: the module cntk_op_none has none\n"
            "    Make them with @elementwise_op or @define_op.",
        ),
        (
            "cntk_op_none:number",
            "ops 'None1' from cntk-op-none 0.1.0 is not an Op: cntk_op_none:number is a int\n"
            "    The entry point must name an op of @elementwise_op or @define_op, or a module or list of them.",
        ),
    ],
)
def test_what_is_no_op(install, target, text):
    install("cntk-op-none", {"cntk.ops": {"None1": target}}, "number = 1\n")
    with pytest.raises(BrokenPluginError) as caught:
        ops().find("", "None1")
    assert str(caught.value) == text


def test_an_unknown_language(site):
    @elementwise_op("Squash", aliases={"cobol": ("SOFTSIGN",)})
    def squash(m, attributes, x):
        return x

    with pytest.raises(PluginError, match="has names in the unknown language 'cobol'"):
        ops().add(squash)


def test_an_op_by_its_name_alone(install):
    install("my-ops", {"cntk.ops": {"Squash": "my_ops"}}, MODULE)
    assert op_named("Tanh") is core_op("Tanh")
    assert op_named("Squash").name == "Squash"
    with pytest.raises(PluginError) as caught:
        op_named("Squish")
    assert str(caught.value) == (
        "the operation 'Squish' is not there\n    Install the wheel that has it, or register it in this process."
    )
