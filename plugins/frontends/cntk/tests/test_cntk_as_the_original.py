"""First values, order of data and losses beside the original 2.7, whose figures are in data/training.json."""

from __future__ import annotations

import json
from pathlib import Path

import cntk as C
import numpy as np
import pytest

RECORDED = json.loads(Path(__file__).with_name("data").joinpath("training.json").read_text())

LEARNERS = {
    "sgd": lambda p: C.sgd(p, C.learning_rate_schedule(0.05, C.UnitType.minibatch)),
    "mom": lambda p: C.momentum_sgd(
        p, C.learning_rate_schedule(0.002, C.UnitType.sample), C.momentum_as_time_constant_schedule(300)
    ),
    "adam": lambda p: C.adam(p, 0.01, 0.9, minibatch_size=C.learners.IGNORE),
    "fs": lambda p: C.fsadagrad(
        p, C.learning_rate_schedule(0.005, C.UnitType.sample), C.momentum_as_time_constant_schedule(300)
    ),
}


def averages(trainer):
    return [trainer.previous_minibatch_loss_average, trainer.previous_minibatch_evaluation_average]


def test_a_perceptron_with_four_learners_in_turn():
    random = np.random.RandomState(0)
    data = random.randn(2000, 10).astype(np.float32)
    classes = np.eye(4, dtype=np.float32)[np.argmax(data.dot(random.randn(10, 4)), axis=1)]
    x, y = C.input_variable(10), C.input_variable(4)
    w1, b1 = C.parameter((10, 16), init=C.glorot_uniform(seed=1)), C.parameter(16)
    w2, b2 = C.parameter((16, 4), init=C.glorot_uniform(seed=2)), C.parameter(4)
    z = C.times(C.tanh(C.times(x, w1) + b1), w2) + b2
    loss, metric = C.cross_entropy_with_softmax(z, y), C.classification_error(z, y)
    first = [*w1.value.ravel()[:6], *w2.value.ravel()[:6]]
    np.testing.assert_allclose(first, RECORDED["mlp.first"], rtol=1e-5, atol=1e-6)
    for name, make in LEARNERS.items():
        trainer = C.Trainer(z, (loss, metric), [make(z.parameters)])
        found = []
        for begin in range(0, 2000, 40):
            trainer.train_minibatch({x: data[begin : begin + 40], y: classes[begin : begin + 40]})
            found.append(averages(trainer))
        np.testing.assert_allclose(found, RECORDED[f"mlp.{name}"], rtol=1e-5, err_msg=name)


def test_a_convnet():
    random = np.random.RandomState(0)
    images = random.randn(1000, 1, 12, 12).astype(np.float32)
    classes = np.eye(3, dtype=np.float32)[random.randint(0, 3, 1000)]
    images[np.arange(1000), 0, 3, 3] += 3 * classes.argmax(1)
    x, y = C.input_variable((1, 12, 12)), C.input_variable(3)
    w1 = C.parameter((6, 1, 3, 3), init=C.glorot_uniform(output_rank=-1, filter_rank=2, seed=5))
    h = C.relu(C.convolution(w1, x, auto_padding=[False, True, True]) + C.parameter((6, 1, 1)))
    h = C.pooling(h, C.MAX_POOLING, (2, 2), strides=(2, 2))
    w2 = C.parameter((8, 6, 3, 3), init=C.he_normal(output_rank=-1, filter_rank=2, seed=7))
    h = C.relu(C.convolution(w2, h, auto_padding=[False, True, True]) + C.parameter((8, 1, 1)))
    h = C.pooling(h, C.AVG_POOLING, (2, 2), strides=(2, 2))
    w3 = C.parameter((8, 3, 3, 3), init=C.glorot_normal(seed=9))
    z = C.times(h, w3, output_rank=1) + C.parameter(3)
    first = [value for weights in (w1, w2, w3) for value in weights.value.ravel()[:6]]
    np.testing.assert_allclose(first, RECORDED["conv.first"], rtol=1e-5, atol=1e-6)
    rates = C.learning_parameter_schedule(0.02, minibatch_size=20)
    learner = C.momentum_sgd(z.parameters, rates, C.momentum_schedule(0.9))
    trainer = C.Trainer(z, (C.cross_entropy_with_softmax(z, y), C.classification_error(z, y)), [learner])
    found = []
    for begin in range(0, 1000, 20):
        trainer.train_minibatch({x: images[begin : begin + 20], y: classes[begin : begin + 20]})
        found.append(averages(trainer))
    np.testing.assert_allclose(found, RECORDED["conv.loss"], rtol=1e-5)
    tested = trainer.test_minibatch({x: images[:100], y: classes[:100]})
    assert tested == pytest.approx(RECORDED["conv.test"][0])


def test_an_lstm_on_a_text_file_in_random_order(tmp_path):
    random = np.random.RandomState(0)
    lines = []
    for number in range(300):
        words = random.randint(0, 12, random.randint(1, 9))
        for place, word in enumerate(words):
            before = words[place - 1] if place else 0
            lines.append(f"{number} |w {word}:1 |t {(word + before) % 4}:1\n")
    file = tmp_path / "sequences.ctf"
    file.write_text("".join(lines))
    streams = C.io.StreamDefs(
        w=C.io.StreamDef(field="w", shape=12, is_sparse=True), t=C.io.StreamDef(field="t", shape=4, is_sparse=True)
    )
    source = C.io.MinibatchSource(C.io.CTFDeserializer(str(file), streams))
    x, y = C.sequence.input_variable(12, is_sparse=True), C.sequence.input_variable(4, is_sparse=True)
    layers = C.layers.Sequential(
        [
            C.layers.Embedding(6, init=C.glorot_uniform(seed=3)),
            C.layers.Recurrence(C.layers.LSTM(10, init=C.glorot_uniform(seed=11))),
            C.layers.Dense(4, init=C.glorot_uniform(seed=13)),
        ]
    )
    z = layers(x)
    rates = C.learning_parameter_schedule(0.02, minibatch_size=1)
    learner = C.momentum_sgd(z.parameters, rates, C.momentum_as_time_constant_schedule(200))
    trainer = C.Trainer(z, (C.cross_entropy_with_softmax(z, y), C.classification_error(z, y)), [learner])
    found, counts = [], []
    for _ in range(50):
        data = source.next_minibatch(40, {x: source.streams.w, y: source.streams.t})
        trainer.train_minibatch(data)
        found.append(averages(trainer))
        counts.append([trainer.previous_minibatch_sample_count, data[x].num_sequences])
    assert counts == RECORDED["lstm.counts"]
    np.testing.assert_allclose(found, RECORDED["lstm.loss"], rtol=1e-5)
