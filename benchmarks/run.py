"""Time our training step beside the peers', interleaved in one run.

Each candidate is a process of its own. They do the same few steps first, after which every parameter's change is
compared; then they are asked for rounds of steps in turn, A B C A B C. The figure is the minimum CPU time of the
process per step, which other load on the machine disturbs least; with two threads or more, or on a GPU, it is
the minimum wall time. Two more processes measure what the machine multiplies and copies, which no step can surpass.

    python benchmarks/run.py --workload W1a [--threads 1] [--engine xla] [--device cuda] [--json F] [--rounds 7]
        [--steps 100] [--peers jax_jit ...] [--peer-python PYTHON]

Peers that are not installed are named and left out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from candidates.devices import DEVICES, environment
from candidates.engines import ENGINES, VARIABLE
from floor import RATES, floor
from workloads import WORKLOADS, Workload

CHECKED_STEPS = 8
HERE = Path(__file__).resolve().parent


@attrs.define
class Server:
    """A candidate's process, and the least that a step has cost so far."""

    name: str
    process: subprocess.Popen[str]
    cpu: float = float("inf")
    wall: float = float("inf")
    peak_memory: int = 0
    change: float = 0.0

    @classmethod
    def start(cls, name: str, python: str, workload: Workload, threads: int, engine: str, device: str) -> Server:
        """Start a candidate and wait for nothing."""
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
        env |= {VARIABLE: engine, **environment(device)}
        env["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}"
        env["OPENBLAS_NUM_THREADS"] = env["NUMBA_NUM_THREADS"] = str(threads)
        command = [python, "serve.py", name, workload.name, str(threads)]
        return cls(
            name,
            subprocess.Popen(
                command, cwd=HERE, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr
            ),
        )

    def ask(self, command: str) -> dict[str, Any]:
        """Send a command and return the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Return the next answer; an empty one if the process has died."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"missing": "it ended early"}

    def round(self, steps: int) -> None:
        """Do a round of steps and keep the minimum."""
        answer = self.ask(f"steps {steps}")
        self.cpu = min(self.cpu, answer["cpu"] / steps)
        self.wall = min(self.wall, answer["wall"] / steps)
        self.peak_memory = answer["peak_memory"]

    def stop(self) -> None:
        """End the process."""
        with contextlib.suppress(BrokenPipeError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        self.process.wait()


@contextlib.contextmanager
def running(
    names: tuple[str, ...],
    pythons: dict[str, str],
    workload: Workload,
    threads: int,
    engine: str = "cpu",
    device: str = "cpu",
) -> Iterator[list[Server]]:
    """Start the candidates that can run, one after the other; name the others."""
    servers = []
    try:
        for name in names:
            server = Server.start(name, pythons.get(name, sys.executable), workload, threads, engine, device)
            answer = server.answer()
            if "missing" in answer:
                server.stop()
                if name == workload.ours:
                    raise SystemExit(f"our own candidate cannot run: {answer['missing']}")
                print(f"left out: {name} ({answer['missing']})", flush=True)
            else:
                servers.append(server)
        yield servers
    finally:
        for server in servers:
            server.stop()


def compare_changes(servers: list[Server], workload: Workload) -> None:
    """After the same steps from the same values, compare each parameter's change with ours."""
    first = workload.parameters()
    with tempfile.TemporaryDirectory() as folder:
        changes = {}
        for server in servers:
            for _ in range(CHECKED_STEPS):
                server.ask("steps 1")
            file = str(Path(folder) / f"{server.name}.npz")
            server.ask(f"save {file}")
            with np.load(file) as arrays:
                changes[server.name] = {name: arrays[name] - first[name] for name in first}
        ours = changes[workload.ours]
        for server in servers:
            theirs = changes[server.name]
            server.change = max(difference(ours[name], theirs[name], first[name]) for name in first)


def difference(ours: np.ndarray, theirs: np.ndarray, first: np.ndarray) -> float:
    """How far two changes of a parameter are apart, relative to ours, beyond what single precision rounds values by."""
    rounding = np.finfo(np.float32).eps * np.linalg.norm(first)
    apart = max(0.0, float(np.linalg.norm(theirs - ours) - rounding))
    return apart / float(np.linalg.norm(ours)) if apart else 0.0


def measure(
    workload: Workload,
    threads: int,
    rounds: int,
    pythons: dict[str, str],
    engine: str,
    device: str,
    peers: tuple[str, ...],
) -> dict[str, Any]:
    """Run the comparison; return the record that ``--json`` writes."""
    names = (workload.ours, *peers, *RATES)
    with running(names, pythons, workload, threads, engine, device) as servers:
        compare_changes([server for server in servers if server.name not in RATES], workload)
        for _ in range(rounds):
            for server in servers:
                server.round(1 if server.name in RATES else workload.steps)
        results = {server.name: server for server in servers}
    figure = "cpu" if threads == 1 and device == "cpu" else "wall"
    ours = results.pop(workload.ours)
    machine = {name: getattr(results.pop(name), figure) for name in RATES}
    best = min((getattr(server, figure) for server in results.values()), default=None)
    return {
        "workload": workload.name,
        "engine": engine,
        "device": device,
        "threads": threads,
        "figure": f"minimum {figure} seconds per step",
        "ours_s": getattr(ours, figure),
        "peers": {
            name: {
                "seconds": getattr(peer, figure),
                "peak_memory": peer.peak_memory,
                "largest_change_difference": peer.change,
            }
            for name, peer in results.items()
        },
        "ratio_best_peer": best / getattr(ours, figure) if best is not None else None,
        "peak_memory": ours.peak_memory,
        "floor": floor(workload, machine, getattr(ours, figure)),
    }


def show(record: dict[str, Any]) -> None:
    """Print a record for people."""
    where = f"{record['engine']} on {record['device']}, {record['threads']} thread(s)"
    print(f"{record['workload']}, {where}, {record['figure']}")
    print(f"  {'candidate':22} {'ms':>10} {'peer/ours':>10} {'peak MB':>9}  largest relative difference of a change")
    ours = record["ours_s"]
    print(f"  {'ours':22} {1e3 * ours:10.3f} {1:10.2f} {record['peak_memory'] / 1e6:9.0f}")
    for name, peer in record["peers"].items():
        print(
            f"  {name:22} {1e3 * peer['seconds']:10.3f} {peer['seconds'] / ours:10.2f} {peer['peak_memory'] / 1e6:9.0f}"
            f"  {peer['largest_change_difference']:.1e}"
        )
    if record["ratio_best_peer"] is not None:
        print(f"  ratio to the best peer: {record['ratio_best_peer']:.2f}")
    bound = record["floor"]
    print(
        f"  floor by {bound['bound']}: {1e3 * bound['seconds']:.3f} ms ({bound['operations'] / 1e9:.3g} G operations at"
        f" {bound['matrix_operations_per_s'] / 1e9:.4g} G/s, {bound['bytes'] / 1e6:.3g} MB at"
        f" {bound['copy_bytes_per_s'] / 1e9:.3g} GB/s); ours reaches {100 * bound['fraction']:.0f} % of it"
    )


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="Time our training step beside the peers'.")
    parser.add_argument("--workload", choices=sorted(WORKLOADS), required=True)
    parser.add_argument("--engine", choices=ENGINES, default="cpu", help="which of ours computes")
    parser.add_argument("--device", choices=DEVICES, help="where all compute; by default a GPU for --engine cuda only")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the record here")
    parser.add_argument("--peer-python", default=sys.executable, help="interpreter that has PyTorch and JAX")
    parser.add_argument("--steps", type=int, help="of one round; few where others use the machine, with more rounds")
    parser.add_argument("--peers", nargs="+", help="which of the workload's peers; by default all")
    arguments = parser.parse_args()
    workload = WORKLOADS[arguments.workload]
    if arguments.steps:
        workload = workload._replace(steps=arguments.steps)
    pythons = {workload.ours: sys.executable, **dict.fromkeys(workload.peers, arguments.peer_python)}
    device = arguments.device or ("cuda" if arguments.engine == "cuda" else "cpu")
    peers = tuple(peer for peer in workload.peers if not arguments.peers or peer in arguments.peers)
    record = measure(workload, arguments.threads, arguments.rounds, pythons, arguments.engine, device, peers)
    show(record)
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
