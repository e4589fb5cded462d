"""What all workers import is compiled once, in a new clone too: each of them compiles a part before it collects tests.

They import the same files in the same order at the same time, so each would compile all of them: ten seconds a worker.
"""

from __future__ import annotations

import compileall
import os
from collections.abc import Iterator, Sequence
from importlib.util import cache_from_source
from pathlib import Path

import pytest

SOURCES = ("cntk_core", "kits/*/src", "plugins/*/*/src", "testing/*/src")
"""Folders of modules, below the root."""

TESTS = ("tests", "kits/*/tests", "plugins/*/*/tests", "testing/*/tests")
"""Folders of files with tests."""


def compile_part(config: pytest.Config, root: Path, part: int, parts: int) -> None:
    """Compile one in ``parts`` of the files that are not compiled yet."""
    sources = sorted(_files(root, SOURCES, "*.py"))
    for path in sources[part::parts]:
        compileall.compile_file(path, quiet=2)
    tests = sorted(_files(root, TESTS, "test_*.py"))
    for path in tests[part::parts]:
        _rewrite(path, config)


def worker() -> tuple[int, int] | None:
    """The number of this worker and how many there are; None if there are no workers, or this is none."""
    name, count = os.environ.get("PYTEST_XDIST_WORKER", ""), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "")
    return (int(name.removeprefix("gw")), int(count)) if name.startswith("gw") and count.isdecimal() else None


def _files(root: Path, folders: Sequence[str], names: str) -> Iterator[Path]:
    for folder in folders:
        for found in root.glob(folder):
            yield from found.rglob(names)


def _rewrite(path: Path, config: pytest.Config) -> None:
    """Write a file's assertions as pytest does when it imports it, unless there is something already.

    pytest has no door to that. Where its own parts are called otherwise, nothing is done: it sees to it later.
    """
    from _pytest.assertion import rewrite

    try:
        kept = Path(cache_from_source(str(path))).parent / f"{path.stem}{rewrite.PYC_TAIL}"
        if kept.exists():
            return
        kept.parent.mkdir(exist_ok=True)
        digest, code = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, digest, kept)
    except (AttributeError, KeyError, OSError, TypeError):
        return
