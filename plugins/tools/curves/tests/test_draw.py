"""What is in the figures of curves: panels, lines, names; and curves that are told in pieces."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from cntk_tool_curves.curves import Curves, Epoch, Reading
from cntk_tool_curves.draw import RATE, criteria_of, draw_curves

drawing = pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")


@pytest.fixture
def drawn(monkeypatch):
    """Draw, and return the figure and what it is saved with; nothing is written."""
    from matplotlib.figure import Figure

    saved = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **settings: saved.append((figure, settings)))

    def draw(runs, names, path="a.svg", **options):
        draw_curves(runs, names, Path(path), **options)
        return saved.pop()

    return draw


def run(*epochs, readings=()):
    made = Curves("Train")
    for epoch in epochs:
        made.add_epoch(epoch)
    for reading in readings:
        made.add_reading(reading)
    return made


FIRST = run(
    Epoch(1, {"ce": 2.0, "errs": 0.5}, {"ce": 2.5}, 0.1),
    Epoch(2, {"ce": 1.0, "errs": 0.25}, {"ce": 1.5}, 0.05),
    readings=[Reading(1, 10, {"ce": 3.0}), Reading(1, 20, {"ce": 2.0}), Reading(2, 5, {"ce": 1.5})],
)
SECOND = run(Epoch(1, {"ce": 4.0}, rate=0.2))


def panels(figure):
    """Title to lines, by label: the points."""
    return {
        axis.get_title(loc="left"): {
            line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axis.get_lines()
        }
        for axis in figure.axes
        if axis.get_visible()
    }


@drawing
def test_a_panel_for_each_criterion_and_for_a_rate_that_changes(drawn):
    figure, settings = drawn({"a": FIRST, "b": SECOND}, ["ce", "errs"])
    assert panels(figure) == {
        "ce": {
            "a: training": ([1, 2], [2.0, 1.0]),
            "a: validation": ([1, 2], [2.5, 1.5]),
            "b: training": ([1], [4.0]),
        },
        "errs": {"a: training": ([1, 2], [0.5, 0.25])},
        RATE: {"a": ([1, 2], [0.1, 0.05]), "b": ([1], [0.2])},
    }
    assert settings == {"metadata": {"Date": None}}
    assert [axis.get_yscale() for axis in figure.axes] == ["linear", "linear", "log"]
    assert [axis.get_xlabel() for axis in figure.axes] == ["epoch"] * 3
    assert all(axis.get_legend() is not None for axis in figure.axes)
    assert not figure.legends


@drawing
def test_a_rate_that_stays_has_no_panel(drawn):
    figure, settings = drawn({"b": SECOND}, ["ce"], "a.png", logarithmic=True)
    assert list(panels(figure)) == ["ce"]
    assert settings == {"metadata": {}}
    assert [axis.get_yscale() for axis in figure.axes] == ["log"]


@drawing
def test_what_was_shown_within_epochs(drawn):
    figure, _ = drawn({"a": FIRST}, ["ce"], minibatches=True)
    thin, training, validation = figure.axes[0].get_lines()
    assert (list(thin.get_xdata()), list(thin.get_ydata())) == ([0.5, 1.0, 2.0], [3.0, 2.0, 1.5])
    assert thin.get_color() == training.get_color() == validation.get_color()
    assert (training.get_linestyle(), validation.get_linestyle()) == ("-", "--")
    assert thin.get_linewidth() < training.get_linewidth()


@drawing
def test_runs_have_colours_of_their_own_and_many_one_legend(drawn):
    runs = {f"run {index}": SECOND for index in range(11)}
    figure, _ = drawn(runs, ["ce"])
    colors = [line.get_color() for line in figure.axes[0].get_lines()]
    assert len(set(colors)) == 10
    assert colors[10] == colors[0]
    assert figure.axes[0].get_legend() is None
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [f"{name}: training" for name in runs]
    assert legend._ncols == 1
    one, _ = drawn({"a": FIRST}, ["ce"])
    assert figure.get_figheight() > one.get_figheight()


@drawing
def test_a_legend_of_many_has_a_run_in_one_line(drawn):
    figure, _ = drawn({"a": FIRST, "b": FIRST, "c": SECOND}, ["ce", "errs"])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        *("a: training", "b: training", "c: training"),
        *("a: validation", "b: validation"),
    ]
    assert legend._ncols == 2


@drawing
def test_panels_stand_in_rows_of_three(drawn):
    one = run(Epoch(1, {f"c{index}": 1.0 for index in range(4)}))
    figure, _ = drawn({"a": one}, [f"c{index}" for index in range(4)])
    assert [axis.get_visible() for axis in figure.axes] == [True] * 4 + [False] * 2
    assert figure.get_figwidth() == 3 * drawn({"a": one}, ["c0"])[0].get_figwidth()
    assert figure.get_figheight() == 2 * drawn({"a": one}, ["c0"])[0].get_figheight()


def test_names_of_criteria_come_once():
    assert criteria_of({"a": FIRST, "b": SECOND}) == ["ce", "errs"]
    assert criteria_of({}) == []


def test_what_is_told_again_replaces_what_came_after_it():
    curves = run(*(Epoch(number, {"ce": float(number)}) for number in (1, 2, 3)))
    curves.add_epoch(Epoch(2, {"ce": 7.0}))
    assert [(one.number, one.criteria["ce"]) for one in curves.epochs] == [(1, 1.0), (2, 7.0)]
    curves.add_validation(2, {"ce": 8.0})
    curves.add_validation(3, {"ce": 9.0})
    assert [dict(one.validation) for one in curves.epochs] == [{}, {"ce": 8.0}]
    for epoch, minibatch in ((1, 10), (1, 20), (2, 10), (1, 20)):
        curves.add_reading(Reading(epoch, minibatch, {"ce": 1.0}))
    assert [(one.epoch, one.minibatch) for one in curves.readings] == [(1, 10), (1, 20)]


def test_an_epoch_that_goes_on_is_as_long_as_the_longest():
    curves = run(Epoch(1, {"ce": 1.0}), readings=[Reading(1, 10, {"ce": 3.0}), Reading(2, 5, {"ce": 2.0, "e": 1.0})])
    assert curves.reading_curve("ce") == ([1.0, 1.5], [3.0, 2.0])
    assert curves.reading_curve("e") == ([1.5], [1.0])
    assert curves.names() == ["ce", "e"]
    assert curves
    assert not Curves("Train")
