"""Random numbers: those of std::mt19937_64 with Boost's distributions.

The figures come from a program in C++: ``std::mt19937_64`` seeded with 7, ``boost::random`` 1.60.
"""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

from cntk_core.ops.families.mersenne_twister import STATE, MersenneTwister64
from cntk_kit_builders.first_values.random_numbers import (
    TAIL,
    RandomStream,
    _edges,
    fill_normal,
    fill_uniform,
    ziggurat_tables,
)

COUNT = 20000
TAILS = {3476: 1.357826594829726, 3851: -1.3450023084759812, 6547: -1.681896589397194, 16772: -1.8989701013702536}
WIDTH = float(np.float32(0.05))


def drawn(how, dtype, count=COUNT) -> np.ndarray:
    values = np.empty(count, dtype)
    how(values)
    return values


def uniform(values: np.ndarray) -> None:
    fill_uniform(values, -WIDTH, WIDTH, 7)


def normal(values: np.ndarray) -> None:
    fill_normal(values, 0.37, 7)


def truncated(values: np.ndarray) -> None:
    fill_normal(values, 0.37, 7, 2.0)


def test_the_word_that_the_standard_of_cpp_names() -> None:
    """[rand.predef]: the 10000th invocation of a default-constructed mt19937_64 gives this."""
    assert MersenneTwister64(5489).blocks(33)[9999] == 9981545732273789042


def test_blocks_go_on_where_the_last_ended() -> None:
    at_once = MersenneTwister64(3).blocks(5)
    twister = MersenneTwister64(3 + 2**64)
    assert np.array_equal(at_once, np.concatenate([twister.blocks(2), twister.blocks(3)]))
    assert len(at_once) == 5 * STATE


@pytest.mark.parametrize(
    ("how", "dtype", "first", "absolute", "weighted"),
    [
        (uniform, "f4", [0.025438528507947922, 0.044930119067430496], 499.6984776761383, -12370.404310762882),
        (uniform, "f8", [0.025438530794349434, 0.04493012095877538], 499.6984767869491, -12370.432505385827),
        (normal, "f4", [0.35641443729400635, -0.612862229347229], 5901.539363408472, -340109.9343971397),
        (normal, "f8", [0.35641446768300694, -0.6128622754620662], 5901.539625301977, -340109.96441194235),
        (truncated, "f4", [0.35641443729400635, -0.612862229347229], 5341.874875845748, -293490.8703355066),
        (truncated, "f8", [0.35641446768300694, -0.6128622754620662], 5341.875131954181, -293490.87450488243),
    ],
)
def test_numbers_of_boost(how, dtype: str, first: list[float], absolute: float, weighted: float) -> None:
    values = drawn(how, dtype).astype(float)
    assert values[:2].tolist() == first
    assert np.abs(values).sum() == pytest.approx(absolute, rel=1e-13)
    assert values @ np.arange(COUNT) == pytest.approx(weighted, rel=1e-11)


def test_numbers_of_the_tail() -> None:
    values = drawn(normal, "f8")
    assert {place: values[place] for place in TAILS} == TAILS
    assert drawn(normal, "f4")[list(TAILS)] == pytest.approx(list(TAILS.values()), rel=1e-6)


@pytest.mark.parametrize("how", [uniform, normal, truncated])
@pytest.mark.parametrize("count", [0, 1, 311, 312, 313, 5000])
def test_fewer_numbers_are_the_first_ones(how, count: int) -> None:
    assert np.array_equal(drawn(how, "f4", count), drawn(how, "f4")[:count])


def test_shapes_are_filled_in_memory_order() -> None:
    values = np.empty((3, 4, 5), np.float32)
    fill_normal(values, 0.37, 7)
    assert np.array_equal(values.ravel(), drawn(normal, "f4", 60))


def test_layers_have_the_same_area() -> None:
    widths, heights = map(np.array, ziggurat_tables())
    assert widths[1] == 3.4426198558966523  # Marsaglia and Tsang give 3.442619855899
    assert np.diff(heights) * widths[:-1] == pytest.approx(np.full(128, widths[0] * heights[1]), rel=1e-12)
    assert heights[1:] == pytest.approx(np.exp(-(widths[1:] ** 2) / 2), rel=1e-14)


def test_the_topmost_layer_ends_at_the_height_1() -> None:
    with localcontext() as context:
        context.prec = 40
        assert abs(_edges(TAIL)[2]) < Decimal("1e-30")


def test_the_normal_distribution() -> None:
    from scipy import stats

    values = drawn(lambda values: fill_normal(values, 1.0, 11), "f8", 200000)
    assert stats.kstest(values, "norm").pvalue > 0.01
    cut = drawn(lambda values: fill_normal(values, 1.0, 11, 2.0), "f8", 200000)
    assert stats.kstest(cut, stats.truncnorm(-2, 2).cdf).pvalue > 0.01


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_stream_goes_on_where_it_was(dtype) -> None:
    at_once, parts = RandomStream(9), RandomStream(9)
    whole = at_once.normal(4000, dtype, 1.0, 2.0)
    found = np.concatenate([parts.normal(1000, dtype, 1.0, 2.0) for _ in range(4)])
    np.testing.assert_array_equal(found, whole)
    assert parts.used == at_once.used > 4000
    later = RandomStream(9, parts.used)
    np.testing.assert_array_equal(later.uniform(5, dtype, 0, 1), parts.uniform(5, dtype, 0, 1))


def test_a_stream_draws_what_an_array_is_filled_with() -> None:
    normal, uniform = np.empty((2, 500), np.float32)
    fill_normal(normal, 0.5, 3)
    fill_uniform(uniform, -1.0, 2.0, 3)
    np.testing.assert_array_equal(RandomStream(3).normal(500, np.float32, 0.0, 0.5), normal)
    np.testing.assert_array_equal(RandomStream(3).uniform(500, np.float32, -1.0, 2.0), uniform)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_mean_of_a_stream_is_added(dtype) -> None:
    around_0, around_3 = (RandomStream(5).normal(50, dtype, mean, 0.5) for mean in (0.0, 3.0))
    np.testing.assert_array_equal(around_3, around_0 + dtype(3))


# A draw that begins with OUTSIDE ends in its layer only if the next word, as a part of 1, is low enough.
POSITIVE = 1 << 1 | 1  # in the first layer above the lowest one
INSIDE, OUTSIDE = 1 << 60 | POSITIVE, 0xFFFFFFFFFFFFFF00 | POSITIVE
LOW, HIGH, ONE = 0, int(0.99 * 2**64), 2**64 - 1


def scripted(monkeypatch: pytest.MonkeyPatch, dtype: str, *words: int) -> list[float]:
    """Numbers of the normal distribution that the words of a generator give, of which the last ones are INSIDE."""
    ready = np.full(STATE, INSIDE, np.uint64)
    ready[: len(words)] = words

    class Twister:
        def __init__(self, seed: int) -> None:
            pass

        def blocks(self, count: int) -> np.ndarray:
            return np.resize(ready, count * STATE)

    monkeypatch.setattr("cntk_kit_builders.first_values.random_numbers.MersenneTwister64", Twister)
    values = np.empty(3, dtype)
    fill_normal(values, 1.0, 1)
    return values.tolist()


def test_draws_that_end_beside_the_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    (plain, *_), width = scripted(monkeypatch, "f4"), ziggurat_tables()[0][1]
    far, *rest = scripted(monkeypatch, "f4", OUTSIDE, LOW)
    assert (plain, far) == pytest.approx((width / 16, width), rel=1e-4)
    assert rest == [plain, plain]
    assert scripted(monkeypatch, "f4", OUTSIDE, HIGH) == [plain] * 3  # above the curve
    for word, wanted in ((LOW, far), (HIGH, plain)):  # in single precision ONE is 1, which is no part
        assert scripted(monkeypatch, "f4", OUTSIDE, ONE, word) == [wanted, plain, plain]
        assert scripted(monkeypatch, "f4", INSIDE, OUTSIDE, ONE, ONE, word)[:2] == [plain, wanted]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_end_of_an_interval_is_never_drawn(dtype) -> None:
    end = float(np.nextafter(dtype(1), dtype(2)))
    ones = np.empty(50, dtype)
    fill_uniform(ones, 1.0, end, 4)  # half of the numbers are rounded to the end, and drawn again
    stream = RandomStream(4)
    assert set(ones.tolist()) == set(stream.uniform(50, dtype, 1.0, end).tolist()) == {1.0}
    assert 80 < stream.used < 130


def test_a_stream_begins_behind_the_words_that_were_taken() -> None:
    whole = RandomStream(6).uniform(3000, np.float64, 0.0, 1.0)
    for used in (1, 311, 312, 313, 2999):
        stream = RandomStream(6, used)
        assert stream.used == used
        assert stream.uniform(1, np.float64, 0.0, 1.0) == whole[used]
    assert RandomStream(6).uniform(0, np.float64, 0.0, 1.0).size == 0
