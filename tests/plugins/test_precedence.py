"""Of several that offer one name, who is meant; and what is switched off."""

from __future__ import annotations

import sys

import pytest

from cntk_core.contract.learner import Learner
from cntk_core.errors import AmbiguousPluginError, MissingPluginError, PluginError
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.precedence import is_first_party
from cntk_core.plugins.registering import register, unregister
from cntk_kit_recipes.authoring.report import list_plugins

LEARNERS = """
from cntk_core.api import *

class sgd(Learner):
    requires_api = "1.0"
    def scalars(self, context): return {}
    def rule(self, m, value, gradient, slots, scalars): return value, {}
"""
OPS = "from cntk_core.api import *\n@elementwise_op('Squash')\ndef f(m, a, x): return x / (1 + m.abs(x))\n"
HOOKS = "from cntk_core.api import hookimpl\n@hookimpl\ndef cntk_epoch_end(summary): pass\n"


@pytest.fixture
def wheels(install, tmp_path, monkeypatch):
    """The wheel of ours, two strangers and two files with the learner ``sgd``."""
    monkeypatch.chdir(tmp_path)
    for name in ("cntk-learner-sgd", "cntk-learner-one", "cntk-learner-two"):
        install(name, {"cntk.learners": {"sgd": f"{name.replace('-', '_')}_x:sgd"}})
        install(f"{name}-x", {}, LEARNERS)
    for name in ("mine.py", "other.py"):
        (tmp_path / name).write_text(LEARNERS, encoding="utf-8")


def who(manager: PluginManager, name: str = "sgd") -> str:
    return str(manager.registry.learners.find(name).source)


class TestOrder:
    def test_first_party_before_strangers(self, wheels):
        assert who(PluginManager()) == "cntk-learner-sgd 0.1.0"
        assert PluginManager().registry.learners.usable() == ("sgd",)

    def test_the_recipe_before_first_party(self, wheels):
        assert who(PluginManager(recipe=["mine.py"])) == "mine.py"
        assert who(PluginManager(recipe=["cntk_learner_two"])) == "cntk-learner-two 0.1.0"

    def test_files_after_a_wheel(self, wheels):
        manager = PluginManager(recipe=["cntk-learner-two", "mine.py"])
        assert {str(one.source) for one in manager.registry.learners.offers()} > {"mine.py"}
        with pytest.raises(AmbiguousPluginError):
            who(manager)
        assert manager.registry.learners.usable() == ()

    def test_the_command_line_before_the_recipe(self, wheels):
        assert who(PluginManager(["mine.py"], recipe=["other.py"])) == "mine.py"
        assert who(PluginManager(["cntk-learner-one"], recipe=["other.py"])) == "cntk-learner-one 0.1.0"

    @pytest.mark.parametrize("off", ["-cntk-learner-two", "-other.py"])
    def test_words_after_one_that_switches_off(self, wheels, off):
        assert who(PluginManager([off, "mine.py"])) == "mine.py"
        assert who(PluginManager(["-other.py"], recipe=["other.py", "mine.py"])) == "mine.py"

    def test_the_program_before_the_command_line(self, wheels):
        class sgd(Learner):
            def scalars(self, context):
                return {}

            def rule(self, m, value, gradient, slots, scalars):
                return value, {}

        register(sgd)
        try:
            manager = PluginManager(["mine.py"])
            assert manager.registry.learners.get("sgd") is sgd
            assert who(manager) == "this program"
        finally:
            unregister(sgd)
        assert who(PluginManager(["mine.py"])) == "mine.py"

    def test_names_that_differ_in_case_are_one(self, install):
        for wheel, name in (("cntk-learner-one", "Rule"), ("cntk-learner-two", "rule")):
            install(wheel, {"cntk.learners": {name: f"{wheel.replace('-', '_')}:sgd"}}, LEARNERS)
        with pytest.raises(AmbiguousPluginError) as caught:
            who(PluginManager(), "RULE")
        assert str(caught.value) == (
            "learner 'Rule' is offered by cntk-learner-one 0.1.0 and cntk-learner-two 0.1.0\n"
            "    Write which one you mean: 'cntk-learner-one:Rule' or 'cntk-learner-two:Rule', or leave the other out: "
            "--no-plugin cntk-learner-two"
        )
        assert who(PluginManager(), "cntk-learner-two:Rule") == "cntk-learner-two 0.1.0"

    def test_what_is_written_out_is_meant(self, wheels):
        manager = PluginManager(["mine.py"], recipe=["other.py"])
        for name, source in [
            ("cntk-learner-two:sgd", "cntk-learner-two 0.1.0"),
            ("cntk-learner-sgd:sgd", "cntk-learner-sgd 0.1.0"),
            ("other.py:sgd", "other.py"),
        ]:
            assert who(manager, name) == source

    def test_two_equal_ones_are_ambiguous_for_who_asks(self, wheels):
        manager = PluginManager(["mine.py", "other.py"])
        with pytest.raises(AmbiguousPluginError) as caught:
            who(manager)
        assert str(caught.value) == (
            "learner 'sgd' is offered by mine.py and other.py\n"
            "    Write which one you mean: 'mine.py:sgd' or 'other.py:sgd', or leave the other out: "
            "--no-plugin other.py"
        )
        assert manager.registry.learners.usable() == ()
        strangers = PluginManager(["-cntk-learner-sgd"])
        with pytest.raises(AmbiguousPluginError, match=r"^learner 'sgd' is offered by cntk-learner-one 0\.1\.0 and"):
            who(strangers)

    def test_ops(self, install, tmp_path):
        install("cntk-op-one", {"cntk.ops": {"Squash": "cntk_op_one"}}, OPS)
        file = tmp_path / "ops.py"
        file.write_text(OPS, encoding="utf-8")
        manager = PluginManager([str(file)])
        manager.registry.ops.names("ndl")
        mine = manager.registry.ops.find("ndl", "Squash")
        assert mine.elementwise.forward.__module__.endswith("_ops")
        assert manager.registry.ops.find("ndl", "cntk-op-one:Squash").elementwise.forward.__module__ == "cntk_op_one"

    def test_a_file_that_is_none(self, wheels):
        with pytest.raises(MissingPluginError, match=r"^there is no plugin file 'cntk-learner-three'$"):
            PluginManager(["cntk-learner-three"])

    def test_who_is_first_party(self):
        assert is_first_party("CNTK_learner.sgd")
        assert is_first_party("cntk-core")
        assert not is_first_party("cntk-learner-lion")


class TestSwitchedOff:
    @pytest.mark.parametrize("word", ["cntk-learner-sgd", "cntk_learner_SGD:sgd"])
    def test_a_wheel_or_one_name_of_it(self, wheels, word):
        manager = PluginManager([f"-{word}", "mine.py"], recipe=["-mine.py"])
        with pytest.raises(AmbiguousPluginError):
            who(manager)
        assert who(manager, "cntk-learner-one:sgd") == "cntk-learner-one 0.1.0"

    def test_a_kind_and_a_name_whoever_has_it(self, wheels):
        with pytest.raises(MissingPluginError) as caught:
            PluginManager(recipe=["-learner:SGD"]).registry.learners.get("sgd")
        assert str(caught.value) == (
            "learner 'sgd' is switched off\n"
            "    cntk-learner-one 0.1.0 has it; the recipe's disabledPlugins=learner:SGD leaves it out\n"
            "    cntk-learner-sgd 0.1.0 has it; the recipe's disabledPlugins=learner:SGD leaves it out\n"
            "    cntk-learner-two 0.1.0 has it; the recipe's disabledPlugins=learner:SGD leaves it out"
        )

    def test_the_environment(self, wheels, monkeypatch):
        monkeypatch.setenv("CNTK_PLUGINS", "-cntk-learner-sgd, -cntk-learner-one")
        assert who(PluginManager()) == "cntk-learner-two 0.1.0"
        monkeypatch.setenv("CNTK_PLUGINS", "cntk-learner-one cntk-learner-two -cntk-learner-two")
        assert who(PluginManager()) == "cntk-learner-one 0.1.0"
        monkeypatch.setenv("CNTK_PLUGINS", "off")
        assert PluginManager().registry.learners.names() == ()

    def test_hooks_are_not_even_imported(self, install):
        install("cntk-hook-bad", {"cntk.hooks": {"bad": "cntk_hook_bad"}}, "1 / 0\n")
        install("cntk-hook-good", {"cntk.hooks": {"good": "cntk_hook_good"}}, HOOKS)
        for word in ("cntk-hook-bad", "hooks:bad", "hook:bad", "cntk-hook-bad:bad"):
            told: list[str] = []
            manager = PluginManager([f"-{word}"], report=told.append)
            assert told == []
            assert "cntk_hook_bad" not in sys.modules
            assert len(manager.listeners("cntk_epoch_end")) == 1

    def test_a_recipe_that_is_read_later(self, install, wheels):
        install("cntk-hook-good", {"cntk.hooks": {"good": "cntk_hook_good"}}, HOOKS)
        manager = PluginManager()
        assert len(manager.listeners("cntk_epoch_end")) == 1
        manager.obey(["mine.py", "-cntk-hook-good"])
        assert manager.listeners("cntk_epoch_end") == ()
        assert who(manager) == "mine.py"

    @pytest.mark.parametrize(("word", "left"), [("hooks:good", 0), ("hooks:bad", 1), ("good:hooks", 1)])
    def test_hooks_that_a_recipe_names(self, install, word, left):
        install("cntk-hook-good", {"cntk.hooks": {"good": "cntk_hook_good"}}, HOOKS)
        manager = PluginManager()
        manager.obey([f"-{word}"])
        assert len(manager.listeners("cntk_epoch_end")) == left

    def test_ops(self, install):
        install("cntk-op-one", {"cntk.ops": {"Squash": "cntk_op_one"}}, OPS)
        for word in ("cntk-op-one", "op:squash", "ops:Squash"):
            manager = PluginManager([f"-{word}"])
            assert manager.registry.ops.find("ndl", "Squash") is None
            assert "Squash" not in manager.registry.ops.names("ndl")
        assert PluginManager().registry.ops.find("ndl", "Squash") is not None

    def test_the_table(self, install, wheels):
        install("cntk-hook-good", {"cntk.hooks": {"good": "cntk_hook_good"}}, HOOKS)
        install("cntk-op-one", {"cntk.ops": {"Squash": "cntk_op_one"}}, OPS)
        off = ["-cntk-learner-two", "-cntk-hook-good", "-cntk-op-one"]
        for check in (False, True):
            rows = {
                (row.kind, row.wheel): (row.state, row.reason) for row in list_plugins(off, check=check) if row.version
            }
            by = "by --no-plugin"
            assert rows["learner", "cntk-learner-two"] == ("switched off", f"{by} cntk-learner-two")
            assert rows["hooks", "cntk-hook-good"] == ("switched off", f"{by} cntk-hook-good")
            assert rows["ops", "cntk-op-one"] == ("switched off", f"{by} cntk-op-one")
            assert rows["learner", "cntk-learner-one"] == ("shadowed", "cntk-learner-sgd 0.1.0 comes first")
            assert rows["learner", "cntk-learner-sgd"][0] == ("usable" if check else "installed")

    def test_kernels(self, install):
        install("cntk-kernel-one", {"cntk.kernels": {"cpu.one": "cntk_kernel_one"}}, "1 / 0\n")
        for word in ("cntk-kernel-one", "kernels:cpu.one"):
            rows = {row.wheel: row.state for row in list_plugins([f"-{word}"], check=True)}
            assert rows["cntk-kernel-one"] == "switched off"
            assert "cntk_kernel_one" not in sys.modules
        assert {row.wheel: row.state for row in list_plugins(check=True)}["cntk-kernel-one"] == "broken"

    def test_nothing_of_it_is_loaded_by_the_table(self, install):
        install("cntk-op-one", {"cntk.ops": {"Squash": "cntk_op_one"}}, OPS)
        list_plugins(["-cntk-op-one"], check=True)
        assert "cntk_op_one" not in sys.modules


def test_a_broken_plugin_file_of_the_recipe_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("x = {}['key']\n", encoding="utf-8")
    with pytest.raises(PluginError, match=r"^mine\.py:1: the plugin file cannot be loaded: KeyError: 'key'"):
        PluginManager(recipe=["mine.py"], discover=False)
