"""The log for programs."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from cntk_tool_curves.json_log import JsonLog, plain
from cntk_tool_curves.settings import hash_of

from cntk_core.api import CntkError, JobOutcome, hookimpl
from cntk_core.api.recipes import Log, run_recipe


def run(*arguments: str, listeners=(), watchers=()) -> None:
    run_recipe(["configFile=r.cntk", *arguments], Log(quiet=True), listeners=listeners, watchers=watchers)


def lines(path: str = "run/log.jsonl") -> list[dict]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def kinds(events: list[dict]) -> list[str]:
    return [event["event"] for event in events]


def test_a_training_has_a_line_for_each_event(recipe):
    run("jsonLog=run/log.jsonl", "Train=[SGD=[numMBsToShowResult=1]]")
    events = lines()
    epoch = ["epoch_begin", "minibatch", "minibatch", "epoch_end"]
    assert [kind for kind in kinds(events) if kind != "checkpoint"] == ["job_begin", *epoch, *epoch, "job_end"]
    begin = events[0]
    assert begin.pop("time") > 1e9
    settings = begin.pop("settings")
    assert settings["Train:SGD:minibatchSize"] == "2"
    assert settings["jsonLog"] == "run/log.jsonl"
    assert begin == {
        "event": "job_begin",
        "job": "Train",
        "version": 1,
        "action": "train",
        "engine": begin["engine"],
        "modelPath": "run/net.dnn",
        "epochs": 2,
        "firstEpoch": 1,
        "recipe": "r.cntk",
        "hash": hash_of(settings),
        "nodes": 6,
        "parameters": 4,
    }
    starts = [event for event in events if event["event"] == "epoch_begin"]
    assert [(event["epoch"], event["updates"], event["minibatchSize"]) for event in starts] == [(1, 0, 2), (2, 2, 2)]
    ends = [event for event in events if event["event"] == "epoch_end"]
    assert [event["epoch"] for event in ends] == [1, 2]
    assert set(ends[0]["criteria"]) == {"ce", "errs"}
    assert ends[0]["validation"] == {}
    assert ends[0]["samples"] == 4
    assert ends[0]["learningRatePerSample"] == 0.1
    shown = [event for event in events if event["event"] == "minibatch" and event["epoch"] == 1]
    assert [(event["minibatch"], event["samplesInEpoch"]) for event in shown] == [(1, 2), (2, 4)]
    assert math.fsum(event["criteria"]["ce"] for event in shown) / 2 == pytest.approx(ends[0]["criteria"]["ce"])
    assert events[-1]["succeeded"] is True
    assert events[-1]["epochs"] == 2


def test_the_page_names_every_event_and_key(recipe, pytestconfig):
    page = (pytestconfig.rootpath / "docs/seeing-a-run.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|$", page.split("## Learning curves")[0], re.MULTILINE)
    described = {event: set(re.findall(r"`(\w+)`", keys)) for event, keys in rows if event != "key"}
    run("jsonLog=run/log.jsonl", "Train=[SGD=[numMBsToShowResult=1]]")
    written = {event["event"]: set(event) - {"event", "time", "job"} for event in lines()}
    described["minibatch"].discard("numMBsToShowResult")
    assert described == written


@pytest.mark.parametrize("place", ["jsonLog=own.jsonl", "Train=[jsonLog=own.jsonl]", "Train=[SGD=[jsonLog=own.jsonl]]"])
def test_the_key_may_stand_anywhere_around_the_block(recipe, place):
    run(place)
    assert kinds(lines("own.jsonl"))[-1] == "job_end"


def test_without_the_key_nothing_is_written(recipe):
    run()
    assert not list(Path().rglob("*.jsonl"))


def test_without_a_file_nobody_hears_of_minibatches(recipe):
    from cntk_core.api import Job
    from cntk_core.api.builders import parse_text
    from cntk_core.api.recipes import make_plugins

    plugins = make_plugins(Log(quiet=True))
    before = len(plugins.listeners("cntk_minibatch_end"))
    for listener in plugins.listeners("cntk_job_begin"):
        listener(job=Job("Test", "test", block=parse_text("jsonLog=log.jsonl")))
    assert len(plugins.listeners("cntk_minibatch_end")) == before + 1
    for listener in plugins.listeners("cntk_job_end"):
        listener(job=Job("Test", "test"), outcome=JobOutcome(True))
    assert len(plugins.listeners("cntk_minibatch_end")) == before


def test_other_actions_are_there_too(recipe):
    run("jsonLog=run/log.jsonl", "command=Train:Test")
    jobs = [(event["job"], event["action"]) for event in lines() if event["event"] == "job_begin"]
    assert jobs == [("Train", "train"), ("Test", "test")]


def test_a_run_that_goes_on_continues_the_log_of_one_that_was_killed(recipe):
    run("jsonLog=run/log.jsonl")
    path = Path("run/log.jsonl")
    path.write_text(path.read_text(encoding="utf-8") + '{"event": "epo', encoding="utf-8")
    run("jsonLog=run/log.jsonl", "resume=true", "Train=[SGD=[maxEpochs=3]]")
    texts = path.read_text(encoding="utf-8").splitlines()
    assert texts.count('{"event": "epo') == 1
    events = [json.loads(text) for text in texts if text != '{"event": "epo']
    begins = [event for event in events if event["event"] == "job_begin"]
    assert [event["firstEpoch"] for event in begins] == [1, 3]
    assert [event["epoch"] for event in events if event["event"] == "epoch_end"] == [1, 2, 3]
    assert [event["updates"] for event in events if event["event"] == "epoch_begin"] == [0, 2, 4]


def test_a_failure_is_told(recipe):
    class Ending:
        @hookimpl
        def cntk_epoch_end(self, job, summary):
            raise CntkError("enough")

    with pytest.raises(CntkError, match="enough"):
        run("jsonLog=run/log.jsonl", listeners=[Ending()])
    end = lines()[-1]
    assert (end["event"], end["succeeded"], end["error"]) == ("job_end", False, "enough")


def test_a_log_that_cannot_be_written_does_not_end_the_training(recipe):
    Path("file").write_text("", encoding="utf-8")
    told: list[str] = []
    log = Log(quiet=True)
    log.line = told.append
    run_recipe(["configFile=r.cntk", "jsonLog=file/log.jsonl"], log)
    assert Path("run/net.dnn").is_file()
    (warning,) = [text for text in told if "cntk_job_begin" in text]
    assert warning.startswith("hook cntk_job_begin of cntk-tool-curves 0.1.0 failed: ")
    assert warning.endswith("It is not called again in this run.")


def test_a_disk_that_fills_up_is_reported_once_and_training_goes_on(recipe, monkeypatch):
    written: list[str] = []

    def write(self, event, job, **told):
        written.append(event)
        if event == "epoch_end":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(JsonLog, "_write", write)
    told: list[str] = []
    log = Log(quiet=True)
    log.line = told.append
    run_recipe(["configFile=r.cntk", "jsonLog=run/log.jsonl"], log)
    assert Path("run/net.dnn").is_file()
    assert written.count("epoch_end") == 1
    assert len([text for text in told if "No space left on device" in text]) == 1


def test_only_the_first_worker_writes(tmp_path, monkeypatch):
    from cntk_core.api import Job
    from cntk_core.api.builders import parse_text

    monkeypatch.chdir(tmp_path)
    JsonLog().cntk_job_begin(Job("Train", "train", rank=1, ranks=2, block=parse_text("jsonLog=log.jsonl")))
    assert not Path("log.jsonl").exists()


def test_what_is_no_number_is_null():
    told = {"a": math.nan, "b": {"c": np.float32(0.5), "d": -math.inf}, "e": np.int64(3), "f": None, "g": "x"}
    assert plain(told) == {"a": None, "b": {"c": 0.5, "d": None}, "e": 3, "f": None, "g": "x"}
