"""Settings of all tests of the workspace."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator

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
    # Ranks that wait for each other leave the processors to the other workers.
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")

from hypothesis import settings  # noqa: E402 - what it imports is to be kept too

from tests.bytecode import compile_part, worker  # noqa: E402
from tests.caches import compile_quickly, shared_caches  # noqa: E402
from tests.folder_report import FolderReport  # noqa: E402
from tests.kept_metadata import keep_metadata  # noqa: E402
from tests.shares import in_shares  # noqa: E402
from tests.tiers import EXAMPLES, MARKERS, Group, Tier, arrange  # noqa: E402

# Tests assert no times: a loaded machine may take as long as it likes for one example.
for _tier, _count in EXAMPLES.items():
    settings.register_profile(_tier.name.lower(), deadline=None, max_examples=_count)
settings.load_profile(Tier.DEFAULT.name.lower())


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--tier`` and its short form ``--thorough``."""
    names = [tier.name.lower() for tier in Tier]
    parser.addoption("--tier", choices=names, help="how much is run; tests/tiers.py says what is in which tier")
    parser.addoption(
        "--thorough", action="store_const", const="thorough", dest="tier", help="short for --tier thorough"
    )


def tier_of(config: pytest.Config) -> Tier:
    """Return the tier of a run; ``-m "not slow"`` is the quick one."""
    chosen = config.getoption("tier")
    if chosen is not None:
        return Tier[chosen.upper()]
    return Tier.QUICK if config.getoption("markexpr") == "not slow" else Tier.DEFAULT


def pytest_configure(config: pytest.Config) -> None:
    """Register markers and report, keep what is compiled, and choose how many examples hypothesis tries."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    if tier_of(config) is not Tier.THOROUGH:  # that one compiles as users do
        compile_quickly()
    caches = shared_caches()
    caches.__enter__()
    config.add_cleanup(lambda: caches.__exit__(None, None, None))
    config.add_cleanup(keep_metadata())
    if "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(FolderReport())
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile(tier_of(config).name.lower())


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect tests without looking for garbage among them: there is none. What is imported for that is compiled first.

    Hypothesis would look in all modules of ours for constants to try, which takes seconds for each worker; and what it
    draws would depend on what other tests have imported.
    """
    gc.disable()
    share = worker()
    if share is not None:
        compile_part(session.config, session.config.rootpath, *share)
    if tier_of(session.config) is not Tier.THOROUGH:
        draw_without_constants()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what belongs to a later tier, and remember the samples for those who ask for ``samples``.

    What is slow comes first in the share of each worker, so that none begins with it when the others have ended.
    """
    arrangement = arrange(items)
    config.stash[SAMPLES] = arrangement.samples
    later = [item for item, first in arrangement.tiers.items() if first > tier_of(config)]
    config.hook.pytest_deselected(items=later)
    gone = set(later)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items[:] = in_shares([item for item in items if item not in gone], workers, is_quick)


def is_quick(item: pytest.Item) -> bool:
    """Whether a test is not marked as slow."""
    return item.get_closest_marker("slow") is None


SAMPLES = pytest.StashKey[list[Group]]()


@pytest.fixture(scope="session")
def samples(pytestconfig: pytest.Config) -> list[Group]:
    """The samples of all tests that were collected."""
    return pytestconfig.stash[SAMPLES]


def draw_without_constants() -> None:
    """Keep Hypothesis from reading our modules; it has no setting for that, and if its parts change, it reads them."""
    from hypothesis.internal.conjecture import providers

    if hasattr(providers, "_get_local_constants") and hasattr(providers, "_local_constants"):
        providers._get_local_constants = lambda: providers._local_constants


EARLY = pytest.StashKey[set[str]]()


@pytest.fixture(scope="session")
def early_imports(pytestconfig: pytest.Config) -> set[str]:
    """The packages that were imported when all tests were collected."""
    return pytestconfig.stash[EARLY]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Take the thousands of collected tests out of the collector's sight: tests that collect garbage are quick then.

    What tests leave is looked for less often than usual: compilers make many objects, and it was a tenth of the time.
    """
    session.config.stash[EARLY] = {name.partition(".")[0] for name in sys.modules}
    gc.freeze()
    gc.set_threshold(20_000, *gc.get_threshold()[1:])


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
    return tier_of(pytestconfig) is Tier.THOROUGH
