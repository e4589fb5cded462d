"""Compares random networks with the original: values, gradients, and what some steps of a learner make of parameters.

    python tools/fuzz_original.py PYTHON --networks 200 --seed 1

PYTHON is an interpreter that has CNTK 2.7 (``import cntk``), as published: Python 3.6, on the processor. It is
third-party software and no part of this project. The same program builds each network with the original and with
``cntk-compat``; `tools/fuzzing/twin_cases.py` draws the networks. Differences are printed, with the network.

``--record`` keeps the original's figures for ``tests/original/test_random_networks.py``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from fuzzing.twin_cases import case

TWINS = Path(__file__).with_name("fuzzing") / "twins.py"
SECONDS = 3600.0
TOLERANCE = {"double": 1e-8, "float": 2e-3}
"""Relative to the largest number of an array; learners magnify how sums differ in single precision."""


@attrs.frozen
class Verdict:
    """What became of one network: ``alike``, ``both refuse``, or a difference."""

    case: Mapping[str, Any]
    kind: str
    said: str = ""


def found_by(python: str, cases: Sequence[Mapping[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Let an interpreter go through the cases; go on behind one at which it crashes."""
    folder.mkdir()
    written, results = folder / "cases.jsonl", folder / "found.jsonl"
    written.write_text("".join(json.dumps(one) + "\n" for one in cases), encoding="utf-8")
    results.touch()
    found: list[dict[str, Any]] = [{"refused": "crash"} for _ in cases]
    first = 0
    while first < len(cases):
        process = subprocess.run(
            [python, TWINS, written, results, str(first)], capture_output=True, text=True, timeout=SECONDS, check=False
        )
        lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
        for one in lines:
            if "number" in one:
                found[one["number"]] = one
        begun = [one["begun"] for one in lines if "begun" in one]
        if not begun:
            raise SystemExit(f"{python} does not begin: {process.stderr.strip()[-500:]}")
        first = begun[-1] + 1
        if process.returncode:
            found[begun[-1]] = {"refused": f"crash: {process.stderr.strip()[-300:]}"}
    return found


def judged(one: Mapping[str, Any], theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Verdict:
    """Say whether two descriptions of what was found agree."""
    if "refused" in theirs:
        if "refused" in ours:
            return Verdict(one, "both refuse", f"{theirs['refused']}\n  ours: {ours['refused']}")
        return Verdict(one, "only the original refuses", theirs["refused"])
    if "refused" in ours:
        return Verdict(one, "only we refuse", ours["refused"])
    if theirs["found"].keys() != ours["found"].keys():
        return Verdict(one, "other results", str(theirs["found"].keys() ^ ours["found"].keys()))
    for name, expected in theirs["found"].items():
        said = difference(expected, ours["found"][name], TOLERANCE[one["precision"]])
        if said:
            return Verdict(one, f"differs: {' '.join(name.split()[:1])}", f"{name}: {said}")
    return Verdict(one, "alike")


def difference(theirs: Any, ours: Any, tolerance: float) -> str:
    """Return what differs in two results, or nothing."""
    if isinstance(theirs, list):
        if theirs and not isinstance(theirs[0], dict | list):
            return "" if theirs == ours else f"{theirs} became {ours}"
        if not isinstance(ours, list) or len(theirs) != len(ours):
            return "other numbers of sequences"
        return next((said for pair in zip(theirs, ours, strict=True) if (said := difference(*pair, tolerance))), "")
    if not isinstance(ours, dict) or theirs["shape"] != ours["shape"]:
        return f"shape {theirs['shape']} became {ours['shape'] if isinstance(ours, dict) else 'a list'}"
    a, b = np.array(theirs["data"]), np.array(ours["data"])
    scale = float(np.max(np.abs(a[np.isfinite(a)]), initial=1.0))
    wrong = ~np.isclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
    if not wrong.any():
        return ""
    place = int(np.argmax(wrong))
    return f"element {place} of {a.size}, {wrong.sum()} wrong: {float(a[place])!r} became {float(b[place])!r}"


def main() -> None:
    """Compare networks and print the differences."""
    parser = argparse.ArgumentParser(description="Compare random networks with the original.")
    parser.add_argument("python", help="an interpreter that has the original, release 2.7")
    parser.add_argument("--networks", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the first network; the others follow")
    parser.add_argument("--record", type=Path, help="a file of JSON lines, compressed by gzip")
    parser.add_argument("--all", action="store_true", help="print what both refuse, too")
    options = parser.parse_args()
    cases = [case(seed) for seed in range(options.seed, options.seed + options.networks)]
    with tempfile.TemporaryDirectory() as folder:
        theirs = found_by(options.python, cases, Path(folder) / "theirs")
        ours = found_by(sys.executable, cases, Path(folder) / "ours")
    verdicts = [judged(*three) for three in zip(cases, theirs, ours, strict=True)]
    show(verdicts, everything=options.all)
    if options.record:
        record(options.record, cases, theirs)
    sys.exit(any(one.kind not in ("alike", "both refuse", "only the original refuses") for one in verdicts))


def record(file: Path, cases: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> None:
    """Write networks with what the original found of them, where it found anything."""
    lines = [
        json.dumps({"case": one, "found": said["found"]}) + "\n"
        for one, said in zip(cases, theirs, strict=True)
        if "found" in said
    ]
    file.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


def show(verdicts: Sequence[Verdict], *, everything: bool) -> None:
    """Print networks that differ, and how many there are of each kind."""
    for one in verdicts:
        if one.kind != "alike" and (everything or one.kind != "both refuse"):
            nodes = enumerate(one.case["nodes"])
            network = " ".join(f"{place}:{node.get('op', node['kind'])}{node['inputs']}" for place, node in nodes)
            print(f"{one.case['seed']} {one.kind} ({one.case['precision']}, {one.case['learner']['kind']})")
            print(f"  {network}\n  {one.said}")
    for kind, count in Counter(one.kind for one in verdicts).most_common():
        print(f"{count:6} {kind}")


if __name__ == "__main__":
    main()
