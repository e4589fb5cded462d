"""What all contract suites share: a test of a contract may not be replaced quietly."""

from __future__ import annotations

from typing import Any

import attrs

from cntk_core.config import option_keys
from cntk_core.contract.component import API_VERSION, Component

HOME = "cntk_testing."
"""The modules whose classes are contracts."""

CHECKED: list[type] = []
"""Components that were tested, for ``cntk plugins check``, which asks whether its plugin was among them."""
RECIPES: list[str] = []
"""Recipes that were run, for the same question."""


class Contract:
    """Base of the contract suites. A plugin's test file subclasses one of them and gives it what it asks for.

    What a plugin cannot do and need not, it says by class attributes such as ``supports_double = False``; what it
    should do and does not yet, by overriding the test with ``pytest.mark.xfail(reason="...")``. Any other override of
    a contract's test fails.
    """

    def test_no_contract_test_is_overridden(self) -> None:
        """Tests of a contract are overridden with an xfail and its reason, or not at all."""
        replaced = overridden_tests(type(self))
        assert not replaced, (
            f"{type(self).__name__} overrides tests of its contract: {', '.join(replaced)}. "
            "Mark the override with pytest.mark.xfail(reason=...), or remove it."
        )


def overridden_tests(suite: type) -> list[str]:
    """Return the names of a contract's tests that a subclass replaces without an xfail and its reason."""
    ours = [base for base in suite.__mro__ if base.__module__.startswith(HOME)]
    names = {name for base in ours for name in vars(base) if name.startswith("test_")}
    return sorted(name for name in names if _replaced(suite, name))


def _replaced(suite: type, name: str) -> bool:
    first = next(base for base in suite.__mro__ if name in vars(base))
    return not first.__module__.startswith(HOME) and not _is_expected_to_fail(vars(first)[name])


def _is_expected_to_fail(test: Any) -> bool:
    marks = getattr(test, "pytestmark", [])
    return any(mark.name == "xfail" and str(mark.kwargs.get("reason", "")).strip() for mark in marks)


def check_component(component: type[Component]) -> None:
    """Check what every plugin class has: options as an attrs class, and an interface version that fits."""
    CHECKED.append(component)
    name = component.__name__
    assert attrs.has(component.options), f"{name}.options is no attrs class"
    taken = option_keys(component.options).intersection(key.lower() for key in component.core_keys)
    assert not taken, f"{name} has options with names that are the core's: {', '.join(sorted(taken))}"
    version = getattr(component, "requires_api", None)
    assert version is not None, (
        f'{name} does not say for which interface it was written: requires_api = "{API_VERSION}"'
    )
    wanted, ours = _numbers(str(version)), _numbers(API_VERSION)
    fits = wanted[0] == ours[0] and wanted[1] <= ours[1]
    assert fits, f"{name} requires interface {version}, which {API_VERSION} is not"


def _numbers(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    is_version = major.isdigit() and minor.isdigit()
    assert is_version, f"'{version}' is no interface version such as {API_VERSION}"
    return int(major), int(minor)
