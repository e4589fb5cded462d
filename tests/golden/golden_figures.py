"""What a log and the files of a run say, as plain records that can be compared."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]

NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf|NAN|INF|-nan)"
_VALUES = re.compile(rf"{NUMBER}(\s|$)")
_CRITERION = re.compile(rf"([^=;\[\]]+?) = ({NUMBER})(%?) \* (\d+)")
_SEEN = re.compile(r"totalSamplesSeen = (\d+)")
_RATE = re.compile(rf"learningRatePerSample = ({NUMBER})")
_PERPLEXITY = re.compile(rf"perplexity = ({NUMBER})")


def events_of(log: str) -> list[Record]:
    """The figures of a log, in order."""
    return [event for line in log.splitlines() for event in _events_of_line(line)]


def _events_of_line(line: str) -> Iterator[Record]:
    for pattern, read in _LINES:
        match = pattern.search(line)
        if match is not None:
            yield read(match)
            return


def _criteria(text: str) -> dict[str, list[float]]:
    return {
        name.strip(" ;"): [float(value) / 100 if percent else float(value), int(count)]
        for name, value, percent, count in _CRITERION.findall(text)
    }


def _with(record: Record, text: str, **patterns: re.Pattern[str]) -> Record:
    """Add the numbers that patterns find, under their names."""
    for name, pattern in patterns.items():
        found = pattern.search(text)
        if found is not None:
            record[name] = int(found[1]) if name == "seen" else float(found[1])
    return record


def _epoch_start(m: re.Match[str]) -> Record:
    numbers = {"lr": float(m[2]), "momentum": float(m[3]), "time_constant": float(m[4])}
    return {"event": "epoch_start", "epoch": int(m[1]), **numbers}


def _minibatch(m: re.Match[str]) -> Record:
    place = {"epoch": int(m[1]), "first": int(m[3]), "last": int(m[4])}
    return {"event": "minibatch", **place, "criteria": _criteria(m[5])}


def _epoch_end(m: re.Match[str]) -> Record:
    record = {"event": "epoch_end", "epoch": int(m[1]), "phase": m[3], "criteria": _criteria(m[4])}
    return _with(record, m[4], seen=_SEEN, lr=_RATE)


def _mini_epoch(m: re.Match[str]) -> Record:
    record = {"event": "mini_epoch", "epoch": int(m[1]), "criteria": _criteria(m[2]), "minibatch_size": int(m[3])}
    return _with(record, m[2], lr=_RATE)


def _final(m: re.Match[str]) -> Record:
    return _with({"event": "final", "last": int(m[2]), "criteria": _criteria(m[3])}, m[3], perplexity=_PERPLEXITY)


def _best(m: re.Match[str]) -> Record:
    return {"event": "cv_best", "index": int(m[1]), "model": Path(m[2]).name, "err": float(m[3])}


_LINES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Record]], ...] = (
    (
        re.compile(
            rf"Starting Epoch (\d+): learning rate per sample = ({NUMBER})\s+effective momentum = ({NUMBER})"
            rf"\s+momentum as time constant = ({NUMBER}) samples"
        ),
        _epoch_start,
    ),
    (
        re.compile(r"Epoch\[\s*(\d+) of (\d+)\]-Minibatch\[\s*(\d+)-\s*(\d+)(?:, *[\d.]+%)?\]: (.*)"),
        _minibatch,
    ),
    (re.compile(r"Finished Epoch\[\s*(\d+) of (\d+)\]: \[(Training|Validate)\] (.*)"), _epoch_end),
    (re.compile(r"Final Results: Minibatch\[(\d+)-(\d+)\]: (.*)"), _final),
    (re.compile(r"Finished Mini-Epoch\[(\d+)\]: (.*)minibatchSize = (\d+)"), _mini_epoch),
    (
        re.compile(rf"Best learningRatePerSample = ({NUMBER}), baseCriterion\s*=\s*({NUMBER})"),
        lambda m: {"event": "search_result", "lr": float(m[1]), "base": float(m[2])},
    ),
    (
        re.compile(rf"learnRatePerSample (reduced|increased) to ({NUMBER})"),
        lambda m: {"event": f"lr_{m[1]}", "lr": float(m[2])},
    ),
    (re.compile(r"Loading \(rolling back to\) previous model"), lambda m: {"event": "rollback"}),
    (re.compile(rf"Based on Err\[(\d+)\]: Best model = (\S+) with min err ({NUMBER})"), _best),
    (
        re.compile(r"Precomputing --> (\d+) PreCompute nodes found"),
        lambda m: {"event": "precompute", "nodes": int(m[1])},
    ),
    (re.compile(r"Total Samples Evaluated = (\d+)"), lambda m: {"event": "evaluated", "samples": int(m[1])}),
)


def dump_of(text: str) -> dict[str, Record]:
    """Values of parameters in a dumpNodes file: name to operation, dimensions, rate and values."""
    nodes: dict[str, Record] = {}
    current: Record | None = None
    for line in map(str.strip, text.splitlines()):
        heading = re.match(r"^([^-+.\d\s]\S*)=([A-Za-z]\w*)\b\s*(.*)$", line)
        if line.startswith("####"):
            current = None
        elif heading is not None:
            current = nodes[heading[1]] = _dump_heading(heading)
        elif current is not None and _VALUES.match(line):  # a geometry is told in words
            current["values"].append([float(number) for number in line.split()])
    return {name: node for name, node in nodes.items() if node["values"]}


def _dump_heading(heading: re.Match[str]) -> Record:
    node: Record = {"op": heading[2], "values": []}
    dims = re.search(r"\[([\d, x*]+)\]", heading[3])
    if dims:
        node["dims"] = [int(dim) for dim in re.findall(r"\d+", dims[1])]
    rate = re.search(rf"learningRateMultiplier=({NUMBER})", heading[3])
    if rate:
        node["rate"] = float(rate[1])
    return node


def htk_of(data: bytes) -> Record:
    """Header and values of an HTK feature file."""
    frames, period, size, kind = struct.unpack(">iihh", data[:12])
    values = [list(row) for row in struct.iter_unpack(f">{size // 4}f", data[12 : 12 + frames * size])]
    return {"header": [frames, period, size, kind], "values": values}


def file_of(path: Path, kind: str) -> Any:
    """The content of a file of a run, read as ``dump``, ``tokens``, ``text`` or ``htk``."""
    if kind == "htk":
        return htk_of(path.read_bytes())
    text = path.read_text(encoding="utf-8", errors="replace")
    if kind == "dump":
        return dump_of(text)
    if kind == "tokens":
        return [line.split() for line in text.splitlines()]
    return text.splitlines()
