"""Kernels against a slow quantizer written from the formulas, and the compiled ones against those with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cntk_parallel_onebit import portable
from cntk_parallel_onebit.format import Cut, Matrix, word_type
from columns_by_hand import code, ends, record, value_of
from hypothesis import given, settings
from hypothesis import strategies as st

BITS = (1, 2, 4, 8, 16)
TOLERANCE = {"float32": 2e-5, "float64": 1e-13}

columns = st.tuples(st.integers(1, 200), st.integers(1, 4))
cases = {
    "shapes": st.lists(columns, min_size=1, max_size=3),
    "bits": st.sampled_from(BITS),
    "by_sign": st.booleans(),
    "dtype": st.sampled_from(["float32", "float64"]),
    "seed": st.integers(0, 2**32 - 1),
}


def matrices(shapes: list[tuple[int, int]]) -> list[Matrix]:
    found, offset = [], 0
    for rows, count in shapes:
        found.append(Matrix(offset, rows, count))
        offset += rows * count + 3
    return found


def cut_of(found: list[Matrix], bits: int, dtype: str) -> Cut:
    return Cut.of(((matrix, 0, matrix.columns) for matrix in found), bits, 8 * np.dtype(dtype).itemsize)


def numbers(rng: np.random.Generator, size: int, dtype: str) -> Any:
    """Numbers of both signs; some columns have one sign only, or zeros."""
    values = rng.normal(size=size) * 10.0 ** rng.integers(-3, 4) + rng.choice([0.0, 0.0, 5.0])
    values[rng.random(size) < rng.choice([0.0, 0.5])] = 0.0
    return values.astype(dtype)


def run(kernels: Any, found: list[Matrix], gradients: Any, residual: Any, bits: int, by_sign: bool) -> Any:
    """Quantize, write, and add once more; return the words, the residual and the values."""
    dtype = gradients.dtype
    cut = cut_of(found, bits, dtype)
    words, left, values = np.zeros(cut.words, word_type(dtype)), residual.copy(), np.full_like(gradients, 7.0)
    kernels.quantize(gradients, left, words, words.view(dtype), cut.blocks, bits, by_sign)
    kernels.unquantize(words, words.view(dtype), values, cut.blocks, bits, False)
    once = values.copy()
    kernels.unquantize(words, words.view(dtype), values, cut.blocks, bits, True)
    return words, left, once, values


@settings(deadline=None, max_examples=60)
@given(**cases)
def test_the_formulas(shapes, bits, by_sign, dtype, seed) -> None:
    rng = np.random.default_rng(seed)
    found = matrices(shapes)
    size = found[-1].offset + found[-1].rows * found[-1].columns + 3
    gradients, residual = numbers(rng, size, dtype), numbers(rng, size, dtype)
    words, left, once, twice = run(portable, found, gradients, residual, bits, by_sign)
    sums, position = gradients + residual, 0
    raw = words.tobytes()
    untouched = np.ones(size, bool)
    for matrix in found:
        for column in range(matrix.columns):
            first = matrix.offset + column * matrix.rows
            part = slice(first, first + matrix.rows)
            untouched[part] = False
            values = list(sums[part])
            low, high = np.frombuffer(raw, dtype, 2, position)
            scale = float(max(np.abs(values).max(), 1e-30))
            expected = ends([float(v) for v in values], bits, by_sign)
            assert [float(low), float(high)] == pytest.approx(
                expected, rel=TOLERANCE[dtype], abs=10 * TOLERANCE[dtype] * scale
            )
            codes = [code(v, low, high, bits, by_sign) for v in values]
            sent = record(codes, low, high, bits)
            assert raw[position : position + len(sent)] == sent
            position += len(sent)
            said = np.array([value_of(one, low, high, bits) for one in codes], dtype)
            np.testing.assert_array_equal(once[part], said)
            np.testing.assert_array_equal(twice[part], said + said)
            np.testing.assert_array_equal(left[part], sums[part] - said)
    assert position == len(raw)
    assert (once[untouched] == 7.0).all()
    np.testing.assert_array_equal(left[untouched], residual[untouched])


@settings(deadline=None, max_examples=150)
@given(
    **{**cases, "shapes": st.lists(st.tuples(st.integers(1, 2500), st.integers(1, 3)), min_size=1, max_size=4)},
    odd=st.lists(st.sampled_from([np.nan, np.inf, -np.inf, 1e38, -0.0, 1e-40, 1e-44]), max_size=2),
)
def test_compiled_kernels_give_the_same_bits(shapes, bits, by_sign, dtype, seed, odd) -> None:
    from cntk_parallel_onebit import compiled

    rng = np.random.default_rng(seed)
    found = matrices(shapes)
    size = found[-1].offset + found[-1].rows * found[-1].columns
    gradients, residual = numbers(rng, size, dtype), numbers(rng, size, dtype)
    for value in odd:
        gradients[rng.integers(size)] = value
    results = [run(kernels, found, gradients, residual, bits, by_sign) for kernels in (portable, compiled)]
    for ours, theirs in zip(*results, strict=True):
        nan = np.isnan(ours) if ours.dtype.kind == "f" else np.zeros(ours.shape, bool)
        np.testing.assert_array_equal(ours, theirs)
        same = ours.view(word_type(dtype)) == theirs.view(word_type(dtype))
        assert (same | nan | np.isnan(ours.view(dtype))).all()


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_shows_in_its_column_alone(bits, value) -> None:
    gradients = np.arange(12, dtype=np.float32)
    gradients[5] = value
    _, _, once, _ = run(portable, [Matrix(0, 4, 3)], gradients, np.zeros_like(gradients), bits, True)
    np.testing.assert_array_equal(np.isnan(once).reshape(3, 4).all(axis=1), [False, True, False])
    assert np.isfinite(once.reshape(3, 4)[[0, 2]]).all()


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("by_sign", [True, False])
def test_zeros_say_zero(bits, by_sign) -> None:
    nothing = np.zeros(30, np.float32)
    _, left, once, _ = run(portable, [Matrix(0, 10, 3)], nothing, nothing, bits, by_sign)
    assert not once.any()
    assert not left.any()


def test_means_of_both_signs() -> None:
    gradients = np.array([-1.0, -3.0, 2.0, 4.0, 6.0, 0.0])
    _, left, once, _ = run(portable, [Matrix(0, 6, 1)], gradients, np.zeros(6), 1, True)
    np.testing.assert_allclose(once, [-2.0, -2.0, 3.0, 3.0, 3.0, 3.0])
    np.testing.assert_allclose(left, [1.0, -1.0, -1.0, 1.0, 3.0, -3.0])


def test_the_mean_as_threshold() -> None:
    gradients = np.array([1.0, 3.0, 5.0, 7.0])
    _, _, once, _ = run(portable, [Matrix(0, 4, 1)], gradients, np.zeros(4), 1, False)
    np.testing.assert_allclose(once, [2.0, 2.0, 6.0, 6.0])


def test_a_bin_lies_around_zero() -> None:
    gradients = np.array([0.0, 1e-9, -1e-9, 1.0])
    for bits in (2, 4, 8, 16):
        _, _, once, _ = run(portable, [Matrix(0, 4, 1)], gradients, np.zeros(4), bits, True)
        np.testing.assert_allclose(once[:3], 0.0, atol=1e-15)


def test_words_take_strided_values() -> None:
    gradients = np.full(70, -1.0, np.float32)
    gradients[[0, 3, 69]] = 1.0
    words, *_ = run(portable, [Matrix(0, 70, 1)], gradients, np.zeros_like(gradients), 1, True)
    # Three words; value i is bit i // 3 of word i % 3.
    assert words[2:].tolist() == [1 << 0 | 1 << 1 | 1 << 23, 0, 0]
