"""adjustAfterEpoch: what follows from a criterion, roll-backs, and runs that are stopped and go on."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from small import FRAMES, Lines, ListReader, make_data, make_session

from cntk_core.config import Schedule
from cntk_core.errors import TrainingError
from cntk_core.training.rates.auto_adjust import AutoAdjust, RateControl
from cntk_kit_recipes.session.rate_control import FINISHED, ControlState, judge

AFTER = {"auto_adjust_lr": "adjustAfterEpoch"}


def options(**changes) -> AutoAdjust:
    return AutoAdjust(**{**AFTER, **changes})


def state(previous: float | None, average: float, **changes) -> ControlState:
    return ControlState(rate=1.0, previous=previous, average=average, averaged=1, **changes)


EARLIER = ControlState(rate=1.0, previous=2.0, minibatch_size=9)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("none", RateControl.NONE),
        ("False", RateControl.NONE),
        ("before", RateControl.BEFORE),
        ("beforeEpoch", RateControl.BEFORE),
        ("searchBeforeEpoch", RateControl.BEFORE),
        ("After", RateControl.AFTER),
        ("afterEpoch", RateControl.AFTER),
        ("adjustAfterEpoch", RateControl.AFTER),
    ],
)
def test_the_words_of_the_original(word, kind):
    assert AutoAdjust(auto_adjust_lr=word).rate_control is kind


def test_the_first_criterion_is_only_remembered():
    verdict = judge(options(), state(None, 2.0), lambda: EARLIER)
    assert (verdict.roll_back, verdict.change, verdict.finished) == (False, "", "")
    assert (verdict.state.previous, verdict.state.averaged, verdict.state.rate) == (2.0, 0, 1.0)


@pytest.mark.parametrize(
    ("average", "change", "rate"),
    [(1.97, "reduced", 0.5), (1.75, "reduced", 0.5), (1.74, "", 1.0), (1.0, "", 1.0), (0.99, "increased", 2.0)],
)
def test_thresholds_are_shares_of_the_last_criterion(average, change, rate):
    chosen = options(
        reduce_learn_rate_if_improve_less_than=0.125,
        increase_learn_rate_if_improve_more_than=0.5,
        learn_rate_decrease_factor=0.5,
        learn_rate_increase_factor=2.0,
    )
    verdict = judge(chosen, state(2.0, average), lambda: EARLIER)
    assert (verdict.roll_back, verdict.change, verdict.state.rate) == (False, change, rate)
    assert verdict.state.previous == average


@pytest.mark.parametrize("average", [2.1, math.nan])
def test_a_worse_model_is_left_for_the_one_before(average):
    verdict = judge(options(), state(2.0, average), lambda: EARLIER)
    assert (verdict.roll_back, verdict.change) == (True, "reduced")
    assert (verdict.state.previous, verdict.state.rate, verdict.state.minibatch_size) == (2.0, 0.618, 9)


def test_without_load_best_model_it_is_kept():
    verdict = judge(options(load_best_model=False), state(2.0, 2.1), lambda: pytest.fail("nothing is loaded"))
    assert (verdict.roll_back, verdict.change, verdict.state.previous) == (False, "reduced", 2.1)


def test_continue_reduce_goes_on_reducing_and_ends_at_the_second_failure():
    chosen = options(continue_reduce=True, reduce_learn_rate_if_improve_less_than=0.1)
    first = judge(chosen, state(2.0, 1.0))
    assert (first.change, first.state.reduced) == ("", False)
    second = judge(chosen, state(1.0, 0.95))
    assert (second.change, second.state.reduced, second.finished) == ("reduced", True, "")
    third = judge(chosen, state(0.95, 0.5, reduced=True))
    assert (third.change, third.state.reduced, third.finished) == ("reduced", True, "")
    assert judge(chosen, state(0.5, 0.49, reduced=True)).finished == FINISHED


def test_a_roll_back_does_not_forget_that_the_rate_was_reduced():
    verdict = judge(options(continue_reduce=True), state(2.0, 3.0), lambda: EARLIER)
    assert verdict.state.reduced


def test_criteria_are_averaged_until_the_comparison():
    after = ControlState().with_criterion(3.0).with_criterion(1.0).with_criterion(2.0)
    assert (after.average, after.averaged) == (2.0, 3)
    assert after.compared().with_criterion(7.0).average == 7.0


def test_the_state_survives_a_file():
    full = ControlState(0.5, 1.0, 2.0, 3, True, (0.1, 0.2), 64, 0.7, 2, {"ce": (0.5, 3)})
    assert ControlState.of(full.entries()) == full
    assert ControlState.of(ControlState().entries()) == ControlState()
    assert ControlState.of({}) == ControlState()


# -- whole trainings --------------------------------------------------------------------------------------


def train(folder: Path, epochs: int, lines: Lines | None = None, **changes):
    adjust = options(**{"learn_rate_decrease_factor": 0.25, **changes.pop("adjust", {})})
    given = {"learning_rates_per_sample": 2.0, "momentum_per_mb": 0.5, "auto_adjust": adjust, **changes}
    return make_session(folder, lines, max_epochs=epochs, **given).run()


def rates(lines: Lines) -> list[str]:
    return [line.split("Sample = ")[1].split(";")[0] for line in lines.with_text("[Training]")]


def epochs_of(lines: Lines) -> list[int]:
    return [int(line.split("[")[1].split(" of")[0]) for line in lines.with_text("[Training]")]


def test_a_roll_back_repeats_the_epoch_with_a_lower_rate(tmp_path):
    lines = Lines()
    summary = train(tmp_path, 4, lines)
    assert lines.with_text("Loading (rolling back to)"), "the rate is too high"
    assert epochs_of(lines) == [1, 2, 3, 3, 4]
    assert rates(lines) == ["2", "2", "2", "0.5", "0.5"]
    at = lines.all.index(
        f"Loading (rolling back to) previous model with best training-criterion value: {tmp_path}/net.dnn.2."
    )
    assert lines.all[at + 1 : at + 3] == [
        "learnRatePerSample reduced to 0.5",
        "SGD: revoke back to and update checkpoint file for epoch 2",
    ]
    assert (summary.epochs, summary.trained) == (4, 5)
    assert "totalSamplesSeen = 172;" in lines.with_text("[Training]")[-1]


def test_after_a_roll_back_nothing_is_left_of_the_worse_epoch(tmp_path):
    """The same model as a training that had the lower rate in that epoch from the start, learner's state included."""
    train(tmp_path / "a", 3)
    rates = Schedule.of([2.0, 2.0, 0.5])
    make_session(tmp_path / "b", max_epochs=3, learning_rates_per_sample=rates, momentum_per_mb=0.5).run()
    assert (tmp_path / "a/net.dnn").read_bytes() == (tmp_path / "b/net.dnn").read_bytes()


def crash_after(folder: Path, saves: int, epochs: int, **changes) -> None:
    """Stop a training as a kill would, right after a save."""

    class Stop(BaseException):
        pass

    class Hooks:
        def listeners(self, name):
            return (self.stop,) if name == "cntk_epoch_begin" else ()

        def stop(self, **told):
            nonlocal saves
            saves -= 1
            if saves < 0:
                raise Stop

    with pytest.raises(Stop):
        train(folder, epochs, hooks=Hooks(), **changes)


CASES = {
    "default": {},
    "interval": {"adjust": {"learn_rate_adjust_interval": 2}, "learning_rates_per_sample": 6.0, "momentum_per_mb": 0.0},
    "continue": {"adjust": {"continue_reduce": True, "reduce_learn_rate_if_improve_less_than": 0.1}},
    "keep": {"adjust": {"load_best_model": False}},
    "eval": {"adjust": {"use_eval_criterion_control_lr": True, "reduce_learn_rate_if_improve_less_than": 0.05}},
}


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
@pytest.mark.sampled(5)
def test_a_run_that_was_stopped_ends_in_the_same_bytes(tmp_path, changes):
    epochs = 6
    lines = Lines()
    summary = train(tmp_path / "straight", epochs, lines, **changes)
    assert lines.with_text("reduced to"), "the case adjusts"
    for stop in (summary.trained // 2, summary.trained - 1):
        folder = tmp_path / str(stop)
        crash_after(folder, stop, epochs, **changes)
        train(folder, epochs, **changes)
        assert (folder / "net.dnn").read_bytes() == (tmp_path / "straight/net.dnn").read_bytes(), f"stop {stop}"


def test_an_interval_rolls_back_over_all_its_epochs(tmp_path):
    lines = Lines()
    train(tmp_path, 6, lines, **CASES["interval"])
    assert epochs_of(lines) == [1, 2, 3, 4, 3, 4, 5, 6]
    removed = lines.with_text("SGD: removing model and checkpoint files")
    assert removed == ["SGD: removing model and checkpoint files for epoch 3 after rollback to epoch 2"]


def test_continue_reduce_leaves_the_best_model_as_the_final_one(tmp_path):
    lines = Lines()
    adjust = {"continue_reduce": True, "reduce_learn_rate_if_improve_less_than": 0.1}
    summary = train(tmp_path, 9, lines, adjust=adjust)
    assert summary.stopped == FINISHED
    assert lines.with_text("Finished training and saved final model")
    assert (tmp_path / "net.dnn").is_file()
    assert summary.epochs < 9


def test_a_criterion_that_is_not_a_number_is_rolled_back(tmp_path):
    class Bad(ListReader):
        """Gives what is not a number when it reads the second epoch for the first time."""

        read = 0

        def minibatches(self, epoch):
            self.read += epoch.epoch == 1
            self.data = make_data(FRAMES)
            if self.read == 1 and epoch.epoch == 1:
                self.data["features"][...] = np.nan
            yield from super().minibatches(epoch)

    lines = Lines()
    low = {"learning_rates_per_sample": 0.05, "adjust": {"learn_rate_decrease_factor": 0.9}}
    summary = train(tmp_path, 3, lines, reader=Bad(), **low)
    assert summary.epochs == 3
    assert epochs_of(lines) == [1, 2, 2, 3]
    with pytest.raises(TrainingError, match="not a number"):
        train(tmp_path / "plain", 3, reader=Bad(), learning_rates_per_sample=0.1, adjust={"load_best_model": False})


def test_the_same_epoch_is_never_repeated_for_ever(tmp_path):
    lines = Lines()
    summary = train(tmp_path, 9, lines, adjust={"learn_rate_decrease_factor": 1.0})
    assert summary.stopped == "the same epoch would be repeated, because the learning rate was not reduced"
    assert f"Training ends after epoch 3: {summary.stopped}" in lines.all
    assert (tmp_path / "net.dnn").is_file()


def test_without_a_checkpoint_the_rate_must_be_given(tmp_path):
    train(tmp_path, 3)
    for name in ("net.dnn", *(path.name for path in tmp_path.glob("*.ckp"))):
        (tmp_path / name).unlink()
    with pytest.raises(TrainingError) as caught:
        train(tmp_path, 3)
    assert str(caught.value) == (
        "adjustAfterEpoch does not know the learning rate of epoch 3: "
        "there is no checkpoint, and the recipe gives none\n"
        "    Give 3 rates in learningRatesPerSample or learningRatesPerMB."
    )


def test_the_validation_set_decides_unless_told_otherwise(tmp_path):
    """A validation set that gets worse while the training set gets better."""
    data = make_data(20, seed=5)
    data["labels"] = np.roll(data["labels"], 1, axis=1)
    low = {"learning_rates_per_sample": 0.1, "momentum_per_mb": 0.0}
    lines = Lines()
    train(tmp_path / "a", 3, lines, cv_reader=ListReader(data), **low)
    assert len(lines.with_text("reduced to")) > 0
    lines = Lines()
    train(
        tmp_path / "b",
        3,
        lines,
        cv_reader=ListReader(data),
        adjust={"use_cv_set_control_lr_if_cv_exists": False},
        **low,
    )
    assert not lines.with_text("reduced to")
