"""Sessions whose ranks learn through a parameter server."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_parallel_asgd import AsynchronousOptions, AsynchronousSGD, SimulatedTime

from cntk_core.config.schedule import Schedule
from tests.training.small import Lines
from tests.training.test_together import assert_close, serial, train

TIMED = {"simulated_time": SimulatedTime(jitter=0.5, slowness=(1.0, 2.0)), "delay_compensation": "adaptive"}


def asynchronous(**given):
    """A class of strategies with these options."""

    class Asynchronous(AsynchronousSGD):
        def __init__(self):
            super().__init__(AsynchronousOptions(sync_period=Schedule.constant(4), **given))

    return Asynchronous


@pytest.mark.parametrize("given", [{}, TIMED])
def test_one_rank_is_serial_training(tmp_path, given):
    expected, alone = serial(tmp_path / "serial")
    ((values, summary),) = train(tmp_path / "one", 1, asynchronous(**given))
    assert_close(values, expected, 0.0)
    assert summary.criteria == pytest.approx(alone.criteria, rel=1e-12)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("given", [{}, TIMED, {"use_pipeline": True}, {"staleness": 1}, {"sim_model_average": True}])
def test_workers_agree(tmp_path, size, given):
    """Shares are uneven; every sample counts once, and all ranks end with the same model and the same sums."""
    lines = [Lines() for _ in range(size)]
    found = train(tmp_path, size, asynchronous(**given), lines=lines, check=1)
    for values, summary in found:
        assert_close(values, found[0][0], 0.0)
        assert summary.criteria == found[0][1].criteria
    assert found[0][1].criteria["ce"] < 1.2
    (line,) = lines[0].with_text("Finished Epoch[ 3 of 3]: [Training] ce = ")
    assert "totalSamplesSeen = 129" in line


def test_a_restart_is_exact_with_simulated_time(tmp_path):
    strategy = asynchronous(**TIMED)
    through = train(tmp_path / "through", 3, strategy)
    folder = tmp_path / "restarted"
    train(folder, 3, strategy, keep_check_point_files=True)
    for name in ("net.dnn", "net.dnn.ckp"):
        (folder / name).unlink()
    lines = [Lines() for _ in range(3)]
    for (values, _), (expected, _) in zip(train(folder, 3, strategy, lines=lines), through, strict=True):
        assert_close(values, expected, 0.0)
    assert lines[2].with_text("Restored from")


def test_another_number_of_ranks(tmp_path):
    train(tmp_path, 3, asynchronous(**TIMED), max_epochs=2, keep_check_point_files=True)
    (tmp_path / "net.dnn").unlink()
    lines = [Lines() for _ in range(2)]
    found = train(tmp_path, 2, asynchronous(**TIMED), lines=lines)
    assert_close(found[1][0], found[0][0], 0.0)
    assert np.isfinite(found[0][1].criteria["ce"])
    assert "The checkpoint is of 3 ranks, now there are 2: there are 2 workers instead of 3." in lines[0].all


@pytest.mark.parametrize("how", [{"checkpoint_every_samples": 8}, {"checkpoint_every_minutes": 1e-9}])
def test_workers_meet_to_save_inside_an_epoch(tmp_path, monkeypatch, how):
    """Where only minutes are given, they look now and then whether it is time."""
    monkeypatch.setattr("cntk_kit_recipes.session.run._BETWEEN_LOOKS", 2)
    lines = [Lines() for _ in range(2)]
    train(tmp_path, 2, asynchronous(), lines=lines, max_epochs=1, **how)
    assert lines[0].with_text("Saving checkpoint '")
