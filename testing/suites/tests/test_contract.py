"""A test of a contract cannot be replaced quietly."""

from __future__ import annotations

import pytest

from cntk_core.config import option, options
from cntk_core.contract.reader import DataReader
from cntk_testing import LearnerContract
from cntk_testing.contract import check_component, overridden_tests


class Replaced(LearnerContract):
    def test_rate_0_changes_nothing(self, learner):
        pass

    test_precision_is_kept = None


class Admitted(LearnerContract):
    @pytest.mark.xfail(reason="adds noise")
    def test_rate_0_changes_nothing(self, learner):
        raise AssertionError


class Silent(LearnerContract):
    @pytest.mark.xfail
    def test_rate_0_changes_nothing(self, learner):
        raise AssertionError


class Skipped(LearnerContract):
    @pytest.mark.skip(reason="do not care")
    def test_rate_0_changes_nothing(self, learner):
        raise AssertionError


class More(LearnerContract):
    def test_something_else(self):
        pass


def test_overrides_are_found():
    assert overridden_tests(Replaced) == ["test_precision_is_kept", "test_rate_0_changes_nothing"]
    assert overridden_tests(Silent) == overridden_tests(Skipped) == ["test_rate_0_changes_nothing"]
    assert overridden_tests(Admitted) == overridden_tests(More) == overridden_tests(LearnerContract) == []


def test_the_test_that_finds_them_cannot_be_replaced_either():
    hidden = type("Hidden", (LearnerContract,), {"test_no_contract_test_is_overridden": lambda self: None})
    assert overridden_tests(hidden) == ["test_no_contract_test_is_overridden"]


def test_the_message():
    with pytest.raises(AssertionError) as error:
        Silent().test_no_contract_test_is_overridden()
    assert str(error.value).startswith(
        "Silent overrides tests of its contract: test_rate_0_changes_nothing. "
        "Mark the override with pytest.mark.xfail(reason=...), or remove it."
    )


def test_names_of_the_package():
    import cntk_testing as package

    for name in package.__all__:
        assert getattr(getattr(package, name), "__name__", "README") == name
    assert dir(package) == sorted(package.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'OopContract'"):
        _ = package.OopContract


def test_options_that_are_the_cores():
    @options
    class Options:
        reader_type: str = "x"
        kind: int = option(default=0, key="module")

    odd = type("Odd", (DataReader,), {"options": Options, "requires_api": "1.0"})
    with pytest.raises(AssertionError, match="Odd has options with names that are the core's: module, readertype"):
        check_component(odd)
