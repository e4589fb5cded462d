"""The verb keeps its contract."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from cntk_tool_curves.runs.verb import Runs
from cntk_tool_curves.sweep.verb import Sweep
from cntk_tool_curves.verb import PlotLog
from written_logs import json_log, text_log

from cntk_testing import PackagingContract, VerbContract
from cntk_testing.small_recipe import DATA, RECIPE


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
class TestPlotLog(VerbContract):
    verb_class = PlotLog
    command_lines = (("old.txt", "mine=new.jsonl", "-o", "curves.svg"),)

    def prepare(self, folder: Path) -> None:
        text_log(folder / "old.txt")
        json_log(folder / "new.jsonl")


class TestRuns(VerbContract):
    verb_class = Runs
    command_lines = (("list",), ("compare", "old.txt", "new.jsonl", "--csv"))

    def prepare(self, folder: Path) -> None:
        text_log(folder / "old.txt")
        json_log(folder / "new.jsonl")


class TestSweep(VerbContract):
    verb_class = Sweep
    command_lines = (("r.cntk", "minibatchSize=1,2", "--random", "1"),)

    def prepare(self, folder: Path) -> None:
        (folder / "r.cntk").write_text(RECIPE, encoding="utf-8")
        (folder / "train.ctf").write_text(DATA, encoding="utf-8")


class TestPackaging(PackagingContract):
    distribution = "cntk-tool-curves"
    kind = "verb"
