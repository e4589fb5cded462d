"""Values and gradients by all inputs against what CNTK 2.7 computes, as ``tools/record_original.py`` has recorded it.

Recorded is one number for each array: the sum of its elements, each times a weight.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from original_cases import COUNT, MAKERS, Case, cases

from cntk_core.ops.language.framing import run_forward, run_gradient

RECORDED = np.load(Path(__file__).with_name("recorded.npz"))
TOLERANCE = {"float32": 1e-4, "float64": 1e-11}


def test_every_operation_is_recorded():
    expected = {f"{name}/{precision}" for name in MAKERS for precision in TOLERANCE}
    assert set(RECORDED.files) == expected
    assert {RECORDED[key].shape[0] for key in RECORDED.files} == {COUNT}


def sums(case: Case, precision: str) -> tuple[list[float], list[float]]:
    """The sums of ours, and of the sizes of what is summed, by which they may differ."""
    dtype = np.dtype(precision)
    inputs = [value.astype(dtype) for value in case.inputs]
    context = case.context()
    output = np.array(run_forward(case.op, np, inputs, case.attributes, context))
    arriving = case.weights[0].reshape(output.shape).astype(dtype)
    found = [output]
    if any(case.wanted):
        gradients = run_gradient(case.op, np, arriving, output, inputs, case.attributes, context, case.wanted)
        found += [np.zeros_like(value) if each is None else each for value, each in zip(inputs, gradients, strict=True)]
    products = [each.astype(np.float64) * weight for each, weight in zip(found, case.weights, strict=False)]
    return [float(each.sum()) for each in products], [max(1.0, float(abs(each).sum())) for each in products]


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("name", MAKERS)
def test_as_the_original(name, precision):
    for number, (case, expected) in enumerate(zip(cases(name), RECORDED[f"{name}/{precision}"], strict=True)):
        found, sizes = sums(case, precision)
        wanted = [True, *case.wanted]
        for index, (own, size) in enumerate(zip(found, sizes, strict=True)):
            if wanted[index]:
                what = f"the {f'gradient by input {index}' if index else 'value'} of case {number}"
                assert abs(own - expected[index]) <= TOLERANCE[precision] * size, what
