"""Imports that hang, print, or take time."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import threading
import time

import pytest

from cntk_core.errors import BrokenPluginError, UsageError
from cntk_core.plugins import importing
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.offer import Source
from cntk_kit_recipes.authoring.report import list_plugins, show_table
from cntk_kit_recipes.cli import main
from cntk_testing.wheels_in_a_folder import COMPONENTS

HOOKS = "from cntk_core.api import hookimpl\n@hookimpl\ndef cntk_epoch_end(summary): pass\n"
HANGS = "import time\ntry:\n    time.sleep(600)\nexcept Exception:\n    pass\n"


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setenv("CNTK_PLUGIN_TIMEOUT", "0.2")


class TestOneThatHangs:
    @pytest.mark.parametrize(
        "text", [HANGS, "import threading\n\nthreading.Event().wait()\n", "while True:\n\n    pass\n"]
    )
    def test_it_is_a_broken_one(self, install, short, text, monkeypatch):
        install("cntk-reader-slow", {"cntk.readers": {"slow": "cntk_reader_slow:Reader"}}, text)
        install("cntk-reader-good", {"cntk.readers": {"good": "cntk_reader_good:Reader"}})
        registry = PluginManager().registry
        with pytest.raises(BrokenPluginError) as caught:
            registry.readers.get("slow")
        first, *_, last = str(caught.value).splitlines()
        assert first.startswith(
            "reader 'slow' from cntk-reader-slow 0.1.0 could not be imported: it was not done after 0.2 s "
            "(CNTK_PLUGIN_TIMEOUT); it was at "
        )
        assert last == "    Mend it, or remove it: pip uninstall cntk-reader-slow"
        monkeypatch.delenv("CNTK_PLUGIN_TIMEOUT")  # on a busy machine the good one may take as long
        assert registry.readers.get("good").__name__ == "Reader"

    def test_the_line_where_it_hangs(self, install, short):
        install("cntk-reader-slow", {"cntk.readers": {"slow": "cntk_reader_slow:Reader"}}, HANGS)
        with pytest.raises(BrokenPluginError, match=r"it was at site/cntk_reader_slow\.py:3"):
            PluginManager().registry.readers.get("slow")

    def test_hooks_are_left_out(self, install, short):
        install("cntk-hook-slow", {"cntk.hooks": {"slow": "cntk_hook_slow"}}, HANGS)
        install("cntk-hook-good", {"cntk.hooks": {"good": "cntk_hook_good"}}, HOOKS)
        told: list[str] = []
        manager = PluginManager(report=told.append)
        assert len(manager.listeners("cntk_epoch_end")) == 1
        (text,) = told
        assert text.startswith("hooks 'slow' from cntk-hook-slow 0.1.0 could not be imported: it was not done after")
        assert text.endswith("It is left out.")

    def test_a_plugin_file(self, tmp_path, short):
        file = tmp_path / "slow.py"
        file.write_text(HANGS, encoding="utf-8")
        with pytest.raises(BrokenPluginError, match=r"slow\.py:3: the plugin file cannot be loaded: ImportTimeout: "):
            PluginManager([str(file)], discover=False)

    def test_what_cannot_be_interrupted_ends_the_process(self, capsys, short, monkeypatch):
        monkeypatch.setattr(importing, "PATIENCE", 0.1)
        ended: list[int] = []
        may_go_on = threading.Event()

        def end(code: int) -> None:
            ended.append(code)
            may_go_on.set()

        def load() -> None:  # not the main thread, which alone can be interrupted
            with importing.importing(Source("cntk-reader-slow", "0.1.0"), end):
                may_go_on.wait(60)

        thread = threading.Thread(target=load)
        thread.start()
        thread.join()
        assert ended == [1]
        error = capsys.readouterr().err
        assert error.startswith(
            "error: the import of cntk-reader-slow 0.1.0 hangs: it was not done after 0.2 s (CNTK_PLUGIN_TIMEOUT), "
            "and cannot be interrupted\n    it is at "
        )
        assert error.endswith("\n    Leave it out (--no-plugin cntk-reader-slow), or remove it.\n")

    @pytest.mark.slow
    def test_native_code_that_does_not_come_back(self, tmp_path):
        file = tmp_path / "native.py"
        file.write_text(
            "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})\ntime.sleep(600)\n",
            encoding="utf-8",
        )
        code = f"from cntk_core.plugins.manager import PluginManager\nPluginManager([{str(file)!r}], discover=False)\n"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"CNTK_PLUGIN_TIMEOUT": "0.2", "PATH": ""},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 1
        assert done.stderr.startswith(f"error: the import of {file} hangs: it was not done after 0.2 s")
        assert f"it is at {tmp_path.name}/native.py:3" in done.stderr

    def test_one_that_is_in_time_is_not_interrupted_later(self, short):
        with importing.importing(Source("x", "1")):
            pass
        time.sleep(0.4)

    def test_no_limit(self, monkeypatch):
        monkeypatch.setenv("CNTK_PLUGIN_TIMEOUT", "0")
        before = threading.active_count()
        with importing.importing(Source("x", "1")):
            assert threading.active_count() == before

    @pytest.mark.parametrize(("module", "watched"), [("sys", False), ("a_module_of_nobody", True), ("", True)])
    def test_nobody_waits_for_what_is_imported_already(self, module, watched):
        with importing.importing(Source("a-wheel", "1"), module=module):
            assert any(thread.name == "import of a-wheel 1" for thread in threading.enumerate()) == watched

    def test_a_second_look_for_a_plugin_starts_nothing(self, install, monkeypatch):
        install("cntk-reader-good", {"cntk.readers": {"good": "cntk_reader_good:Reader"}})
        assert PluginManager().registry.readers.get("good").__name__ == "Reader"
        monkeypatch.setattr(threading, "Thread", None)
        assert PluginManager().registry.readers.get("good").__name__ == "Reader"

    @pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
    def test_a_limit_that_is_no_number(self, monkeypatch, text):
        monkeypatch.setenv("CNTK_PLUGIN_TIMEOUT", text)
        with pytest.raises(UsageError) as caught:
            importing.allowed_seconds()
        assert str(caught.value) == f"CNTK_PLUGIN_TIMEOUT={text} is no number of seconds\n    0 is no limit."

    def test_what_somebody_else_does_with_the_signal_stays(self, short):
        import signal

        seen: list[int] = []

        def theirs(number, frame):
            seen.append(number)

        before = signal.signal(signal.SIGALRM, theirs)
        try:
            with importing.importing(Source("x", "1")):
                signal.raise_signal(signal.SIGALRM)
            assert signal.getsignal(signal.SIGALRM) is theirs
            signal.raise_signal(signal.SIGALRM)
        finally:
            signal.signal(signal.SIGALRM, before)
        assert seen == [signal.SIGALRM] * 2


class TestOutput:
    PRINTS = "print('HELLO')\nprint('from', end=' ')\nprint('import', end='')\n" + COMPONENTS

    def test_it_goes_to_standard_error_with_the_name(self, install, capsys):
        install("cntk-reader-loud", {"cntk.readers": {"loud": "cntk_reader_loud:Reader"}}, self.PRINTS)
        PluginManager().registry.readers.get("loud")
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err == "cntk-reader-loud 0.1.0: HELLO\ncntk-reader-loud 0.1.0: from import\n"

    def test_the_table_is_not_spoilt(self, install, capsys):
        install("cntk-hook-loud", {"cntk.hooks": {"loud": "cntk_hook_loud"}}, "print('HELLO')\n" + HOOKS)
        assert main(["plugins"]) == 0
        captured = capsys.readouterr()
        assert captured.out.startswith("kind ")
        assert "HELLO" not in captured.out
        assert "cntk-hook-loud 0.1.0: HELLO\n" in captured.err

    def test_what_the_plugin_keeps_of_it_works_afterwards(self, tmp_path):
        file = tmp_path / "keeps.py"
        file.write_text("import sys\nkept = sys.stdout\n" + HOOKS, encoding="utf-8")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            PluginManager([str(file)], discover=False)
            module = next(module for name, module in sys.modules.items() if name.endswith("_keeps"))
            module.kept.write("later\n")
            module.kept.flush()
        assert out.getvalue() == "later\n"


class TestTimes:
    def test_they_are_shown(self, install, capsys):
        install(
            "cntk-reader-slow",
            {"cntk.readers": {"slow": "cntk_reader_slow:Reader"}},
            "import time\ntime.sleep(0.1)\n" + COMPONENTS,
        )
        install("cntk-hook-good", {"cntk.hooks": {"good": "cntk_hook_good"}}, HOOKS)
        rows = {row.name: row for row in list_plugins(check=True)}
        assert rows["slow"].seconds >= 0.1
        assert rows["good"].seconds > 0
        assert list_plugins()[0].seconds == 0
        assert main(["plugins", "--times"]) == 0
        head, *lines = capsys.readouterr().out.splitlines()
        assert head.split() == ["kind", "name", "wheel", "version", "state", "import"]
        assert any(line.split()[1:2] == ["good"] and line.endswith(" s") for line in lines)
        assert any(line.split()[1:2] == ["cuda"] and line.endswith(" -") for line in lines)
        assert main(["plugins", "list", "--times"]) == 0
        assert capsys.readouterr().out.splitlines()[0] == head

    def test_not_without_being_asked(self, install):
        install("cntk-hook-good", {"cntk.hooks": {"good": "cntk_hook_good"}}, HOOKS)
        assert "import" not in show_table(list_plugins(check=True)).splitlines()[0]
