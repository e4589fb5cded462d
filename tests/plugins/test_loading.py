"""Wheels and files that fail in ways that are easily overlooked; none of them may take the others along."""

from __future__ import annotations

import sys

import pytest

from cntk_core.errors import BrokenPluginError, MissingPluginError
from cntk_core.plugins.manager import PluginManager
from cntk_kit_recipes.authoring.report import list_plugins

PANIC = """
class Panic(BaseException):
    pass

raise Panic("the native part panicked")
"""

LEARNERS = """
import sys
from cntk_core.api import Learner

class Plain(Learner):
    requires_api = "1.0"
    def scalars(self, context): return {}
    def rule(self, m, value, gradient, slots, scalars): return value, {}

class Leaving(Plain):
    @classmethod
    def availability(cls): sys.exit(2)
"""


def text_of(manager: PluginManager, kind: str, name: str) -> str:
    with pytest.raises(BrokenPluginError) as caught:
        manager.registry.table(kind).get(name)
    return str(caught.value)


class TestWheels:
    def test_panic(self, install):
        install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:Reader"}}, PANIC)
        assert text_of(PluginManager(), "reader", "wav") == (
            "reader 'wav' from cntk-reader-wav 0.1.0 could not be imported: the native part panicked\n"
            "    raised by site/cntk_reader_wav.py:5: Panic\n"
            "    Mend it, or remove it: pip uninstall cntk-reader-wav"
        )

    def test_sys_exit(self, install):
        install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:Reader"}}, "import sys\nsys.exit(3)\n")
        assert text_of(PluginManager(), "reader", "wav") == (
            "reader 'wav' from cntk-reader-wav 0.1.0 could not be imported: it ends the program with sys.exit(3)\n"
            "    raised by site/cntk_reader_wav.py:2: SystemExit\n"
            "    Mend it, or remove it: pip uninstall cntk-reader-wav"
        )

    def test_interrupt_passes(self, install):
        install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:Reader"}}, "raise KeyboardInterrupt\n")
        with pytest.raises(KeyboardInterrupt):
            PluginManager().registry.readers.get("wav")

    def test_missing_attribute(self, install):
        install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:Wave"}})
        assert text_of(PluginManager(), "reader", "wav") == (
            "reader 'wav' from cntk-reader-wav 0.1.0 could not be imported: "
            "module 'cntk_reader_wav' has no attribute 'Wave'\n"
            "    its entry point is cntk_reader_wav:Wave\n"
            "    Mend it, or remove it: pip uninstall cntk-reader-wav"
        )

    def test_malformed_entry_point(self, install):
        install("cntk-reader-wav", {"cntk.readers": {"wav": "the reader, please"}})
        assert text_of(PluginManager(), "reader", "wav") == (
            "reader 'wav' from cntk-reader-wav 0.1.0 has a malformed entry point: 'the reader, please'\n"
            "    It is written module:Class, or module alone."
        )

    def test_availability_that_exits(self, install):
        install("cntk-learner-x", {"cntk.learners": {"x": "cntk_learner_x:Leaving"}}, LEARNERS)
        assert text_of(PluginManager(), "learner", "x") == (
            "learner 'x' from cntk-learner-x 0.1.0 failed when asked whether it can run here: "
            "it ends the program with sys.exit(2)\n"
            "    raised by site/cntk_learner_x.py:12\n"
            "    Report it to those who made cntk-learner-x, or leave it out: --no-plugin cntk-learner-x. "
            "CNTK_TRACEBACK=1 shows how it was called."
        )

    def test_wrong_kind(self, install):
        install("cntk-engine-x", {"cntk.engines": {"x": "cntk_engine_x:Reader"}})
        assert text_of(PluginManager(), "engine", "x") == (
            "engine 'x' from cntk-engine-x 0.1.0 is not an ExecutionEngine: cntk_engine_x:Reader is the class Reader\n"
            "    The entry point must name a subclass of cntk_core.api.ExecutionEngine."
        )

    def test_the_others_are_listed(self, install):
        install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:Reader"}}, PANIC)
        install("cntk-learner-x", {"cntk.learners": {"x": "cntk_learner_x:Leaving"}}, LEARNERS)
        install("cntk-engine-z", {"cntk.engines": {"z": "cntk_engine_z:Engine"}})
        states = {row.name: row.state for row in list_plugins(check=True) if row.version}
        assert states == {"wav": "broken", "x": "broken", "z": "usable"}


class TestHooks:
    def test_object_without_hooks(self, install):
        install("cntk-hook-x", {"cntk.hooks": {"x": "cntk_hook_x:plugin"}}, "plugin = [1]\n")
        warnings: list[str] = []
        PluginManager(report=warnings.append)
        assert warnings == [
            "hooks 'x' from cntk-hook-x 0.1.0 has no hooks: the list object has no function marked with @hookimpl\n"
            "    It is left out."
        ]

    def test_nothing(self, install):
        install("cntk-hook-x", {"cntk.hooks": {"x": "cntk_hook_x:plugin"}}, "plugin = None\n")
        warnings: list[str] = []
        PluginManager(report=warnings.append)
        assert warnings == [
            "hooks 'x' from cntk-hook-x 0.1.0 has no hooks: cntk_hook_x:plugin is None\n    It is left out."
        ]

    def test_listener_that_exits(self, tmp_path):
        file = tmp_path / "mine.py"
        file.write_text(
            "import sys\nfrom cntk_core.api import hookimpl\n"
            "@hookimpl\ndef cntk_minibatch_end(job): sys.exit('enough')\n",
            encoding="utf-8",
        )
        warnings: list[str] = []
        (listener,) = PluginManager([str(file)], discover=False, report=warnings.append).listeners("cntk_minibatch_end")
        listener(job=None, result=None)
        listener(job=None, result=None)
        assert warnings == [
            f"hook cntk_minibatch_end of {file} failed: SystemExit: enough\n"
            f"    raised by {tmp_path.name}/mine.py:4\n    It is not called again in this run."
        ]


class TestFiles:
    def test_folder(self, tmp_path):
        with pytest.raises(MissingPluginError) as caught:
            PluginManager([str(tmp_path)], discover=False)
        assert str(caught.value) == f"'{tmp_path}' is a folder, not a plugin file\n    Name a Python file in it."

    def test_given_twice_is_taken_once(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "mine.py").write_text(LEARNERS, encoding="utf-8")
        manager = PluginManager(["mine.py", "./mine.py", str(tmp_path / "mine.py")], discover=False)
        offers = [(offer.name, str(offer.source)) for offer in manager.registry.learners.offers()]
        assert offers == [("Leaving", "mine.py"), ("Plain", "mine.py")]

    def test_a_kit_that_is_not_installed(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "cntk_kit_missing", None)
        file = tmp_path / "mine.py"
        file.write_text("import os\nfrom cntk_kit_missing import Chunk\n", encoding="utf-8")
        with pytest.raises(BrokenPluginError) as caught:
            PluginManager([str(file)], discover=False)
        assert str(caught.value).startswith(f"{file}:2: the plugin file cannot be loaded: ModuleNotFoundError: ")
        assert str(caught.value).endswith("\n    Install what it needs: pip install cntk-kit-missing")

    def test_panic(self, tmp_path):
        file = tmp_path / "mine.py"
        file.write_text(PANIC, encoding="utf-8")
        with pytest.raises(BrokenPluginError) as caught:
            PluginManager([str(file)], discover=False)
        assert str(caught.value) == f"{file}:5: the plugin file cannot be loaded: Panic: the native part panicked"
