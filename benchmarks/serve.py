"""A candidate as a server process: it does steps when it is told to, and says what they cost.

Commands on standard input, one line each: ``steps N``, ``save FILE``, ``quit``. Answers are JSON lines.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time

import numpy as np
from workloads import WORKLOADS


def main() -> None:
    """Serve the candidate of the command line: ``serve.py NAME WORKLOAD THREADS``."""
    name, workload, threads = sys.argv[1], WORKLOADS[sys.argv[2]], int(sys.argv[3])
    answers = sys.stdout
    sys.stdout = sys.stderr  # what libraries print must not be taken for an answer
    try:
        candidate = importlib.import_module(f"candidates.{name}").Candidate(workload, threads)
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), file=answers, flush=True)
        return
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        if command == "steps":
            wall, cpu = time.perf_counter(), time.process_time()
            loss = candidate.steps(int(argument))
            answer = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "loss": loss}
        elif command == "save":
            np.savez(argument, **candidate.parameters())
            answer = {"saved": argument}
        else:
            return
        answer["peak_memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
