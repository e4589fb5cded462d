"""Kernels of products with sparse rows. Compiled by :func:`cntk_engine_cpu.compiler.compile_file`.

Sparse rows are ``begins`` (where the entries of each row begin, and the end), ``elements`` and ``numbers`` (of the
entries).
"""

from __future__ import annotations

from typing import Any

from cntk_engine_cpu.functions_float32 import F


def multiply(begins: Any, elements: Any, numbers: Any, weights: Any, out: Any) -> None:
    """Write the product of sparse rows with weights ``(inner, outer)``."""
    rows, columns = out.shape
    for i in range(rows):
        for j in range(columns):
            out[i, j] = F(0)
        for entry in range(begins[i], begins[i + 1]):
            number, element = numbers[entry], elements[entry]
            for j in range(columns):
                out[i, j] += number * weights[element, j]


def find(elements: Any, places: Any, found: Any) -> int:
    """Find the elements that occur.

    Args:
        elements: of the entries.
        places: -1 for each possible element; 0 for those that occur afterwards.
        found: gets the elements that occur.

    Returns:
        How many there are.
    """
    count = 0
    for entry in range(len(elements)):
        if places[elements[entry]] < 0:
            places[elements[entry]] = 0
            found[count] = elements[entry]
            count += 1
    return count


def sum_rows(begins: Any, elements: Any, numbers: Any, gradient: Any, places: Any, found: Any, sums: Any) -> None:
    """Sum the rows of a gradient for each element that occurs.

    Args:
        begins, elements, numbers: the sparse rows.
        gradient: ``(rows, columns)``.
        places: -1 for each possible element afterwards.
        found: the elements that occur, in order.
        sums: gets their rows.
    """
    mark(found, places)
    sum_columns(begins, elements, numbers, gradient, places, sums, 0, gradient.shape[1])
    unmark(found, places)


def mark(found: Any, places: Any) -> None:
    """Write the place of each element that occurs."""
    for place in range(len(found)):
        places[found[place]] = place


def unmark(found: Any, places: Any) -> None:
    """Write -1 again."""
    for place in range(len(found)):
        places[found[place]] = -1


def sum_columns(
    begins: Any, elements: Any, numbers: Any, gradient: Any, places: Any, sums: Any, first: int, count: int
) -> None:
    """Sum some columns of the rows of a gradient, between :func:`mark` and :func:`unmark`."""
    for place in range(sums.shape[0]):
        for j in range(first, first + count):
            sums[place, j] = F(0)
    for i in range(gradient.shape[0]):
        for entry in range(begins[i], begins[i + 1]):
            number, place = numbers[entry], places[elements[entry]]
            for j in range(first, first + count):
                sums[place, j] += number * gradient[i, j]
