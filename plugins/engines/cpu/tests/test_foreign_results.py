"""What the ops of other wheels give is looked at, in loops and outside of them."""

from __future__ import annotations

import re

import pytest
from cntk_engine_cpu import CpuEngine

from cntk_testing.foreign_ops import WRONG, refusal


@pytest.mark.parametrize("name", WRONG)
def test_an_array_of_another_shape_is_refused(name):
    said = refusal(CpuEngine(), name, "float64")
    what = "" if name.startswith("value") else " as the gradient of input 1 of ForeignNarrow"
    assert re.fullmatch(rf"returned an array of \((\d+), 1\){what}, not one of \(\1, [2-9]\)", said)
