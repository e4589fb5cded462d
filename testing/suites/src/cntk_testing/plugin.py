"""The pytest plugin: fixtures for tests of plugins, and readable failures of the contracts.

It imports nothing of the core before a fixture is used, so that coverage sees the core's modules being imported.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cntk_core.plugins.registry import Registry
    from cntk_testing.networks import Sample
    from cntk_testing.virtual_ranks import VirtualRanks

MODULES = (
    "action_contract",
    "aggregation_contract",
    "builder_contract",
    "communicator_contract",
    "contract",
    "dataset_contract",
    "engine_contract",
    "gradients",
    "initializer_contract",
    "learner_contract",
    "model_format_contract",
    "op_contract",
    "packaging",
    "parallel_contract",
    "parallel_samples",
    "reader_contract",
    "recipes",
    "schedule_contract",
    "verb_contract",
    "writer_contract",
)

pytest.register_assert_rewrite(*(f"cntk_testing.{name}" for name in MODULES))


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers of the contracts' tests."""
    config.addinivalue_line("markers", 'slow: takes long; left out by -m "not slow"')
    config.addinivalue_line("markers", "recipe: runs the recipe of its class")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the recipe's tests of classes without one, where another class of the wheel's tests has it."""
    recipes = sys.modules.get("cntk_testing.recipes")
    if recipes is None:
        return
    suites = {suite for item in items if (suite := getattr(item, "cls", None)) and hasattr(suite, "recipe_text")}
    shown = {recipes.wheel_folder(suite) for suite in suites if suite.recipe} - {None}
    idle = {suite for suite in suites if not suite.recipe and recipes.wheel_folder(suite) in shown}
    left_out = [item for item in items if getattr(item, "cls", None) in idle and item.get_closest_marker("recipe")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        dropped = set(left_out)
        items[:] = [item for item in items if item not in dropped]


@pytest.fixture
def registry() -> Registry:
    """A registry that knows nothing but what the test adds: wheels that are installed are not looked for."""
    from cntk_core.plugins.registry import Registry

    return Registry()


@pytest.fixture
def tiny_network() -> Sample:
    """A classifier with one hidden layer and values; ``tiny_network.minibatch(frames)`` gives data for it."""
    from cntk_testing.networks import classifier

    return classifier("float32")


@pytest.fixture
def two_ranks() -> VirtualRanks:
    """Two ranks in this process: ``two_ranks.run(work)`` calls ``work(communicator)`` on both."""
    from cntk_testing.virtual_ranks import VirtualRanks

    return VirtualRanks(2)
