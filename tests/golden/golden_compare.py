"""Compares what a run gave with what is expected of it; the first difference is an AssertionError with its place."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import attrs
from golden_figures import events_of, file_of


@attrs.frozen
class Tolerance:
    """Two numbers are equal if they differ by at most ``absolute + relative * larger``."""

    relative: float
    absolute: float

    def close(self, a: float, b: float) -> bool:
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        if math.isinf(a) or math.isinf(b):
            return a == b
        return abs(a - b) <= self.absolute + self.relative * max(abs(a), abs(b))

    def for_key(self, record: dict[str, Any], key: str) -> Tolerance:
        """The line that begins an epoch shows only six decimals, and one for the time constant."""
        if record.get("event") != "epoch_start" or key == "epoch":
            return self
        return Tolerance(self.relative, max(self.absolute, 0.11 if key == "time_constant" else 1.1e-6))


def compare(expected: Any, got: Any, tolerance: Tolerance, where: str) -> None:
    """Numbers must be close, all else equal; further keys of a record do not count."""
    if isinstance(expected, dict):
        assert isinstance(got, dict), f"{where}: expected a record, got {got!r}"
        for key, value in expected.items():
            assert key in got, f"{where}: '{key}' is missing"
            compare(value, got[key], tolerance.for_key(expected, key), f"{where}.{key}")
    elif isinstance(expected, list):
        assert isinstance(got, list), f"{where}: expected a list, got {got!r}"
        for index, (left, right) in enumerate(zip(expected, got, strict=False)):
            compare(left, right, tolerance, f"{where}[{index}]")
        assert len(expected) == len(got), f"{where}: expected {len(expected)} items, got {len(got)}"
    else:
        assert _equal(expected, got, tolerance), f"{where}: expected {expected!r}, got {got!r}"


def _equal(expected: Any, got: Any, tolerance: Tolerance) -> bool:
    if expected == got or (isinstance(expected, int) and isinstance(got, int)):
        return bool(expected == got)
    try:
        return tolerance.close(float(expected), float(got))
    except (TypeError, ValueError):
        return False


def check_run(run: dict[str, Any], code: int, output: str, tolerance: Tolerance) -> None:
    """Exit status, patterns in the output and figures of the log of one run."""
    tail = " | ".join(line.strip() for line in output.strip().splitlines()[-3:])
    assert (code == 0) == (run["exit"] == 0), f"expected exit status {run['exit']}, got {code}: {tail}"
    for pattern in run.get("says", []):
        assert re.search(pattern, output, re.IGNORECASE), f"the output does not say /{pattern}/: {tail}"
    if "events" not in run:
        return
    kinds = set(run.get("event_types") or [event["event"] for event in run["events"]])
    got = [event for event in events_of(output) if event["event"] in kinds]
    for index, (left, right) in enumerate(zip(run["events"], got, strict=False)):
        compare(left, right, tolerance, f"event {index + 1} of the log ({left['event']}, epoch {left.get('epoch')})")
    assert len(run["events"]) == len(got), f"expected {len(run['events'])} events in the log, got {len(got)}"


def check_file(path: Path, spec: dict[str, Any], tolerance: dict[str, float]) -> None:
    """One file of the run folder."""
    if spec["kind"] == "absent":
        assert not path.exists(), f"{path.name} should not be there"
        return
    assert path.exists(), f"{path.name} was not written"
    if spec["kind"] == "exists":
        return
    near = Tolerance(spec.get("rel", tolerance["value_rel"]), spec.get("abs", tolerance["value_abs"]))
    compare(spec["content"], file_of(path, spec["kind"]), near, path.name)
