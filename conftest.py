"""Settings of all tests of the workspace."""

from __future__ import annotations

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
