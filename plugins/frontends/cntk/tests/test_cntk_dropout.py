"""Dropout leaves out what the original 2.7 leaves out for the same seeds; its figures are recorded here."""

from __future__ import annotations

import cntk as C
import numpy as np
import pytest

ROWS = [
    "1101001101111111111010000011 11",
    "1001111001011101101101 11001000",
]


def masks(dropout: object, argument: object, data: object, count: int) -> list[object]:
    found = []
    for _ in range(count):
        state, values = dropout.forward({argument: data}, [dropout.output], [dropout.output])
        found.append(values[dropout.output])
        assert state is not None
    return found


def test_samples_go_on_from_minibatch_to_minibatch() -> None:
    x = C.input_variable(10, needs_gradient=True)
    dropout = C.dropout(x, 0.3, seed=7)
    first, second = masks(dropout, x, np.ones((3, 10), np.float32), 2)
    for mask, row in zip((first, second), ROWS, strict=True):
        expected = np.array([int(each) for each in row.replace(" ", "")], np.float32) / np.float32(0.7)
        np.testing.assert_allclose(mask.ravel(), expected, rtol=1e-6)
    np.testing.assert_array_equal(dropout.eval({x: np.ones((1, 10), np.float32)}), 1)  # nothing is left out
    assert dropout.root_function.attributes["rngOffset"] == 60


def test_short_sequences_lie_one_behind_the_other() -> None:
    s = C.sequence.input_variable(2, needs_gradient=True)
    data = [np.ones((length, 2), np.float32) for length in (2, 4, 1)]
    found = masks(C.dropout(s, 0.5, seed=3), s, data, 2)
    assert [[each.ravel().astype(int).tolist() for each in several] for several in found] == [
        [[2, 0, 2, 0], [2, 0, 2, 0, 0, 2, 0, 0], [2, 0]],
        [[0, 2, 0, 0], [2, 0, 0, 0, 0, 0, 0, 2], [2, 0]],
    ]


def test_training_with_dropout_gives_the_losses_of_the_original() -> None:
    x, y = C.input_variable(10), C.input_variable(2)
    hidden = C.layers.Dense(8, activation=C.relu, init=C.glorot_uniform(seed=2))(x)
    z = C.layers.Dense(2, init=C.glorot_uniform(seed=3))(C.dropout(hidden, 0.4, seed=11))
    loss = C.cross_entropy_with_softmax(z, y)
    trainer = C.Trainer(z, (loss, loss), C.sgd(z.parameters, 0.1))
    random, found = np.random.RandomState(0), []
    classes = np.eye(2, dtype=np.float32)[[0, 1, 0, 1]]
    for _ in range(6):
        trainer.train_minibatch({x: random.randn(4, 10).astype(np.float32), y: classes})
        found.append(trainer.previous_minibatch_loss_average)
    assert found == pytest.approx([0.702467, 1.882869, 0.669607, 0.789597, 0.468556, 0.552249], abs=1e-6)
    tested = trainer.test_minibatch({x: np.ones((4, 10), np.float32), y: classes})
    assert tested == pytest.approx(0.84008712, rel=1e-6)


def test_dropout_in_a_loop_and_in_files(tmp_path) -> None:
    s = C.sequence.input_variable(3)
    step = C.Function(lambda h, x: C.dropout(C.tanh(h + x), 0.5, seed=1))
    loop = C.layers.Recurrence(step)(s)
    (found,) = loop.eval([np.ones((4, 3), np.float32)])
    np.testing.assert_allclose(found[0], np.tanh(1), rtol=1e-6)
    loss = C.reduce_sum(C.times(loop, C.parameter((3, 1), init=1.0)), axis=0)
    C.Trainer(None, loss, C.sgd(loss.parameters, 0.1)).train_minibatch({s: [np.ones((4, 3), np.float32)]})
    x = C.input_variable(4, needs_gradient=True)
    dropout = C.dropout(x, 0.5, seed=9)
    ones = np.ones((2, 4), np.float32)
    masks(dropout, x, ones, 1)
    dropout.save(tmp_path / "d.model")
    again = C.load_model(tmp_path / "d.model")
    (expected,) = masks(dropout, x, ones, 1)
    (there,) = masks(again, again.arguments[0], ones, 1)
    np.testing.assert_array_equal(there, expected)


def test_without_a_seed_the_engine_draws() -> None:
    x = C.input_variable(1000, needs_gradient=True)
    plain, fixed = C.dropout(x, 0.5), C.dropout(x, 0.5, seed=5)
    for function, is_there in ((plain, False), (fixed, True)):
        (mask,) = masks(function, x, np.ones((1, 1000), np.float32), 1)
        assert set(np.unique(mask)) == {0.0, 2.0}
        assert (function.root_function.attributes["rngOffset"] > 0) is is_there
    C.cntk_py.set_fixed_random_seed(5)
    (again,) = masks(C.dropout(x, 0.5), x, np.ones((1, 1000), np.float32), 1)
    np.testing.assert_array_equal(again, mask)
