"""Compare what `cntk simulate` says with real processes on real sockets, at 2 and 4 ranks.

    python benchmarks/scaling.py [--ranks 2,4] [--bandwidth 4e6] [--minibatch-seconds 1] [--turns 4] [--json F]

Both sides run the same strategies (those of the wheels, with the same model and the same minibatches) through the same
loop. The real side is a process for each rank, connected by `cntk-parallel-sockets`. Two things are arranged so that
neither the number of processors nor what else the machine does matters: the ranks sleep while they would compute a
minibatch, and what a rank sends leaves at a known bandwidth (its messages one after the other). All else is real and
takes the time that it takes: sums, quantization, packing, sockets, threads, waiting for each other.

The simulated side gets the bandwidth, the time of a minibatch, and how fast gradients are quantized and added up here.
A row for each strategy and number of ranks: milliseconds of a minibatch, simulated and real, and the difference.
"""

from __future__ import annotations

import argparse
import json
import math
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import attrs
from cntk_parallel_simulated import SimulatedCommunicator
from cntk_parallel_sockets import SocketCommunicator
from cntk_tool_scaling.bench_file import ComputeTimes
from cntk_tool_scaling.cut import ModelShape
from cntk_tool_scaling.drive import FULL, Pace, find_period, run_rank
from cntk_tool_scaling.measure_parallel import aggregation_seconds, sum_rate
from cntk_tool_scaling.methods import find_method
from cntk_tool_scaling.recipes import training_section
from cntk_tool_scaling.simulation import Cluster, simulate

from cntk_core.contract.simulation import NetworkModel, TimeSpent
from cntk_kit_recipes.recipe.ranks import detect

RECIPE = Path(__file__).parent.parent / "examples" / "scaling" / "speech.cntk"
MODEL = ModelShape(((500, 1000), (1000,)))
MINIBATCH = 1024
METHODS = (
    "full",
    "full-buffered",
    "1bit",
    "1bit-buffered",
    "BlockMomentumSGD=[ blockSize=4096 ]",
    "ModelAveragingSGD=[ blockSize=4096 ]",
    "DataParallelASGD=[ syncPeriodPerWorker=512 ]",
    "DataParallelASGD=[ syncPeriodPerWorker=512 ; usePipeline=true ]",
)
SLOWNESS = {"1bit": (1.0, 1.5)}
"""Methods that are tried once more with a rank that is slower than the others."""


@attrs.frozen
class Case:
    """A strategy, and how much slower than the first the other ranks are."""

    method: str
    slowness: tuple[float, ...] = (1.0,)

    @property
    def title(self) -> str:
        """For the table."""
        return self.method + ("" if self.slowness == (1.0,) else f", slow {':'.join(map(str, self.slowness))}")


CASES = (*(Case(one) for one in METHODS), *(Case(one, slow) for one, slow in SLOWNESS.items()))


class Throttled(SocketCommunicator):
    """A rank on sockets whose link has a known bandwidth, and which sleeps while it would compute.

    A thread stands for the network card: it takes what is to be sent, and lets it leave when the link has had the time.
    """

    def __init__(self, bandwidth: float) -> None:
        super().__init__()
        self.spent = TimeSpent()
        self._wire, self._bandwidth = self._mesh.post, bandwidth
        self._leaving: queue.SimpleQueue[tuple[float, tuple[int, int, int, bytes]] | None] = queue.SimpleQueue()
        self._card = threading.Thread(target=self._send, daemon=True)
        self._card.start()
        self._mesh.post = self._enqueue  # type: ignore[method-assign]

    def _enqueue(self, to: int, channel: int, tag: int, packed: bytes) -> None:
        if to == self._mesh.rank:
            self._wire(to, channel, tag, packed)
        else:
            self._leaving.put((time.monotonic(), (to, channel, tag, packed)))

    def _send(self) -> None:
        free = 0.0
        while (letter := self._leaving.get()) is not None:
            since, message = letter
            free = max(free, since) + len(message[3]) / self._bandwidth
            _sleep_until(free)
            self._wire(*message)

    def close(self) -> None:
        """Send the rest."""
        self._leaving.put(None)
        self._card.join()
        super().close()

    def advance(self, seconds: float) -> None:
        """Sleep."""
        _sleep_until(time.monotonic() + seconds)


def _sleep_until(when: float) -> None:
    while (left := when - time.monotonic()) > 0:
        time.sleep(left)


def pace_of(case: Case, seconds: float, values: dict[str, float]) -> Pace:
    """How ranks compute: in proportion to the samples."""
    compute = ComputeTimes.proportional(seconds / MINIBATCH)
    return Pace(MINIBATCH, compute, slowness=case.slowness, value_seconds=values, values=MODEL.values)


def real_rank(options: argparse.Namespace) -> None:
    """Do all cases as one of the ranks; the first one prints the milliseconds of a minibatch."""
    context, section = training_section((f"configFile={RECIPE}",), None, ())
    communicator, found = Throttled(options.bandwidth), []
    for case in CASES:
        method = find_method(case.method, context, section.section("SGD"))
        pace = pace_of(case, options.minibatch_seconds, {})
        period = find_period(method.make, communicator.size, pace)
        communicator.barrier()
        result = run_rank(communicator, method.make, MODEL, pace, options.turns, period)  # type: ignore[arg-type]
        times = communicator.allgather(_array(result.seconds / result.minibatches))
        found.append(1e3 * sum(float(one[0]) for one in times) / len(times))
    communicator.barrier()
    communicator.close()
    if communicator.rank == 0:
        print(json.dumps(found))


def _array(number: float) -> Any:
    import numpy as np

    return np.array([number])


def simulated(options: argparse.Namespace, ranks: int) -> list[float]:
    """Simulate all cases; return the milliseconds of a minibatch."""
    context, section = training_section((f"configFile={RECIPE}",), None, ())
    network = NetworkModel(options.bandwidth, options.latency, sum_rate=sum_rate())
    cluster = Cluster(SimulatedCommunicator, network, MODEL, turns=options.turns)
    registry, found, values = context.plugins.registry, [], dict[str, float]()
    for case in CASES:
        method = find_method(case.method, context, section.section("SGD"))
        for name, one in method.make().aggregations.items():
            if name != FULL and name not in values:
                kind, settings = type(one), one.settings
                values[name] = aggregation_seconds(registry, lambda k=kind, s=settings: k(s))
        pace = pace_of(case, options.minibatch_seconds, values)
        found.append(1e3 * simulate(method, ranks, pace, cluster).seconds)
    return found


def real(options: argparse.Namespace, ranks: int) -> list[float]:
    """Start the ranks; return what the first one prints."""
    given = ["--bandwidth", options.bandwidth, "--minibatch-seconds", options.minibatch_seconds]
    command = [
        *SocketCommunicator.launcher(ranks).command,
        sys.executable,
        __file__,
        *map(str, [*given, "--turns", options.turns]),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    times: list[float] = json.loads(done.stdout.strip().splitlines()[-1])
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--bandwidth", type=float, default=4e6, help="bytes per second of a rank's link")
    parser.add_argument("--latency", type=float, default=2e-4, help="seconds that a message is on its way")
    parser.add_argument(
        "--minibatch-seconds", type=float, default=1.0, help="that one rank alone takes for a minibatch"
    )
    parser.add_argument("--turns", type=int, default=4, help="exchanges that are measured")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    if detect().size > 1:
        real_rank(options)
        return
    rows, worst = [], 0.0
    print(f"{'':64} {'ranks':>5} {'simulated':>10} {'real':>10} {'':>8}")
    for ranks in map(int, options.ranks.split(",")):
        for case, reckoned, found in zip(CASES, simulated(options, ranks), real(options, ranks), strict=True):
            off = reckoned / found - 1
            worst = max(worst, abs(off))
            rows.append({"method": case.title, "ranks": ranks, "simulated_ms": reckoned, "real_ms": found})
            print(f"{case.title:64} {ranks:5} {reckoned:10.1f} {found:10.1f} {off:+8.1%}", flush=True)
    print(f"at most {worst:.1%} off")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    sys.exit(0 if worst <= 0.2 and math.isfinite(worst) else 1)


if __name__ == "__main__":
    main()
