"""The log for spreadsheets."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from cntk_tool_curves.csv_log import CsvLog, read_rows

from cntk_core.api import DataError, EpochSummary, Job, hookimpl
from cntk_core.api.builders import parse_text
from cntk_core.api.recipes import Log, run_recipe

LOG = Path("run/log.csv")


def run(*arguments: str) -> None:
    run_recipe(["configFile=r.cntk", *arguments], Log(quiet=True))


def rows(path: Path = LOG) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def told(listener: CsvLog, epoch: int, criteria: dict[str, float], job: str = "Train", validation=None) -> None:
    summary = EpochSummary(epoch, 4, 2, criteria, validation or {}, 0.1, 2, 0.25)
    listener.cntk_epoch_end(Job(job, "train"), summary)


@pytest.fixture
def listener(tmp_path, monkeypatch) -> CsvLog:
    monkeypatch.chdir(tmp_path)
    listener = CsvLog()
    listener._path = LOG
    return listener


def test_a_training_has_a_row_for_each_epoch(recipe):
    run("csvLog=run/log.csv")
    first, second = rows()
    assert list(first) == [
        "time",
        "job",
        "epoch",
        "samples",
        "seconds",
        "minibatchSize",
        "learningRatePerSample",
        "ce",
        "errs",
    ]
    assert (first["job"], first["epoch"], first["samples"], first["minibatchSize"]) == ("Train", "1", "4", "2")
    assert first["learningRatePerSample"] == "0.1"
    assert float(second["ce"]) < float(first["ce"])


@pytest.mark.parametrize("place", ["csvLog=own.csv", "Train=[csvLog=own.csv]", "Train=[SGD=[csvLog=own.csv]]"])
def test_the_key_may_stand_anywhere_around_the_block(recipe, place):
    run("strict=true", place)
    assert [row["epoch"] for row in rows(Path("own.csv"))] == ["1", "2"]


def test_without_the_key_nothing_is_written(recipe):
    run()
    assert not list(Path().rglob("*.csv"))


def test_a_run_that_goes_on_continues_the_file(recipe):
    run("csvLog=run/log.csv")
    first = LOG.read_text(encoding="utf-8")
    run("csvLog=run/log.csv", "resume=true", "Train=[SGD=[maxEpochs=3]]")
    assert [row["epoch"] for row in rows()] == ["1", "2", "3"]
    assert LOG.read_text(encoding="utf-8").startswith(first)


def test_a_training_that_begins_anew_replaces_its_rows_alone(listener):
    told(listener, 0, {"ce": 9.0}, job="Pre")
    for epoch in (0, 1, 2):
        told(listener, epoch, {"ce": 1.0})
    told(listener, 1, {"ce": 2.0})
    assert [(row["job"], row["epoch"], row["ce"]) for row in rows()] == [
        ("Pre", "1", "9.0"),
        ("Train", "1", "1.0"),
        ("Train", "2", "2.0"),
    ]


def test_new_criteria_get_columns(listener):
    told(listener, 0, {"ce": 1.0}, job="Pre")
    told(listener, 0, {"ce": 2.0, "a,b": 3.0}, validation={"ce": 4.0})
    told(listener, 1, {"ce": 5.0})
    assert [(row["ce"], row["a,b"], row["test_ce"]) for row in rows()] == [
        ("1.0", "", ""),
        ("2.0", "3.0", "4.0"),
        ("5.0", "", ""),
    ]
    assert not list(Path("run").glob("*.new"))


def test_a_row_that_is_cut_off_is_left_out(listener):
    told(listener, 0, {"ce": 1.0})
    told(listener, 1, {"ce": 2.0})
    LOG.write_text(LOG.read_text(encoding="utf-8")[:-5], encoding="utf-8")
    assert [row["epoch"] for row in read_rows(LOG)] == ["1"]
    told(listener, 1, {"ce": 3.0})
    assert [row["ce"] for row in rows()] == ["1.0", "3.0"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", r"'x\.csv' is no log that csvLog has written: it has no columns job and epoch\n.*csvLog=run"),
        ("my notes", r"'x\.csv' is no log that csvLog has written: it has no columns job and epoch"),
        ('job,epoch\n"a"b,1\n', r"'x\.csv' is no log that csvLog has written: ',' expected after '\"'"),
    ],
)
def test_another_file_is_left_alone(recipe, text, message):
    Path("x.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_rows(Path("x.csv"))
    with pytest.raises(DataError, match=rf"^<command line>:2:8: {message}"):
        run("csvLog=x.csv")
    assert Path("x.csv").read_text(encoding="utf-8") == text
    assert not Path("run/net.dnn").exists()


def test_a_file_that_is_put_there_during_the_training_does_not_end_it(recipe):
    class Careless:
        @hookimpl
        def cntk_epoch_begin(self, job, epoch):
            LOG.parent.mkdir(exist_ok=True)
            LOG.write_text("my notes\n", encoding="utf-8")

    lines: list[str] = []
    log = Log(quiet=True)
    log.line = lines.append
    run_recipe(["configFile=r.cntk", "csvLog=run/log.csv"], log, listeners=[Careless()])
    assert LOG.read_text(encoding="utf-8") == "my notes\n"
    assert Path("run/net.dnn").is_file()
    (warning,) = [line for line in lines if line.startswith("hook cntk_epoch_end of cntk-tool-curves")]
    assert "'run/log.csv' is no log that csvLog has written: it has no columns job and epoch" in warning


def test_only_the_first_worker_writes(recipe):
    listener = CsvLog()
    listener.cntk_job_begin(Job("Train", "train", rank=1, ranks=2, block=parse_text("csvLog=log.csv")))
    told(listener, 0, {"ce": 1.0})
    assert not Path("log.csv").exists()
