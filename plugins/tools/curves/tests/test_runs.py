"""``cntk runs``."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from cntk_tool_curves.curves import Curves, Epoch
from cntk_tool_curves.runs.find import find_runs
from cntk_tool_curves.runs.record import Best, Run, ranked
from cntk_tool_curves.runs.show import names_of
from cntk_tool_curves.runs.table import duration, table
from written_logs import text_log

from cntk_core.api import ConfigError, DataError
from cntk_kit_recipes.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def begin(begun: float = 0.0, job: str = "Train", epochs: int = 2, **settings) -> dict:
    told = {"event": "job_begin", "time": begun, "job": job, "version": 1, "action": "train", "epochs": epochs}
    return {**told, "recipe": "x/r.cntk", "hash": "0123", "settings": settings}


def epoch(number: int, errs: float, held_out: float | None = None, job: str = "Train", at: float = 0.0) -> dict:
    validation = {} if held_out is None else {"ce": 3.0, "errs": held_out}
    told = {"event": "epoch_end", "time": at, "job": job, "epoch": number, "seconds": 1.0}
    return {**told, "criteria": {"ce": 2.0, "errs": errs}, "validation": validation}


def end(succeeded: bool = True, seconds: float = 5.0, error: str = "", job: str = "Train") -> dict:
    return {"event": "job_end", "time": 9.0, "job": job, "succeeded": succeeded, "seconds": seconds, "error": error}


def write(path: str, *lines: dict, more: str = "") -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(json.dumps(line) + "\n" for line in lines) + more, encoding="utf-8")


def three() -> None:
    """A run with a validation set, one that failed, one that was killed."""
    write("a/log.jsonl", begin(60.0, rate="0.1", modelPath="a"), epoch(1, 0.5, 0.25), epoch(2, 0.4, 0.375), end())
    write("b/log.jsonl", begin(0.0, rate="0.2", modelPath="b"), end(succeeded=False, error="broken"))
    write("c/log.jsonl", begin(120.0, epochs=5, rate="0.1"), epoch(1, 0.125, at=123.5), more='{"event": "ep')


def test_the_list(capsys):
    three()
    assert main(["runs", "list"]) == 0
    first, second, third = (time.strftime("%Y-%m-%d %H:%M", time.localtime(begun)) for begun in (0, 60, 120))
    assert capsys.readouterr().out == (
        "run  recipe  hash  begun             state       epochs  best                   at epoch  time\n"
        f"b    r.cntk  0123  {first}  failed      0 of 2                                   5.0 s\n"
        f"a    r.cntk  0123  {second}  done        2       0.25 errs                     1  5.0 s\n"
        f"c    r.cntk  0123  {third}  unfinished  1 of 5  0.125 errs (training)         1  3.5 s\n"
    )


def test_the_list_with_the_best_run_first(capsys):
    three()
    assert main(["runs", "list", "--best-first"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["run", "c", "a", "b"]
    assert main(["runs", "list", "--best-first", "--maximize", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(row["run"], row["best"], row["bestEpoch"]) for row in told] == [
        ("a", 0.375, 2),
        ("c", 0.125, 1),
        ("b", None, None),
    ]


def test_the_list_for_programs(capsys):
    three()
    assert main(["runs", "list", "--json", "a", "b/log.jsonl"]) == 0
    broken, good = json.loads(capsys.readouterr().out)
    assert broken["error"] == "broken"
    assert good == {
        "run": "a",
        "recipe": "x/r.cntk",
        "hash": "0123",
        "begun": 60.0,
        "state": "done",
        "epochs": 2,
        "epochsAsked": 2,
        "criterion": "errs",
        "best": 0.25,
        "bestEpoch": 1,
        "validated": True,
        "seconds": 5.0,
        "log": "a/log.jsonl",
        "error": "",
    }
    assert main(["runs", "list", "--csv", "--criterion", "CE", "a"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["criterion"], row["best"], row["bestEpoch"]) == ("ce", "3.0", "1")


def test_what_differs(capsys):
    three()
    assert main(["runs", "compare", "a", "b"]) == 0
    assert capsys.readouterr().out == (
        "key       b       a\n"
        "rate      0.2     0.1\n"
        "state     failed  done\n"
        "epochs    0 of 2  2\n"
        "best              0.25 errs\n"
        "at epoch          1\n"
        "time      5.0 s   5.0 s\n"
    )


def test_a_log_without_settings_is_said_to_have_none(capsys):
    three()
    text_log(Path("old.txt"))
    assert main(["runs", "compare", "a", "old.txt"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("\nNothing is known of the settings of old.txt: only logs of jsonLog=... tell them.\n")
    assert "rate" not in out


@pytest.mark.slow
@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_the_picture(capsys):
    three()
    assert main(["runs", "plot", "-o", "out/runs.svg", "--criterion", "errs", "--log-scale"]) == 0
    assert capsys.readouterr().out == "3 runs: out/runs.svg\n"
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", Path("out/runs.svg").read_text(encoding="utf-8"))
    assert {"a: training", "a: validation", "c: training", "errs"} <= set(shown)
    assert "ce" not in shown


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["list", "none"], 1, "error: there is no log and no folder 'none'\n"),
        (["list", "empty"], 1, "error: no run has left a log in empty\n    A recipe with jsonLog=run/log.jsonl, or "),
        (
            ["list", "--criterion", "err"],
            2,
            "error: no run has a criterion 'err'; did you mean 'errs'?\n    Criteria: ce, ",
        ),
        (["compare", "a"], 2, "error: only one run is there: log.jsonl\n    Name two runs, or a folder with several."),
        (
            ["plot", "-o", "runs.gif"],
            2,
            "error: 'runs.gif' cannot be drawn: the suffix of the file says what is written",
        ),
        (["list", "notes.txt"], 1, "error: the log 'notes.txt' tells of no training\n"),
    ],
)
def test_mistakes(capsys, arguments, code, message):
    three()
    Path("empty").mkdir()
    Path("notes.txt").write_text("CNTK 2.0 is old\n", encoding="utf-8")
    assert main(["runs", *arguments]) == code
    assert capsys.readouterr().err.startswith(message)


def test_without_matplotlib(capsys, monkeypatch):
    three()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["runs", "plot"]) == 1
    assert capsys.readouterr().err.startswith("error: cntk runs plot needs matplotlib\n")


# -- finding ----------------------------------------------------------------------------------------------


def test_text_logs_count_where_no_json_log_is():
    write("both/log.jsonl", begin(), epoch(1, 0.5), end())
    for place in ("both", "old", ".hidden"):
        Path(place).mkdir(exist_ok=True)
        text = text_log(Path(place, "log.txt"))
        text.write_text(f"CNTK 2.0+ (B3)\n{text.read_text(encoding='utf-8')}", encoding="utf-8")
    text_log(Path("old", "data.txt"))  # no log: it does not begin as one
    Path("old", "other.log").write_text("CNTK 2.0+ but nothing is trained\n", encoding="utf-8")
    Path("old", "labels.jsonl").write_text("no json\n", encoding="utf-8")
    assert sorted(run.log.as_posix() for run in find_runs(["."])) == ["both/log.jsonl", "old/log.txt"]


def test_a_text_log_tells_epochs_time_and_when_it_was_written():
    path = text_log(Path("log.txt"))
    os.utime(path, (0, 77))
    (run,) = find_runs(["log.txt"])
    assert (run.state, run.begun, run.seconds, len(run.curves.epochs)) == ("?", 77.0, 0.75, 3)


def test_a_run_that_was_killed_and_went_on_is_one_run():
    write("log.jsonl", begin(10.0, epochs=2), epoch(1, 0.5, at=14.0), begin(100.0, epochs=3), epoch(2, 0.25), end())
    (run,) = find_runs(["log.jsonl"])
    assert (run.begun, run.seconds, run.epochs, run.state) == (10.0, 9.0, 3, "done")


def test_trainings_of_one_log_are_runs_of_their_own():
    tested = {**begin(5.0, "Test"), "action": "test"}
    write(
        "log.jsonl",
        begin(0.0, "Pre"),
        epoch(1, 0.5, job="Pre"),
        end(job="Pre"),
        begin(1.0),
        end(),
        tested,
        end(job="Test"),
    )
    assert list(names_of(find_runs(["log.jsonl"]))) == ["log.jsonl/Pre", "log.jsonl/Train"]


def test_a_log_that_is_named_twice_is_read_once():
    write("a/log.jsonl", begin(), epoch(1, 0.5), end())
    assert len(find_runs(["a", "a/log.jsonl"])) == 1


def test_a_log_of_tests_alone_tells_of_no_training():
    write("log.jsonl", {**begin(), "action": "test"}, end())
    assert find_runs(["."]) == []
    with pytest.raises(DataError, match=r"^the log 'log\.jsonl' tells of no training"):
        find_runs(["log.jsonl"])


# -- the best epoch, names, tables ------------------------------------------------------------------------


def run_of(*values: float, place: str = "log.jsonl", held_out: tuple[float, ...] = ()) -> Run:
    curves = Curves("Train")
    for number, value in enumerate(values, start=1):
        validation = {"ce": held_out[number - 1]} if held_out else {}
        curves.add_epoch(Epoch(number, {"ce": value}, validation))
    return Run(Path(place), "Train", curves)


def test_the_first_of_equally_good_epochs_is_the_best():
    assert run_of(3.0, 1.0, 1.0).best() == Best("ce", 1.0, 2, validated=False)
    assert run_of(3.0, 1.0, 3.0).best(largest=True) == Best("ce", 3.0, 1, validated=False)


def test_the_validation_set_decides():
    assert run_of(3.0, 1.0, held_out=(2.0, 4.0)).best("CE") == Best("ce", 2.0, 1, validated=True)


def test_what_is_no_number_is_never_the_best():
    assert run_of(math.nan, 7.0, -math.inf).best() == Best("ce", 7.0, 2, validated=False)
    assert run_of(math.nan).best() is None
    assert run_of(1.0).best("errs") is None


def test_runs_without_a_value_come_last():
    bad, good, better = run_of(math.nan), run_of(2.0), run_of(1.0)
    assert ranked([bad, good, better]) == [better, good, bad]
    assert ranked([bad, better, good], largest=True) == [good, better, bad]


@pytest.mark.parametrize(
    ("places", "names"),
    [
        (["x/log.jsonl"], ["log.jsonl"]),
        (["x/a/log.jsonl", "x/b/log.jsonl"], ["a", "b"]),
        (["x/a/log.jsonl", "x/log.jsonl"], ["a", "log.jsonl"]),
        (["x/a/1.jsonl", "x/a/2.jsonl", "x/b/1.jsonl"], ["a/1.jsonl", "a/2.jsonl", "b"]),
        (["1.jsonl", "2.jsonl"], ["1.jsonl", "2.jsonl"]),
    ],
)
def test_the_shortest_names_that_tell_runs_apart(places, names):
    assert list(names_of([run_of(1.0, place=place) for place in places])) == names


def test_tables():
    rows = [{"a": "x", "b": 1.0}, {"a": None, "c": math.nan}]
    assert table(rows) == "a  b    c\nx  1\n      nan\n"
    assert table(rows, "csv") == "a,b,c\nx,1.0,\n,,nan\n"
    assert json.loads(table(rows, "json")) == [{"a": "x", "b": 1.0}, {"a": None, "c": None}]
    with pytest.raises(ConfigError, match="there is no table 'html'"):
        table(rows, "html")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.9, "59.9 s"), (60, "1:00 min"), (247.4, "4:07 min"), (12300, "3:25 h")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_two_parts_of_a_log_that_did_not_end_take_the_time_of_their_lines():
    write("log.jsonl", begin(10.0), epoch(1, 0.5, at=14.0), begin(100.0), epoch(2, 0.25, at=101.5))
    (run,) = find_runs(["log.jsonl"])
    assert (run.seconds, run.state) == (5.5, "unfinished")


def test_a_run_that_was_interrupted_has_not_failed():
    write(
        "log.jsonl", begin(10.0), epoch(1, 0.5, at=14.0), end(succeeded=False, error="KeyboardInterrupt", seconds=3.0)
    )
    (run,) = find_runs(["log.jsonl"])
    assert (run.seconds, run.state, run.error) == (3.0, "unfinished", "")
