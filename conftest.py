"""Settings of all tests of the workspace."""

from __future__ import annotations

import gc

import pytest
from hypothesis import settings

# Tests assert no times: a loaded machine may take as long as it likes for one example.
settings.register_profile("workspace", deadline=None)
# What is run with -m "not slow" after every edit: a part of the examples. The whole run has them all.
settings.register_profile("quick", deadline=None, max_examples=15)
settings.load_profile("workspace")


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples hypothesis tries, unless the command line does."""
    if config.getoption("markexpr") == "not slow" and not config.getoption("--hypothesis-profile"):
        settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow all but each n-th of the parameters of a test that is ``sampled(n)``, or whose class is."""
    counts: dict[str, int] = {}
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is not None:
            group = item.nodeid.partition("[")[0]
            counts[group] = counts.get(group, -1) + 1
            if counts[group] % sampled.args[0]:
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Take the thousands of collected tests out of the collector's sight: tests that collect garbage are quick then."""
    gc.collect()
    gc.freeze()
