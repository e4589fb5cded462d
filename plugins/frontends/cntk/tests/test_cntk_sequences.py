"""Sequences: axes that are computed, loops through clones, pieces that go on, attention; figures are the original's."""

from __future__ import annotations

from pathlib import Path

import cntk as C
import numpy as np
import pytest
from cntk.layers.models import AttentionModel


def trained(x: object, steps: list[object], z: object, y: object, weight: object) -> list[tuple[float, int]]:
    loss = C.squared_error(z, y)
    rate = C.learning_rate_schedule(0.05, C.UnitType.sample)
    momentum = C.momentum_as_time_constant_schedule(20)
    trainer = C.Trainer(z, (loss, C.classification_error(z, y)), C.momentum_sgd([weight], rate, momentum))
    found = []
    for data in steps:
        trainer.train_minibatch({x: data})
        found.append((trainer.previous_minibatch_loss_average, trainer.previous_minibatch_sample_count))
    assert trainer.test_minibatch({x: steps[-1]}) == pytest.approx(0.848216, rel=1e-5)
    return found


def test_samples_of_an_axis_that_is_computed_are_counted() -> None:
    x = C.sequence.input_variable(3, sequence_axis=C.Axis("labels"))
    y = C.sequence.slice(x, 1, 0)
    weight = C.parameter((3, 3), init=np.arange(9, dtype=np.float32).reshape(3, 3) / 10)
    z = C.times(C.sequence.past_value(y), weight)
    rng = np.random.RandomState(3)
    steps = [[rng.randn(n, 3).astype(np.float32) for n in (4, 2 + step, 6)] for step in range(4)]
    found = trained(x, steps, z, y, weight)
    assert [count for _, count in found] == [9, 10, 11, 12]
    assert [loss for loss, _ in found] == pytest.approx([3.648918, 3.248989, 2.54414, 2.314159], rel=1e-5)


def test_a_clone_is_given_what_it_computes_itself() -> None:
    x = C.sequence.input_variable(2, name="x")
    hook = C.alias(x, name="hook")
    weight = C.parameter((2, 2), init=np.array([[1, 2], [3, -1]], np.float32))
    z = C.plus(C.times(C.sequence.past_value(hook), weight), x)
    greedy = z.clone(C.CloneMethod.share, {hook.output: C.hardmax(z).output})
    (argument,) = greedy.arguments
    assert argument.uid != x.uid
    found = greedy.eval({argument: np.array([[[1, 0], [2, 1], [0, 3], [1, 1]]], np.float32)})[0]
    assert found.tolist() == [[1, 0], [3, 3], [1, 5], [4, 0]]
    own = z.clone("share", {hook.output: C.negate(x).output})
    assert [each.uid == x.uid for each in own.arguments] == [False]
    other = C.sequence.input_variable(2, name="other")
    free = z.clone("share", {hook.output: C.negate(other).output})
    assert {each.name: each.uid == other.uid for each in free.arguments} == {"other": True, "x": False}


def recurrence(axis: object) -> tuple[object, object, object, object]:
    x, y = (C.sequence.input_variable(3, sequence_axis=axis) for _ in range(2))
    weights = [C.parameter((3, 3), init=np.arange(9, dtype=np.float32).reshape(3, 3) / 10)]
    weights.append(C.parameter((3, 3), init=np.arange(9, dtype=np.float32)[::-1].reshape(3, 3) / 20))
    before = C.placeholder(3)
    z = C.tanh(C.times(x, weights[0]) + C.times(C.sequence.past_value(before), weights[1]))
    z.replace_placeholders({before: z.output})
    return x, y, z, weights


def test_sequences_go_on_from_minibatch_to_minibatch() -> None:
    x, y, z, weights = recurrence(C.Axis("pieces"))
    loss = C.squared_error(z, y)
    trainer = C.Trainer(z, (loss, loss), C.sgd(weights, C.learning_rate_schedule(0.1, C.UnitType.sample)))
    rng, starts, found = np.random.RandomState(1), [True, True], []
    for step in range(5):
        data, wanted = ([rng.randn(3, 3).astype(np.float32) for _ in range(2)] for _ in range(2))
        trainer.train_minibatch(({x: data, y: wanted}, starts))
        found.append(trainer.previous_minibatch_loss_average)
        starts = [False, False] if step != 2 else [True, False]
    assert found == pytest.approx([3.052664, 2.056405, 1.978745, 3.886528, 4.147136], rel=1e-5)
    piece = [rng.randn(2, 3).astype(np.float32)]
    first, then, again = (z.eval((piece, [begins]))[0] for begins in (True, False, True))
    assert then[1] == pytest.approx([0.41818663, 0.2651869, 0.03691432], rel=1e-4)
    assert first[1] == pytest.approx([0.3769899, 0.3763766, 0.04325428], rel=1e-4)
    assert again.tolist() == first.tolist()


def test_what_cannot_go_on() -> None:
    x, y, z, weights = recurrence(C.Axis("refused"))
    piece = [np.zeros((2, 3), np.float32)]
    with pytest.raises(ValueError, match="no evaluation came before that they could go on from"):
        z.eval((piece, [False]))
    with pytest.raises(ValueError, match="all begin, or all go on"):
        z.eval((piece * 2, [True, False]))
    trainer = C.Trainer(z, C.squared_error(z, y), C.sgd(weights, 0.1))
    with pytest.raises(ValueError, match="there are 2 starts of sequences for the 1 sequences"):
        trainer.train_minibatch(({x: piece, y: piece}, [True, True]))
    with pytest.raises(ValueError, match="have other lengths than those of other inputs"):
        trainer.train_minibatch(({x: piece, y: [np.zeros((3, 3), np.float32)]}, [True]))
    with pytest.raises(ValueError, match="all sequences come with their starts, or none"):
        trainer.train_minibatch({x: C.Value.create(x, piece, [True]), y: piece})


@pytest.mark.parametrize(
    ("settings", "size", "losses"),
    [
        ({"randomize": False, "max_sweeps": 1}, 8, [167.0312, 283.3203, 421.2363, 828.1797, 900.1748, 1073.812]),
        ({"max_sweeps": 1}, 8, [1380.062, 946.9043, 337.4922, 1175.445, 932.3193, 1072.297]),
        ({"max_samples": 30}, 13, [953.6667, 867.8424, 669.3529]),
    ],
)
def test_sequences_are_cut_as_in_the_original(
    tmp_path: Path, settings: dict[str, object], size: int, losses: list[float]
) -> None:
    lines = [f"{key} |x {100 * key + i} |y {key}\n" for key in range(12) for i in range(3 + (5 * key) % 7)]
    (tmp_path / "cut.ctf").write_text("".join(lines))
    streams = C.io.StreamDefs(x=C.io.StreamDef(field="x", shape=1), y=C.io.StreamDef(field="y", shape=1))

    def source() -> object:
        return C.io.MinibatchSource(
            C.io.CTFDeserializer(str(tmp_path / "cut.ctf"), streams), truncation_length=4, **settings
        )

    reader, x, y = source(), C.sequence.input_variable(1), C.sequence.input_variable(1)
    weight, before = C.parameter((), init=0.5), C.placeholder(1)
    z = weight * C.sequence.past_value(before) + x
    z.replace_placeholders({before: z.output})
    rate = C.learning_rate_schedule(1e-30, C.UnitType.sample)
    trainer = C.Trainer(z, (C.reduce_sum(z), C.squared_error(z, y)), C.sgd([weight], rate))
    found, positions = [], []
    while minibatch := reader.next_minibatch(size, {x: reader.streams.x, y: reader.streams.y}):
        trainer.train_minibatch(minibatch)
        found.append(trainer.previous_minibatch_loss_average)
        positions.append(reader.current_position)
    assert found[: len(losses)] == pytest.approx(losses, rel=1e-6)
    late = source()
    late.next_minibatch(size)
    late.current_position = positions[0]
    again = late.next_minibatch(size)[late.streams.x]
    assert again.num_samples == size - size % 4
    assert not again.is_sparse
    assert sum(len(each) for each in again.as_sequences()) == again.num_samples


@pytest.mark.parametrize(
    ("span", "inputs", "expected"),
    [
        ({}, 22, [0.09007, -0.22076, 0.06217]),
        ({"attention_span": 4, "attention_axis": -3}, 46, [0.14146, -0.16124, 0.20047]),
        ({"attention_span": 4, "attention_axis": -3, "go_backwards": True}, 46, [0.22481, -0.17406, -0.11469]),
    ],
)
def test_attention_is_that_of_the_original(span: dict[str, object], inputs: int, expected: list[float]) -> None:
    encoder = C.sequence.input_variable(3, sequence_axis=C.Axis("encoder"))
    decoder = C.sequence.input_variable(2, sequence_axis=C.Axis("decoder"))
    model = AttentionModel(5, name="attention_model", **span)
    assert len(model.inputs) == inputs
    attended = model(encoder, decoder)
    rng = np.random.RandomState(1)
    for each in attended.parameters:
        each.value = np.asarray(rng.rand(*each.shape), np.float32)
    heard = [rng.randn(3, 3).astype(np.float32), rng.randn(6, 3).astype(np.float32)]
    said = [rng.randn(2, 2).astype(np.float32), rng.randn(1, 2).astype(np.float32)]
    found = attended.eval({encoder: heard, decoder: said})
    assert found[1].reshape(-1) == pytest.approx(expected, abs=2e-5)
    assert attended.attention_model.attention_weights.shape[0] == (4 if span else C.FreeDimension)


def test_a_span_of_attention_has_an_axis() -> None:
    with pytest.raises(ValueError, match="attention_axis is missing"):
        AttentionModel(5, attention_span=4)
    with pytest.raises(ValueError, match="attention_span is missing"):
        AttentionModel(5, attention_axis=-3)
    with pytest.raises(ValueError, match="a positive number, not 0"):
        AttentionModel(5, attention_span=0, attention_axis=-3)


def test_parameters_in_loops_are_inferred_of_what_is_known_first() -> None:
    """Attention over a window adds axes to a state after parameters were inferred without; figures are 2.7's."""
    C.cntk_py.set_fixed_random_seed(1)
    encoded = C.sequence.input_variable(2, sequence_axis=C.Axis("e"))
    cell, out, attend = C.layers.LSTM(3), C.layers.Dense(2, name="out"), AttentionModel(4, 2, -3)

    @C.Function
    def model(e: object, x: object) -> object:
        step = C.Function(lambda h, c, x: cell(h, c, C.splice(x, attend(e, h))))
        return out(C.layers.Recurrence(step)(x))

    try:
        x = C.sequence.input_variable(2)
        z = model(encoded, x)
        assert (z.shape, z.out.W.shape) == ((1, 1, 2), (3, 2))
        found = z.eval({encoded: [np.ones((3, 2), np.float32)], x: [np.ones((2, 2), np.float32)]})[0]
        np.testing.assert_allclose(found.ravel(), [0.2383563, 0.3341905, 0.3435035, 0.4584678], rtol=1e-6)
        states = [each for each in C.logging.graph.depth_first_search(z, lambda one: True, -1) if "Past" in each.uid]
        assert [each.shape for each in states if hasattr(each, "root_function")][:2] == [(1, 1, 3)] * 2
    finally:
        C.cntk_py.reset_random_seed(0)
