"""Where things stand in a chart, how runs are called, and other small decisions of curves and sweeps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cntk_tool_curves.curves import Curves, Epoch, Reading
from cntk_tool_curves.live_curves import LiveCurves
from cntk_tool_curves.page import charts, progress, table
from cntk_tool_curves.plot_log import _free, _labels
from cntk_tool_curves.runs.find import _has_banner, _is_json, _seconds
from cntk_tool_curves.settings import hash_of
from cntk_tool_curves.sweep import pool
from cntk_tool_curves.sweep.grid import Point


def curves(*epochs: Epoch) -> Curves:
    found = Curves("Train")
    for epoch in epochs:
        found.add_epoch(epoch)
    return found


def test_a_chart_goes_from_the_first_epoch_to_the_last_and_from_the_least_value_to_the_largest() -> None:
    found = curves(Epoch(1, {"ce": 4.0}, {"ce": 2.0}), Epoch(2, {"ce": 3.0}))
    found.add_reading(Reading(1, 1, {"ce": 4.0}))
    found.add_reading(Reading(1, 2, {"ce": 2.0}))
    assert charts(found, 4, "step") == (
        '<svg xmlns="http://www.w3.org/2000/svg" width="360" height="200" viewBox="0 0 360 200" '
        'font-family="sans-serif" font-size="11" style="background:white">'
        '<text x="58" y="16" font-weight="bold">ce</text>'
        '<path d="M58 26V176H350" fill="none" stroke="#64748b"/><text x="54" y="34" text-anchor="end">4</text>'
        '<text x="54" y="176" text-anchor="end">2</text><text x="350" y="192" text-anchor="end">step 4</text>'
        '<polyline points="94.5,26.0 131.0,176.0" fill="none" stroke="#93c5fd" stroke-width="1"></polyline>'
        '<polyline points="131.0,26.0 204.0,101.0" fill="none" stroke="#2563eb" stroke-width="2">'
        '<title>training</title></polyline><circle cx="204.0" cy="101.0" r="3" fill="#2563eb"><title>training</title>'
        '</circle><polyline points="131.0,176.0" fill="none" stroke="#d97706" stroke-width="2">'
        '<title>validation</title></polyline><circle cx="131.0" cy="176.0" r="3" fill="#d97706">'
        "<title>validation</title></circle></svg>"
    )


def test_the_bar_of_a_run() -> None:
    bars = [progress(done, total) for done, total in ((1, 4), (4, 4), (5, 4), (3, 0))]
    shares = [re.findall(r'value="([\d.]+)" style="width:360px"', bar)[0] for bar in bars]
    assert shares == ["0.2500", "1.0000", "1.0000", "0.0000"]


def test_the_table_has_the_last_five_epochs() -> None:
    found = curves(*(Epoch(n, {"ce": n / 3}, rate=0.5 if n == 7 else None, seconds=n) for n in range(1, 8)))
    rows = re.findall("<tr>(.*?)</tr>", table(found, "sweep"))
    assert rows[0] == "<th>sweep</th><th>ce</th><th>rate per sample</th><th>seconds</th>"
    assert rows[1] == "<td>3</td><td>1</td><td></td><td>3.0</td>"
    assert rows[5] == "<td>7</td><td>2.33333</td><td>0.5</td><td>7.0</td>"
    assert len(rows) == 6
    assert table(Curves("none")) == ""


def test_loops_that_do_not_say_how_long_they_go_have_no_bar() -> None:
    for epochs, bar in ((0, ""), (4, '<div><progress max="1" value="0.5000" style="width:360px"></progress></div>')):
        live = LiveCurves(epochs, show=lambda shown: shown)  # type: ignore[arg-type,return-value]
        assert live._repr_html_() == "<div><b>training</b> has not begun</div>"
        live.curves.add_epoch(Epoch(2, {"ce": 1.0}))
        goal = f" of {epochs}" if epochs else ""
        assert live._repr_html_().startswith(f"<div><b>training</b> epoch 2{goal}</div>{bar}<div><svg ")
        assert f"epoch {epochs or 2}</text>" in live._repr_html_()
        assert repr(live) == "training: epoch 2: ce = 1"


def test_display_is_updated_after_a_fifth_of_a_second() -> None:
    times = iter([0.0, 0.0, 0.0, 0.0, 0.19, 0.19, 0.19, 0.2, 0.2, 0.2, 0.2])

    class Handle:
        drawn = 0

        def update(self, live: object) -> None:
            Handle.drawn += 1

    live = LiveCurves(9, show=lambda shown: Handle(), clock=lambda: next(times))
    counts = []
    for value in (3.0, 2.0, 1.0):
        live.add({"ce": value})
        counts.append(Handle.drawn)
    assert counts == [0, 0, 1]


@pytest.mark.parametrize(
    ("taken", "free"), [([], "a"), (["a"], "a (2)"), (["a", "a (2)"], "a (3)"), (["a", "a (3)"], "a (2)")]
)
def test_names_that_are_taken_get_a_number(taken: list[str], free: str) -> None:
    assert _free("a", dict.fromkeys(taken, Curves(""))) == free


def test_logs_of_one_name_are_called_by_their_folders() -> None:
    assert _labels(["x/a.log", "y/a.log", "b.log", "a.log"], [False] * 4) == ["x/a", "y/a", "b", "./a"]
    assert _labels(["a.log", "x/a.log"], [True, False]) == ["a.log", "a"]


@pytest.mark.parametrize(
    ("last", "seconds"),
    [
        ({"event": "job_end", "seconds": 7}, 7.0),
        ({"event": "job_end", "time": 12.5}, 2.5),
        ({"event": "epoch_end", "time": 11, "seconds": 5}, 1.0),
        ({"event": "epoch_end", "time": 9}, 0.0),
        ({"event": "epoch_end"}, 0.0),
    ],
)
def test_how_long_a_part_took(last: dict[str, object], seconds: float) -> None:
    assert _seconds([{"event": "job_begin", "time": 10}, last]) == seconds


def test_files_that_are_not_there_are_no_logs(tmp_path: Path) -> None:
    assert not _has_banner(tmp_path / "none.log")
    assert not _is_json(tmp_path / "none.json")
    (tmp_path / "a.json").write_text(' {"event": "job_begin"}\n', encoding="utf-8")
    assert _is_json(tmp_path / "a.json")


def test_folders_of_points() -> None:
    short = Point({("Train", "SGD", "k" * 76): "abc"})
    assert short.folder == f"{'k' * 76}=abc"
    assert len(short.folder) == 80
    long = Point({("Train", "SGD", "k" * 76): "abcd"}).folder
    assert long.startswith(f"{'k' * 76}=abc-")
    assert re.fullmatch(r".*-[0-9a-f]{6}", long)
    alike = Point({("Train", "dim"): "1", ("Test", "dim"): "2"})
    assert re.fullmatch(r"dim=1,dim=2-[0-9a-f]{6}", alike.folder)
    assert alike.folder != Point({("Test", "dim"): "1", ("Train", "dim"): "2"}).folder
    assert re.fullmatch(r"file=a_b-[0-9a-f]{6}", Point({("file",): "a/b"}).folder)
    assert alike.overrides == ["Train=[dim=1]", "Test=[dim=2]"]


@pytest.mark.parametrize(("processes", "threads"), [(1, None), (2, "4"), (3, "2"), (9, "1")])
def test_processors_are_shared_out(processes: int, threads: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool.os, "sched_getaffinity", lambda which: set(range(8)), raising=False)
    for name in pool._THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "5")
    said = pool.shared_out(processes)
    assert said.get("OMP_NUM_THREADS") == threads
    assert said["MKL_NUM_THREADS"] == "5"


def test_points_share_the_processors_with_all_that_run_beside_them(tmp_path: Path, monkeypatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(pool, "shared_out", lambda processes: asked.append(processes) or dict(pool.os.environ))
    ends: list[int] = []
    command = [pool.sys.executable, "-c", "raise SystemExit(3)"]
    task = pool.Task(command, tmp_path / "out" / "log", lambda: None, ends.append)
    pool.run_tasks([task], jobs=4, processes=3)
    pool.run_tasks([task, task], jobs=4, processes=0)
    assert asked == [3, 2]
    assert ends == [3, 3, 3]


def test_settings_have_the_same_hash_in_any_order() -> None:
    assert hash_of({"a": "1", "B": "2"}) == hash_of({"b": "2", "A": "1"})
    assert hash_of({"a": "1"}) != hash_of({"a": "2"})
