"""What functions, values and learners keep, and what is given back of it."""

from __future__ import annotations

import cntk as C
import numpy as np
import pytest


def test_attributes_of_a_program_take_the_place_of_those_before() -> None:
    z = C.input_variable(2) + 1
    z.custom_attributes = {"a": 1, "b": [2]}
    assert z.custom_attributes == {"a": 1, "b": [2]}
    z.custom_attributes = {"c": "d"}
    assert z.custom_attributes == {"c": "d"}
    z.custom_attributes["e"] = 0.5
    assert z.custom_attributes == {"c": "d", "e": 0.5}


def test_attributes_of_a_program_are_saved(tmp_path) -> None:
    z = C.input_variable(2) + 1
    z.custom_attributes["a"] = [1, "q", 2.5, {"c": True}]
    z.save(str(tmp_path / "m"))
    assert C.load_model(str(tmp_path / "m")).custom_attributes == {"a": [1, "q", 2.5, {"c": True}]}


@pytest.mark.parametrize(
    ("batch", "shape"),
    [
        ([np.ones((2, 3)), np.ones((2, 3))], (2, 2, 3)),
        ((np.ones((2, 3)), np.ones((2, 3))), (2, 2, 3)),
        ([np.ones((2, 3)), np.ones((1, 3))], (2, 2, 3)),
        ([np.ones((1, 3)), np.ones((4, 3)), np.ones((2, 3))], (3, 4, 3)),
        (np.ones((2, 3)), (2, 3)),
        ([C.NDArrayView.from_dense(np.ones((2, 3), np.float32))], (1, 2, 3)),
    ],
)
def test_shapes_of_values(batch: object, shape: tuple[int, ...]) -> None:
    assert C.Value(batch).shape == shape


def test_values_of_one_length_are_an_array_and_of_others_sequences() -> None:
    same = C.Value([np.ones((2, 3), np.float32)] * 2)
    other = C.Value([np.ones((2, 3), np.float32), np.zeros((1, 3), np.float32)])
    assert same.mask is None
    assert other.mask.tolist() == [[2, 1], [2, 0]]
    assert [each.shape for each in other.as_sequences()] == [(2, 3), (1, 3)]


def test_a_parameter_that_its_learner_leaves_stays() -> None:
    class Half(C.learners.UserLearner):
        """Changes one of its two parameters."""

        def update(self, gradient_values, training_sample_count, sweep_end):
            for parameter, gradient in gradient_values.items():
                if parameter.name == "w":
                    parameter.value = parameter.value - 0.5 * np.asarray(gradient) / training_sample_count
            return True

    x = C.input_variable(2)
    w, v = C.parameter(2, init=1, name="w"), C.parameter(2, init=1, name="v")
    loss = C.reduce_sum(x * w + v)
    trainer = C.Trainer(None, loss, [Half([w, v], C.learning_parameter_schedule(0.1))])
    for expected in ([0.0, -1.0], [-1.0, -3.0]):
        assert trainer.train_minibatch({x: np.array([[2, 4], [2, 4]], np.float32)})
        assert w.value.tolist() == expected
        assert v.value.tolist() == [1.0, 1.0]


def test_a_trainer_that_tests_nothing_says_zero() -> None:
    x = C.input_variable(2)
    w = C.parameter(2)
    trainer = C.Trainer(None, (C.reduce_sum(x * w), C.reduce_sum(x)), C.sgd([w], 0.1))
    assert trainer.test_minibatch({}) == 0.0
    assert trainer.test_minibatch({x: np.ones((2, 2), np.float32)}) == 2.0


def test_a_trainer_counts_what_it_has_seen_since_its_last_summary() -> None:
    class Told(C.logging.ProgressWriter):
        """Keeps what it is told."""

        def __init__(self) -> None:
            super().__init__(1, 0, 1, 0, None, 1)
            self.summaries: list[tuple[object, ...]] = []

        def on_write_training_update(self, samples, updates, aggregate_loss, aggregate_metric) -> None:
            """Take no note."""

        def on_write_test_update(self, samples, updates, aggregate_metric) -> None:
            """Take no note."""

        def on_write_training_summary(self, samples, updates, summaries, aggregate_loss, aggregate_metric, elapsed):
            self.summaries.append((samples, updates, summaries, round(aggregate_loss, 4), round(aggregate_metric, 4)))
            assert 0 <= elapsed < 600_000

        def on_write_test_summary(self, samples, updates, summaries, aggregate_metric, elapsed) -> None:
            self.summaries.append((samples, updates, summaries, round(aggregate_metric, 4)))

    x = C.input_variable(2)
    w = C.parameter(2, init=1)
    told = Told()
    trainer = C.Trainer(None, (C.reduce_sum(x * w), C.reduce_sum(x)), C.sgd([w], 0.0625, minibatch_size=1), [told])
    for count in (2, 1):
        for _ in range(count):
            trainer.train_minibatch({x: np.ones((2, 2), np.float32)})
        trainer.summarize_training_progress()
        for _ in range(count):
            trainer.test_minibatch({x: np.ones((3, 2), np.float32)})
        trainer.summarize_test_progress()
    assert told.summaries == [(4, 2, 1, 7.5, 8.0), (6, 2, 1, 12.0), (2, 1, 2, 3.0, 4.0), (3, 1, 2, 6.0)]
