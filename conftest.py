"""Settings of all tests of the workspace."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator

import pytest

# Without bytecode every process that a test starts would compile all modules anew, and pytest would rewrite the
# assertions of the whole core each time. So it is kept even where the environment says not to.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
if "PYTEST_XDIST_WORKER" in os.environ:
    # The workers have the processors to themselves already: more threads in each would wait for each other.
    # Tests of threads say how many they want.
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(_name, "1")

from hypothesis import settings  # noqa: E402 - what it imports is to be kept too

# Tests assert no times: a loaded machine may take as long as it likes for one example.
settings.register_profile("workspace", deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None)
# What is run with -m "not slow" after every edit: a part of the examples. The whole run has them all.
settings.register_profile("quick", deadline=None, max_examples=15)
settings.load_profile("workspace")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--thorough``."""
    parser.addoption(
        "--thorough",
        action="store_true",
        help="cut and kill trainings everywhere, not at a sample; run all tests, those marked thorough or thinned too",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples hypothesis tries, unless the command line does."""
    if config.getoption("--hypothesis-profile"):
        return
    if config.getoption("--thorough"):
        settings.load_profile("thorough")
    elif config.getoption("markexpr") == "not slow":
        settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop what ``thorough`` and ``thinned`` say; of a test that is ``sampled(n)`` mark all but each n-th as slow."""
    if not config.getoption("--thorough"):
        dropped = {item for item in items if item.get_closest_marker("thorough")}
        dropped.update(_thinned_out([item for item in items if item not in dropped]))
        config.hook.pytest_deselected(items=[item for item in items if item in dropped])
        items[:] = [item for item in items if item not in dropped]
    counts: dict[str, int] = {}
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is not None:
            group = item.nodeid.partition("[")[0]
            counts[group] = counts.get(group, -1) + 1
            if counts[group] % sampled.args[0]:
                item.add_marker(pytest.mark.slow)


def _thinned_out(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Of each ``op`` or ``name`` of a test that is ``thinned``, all combinations of other parameters but one.

    Which one differs from name to name, so that all are tried.
    """
    groups: dict[str, dict[object, list[pytest.Item]]] = {}
    for item in items:
        if item.get_closest_marker("thinned") is not None and isinstance(item, pytest.Function):
            params = item.callspec.params if hasattr(item, "callspec") else {}
            group = groups.setdefault(item.nodeid.partition("[")[0], {})
            group.setdefault(params.get("op", params.get("name")), []).append(item)
    for group in groups.values():
        for number, combinations in enumerate(group.values()):
            kept = number % len(combinations)
            yield from (item for place, item in enumerate(combinations) if place != kept)


def pytest_collection_finish() -> None:
    """Take the thousands of collected tests out of the collector's sight: tests that collect garbage are quick then."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def no_flush() -> Iterator[None]:
    """Leave what tests write to the system: flushing thousands of small files to the disk takes minutes.

    Nothing that a test can see depends on it; that files are flushed before they get their names is tested where saves
    are, by counting the calls.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="session")
def thorough(pytestconfig: pytest.Config) -> bool:
    """Whether everything is wanted where a sample is usual."""
    return bool(pytestconfig.getoption("--thorough"))
