"""The recipe of the page on sequences learns what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cntk_kit_recipes.cli import main

PAGE = Path(__file__).parents[4] / "docs" / "sequences.md"


def write_parity(path: Path, sequences: int = 150) -> None:
    """Bits, and whether the number of ones so far is odd."""
    random = np.random.default_rng(1)
    lines = []
    for number in range(sequences):
        bits = random.integers(2, size=random.integers(1, 9))
        lines += [f"{number} |x {x} |odd {y}:1\n" for x, y in zip(bits, np.cumsum(bits) % 2, strict=True)]
    path.write_text("".join(lines), encoding="utf-8")


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe ``r.cntk`` of the page, and its rows of data in ``parity.ctf``."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(?:cntk|text)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    for name, text in zip(("r.cntk", "parity.ctf"), blocks, strict=False):
        (tmp_path / name).write_text(text, encoding="utf-8")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[float]:
    """Run the recipe; return the errors of its epochs, in per cent."""
    # The interpreter: compiling takes longer than training here.
    assert main(["configFile=r.cntk", "Train=[cpuKernels=numpy]", *arguments]) == 0
    return [float(found) for found in re.findall(r"Finished Epoch.*errors = ([\d.]+)%", "".join(capsys.readouterr()))]


@pytest.mark.usefixtures("page")
def test_the_recipe_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(run(capsys, "Train=[SGD=[maxEpochs=2]]")) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("page")
def test_the_recipe_of_the_page_learns(capsys: pytest.CaptureFixture[str]) -> None:
    write_parity(Path("parity.ctf"))
    errors = run(capsys)
    assert len(errors) == 20
    assert errors[0] > 20
    assert errors[-1] < 2
