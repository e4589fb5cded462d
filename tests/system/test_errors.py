"""What errors keep, and what is said of values, of words and of several errors together."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.errors import (
    CntkError,
    Location,
    MissingPluginError,
    Problems,
    WrongResult,
    collect,
    did_you_mean,
    nearest,
    raise_problems,
    shown,
)


def test_an_error_is_its_message_with_place_and_remedy():
    error = CntkError("it failed", where=Location("r.cntk", 3, 5), hint="Mend it.\nOr not.")
    assert error.args == ("it failed",)
    assert str(error) == "r.cntk:3:5: it failed\n    Mend it.\n    Or not."
    assert str(CntkError("it failed")) == "it failed"
    for place, text in ((Location("", 0, 0), "<text>"), (Location("a", 0, 4), "a"), (Location("a", 2, 0), "a:2")):
        assert str(place) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        ((1, 2), "2 values"),
        ([], "0 values"),
        (np.zeros((2, 3)), "an array of (2, 3)"),
        ("x" * 38, f"'{'x' * 38}'"),
        ("x" * 39, "a str"),
        (CntkError("a"), "a CntkError"),
        (Location("a"), "a Location"),
    ],
)
def test_values_in_a_few_words(value, text):
    assert shown(value) == text


def test_a_wrong_result_names_the_function_of_a_method():
    class Rule:
        def rule(self):
            """Give nothing."""

    error = WrongResult(Rule().rule, "returned None")
    assert error.function is Rule.rule
    assert str(error) == f"{Rule.rule.__qualname__} returned None"
    assert str(WrongResult("a name", "returned None")) == "a name returned None"


def test_several_errors_are_one():
    first, second = CntkError("one"), CntkError("two")
    raise_problems([])
    with pytest.raises(CntkError) as caught:
        raise_problems([first])
    assert caught.value is first
    with pytest.raises(Problems) as several:
        raise_problems([first, second])
    assert several.value.errors == (first, second)
    assert several.value.message == "2 problems"
    assert str(several.value) == "one\ntwo\n2 problems found"


def test_what_is_missing_is_installed_together():
    missing = [MissingPluginError(f"no {name}", requirement=name) for name in ("a", "b", "a")]
    assert [error.requirement for error in missing] == ["a", "b", "a"]
    assert str(Problems(missing)).splitlines()[-2:] == ["All that is missing: pip install a b", "3 problems found"]
    assert "All that is missing" not in str(Problems([missing[0], missing[2]]))
    assert MissingPluginError("no c").requirement == ""


def test_errors_are_put_to_others():
    found: list[CntkError] = []
    first, second, third = (CntkError(name) for name in ("one", "two", "three"))

    def fail(*errors: CntkError):
        raise_problems(errors)
        return "read"

    assert collect(fail, found) == "read"
    assert collect(lambda: fail(first), found) is None
    assert collect(lambda: fail(second, third), found) is None
    assert found == [first, second, third]
    with pytest.raises(ValueError, match="else"):
        collect(lambda: int("else"), found)


def test_words_that_were_meant():
    known = ["Plus", "Minus", "Sigmoid", "tAble", "bale"]
    assert nearest("sigmiod", known) == "Sigmoid"
    assert nearest("PULS", known) == "Plus"
    assert nearest("abel", ["able", "abe"]) == "able"  # letters that changed places, although the other is nearer
    assert nearest("quite else", known) is None
    assert did_you_mean("Mnus", known) == "; did you mean 'Minus'?"
    assert did_you_mean("quite else", known) == ""
