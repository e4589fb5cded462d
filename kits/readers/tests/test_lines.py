from __future__ import annotations

import io
import tracemalloc

import numpy as np
import pytest

from cntk_core.errors import DataError
from cntk_kit_readers.lines import bounded_lines
from cntk_kit_readers.precision import in_precision


class Counting(io.BytesIO):
    """A file that counts the bytes which are asked for."""

    asked = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        found = super().readline(size)
        self.asked += len(found)
        return found


@pytest.mark.parametrize("data", [b"", b"\n", b"abc", b"abc\n", b"abc\r\nabc\nd", b"abc\r\n\r\nabc"])
def test_lines_up_to_the_limit(data: bytes) -> None:
    assert b"".join(bounded_lines(io.BytesIO(data), 3, "f")) == data
    assert list(bounded_lines(io.BytesIO(data), 3, "f")) == list(io.BytesIO(data))


@pytest.mark.parametrize("data", [b"ab\nabcd", b"ab\nabcd\n", b"ab\nabcd\r\n", b"ab\nabc\r\r\n", b"ab\n" + b"x" * 9000])
def test_a_longer_line(data: bytes) -> None:
    file = Counting(data)
    with pytest.raises(DataError) as caught:
        list(bounded_lines(file, 3, "f"))
    assert str(caught.value) == (
        "f:2: the line has more than 3 bytes, maxLineBytes=3\n"
        "    Is it the right file? If it is, give the reader a larger maxLineBytes."
    )
    assert file.asked <= 3 + 5


@pytest.mark.parametrize(("value", "shown"), [(1e39, "1e+39"), (-1e300, "-1e+300"), (3.4028236e38, "3.40282e+38")])
def test_values_that_are_too_large(value: float, shown: str) -> None:
    with pytest.raises(OverflowError, match=f"^{shown} is too large for float32$".replace("+", r"\+")):
        in_precision(np.array([1, np.inf, value]), np.dtype(np.float32))
    assert in_precision(np.array([value]), np.dtype(np.float64)).tolist() == [value]


def test_other_values_stay_what_they_are() -> None:
    values = np.array([0, -0.0, 1e-50, 0.1, 3.4028234e38, np.inf, -np.inf, np.nan])
    found = in_precision(values, np.dtype(np.float32))
    with np.errstate(over="ignore"):
        assert found.tobytes() == values.astype(np.float32).tobytes()
    same = values.astype(np.float32)
    assert in_precision(same, np.dtype(np.float32)) is same
    assert in_precision(same, np.dtype(np.float64)).dtype == np.float64


def test_nothing_but_the_values_is_reserved() -> None:
    values = np.ones(1 << 20)
    tracemalloc.start()
    in_precision(values, np.dtype(np.float32))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 << 20
