"""The verbs keep their contract."""

from __future__ import annotations

from pathlib import Path

import pytest
from cntk_tool_scaling.verbs import Bench, Simulate

from cntk_testing import PackagingContract, VerbContract
from cntk_testing.small_recipe import DATA, RECIPE

TRAINS = "Train = [ SGD = [ parallelTrain = [ parallelizationMethod = DataParallelSGD ] ] ]\n"


class TestSimulate(VerbContract):
    verb_class = Simulate
    command_lines = (
        ("r.cntk", "-n", "1,2", "--network", "1GbE", "--samples-per-second", "100", "--quantise-rate", "inf"),
    )

    def prepare(self, folder: Path) -> None:
        (folder / "r.cntk").write_text(RECIPE + TRAINS, encoding="utf-8")
        (folder / "train.ctf").write_text(DATA, encoding="utf-8")


@pytest.mark.slow  # it measures the machine
class TestBench(TestSimulate):
    verb_class = Bench
    command_lines = (("r.cntk", "--seconds", "0"),)


class TestPackaging(PackagingContract):
    distribution = "cntk-tool-scaling"
    kind = "verb"
