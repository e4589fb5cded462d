"""Train for a million minibatches, and see that the process grows by nothing.

``python tools/trials endurance --minibatches 1000000``
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import kills
from figures import Figure, add_option, record

SIZE, SAMPLES = 2, 400
_RECIPE = """
command = Train
deviceId = cpu
numCPUThreads = 1
traceLevel = 0
modelPath = "net.dnn"
Train = [
    action = train
    SimpleNetworkBuilder = [ layerSizes=4:4:2 ; trainingCriterion=CrossEntropyWithSoftmax ; applyMeanVarNorm=false ]
    SGD = [
        maxEpochs={epochs} ; minibatchSize={size} ; learningRatesPerSample=0.001 ; epochSize={epoch}
        checkpointEverySamples={save} ; numMBsToShowResult=100000 ; keepCheckPointFiles=false
    ]
    reader = [ file="data.ctf" ; input=[ features=[ dim=4 ; format=dense ] ; labels=[ dim=2 ; format=sparse ] ] ]
]
"""
EPOCHS = 20
LIMIT = 2.0
"""MB by which it may grow after the first tenth: less than two bytes for a minibatch of a million."""


def resident() -> float:
    """MB of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Watch(threading.Thread):
    """Measures this process every second.

    Attributes:
        sizes: MB.
        handles: open files.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.sizes: list[float] = []
        self.handles: list[int] = []
        self._over = threading.Event()

    def run(self) -> None:
        """Measure."""
        while not self._over.wait(1.0):
            self.sizes.append(resident())
            self.handles.append(len(os.listdir("/proc/self/fd")))

    def end(self) -> None:
        """Measure no more."""
        self._over.set()
        self.join()


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minibatches", type=int, default=20000)
    add_option(parser)
    options = parser.parse_args(arguments)
    from cntk_kit_recipes.cli import main as cntk

    epoch = -(-options.minibatches // EPOCHS) * SIZE
    rows = (f"|features {n % 7} {n % 5} {n % 3} 1 |labels {n % 2}:1\n" for n in range(SAMPLES))
    watch, begun = Watch(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trials-", dir=kills.in_memory()) as folder:
        os.chdir(folder)
        text = _RECIPE.format(epochs=EPOCHS, size=SIZE, epoch=epoch, save=max(SIZE, epoch // 50))
        Path("r.cntk").write_text(text, encoding="utf-8")
        Path("data.ctf").write_text("".join(rows), encoding="utf-8")
        watch.start()
        status = cntk(["configFile=r.cntk"])
        watch.end()
        os.chdir("/")
    settled = watch.sizes[len(watch.sizes) // 10 :] or [resident()]
    grown = max(settled) - settled[0]
    handles = max(watch.handles, default=0) - (watch.handles[len(watch.handles) // 10] if watch.handles else 0)
    failed = int(bool(status) or grown > LIMIT or handles > 2)
    seen = f"{settled[0]:.1f} MB after a tenth, {max(settled):.1f} MB at most after that; 1,000 saves inside epochs"
    print(f"{EPOCHS * epoch // SIZE} minibatches: {seen}")
    done = EPOCHS * epoch // SIZE
    record(options.record, Figure("minibatches with flat memory", done, failed, seen, time.monotonic() - begun))
    return failed
