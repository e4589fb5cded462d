"""saveBestModelPerCriterion: copies of the best model by each criterion of the validation set."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from small import Lines, ListReader, make_data, make_session

from cntk_core.training.rates.auto_adjust import AutoAdjust
from cntk_kit_recipes.session.rate_control import ControlState

VALIDATION = {"save_best_model_per_criterion": True, "learning_rates_per_sample": 0.5, "momentum_per_mb": 0.9}


def validation() -> ListReader:
    """Return data with some wrong labels, so that training too long makes them worse."""
    data = make_data(30, seed=5)
    data["labels"][:9] = np.roll(data["labels"][:9], 1, axis=1)
    return ListReader(data)


def train(folder: Path, epochs: int, lines: Lines | None = None, **changes):
    return make_session(folder, lines, max_epochs=epochs, cv_reader=validation(), **{**VALIDATION, **changes}).run()


def best_epochs(lines: Lines) -> dict[str, int]:
    """The best epochs by the validation lines, independent of what the run says is best."""
    found: dict[str, tuple[float, int]] = {}
    for line in lines.all:
        if not (line.startswith("Finished Epoch") and "[Validate]" in line):
            continue
        epoch = int(line.split("[")[1].split(" of")[0])
        for name, value in re.findall(r"(\w+) = +([\d.]+)", line.split("[Validate]")[1]):
            if float(value) < found.get(name, (9e9, 0))[0]:
                found[name] = (float(value), epoch)
    return {name: epoch for name, (_, epoch) in found.items()}


def test_the_copies_are_the_models_of_the_best_epochs(tmp_path):
    lines = Lines()
    train(tmp_path, 6, lines)
    best = best_epochs(lines)
    assert best.keys() == {"ce", "errs"}
    assert 0 < best["ce"] < 6, "the case overfits"
    for name, epoch in best.items():
        model = tmp_path / (f"net.dnn.{epoch}" if epoch < 6 else "net.dnn")
        assert (tmp_path / f"net.dnn_{name}").read_bytes() == model.read_bytes()
        assert (
            f"Best epoch for criterion '{name}' is {epoch} and model {model} copied to {tmp_path}/net.dnn_{name}"
            in (lines.all)
        )
    last = lines.with_text("Best epoch per criterion so far: [Validate] ce = ")[-1]
    assert f"(Epoch {best['ce']}); errs = " in last


def test_a_run_that_goes_on_knows_the_best_of_before(tmp_path):
    train(tmp_path, 6, keep_check_point_files=True)
    copies = {name: (tmp_path / f"net.dnn_{name}").read_bytes() for name in ("ce", "errs")}
    for name in ("net.dnn", "net.dnn.ckp", "net.dnn_ce", "net.dnn_errs"):
        (tmp_path / name).unlink()
    train(tmp_path, 6, keep_check_point_files=True)
    assert copies == {name: (tmp_path / f"net.dnn_{name}").read_bytes() for name in ("ce", "errs")}


def test_a_training_that_ends_early_copies_too(tmp_path):
    class Hooks:
        def listeners(self, name):
            return (lambda job, summary: "enough" if summary.epoch == 1 else "",) if name == "cntk_should_stop" else ()

    lines = Lines()
    train(tmp_path, 6, lines, hooks=Hooks())
    for name, epoch in best_epochs(lines).items():
        model = tmp_path / ("net.dnn" if epoch == 2 else f"net.dnn.{epoch}")
        assert (tmp_path / f"net.dnn_{name}").read_bytes() == model.read_bytes()


def test_an_epoch_that_was_rolled_back_is_never_the_best(tmp_path):
    lines = Lines()
    adjust = AutoAdjust(
        auto_adjust_lr="after", learn_rate_decrease_factor=0.25, use_cv_set_control_lr_if_cv_exists=False
    )
    changes = {"auto_adjust": adjust, "learning_rates_per_sample": 2.0, "momentum_per_mb": 0.5}
    train(tmp_path, 4, lines, **changes)
    assert lines.with_text("rolling back")
    for name in ("ce", "errs"):
        said = next(line for line in lines.all if line.startswith(f"Best epoch for criterion '{name}'"))
        source = Path(said.split("model ")[1].split(" copied")[0])
        assert (tmp_path / f"net.dnn_{name}").read_bytes() == source.read_bytes()


def test_without_a_validation_set_there_is_a_warning(tmp_path):
    lines = Lines()
    make_session(tmp_path, lines, max_epochs=1, save_best_model_per_criterion=True).run()
    assert "Warning: saveBestModelPerCriterion has no effect without a cvReader." in lines.all
    assert not list(tmp_path.glob("net.dnn_*"))


def test_a_model_that_somebody_has_removed_is_named(tmp_path):
    class Hooks:
        def listeners(self, name):
            return (self.remove,) if name == "cntk_epoch_begin" else ()

        def remove(self, job, epoch):
            if epoch.epoch == 5:
                for path in tmp_path.glob("net.dnn.[1-9]"):
                    path.unlink()

    lines = Lines()
    train(tmp_path, 6, lines, hooks=Hooks())
    assert lines.with_text("is not there any more: '")


def test_only_a_lower_value_is_better():
    state = ControlState().with_best({"ce": 2.0, "errs": 0.5}, 1).with_best({"ce": 2.0, "errs": 0.4}, 2)
    assert state.best == {"ce": (2.0, 1), "errs": (0.4, 2)}
    assert state.with_best({"ce": float("nan")}, 3).best == state.best


@pytest.mark.parametrize("epochs", [1, 2])
def test_the_last_epoch_may_be_the_best(tmp_path, epochs):
    lines = Lines()
    train(tmp_path, epochs, lines, learning_rates_per_sample=0.005, momentum_per_mb=0.0)
    assert best_epochs(lines)["ce"] == epochs
    assert (tmp_path / "net.dnn_ce").read_bytes() == (tmp_path / "net.dnn").read_bytes()
