"""An op is what it says it is: its traits, tried on its examples.

An engine concludes from traits what it may do, and nothing tells it that one is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.op import Array, Op, OpContext
from cntk_testing.gradients import make_context
from cntk_testing.op_cases import FRAMES, ExampleCase, OpExample, example_cases
from cntk_testing.strict_arrays import ImpureError, StrictModule

PICKED = [2, 0]
"""Rows that are computed alone."""


def check_traits(op: Op, examples: Sequence[OpExample]) -> None:
    """What an op says of itself is true of its examples."""
    for case in example_cases(op, examples):
        traits = case.op.traits
        if traits.keeps_nothing:
            _check_keeps_nothing(case)
        if traits.row_wise and any(case.framed) and not _changes_frames(case):
            _check_rows(case)
        if traits.pure_xp:
            _check_pure(case)
        if traits.ignores_zero_rows and any(case.framed):
            _check_zero_rows(case)
        if traits.passes_through and case.framed[0] == any(case.framed):
            _same(case, case.inputs[0].reshape(case.forward().shape), "passes its input through")
        if traits.sums:
            _same(case, _broadcast_sum(case), "is the sum of its inputs")
        if traits.part is not None:
            _same(case, _part(case).reshape(case.forward().shape), "is a part of its input")


def _changes_frames(case: ExampleCase) -> bool:
    return case.op.makes_axis(case.example.shapes[0], case.attributes)


def _same(case: ExampleCase, expected: Array, what: str) -> None:
    np.testing.assert_array_equal(case.forward(), expected, err_msg=f"{case.op.name} says that it {what}")


def _check_keeps_nothing(case: ExampleCase) -> None:
    context = case.context()
    run_forward(case.op, np, case.inputs, case.attributes, context)
    kept = sorted(context.saved)
    assert not kept, f"{case.op.name} says that it keeps nothing for its gradient, and keeps {', '.join(kept)}"


def _computed(case: ExampleCase, rows: Sequence[int] | None) -> tuple[Array, list[Array | None]]:
    """The value and gradients of all rows or of some, the arriving gradient being the same for a row in both."""
    inputs = [
        value if rows is None or not framed else value[list(rows)]
        for value, framed in zip(case.inputs, case.framed, strict=True)
    ]
    context = _context(case, inputs)
    output = np.array(run_forward(case.op, np, inputs, case.attributes, context))
    whole = case.forward()
    arriving = (np.arange(whole.size, dtype=whole.dtype).reshape(whole.shape) + 1) / whole.size
    if rows is not None:
        arriving = arriving[list(rows)]
    gradients = run_gradient(case.op, np, arriving, output, inputs, case.attributes, context, case.needs())
    return output, gradients


def _context(case: ExampleCase, inputs: Sequence[Array]) -> OpContext:
    return make_context(inputs, case.framed, training=True, settings=case.example.settings)


def _check_rows(case: ExampleCase) -> None:
    what = f"{case.op.name} says that it goes row by row"
    whole, gradients = _computed(case, None)
    some, own = _computed(case, PICKED)
    np.testing.assert_allclose(some, whole[PICKED], rtol=1e-12, atol=1e-12, err_msg=what)
    singles = [_computed(case, [row])[1] for row in range(FRAMES)]
    for index, framed in enumerate(case.framed):
        found, part = gradients[index], own[index]
        if found is None or part is None:
            continue
        if framed:
            np.testing.assert_allclose(part, found[PICKED], rtol=1e-12, atol=1e-12, err_msg=what)
        else:
            added = sum(each for single in singles if (each := single[index]) is not None)
            np.testing.assert_allclose(added, found, rtol=1e-12, atol=1e-12, err_msg=what)


def _check_pure(case: ExampleCase) -> None:
    """Value and gradients come out of arrays that are none of NumPy's."""
    in_place = case.op.traits.in_place
    value_of, gradient_of = StrictModule(writable=in_place == "value"), StrictModule(writable=in_place != "nothing")
    expected, gradients = _computed(case, None)
    context = case.context()
    arriving = (np.arange(expected.size, dtype=expected.dtype).reshape(expected.shape) + 1) / expected.size
    try:
        given = [value_of.array_of(each) for each in case.inputs]
        found: Any = run_forward(case.op, value_of, given, case.attributes, context)
        arrays = [gradient_of.array_of(each) for each in (arriving, expected, *case.inputs)]
        changes: Any = run_gradient(
            case.op, gradient_of, arrays[0], arrays[1], arrays[2:], case.attributes, context, case.needs()
        )
    except (ImpureError, TypeError) as error:
        raise AssertionError(f"{case.op.name} says that it is pure over xp, but {error}") from error
    np.testing.assert_allclose(found.plain, expected, rtol=1e-12, atol=1e-12, err_msg=case.op.name)
    for one, other in zip(changes, gradients, strict=True):
        if one is not None and other is not None:
            np.testing.assert_allclose(one.plain, other, rtol=1e-12, atol=1e-12, err_msg=case.op.name)


def _check_zero_rows(case: ExampleCase) -> None:
    inputs = [
        np.concatenate([value, np.zeros_like(value[:2])]) if framed else value
        for value, framed in zip(case.inputs, case.framed, strict=True)
    ]
    found = np.array(run_forward(case.op, np, inputs, case.attributes, _context(case, inputs)))
    what = f"{case.op.name} says that rows of zeros add nothing to it"
    np.testing.assert_allclose(found, case.forward(), rtol=1e-12, atol=1e-12, err_msg=what)


def _broadcast_sum(case: ExampleCase) -> Array:
    rank = max(value.ndim - int(framed) for value, framed in zip(case.inputs, case.framed, strict=True))
    total: Any = 0.0
    for value, framed in zip(case.inputs, case.framed, strict=True):
        sample = value.shape[int(framed) :]
        rows = value.shape[:1] if framed else ((1,) if any(case.framed) else ())
        total = total + value.reshape((*rows, *(1,) * (rank - len(sample)), *sample))
    return np.asarray(total)


def _part(case: ExampleCase) -> Array:
    part = case.op.traits.part
    assert part is not None
    shape = tuple(case.example.shapes[0])
    ranges = part(shape, case.attributes)
    picked = tuple(slice(*ranges[axis]) if axis in ranges else slice(None) for axis in range(len(shape)))
    return np.asarray(case.inputs[0][(slice(None), *picked) if case.framed[0] else picked])
