"""The contract of verbs.

A plugin's test file subclasses :class:`VerbContract`::

    class TestHello(VerbContract):
        verb_class = Hello
        command_lines = (("World",), ("World", "--loud"))
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import ClassVar

import pytest

from cntk_core.contract.verb import Verb
from cntk_kit_recipes.cli.summaries import summary
from cntk_testing.contract import Contract, check_component
from cntk_testing.fresh_imports import FreshImportError, modules_after_importing
from cntk_testing.packaging import HEAVY


class VerbContract(Contract):
    """Tests of a verb for pytest: subclass it.

    Attributes:
        verb_class: what is tested.
        command_lines: arguments with which it succeeds, in the folder that :meth:`prepare` fills.
    """

    verb_class: ClassVar[type[Verb]]
    command_lines: ClassVar[tuple[tuple[str, ...], ...]]

    def prepare(self, folder: Path) -> None:
        """Write the files that the command lines need; they run in this folder."""

    def test_component(self) -> None:
        """It is a complete class that says for which interface it was written, and is made without arguments."""
        check_component(self.verb_class)
        self.verb_class()

    def test_one_line_for_the_list(self) -> None:
        """``cntk --help`` finds a sentence about it without importing it."""
        verb = self.verb_class
        line = summary(f"{verb.__module__}:{verb.__qualname__}")
        assert line, f"{verb.__name__} has no docstring; its first line stands in cntk --help"
        assert len(line) <= 100, f"the first line of its docstring is too long for cntk --help: {line}"
        assert line.endswith("."), f"the first line of its docstring is no sentence: {line}"

    def test_its_module_is_light(self) -> None:
        """Importing its module brings in no heavy library: they are imported when the verb runs."""
        module = self.verb_class.__module__
        try:
            loaded = modules_after_importing(module)
        except FreshImportError:
            pytest.skip(f"{module} cannot be imported by its name")
        heavy = sorted(loaded.intersection(HEAVY))
        assert not heavy, f"importing {module} imports {', '.join(heavy)}: import it in run()"

    def test_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        """``--help`` shows its arguments and ends."""
        with pytest.raises(SystemExit) as caught:
            self._parser().parse_args(["--help"])
        assert not caught.value.code
        assert "usage: cntk " in capsys.readouterr().out

    def test_command_lines(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each command line gives the exit code 0."""
        assert self.command_lines, "the suite has no command_lines"
        self.prepare(tmp_path)
        monkeypatch.chdir(tmp_path)
        for words in self.command_lines:
            options = self._parser().parse_args(list(words), argparse.Namespace(verb="contract", plugin=[]))
            status = self.verb_class().run(options)
            assert status == 0, f"{' '.join(words)} gave the exit code {status!r}, not 0"

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(prog="cntk contract")
        self.verb_class().add_arguments(parser)
        return parser
