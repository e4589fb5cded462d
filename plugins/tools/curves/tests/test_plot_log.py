"""``cntk plot-log``."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec

import pytest
from written_logs import json_log, text_log

from cntk_kit_recipes.cli import main

# Importing it takes seconds: not where tests are only collected.
pytestmark = pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def texts(path) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_runs_side_by_side(folder, capsys):
    text_log(folder / "old.txt")
    json_log(folder / "new.jsonl", epochs=2)
    assert main(["plot-log", "old.txt", "mine=new.jsonl", "-o", "out/curves.svg"]) == 0
    shown = texts(folder / "out/curves.svg")
    for name in ("ce", "errs"):
        assert shown.count(name) == 1
    for label in ("old: training", "old: validation", "mine: training", "mine: validation"):
        assert shown.count(label) == 2
    assert shown.count("learningRatePerSample") == 1
    assert shown.count("old") == shown.count("mine") == 1
    assert capsys.readouterr().out == (
        "old: 3 epochs, ce = 0.666667 (validation 0.333333), errs = 0.16667 (validation 0.08333)\n"
        "mine: 2 epochs, ce = 1 (validation 0.5), errs = 0.25 (validation 0.125)\n"
        "out/curves.svg\n"
    )


@pytest.mark.slow
def test_places_without_a_panel_stay_empty(folder):
    criteria = dict.fromkeys(("ce", "errs", "third"), 0.5)
    json_log(folder / "new.jsonl", criteria=criteria)
    assert main(["plot-log", "new.jsonl", "-o", "curves.svg"]) == 0
    assert {"ce", "errs", "third", "learningRatePerSample"} <= set(texts(folder / "curves.svg"))
    assert len(re.findall(r'<g id="axes_\d+">', (folder / "curves.svg").read_text(encoding="utf-8"))) == 4


@pytest.mark.slow
def test_a_bitmap(folder):
    json_log(folder / "new.jsonl")
    assert main(["plot-log", "new.jsonl", "-o", "curves.png", "--log-scale", "--minibatches"]) == 0
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_same_log_gives_the_same_picture(folder):
    json_log(folder / "new.jsonl")
    for name in ("1.svg", "2.svg"):
        assert main(["plot-log", "new.jsonl", "-o", name]) == 0
    assert (folder / "1.svg").read_bytes() == (folder / "2.svg").read_bytes()


@pytest.mark.slow
def test_one_criterion_and_what_was_shown_within_epochs(folder):
    json_log(folder / "new.jsonl")
    assert main(["plot-log", "new.jsonl", "--criterion", "ERRS"]) == 0
    plain = (folder / "learning-curves.svg").read_text(encoding="utf-8")
    assert "errs" in texts(folder / "learning-curves.svg")
    assert "ce" not in texts(folder / "learning-curves.svg")
    assert main(["plot-log", "new.jsonl", "--criterion", "errs", "--minibatches"]) == 0
    assert (folder / "learning-curves.svg").read_text(encoding="utf-8").count("<path") > plain.count("<path")


def test_a_constant_rate_has_no_panel(folder):
    json_log(folder / "new.jsonl", learningRatePerSample=0.5)
    assert main(["plot-log", "new.jsonl"]) == 0
    assert "learningRatePerSample" not in texts(folder / "learning-curves.svg")


def test_a_single_panel(folder):
    json_log(folder / "new.jsonl", learningRatePerSample=0.5)
    assert main(["plot-log", "new.jsonl", "--criterion", "ce"]) == 0
    assert {"ce", "errs"} & set(texts(folder / "learning-curves.svg")) == {"ce"}


def test_trainings_that_are_wanted(folder):
    from cntk_tool_curves.plot_log import _runs

    first, second = text_log(folder / "1", 2, command="Pre"), text_log(folder / "2")
    (folder / "log.txt").write_text(first.read_text(encoding="utf-8") + second.read_text(encoding="utf-8"))
    for section, found in (("", {"log Pre": 2, "log Train": 3}), ("train", {"log": 3}), ("PRE", {"log": 2})):
        assert {label: len(curves.epochs) for label, curves in _runs(["log.txt"], section).items()} == found


@pytest.mark.slow
def test_files_of_one_name_are_told_apart_by_their_folders(folder, capsys):
    for name in ("a", "b"):
        (folder / name).mkdir()
        json_log(folder / name / "log.jsonl", epochs=1)
    assert main(["plot-log", "a/log.jsonl", "b/log.jsonl", "b/log.jsonl"]) == 0
    labels = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert labels == ["a/log", "b/log", "b/log (2)", "learning-curves.svg"]


@pytest.mark.slow
def test_trainings_of_one_log(folder, capsys):
    first, second = text_log(folder / "1", 2, command="Pre"), text_log(folder / "2")
    (folder / "log.txt").write_text(first.read_text(encoding="utf-8") + second.read_text(encoding="utf-8"))
    assert main(["plot-log", "log.txt"]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()][:2] == ["log Pre", "log Train"]
    assert main(["plot-log", "log.txt", "--section", "train"]) == 0
    assert capsys.readouterr().out.startswith("log: 3 epochs, ")
    assert main(["plot-log", "log.txt", "--section", "PRE"]) == 0
    assert capsys.readouterr().out.startswith("log: 2 epochs, ")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["log.jsonl", "-o", "x.gif"], 2, "'x.gif' cannot be drawn: the suffix of the file says what is written"),
        (["log.jsonl", "--criterion", "err"], 2, "no log has a criterion 'err'; did you mean 'errs'?"),
        (["log.jsonl", "--section", "Trian"], 2, "no log tells of a training 'Trian'; did you mean 'Train'?"),
        (["none.txt"], 1, "the log 'none.txt' cannot be read: No such file or directory"),
        (["log.jsonl", "-o", "log.jsonl/x.svg"], 1, "the picture 'log.jsonl/x.svg' cannot be written: "),
    ],
)
def test_mistakes(folder, capsys, arguments, code, message):
    json_log(folder / "log.jsonl")
    assert main(["plot-log", *arguments]) == code
    assert message in capsys.readouterr().err


def test_without_matplotlib(folder, capsys, monkeypatch):
    json_log(folder / "log.jsonl")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["plot-log", "log.jsonl"]) == 1
    error = capsys.readouterr().err
    assert "cntk plot-log needs matplotlib" in error
    assert 'pip install "cntk-core[plot]"' in error
