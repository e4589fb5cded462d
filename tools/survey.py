"""Tries many faults against the tests of one room, in one process: tens in the time of one of `tools/mutants.py`.

    python tools/survey.py tests/plan --files cntk_core/plan/ --every 4 --seed 7

The tests are collected once. A forked child runs them and says which of them come to which line. Then each fault is
put into the live functions of a forked child, and the tests that come to its line are run, the quickest first, until
one fails. A fault in what runs at import, and one that only a program started by a test would meet, is not seen here:
`tools/mutants.py` judges those, and whether tests of other rooms notice what survives.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs
import coverage
import pytest
from concerned import Workspace
from faults import Fault, Site, sites_of
from live_faults import AtImportError, in_child, put, swaps
from mutants import equivalent

BASELINE = 3600.0
"""Seconds for all tests without a fault."""


@attrs.frozen
class Baseline:
    """What the tests do without a fault."""

    seconds: Mapping[str, float]
    """How long each takes that passes."""
    lines: Mapping[str, Mapping[int, Sequence[str]]]
    """The tests that come to a line, by file and number."""

    def tests(self, site: Site) -> list[str]:
        """Return the tests that come to a place, the quickest first."""
        by_line = self.lines[site.file]
        first, last = site.node.lineno, site.node.end_lineno or site.node.lineno
        coming = {test for line in range(first, last + 1) for test in by_line.get(line, ())}
        return sorted(coming & self.seconds.keys(), key=lambda test: (self.seconds[test], test))


class Survey:
    """A plugin of pytest that tries faults in place of running tests.

    Args:
        workspace: the modules and their files.
        options: of the command line.
    """

    def __init__(self, workspace: Workspace, options: argparse.Namespace) -> None:
        self._workspace, self._options = workspace, options
        self._caches = ""
        self._said: dict[str, list[pytest.TestReport]] = {}
        self.results: list[tuple[Fault, str]] = []
        """What became of each fault: ``killed``, ``at import``, or why it survived."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what pytest says of a test."""
        self._said.setdefault(report.nodeid, []).append(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try faults."""
        files = [file for file in self._files() if self._imports(file)]
        with tempfile.TemporaryDirectory(prefix="survey-") as self._caches:
            said = in_child(lambda: self._baseline(session.items, files), BASELINE)
        if not isinstance(said, Baseline):
            raise pytest.UsageError(f"the tests do not run without a fault: {said}")
        print(f"\n{len(session.items)} tests, {len(said.seconds)} pass without a fault", flush=True)
        items = {item.nodeid: item for item in session.items}
        known, end = equivalent(), time.monotonic() + self._options.seconds
        for site in self._sites(files):
            text = self._path(site.file).read_text(encoding="utf-8")
            fault = site.fault(text)
            if fault is not None and fault.key not in known:
                self.results.append((fault, self._outcome(text, fault, [items[one] for one in said.tests(site)], said)))
            if time.monotonic() > end:
                break
        return True

    def _imports(self, file: str) -> bool:
        try:
            importlib.import_module(self._workspace.modules[file])
        except Exception as error:
            print(f"{file} is left out, as it cannot be imported here: {error}")
            return False
        return True

    def _path(self, file: str) -> Path:
        return self._workspace.root / file

    def _files(self) -> list[str]:
        return [file for file in self._workspace.modules if any(part in file for part in self._options.files)]

    def _sites(self, files: Sequence[str]) -> list[Site]:
        kinds = set(filter(None, self._options.kinds.split(",")))
        found = [site for file in files for site in sites_of(file, self._path(file).read_text(encoding="utf-8"))]
        chosen = [site for site in found if not kinds or site.kind in kinds]
        random.Random(self._options.seed).shuffle(chosen)
        return chosen[:: self._options.every]

    def _baseline(self, items: Sequence[pytest.Item], files: Sequence[str]) -> Baseline:
        self._silence(items)
        os.environ["CNTK_CACHE"] = self._caches  # what comes from kept kernels does not come to what writes them
        measured = coverage.Coverage(
            data_file=None, include=[str(self._path(file)) for file in files], config_file=False
        )
        measured.start()
        self._run(items, measured.switch_context)
        measured.stop()
        lines = {file: measured.get_data().contexts_by_lineno(str(self._path(file))) for file in files}
        passed = {name for name, said in self._said.items() if all(one.passed for one in said)}
        return Baseline({name: sum(one.duration for one in self._said[name]) for name in passed}, lines)

    def _silence(self, items: Sequence[pytest.Item]) -> None:
        """Let pytest print nothing of tests that are tried, in a child."""
        items[0].config.pluginmanager.unregister(name="terminalreporter")

    def _run(self, items: Sequence[pytest.Item], before: Callable[[str], object] = str) -> None:
        for item, following in zip(items, [*items[1:], None], strict=True):
            before(item.nodeid)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    def _fails(self, items: Sequence[pytest.Item]) -> bool:
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if any(one.failed for one in self._said.get(item.nodeid, ())):
                return True
        return False

    def _outcome(self, text: str, fault: Fault, coming: Sequence[pytest.Item], baseline: Baseline) -> str:
        try:
            changes = swaps(text, fault.text, str(self._path(fault.file)))
        except AtImportError:
            return "at import"
        spent, chosen = 0.0, list[pytest.Item]()
        for item in coming:
            spent += baseline.seconds[item.nodeid]
            if not chosen or spent <= self._options.cap:
                chosen.append(item)

        def meet() -> bool | None:
            # Kernels are kept by the sources on the disk: none made without the fault is to be used, none with it kept.
            os.environ["CNTK_CACHE"] = self._caches
            try:
                put(changes)
            except AtImportError:
                return None
            self._silence(chosen)
            return self._fails(chosen)

        with tempfile.TemporaryDirectory(prefix="survey-") as self._caches:
            said = in_child(meet, 20 + 6 * min(spent, self._options.cap + 10)) if chosen else False
        if said is None:
            return "at import"
        if said is False:
            return (
                f"{len(chosen)} of the {len(coming)} tests that come here were tried"
                if coming
                else "no test comes here"
            )
        return "killed"  # or it crashed, or never ended


def show(results: Sequence[tuple[Fault, str]]) -> None:
    """Print what survived, and how much was noticed of each kind."""
    for fault, result in sorted(results, key=lambda one: (one[0].file, one[0].line)):
        if result not in ("killed", "at import"):
            print(f"{fault.file}:{fault.line} {fault.kind}: {fault.before} -> {fault.after}\n    in: {fault.where}")
            print(f"    {result}")
    tried = Counter(fault.kind for fault, result in results if result != "at import")
    killed = Counter(fault.kind for fault, result in results if result == "killed")
    for kind, count in sorted(tried.items()):
        print(f"{100 * killed[kind] / count:5.1f} % of {count:5} {kind}")
    if tried:
        mean = sum(killed[kind] / count for kind, count in tried.items()) / len(tried)
        print(f"{100 * killed.total() / tried.total():5.1f} % of {tried.total()} faults are noticed")
        print(f"{100 * mean:5.1f} % as the mean of the kinds")
    print(f"{sum(result == 'at import' for _, result in results)} more are in what runs at import: not tried")


def main() -> None:
    """Try faults and print those that no test of the room notices."""
    parser = argparse.ArgumentParser(description="See which of many faults the tests of a room do not notice.")
    parser.add_argument("tests", nargs="+", help="folders or files with tests")
    parser.add_argument(
        "--files", nargs="+", required=True, help="faults in files whose names have one of these in them"
    )
    parser.add_argument("--kinds", default="", help="only of these kinds, with commas between them")
    parser.add_argument("--every", type=int, default=1, help="only each n-th fault")
    parser.add_argument("--seed", type=int, default=1, help="which of them")
    parser.add_argument("--seconds", type=float, default=1e9, help="end after so long")
    parser.add_argument("--cap", type=float, default=12.0, help="seconds of tests for one fault")
    parser.add_argument("--tier", default="quick", help="of the tests")
    options = parser.parse_args()
    survey = Survey(Workspace(), options)
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tier", options.tier, *options.tests]
    code = pytest.main(arguments, plugins=[survey])
    show(survey.results)
    sys.exit(0 if survey.results else int(code))


if __name__ == "__main__":
    main()
