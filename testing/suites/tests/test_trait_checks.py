"""Ops that are not what they say they are; and what each trait says of an op that is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from cntk_core.ops.language.define import define_op, first_shape, scalar_shape
from cntk_core.ops.language.op import Op
from cntk_core.ops.language.traits import BY_ELEMENTS, BY_ROWS, NO_TRAITS, Traits
from cntk_core.ops.table import core_op, core_ops
from cntk_testing.op_cases import OpExample
from cntk_testing.strict_arrays import ImpureError, StrictModule
from cntk_testing.trait_checks import check_traits

EXAMPLES = (OpExample(((4,),), framed=(True,)),)
PURE = Traits(pure_xp=True)


def _op(forward: Callable[..., Any], traits: Traits, **fields: Any) -> Op:
    settings: dict[str, Any] = {"infer": first_shape, "doc": "x."} | fields
    return define_op("Liar", traits=traits, **settings)(forward)


def _back(compute: Callable[[Any, Any, Any], Any]) -> Callable[..., Sequence[Any]]:
    return lambda xp, g, y, inputs, attributes, context, needs: [compute(xp, g, inputs[0])]


def _keeps(xp: Any, inputs: Any, attributes: Any, context: Any) -> Any:
    context.saved["mask"] = inputs[0] > 0
    return inputs[0]


def _writes(xp: Any, g: Any, x: Any) -> Any:
    result = xp.zeros_like(x)
    result[:] = g
    return result


LIES: dict[str, tuple[Op, str]] = {
    "keeps": (_op(_keeps, Traits(keeps_nothing=True)), "says that it keeps nothing for its gradient, and keeps mask"),
    "looks_at_other_rows": (
        _op(lambda xp, inputs, attributes, context: inputs[0] - xp.mean(inputs[0], axis=0), Traits(row_wise=True)),
        "says that it goes row by row",
    ),
    "gradient_looks_at_other_rows": (
        _op(
            lambda xp, inputs, attributes, context: inputs[0],
            Traits(row_wise=True),
            gradient=_back(lambda xp, g, x: g * xp.sum(x)),
        ),
        "says that it goes row by row",
    ),
    "mixes_in_numpy": (
        _op(lambda xp, inputs, attributes, context: inputs[0] * np.ones(4), PURE),
        "pure over xp, but it mixes in an array of NumPy's: make arrays with xp",
    ),
    "calls_numpy": (
        _op(lambda xp, inputs, attributes, context: np.asarray(inputs[0]), PURE),
        "pure over xp, but it makes an array of NumPy's of an array of xp's",
    ),
    "asks_for_truth": (
        _op(lambda xp, inputs, attributes, context: inputs[0] if xp.sum(inputs[0]) > 9 else 2 * inputs[0], PURE),
        "pure over xp, but it asks whether an array is true (if, and, or, while): use xp.where",
    ),
    "asks_for_a_number": (
        _op(lambda xp, inputs, attributes, context: inputs[0] * float(xp.sum(inputs[0])), PURE),
        "pure over xp, but it makes a number of an array (float, int, item)",
    ),
    "gradient_writes": (
        _op(lambda xp, inputs, attributes, context: inputs[0] + 0.0, PURE, gradient=_back(_writes)),
        'pure over xp, but it writes into an array: make a new one, or say in_place="gradient"',
    ),
    "zeros_count": (
        _op(
            lambda xp, inputs, attributes, context: xp.sum(xp.exp(inputs[0])).reshape(1),
            Traits(ignores_zero_rows=True),
            infer=scalar_shape,
            reduces_frames=True,
        ),
        "says that rows of zeros add nothing to it",
    ),
    "changes": (
        _op(lambda xp, inputs, attributes, context: 2 * inputs[0], Traits(passes_through=True)),
        "says that it passes its input through",
    ),
    "does_not_sum": (
        _op(lambda xp, inputs, attributes, context: 2 * inputs[0], Traits(sums=True)),
        "says that it is the sum of its inputs",
    ),
    "other_part": (
        _op(
            lambda xp, inputs, attributes, context: inputs[0][:, 1:],
            Traits(part=lambda shape, attributes: {0: (0, 3)}),
            infer=lambda shapes, attributes: (3,),
        ),
        "says that it is a part of its input",
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_what_is_not_true_is_found(name: str) -> None:
    op, message = LIES[name]
    with pytest.raises(AssertionError, match=re.escape(message)):
        check_traits(op, EXAMPLES)


def test_who_says_that_it_writes_may() -> None:
    traits = Traits(pure_xp=True, in_place="gradient")
    check_traits(
        _op(lambda xp, inputs, attributes, context: inputs[0] + 0.0, traits, gradient=_back(_writes)), EXAMPLES
    )


def test_strict_arrays_compute_what_numpy_does() -> None:
    xp = StrictModule(writable=True)
    x = xp.array_of([[1.0, -2.0], [3.0, 4.0]])
    x += 1.0
    found = xp.where(abs(x) > 2.0, 2.0 - x, -x)[xp.asarray([1, 0])]
    np.testing.assert_array_equal(found.plain, [[-2.0, -3.0], [-2.0, 1.0]])
    assert [len(row) for row in x] == [2, 2]
    with pytest.raises(ImpureError):
        int(x[0, 0])
    fixed = StrictModule(writable=False).array_of([1.0])
    other = fixed
    other += 1.0
    assert (fixed.plain.tolist(), other.plain.tolist()) == ([1.0], [2.0])


def test_every_element_wise_op_has_the_traits_of_all() -> None:
    names = ("row_wise", "pure_xp", "keeps_nothing", "summed_at_end", "ends_by_element")
    for op in core_ops():
        if op.elementwise is not None:
            assert all(getattr(op.traits, name) == getattr(BY_ELEMENTS, name) for name in names), op.name


def test_an_op_says_nothing_by_default() -> None:
    assert Op("Silent", (1, 1), first_shape).traits is NO_TRAITS
    assert Op("Add", (2, 2), first_shape, elementwise=core_op("Plus").elementwise).traits is BY_ELEMENTS
    assert (NO_TRAITS.in_loops, BY_ROWS.in_loops) == (False, True)
