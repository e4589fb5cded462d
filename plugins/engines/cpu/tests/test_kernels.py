"""Generated kernels: NumPy and compiled ones give the same."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_engine_cpu.kernels import KernelLibrary
from cntk_engine_cpu.source import Result, spec_of
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.api.engines import TraceMath, symbol
from cntk_testing.examples import examples

M = TraceMath()
A, B, C, D = (symbol(name) for name in "abcd")
KINDS = {"a": "full", "b": "row", "c": "col", "d": "scalar"}
TREES = {
    "arithmetic": (A + B) * C - 2.0 / (D * D + 1.0) + -A,
    "functions": M.exp(A) + M.tanh(B) + M.sigmoid(A * C) + M.sqrt(M.abs(A)) + M.sin(A) * M.cos(B),
    "angles": M.tan(A * 0.1) + M.arcsin(M.sin(A)) + M.arccos(M.cos(B)) + M.arctan(C),
    "hyperbolic": M.sinh(A) + M.cosh(B) + M.arcsinh(C) + M.arccosh(1.0 + D * D) + M.arctanh(M.tanh(A)) + M.erf(A),
    "rounding": M.floor(A) + M.ceil(B) + M.sign(C),
    "choice": M.where(M.less(A, B), M.maximum(A, D), M.minimum(B, C)),
    "comparisons": M.greater(A, B) + M.less_equal(A, C) + M.greater_equal(A, D) + M.equal(A, A) + M.not_equal(A, B),
    "logarithms": M.log(M.abs(A) + 0.1) + M.log1p(M.abs(B)) + M.expm1(A * 0.1) + M.logaddexp(A, B) + M.power(C, 2.0),
    "shared": (A + B) * (A + B) + M.exp(A + B),
    "constant": 3.0,
}


def arguments(spec, order, rows, columns, dtype, seed=0):
    rng = np.random.default_rng(seed)
    shapes = {"full": (rows, columns), "row": (columns,), "col": (rows,), "scalar": (1,)}
    operands = {name: rng.normal(size=shapes[kind]).astype(dtype) for name, kind in KINDS.items()}
    outputs = [np.full(shapes[spec.results[index].kind], 0.5, dtype) for index in spec.outputs]
    return [operands[name].copy() for name in order], outputs


def run(library, spec, order, rows, columns, dtype, numbers=()):
    operands, outputs = arguments(spec, order, rows, columns, dtype)
    library.get(spec, np.dtype(dtype))(rows, columns, *operands, *numbers, *outputs)
    return [*operands, *outputs]


def same(spec, order, dtype, shape=(3, 21), numbers=()):
    plain = run(KernelLibrary(compiled=False), spec, order, *shape, dtype, numbers)
    compiled = run(KernelLibrary(compiled=True), spec, order, *shape, dtype, numbers)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    for one, other in zip(plain, compiled, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=10 * tolerance)


@pytest.fixture
def llvm():
    return pytest.importorskip("llvmlite")


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", list(TREES))
@pytest.mark.sampled(4)
def test_all_kinds_of_results(llvm, name, dtype):
    tree = TREES[name]
    results = [Result(tree, kind, accumulate) for kind in KINDS.values() for accumulate in (False, True)]
    same(*spec_of(KINDS, (), results), dtype)


def test_a_result_in_place_of_an_operand(llvm):
    spec, order = spec_of(KINDS, (), [Result(A * B, "full", into="a"), Result(A, "row")])
    assert spec.outputs == (1,)
    same(spec, order, np.float32)


@pytest.mark.parametrize("compiled", [False, True])
def test_an_operand_that_is_passed_on_beside_a_result_in_its_place(compiled):
    if compiled:
        pytest.importorskip("llvmlite")
    spec, order = spec_of(KINDS, (), [Result(-A, "full", into="a"), Result(A, "full"), Result(A, "full", True)])
    assert order == ("a",)
    a, passed, added = (np.full((2, 3), value) for value in (2.0, 0.0, 0.5))
    KernelLibrary(compiled=compiled).get(spec, a.dtype)(2, 3, a, passed, added)
    for found, wanted in ((a, -2.0), (passed, 2.0), (added, 2.5)):
        np.testing.assert_array_equal(found, wanted)


def test_numbers_are_arguments(llvm):
    rate = symbol("rate")
    spec, order = spec_of(KINDS, ("rate", "other"), [Result(A - (1.0 - rate) * B, "full")])
    same(spec, order, np.float32, numbers=(0.25, 3.0))


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (5, 1), (1, 100), (2, 0)])
def test_any_number_of_rows_and_columns(llvm, shape):
    spec, order = spec_of(KINDS, (), [Result(A + B, "full"), Result(A + B, "row"), Result(A, "scalar")])
    same(spec, order, np.float32, shape)


def test_equal_kernels_are_one():
    first, _ = spec_of({"x": "full", "y": "row"}, (), [Result(symbol("x") + symbol("y"), "full")])
    second, order = spec_of({"q": "row", "p": "full"}, (), [Result(symbol("p") + symbol("q"), "full")])
    assert first == second
    assert order == ("p", "q")


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), min_size=1, max_size=40))
@examples(50)
def test_nan_and_infinities_stay(values):
    pytest.importorskip("llvmlite")
    spec, order = spec_of({"a": "full"}, (), [Result(M.maximum(A, 0.0) + M.where(M.equal(A, A), 0.0, 1.0) * A, "full")])
    x = np.array([values], np.float32)
    found = [np.empty_like(x) for _ in range(2)]
    for library, out in zip((KernelLibrary(compiled=True), KernelLibrary(compiled=False)), found, strict=True):
        library.get(spec, x.dtype)(1, x.shape[1], x, out)
    np.testing.assert_array_equal(*found)
    assert len(order) == 1
