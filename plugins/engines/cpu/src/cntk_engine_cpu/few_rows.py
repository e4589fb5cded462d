"""Source text of products of very few rows with large weights: they cost no more than reading the weights once.

A library rearranges the weights first, which pays from about four rows on. Here every other time step goes through
the weights in the opposite direction, so that a part of them is still in the cache from the step before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

MOST_ROWS = 3

LARGE = 1 << 15
"""Weights from which this is worth its compilation."""


def pays(weights: NDArray[Any], *, transposed: bool) -> bool:
    """Whether these products are faster than the library's for some weights, as they are stored."""
    outer, inner = weights.shape
    return weights.size >= LARGE and (not transposed or inner >= outer)


def source(name: str, *, transposed: bool, accumulate: bool) -> list[str]:
    """Lines of functions ``NAME_1``, ..., ``NAME_3(x, w, y, a, odd)``, one for each number of rows.

    The rows of ``y`` from ``a`` on get those of ``x`` times ``w``, which is ``(inner, outer)`` or, ``transposed``,
    ``(outer, inner)``.
    """
    lines: list[str] = []
    for rows in range(1, MOST_ROWS + 1):
        lines += ["", f"def {name}_{rows}(x, w, y, a, odd):"]
        body = _dot_products(rows, accumulate) if transposed else _sums_of_rows(rows, accumulate)
        lines += [f"    {line}" for line in body]
    return lines


def call(name: str, x: str, w: str, y: str, otherwise: str) -> list[str]:
    """Lines that call the function for ``n`` rows from ``a`` in time step ``t``, or do something else for more rows."""
    lines = []
    for rows in range(1, MOST_ROWS + 1):
        lines += [f"{'el' * (rows > 1)}if n == {rows}:", f"    {name}_{rows}({x}, {w}, {y}, a, t & 1)"]
    return [*lines, "else:", f"    {otherwise}"]


def _sums_of_rows(rows: int, accumulate: bool) -> Iterator[str]:
    """The rows of the weights, each times a number of ``x``, summed up four at a time."""
    yield "inner, outer = w.shape"
    if not accumulate:
        yield "for j in range(outer):"
        yield from (f"    y[a + {row}, j] = F(0)" for row in range(rows))
    yield "blocks = inner // 4"
    yield "for q in range(blocks):"
    yield "    k = (blocks - 1 - q if odd else q) * 4"
    yield from (f"    x{row}{place} = x[a + {row}, k + {place}]" for row in range(rows) for place in range(4))
    yield "    for j in range(outer):"
    yield from (f"        w{place} = w[k + {place}, j]" for place in range(4))
    for row in range(rows):
        yield f"        y[a + {row}, j] += " + " + ".join(f"x{row}{place} * w{place}" for place in range(4))
    yield "for k in range(blocks * 4, inner):"
    yield from (f"    x{row} = x[a + {row}, k]" for row in range(rows))
    yield "    for j in range(outer):"
    yield from (f"        y[a + {row}, j] += x{row} * w[k, j]" for row in range(rows))


def _dot_products(rows: int, accumulate: bool) -> Iterator[str]:
    """The products of each row of ``x`` with each row of the weights, two of these at a time."""
    sign = "+=" if accumulate else "="
    yield "outer, inner = w.shape"
    yield "blocks = outer // 2"
    yield "for q in range(blocks):"
    yield "    j = (blocks - 1 - q if odd else q) * 2"
    yield from (f"    s{row}0 = s{row}1 = F(0)" for row in range(rows))
    yield "    for k in range(inner):"
    yield "        w0 = w[j, k]"
    yield "        w1 = w[j + 1, k]"
    for row in range(rows):
        yield f"        s{row}0 += x[a + {row}, k] * w0"
        yield f"        s{row}1 += x[a + {row}, k] * w1"
    for row in range(rows):
        yield f"    y[a + {row}, j] {sign} s{row}0"
        yield f"    y[a + {row}, j + 1] {sign} s{row}1"
    yield "for j in range(blocks * 2, outer):"
    for row in range(rows):
        yield f"    s{row} = F(0)"
    yield "    for k in range(inner):"
    yield from (f"        s{row} += x[a + {row}, k] * w[j, k]" for row in range(rows))
    yield from (f"    y[a + {row}, j] {sign} s{row}" for row in range(rows))
