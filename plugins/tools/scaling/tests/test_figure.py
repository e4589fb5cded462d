"""What is in the figure of a simulation."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from cntk_tool_scaling.figure import draw
from cntk_tool_scaling.outcome import Outcome

from cntk_core.api import ConfigError

pytestmark = pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")


def outcome(method, ranks, seconds):
    return Outcome(method, ranks, 64, 1.0, seconds, 0.1, 0.1, 0.1, 0.0)


OUTCOMES = [outcome("full", 4, 0.5), outcome("full", 2, 0.625), outcome("1bit", 4, 0.25), outcome("1bit", 1, 1.0)]


def test_speed_up_and_efficiency_by_ranks(monkeypatch, tmp_path):
    from matplotlib.figure import Figure

    saved = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **settings: saved.append((figure, path, settings)))
    draw(OUTCOMES, tmp_path / "new" / "a.svg", "A network")
    draw(OUTCOMES, tmp_path / "new" / "a.PNG", "A network")
    (figure, path, settings), (_, _, plain) = saved
    assert path.parent.is_dir()
    assert (settings, plain) == ({"metadata": {"Date": None}}, {"metadata": {}})
    speed, efficiency = figure.axes
    lines = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in speed.get_lines()}
    assert lines == {
        "as many times as ranks": ([1, 2, 4], [1, 2, 4]),
        "full": ([2, 4], [1.6, 2.0]),
        "1bit": ([1, 4], [1.0, 4.0]),
    }
    assert [list(line.get_ydata()) for line in efficiency.get_lines()] == [[80.0, 50.0], [100.0, 100.0]]
    assert [line.get_color() for line in efficiency.get_lines()] == [line.get_color() for line in speed.get_lines()[1:]]
    assert len({line.get_marker() for line in efficiency.get_lines()}) == 2
    assert [axis.get_xscale() for axis in figure.axes] == ["log", "log"]
    assert (speed.get_yscale(), efficiency.get_yscale()) == ("log", "linear")
    assert efficiency.get_ylim() == (0, 105)
    assert [[text.get_text() for text in axis.get_xticklabels()] for axis in figure.axes] == [["1", "2", "4"]] * 2
    assert [axis.get_title() for axis in figure.axes] == ["speed-up", "efficiency, %"]
    assert figure.get_suptitle() == "A network"
    assert [text.get_text() for text in speed.get_legend().get_texts()] == list(lines)


def test_more_methods_than_colours(monkeypatch, tmp_path):
    from matplotlib.figure import Figure

    saved = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **settings: saved.append(figure))
    draw([outcome(f"m{index}", 1, 1.0) for index in range(11)], tmp_path / "a.png", "")
    styles = [(line.get_color(), line.get_marker()) for line in saved[0].axes[1].get_lines()]
    assert len(set(styles)) == 10
    assert styles[10] == styles[0]


def test_a_figure_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"^the picture '.*a\.svg' cannot be written: "):
        draw(OUTCOMES, tmp_path / "file" / "a.svg", "")
