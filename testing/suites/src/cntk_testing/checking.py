"""The pytest plugin of ``cntk plugins check``: of a wheel's own tests, the contract classes that are about one plugin.

``CNTK_CHECK`` says what is wanted, and where the outcome is written: a JSON object as :class:`Wanted` writes it. A
class is about a plugin if its contract was given the plugin's class, or if its recipe has the plugin's name.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from pathlib import Path
from typing import Any

import attrs
import pytest

from cntk_testing import contract
from cntk_testing.contract import HOME, Contract

VARIABLE = "CNTK_CHECK"
_FIRST = ("test_component", "test_ranks_know_themselves", "test_the_recipe_runs_and_resumes")
"""Tests that show which plugin a class is about."""


@attrs.frozen
class Wanted:
    """What is asked for.

    Attributes:
        suites: names of the contracts of the plugin's kind.
        others: names of the contracts of other kinds, whose classes are left out.
        name: the plugin's name in a recipe.
        component: its class, as :func:`identity` names it.
        outcome: the file for a JSON object: ``passed``, suite to the number of its tests that passed, of classes about
            the plugin, and ``failed``, how many of these failed.
    """

    suites: tuple[str, ...] = attrs.field(converter=tuple)
    others: tuple[str, ...] = attrs.field(converter=tuple)
    name: str
    component: str
    outcome: str

    def wants(self, suite: Any) -> bool:
        """Tell whether a test class may be about the plugin."""
        if not (isinstance(suite, type) and issubclass(suite, Contract)):
            return False
        names = suite_names(suite)
        return any(name in names for name in (*self.suites, "RecipeContract")) and not names.intersection(self.others)

    def is_about(self, components: list[Any], recipes: list[str]) -> bool:
        """Tell whether what a class has tested is the plugin."""
        word = re.compile(rf"(?<!\w){re.escape(self.name)}(?!\w)", re.IGNORECASE)
        return any(identity(one) == self.component for one in components) or any(map(word.search, recipes))


def identity(component: Any) -> str:
    """Return what a class is known by, however it was imported: its file and its name there."""
    return f"{Path(inspect.getfile(component)).resolve()}:{component.__qualname__}"


def suite_names(suite: type) -> set[str]:
    """Return the names of the contracts that a test class derives from."""
    return {base.__name__ for base in suite.__mro__ if base.__module__.startswith(HOME)}


class Checking:
    """Runs what is wanted and notes what came of it."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.passed: dict[type, int] = {}
        self.failed: dict[type, int] = {}
        self.about: dict[type, bool] = {}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out other tests; of each class, what shows what it is about comes first."""
        chosen = [item for item in items if self.wanted.wants(getattr(item, "cls", None))]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
        order = {suite: number for number, suite in enumerate(dict.fromkeys(_suite(item) for item in chosen))}
        chosen.sort(key=lambda item: (order[_suite(item)], getattr(item, "originalname", "") not in _FIRST))
        items[:] = chosen

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Note what a test was about."""
        contract.CHECKED.clear()
        contract.RECIPES.clear()
        yield
        suite = _suite(item)
        if contract.CHECKED or contract.RECIPES:
            found = self.wanted.is_about(contract.CHECKED, contract.RECIPES)
            self.about[suite] = self.about.get(suite, False) or found

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip the other tests of a class that has shown to be about another plugin."""
        if self.about.get(_suite(item)) is False and getattr(item, "originalname", "") not in _FIRST:
            pytest.skip("another plugin's")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Any:
        """Count what passes and what fails."""
        report = (yield).get_result()
        counts = self.failed if report.failed else self.passed if report.passed and report.when == "call" else {}
        counts[_suite(item)] = counts.get(_suite(item), 0) + 1

    def pytest_sessionfinish(self) -> None:
        """Write what came of it."""
        counts: dict[str, int] = {}
        about = [suite for suite, is_about in self.about.items() if is_about]
        for suite in about:
            name = next((name for name in self.wanted.suites if name in suite_names(suite)), "RecipeContract")
            counts[name] = counts.get(name, 0) + self.passed.get(suite, 0)
        found = {"passed": counts, "failed": sum(self.failed.get(suite, 0) for suite in about)}
        Path(self.wanted.outcome).write_text(json.dumps(found), encoding="utf-8")


def _suite(item: pytest.Item) -> type:
    suite: type = item.cls  # type: ignore[attr-defined]
    return suite


def pytest_configure(config: pytest.Config) -> None:
    """Begin, if the variable says what is wanted."""
    text = os.environ.get(VARIABLE)
    if text:
        config.pluginmanager.register(Checking(Wanted(**json.loads(text))))
