"""Arrays as bytes."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_kit_parallel.array_bytes import pack, unpack


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.array(3, np.int8), np.zeros((0, 4), np.float32)])
def test_an_array_comes_back(array):
    found = unpack(pack(array))
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)
    found[...] = 0  # it belongs to the receiver
