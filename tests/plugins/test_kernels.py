"""Kernels of wheels, files and programs: which an engine gets, in what order, and what is wrong with others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cntk_core.api import ExecutionEngine, Kernel, define_op, kernel
from cntk_core.api.engines import core_op, kernels, kernels_by_op
from cntk_core.contract.engine import ExecutionEngine as Contract
from cntk_core.errors import PluginError
from cntk_core.ops.table import core_ops
from cntk_core.plugins.manager import PluginManager
from cntk_kit_recipes.authoring.report import list_plugins

ENGINE = {"cntk.engines": {"fast": "cntk_engine_fast:Engine"}}

KERNELS = """
from cntk_core.api import kernel


@kernel("fast", "Tanh")
def tanh(site, step):
    return None


MORE = [kernel("fast", "Sigmoid")(tanh.forward)]
"""


def found(manager: PluginManager, told: list[str] | None = None) -> list[tuple[str, str]]:
    engine: type[ExecutionEngine] = manager.registry.engines.get("fast")
    report = (lambda text: None) if told is None else told.append
    return [(each.engine, each.op.name) for each in manager.registry.kernels.of(engine, report)]


def test_an_engine_gets_the_kernels_that_are_named_after_it(install):
    install("cntk-engine-fast", ENGINE)
    install("cntk-kernels-fast", {"cntk.kernels": {"fast": "cntk_kernels_fast"}}, KERNELS)
    for other in ("early", "slow"):
        install(f"cntk-kernels-{other}", {"cntk.kernels": {other: f"cntk_kernels_{other}"}}, "x = never_loaded\n")
    assert found(PluginManager()) == [("fast", "Tanh"), ("fast", "Sigmoid")]
    assert not {"cntk_kernels_early", "cntk_kernels_slow"} & set(sys.modules)


def test_a_wheel_may_have_several_entry_points_for_an_engine(install):
    points = {"fast.tanh": "cntk_kernels_fast:tanh", "Fast.more": "cntk_kernels_fast:MORE"}
    install("cntk-engine-fast", ENGINE)
    install("cntk-kernels-fast", {"cntk.kernels": points}, KERNELS)
    assert sorted(found(PluginManager())) == [("fast", "Sigmoid"), ("fast", "Tanh")]


def test_kernels_of_a_file_and_of_a_program_are_asked_first(install, tmp_path):
    install("cntk-engine-fast", ENGINE)
    install("cntk-kernels-fast", {"cntk.kernels": {"fast": "cntk_kernels_fast"}}, KERNELS)
    file = tmp_path / "mine.py"
    file.write_text(KERNELS.replace("Tanh", "Exp").replace("Sigmoid", "Log"), encoding="utf-8")
    manager = PluginManager([str(file)])
    own = kernel("fast", "Abs")(lambda site, step: None)
    assert manager.registry.kernels.add(own) is own
    assert [name for _, name in found(manager)] == ["Abs", "Log", "Exp", "Tanh", "Sigmoid"]
    assert [(source.name, each.op.name) for source, each in manager.registry.kernels.added()][1:] == [
        (str(file), "Log"),
        (str(file), "Exp"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import missing_library\n",
            "kernels 'fast' from cntk-kernels-bad 0.1.0 could not be imported: No module named 'missing_library'\n"
            "    raised by site/cntk_kernels_bad.py:1: ModuleNotFoundError\n"
            "    Install what it needs (pip install missing_library), or remove it: pip uninstall cntk-kernels-bad\n"
            "    They are left out.",
        ),
        (
            "x = 1\n",
            "kernels 'fast' from cntk-kernels-bad 0.1.0 has no kernels: cntk_kernels_bad is the module "
            "cntk_kernels_bad\n"
            "    The entry point must name what kernel(engine, op) made, or a module or list of such.\n"
            "    They are left out.",
        ),
        (
            KERNELS.replace('"fast"', '"slow"'),
            "kernels 'fast' from cntk-kernels-bad 0.1.0 has a kernel for the engine 'slow', that of Tanh\n"
            "    Name the entry point of the kernels for an engine after it: slow = ...\n"
            "    They are left out.",
        ),
    ],
    ids=["import", "none", "engine"],
)
def test_broken_kernels_are_left_out_and_told_once(install, text, message):
    install("cntk-engine-fast", ENGINE)
    install("cntk-kernels-bad", {"cntk.kernels": {"fast": "cntk_kernels_bad"}}, text)
    install("cntk-kernels-fast", {"cntk.kernels": {"fast": "cntk_kernels_fast"}}, KERNELS)
    manager, told = PluginManager(), []
    for _ in range(2):
        assert len(found(manager, told)) == 2
    assert told == [message]


def test_the_list_of_plugins_has_them(install, tmp_path):
    install("cntk-kernels-fast", {"cntk.kernels": {"fast": "cntk_kernels_fast"}}, KERNELS)
    install("cntk-kernels-bad", {"cntk.kernels": {"fast": "cntk_kernels_bad"}}, "x = 1\n")
    file = Path(tmp_path, "mine.py")
    file.write_text(KERNELS, encoding="utf-8")
    records = [each for each in list_plugins([str(file)], check=True) if each.kind == "kernels"]
    assert [(each.wheel, each.state, each.reason) for each in records if each.wheel != "cntk-kernels-bad"] == [
        ("cntk-kernels-fast", "usable", "2 operations"),
        (str(file), "usable", "Sigmoid"),
        (str(file), "usable", "Tanh"),
    ]
    assert [each.state for each in records if each.wheel == "cntk-kernels-bad"] == ["broken"]


def test_a_kernel_of_no_op():
    with pytest.raises(PluginError) as caught:
        kernel("fast", "Tanhh")
    assert str(caught.value) == (
        "the core has no operation 'Tanhh'; did you mean 'Tanh'?\n    For an operation of a plugin, give the op itself."
    )


def test_a_kernel_is_for_an_op_not_for_a_name():
    @define_op("Tanh", infer=lambda shapes, attributes: shapes[0])
    def other(xp, inputs, attributes, context):
        """Of another wheel."""
        return inputs[0]

    def forward(site, step):
        return None

    made = kernel("Fast", other, gradient=forward, quick=True)(forward)
    assert (made.engine, made.forward, made.gradient, made.settings) == ("fast", forward, forward, {"quick": True})
    (core,) = kernels("fast", ["tanh"], forward)
    table = kernels_by_op([made, core, made])
    assert table == {other: (made,), core_op("Tanh"): (core,)}
    assert core.op is core_ops().find("", "Tanh")
    assert isinstance(core, Kernel)


def test_an_engine_that_nobody_gave_kernels_has_none():
    assert Contract.kernels == ()
