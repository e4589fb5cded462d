"""What the ops of other wheels give is looked at by the interpreter, in loops and outside of them."""

from __future__ import annotations

import re

import pytest

from cntk_testing.foreign_ops import WRONG, refusal
from cntk_testing.reference import ReferenceEngine


@pytest.mark.parametrize("name", WRONG)
def test_an_array_of_another_shape_is_refused(name):
    said = refusal(ReferenceEngine(), name, "float64")
    what = "" if name.startswith("value") else " as the gradient of input 1 of ForeignNarrow"
    assert re.fullmatch(rf"returned an array of \((\d+), 1\){what}, not one of \(\1, [2-9]\)", said)
