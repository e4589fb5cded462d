"""The comparison of asynchronous SGD of examples/delay_compensation."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

# Importing it takes seconds: not where tests are only collected.
pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="sklearn is not installed")


def result(error: float, seconds: float) -> dict[str, list[float]]:
    return {"entropy": [1.0, 0.5], "error": [2 * error, error], "seconds": [seconds / 2, seconds]}


@pytest.fixture
def results() -> dict[str, list[dict[str, list[float]]]]:
    names = ["1 none", *(f"{workers} {mode}" for workers in (4, 8, 16) for mode in ("none", "constant", "adaptive"))]
    return {name: [result(3.0, 8.0), result(5.0, 8.0)] for name in names}


@pytest.mark.thorough  # tests/examples/test_rate_search.py draws a figure of the same kind
@pytest.mark.slow
def test_the_table_and_the_figure(example, script, results) -> None:
    pytest.importorskip("matplotlib")
    folder = example("delay_compensation")
    figure = script(folder / "figure.py")
    text = figure["table"](results)
    assert "| 1 | serial | 0.5000 | 4.00 % | 8.00 s |" in text
    assert "| 16 | compensated, adaptive | 0.5000 | 4.00 % | 8.00 s |" in text
    figure["draw"](results, folder / "figure.svg")
    drawn = (folder / "figure.svg").read_text(encoding="utf-8")
    assert drawn.lstrip().startswith("<?xml")
    assert len(drawn) > 10_000


@pytest.mark.thorough  # plugins/parallel/asgd compensates delays in tests of its own
@pytest.mark.slow
def test_four_workers_take_a_quarter_of_the_time_and_do_the_same_again(example, script) -> None:
    train = script(example("delay_compensation") / "figure.py")["train"]
    alone = train(1, "none", 1, "maxEpochs=1")
    once, again = (train(4, "adaptive", 1, "maxEpochs=1") for _ in range(2))
    assert once == again
    assert once["error"][0] < 60.0
    assert once["seconds"][0] == pytest.approx(alone["seconds"][0] / 4, rel=0.2)
    assert train(4, "none", 1, "maxEpochs=1")["entropy"] != once["entropy"]
