"""The action devtest, and several actions in one section."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main


def test_devtest_says_what_it_was(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe.write_text("command = T\nT = [ action = devtest ]\n", encoding="utf-8")
    assert main(["configFile=r.cntk"]) == 0
    assert (
        "devtest was a self test for the developers of the original, and does nothing here. "
        "'cntk doctor' says what works on this machine.\n"
    ) in capsys.readouterr().err


def test_actions_of_a_section_run_one_after_the_other(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configFile=r.cntk", "Train=[action=train:eval:dumpnode:plot]"]) == 0
    text = capsys.readouterr().err
    titles = [line for line in text.splitlines() if line.startswith("# Train command")]
    assert [line.split("(")[1].split(" ")[0] for line in titles] == ["train", "eval", "dumpnode", "plot"]
    assert Path("run/net.dnn.__AllNodes__.txt").exists()
    assert Path("run/net.dnn.svg").exists()
