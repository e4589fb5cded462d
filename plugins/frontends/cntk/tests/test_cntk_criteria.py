"""Losses, metrics, operators of images and sequences, random numbers: their values beside NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cntk as C
import numpy as np
import pytest

RNG = np.random.default_rng(11)
SCORES = np.array([[1.0, 3.0, 2.0], [0.5, -1.0, 0.25]])
LABELS = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
CHANCES = np.array([[0.25, 0.5, 0.75], [0.125, 0.5, 0.25]])
STEPS = [RNG.normal(size=(length, 2)).astype(np.float32) for length in (4, 1, 3)]


def value(made: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """Return what a function that is made of inputs gives for arrays, in double precision."""
    inputs = [C.input_variable(each.shape[1:], dtype=np.float64) for each in arrays]
    return np.asarray(made(*inputs).eval(dict(zip(inputs, arrays, strict=True))))


def _softmax(z: np.ndarray, axis: int = -1) -> np.ndarray:
    raised = np.exp(z)
    return raised / raised.sum(axis, keepdims=True)


def _cross_entropy(p: np.ndarray, y: np.ndarray, w: Any = 1) -> np.ndarray:
    return -w * (y * np.log(p) + (1 - y) * np.log(1 - p))


CRITERIA: dict[str, tuple[Callable[..., Any], Callable[..., Any], np.ndarray, np.ndarray]] = {
    "cross_entropy_with_softmax": (
        C.cross_entropy_with_softmax, lambda z, y: -(y * np.log(_softmax(z))).sum(1), SCORES, LABELS
    ),
    "squared_error": (C.squared_error, lambda a, b: ((a - b) ** 2).sum(1), SCORES, LABELS),
    "cosine_distance": (
        C.cosine_distance, lambda a, b: (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1)), SCORES, CHANCES
    ),
    "classification_error": (C.classification_error, lambda z, y: np.array([0, 1]), SCORES, LABELS),
    "classification_error of two": (
        lambda z, y: C.classification_error(z, y, topN=2), lambda z, y: np.array([0]),
        SCORES[:1], np.array([[0.0, 0.0, 1.0]]),
    ),
    "binary_cross_entropy": (C.binary_cross_entropy, _cross_entropy, CHANCES[:1], LABELS[:1]),
    "weighted_binary_cross_entropy": (
        lambda p, y: C.weighted_binary_cross_entropy(p, y, C.reduce_sum(p)),
        lambda p, y: _cross_entropy(p, y, p.sum(1, keepdims=True) / p.sum(1).mean()).sum(), CHANCES, LABELS,
    ),
    "fmeasure": (
        C.losses.fmeasure, lambda p, y: 1 - 2 * (p * y).sum() / (p.sum() + y.sum()), CHANCES, LABELS
    ),
    "fmeasure of a weight": (
        lambda p, y: C.losses.fmeasure(p, y, beta=2),
        lambda p, y: 1 - 5 * (p * y).sum() / (p.sum() + 4 * y.sum()), CHANCES, LABELS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CRITERIA)
def test_criteria(name: str) -> None:
    made, expected, left, right = CRITERIA[name]
    np.testing.assert_allclose(value(made, left, right).ravel(), np.ravel(expected(left, right)), rtol=1e-5)


def test_a_criterion_with_an_element_for_each_output_is_summed_in_training() -> None:
    x, y, w = C.input_variable(3), C.input_variable(3), C.parameter(3, init=0.5)
    loss = C.binary_cross_entropy(x * w, y)
    assert loss.shape == (3,)
    trainer = C.Trainer(x * w, (loss, loss), [C.sgd([w], 0.1)])
    trainer.train_minibatch({x: CHANCES, y: LABELS})
    expected = _cross_entropy(CHANCES / 2, LABELS)
    assert trainer.previous_minibatch_loss_average == pytest.approx(expected.sum() / 2, rel=1e-5)
    slope = CHANCES * ((1 - LABELS) / (1 - CHANCES / 2) - LABELS / (CHANCES / 2))
    np.testing.assert_allclose(w.value, 0.5 - 0.1 * slope.sum(0) / 2, rtol=1e-4)


def test_the_weight_of_a_sample_is_one_number() -> None:
    x, y = C.input_variable(3), C.input_variable(3)
    with pytest.raises(ValueError, match=r"^weighted_binary_cross_entropy: the weight of a sample is one number, not "):
        C.weighted_binary_cross_entropy(x, y, C.input_variable(3))


def test_criteria_along_another_axis() -> None:
    z, y = RNG.normal(size=(2, 3, 4)), np.eye(3)[RNG.integers(0, 3, size=(2, 4))].swapaxes(1, 2).copy()
    found = value(lambda a, b: C.cross_entropy_with_softmax(a, b, axis=0), z, y)
    expected = -(y * np.log(_softmax(z, 1))).sum(1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    found = value(lambda a, b: C.classification_error(a, b, axis=0), z, y)
    np.testing.assert_allclose(np.ravel(found), (z.argmax(1) != y.argmax(1)).mean(1), rtol=1e-6)


def test_cosines_with_other_samples_of_the_minibatch() -> None:
    a, b = (RNG.normal(size=(4, 3)) for _ in range(2))
    found = value(lambda x, y: C.cosine_distance_with_negative_samples(x, y, 1, 2), a, b)
    cosines = (a @ b.T) / np.linalg.norm(a, axis=1)[:, None] / np.linalg.norm(b, axis=1)
    expected = [[cosines[row, (row + other) % 4] for other in range(3)] for row in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    for shift, count in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match=r"^shift and num_negative_samples have to be positive$"):
            C.cosine_distance_with_negative_samples(C.input_variable(3), C.input_variable(3), shift, count)


def test_edit_distances() -> None:
    words = [np.eye(4, dtype=np.float32)[each] for each in ([1, 1, 2, 0], [1, 3, 2])]
    heard = [np.eye(4, dtype=np.float32)[each] for each in ([1, 2, 2, 0], [1, 2, 2])]
    x, y = C.sequence.input_variable(4), C.sequence.input_variable(4)
    data = {x: words, y: heard}
    assert C.edit_distance_error(x, y).eval(data) == 2
    assert C.edit_distance_error(x, y, subPen=3, delPen=1, insPen=0.5).eval(data) == pytest.approx(4)
    assert C.edit_distance_error(x, y, squashInputs=True, tokensToIgnore=[3]).eval(data) == 0
    one, other = C.input_variable(4), C.input_variable(4)
    rows = np.eye(4, dtype=np.float32)
    assert C.edit_distance_error(one, other).eval({one: rows[[0, 1, 2]], other: rows[[0, 2, 1]]}) == 2


def test_rankings() -> None:
    x, gain, group = (C.input_variable(1) for _ in range(3))
    data = {gain: [[1], [2], [0], [1]], group: [[0], [0], [0], [1]]}
    best, other = {x: [[2], [3], [1], [5]], **data}, {x: [[3], [2], [1], [5]], **data}
    assert C.ndcg_at_1(x, gain, group).eval(best) == 600
    assert C.ndcg_at_1(x, gain, group).eval(other) == 400
    assert C.lambda_rank(x, gain, group).eval(best) == pytest.approx(-32.63426, rel=1e-5)
    assert C.lambda_rank(x, gain, group).eval(other) == 0


def test_noise_contrastive_estimation() -> None:
    classes, width, count = 5, 3, 8
    weights, biases = (
        RNG.normal(size=(classes, width)).astype(np.float32),
        RNG.normal(size=(classes, 1)).astype(np.float32),
    )
    x = RNG.normal(size=(1, width)).astype(np.float32)
    label = np.eye(classes, dtype=np.float32)[[2]]
    noise = np.zeros(classes, np.float32)
    noise[4] = 2.0  # one class alone is drawn
    noise[2] = 1e-9
    inputs, labels = C.input_variable(width), C.input_variable(classes)
    made = C.nce_loss(
        C.constant(weights), C.constant(biases), inputs, labels, C.constant(noise), num_samples=count, seed=1
    )
    total = noise.sum()

    def logit(number: int) -> float:
        return float(weights[number] @ x[0] + biases[number, 0] - np.log(count * noise[number] / total))

    expected = np.log1p(np.exp(-logit(2))) + count * np.log1p(np.exp(logit(4)))
    assert np.ravel(made.eval({inputs: x, labels: label})) == pytest.approx([expected], rel=1e-4)


@pytest.mark.parametrize(("labels", "groups", "per"), [(6, 2, 3), (7, None, 3)])
def test_a_softmax_in_two_steps(labels: int, groups: int | None, per: int) -> None:
    x, number = C.input_variable(4), C.input_variable(1)
    data = RNG.normal(size=(1, 4)).astype(np.float32)
    probability, shares, everything = C.hierarchical_softmax_layer(x, number, labels, groups)
    assert len(everything) == (groups or 3)
    own = {each.name: each for each in probability.parameters}
    for each in own.values():
        each.value = RNG.normal(size=each.shape).astype(np.float32)
    outer = _softmax(data @ own["hsoftmax_w1"].value + own["hsoftmax_b1"].value)
    np.testing.assert_allclose(shares.eval({x: data}), outer, rtol=1e-5)
    inner = _softmax(np.einsum("bw,gwc->bgc", data, own["hsoftmax_w2s"].value) + own["hsoftmax_b2s"].value)
    whole = (inner * outer[..., None]).ravel()
    assert whole.shape == ((groups or 3) * per,)
    for place in range(labels):
        found = probability.eval({x: data, number: [[place]]})
        assert np.ravel(found) == pytest.approx([whole[place]], rel=1e-5)
    told = [np.ravel(each.eval({x: data})) for each in everything]
    np.testing.assert_allclose(np.concatenate(told), whole, rtol=1e-5)


def test_sequence_training_over_lattices_is_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"^sequence training over lattices is not there$"):
        C.lattice_sequence_with_softmax()


SEQUENCES: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "first": (C.sequence.first, lambda s: s[0]),
    "last": (C.sequence.last, lambda s: s[-1]),
    "reduce_sum": (C.sequence.reduce_sum, lambda s: s.sum(0)),
    "reduce_max": (C.sequence.reduce_max, lambda s: s.max(0)),
    "softmax": (C.sequence.softmax, lambda s: _softmax(s, 0)),
    "reduce_concat_pool": (
        C.sequence.reduce_concat_pool, lambda s: np.concatenate([s[-1], s.max(0), s.mean(0)])
    ),
    "is_first": (C.sequence.is_first, lambda s: np.arange(len(s)) == 0),
    "is_last": (C.sequence.is_last, lambda s: np.arange(len(s)) == len(s) - 1),
    "where": (lambda s: C.sequence.where(C.sequence.is_last(s)), lambda s: np.array([len(s) - 1])),
    "gather": (lambda s: C.sequence.gather(s, C.sequence.is_last(s)), lambda s: s[-1:]),
    "gather one": (lambda s: C.sequence.gather(s, C.sequence.is_last(s), (0, 1)), lambda s: s[-1]),
    "scatter": (
        lambda s: C.sequence.scatter(C.sequence.gather(s, C.sequence.is_first(s)), C.sequence.is_last(s)),
        lambda s: np.concatenate([0 * s[1:], s[:1]]),
    ),
    "slice of the first steps": (lambda s: C.sequence.slice(s, 0, 2), lambda s: s[:2]),
    "slice of the last steps": (lambda s: C.sequence.slice(s, -2, 0), lambda s: s[-2:]),
    "slice of all steps": (lambda s: C.sequence.slice(s, 0, 0), lambda s: s),
    "slice without the last step": (lambda s: C.sequence.slice(C.splice(s, s), 0, -1), lambda s: np.c_[s, s][:-1]),
    "slice without the first step": (lambda s: C.sequence.slice(s, 1, 0), lambda s: s[1:]),
    "broadcast_as": (lambda s: C.sequence.broadcast_as(C.sequence.first(s), s), lambda s: np.repeat(s[:1], len(s), 0)),
    "delay": (lambda s: C.sequence.delay(s, 5, 2), lambda s: np.pad(s, [(2, 0), (0, 0)], constant_values=5)[: len(s)]),
    "delay ahead": (lambda s: C.sequence.delay(s, time_step=-1), lambda s: np.pad(s[1:], [(0, 1), (0, 0)])),
    "delay of nothing": (lambda s: C.sequence.delay(s, time_step=0, name="same"), lambda s: s),
    "times summed": (
        lambda s: C.times(s, np.eye(2, dtype=np.float32) * 3,
                          infer_input_rank_to_map=C.TIMES_REDUCE_SEQUENCE_AXIS_WITHOUT_INFERRED_INPUT_RANK),
        lambda s: 3 * s.sum(0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SEQUENCES)
def test_operators_along_sequences(name: str) -> None:
    made, expected = SEQUENCES[name]
    steps = STEPS[::2] if "without" in name else STEPS
    s = C.sequence.input_variable(2)
    for found, data in zip(made(s).eval({s: steps}), steps, strict=True):
        wanted = np.asarray(expected(data))
        np.testing.assert_allclose(np.reshape(found, wanted.shape), wanted, rtol=1e-5)


@pytest.mark.parametrize(("begin", "end"), [(0, 1), (-1, 0), (1, 2), (-2, -1), (1, 3), (-3, -1), (0, 2), (1, -1)])
def test_ranges_of_sequences(begin: int, end: int) -> None:
    s = C.sequence.input_variable(2)
    steps = [STEPS[0], STEPS[2]]
    f = C.sequence.slice(s, begin, end)
    single = end - begin == 1
    assert (f.dynamic_axes == (C.Axis.default_batch_axis(),)) == single
    for found, data in zip(f.eval({s: steps}), steps, strict=True):
        wanted = data[begin : end or None]
        np.testing.assert_array_equal(found, wanted[0] if single else wanted)


@pytest.mark.parametrize(("begin", "end"), [(1, 1), (2, 1), (-1, -2)])
def test_a_range_without_steps(begin: int, end: int) -> None:
    with pytest.raises(ValueError, match=f"^there is no step from {begin} to {end}$"):
        C.sequence.slice(C.sequence.input_variable(2), begin, end)


def test_sequences_become_an_axis_and_back() -> None:
    s = C.sequence.input_variable(2)
    values, there = C.sequence.unpack(s, 7).outputs
    found = C.combine([values, there]).eval({s: STEPS})
    expected = np.full((3, 4, 2), 7, np.float32)
    for row, data in enumerate(STEPS):
        expected[row, : len(data)] = data
    np.testing.assert_array_equal(found[values], expected)
    assert found[there].tolist() == [[1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 1, 0]]
    (alone,) = C.sequence.unpack(s, 0, no_mask_output=True).outputs
    assert C.combine([alone]).eval({s: STEPS}).shape == (3, 4, 2)
    back = C.to_sequence(values, C.reduce_sum(there))
    for one, data in zip(back.eval({s: STEPS}), STEPS, strict=True):
        np.testing.assert_array_equal(one, data)
    like = C.to_sequence_like(values, s)
    for one, data in zip((like + s).eval({s: STEPS}), STEPS, strict=True):
        np.testing.assert_array_equal(one, 2 * data)


def test_windows_of_images() -> None:
    image = RNG.normal(size=(1, 2, 4, 5))
    even, odd = image[..., :4].copy(), image[:, :, ::2].copy()
    found = value(lambda x: C.pooling(x, C.AVG_POOLING, (1, 2), (1, 2)), even)
    np.testing.assert_allclose(found, even.reshape(1, 2, 4, 2, 2).mean(4), rtol=1e-6)
    found = value(lambda x: C.pooling(x, C.MAX_POOLING, (1, 2), (1, 2), ceil_out_dim=True), image)
    np.testing.assert_allclose(found[..., 2], image[..., 4], rtol=1e-6)
    bordered = value(lambda x: C.pooling(x, C.AVG_POOLING, (1, 3), (1, 1), [False, True], include_pad=True), odd)
    np.testing.assert_allclose(bordered[..., 0], odd[..., :2].sum(3) / 3, rtol=1e-6)
    bordered = value(lambda x: C.pooling(x, C.AVG_POOLING, (1, 3), (1, 1), [False, True]), odd)
    np.testing.assert_allclose(bordered[..., 0], odd[..., :2].mean(3), rtol=1e-6)
    plain = value(lambda x: C.convolution(C.constant(np.ones((2, 2))), x, auto_padding=[False], reduction_rank=0),
                  image[:, 0].copy())  # fmt: skip
    rows = image[:, 0, :-1] + image[:, 0, 1:]
    np.testing.assert_allclose(np.squeeze(plain), np.squeeze(rows[..., :-1] + rows[..., 1:]), rtol=1e-5)


def test_regions_of_images() -> None:
    image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    x, regions = C.input_variable((1, 4, 4)), C.input_variable((2, 4))
    corners = np.array([[[0, 0, 1, 1], [4, 4, 7, 7]]], np.float32)
    for scaled in (
        C.roipooling(x, regions, C.MAX_POOLING, (1, 1), 0.5),
        C.roipooling(x, regions, (1, 1), spatial_scale=0.5),
    ):
        assert np.ravel(scaled.eval({x: image, regions: corners})).tolist() == [5, 15]
    whole = C.roipooling(x, regions, C.MAX_POOLING, (2, 2))
    assert whole.shape == (2, 1, 2, 2)
    found = whole.eval({x: image, regions: np.array([[[0, 0, 3, 3], [0, 0, 1, 1]]], np.float32)})
    assert found[0, 0].ravel().tolist() == [5, 7, 13, 15]


def test_normalizations_of_images() -> None:
    image = RNG.normal(size=(1, 5, 2, 3)).astype(np.float32)
    x = C.input_variable((5, 2, 3))
    found = C.local_response_normalization(x, 1, 2.0, 0.5, 0.75).eval({x: image})
    squares = np.pad(image**2, [(0, 0), (1, 1), (0, 0), (0, 0)])
    near = (squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]) / 3
    np.testing.assert_allclose(found, image / (2 + 0.5 * near) ** 0.75, rtol=1e-5)
    for across, axes in ((False, (2, 3)), (True, (1, 2, 3))):
        centred = image - image.mean(axes, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axes, keepdims=True))
        made = C.mean_variance_normalization(x, use_stats_across_channels=across)
        np.testing.assert_allclose(made.eval({x: image}), centred / (deviation + 1e-5), rtol=1e-4, atol=1e-6)
        made = C.mean_variance_normalization(x, 0.5, across, do_variance_scaling=False)
        np.testing.assert_allclose(made.eval({x: image}), centred, rtol=1e-4, atol=1e-6)
    v = C.input_variable(3)
    found = C.mean_variance_normalization(v, epsilon=0).eval({v: [[1, 2, 3]]})
    np.testing.assert_allclose(found, [[-np.sqrt(1.5), 0, np.sqrt(1.5)]], rtol=1e-6)
    with pytest.raises(ValueError, match=r"^epsilon must be greater than 0$"):
        C.mean_variance_normalization(v, epsilon=-1)


def test_batch_normalization_follows_mean_and_variance() -> None:
    x = C.input_variable(2, needs_gradient=True)
    mean, variance, count = C.constant([1, 2]), C.constant([4, 16]), C.constant(10)
    f = C.batch_normalization(
        x, C.parameter(2, init=3), C.parameter(2, init=0.5), mean, variance, False, epsilon=0, running_count=count
    )
    data = np.array([[3, 6], [-1, 2]], np.float32)
    np.testing.assert_allclose(f.eval({x: data}), 3 * (data - [1, 2]) / [2, 4] + 0.5, rtol=1e-6)
    with pytest.warns(Warning, match="batch_normalization requires an additional 'running_count' parameter"):
        C.batch_normalization(x, C.parameter(2), C.parameter(2), mean, variance, False)


def test_stacks_of_recurrent_cells_are_as_wide_as_they_say() -> None:
    s, w = C.sequence.input_variable(3), C.parameter((C.InferredDimension, 1), init=C.glorot_uniform(seed=1))
    f = C.optimized_rnnstack(s, w, 4, 2, bidirectional=True)
    assert f.shape == (8,)
    assert [each.shape for each in f.eval({s: [np.zeros((3, 3)), np.zeros((1, 3))]})] == [(3, 8), (1, 8)]
    with pytest.raises(ValueError, match=r'^unsupported recurrent_op value "plain"$'):
        C.optimized_rnnstack(s, w, 4, 1, recurrent_op="plain")


RANDOM: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[float, float], float, float]] = {
    "uniform": (C.random.uniform, C.random.uniform_like, (-1, 3), 1, 4 / np.sqrt(12)),
    "normal": (C.random.normal, C.random.normal_like, (2, 0.5), 2, 0.5),
    "gumbel": (C.random.gumbel, C.random.gumbel_like, (1, 2), 1 + 2 * np.euler_gamma, 2 * np.pi / np.sqrt(6)),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers(name: str) -> None:
    of_shape, like, sizes, mean, deviation = RANDOM[name]
    x = C.input_variable(3000)
    drawn = of_shape((3000,), np.float32, *sizes, seed=5).eval()
    alike = like(x, *sizes, seed=5).eval({x: np.zeros((1, 3000), np.float32)})
    assert (drawn.shape, alike.shape) == ((3000,), (1, 3000))
    for found in (drawn, alike):
        assert np.mean(found) == pytest.approx(mean, abs=0.1)
        assert np.std(found) == pytest.approx(deviation, rel=0.1)
    assert of_shape((2,), np.float64, *sizes).dtype == np.float64
    defaults = of_shape((3000,), seed=5).eval()
    assert np.mean(defaults) == pytest.approx({"uniform": 0.5, "normal": 0, "gumbel": np.euler_gamma}[name], abs=0.1)


def test_random_flags() -> None:
    x = C.input_variable(3000)
    zeros = np.zeros((1, 3000), np.float32)
    for made, share in (
        (C.random.bernoulli((3000,), mean=0.25, seed=5), 0.25),
        (C.random.bernoulli((3000,), seed=5), 0.5),
        (C.random.bernoulli_like(x, 0.25, seed=5), 0.25),
        (C.random.bernoulli_like(x, seed=5), 0.5),
    ):
        found = made.eval({x: zeros} if made.arguments else {})
        assert set(np.ravel(found).tolist()) == {0.0, 1.0}
        assert np.mean(found) == pytest.approx(share, abs=0.05)


def test_drawn_classes() -> None:
    weights = C.constant([1.0, 0.0, 3.0])
    drawn = C.random_sample(weights, 500, True, seed=2).eval().toarray()
    assert drawn.shape == (500, 3)
    assert drawn.sum(1).tolist() == [1.0] * 500
    assert drawn.mean(0) == pytest.approx([0.25, 0, 0.75], abs=0.08)
    expected = C.random_sample_inclusion_frequency(weights, 8, True, seed=2).eval()
    np.testing.assert_allclose(expected, [2, 0, 6], rtol=1e-6)
    apart = C.random_sample(C.constant([1.0, 1.0, 1.0]), 3, False, seed=2).eval()
    assert apart.toarray().sum(0).tolist() == [1, 1, 1]


def test_classes_are_drawn_in_the_original_s_order() -> None:
    """What CNTK 2.7 draws with this seed, evaluation after evaluation."""
    drawn = C.random_sample([0.1, 0.2, 0.3, 0.4], 2, True, seed=5)
    assert [drawn.eval().indices.tolist() for _ in range(3)] == [[3, 0], [1, 3], [0, 0]]
    apart = C.random_sample([0.1, 0.2, 0.3, 0.4], 3, False, seed=5)
    assert apart.eval().indices.tolist() == [3, 0, 1]
    assert apart.root_function.attributes["rngOffset"] == 3
    often = C.random_sample_inclusion_frequency([0.1, 0.2, 0.3, 0.4], 2, False, seed=5).eval()
    np.testing.assert_allclose(often, [0.2152, 0.4014, 0.5597, 0.6911], atol=1e-4)
    for weights, told in (
        ([0.5, -0.5], "the weight of a class to be sampled is negative: -0.5"),
        ([0.5, 0.0], "2 classes are to be sampled, but only 1 have a weight"),
    ):
        with pytest.raises(ValueError, match=f"^{told}$"):
            C.random_sample(weights, 2, False).eval()


def test_a_rate_of_dropout() -> None:
    with pytest.raises(ValueError, match=r"^dropout_rate must be in the interval \[0,1\)$"):
        C.dropout(C.input_variable(2), 1.0)
