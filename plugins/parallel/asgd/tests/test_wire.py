"""Messages as bytes."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_parallel_asgd.wire import Letter, unpack


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("ends", [False, True])
def test_a_message_comes_back(dtype, ends):
    values = np.arange(5, dtype=dtype)
    packed = Letter(2, 7, values, time=1.5, rate=0.25, ends=ends).pack()
    assert packed.nbytes == 64 + values.nbytes
    found = unpack(packed, values.dtype)
    assert (found.kind, found.epoch, found.time, found.rate, found.ends) == (2, 7, 1.5, 0.25, ends)
    assert found.values.tolist() == values.tolist()
    assert found.values.flags.aligned
