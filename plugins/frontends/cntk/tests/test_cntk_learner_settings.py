"""What learners and schedules say of themselves, limits in trainers, defaults, checkpoints, and what is refused."""

from __future__ import annotations

from typing import Any

import cntk as C
import numpy as np
import pytest
from cntk.learners import IGNORE
from cntk.learners._learner import limited

X = np.array([[1.0, 2.0], [3.0, 5.0]], np.float32)


def stepped(**options: Any) -> np.ndarray:
    """Return what a step with the gradient [4, 7] (of two samples) subtracts of zeros."""
    x, w = C.input_variable(2), C.parameter(2)
    loss = C.reduce_sum(x * w)
    C.Trainer(None, loss, C.sgd([w], C.learning_rate_schedule(1, C.UnitType.sample), **options)).train_minibatch({x: X})
    return -w.value


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [4, 7]),
        ({"gradient_clipping_threshold_per_sample": 3}, [4, 6]),
        ({"gradient_clipping_threshold_per_sample": 3, "gradient_clipping_with_truncation": False},
         np.array([4, 7]) * 6 / np.sqrt(65)),
        ({"gradient_clipping_threshold_per_sample": 9, "gradient_clipping_with_truncation": False}, [4, 7]),
        ({"minibatch_size": IGNORE, "gradient_clipping_threshold_per_sample": 3}, [4, 6]),
        ({"use_mean_gradient": True}, [2, 3.5]),
    ],
)  # fmt: skip
def test_gradients_in_a_trainer_are_limited(options: dict[str, Any], expected: Any) -> None:
    np.testing.assert_allclose(stepped(**options), expected, rtol=1e-6)


def test_limits_of_a_gradient() -> None:
    gradient = np.array([3.0, -4.0])
    assert limited(gradient, np.inf, truncate=False) is gradient
    assert limited(gradient, 5.0, truncate=False) is gradient
    np.testing.assert_allclose(limited(gradient, 2.5, truncate=False), [1.5, -2])
    np.testing.assert_allclose(limited(gradient, 3.5, truncate=True), [3, -3.5])


def test_a_schedule_says_what_it_is_for() -> None:
    per_sample = C.learning_parameter_schedule_per_sample([0.5, 0.25], epoch_size=10)
    assert (per_sample.minibatch_size, per_sample.epoch_size) == (1, 10)
    assert (per_sample[0], per_sample[9], per_sample[10], per_sample[99]) == (0.5, 0.5, 0.25, 0.25)
    assert repr(per_sample) == "TrainingParameterSchedule([0.5, 0.25], of 1 samples)"
    free = C.learning_parameter_schedule(0.5)
    assert (free.minibatch_size, free.is_minibatch_size_explicitly_specified) == (IGNORE, False)
    assert repr(free) == "TrainingParameterSchedule([0.5], of any samples)"
    assert C.learning_parameter_schedule(0.5, 8).is_minibatch_size_explicitly_specified
    for again in (C.learning_parameter_schedule, C.training_parameter_schedule, C.momentum_as_time_constant_schedule):
        assert again(free) is free
    assert free.is_minibatch_size_explicitly_specified
    assert C.momentum_schedule_per_sample(0.9).minibatch_size == 1
    assert C.momentum_schedule(0.9, minibatch_size=4).minibatch_size == 4


@pytest.mark.parametrize(
    ("size", "of_mean", "expected"), [(4, False, 0.125), (4, True, 1.0), (IGNORE, False, 0.0625), (IGNORE, True, 0.5)]
)
def test_rates_are_for_the_samples_of_a_minibatch(size: int, of_mean: bool, expected: float) -> None:
    schedule = C.learning_parameter_schedule(0.5, size)
    assert schedule.rate(8, 0.5, of_mean=of_mean) == expected


def test_momenta_are_kept_over_the_samples_of_a_minibatch() -> None:
    assert C.momentum_schedule(0.25, minibatch_size=4).share(2, 0.25) == 0.5
    assert C.momentum_schedule(0.25).share(2, 0.25) == 0.25


def test_a_schedule_in_a_checkpoint() -> None:
    made = C.learning_parameter_schedule([(2, 0.5), (1, 0.25)], 8, 10)
    kept = made.to_dict()
    assert kept == {"epoch_size": 10, "minibatch_size": 8, "schedule": {"20": 0.5, "30": 0.25}}
    again = made.from_dict(kept)
    assert (again[19], again[20], again.minibatch_size, again.epoch_size) == (0.5, 0.25, 8, 10)
    del kept["minibatch_size"]
    assert made.from_dict(kept).minibatch_size == IGNORE
    later = made.begun_at(100)
    assert [later[count] for count in (100, 119, 120)] == [0.5, 0.5, 0.25]
    assert later.is_minibatch_size_explicitly_specified
    assert not C.learning_parameter_schedule([0.5, 0.25]).begun_at(3).is_minibatch_size_explicitly_specified


@pytest.mark.parametrize(("said", "found"), [(None, 8), (4, 4)])
def test_a_new_rate_is_for_the_minibatch_size_of_the_learner(said: int | None, found: int) -> None:
    w = C.parameter(2)
    learner = C.sgd([w], 0.5, minibatch_size=8)
    assert (learner.minibatch_size, learner.is_minibatch_size_explicitly_specified) == (8, True)
    assert learner.rate_of(4) == 0.5 / 8
    learner.reset_learning_rate(C.learning_parameter_schedule(1.0, said))
    assert learner.rate_of(4) == 1 / found
    free = C.sgd([w], 0.5)
    assert (free.minibatch_size, free.is_minibatch_size_explicitly_specified, free.sees_mean) == (0, False, False)
    free.reset_learning_rate(C.learning_parameter_schedule(1.0, said))
    assert free.rate_of(4) == 1 / 4
    free.minibatch_size = 2
    assert free.is_minibatch_size_explicitly_specified
    with pytest.raises(ValueError, match=r"^a learning rate is a schedule, as .*, not 3$"):
        free.reset_learning_rate(3)


def test_means_can_be_the_default_of_all() -> None:
    assert not C.default_use_mean_gradient_value()
    C.learners.set_default_use_mean_gradient_value(True)
    try:
        learner = C.sgd([C.parameter(2)], C.learning_parameter_schedule_per_sample(0.5))
        assert (learner.minibatch_size, learner.sees_mean, learner.rate_of(4)) == (IGNORE, True, 0.5)
        assert not C.sgd([C.parameter(2)], 0.5, use_mean_gradient=False).sees_mean
    finally:
        C.learners.set_default_use_mean_gradient_value(False)


def test_a_checkpoint_of_other_parameters_is_refused() -> None:
    first, second, third = C.parameter(2, name="a"), C.parameter(3, name="b"), C.parameter(2, name="c")
    made = C.momentum_sgd([first], 0.1, 0.9)
    made.update({first: np.ones(2, np.float32)}, 3, is_sweep_end=True)
    state = made.create_checkpoint()
    for parameters, message in (
        ([second, third], r"the checkpoint is of 1 parameters; the learner has 2"),
        (
            [second],
            r"the checkpoint has state of the shape \(2, 1\) for the parameter 'b'; this learner's has \(3, 1\)",
        ),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            C.momentum_sgd(parameters, 0.1, 0.9).restore_from_checkpoint(state)
    other = C.momentum_sgd([third], 0.2, 0.9)
    other.restore_from_checkpoint(state)
    assert (other.total_number_of_samples_seen, other.minibatch_count, other.sweep_count) == (3, 1, 1)
    assert other.learning_rate() == 0.1


class Told:
    """A writer of numbers."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float]] = []

    def write(self, key: str, value: float) -> None:
        self.told.append((key, value))


def test_writers_are_told_numbers_that_change() -> None:
    w, told = C.parameter(1), Told()
    rates = C.learning_parameter_schedule([0.5, 0.5, 0.25, 0.0], 4, 10)
    learner = C.momentum_sgd([w], rates, C.momentum_schedule_per_sample([0.75, 0.5], epoch_size=20))
    learner.add_progress_writers([told])
    for _ in range(4):
        learner.update({w: np.ones(1, np.float32)}, 10)
    assert told.told == [
        ("Learning rate per 4 samples", 0.5), ("Momentum per 1 samples", 0.75),
        ("Learning rate per 4 samples", 0.25), ("Momentum per 1 samples", 0.5),
        ("Learning rate per 4 samples", 0.0),
    ]  # fmt: skip


def test_a_universal_learner_assigns_what_its_function_says() -> None:
    w = C.parameter(2, init=[5, 9])
    learner = C.universal(lambda p, g: C.combine([C.assign(p[0], p[0] - 2 * g[0])]), [w])
    assert learner.update({w: np.array([1, 2], np.float32)}, 4)
    assert w.value.tolist() == [3, 5]
    with pytest.raises(ValueError, match=r"^the function of a universal learner takes two arguments: parameters and "):
        C.universal(lambda p: p, [w])
    with pytest.raises(ValueError, match=r"has no shape yet; make the learner after it has one$"):
        C.universal(lambda p, g: p, [C.parameter((C.InferredDimension, 2))])


@pytest.mark.parametrize("epsilon", [-1e-9, 0.0])
def test_epsilon_is_not_negative(epsilon: float) -> None:
    if epsilon < 0:
        with pytest.raises(ValueError, match=r"^epsilon of adam must not be negative, but is -1e-09$"):
            C.adam([C.parameter(2)], 0.1, 0.9, epsilon=epsilon)
    else:
        assert C.adam([C.parameter(2)], 0.1, 0.9, epsilon=epsilon).learning_rate() == 0.1


def test_a_schedule_is_a_number_or_a_list() -> None:
    for make in (C.learning_parameter_schedule, C.momentum_schedule, C.training_parameter_schedule):
        with pytest.raises(ValueError, match=r"^schedule is a number or a list of numbers, not <class 'str'>$"):
            make("fast")
    with pytest.raises(ValueError, match=r"^momentum is a number or a list of numbers, not <class 'str'>$"):
        C.momentum_as_time_constant_schedule("long")
