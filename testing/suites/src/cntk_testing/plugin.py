"""The pytest plugin: fixtures for tests of plugins, and readable failures of the contracts.

It imports nothing of the core before a fixture is used, so that coverage sees the core's modules being imported.
"""

from __future__ import annotations

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
    """Register the marker of those tests of the contracts that take long."""
    config.addinivalue_line("markers", 'slow: takes long; left out by -m "not slow"')


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
