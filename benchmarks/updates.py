"""Time the update of each rule beside a plain copy and PyTorch's fused optimisers, interleaved in one run.

    python benchmarks/updates.py [--engine cuda] [--json F] [--rounds 9] [--only adam ...] [--peer-python PYTHON]

For each rule a table row: the minimum CPU time of an update of 10 million float32 weights in one thread (wall time on a
GPU); the bytes that
it reads and writes per second, as a fraction of those of a copy; PyTorch's time over ours. A rule that normalises its
steps by a mean goes over the parameter twice; both passes count, in the time and in the bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from candidates.engines import ENGINES
from floor import RATES, work_of
from run import compare_changes, running
from workloads import WORKLOADS, RuleUpdate

COPY = "memory_copy"
UPDATES = {workload.rule: workload for workload in WORKLOADS.values() if isinstance(workload, RuleUpdate)}


def measure(workload: RuleUpdate, rounds: int, pythons: dict[str, str], engine: str = "cpu") -> dict[str, Any]:
    """Run the comparison for one rule; return the record that ``--json`` writes."""
    names = (workload.ours, COPY, *workload.peers)
    device, figure = ("cuda", "wall") if engine == "cuda" else ("cpu", "cpu")
    with running(names, pythons, workload, 1, engine, device) as servers:
        compare_changes([server for server in servers if server.name != COPY], workload)
        for _ in range(rounds):
            for server in servers:
                server.round(workload.steps)
        found = {server.name: server for server in servers}
    ours, copy = (getattr(found[name], figure) for name in (workload.ours, COPY))
    torch = found.get("torch_update")
    torch_s = getattr(torch, figure) if torch is not None else None
    return {
        "rule": workload.rule,
        "engine": engine,
        "figure": f"minimum {figure} seconds per update",
        "elements": workload.elements,
        "streams": workload.streams,
        "ours_s": ours,
        "copy_s": copy,
        "fraction_of_copy_bandwidth": (work_of(workload).bytes / ours) / (RATES[COPY] / copy),
        "torch_s": torch_s,
        "ratio_torch": torch_s / ours if torch_s is not None else None,
        "largest_change_difference": torch.change if torch is not None else None,
    }


def show(record: dict[str, Any]) -> None:
    """Print a row."""
    ratio, change = record["ratio_torch"], record["largest_change_difference"]
    peer = f"{ratio:10.2f}  {change:.1e}" if ratio is not None else f"{'-':>10}"
    print(
        f"  {record['rule']:14} {1e3 * record['ours_s']:8.2f} {1e3 * record['copy_s']:8.2f} {record['streams']:8d} "
        f"{record['fraction_of_copy_bandwidth']:10.2f} {peer}",
        flush=True,
    )


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="Time the update of each rule.")
    parser.add_argument("--only", nargs="+", choices=sorted(UPDATES), default=list(UPDATES))
    parser.add_argument("--engine", choices=ENGINES, default="cpu", help="which of ours computes")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="write the records here")
    parser.add_argument("--peer-python", default=sys.executable, help="interpreter that has PyTorch")
    arguments = parser.parse_args()
    print(f"  {'rule':14} {'ms':>8} {'copy ms':>8} {'streams':>8} {'of copy':>10} {'torch/ours':>10}  difference")
    records = []
    for rule in arguments.only:
        records.append(
            measure(UPDATES[rule], arguments.rounds, {"torch_update": arguments.peer_python}, arguments.engine)
        )
        show(records[-1])
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
