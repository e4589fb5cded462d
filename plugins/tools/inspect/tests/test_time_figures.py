"""Where the bars of a flame graph stand, and how what an engine tells becomes the shares of a step."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from cntk_tool_inspect.timing import measure
from cntk_tool_inspect.timing.flame import flame_graph
from cntk_tool_inspect.timing.measure import BETWEEN, FORWARD, GRADIENTS, READER, UPDATE, WHOLE, Profile, Share

from cntk_core.api import Location
from cntk_core.api.engines import RunTime, StepTime, describe_step, make_plan
from cntk_testing.networks import classifier

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def plan():
    sample = classifier("float32")
    for node in sample.network:
        node.where = Location("r.cntk", 2, 5)
    return make_plan(sample.network, sample.roots, sample.criterion, fuse=False)


def drawn(shares: list[Share]) -> tuple[list[str], list[tuple[float, int, float, str]], list[str]]:
    """Titles, places and widths and colours, and texts of the bars."""
    text = flame_graph(Profile("T", "cpu", 1, 1.0, tuple(shares), 1.0, 1.0, (), ()))
    groups = list(ElementTree.fromstring(text).iter(f"{SVG}g"))
    boxes = [group.find(f"{SVG}rect") for group in groups]
    places = [
        (float(one.get("x", "")), int(one.get("y", "")), float(one.get("width", "")), one.get("fill", ""))
        for one in boxes
        if one is not None
    ]
    return (
        [group.findtext(f"{SVG}title", "") for group in groups],
        places,
        [g.findtext(f"{SVG}text", "") for g in groups],
    )


def test_bars_stand_on_those_that_they_are_a_part_of(plan, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.cntk").write_text("x = Input{4}\nz = W * x\n", encoding="utf-8")
    step = plan.steps[0]
    titles, places, texts = drawn(
        [
            Share(READER, None, 0.25),
            Share(FORWARD, step, 0.5),
            Share(UPDATE, None, 0.2496),
            Share(BETWEEN, None, 0.0004),
        ]
    )
    told = describe_step(step)
    assert titles == [
        "a step of T, engine=cpu: 1000.000 ms, 100.0 %",
        "forward: 500.000 ms, 50.0 %",
        "r.cntk:2: z = W * x: 500.000 ms, 50.0 %",
        f"{told}: 500.000 ms, 50.0 %",
        "reader: 250.000 ms, 25.0 %",
        "update: 249.600 ms, 25.0 %",
    ]
    assert places == [
        (10.0, 70, 1180.0, "#e8e8e8"),
        (10.0, 50, 590.0, "#f2c28b"),
        (10.0, 30, 590.0, "#efb06a"),
        (10.0, 10, 590.0, "#f5dcb8"),
        (600.0, 50, 295.0, "#f2c28b"),
        (895.0, 50, 294.53, "#f2c28b"),
    ]
    assert texts == ["a step of T, engine=cpu", "forward", "r.cntk:2", told, "reader", "update"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0331, "rea.."), (0.0330, ""), (0.0386, "rea.."), (0.0387, "reader"), (0.001, "")]
)
def test_a_text_is_cut_to_its_bar(seconds: float, text: str) -> None:
    _, places, texts = drawn([Share("reader", None, seconds), Share("x", None, 1 - seconds)])
    assert places[-1][2] == pytest.approx(1180 * seconds, abs=0.01)
    assert (texts[-1] or "") == text


def test_what_is_narrower_than_half_a_dot_is_left_out() -> None:
    found = [drawn([Share("a", None, part / 1180), Share("b", None, 1.0)])[0] for part in (0.49, 0.52)]
    assert [len(titles) for titles in found] == [2, 3]
    assert drawn([Share("a", None, 0.0)])[0] == []


def test_shares_are_means_of_steps(plan) -> None:
    first, back = plan.steps[0], plan.gradients[-1]
    runs = [
        RunTime(plan, "train_step", 0, 900, (StepTime(first, 100, 300), StepTime(None, 300, 350)), {"": 8}),
        RunTime(plan, "train_step", 1000, 1900, (StepTime(first, 1000, 1400), StepTime(back, 1400, 1700)), {"": 24}),
        RunTime(plan, measure.UPDATE, 2000, 2070, (), {}),
    ]
    told = measure._Measured(2e-6, 32, ((0, 30), (900, 1000)), 0)
    found = {(one.part, one.step): one for one in measure._shares(runs, told, 2, 4)}
    seconds = {key[0]: one.seconds * 2e9 for key, one in found.items()}
    assert seconds == pytest.approx({READER: 130, FORWARD: 600, GRADIENTS: 300, UPDATE: 120, BETWEEN: 850})
    assert found[FORWARD, first].operations == pytest.approx(16 * measure.operations(first, {"": 1}))
    once, more = (measure.moved(first, {"": rows}, 4) for rows in (8, 24))
    assert found[FORWARD, first].moved == pytest.approx((once + more) / 2)


def test_an_engine_that_tells_no_steps(plan) -> None:
    runs = [RunTime(plan, "train_step", 100, 400, (), {"": 8}), RunTime(plan, measure.UPDATE, 400, 450, (), {})]
    found = {one.part: one.seconds * 1e9 for one in measure._shares(runs, measure._Measured(3e-7, 8, (), 0), 1, 4)}
    assert found == pytest.approx({READER: 0, WHOLE: 300, UPDATE: 50, BETWEEN: 0})
