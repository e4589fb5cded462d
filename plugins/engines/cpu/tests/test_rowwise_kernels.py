"""Kernels that go row by row, as plain functions: against the formulas."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_engine_cpu import rowwise_kernels as kernels
from scipy.special import log_softmax, softmax

random = np.random.default_rng(0)
LOGITS = random.normal(size=(4, 5)).astype(np.float32)
FIRST, COLUMNS = np.array([0, 1, 3, 3, 4]), np.array([4, 0, 4, 2])
NUMBERS = np.array([1.0, 0.25, 0.75, 1.0], np.float32)


def labels() -> np.ndarray:
    dense = np.zeros_like(LOGITS)
    for row in range(4):
        dense[row, COLUMNS[FIRST[row] : FIRST[row + 1]]] = NUMBERS[FIRST[row] : FIRST[row + 1]]
    return dense


@pytest.mark.parametrize("sparse", [False, True])
def test_cross_entropy(sparse):
    found, loss = np.empty_like(LOGITS), np.empty(1)
    if sparse:
        kernels.sparse_cross_entropy(FIRST, COLUMNS, NUMBERS, LOGITS, found, loss)
    else:
        kernels.cross_entropy(labels(), LOGITS, found, loss)
    np.testing.assert_allclose(found, softmax(LOGITS, axis=1), rtol=1e-5)
    np.testing.assert_allclose(loss, -(labels() * log_softmax(LOGITS, axis=1)).sum(), rtol=1e-5)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_its_gradient(sparse, accumulate):
    shares, out = softmax(LOGITS, axis=1), np.ones_like(LOGITS)
    incoming = np.array([2.0], np.float32)
    if sparse:
        kernels.sparse_cross_entropy_gradient(FIRST, COLUMNS, NUMBERS, shares, incoming, out, accumulate)
    else:
        kernels.cross_entropy_gradient(labels(), shares, incoming, out, accumulate)
    np.testing.assert_allclose(out, 2.0 * (shares - labels()) + accumulate, rtol=1e-5, atol=1e-6)
