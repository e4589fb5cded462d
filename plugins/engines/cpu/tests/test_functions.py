"""The engine's own exponentials, against NumPy in double precision."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from cntk_engine_cpu.compiler import compile_text
from cntk_engine_cpu.sparse import RowGradient

pytestmark = pytest.mark.skipif(find_spec("llvmlite") is None, reason="needs llvmlite")

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 88.0, 88.5, 88.72, 89.0, -87.0, -100.0, 1e-30, -1e-30, 1e30, -1e30]


def run(name, *arrays):
    """Apply a function of the kernels' to each number, compiled."""
    dtype = arrays[0].dtype.name
    names = "abc"[: len(arrays)]
    given = ", ".join(f"{each}[i]" for each in names)
    text = f"def loop({', '.join(names)}, y):\n    for i in range(len(y)):\n        y[i] = {name}({given})\n"
    signature = f"void({', '.join([f'{dtype}[::1]'] * (1 + len(arrays)))})"
    y = np.empty_like(arrays[0])
    compile_text(text, "loop", dtype, signature)(*arrays, y)
    return y


def erf(x):
    from scipy.special import erf as expected

    return expected(x)


def points(dtype):
    rng = np.random.default_rng(1)
    parts = [rng.uniform(-100, 100, 20000), rng.uniform(-2, 2, 20000), 10.0 ** rng.uniform(-20, 1, 2000), SPECIAL]
    return np.concatenate(parts).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "erf"])
def test_close_to_numpy(name, dtype):
    x = points(dtype)
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        expected = {"exp": np.exp, "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": erf}[name](wide)
        expected = expected.astype(dtype)
    tolerance = 5e-7 if dtype == np.float32 else 1e-14
    # Numbers at the lower end of the range may become 0, and a small sigmoid has few digits in 1 + tanh.
    smallest = 1e-37 if dtype == np.float32 else 1e-15
    np.testing.assert_allclose(run(name, x), expected, rtol=tolerance, atol=smallest)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_tanh_is_exact_near_zero(dtype):
    x = (10.0 ** np.random.default_rng(2).uniform(-30, -4, 1000)).astype(dtype)
    np.testing.assert_allclose(run("tanh", x), np.tanh(x), rtol=5e-7)


@pytest.mark.parametrize(("name", "expected"), [("minimum", np.minimum), ("maximum", np.maximum)])
def test_extremes_keep_nan(name, expected):
    values = np.array([1, 2, np.nan, np.inf, -np.inf, -0.0], np.float32)
    a, b = (grid.ravel().copy() for grid in np.meshgrid(values, values))
    np.testing.assert_array_equal(run(name, a, b), expected(a, b))


def test_sign_keeps_nan():
    x = np.array([-3, -0.0, 0, 2, np.nan, np.inf], np.float32)
    np.testing.assert_array_equal(run("sign", x), np.sign(x))


def test_logaddexp_of_numbers_without_a_difference():
    values = np.array([1, -2, np.nan, np.inf, -np.inf, 100], np.float32)
    a, b = (grid.ravel().copy() for grid in np.meshgrid(values, values))
    with np.errstate(invalid="ignore"):
        expected = np.logaddexp(a, b)
    np.testing.assert_allclose(run("logaddexp", a, b), expected, rtol=1e-6)


LARGEST = "def loop(matrix, y):\n    for i in range(len(y)):\n        y[i] = largest(matrix, i)\n"


def test_the_largest_of_a_row_wherever_it_stands():
    run_largest = compile_text(LARGEST, "loop", "float32", "void(float32[:, ::1], float32[::1])")
    for width in (1, 2, 7, 8, 9, 16, 19):
        rows = -np.ones((2 * width + 1, width), np.float32)
        places = np.arange(width)
        rows[places, places] = 3
        rows[width + places, places] = np.nan
        rows[2 * width] = np.nan
        found = np.empty(len(rows), np.float32)
        run_largest(rows, found)
        assert found[:width].tolist() == [3] * width
        # NaN is left out, unless all are
        np.testing.assert_array_equal(found[width : 2 * width], [-1 if width > 1 else np.nan] * width)
        assert np.isnan(found[2 * width])


def test_gradients_by_rows_of_several_products_are_summed():
    gradient = RowGradient()
    gradient.add(np.array([1, 4]), np.array([[1.0, 2], [3, 4]]))
    gradient.add(np.array([2, 4]), np.array([[10.0, 20], [30, 40]]))
    assert gradient.rows.tolist() == [1, 2, 4]
    assert gradient.block.tolist() == [[1, 2], [10, 20], [33, 44]]
    gradient.clear()
    assert gradient.rows is None
    gradient.add(np.array([7]), np.array([[5.0, 6]]))
    assert (gradient.rows.tolist(), gradient.block.tolist()) == ([7], [[5, 6]])
