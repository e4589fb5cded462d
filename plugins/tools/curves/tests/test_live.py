"""A run in progress in a notebook: a display that only remembers."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cntk_tool_curves.curves import Curves, Epoch, Reading
from cntk_tool_curves.live import LiveRun
from cntk_tool_curves.notebook import run
from cntk_tool_curves.page import charts, table

from cntk_core.api import (
    CntkError,
    EpochStart,
    EpochSummary,
    Job,
    JobOutcome,
    MinibatchResult,
    MissingPluginError,
    Network,
)


class Display:
    """What a notebook would show, page after page."""

    def __init__(self) -> None:
        self.shown = 0
        self.pages: list[str] = []

    def show(self, live):
        self.shown += 1
        self.update(live)
        return self

    def update(self, live):
        self.pages.append(live._repr_html_())


def well_formed(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<page>{page}</page>")


def test_a_run_is_shown_while_it_goes_on(recipe):
    display = Display()
    live = run("r.cntk", "Train=[SGD=[numMBsToShowResult=1]]", show=display.show)
    assert display.shown == 1
    shares = [float(share) for page in display.pages for share in re.findall(r'value="([\d.]+)"', page)]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert any("epoch 2 of 2, learning rate per sample 0.1" in page for page in display.pages)
    for page in display.pages:
        well_formed(page)
    last = well_formed(display.pages[-1])
    assert [text.text for text in last.iter("{http://www.w3.org/2000/svg}text")][::4] == ["ce", "errs"]
    assert [cell.text for cell in last.iter("th")] == ["epoch", "ce", "errs", "rate per sample", "seconds"]
    assert len(list(last.iter("tr"))) == 3
    assert "done: 2 epochs in" in display.pages[-1]
    (curves,) = live.trainings
    assert [epoch.number for epoch in curves.epochs] == [1, 2]
    assert any(line.startswith("Finished Epoch[ 1 of 2]") for line in live.log)
    assert repr(live).startswith("Train: done: 2 epochs in ")


def test_a_display_that_fails_does_not_end_the_training(recipe):
    def show(live):
        raise RuntimeError("the browser is gone")

    live = run("r.cntk", show=show)
    assert Path("run/net.dnn").is_file()
    assert any("the browser is gone" in line for line in live.log)


def test_a_failure_is_shown_and_raised(recipe):
    Path("ends.py").write_text(
        "from cntk_core.api import CntkError, hookimpl\n"
        "@hookimpl\ndef cntk_epoch_end(job, summary):\n    raise CntkError('enough')\n",
        encoding="utf-8",
    )
    display = Display()
    with pytest.raises(CntkError, match="enough"):
        run("r.cntk", plugin_files=["ends.py"], show=display.show)
    assert "<b>Train</b> failed: enough" in display.pages[-1]


def test_actions_without_training_show_nothing(recipe):
    display = Display()
    run("r.cntk", show=display.show)
    before = len(display.pages)
    live = run("r.cntk", "command=Test", "Test=[modelPath=run/net.dnn]", show=display.show)
    assert len(display.pages) == before
    assert live._repr_html_() == "<div>nothing was trained</div>"
    assert repr(live) == "nothing was trained"
    assert any("Final Results" in line for line in live.log)


def training(**more) -> Job:
    return Job("Train", "train", network=Network([]), epochs=4, **more)


def test_updates_within_an_epoch_are_not_too_frequent():
    now = [10.0]
    display = Display()
    live = LiveRun(display.show, clock=lambda: now[0])
    live.cntk_job_begin(training())
    live.cntk_epoch_begin(training(), EpochStart(0, 1, 0.1))
    before = len(display.pages)
    for index in range(10):
        now[0] += 0.125
        live.cntk_minibatch_end(training(), MinibatchResult(0, index, 1, index + 1, {"ce": 1.0 / (index + 1)}))
        live.cntk_minibatch_end(training(), MinibatchResult(0, index, 1, index + 1))
    assert len(display.pages) - before == 2
    assert len(live.trainings[0].readings) == 10


def test_a_training_that_goes_on_begins_where_it_was():
    display = Display()
    LiveRun(display.show).cntk_job_begin(training(first_epoch=3))
    assert 'value="0.7500"' in display.pages[0]


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (JobOutcome(True, 3, 1.5, "it is good enough"), "done: 3 epochs in 1.5 s; it is good enough"),
        (JobOutcome(False, error=KeyboardInterrupt()), "interrupted; the same call goes on from the last checkpoint"),
        (JobOutcome(False, error=CntkError("a < b")), "failed: a &lt; b"),
    ],
)
def test_how_it_ended(outcome, text):
    display = Display()
    live = LiveRun(display.show)
    live.cntk_job_begin(training())
    live.cntk_job_end(training(), outcome)
    assert text in display.pages[-1]


def test_the_validation_set_is_in_charts_and_table():
    live = LiveRun(Display().show)
    live.cntk_job_begin(training())
    live.cntk_epoch_end(training(), EpochSummary(0, 8, 2, {"ce": 1.0}, {"ce": 2.0}, 0.5, 4, 1.0))
    page = live._repr_html_()
    titles = [title.text for title in well_formed(page).iter("{http://www.w3.org/2000/svg}title")]
    assert set(titles) == {"training", "validation"}
    assert "<th>ce (validation)</th>" in page
    assert "<td>2</td>" in page


def test_values_that_are_no_numbers_interrupt_a_line():
    curves = Curves("Train")
    for number, value in enumerate([3.0, 2.0, float("nan"), 1.0], start=1):
        curves.add_epoch(Epoch(number, {"<ce>": value}))
    chart = charts(curves, 4)
    assert chart.count("<polyline") == 2
    assert "&lt;ce&gt;" in chart
    assert "nan" not in chart
    assert "<td>nan</td>" in table(curves)


def test_a_value_that_never_changes_is_a_line_in_the_middle():
    curves = Curves("Train")
    for number in (1, 2):
        curves.add_epoch(Epoch(number, {"ce": 3.0}))
    chart = charts(curves, 2)
    top, bottom = re.search(r'd="M[\d.]+ ([\d.]+)V([\d.]+)H', chart).groups()
    middle = (float(top) + float(bottom)) / 2
    points = re.search(r'<polyline points="([^"]+)"', chart)[1].split()
    assert [float(point.split(",")[1]) for point in points] == [middle, middle]


def test_curves_without_any_number_have_no_chart():
    curves = Curves("Train")
    curves.add_reading(Reading(1, 1, {"ce": float("inf")}))
    assert charts(curves, 1) == ""
    assert table(curves) == ""


def test_outside_of_a_notebook(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", None)
    with pytest.raises(MissingPluginError) as error:
        run("r.cntk")
    assert error.value.message == "a run is shown in a notebook, and IPython is not installed"
