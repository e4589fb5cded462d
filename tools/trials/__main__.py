"""Trials of what must not go wrong: kills, faults of the disk, damaged files, a clock that jumps, and others.

    python tools/trials all --record FILE         every trial, with the counts of docs/reliability.md, and its table
    python tools/trials kills --kills 40          one of them; each has --help

A trial goes well if the final model has the bytes of an undisturbed run; or if the run ends with a message that names
the reason, and the same command then comes to those bytes. Nothing may be left behind: no temporary file, no process.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from figures import write_table

PARTS = {
    "kills": "kill -9 at random moments, one process",
    "ranks": "kill -9 and other faults of one of several ranks",
    "elastic": "ranks that are lost while the others go on",
    "storage": "calls of the system that fail: full, broken, read-only",
    "power": "power that goes: writes that were not flushed are lost or in another order",
    "damage": "flipped bits and cut files of all formats",
    "data": "data files that are removed, cut or replaced while they are read",
    "clock": "a clock that jumps",
    "endurance": "a million minibatches",
    "numerics": "rates and inputs without measure",
    "figures": "write the table of a file of figures into the page",
}
WHOLE = (
    ("kills", "--kills", "700"),
    ("ranks", "--faults", "300", "--fault", "kill"),
    ("ranks", "--faults", "60"),
    ("elastic", "--faults", "20"),
    ("storage", "--faults", "500"),
    ("power", "--states", "500"),
    ("damage", "--count", "2000"),
    ("data",),
    ("clock", "--jumps", "100"),
    ("endurance", "--minibatches", "1000000"),
    ("numerics",),
)
"""What ``all`` runs."""


def run_all(record: Path) -> int:
    """Run every trial in a process of its own, and write the table; return 1 if one failed."""
    failed = []
    for command in WHOLE:
        print(f"== {' '.join(command)}", flush=True)
        words = [sys.executable, str(Path(__file__).parent), *command, "--record", str(record)]
        if subprocess.run(words, check=False).returncode:
            failed.append(command[0])
    write_table(record)
    print(f"failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def main(arguments: Sequence[str]) -> int:
    """Run the command line."""
    first = arguments[0] if arguments else ""
    if first == "all" and arguments[1:2] == ["--record"] and len(arguments) == 3:
        return run_all(Path(arguments[2]))
    if first not in PARTS:
        print(__doc__)
        print("\n".join(f"    {name:10}  {what}" for name, what in PARTS.items()))
        return 0 if first in ("-h", "--help") else 2
    return int(importlib.import_module(first).main(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
