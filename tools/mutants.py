"""Puts faults into the sources, one at a time, and sees whether the tests notice.

    python tools/mutants.py --count 30 --seed 7
    python tools/mutants.py --count 10 --seed 7 --only cntk_core/plan/ kits/engines/

Faults are drawn from all modules of all wheels, by room and kind, so that the same seed and sources give the same ones.
They are made in a copy of the working tree, never in the tree itself. Each meets the quick tests of its room first; if
those pass, what else the module concerns (see `tools/concerned.py`); if those pass, too, the tests of its plugin, or
of core and kits those that import it, that are slow or of which the quick tier has a sample. That ends with the first
test that fails or never ends; it has to pass without the fault. What survives is a hole in the tests, or changes
nothing that anybody could see: then it goes to `tools/equivalent_faults.txt`, with the reason.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import attrs
from concerned import ROOT, Workspace
from faults import Fault, Site, sites_of

EQUIVALENT = ROOT / "tools" / "equivalent_faults.txt"
LIMIT = 240.0
"""Seconds for one test; a fault may make a loop endless. How long all of them take depends on what else runs."""
PLUGIN = """
from pathlib import Path

def _say(file, test):
    Path(__file__).with_name(file).write_text(test, encoding="utf-8")

def pytest_runtest_logstart(nodeid):
    _say("begun.txt", nodeid)

def pytest_runtest_logreport(report):
    if report.failed:
        _say("failed.txt", report.nodeid)
"""
"""What a run of pytest has to say to this tool: names of tests may have spaces in them."""
REST = ("-m", "slow or sampled or thinned")
"""The tests that the default tier has, and the quick one has not, or not all of them."""


@attrs.frozen
class Stage:
    """Tests that a fault meets together."""

    tests: Sequence[str]
    tier: str
    options: tuple[str, ...] = ()


@attrs.frozen
class Outcome:
    """What became of a fault."""

    fault: Fault
    result: str
    """``killed``, ``survived``, ``equivalent``, or ``unclear``: the test fails without the fault, too."""
    by: str
    seconds: float


class Copy:
    """A copy of the working tree whose modules are imported in place of those that are installed.

    Args:
        workspace: what is copied.
        folder: where to.
    """

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        self._workspace, self.folder = workspace, folder
        for file in workspace.files:
            if (workspace.root / file).is_file():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(workspace.root / file, folder / file)
        (folder / "faults_report.py").write_text(PLUGIN, encoding="utf-8")
        paths = {folder / wheel / "src" for wheel in workspace.packages.values() if wheel != Path()}
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [folder, *sorted(paths)]))}

    def write(self, file: str, text: str) -> None:
        """Change a file, and forget what was compiled from it."""
        path = self.folder / file
        path.write_text(text, encoding="utf-8")
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()

    def first_failure(self, stage: Stage) -> str:
        """Run tests up to the first that fails or never ends; return its name, or what else went wrong, or nothing."""
        options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "faults_report", "--tier", stage.tier, *stage.options]
        for name in ("begun.txt", "failed.txt"):
            (self.folder / name).unlink(missing_ok=True)
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *options, *stage.tests],
                cwd=self.folder,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            endless = self._endless(process)
            if endless or process.returncode in (0, 5):  # 5: there is no test in this tier
                return endless
            output.seek(0)
            said = output.read().strip()[-200:]
        return self._named("failed.txt") or f"pytest ended with {process.returncode}: {said}"

    def _endless(self, process: subprocess.Popen[bytes]) -> str:
        """Wait for a run; if one of its tests does not end, end the run and return the name of that test."""
        begun, since = "", time.monotonic()
        while process.poll() is None:
            time.sleep(0.1)
            if (now := self._named("begun.txt")) != begun:
                begun, since = now, time.monotonic()
            elif time.monotonic() > since + LIMIT:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return begun or "the tests are never collected"
        return ""

    def _named(self, file: str) -> str:
        path = self.folder / file
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def outcome(self, fault: Fault) -> Outcome:
        """Try a fault against the tests that it concerns."""
        began, original = time.monotonic(), (self.folder / fault.file).read_text(encoding="utf-8")
        failed, result = "", "survived"
        for stage in stages(self._workspace, fault.file):
            self.write(fault.file, fault.text)
            failed = self.first_failure(stage)
            self.write(fault.file, original)
            if failed:
                again = "::" in failed and self.first_failure(Stage([failed], stage.tier))
                result = "unclear" if again else "killed"
                break
        return Outcome(fault, result, failed, time.monotonic() - began)


def stages(workspace: Workspace, file: str) -> list[Stage]:
    """Return what a fault in a file meets, one after the other; first the tests that take something from the module."""
    room, near = workspace.room(file), sorted(workspace.taking(file))
    inside = [one for one in near if room and one.startswith(f"{room}/")]
    outside = [one for one in near if one not in inside]
    others = [one for one in workspace.concerned([file]) if one not in (room, *outside)]
    own = [*inside, room] if room else []
    late = own if room.startswith("plugins/") else inside or own  # all slow tests of a larger room take many minutes
    found = [Stage(own, "quick"), Stage([*outside, *others], "quick"), Stage(late, "default", REST)]
    return [stage for stage in found if stage.tests]


def draw(workspace: Workspace, count: int, seed: int, only: Sequence[str] = ("",)) -> list[Fault]:
    """Draw faults: a room by the number of faults that it can have, then a kind, then one of that kind."""
    rooms: dict[str, dict[str, list[Site]]] = {}
    for file, module in workspace.modules.items():
        if any(part in file for part in only) and not any("testing" in part for part in module.split(".")):
            for site in sites_of(file, (workspace.root / file).read_text(encoding="utf-8")):
                rooms.setdefault(_room(module), {}).setdefault(site.kind, []).append(site)
    chance, drawn = random.Random(seed), dict[str, Fault]()
    names = sorted(rooms)
    weights = [sum(map(len, rooms[name].values())) for name in names]
    while len(drawn) < min(count, sum(weights)):
        (room,) = chance.choices(names, weights)
        site = chance.choice(rooms[room][chance.choice(sorted(rooms[room]))])
        fault = site.fault((workspace.root / site.file).read_text(encoding="utf-8"))
        if fault is not None:
            drawn.setdefault(f"{fault.key}:{fault.line}", fault)
    return list(drawn.values())


def _room(module: str) -> str:
    """The first two parts of a module's name: a room of the core, or a file or folder of a plugin."""
    return ".".join(module.split(".")[:2])


def equivalent() -> set[str]:
    """Return the faults that change nothing: one on each line, after a line with the reason."""
    lines = EQUIVALENT.read_text(encoding="utf-8").splitlines() if EQUIVALENT.exists() else []
    return {line for line in lines if line and not line.startswith("#")}


def show(outcomes: Sequence[Outcome]) -> None:
    """Print how many of the faults that change something were noticed."""
    counts = Counter(one.result for one in outcomes)
    tried = counts["killed"] + counts["survived"]
    print(f"\nkilled {counts['killed']}, survived {counts['survived']}, equivalent {counts['equivalent']}")
    if tried:
        print(f"{100 * counts['killed'] / tried:.1f} % of {tried} faults are noticed")
    for one in outcomes:
        if one.result in ("survived", "unclear"):
            print(f"{one.result}: {one.fault.file}:{one.fault.line}\n          {one.fault.key}")


def main() -> None:
    """Try faults and print a line for each."""
    parser = argparse.ArgumentParser(description="See whether the tests notice faults in the sources.")
    parser.add_argument("--count", type=int, default=20, help="how many faults")
    parser.add_argument("--seed", type=int, default=1, help="which faults")
    parser.add_argument("--only", nargs="+", default=[""], help="only in files whose names have one of these in them")
    parser.add_argument("--least", type=float, default=0.0, help="percent that has to be noticed")
    parser.add_argument("--list", action="store_true", help="only say which faults are drawn")
    options = parser.parse_args()
    workspace, known = Workspace(), equivalent()
    faults = draw(workspace, options.count, options.seed, options.only)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = None if options.list else Copy(workspace, Path(folder))
        for number, fault in enumerate(faults, 1):
            outcome = Outcome(fault, "equivalent", "", 0.0)
            if copy is not None and fault.key not in known:
                outcome = copy.outcome(fault)
            outcomes.append(outcome)
            said = "" if copy is None else f"\n    {outcome.result} {outcome.by} ({outcome.seconds:.0f} s)"
            print(f"{number} {fault.file}:{fault.line} {fault.kind}: {fault.before} -> {fault.after}{said}", flush=True)
    if copy is not None:
        show(outcomes)
        tried = [one for one in outcomes if one.result in ("killed", "survived")]
        killed = sum(one.result == "killed" for one in tried)
        sys.exit(bool(tried) and 100 * killed < options.least * len(tried))


if __name__ == "__main__":
    main()
