"""Decimal numbers as loops over bytes read them, run as Python: values, and which are left to others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cntk_kit_readers.decimals import (
    LARGEST_POWER,
    NO_EXPONENT,
    ODD,
    POWERS_OF_TEN,
    USUAL,
    decimal_value,
    fill_odd,
    long_quotient,
    note_odd,
    read_digits,
    read_exponent,
)
from cntk_testing.examples import examples


def text(written: str) -> memoryview:
    return memoryview(written.encode())


@pytest.mark.parametrize(
    ("mantissa", "digits", "power", "found"),
    [
        (12345678901234567, 17, -3, 12345678901234.567),
        (98765432109876543, 17, -20, 0.00098765432109876543),
        (125, 3, -2, 1.25),
        (125, 3, 2, 12500.0),
    ],
)
def test_values_of_few_and_many_digits(mantissa: int, digits: int, power: int, found: float) -> None:
    assert decimal_value(mantissa, digits, power, POWERS_OF_TEN) == (USUAL, found)


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("0123456789 ", (10, 123456789, 9)), ("00x", (2, 0, 0)), ("x", (0, 0, 0)), ("5/", (1, 5, 1)),
        ("9:", (1, 9, 1)), ("0070.", (4, 70, 2)),
    ],
)  # fmt: skip
def test_digits(written: str, found: tuple[int, int, int]) -> None:
    assert read_digits(text(written), 0, 0, 0) == found


def test_digits_go_on_after_others() -> None:
    assert read_digits(text("12.034 "), 3, 12, 2) == (6, 12034, 5)
    assert read_digits(text("0.034 "), 2, 0, 0) == (5, 34, 2)


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("12 ", (2, 12)), ("-7,", (2, -7)), ("+3\n", (2, 3)), ("0 ", (1, 0)), ("9:", (1, 9)), ("19/", (2, 19)),
        ("- ", (1, NO_EXPONENT)), ("x", (0, NO_EXPONENT)), ("+-3 ", (1, NO_EXPONENT)),
    ],
)  # fmt: skip
def test_exponents(written: str, found: tuple[int, int]) -> None:
    assert read_exponent(text(written), 0) == found


@pytest.mark.parametrize(("digits", "least"), [(3, 999), (4, 1000), (9, 1000), (40, 1000)])
def test_a_long_exponent_stays_far_from_no_exponent(digits: int, least: int) -> None:
    at, exponent = read_exponent(text("9" * digits + " "), 0)
    assert at == digits
    assert least <= exponent < NO_EXPONENT


@given(st.integers(0, 10**15 - 1), st.integers(-LARGEST_POWER, LARGEST_POWER))
@example(1, LARGEST_POWER)
@example(1, -LARGEST_POWER)
@example(10**15 - 1, 0)
def test_a_number_of_few_digits_is_that_of_float(mantissa: int, power: int) -> None:
    digits = len(str(mantissa)) if mantissa else 0
    assert decimal_value(mantissa, digits, power, POWERS_OF_TEN) == (USUAL, float(f"{mantissa}e{power}"))


@examples(200)
@given(st.integers(10**15, 10**18 - 1), st.integers(-LARGEST_POWER, 0))
@example(10**15, 0)
@example(10**18 - 1, -LARGEST_POWER)
@example(999999999999999999, -18)
def test_a_number_of_many_digits_is_that_of_float_or_left_to_others(mantissa: int, power: int) -> None:
    kind, value = decimal_value(mantissa, len(str(mantissa)), power, POWERS_OF_TEN)
    assert kind == ODD or value == float(f"{mantissa}e{power}")


def test_few_numbers_of_many_digits_are_left_to_others() -> None:
    random = np.random.default_rng(1)
    mantissas, powers = random.integers(10**15, 10**18, 300).tolist(), random.integers(-22, 1, 300).tolist()
    kinds = [long_quotient(*given, POWERS_OF_TEN)[0] for given in zip(mantissas, powers, strict=True)]
    assert kinds.count(USUAL) > 290
    # Halfway between two numbers of double precision, so the last bit is not sure.
    assert long_quotient(2**53 + 1, 0, POWERS_OF_TEN)[0] == ODD


@pytest.mark.parametrize(
    ("mantissa", "digits", "power"),
    [(1, 1, 23), (1, 1, -23), (10**18, 19, 0), (10**15, 16, 1), (123456789012345678, 18, 3)],
)
def test_what_is_left_to_others(mantissa: int, digits: int, power: int) -> None:
    assert decimal_value(mantissa, digits, power, POWERS_OF_TEN)[0] == ODD


def test_odd_numbers_are_noted_while_there_is_room() -> None:
    odd = np.zeros(6, np.int64)
    assert note_odd(1, 4, 2, odd, 0)
    assert note_odd(5, 8, 0, odd, 1)
    assert not note_odd(9, 12, 1, odd, 2)
    assert odd.tolist() == [1, 4, 2, 5, 8, 0]
    values = np.zeros((3, 1))
    assert fill_odd(b" 1e9 2e8 ", odd, values)
    assert values.tolist() == [[2e8], [0.0], [1e9]]
    assert fill_odd(b"", np.zeros(0, np.int64), values)
    single = np.zeros(3, np.float32)
    assert not fill_odd(b" 1e9 9e99", np.array([1, 4, 2, 5, 9, 0]), single)
    assert not fill_odd(b"-9e99", np.array([0, 5, 0]), single)
    largest = repr(float(np.finfo(np.float32).max)).encode()
    assert fill_odd(largest, np.array([0, len(largest), 0]), single)
