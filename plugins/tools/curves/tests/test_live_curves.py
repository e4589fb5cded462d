"""The curves of a loop in Python: on a display that only remembers, and as a table."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from xml.etree import ElementTree

import attrs
import pytest
from cntk_tool_curves.notebook import LiveCurves


class Display:
    def __init__(self):
        self.pages = []

    def show(self, live):
        self.update(live)
        return self

    def update(self, live):
        self.pages.append(live._repr_html_())


def clock(*seconds):
    times = iter(seconds)
    return lambda: next(times)


def test_elsewhere_it_is_a_table(capsys):
    curves = LiveCurves(2)
    curves.add({"loss": 0.6931471})
    curves.add({"loss": 0.5}, {"loss": 0.25})
    curves.add({"loss": 1e-7}, {"loss": float("nan")})
    assert capsys.readouterr().out.splitlines() == [
        "       epoch          loss",
        "           1      0.693147",
        "       epoch          loss  loss (validation)",
        "           2           0.5               0.25",
        "           3         1e-07                nan",
    ]
    assert repr(curves) == "training: epoch 3: loss = 1e-07, loss (validation) = nan"


def test_in_a_notebook_the_curves_are_drawn():
    display = Display()
    curves = LiveCurves(2, name="a < b", unit="hundred steps", show=display.show)
    assert repr(curves) == "a < b has not begun"
    assert curves._repr_html_() == "<div><b>a &lt; b</b> has not begun</div>"
    curves.add({"judge": 1.5, "maker": 0.5}, {"judge": 1.0})
    curves.add({"judge": 1.25, "maker": 0.75})
    page = ElementTree.fromstring(f"<page>{display.pages[-1]}</page>")
    assert [text.text for text in page.iter("{http://www.w3.org/2000/svg}text")] == [
        *("judge", "1.5", "1", "hundred steps 2"),
        *("maker", "0.75", "0.5", "hundred steps 2"),
    ]
    assert [cell.text for cell in page.iter("th")] == [
        *("hundred steps", "judge", "maker", "judge (validation)", "maker (validation)", "seconds")
    ]
    assert page.find("div/progress").get("value") == "1.0000"


def test_it_is_not_drawn_too_often_but_when_it_ends():
    display = Display()
    curves = LiveCurves(5, show=display.show, clock=lambda: 1.0)
    for epoch in range(1, 6):
        curves.add({"loss": 1 / epoch})
    assert [f"epoch {epoch} of 5" in page for page, epoch in zip(display.pages, (1, 5), strict=True)] == [True, True]


def test_seconds_are_those_since_the_epoch_before():
    curves = LiveCurves(show=Display().show, clock=clock(0.0, 2.0, 2.0, 2.0, 5.0, 5.0, 5.0, 5.0))
    curves.add({"loss": 1.0})
    curves.add({"loss": 1.0})
    assert [epoch.seconds for epoch in curves.curves.epochs] == [2.0, 3.0]


def test_an_epoch_that_is_told_again_replaces_those_after_it(capsys):
    curves = LiveCurves()
    for number in (1, 2, 3, 2):
        curves.add({"loss": float(number)}, number=number)
    assert [epoch.number for epoch in curves.curves.epochs] == [1, 2]


def test_criteria_of_a_trainer_are_their_averages(capsys):
    criterion = attrs.make_class("Criterion", ["total", "samples", "average"])
    curves = LiveCurves()
    curves.add({"ce": criterion(10.0, 4, 2.5)})
    assert dict(curves.curves.epochs[0].criteria) == {"ce": 2.5}


def test_it_is_a_callback_of_a_fit():
    fitting = SimpleNamespace(epochs=9, epoch=1, training={"ce": 1.0}, validation={"ce": 2.0}, ended="")
    display = Display()
    curves = LiveCurves(show=display.show, clock=lambda: 0.0)
    curves(fitting)
    fitting.epoch, fitting.ended = 2, "it is good enough"
    curves(fitting)
    assert curves.epochs == 9
    assert dict(curves.curves.epochs[1].validation) == {"ce": 2.0}
    assert ["epoch 2 of 9" in page for page in display.pages] == [False, True]


class Events:
    def __init__(self):
        self.waiting = []

    def register(self, event, function):
        assert event == "post_run_cell"
        self.waiting.append(function)

    def unregister(self, event, function):
        self.waiting.remove(function)


@pytest.fixture
def kernel(monkeypatch):
    """A process that is the kernel of a notebook."""
    shell = SimpleNamespace(kernel=object(), events=Events(), display=Display())
    shown = SimpleNamespace(display=lambda live, display_id: shell.display.show(live))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell, display=shown))
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return shell


def test_what_was_left_out_is_drawn_when_the_cell_ends(kernel):
    curves = LiveCurves(clock=lambda: 0.0)
    for _ in range(3):
        curves.add({"loss": 1.0})
    assert ["epoch 1" in page for page in kernel.display.pages] == [True]
    (cell_ends,) = kernel.events.waiting
    cell_ends("what the cell gave")
    assert ["epoch 3" in page for page in kernel.display.pages] == [False, True]
    assert kernel.events.waiting == []


def test_on_a_console_of_ipython_it_is_a_table(kernel, capsys):
    kernel.kernel = None
    LiveCurves().add({"loss": 1.0})
    assert capsys.readouterr().out.splitlines()[-1] == "           1             1"
    assert kernel.display.pages == []
