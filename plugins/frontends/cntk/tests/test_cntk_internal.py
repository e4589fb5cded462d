"""What other modules and scripts take from ``cntk.internal``."""

from __future__ import annotations

import cntk as C
import numpy as np
import pytest
from cntk.internal.utils import eval as evaluate
from cntk.internal.utils import get_data_type, map_function_arguments


def test_the_type_of_numbers_of_several_things():
    double, single = (C.input_variable(2, dtype=dtype) for dtype in (np.float64, np.float32))
    for things, dtype in (
        ((C.abs(double), 1.0), np.float64),
        ((C.abs(single), np.ones(2)), np.float32),
        (([C.abs(single), C.abs(double)],), np.float64),
        ((single, C.abs(double)), np.float64),
        ((np.ones(2, np.float32), 1), np.float32),
        ((np.ones(2), 1.0), np.float64),
        ((np.float64(1), 1), np.float64),
        ((1, 2.0), np.float32),
        ((), None),
        (("text",), None),
    ):
        assert get_data_type(*things) is dtype, things
    with pytest.raises(ValueError, match=r'^NumPy type "int64" is not supported$'):
        get_data_type(np.ones(2, np.int64))


def test_arguments_by_parameter():
    named = {"x": "X", "y": "Y", "z": "Z"}
    params = list(named.values())
    for args, kwargs, found in (
        ((1, 2, 3), {}, {"X": 1, "Y": 2, "Z": 3}),
        ((1,), {"z": 3}, {"X": 1, "Z": 3}),
        ((), {"z": 3, "x": 1}, {"X": 1, "Z": 3}),
        ((), {}, {}),
    ):
        assert list(map_function_arguments(params, named, *args, **kwargs).items()) == list(found.items())
    with pytest.raises(TypeError, match=r"^got an unexpected keyword argument 'w'$"):
        map_function_arguments(params, named, w=1)
    with pytest.raises(TypeError, match=r"^got multiple values for argument 'x'$"):
        map_function_arguments(params, named, 1, x=2)


def test_a_function_is_evaluated_with_its_gradients():
    x = C.input_variable(2, needs_gradient=True)
    f, data = C.square(x), np.array([[1, 2], [3, 4]], np.float32)
    forward, backward = evaluate(f, {x: data}, np.float32, backward_pass=True, expected_backward={x: None})
    np.testing.assert_array_equal(forward[f.output], data**2)
    np.testing.assert_array_equal(backward[x], 2 * data)
    values, nothing = evaluate(f, {x: data}, np.float32)
    np.testing.assert_array_equal(values[f.output], data**2)
    assert nothing is None
    _, by_all = evaluate(f, {x: data}, np.float32, backward_pass=True)
    np.testing.assert_array_equal(by_all[x], 2 * data)
