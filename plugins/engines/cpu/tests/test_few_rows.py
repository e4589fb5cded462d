"""Products of few rows in compiled loops: against NumPy, and whole networks against the reference."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from cntk_engine_cpu import few_rows
from recurrent_checks import LENGTHS, assert_same
from recurrent_networks import minibatches, recurrent_plan

pytestmark = pytest.mark.skipif(find_spec("llvmlite") is None, reason="needs llvmlite")


def functions(**form):
    names = {"F": np.float32}
    exec("\n".join(few_rows.source("few", **form)), names)
    return [names[f"few_{rows}"] for rows in range(1, few_rows.MOST_ROWS + 1)]


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("inner", "outer"), [(8, 6), (7, 5), (3, 1), (1, 2)])
def test_they_are_the_product(inner, outer, transposed, accumulate):
    random = np.random.default_rng(1)
    for rows, function in enumerate(functions(transposed=transposed, accumulate=accumulate), start=1):
        for odd in (0, 1):
            x, y = (random.standard_normal((rows + 3, dim)).astype(np.float32) for dim in (inner, outer))
            w = random.standard_normal((inner, outer)).astype(np.float32)
            wanted = y.copy()
            wanted[2 : 2 + rows] = x[2 : 2 + rows] @ w + (y[2 : 2 + rows] if accumulate else 0)
            function(x, np.ascontiguousarray(w.T) if transposed else w, y, 2, odd)
            np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["elman", pytest.param("lstm", marks=pytest.mark.thorough)])
@pytest.mark.slow
def test_loops_compute_with_them(name, monkeypatch):
    called = []
    whole = few_rows.call
    monkeypatch.setattr(few_rows, "LARGE", 1)
    monkeypatch.setattr(few_rows, "call", lambda *arguments: called.append(arguments) or whole(*arguments))
    batches = minibatches([*LENGTHS, [30, 29, 3, 2, 1, 1, 1]], np.float32)
    assert_same(recurrent_plan(name), "compiled+onednn", batches, np.float32)
    assert called


def test_small_weights_and_wide_transposes_are_left_to_the_library():
    assert few_rows.pays(np.empty((256, 128)), transposed=False)
    assert few_rows.pays(np.empty((128, 256)), transposed=True)
    assert not few_rows.pays(np.empty((256, 128)), transposed=True)
    assert not few_rows.pays(np.empty((255, 128)), transposed=False)
