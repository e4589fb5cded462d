"""The folder in which a page is followed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import cntk_tool_demo.data as demo
import pytest

from cntk_core.plugins.registering import registrations_kept

ROOT = Path(__file__).parents[2]
TRAINING, HELD_OUT = 160, 80


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``cntk demo`` makes, but fewer digits, learned for two epochs without compiling, so that pages are quick."""
    folder = tmp_path_factory.mktemp("digits")
    demo.write_digits(folder)
    for name, rows in (("train.ctf", TRAINING), ("test.ctf", HELD_OUT)):
        lines = (folder / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / name).write_text("".join(lines[:rows]), encoding="utf-8")
    recipe = Path(demo.__file__).with_name("digits.cntk").read_text(encoding="utf-8")
    assert recipe.count("maxEpochs = 30\n") == 1
    quick = "cpuKernels = numpy\n" + recipe.replace("maxEpochs = 30\n", "maxEpochs = 2\n")
    (folder / "digits.cntk").write_text(quick, encoding="utf-8")
    shutil.copy(Path(demo.__file__).with_name("ask.py"), folder)
    return folder


@pytest.fixture
def folder(digits: Path, tmp_path: Path) -> Path:
    """A copy of the digits."""
    shutil.copytree(digits, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(autouse=True)
def _own_registrations() -> Iterator[None]:
    """What a page registers takes part in the runs of this page alone."""
    with registrations_kept():
        yield
