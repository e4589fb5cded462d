"""What is in the picture of the demo's training."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from cntk_tool_demo.curve import draw_curve


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
@pytest.mark.parametrize("validated", [True, False])
def test_criterion_and_errors_by_epoch(monkeypatch, validated):
    from matplotlib.figure import Figure

    saved = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path: saved.append((figure, path)))
    epochs = [
        SimpleNamespace(
            epoch=index,
            criteria={"ce": 2.0 - index, "errs": 0.5 / (index + 1), "more": 1.0},
            validation={"ce": 3.0 - index, "errs": 0.5} if validated or not index else {},
        )
        for index in range(2)
    ]
    draw_curve(epochs, [Path("a.svg"), Path("a.png")])
    assert [path for _, path in saved] == [Path("a.svg"), Path("a.png")]
    figure = saved[0][0]
    found = [
        {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axis.get_lines()}
        for axis in figure.axes
    ]
    expected = [
        {"training: 1.000 at the end": ([1, 2], [2.0, 1.0]), "held out: 2.000 at the end": ([1, 2], [3.0, 2.0])},
        {"training: 25.0 % at the end": ([1, 2], [50.0, 25.0]), "held out: 50.0 % at the end": ([1, 2], [50.0, 50.0])},
    ]
    if not validated:
        expected = [{label: line for label, line in each.items() if "training" in label} for each in expected]
    assert found == expected
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["cross entropy per digit", "wrong digits, %"]
    assert [(axis.get_xlim(), axis.get_ylim()[0], axis.get_xlabel()) for axis in figure.axes] == [
        ((0, 3), 0, "epoch")
    ] * 2
    assert all(axis.get_legend() is not None for axis in figure.axes)
