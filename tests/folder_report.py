"""Seconds by folder at the end of a run, so that a reviewer sees where its time went."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import PurePosixPath

import pytest

SHOWN = 10.0
"""Seconds that a run's tests take together before there is a report."""


class FolderReport:
    """A plugin of pytest: adds up what tests take, of one process or of all workers."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test where it lies; its fixtures too."""
        folder = folder_of(report.nodeid)
        self._seconds[folder] += report.duration
        self._tests[folder] += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show a line for each folder, the longest first."""
        total = sum(self._seconds.values())
        if total < SHOWN:
            return
        terminalreporter.section("seconds by folder (of all processes together)")
        for folder, seconds in sorted(self._seconds.items(), key=lambda item: -item[1]):
            share = 100 * seconds / total
            terminalreporter.write_line(f"{seconds:8.1f} s {share:4.0f} %  {self._tests[folder]:5d} tests  {folder}")


def folder_of(nodeid: str) -> str:
    """Return the folder of a test as the report has it.

    It is a room of the core (``tests/ops``), or the wheel whose tests these are.
    """
    path = PurePosixPath(nodeid.partition("::")[0])
    parts = path.parent.parts
    if "tests" not in parts:
        return path.parent.as_posix()
    place = parts.index("tests")
    return "/".join(parts[: 2 if place == 0 else place])
