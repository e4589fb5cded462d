"""``cntk plugins``: the table."""

from __future__ import annotations

import sys

import pytest

from cntk_kit_recipes.authoring.report import list_plugins, show_table
from cntk_kit_recipes.cli import main


@pytest.fixture
def wheels(install):
    install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:Reader"}}, version="1.2")
    install("cntk-reader-bad", {"cntk.readers": {"bad": "cntk_reader_bad:Reader"}}, "import missing_library\n")
    install("cntk-engine-far", {"cntk.engines": {"far": "cntk_engine_far:Away"}})
    install("cntk-learner-one", {"cntk.learners": {"x": "cntk_learner_one:Reader"}})
    install("cntk-learner-two", {"cntk.learners": {"x": "cntk_learner_two:Reader"}})
    install("cntk-hook-bad", {"cntk.hooks": {"watch": "cntk_hook_bad"}}, "import missing_library\n")
    install(
        "cntk-op-good",
        {"cntk.ops": {"Squash": "cntk_op_good"}},
        "from cntk_core.api import *\n@elementwise_op('Squash')\ndef f(m, a, x): return x / (1 + m.abs(x))\n",
    )


def states(**arguments):
    return {(one.kind, one.name, one.wheel): one.state for one in list_plugins(**arguments)}


def test_nothing_is_imported(wheels, capsys):
    before = set(sys.modules)
    found = states()
    assert not [name for name in set(sys.modules) - before if name.startswith(("cntk_reader", "cntk_hook", "cntk_op_"))]
    assert found[("reader", "wav", "cntk-reader-wav")] == "installed"
    assert found[("reader", "bad", "cntk-reader-bad")] == "installed"
    assert found[("learner", "x", "cntk-learner-one")] == "ambiguous"
    assert found[("hooks", "watch", "cntk-hook-bad")] == "installed"
    assert found[("reader", "MNISTReader", "cntk-reader-mnist")] == "not installed"
    assert found[("engine", "cuda", "cntk-engine-cuda")] == "not installed"
    assert capsys.readouterr().err == ""


def test_check(wheels, capsys):
    found = states(check=True)
    assert found[("reader", "wav", "cntk-reader-wav")] == "usable"
    assert found[("reader", "bad", "cntk-reader-bad")] == "broken"
    assert found[("engine", "far", "cntk-engine-far")] == "unavailable"
    assert found[("learner", "x", "cntk-learner-two")] == "ambiguous"
    assert found[("hooks", "watch", "cntk-hook-bad")] == "broken"
    assert found[("ops", "Squash", "cntk-op-good")] == "usable"
    assert capsys.readouterr().err == ""


def test_the_table(wheels):
    rows = [one for one in list_plugins(check=True) if one.wheel in ("cntk-engine-far", "cntk-reader-wav")]
    assert show_table(rows) == (
        "kind    name  wheel            version  state\n"
        "engine  far   cntk-engine-far  0.1.0    unavailable\n"
        "    no device\n"
        '    Use engine = "cpu".\n'
        "reader  wav   cntk-reader-wav  1.2      usable"
    )


def test_a_broken_row(wheels):
    (row,) = [one for one in list_plugins(check=True) if one.wheel == "cntk-reader-bad"]
    assert (
        row.reason == "reader 'bad' from cntk-reader-bad 0.1.0 could not be imported: No module named 'missing_library'"
    )
    assert "pip uninstall cntk-reader-bad" in row.mend


def test_files(site, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from cntk_core.api import *\n@elementwise_op('Double')\ndef f(m, a, x): return x * 2\n", encoding="utf-8"
    )
    assert states(plugin_files=[str(file)])[("ops", "Double", str(file))] == "usable"


@pytest.mark.parametrize("arguments", [["plugins"], ["plugins", "list"], ["plugins", "list", "--names"]])
def test_the_command(wheels, capsys, arguments):
    assert main(arguments) == 0
    assert "cntk-reader-wav" in capsys.readouterr().out


class TestVerbs:
    TEXT = """
        from cntk_core.api import hookimpl

        @hookimpl
        def cntk_add_commands(subparsers):
            parser = subparsers.add_parser("hello")
            parser.set_defaults(run=lambda options: print("hello there"))
    """

    def test_a_verb_of_a_plugin(self, install, capsys):
        install("cntk-hook-hello", {"cntk.hooks": {"hello": "cntk_hook_hello"}}, self.TEXT)
        assert main(["hello"]) == 0
        told = capsys.readouterr()
        assert told.out == "hello there\n"
        assert (
            "cntk_add_commands is retired since plugin interface 1.0 and will be gone in 1.2. Offer a Verb" in told.err
        )

    def test_no_such_verb(self, install, capsys):
        install("cntk-hook-hello", {"cntk.hooks": {"hello": "cntk_hook_hello"}}, self.TEXT)
        with pytest.raises(SystemExit):
            main(["hallo"])
        assert "there is no verb 'hallo'; did you mean 'hello'?; see cntk --help" in capsys.readouterr().err
