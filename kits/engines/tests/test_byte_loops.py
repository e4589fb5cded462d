"""Functions of a file, compiled as they are written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cntk_core.api.engines import NotNative, byte_loop, can_compile

pytestmark = pytest.mark.skipif(not can_compile(), reason="needs llvmlite")

LOST = '''
def lost(numbers):
    """What a sum of two numbers loses by rounding."""
    total = numbers[0] + numbers[1]
    rest = total - numbers[0]
    return add(numbers[0] - (total - rest), numbers[1] - rest)
'''
ADD = """
def add(a, b):
    return a + b
"""


def test_sums_keep_their_order_and_libraries_are_found(tmp_path: Path) -> None:
    """With the liberties that kernels have, nothing would be lost."""
    source, library = tmp_path / "lost.py", tmp_path / "add.py"
    source.write_text(LOST)
    library.write_text(ADD)
    lost = byte_loop(str(source), "lost", "float64(float64[::1])", str(library))
    assert lost(np.array([1.0, 2.0**-60])) == 2.0**-60
    assert lost(np.array([0.1, 0.2])) == -(2.0**-55)


def test_two_loops_have_numbers_of_their_own(tmp_path: Path) -> None:
    """Objects have constants under the same names; each finds its own."""
    found = []
    for name, factor in (("one", 3.5), ("two", 7.25)):
        source = tmp_path / f"{name}.py"
        source.write_text(f"def scaled(numbers):\n    return numbers[0] * {factor} + {factor * 2}\n")
        found.append(byte_loop(str(source), "scaled", "float64(float64[::1])"))
    assert [loop(np.array([2.0])) for loop in found] == [14.0, 29.0]


def test_what_cannot_be_compiled_is_said(tmp_path: Path) -> None:
    source = tmp_path / "wrong.py"
    source.write_text("def wrong(text):\n    return [1]\n")
    with pytest.raises(NotNative) as caught:
        byte_loop(str(source), "wrong", "int64(uint8[::1])")
    assert caught.value.args[0] == "wrong, line 2: List is not known"
