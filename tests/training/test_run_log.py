"""Log lines, byte for byte, and the bar."""

from __future__ import annotations

import io
import re

import pytest
from small import Lines

from cntk_core.training.loop.criteria import Criterion, since
from cntk_kit_recipes.session.rate_control import single
from cntk_kit_recipes.session.run_log import (
    ProgressBar,
    RunLog,
    StreamLog,
    averages,
    describe,
    number_format,
    share_of_epoch,
)


@pytest.mark.parametrize(
    ("name", "total", "samples", "text"),
    [
        ("ce", 19.84854450, 16, "ce = 1.24053403 * 16"),
        ("errs", 13, 16, "errs = 81.250% * 16"),
        ("aggregateLoss", 19.5, 16, "aggregateLoss = 1.21875000 * 16"),
        ("errs", 0, 16, "errs = 0.000% * 16"),
        ("ce", 0.0, 0, "ce = 0.00000000 * 0"),
        ("ce", 1e-6, 2, "ce = 5.00000000e-07 * 2"),
        ("ce", 5e10, 1, "ce = 5.00000000e+10 * 1"),
        ("ce", float("nan"), 3, "ce = nan * 3"),
        ("errs", 1, 10_000_000, "errs = 1.000e-05% * 10000000"),
    ],
)
def test_a_criterion_is_printed_as_ever(name, total, samples, text):
    assert describe(name, Criterion(total, samples)) == text


def test_numbers_that_are_long_otherwise_are_in_scientific_form():
    assert number_format(3, 1.5) == "1.500"
    assert number_format(4, 0.00001) == "1.0000e-05"
    assert number_format(4, 0.0001) == "0.0001"
    assert number_format(4, 12345.0) == "1.2345e+04"


def test_differences_and_averages():
    before, now = {"ce": Criterion(4.0, 2)}, {"ce": Criterion(10.0, 4), "errs": Criterion(2.0, 4)}
    assert since(now, before) == {"ce": Criterion(6.0, 2), "errs": Criterion(2.0, 4)}
    assert averages(since(now, before)) == {"ce": 3.0, "errs": 0.5}


def run_log(trace_level: int = 1) -> tuple[RunLog, Lines]:
    lines = Lines()
    return RunLog(lines, trace_level=trace_level), lines


def test_epoch_lines():
    log, lines = run_log()
    log.epoch_begins(0, 0.0625, 0.5, 11.5416)
    log.loop_begins(1, 0)
    log.loop_begins(3, 0)
    log.loop_begins(4, 30)
    criteria = {"ce": Criterion(19.84854, 16), "errs": Criterion(13.0, 16)}
    log.minibatches(0, 10, 1, 10, "", criteria, 0.5)
    log.minibatches(9, 10, 11, 120, ", 12.50%", criteria, 0.5)
    log.epoch_ends(1, 3, criteria, 86, single(0.05), 3.2123456)
    log.validated(1, 3, criteria)
    assert lines.all == [
        "",
        "Starting Epoch 1: learning rate per sample = 0.062500  effective momentum = 0.500000  "
        "momentum as time constant = 11.5 samples",
        "",
        "Starting minibatch loop.",
        "",
        "Starting minibatch loop, with 3 subminibatch.",
        "",
        "Starting minibatch loop, with maximum 30 samples in RAM.",
        " Epoch[ 1 of 10]-Minibatch[   1-  10]: ce = 1.24053375 * 16; errs = 81.250% * 16; "
        "time = 0.5000s; samplesPerSecond = 32.0",
        " Epoch[10 of 10]-Minibatch[  11- 120, 12.50%]: ce = 1.24053375 * 16; errs = 81.250% * 16; "
        "time = 0.5000s; samplesPerSecond = 32.0",
        "Finished Epoch[ 2 of 3]: [Training] ce = 1.24053375 * 16; errs = 81.250% * 16; "
        "totalSamplesSeen = 86; learningRatePerSample = 0.050000001; epochTime=3.21235s",
        "Finished Epoch[ 2 of 3]: [Validate] ce = 1.24053375 * 16; errs = 81.250% * 16",
    ]


def test_at_trace_level_0_only_the_ends_of_epochs_are_shown():
    log, lines = run_log(0)
    log.epoch_begins(0, 0.1, 0.5, 1.0)
    log.loop_begins(1, 0)
    log.minibatches(0, 1, 1, 1, "", {"ce": Criterion(1.0, 1)}, 0.0)
    assert lines.all == []
    log.epoch_ends(0, 1, {"ce": Criterion(1.0, 1)}, 1, single(0.1), 0.0)
    assert len(lines.all) == 1


@pytest.mark.parametrize(
    ("done", "total", "size", "shown", "text"),
    [
        (250, 10_000, 25, 10, ", 2.50%"),
        (16, 0, 8, 2, ""),
        (48, 43, 8, 2, ", 100.00%"),
        (1, 10_000_000, 1, 1, ", 0.00001%"),
    ],
)
def test_the_share_of_an_epoch(done, total, size, shown, text):
    assert share_of_epoch(done, total, size, shown) == text


def test_rates_are_shown_in_single_precision():
    assert f"{single(0.008):.8g}" == "0.0080000004"


def test_time_stands_in_front_of_lines_that_are_not_empty():
    stream = io.StringIO()
    log = StreamLog(stream, timestamps=True)
    log.line("text")
    log.line()
    assert re.fullmatch(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d: text\n\n", stream.getvalue())


def test_a_stream_that_is_replaced_later_is_honoured(capsys):
    RunLog().line("to the console")
    assert capsys.readouterr().err == "to the console\n"


def test_a_bar_shows_loss_and_rate_and_lines_stand_above_it(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    from rich.console import Console

    import cntk_kit_recipes.session.run_log as module

    stream = io.StringIO()
    real = module._make_progress

    def on_a_terminal():
        progress = real()
        progress.live.console = Console(file=stream, force_terminal=True, width=120)
        return progress

    monkeypatch.setattr(module, "_make_progress", on_a_terminal)
    lines = Lines()
    log = RunLog(lines, trace_level=1, bar=True)
    assert log.bar is not None
    log.bar.begin("epoch 1 of 3", 100, 0.25)
    log.bar.advance(50, 1.23456)
    log.detail("not shown beside a bar")
    log.line("a line [with brackets]")
    log.bar.end()
    log.line("after the bar")
    shown = stream.getvalue()
    assert "epoch 1 of 3" in shown
    assert "loss 1.2346" in shown
    assert "rate 0.25" in shown
    assert "a line [with brackets]" in shown
    assert lines.all == ["after the bar"]


def test_a_bar_is_as_long_as_the_epoch(monkeypatch):
    import cntk_kit_recipes.session.run_log as module

    made = []
    real = module._make_progress
    monkeypatch.setattr(module, "_make_progress", lambda: made.append(real()) or made[-1])
    bar = ProgressBar()
    for total, found in ((100, 100), (0, None)):
        bar.begin("an epoch", total)
        bar.advance(30, 1.0)
        (task,) = made[-1].tasks
        assert (task.total, task.completed, task.fields) == (found, 30, {"loss": "loss 1.0000", "rate": ""})
    assert not made[0].live.is_started
    assert made[0].live.transient  # nothing of it stays on the screen
    bar.end()
    assert not made[1].live.is_started


def test_a_bar_that_is_not_shown_does_nothing():
    bar = ProgressBar()
    bar.advance(3)
    bar.end()
    assert not bar.print("text", Lines())
