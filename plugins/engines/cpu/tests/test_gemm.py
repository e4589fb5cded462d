"""Matrix products by each library: values, factors, transposes, empty matrices."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from cntk_engine_cpu import loop_cells
from cntk_engine_cpu.gemm import Gemm, _is_read_as_it_lies
from cntk_engine_cpu.libraries import load_onednn
from cntk_engine_cpu.source import Result, spec_of
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.api.engines import TraceMath, symbol
from cntk_testing.examples import examples

NEEDS_ONEDNN = pytest.mark.skipif(load_onednn() is None, reason="oneDNN is missing")
LIBRARIES = [
    pytest.param("called", id="onednn", marks=NEEDS_ONEDNN),
    pytest.param(
        "compiled",
        id="onednn_in_compiled_code",
        marks=[NEEDS_ONEDNN, pytest.mark.skipif(find_spec("llvmlite") is None, reason="needs llvmlite")],
    ),
    pytest.param("", id="blas"),
]


def gemm(onednn: str, threads: int = 1) -> Gemm:
    """Products of oneDNN, which Python calls or compiled code, or, without a word, of the BLAS."""
    return Gemm(load_onednn() if onednn else None, threads, compiled=onednn == "compiled")


def operands(m, n, k, transpose_a, transpose_b, dtype):
    rng = np.random.default_rng(m * 10000 + n * 100 + k)
    a = rng.standard_normal((k, m) if transpose_a else (m, k)).astype(dtype)
    b = rng.standard_normal((n, k) if transpose_b else (k, n)).astype(dtype)
    return a, b, rng.standard_normal((m, n)).astype(dtype)


@pytest.mark.parametrize("onednn", LIBRARIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@examples(40)
@given(
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40)),
    transpose_a=st.booleans(),
    transpose_b=st.booleans(),
    alpha=st.sampled_from([1.0, -0.5, 0.0]),
    beta=st.sampled_from([0.0, 1.0, 0.9]),
)
def test_product(onednn, dtype, sizes, transpose_a, transpose_b, alpha, beta):
    a, b, c = operands(*sizes, transpose_a, transpose_b, dtype)
    left, right = (a.T if transpose_a else a).astype(np.float64), (b.T if transpose_b else b).astype(np.float64)
    expected = alpha * (left @ right) + beta * c
    product = gemm(onednn).bind(a, b, c, transpose_a=transpose_a, transpose_b=transpose_b)
    product(alpha, beta)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(c, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("onednn", LIBRARIES)
def test_beta_0_ignores_what_is_there(onednn):
    a, b, c = operands(3, 4, 5, False, False, np.float32)
    c.fill(np.nan)
    gemm(onednn).bind(a, b, c)(1.0, 0.0)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("onednn", LIBRARIES)
@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 4, 0)], ids=str)
def test_empty(onednn, sizes):
    m, n, k = sizes
    c = np.full((m, n), 2.0, np.float32)
    product = gemm(onednn).bind(np.zeros((m, k), np.float32), np.zeros((k, n), np.float32), c)
    product(1.0, 0.5)
    assert (c == 1.0).all()
    c.fill(np.nan)
    product(1.0, 0.0)
    assert (c == 0.0).all()


@pytest.mark.parametrize("onednn", LIBRARIES)
@pytest.mark.parametrize("beta", [0.0, 1.0, 0.5])
def test_few_rows_with_the_transpose_of_large_weights(onednn, beta):
    a, b, c = operands(3, 2100, 2000, False, True, np.float32)
    expected = 2.0 * (a.astype(np.float64) @ b.astype(np.float64).T) + beta * c
    if beta == 0:
        c.fill(np.nan)
    gemm(onednn).bind(a, b, c, transpose_b=True)(2.0, beta)
    np.testing.assert_allclose(c, expected, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("onednn", LIBRARIES)
def test_two_threads_compute_the_same(onednn):
    a, b, c = operands(300, 300, 200, False, False, np.float32)
    gemm(onednn, threads=2).bind(a, b, c)(1.0, 0.0)
    np.testing.assert_allclose(c, a @ b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("onednn", LIBRARIES)
def test_nan_goes_through(onednn):
    a, b, c = operands(4, 4, 4, False, False, np.float32)
    a[1, 2] = np.nan
    gemm(onednn).bind(a, b, c)(1.0, 0.0)
    assert np.isnan(c[1]).all()
    assert np.isfinite(c[[0, 2, 3]]).all()


@NEEDS_ONEDNN
@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, True), (True, True)])
def test_large_weights_that_are_read_as_they_lie(transpose_a, transpose_b):
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(5, 1024)).astype(np.float32), rng.normal(size=(1024, 64)).astype(np.float32)
    pair = np.ascontiguousarray(a.T) if transpose_a else a, np.ascontiguousarray(b.T) if transpose_b else b
    c = np.ones((5, 64), np.float32)
    product = Gemm(load_onednn(), 1).bind(*pair, c, transpose_a=transpose_a, transpose_b=transpose_b)
    product(2.0, 0.5)
    np.testing.assert_allclose(c, 2 * (a @ b) + 0.5, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [(64, 1024, True), (64, 1023, False), (128, 512, True), (129, 512, False), (2048, 2048, True), (2048, 2047, False)],
)
def test_weights_that_pay_to_be_read_as_they_lie(outer, inner, expected):
    weights = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (outer, inner), (0, 0))
    assert _is_read_as_it_lies(weights) is expected


def test_what_an_element_of_a_kernel_costs():
    x, y = symbol("x"), symbol("y")
    slow = TraceMath().tanh(x * y)
    kinds = {"x": "full", "y": "row"}
    costs = [
        loop_cells.cost_of(spec_of(kinds, (), results)[0])
        for results in (
            [Result(x + y, "full")],
            [Result(slow, "full")],
            [Result(slow + x, "full"), Result(slow, "full")],
        )
    ]
    assert costs == [3, 3 + loop_cells.SLOW_COST, 4 + loop_cells.SLOW_COST]
