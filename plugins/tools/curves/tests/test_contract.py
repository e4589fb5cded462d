"""The verb keeps its contract."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from cntk_tool_curves.verb import PlotLog
from written_logs import json_log, text_log

from cntk_testing import PackagingContract, VerbContract


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
class TestPlotLog(VerbContract):
    verb_class = PlotLog
    command_lines = (("old.txt", "mine=new.jsonl", "-o", "curves.svg"),)

    def prepare(self, folder: Path) -> None:
        text_log(folder / "old.txt")
        json_log(folder / "new.jsonl")


class TestPackaging(PackagingContract):
    distribution = "cntk-tool-curves"
    kind = "verb"
