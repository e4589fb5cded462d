"""Every golden case, run in this process."""

from __future__ import annotations

import io
import json
import os
import shutil
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from golden_compare import Tolerance, check_file, check_run

from cntk_core.contract.parallel import Communicator
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.log import Log
from cntk_testing import VirtualRanks

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.parent.relative_to(CASES).as_posix() for path in CASES.glob("*/*/expected.json"))

COMPILED = (
    "1-update-rules/fsadagrad-float",
    "3-checkpoint/restart-rmsprop",
    "5-operators/batchnorm-test-spatial",
    "5-operators/criterion-two-criteria",
    "5-operators/image-conv-lowerupper",
    "5-operators/times-sparse",
)
"""Cases that the XLA engine runs too: it compiles each function anew, so there are few."""


def run_cntk(config: str, arguments: list[str]) -> tuple[int, str]:
    """Exit status and all output of a command line."""
    output = io.StringIO()
    with redirect_stderr(output), redirect_stdout(output):
        code = main([f"configFile={config}", "DataDir=data", "RunDir=run", "deviceId=-1", *arguments])
    return code, output.getvalue()


def run_ranks(run: dict[str, Any]) -> str:
    """The log of a run on several ranks, which are threads of this process; an error on one of them ends the test."""
    line = [f"configFile={run.get('config', 'recipe.cntk')}", "DataDir=data", "RunDir=run", "deviceId=-1"]

    def work(communicator: Communicator) -> None:
        with closing(Log(quiet=True)) as log:
            run_recipe([*line, *run.get("args", [])], log, communicator=communicator)

    VirtualRanks(run["ranks"], deadline=300.0).run(work)
    return Path(run["log"]).read_text(encoding="utf-8")


def move_files(moves: list[list[str]], folder: Path) -> None:
    """Rename or remove files of the run before, as if it had been stopped earlier."""
    for old, new in moves:
        if (folder / old).exists():
            os.replace(folder / old, folder / new) if new else os.remove(folder / old)


@pytest.mark.parametrize(("family", "case"), [pytest.param(*name.split("/"), id=name) for name in NAMES])
@pytest.mark.sampled(6, later=1)
def test_case(family: str, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_case(f"{family}/{case}", tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", COMPILED)
def test_case_by_xla(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax")
    run_case(name, tmp_path, monkeypatch, "engine=xla")


def run_case(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """Run a case with further arguments, and compare its figures."""
    expected: dict[str, Any] = json.loads((CASES / name / "expected.json").read_text(encoding="utf-8"))
    folder = tmp_path / "case"
    shutil.copytree(CASES / name, folder)
    (folder / "run").mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    limits = expected["tolerance"]
    for run in expected["runs"]:
        move_files(run.get("move", []), folder / "run")
        if run.get("ranks", 1) > 1:
            code, output = 0, run_ranks(run)
        else:
            code, output = run_cntk(run.get("config", "recipe.cntk"), [*run.get("args", []), *arguments])
        check_run(run, code, output, Tolerance(limits["log_rel"], limits["log_abs"]))
    for file, spec in sorted(expected.get("files", {}).items()):
        check_file(folder / "run" / file, spec, limits)
