"""Reading curves back from logs."""

from __future__ import annotations

import json
import math

import pytest
from cntk_tool_curves.curves import Curves, Epoch, Reading
from cntk_tool_curves.read_log import read_log
from written_logs import json_log, reading, text_log

from cntk_core.api import DataError
from cntk_core.api.recipes import Log, run_recipe


def close(found, expected):
    assert found.keys() == expected.keys()
    assert list(found.values()) == pytest.approx(list(expected.values()), rel=1e-3)


@pytest.mark.parametrize("write", [text_log, json_log])
def test_both_logs_give_the_same_curves(tmp_path, write):
    (curves,) = read_log(str(write(tmp_path / "log")))
    assert curves.name == "Train"
    assert curves.names() == ["ce", "errs"]
    assert [epoch.number for epoch in curves.epochs] == [1, 2, 3]
    for epoch in curves.epochs:
        close(epoch.criteria, {"ce": 2 / epoch.number, "errs": 0.5 / epoch.number})
        close(epoch.validation, {"ce": 1 / epoch.number, "errs": 0.25 / epoch.number})
        assert epoch.rate == pytest.approx(0.1 / epoch.number, rel=1e-6)
        assert epoch.seconds == 0.25
    places, values = curves.reading_curve("errs")
    assert places == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    assert values == pytest.approx([0.5 / place for place in places], rel=1e-3)


@pytest.mark.parametrize("lead", ["MPI Rank 0: ", "MPI Rank 0: 12/15/2016 08:30:51: ", "11/24/2016 19:42:27: "])
def test_times_and_ranks_in_front_of_lines(tmp_path, lead):
    log = text_log(tmp_path / "log", lead=lead)
    other = text_log(tmp_path / "other", epochs=5, lead="MPI Rank 1: ")
    log.write_text(log.read_text(encoding="utf-8") + other.read_text(encoding="utf-8"), encoding="utf-8")
    (curves,) = read_log(str(log))
    assert curves.name == "Train"
    assert [epoch.number for epoch in curves.epochs] == [1, 2, 3]
    assert len(curves.readings) == 6


def test_several_trainings_in_one_log(tmp_path):
    first, second = text_log(tmp_path / "1", command="Pretrain"), text_log(tmp_path / "2", epochs=2)
    (tmp_path / "log").write_text(first.read_text(encoding="utf-8") + second.read_text(encoding="utf-8"))
    found = read_log(str(tmp_path / "log"))
    assert [(curves.name, len(curves.epochs)) for curves in found] == [("Pretrain", 3), ("Train", 2)]


def test_what_is_told_again_replaces_what_came_after(tmp_path):
    log = json_log(tmp_path / "log")
    again = {"event": "epoch_end", "job": "Train", "epoch": 2, "criteria": {"ce": 7.0}}
    lines = [*log.read_text(encoding="utf-8").splitlines(), '{"event": "epo', json.dumps(reading("Train", 2, 10)), ""]
    log.write_text("\n".join([*lines, json.dumps(again)]), encoding="utf-8")
    (curves,) = read_log(str(log))
    assert [(epoch.number, round(epoch.criteria["ce"], 2)) for epoch in curves.epochs] == [(1, 2.0), (2, 7.0)]
    assert [(shown.epoch, shown.minibatch) for shown in curves.readings] == [(1, 10), (1, 20), (2, 10)]


def test_an_epoch_that_goes_on_is_as_long_as_the_longest():
    curves = Curves("Train")
    curves.add_reading(Reading(1, 40, {"ce": 1.0}))
    curves.add_epoch(Epoch(1, {"ce": 1.0}))
    curves.add_reading(Reading(2, 10, {"ce": 0.5}))
    assert curves.reading_curve("ce") == ([1.0, 1.25], [1.0, 0.5])


def test_words_for_what_is_no_number(tmp_path):
    log = tmp_path / "log"
    log.write_text(
        "Finished Epoch[ 1 of 2]: [Training] ce = -nan(ind) * 16; errs = nan% * 16; totalSamplesSeen = 16; "
        "learningRatePerSample = 0.5; epochTime=1s\n",
        encoding="utf-8",
    )
    (curves,) = read_log(str(log))
    assert all(math.isnan(value) for value in curves.epochs[0].criteria.values())
    assert curves.epochs[0].rate == 0.5
    (nulls,) = read_log(str(json_log(tmp_path / "json", epochs=1, criteria={"ce": None})))
    assert math.isnan(nulls.epochs[0].criteria["ce"])


def test_searches_before_an_epoch_are_no_epochs(tmp_path):
    log = text_log(tmp_path / "log", epochs=1)
    trial = " Finished Mini-Epoch[1]: ce = 9 * 16; learningRatePerSample = 1; minibatchSize = 16\n"
    search = "  AdaptiveLearningRateSearch Epoch[ 1 of 2]-Minibatch[   1-  10]: ce = 9.0 * 16; time = 0.1s;\n"
    log.write_text(search + trial + log.read_text(encoding="utf-8"), encoding="utf-8")
    (curves,) = read_log(str(log))
    assert [epoch.criteria["ce"] for epoch in curves.epochs] == [2.0]
    assert all(shown.criteria["ce"] < 9 for shown in curves.readings)


def test_the_logs_of_a_real_run_agree(recipe):
    arguments = ["jsonLog=run/log.jsonl", "stderr=run/log.txt", "traceLevel=1", "timestamping=true"]
    run = ["configFile=r.cntk", *arguments, "Train=[SGD=[numMBsToShowResult=1]]"]
    log = Log(quiet=True)
    run_recipe(run, log)
    log.close()
    (told,), (text,) = read_log("run/log.jsonl"), read_log("run/log.txt_Train.log")
    assert told.name == text.name == "Train"
    assert len(told.epochs) == len(text.epochs) == 2
    for one, other in zip(told.epochs, text.epochs, strict=True):
        assert other.criteria == pytest.approx(one.criteria, abs=1e-5)
        assert other.rate == pytest.approx(one.rate)
    assert [(shown.epoch, shown.minibatch) for shown in told.readings] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert [(shown.epoch, shown.minibatch) for shown in text.readings] == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_a_log_that_is_missing_or_tells_nothing(tmp_path):
    with pytest.raises(DataError) as error:
        read_log(str(tmp_path / "none.txt"))
    assert error.value.message == f"the log '{tmp_path}/none.txt' cannot be read: No such file or directory"
    (tmp_path / "empty.txt").write_text("hello\n", encoding="utf-8")
    with pytest.raises(DataError) as error:
        read_log(str(tmp_path / "empty.txt"))
    assert error.value.message == f"the log '{tmp_path}/empty.txt' tells of no training"
    assert error.value.hint == (
        'It should be a text log with "Finished Epoch[...]" lines, or a file that jsonLog=... has written.'
    )
