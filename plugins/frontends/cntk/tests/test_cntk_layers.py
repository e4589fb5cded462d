"""Layers: what each computes, beside NumPy or beside the operators that it stands for."""

from __future__ import annotations

import cntk as C
import numpy as np
import pytest
from cntk import layers as L

RNG = np.random.default_rng(5)
IMAGE = RNG.normal(size=(1, 2, 5, 6)).astype(np.float32)
STEPS = [RNG.normal(size=(length, 3)).astype(np.float32) for length in (4, 1, 2)]


def windows(image: np.ndarray, kernel: np.ndarray, step: tuple[int, int] = (1, 1), spread: int = 1) -> np.ndarray:
    """Return the plain convolution of an image ``(channels, height, width)`` with kernels."""
    high, wide = ((size - 1) * spread + 1 for size in kernel.shape[-2:])
    rows, columns = range(0, image.shape[1] - high + 1, step[0]), range(0, image.shape[2] - wide + 1, step[1])
    return np.array(
        [
            [[(image[:, r : r + high : spread, c : c + wide : spread] * each).sum() for c in columns] for r in rows]
            for each in kernel
        ]
    )


def weights(f: C.Function) -> dict[str, np.ndarray]:
    return {each.name: each.value for each in f.parameters}


def test_a_convolution_of_images() -> None:
    x = C.input_variable((2, 5, 6))
    f = L.Convolution2D((3, 2), 4, activation=C.relu, strides=(2, 1), init_bias=0.25)(x)
    own = weights(f)
    assert own["W"].shape == (4, 2, 3, 2)
    assert own["b"].shape == (4, 1, 1)
    expected = np.maximum(windows(IMAGE[0], own["W"], (2, 1)) + 0.25, 0)
    np.testing.assert_allclose(f.eval({x: IMAGE})[0], expected, rtol=1e-5, atol=1e-6)


def test_a_convolution_with_gaps_and_without_bias() -> None:
    x = C.input_variable((2, 5, 6))
    f = L.Convolution((2, 2), 3, dilation=2, bias=False)(x)
    assert [each.name for each in f.parameters] == ["W"]
    expected = windows(IMAGE[0], weights(f)["W"], spread=2)
    np.testing.assert_allclose(f.eval({x: IMAGE})[0], expected, rtol=1e-5, atol=1e-6)


def test_a_convolution_with_a_border_keeps_the_size() -> None:
    x = C.input_variable((2, 5, 6))
    f = L.Convolution((3, 3), 4, pad=True)(x)
    expected = windows(np.pad(IMAGE[0], [(0, 0), (1, 1), (1, 1)]), weights(f)["W"])
    np.testing.assert_allclose(f.eval({x: IMAGE})[0], expected, rtol=1e-5, atol=1e-6)
    assert L.Convolution2D(3, 4, pad=(True, False))(x).shape == (4, 5, 4)


def test_a_convolution_without_maps_has_no_axis_for_them() -> None:
    x = C.input_variable((2, 5, 6))
    f = L.Convolution2D((2, 2))(x)
    assert f.shape == (4, 5)
    expected = windows(IMAGE[0], weights(f)["W"])[0]
    np.testing.assert_allclose(f.eval({x: IMAGE})[0], expected, rtol=1e-5, atol=1e-6)


def test_a_convolution_of_images_without_channels() -> None:
    x = C.input_variable((5, 6))
    f = L.Convolution2D((2, 3), 2, reduction_rank=0)(x)
    expected = windows(IMAGE[0, :1], weights(f)["W"])
    np.testing.assert_allclose(f.eval({x: IMAGE[:, 0]})[0], expected, rtol=1e-5, atol=1e-6)


def test_a_convolution_of_groups_of_channels() -> None:
    x = C.input_variable((2, 5, 6))
    f = L.Convolution2D((2, 2), 4, groups=2)(x)
    own = weights(f)["W"]
    assert own.shape == (4, 1, 2, 2)
    expected = np.concatenate([windows(IMAGE[0, group : group + 1], own[2 * group :][:2]) for group in range(2)])
    np.testing.assert_allclose(f.eval({x: IMAGE})[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_of_groups_takes_steps(groups: int) -> None:
    x = C.input_variable((2, 5, 6))
    f = L.Convolution2D((2, 3), 2, strides=(2, 3), groups=groups, bias=False)(x)
    own = weights(f)["W"]
    pairs = zip(np.split(IMAGE[0], groups), np.split(own, groups), strict=True)
    expected = np.concatenate([windows(part, kernels, (2, 3)) for part, kernels in pairs])
    np.testing.assert_allclose(f.eval({x: IMAGE})[0], expected, rtol=1e-5, atol=1e-6)


def test_transposed_convolutions_take_one_step_where_nothing_is_said() -> None:
    x = C.input_variable((2, 3, 3))
    assert L.ConvolutionTranspose((3, 3), 4)(x).shape == L.ConvolutionTranspose2D((3, 3), 4)(x).shape == (4, 5, 5)


def test_convolutions_along_one_and_three_axes() -> None:
    x = C.input_variable((2, 6))
    f = L.Convolution1D(2, 3)(x)
    rows = IMAGE[0, :, :1]
    expected = windows(rows, weights(f)["W"][:, :, None])[:, 0]
    np.testing.assert_allclose(f.eval({x: IMAGE[:, :, 0].copy()})[0], expected, rtol=1e-5, atol=1e-6)
    v = C.input_variable((1, 2, 5, 6))
    g = L.Convolution3D((2, 2, 2), 3)(v)
    expected = windows(IMAGE[0], weights(g)["W"][:, 0])
    np.testing.assert_allclose(g.eval({v: IMAGE[None]})[0][:, 0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("padded", "length"), [(False, 3), (True, 3), (True, 2)])
def test_a_convolution_along_sequences(padded: bool, length: int) -> None:
    s = C.sequence.input_variable(3)
    f = L.SequentialConvolution((length,), 2, pad=padded, init_bias=0.5, activation=C.tanh)(s)
    own = weights(f)["W"]
    assert own.shape == (2, 3, length)
    first = (length - 1) // 2 if padded else 0
    for found, data in zip(f.eval({s: STEPS}), STEPS, strict=True):
        wide = np.pad(data, [(first, length), (0, 0)])
        steps = range(len(data) if padded else max(len(data) - length + 1, 0))
        expected = [np.tanh((own * wide[t : t + length].T).sum((1, 2)) + 0.5) for t in steps]
        np.testing.assert_allclose(found, np.reshape(expected, (-1, 2)), rtol=1e-5, atol=1e-6)


def test_a_convolution_along_sequences_of_rows() -> None:
    s = C.sequence.input_variable(3)
    f = L.Convolution((2, 3), 2, sequential=True, reduction_rank=0, bias=False)(s)
    own = weights(f)["W"][:, 0]
    for found, data in zip(f.eval({s: STEPS}), STEPS, strict=True):
        expected = [[(each * data[t : t + 2]).sum() for each in own] for t in range(len(data) - 1)]
        np.testing.assert_allclose(found.reshape(-1, 2), np.reshape(expected, (-1, 2)), rtol=1e-5, atol=1e-6)


def test_a_convolution_along_sequences_takes_every_step() -> None:
    with pytest.raises(NotImplementedError) as caught:
        L.Convolution((3, 2), 4, sequential=True, strides=(2, 1))
    assert str(caught.value) == ("Convolution: along sequences it takes one step after the other: strides begin with 1")


@pytest.mark.parametrize(
    ("layer", "shape", "size"),
    [(L.ConvolutionTranspose1D, 3, (4,)), (L.ConvolutionTranspose2D, (3, 2), (3, 4)),
     (L.ConvolutionTranspose3D, 2, (2, 3, 2)), (L.ConvolutionTranspose, (2, 2), (2, 3))],
)  # fmt: skip
def test_a_transposed_convolution_is_the_gradient_of_a_convolution(
    layer: object, shape: object, size: tuple[int, ...]
) -> None:
    x = C.input_variable((2, *size))
    f = layer(shape, 3, strides=2, init_bias=0.5)(x)
    own = weights(f)["W"]
    large = C.input_variable(f.shape, needs_gradient=True)
    back = C.convolution(C.constant(own), large, strides=(2,) * len(size), auto_padding=[False])
    assert back.shape == x.shape
    data = RNG.normal(size=(1, *x.shape)).astype(np.float32)
    state, _ = back.forward({large: np.zeros((1, *f.shape))}, [back.output], [back.output])
    expected = back.backward(state, {back.output: data}, [large])[large] + 0.5
    np.testing.assert_allclose(f.eval({x: data}), expected, rtol=1e-5, atol=1e-5)


def test_a_transposed_convolution_of_a_size_and_an_activation() -> None:
    x = C.input_variable((2, 3, 3))
    options = {"strides": 2, "pad": True, "bias": False}
    assert L.ConvolutionTranspose2D(3, 4, **options)(x).shape == (4, 5, 5)
    f = L.ConvolutionTranspose2D(3, 4, output_shape=(6, 6), activation=C.relu, **options)(x)
    assert f.shape == (4, 6, 6)
    assert f.eval({x: RNG.normal(size=(1, 2, 3, 3))}).min() == 0


def test_poolings() -> None:
    x = C.input_variable((2, 5, 6))
    rows = IMAGE[0].reshape(2, 5, 3, 2)
    found = L.MaxPooling((1, 2), strides=(1, 2))(x).eval({x: IMAGE})
    np.testing.assert_array_equal(found[0], rows.max(3))
    found = L.AveragePooling((1, 2), strides=(1, 2))(x).eval({x: IMAGE})
    np.testing.assert_allclose(found[0], rows.mean(3), rtol=1e-6)
    found = L.GlobalMaxPooling()(x).eval({x: IMAGE})
    np.testing.assert_array_equal(found.ravel(), IMAGE.max((2, 3)).ravel())
    found = L.GlobalAveragePooling()(x).eval({x: IMAGE})
    np.testing.assert_allclose(found.ravel(), IMAGE.mean((2, 3)).ravel(), rtol=1e-5)
    assert L.MaxPooling((2, 2), strides=2, pad=True)(x).shape == (2, 3, 3)
    assert L.MaxPooling((2, 2))(x).shape == (2, 4, 5)


def test_what_was_pooled_is_put_back() -> None:
    x = C.input_variable((2, 5, 6))
    pooled = L.MaxPooling((1, 2), strides=(1, 2))(x)
    found = L.MaxUnpooling((1, 2), strides=(1, 2))(pooled, x).eval({x: IMAGE})
    rows = IMAGE[0].reshape(2, 5, 3, 2)
    np.testing.assert_array_equal(found[0].reshape(rows.shape), np.where(rows == rows.max(3, keepdims=True), rows, 0))


MISTAKES = {
    "the shape of a kernel has too many axes": (
        lambda: L.Convolution2D((3, 3, 3), 4), ValueError,
        "Convolution2D: filter_shape must be a scalar or a 2D tuple",
    ),
    "there are too many steps": (
        lambda: L.Convolution2D((3, 3), 4, strides=(1, 1, 1)), ValueError, "strides has 3 values for 2 axes"
    ),
    "a rank that is not there": (
        lambda: L.Convolution2D((3, 3), 4, reduction_rank=2), NotImplementedError,
        "Convolution: reduction_rank must be 0 or 1",
    ),
    "kernels that are not shared": (
        lambda: L.Convolution((3, 3), 4, sharing=False), NotImplementedError,
        "Convolution: transpose_weight and kernels that are not shared are not there",
    ),
    "kernels the other way round": (
        lambda: L.Convolution((3, 3), 4, transpose_weight=True), NotImplementedError,
        "Convolution: transpose_weight and kernels that are not shared are not there",
    ),
    "a transposed rank": (
        lambda: L.ConvolutionTranspose((3, 3), 4, reduction_rank=0), NotImplementedError,
        "ConvolutionTranspose: reduction_rank must be 1, and kernels shared",
    ),
    "transposed kernels that are not shared": (
        lambda: L.ConvolutionTranspose((3, 3), 4, sharing=False), NotImplementedError,
        "ConvolutionTranspose: reduction_rank must be 1, and kernels shared",
    ),
    "two ranks": (
        lambda: L.Dense(3, input_rank=1, map_rank=1), ValueError,
        "Dense: input_rank and map_rank cannot be specified at the same time.",
    ),
    "no first values": (lambda: L.Dense(3, init=None), ValueError, "init parameter cannot be None"),
    "vectors of words without a shape": (
        lambda: L.Embedding(), ValueError, "Embedding: output shape must be specified"
    ),
    "given vectors with a shape": (
        lambda: L.Embedding(3, weights=np.eye(3)), ValueError,
        "Embedding: output shape must not be specified when weights are given",
    ),
    "given vectors that also start": (
        lambda: L.Embedding(weights=np.eye(3), init=0), ValueError,
        "Embedding: init and weights options are mutually exclusive",
    ),
    "no rate": (lambda: L.Dropout(), ValueError, "Dropout: either dropout_rate or keep_prob must be specified."),
    "two rates": (
        lambda: L.Dropout(0.5, 0.5), ValueError,
        "Dropout: dropout_rate and keep_prob cannot be specified at the same time.",
    ),
    "no share": (
        lambda: L.Dropout(keep_prob=1.0), ValueError, r"Dropout: keep_prob must be in the interval \[0,1\)"
    ),
    "ranks of maps": (
        lambda: L.BatchNormalization(map_rank=2), NotImplementedError,
        "BatchNormalization: map_rank can only be 1 or None",
    ),
    "a cell that is no vector": (
        lambda: L.LSTM((2, 3)), ValueError, r"LSTM: shape and cell_shape must be vectors \(rank-1 tensors\)"
    ),
    "a wide cell that is no vector": (
        lambda: L.GRU(2, (3, 4)), ValueError, r"GRU: shape and cell_shape must be vectors \(rank-1 tensors\)"
    ),
    "a constructor that is none": (
        lambda: L.For(range(2), 5), ValueError, "constructor must be a Python function/lambda"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_says_what_it_is(name: str) -> None:
    make, kind, message = MISTAKES[name]
    with pytest.raises(kind, match=f"^{message}$"):
        make()


def test_dense_layers_sum_over_some_axes() -> None:
    x = C.input_variable((2, 5, 6))
    last = L.Dense((4,), input_rank=1, init_bias=0.5)(x)
    np.testing.assert_allclose(last.eval({x: IMAGE}), IMAGE @ weights(last)["W"] + 0.5, rtol=1e-5, atol=1e-5)
    mapped = L.Dense((4, 2), map_rank=1, activation=C.tanh)(x)
    own = weights(mapped)
    assert own["W"].shape == (5, 6, 4, 2)
    expected = np.tanh(np.einsum("nchw,hwij->ncij", IMAGE, own["W"]) + own["b"])
    np.testing.assert_allclose(mapped.eval({x: IMAGE}), expected, rtol=1e-4, atol=1e-5)


def test_embeddings_are_learned_or_given() -> None:
    x = C.input_variable(3)
    words = np.eye(3, dtype=np.float32)[[2, 0]]
    given = L.Embedding(weights=[[1, 2], [3, 4], [5, 6]])(x)
    assert given.parameters == ()
    np.testing.assert_array_equal(given.eval({x: words}), [[5, 6], [1, 2]])
    learned = L.Embedding((2, 2))(x)
    np.testing.assert_array_equal(learned.eval({x: words}), weights(learned)["E"][[2, 0]])


def test_normalizations() -> None:
    x = C.input_variable(4)
    data = np.array([[1, 2, 3, 6], [0, 0, 2, 2]], np.float32)
    centred = data - data.mean(1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(1, keepdims=True))
    found = L.LayerNormalization(2, 0.5)(x).eval({x: data})
    np.testing.assert_allclose(found, centred / (deviation + 1e-5) * 2 + 0.5, rtol=1e-5)
    found = L.LayerNormalization(epsilon=0)(x).eval({x: data})
    np.testing.assert_allclose(found, centred / deviation, rtol=1e-6)
    batch = L.BatchNormalization(init_scale=3)(x)
    assert {each.name: each.shape for each in (*batch.parameters, *batch.constants)} == {
        "scale": (4,), "bias": (4,), "aggregate_mean": (4,), "aggregate_variance": (4,), "aggregate_count": (),
    }  # fmt: skip
    with pytest.warns(UserWarning, match="batch normalization has no statistics yet"):
        found = batch.eval({x: data})
    np.testing.assert_allclose(found, 3 * data / np.sqrt(1e-5), rtol=1e-5)
    image = C.input_variable((2, 5, 6))
    spatial = L.BatchNormalization(map_rank=1)(image)
    assert {each.shape for each in spatial.parameters} == {(2,)}


def test_dropout_keeps_what_it_scales() -> None:
    x = C.input_variable(200, needs_gradient=True)
    ones = np.ones((1, 200), np.float32)
    for layer in (L.Dropout(0.25, seed=3), L.Dropout(keep_prob=0.75, seed=3)):
        f = layer(x)
        np.testing.assert_array_equal(f.eval({x: ones}), ones)
        trained = f.forward({x: ones}, [f.output], [f.output])[1][f.output]
        assert sorted(set(trained.ravel().tolist())) == pytest.approx([0, 4 / 3])
        assert 0.6 < np.count_nonzero(trained) / 200 < 0.9


def test_layers_one_behind_and_beside_another() -> None:
    x, y = C.input_variable(2), C.input_variable(2)
    data, other = np.array([[1, -2]], np.float32), np.array([[5, 7]], np.float32)
    double, shift = (lambda v: v * 2), (lambda v: v + 1)
    np.testing.assert_array_equal(L.Sequential([double, [shift, double]])(x).eval({x: data}), 4 * data + 2)
    beside = L.Sequential([(double, shift), C.minus])
    np.testing.assert_array_equal(beside(x).eval({x: data}), data - 1)
    np.testing.assert_array_equal(beside(x, y).eval({x: data, y: other}), 2 * data - other - 1)
    with pytest.raises(ValueError, match=r"^Sequential: 3 functions side by side, and 2 values for them$"):
        L.Sequential([(double, shift, shift), C.splice])(x, y)
    named = L.Sequential([double], name="twice")(x)
    assert named.name == "twice"
    both = L.Sequential([C.Function(shift), (double, shift)])(x)
    assert [each.tolist() for each in both.eval({x: data}).values()] == [[[4, -2]], [[3, 0]]]


def test_layers_that_are_repeated() -> None:
    x = C.input_variable(2)
    data = np.array([[1, -2]], np.float32)
    counted = L.For(range(1, 4), lambda i: lambda v: v * i)
    np.testing.assert_array_equal(counted(x).eval({x: data}), 6 * data)
    again = L.For(range(3), lambda: lambda v: v + 1, name="up")(x)
    np.testing.assert_array_equal(again.eval({x: data}), data + 3)
    assert again.name == "up"


def test_layers_with_connections_around_them() -> None:
    x = C.input_variable(2)
    data = np.array([[1, -2]], np.float32)
    around = L.ResNetBlock(lambda v: v * 3, name="around")(x)
    np.testing.assert_array_equal(around.eval({x: data}), 4 * data)
    assert around.name == "around"
    clique = L.SequentialClique([lambda v: v * 2, lambda v: v * 3, lambda v: v + 1])(x)
    np.testing.assert_array_equal(clique.eval({x: data}), 12 * data + 1)  # 2x; 3 (x + 2x); (3x + 9x) + 1


def test_a_window_of_the_last_steps() -> None:
    s = C.sequence.input_variable(3)
    for backwards in (False, True):
        values, there = L.PastValueWindow(2, axis=C.Axis.new_leading_axis(), go_backwards=backwards)(s).outputs
        found = C.combine([values, there]).eval({s: STEPS})
        for index, data in enumerate(STEPS):
            near = (data if backwards else data[::-1])[:2]
            expected = np.concatenate([near, np.zeros((2 - len(near), 3))])
            np.testing.assert_array_equal(np.reshape(found[values][index], (2, 3)), expected)
            assert np.ravel(found[there][index]).tolist() == [1.0] * len(near) + [0.0] * (2 - len(near))


def test_delays_look_back_and_ahead() -> None:
    s = C.sequence.input_variable(3)
    for distance in (2, 1, 0, -1, -2):
        found = L.Delay(distance, initial_state=7)(s).eval({s: STEPS})
        for each, data in zip(found, STEPS, strict=True):
            wide = np.pad(data, [(2, 2), (0, 0)], constant_values=7)
            np.testing.assert_array_equal(each, wide[2 - distance :][: len(data)])


def test_recurrences_give_all_states_or_the_last_step() -> None:
    s = C.sequence.input_variable(3)
    total = np.cumsum(STEPS[0], 0)

    @C.Function
    def step(count: object, before: object, x: object) -> object:
        return count + C.ones_like(x), before + x

    both = L.Recurrence(step, initial_state=(0, 0.5), return_full_state=True)(s)
    counts, sums = (both.eval({s: STEPS})[each][0] for each in both.outputs)
    np.testing.assert_allclose(sums, total + 0.5, rtol=1e-5)
    assert counts.tolist() == [[count] * 3 for count in (1, 2, 3, 4)]
    only = L.Recurrence(step)(s)
    assert [len(each) for each in only.eval({s: STEPS})] == [4, 1, 2]
    assert only.eval({s: STEPS})[0].tolist() == counts.tolist()
    last = L.Fold(lambda before, x: before + x)(s)
    np.testing.assert_allclose(last.eval({s: STEPS})[0], total[-1], rtol=1e-5)
    both = L.Fold(step, return_full_state=True, go_backwards=True)(s)
    found = both.eval({s: STEPS})
    np.testing.assert_allclose(found[both.outputs[1]][0], total[-1], rtol=1e-5)
    assert found[both.outputs[0]].tolist() == [[count] * 3 for count in (4, 1, 2)]


def test_a_sequence_is_unfolded_from_a_state() -> None:
    s, start = C.sequence.input_variable(1), C.input_variable(1)
    data = {s: [np.zeros((4, 1)), np.zeros((2, 1))], start: np.array([[1.0], [3.0]])}
    doubled = L.UnfoldFrom(lambda before: before * 2)(start, s)
    assert [each.ravel().tolist() for each in doubled.eval(data)] == [[2, 4, 8, 16], [6, 12]]
    until = L.UnfoldFrom(lambda before: before * 2, until_predicate=lambda w: C.greater(w, 7))(start, s)
    assert [each.ravel().tolist() for each in until.eval(data)] == [[2, 4, 8], [6, 12]]
    stated = L.UnfoldFrom(C.Function(lambda before: (before * 10, before + 1)))(start, s)
    assert [each.ravel().tolist() for each in stated.eval(data)] == [[10, 20, 30, 40], [30, 40]]


def test_a_cell_that_is_wider_inside_and_sees_itself() -> None:
    s = C.sequence.input_variable(3)
    options = {"use_peepholes": True, "enable_self_stabilization": True}
    f = L.Recurrence(L.LSTM(2, 4, init_bias=0.5, **options))(s)
    own = weights(f)
    assert {name: each.shape for name, each in own.items() if each.ndim} == {
        "b": (16,), "W": (3, 16), "H": (2, 16), "Ci": (4,), "Cf": (4,), "Co": (4,), "P": (4, 2),
    }  # fmt: skip
    assert own["b"].tolist() == [0.5] * 16
    alphas = [each.value for each in f.parameters if each.name == "alpha"]
    assert alphas == pytest.approx([np.log(np.expm1(4)) / 4] * 4)
    h, c, found = np.zeros(2), np.zeros(4), []
    for x in STEPS[0]:
        i, candidate, g, o = np.split(own["b"] + x @ own["W"] + h @ own["H"], 4)
        before, c = c, None
        c = before / (1 + np.exp(-g - before * own["Cf"])) + np.tanh(candidate) / (1 + np.exp(-i - before * own["Ci"]))
        h = (np.tanh(c) / (1 + np.exp(-o - c * own["Co"]))) @ own["P"]
        found.append(h)
    np.testing.assert_allclose(f.eval({s: STEPS})[0], found, rtol=1e-4, atol=1e-5)


def test_a_stabilizer_begins_at_one() -> None:
    x = C.input_variable(2)
    f = L.Stabilizer(steepness=2)(x)
    np.testing.assert_allclose(f.eval({x: [[3, -4]]}), [[3, -4]], rtol=1e-6)
    (alpha,) = f.parameters
    alpha.value = 1.0
    factor = np.log1p(np.exp(2)) / 2
    np.testing.assert_allclose(f.eval({x: [[3, -4]]}), np.array([[3, -4]]) * factor, rtol=1e-6)
    assert L.Stabilizer(enable_self_stabilization=False)(x).parameters == ()


def test_a_declaration_is_resolved_later() -> None:
    s = C.sequence.input_variable(1)
    forward = L.ForwardDeclaration("total")
    total = s + C.sequence.past_value(forward)
    forward.resolve_to(total)
    assert total.eval({s: [np.ones((3, 1))]})[0].ravel().tolist() == [1, 2, 3]


def test_a_label_finds_its_input_again() -> None:
    x = C.input_variable(2)
    f = L.Sequential([lambda v: v * 2, L.Label("middle"), lambda v: v + 1])(x)
    assert f.find_by_name("middle").eval({x: [[1, 2]]}).tolist() == [[2, 4]]
