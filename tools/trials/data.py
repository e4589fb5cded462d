"""Take data files away while they are read: removed, cut, emptied, replaced by others, or written on.

    python tools/trials data --times 40

The run has to come to its end with the model of a run that nothing happened to, or to say what is wrong; when the data
are there again, the same command must come to that model.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import faulty
import kills
from figures import Figure, add_option, record

_MNIST = """
command = Train
deviceId = cpu
numCPUThreads = 1
traceLevel = 1
modelPath = "net.dnn"
Train = [
    action = train
    SimpleNetworkBuilder = [
        layerSizes = 64:16:10 ; trainingCriterion = CrossEntropyWithSoftmax ; layerTypes = Sigmoid
        applyMeanVarNorm = false ; needPrior = false
    ]
    SGD = [ maxEpochs=4 ; minibatchSize=16 ; learningRatesPerSample=0.001 ; checkpointEverySamples=2000 ]
    reader = [
        readerType = MNISTReader ; randomize = true
        features = [ file="images" ; scale=0.00390625 ] ; labels = [ file="labels" ; labelDim=10 ]
    ]
]
"""
SAMPLES = 4000


def _images(folder: Path) -> None:
    numbers = random.Random(3)
    folder.mkdir(parents=True)
    (folder / "r.cntk").write_text(_MNIST, encoding="utf-8")
    header = struct.pack(">4B3I", 0, 0, 8, 3, SAMPLES, 8, 8)
    (folder / "images").write_bytes(header + numbers.randbytes(SAMPLES * 64))
    labels = bytes(numbers.randrange(10) for _ in range(SAMPLES))
    (folder / "labels").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, SAMPLES) + labels)


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes()[::-1])
    other.replace(path)


def _append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\n|nonsense here\n")


WAYS: dict[str, Callable[[Path], object]] = {
    "removed": Path.unlink,
    "cut": _cut,
    "emptied": lambda path: os.truncate(path, 0),
    "replaced": _replace,
    "written on": _append,
    "renamed": lambda path: path.rename(path.with_name("elsewhere")),
}


def _text(folder: Path, recipe: str) -> None:
    """Data that are read a little at a time, again in each epoch."""
    kills.prepared(folder, recipe)
    text = (folder / "r.cntk").read_text(encoding="utf-8")
    pieces = text.replace('.ctf"\n', '.ctf"\n            chunkSizeInBytes = 2000\n')
    (folder / "r.cntk").write_text(pieces, encoding="utf-8")


FORMATS: dict[str, tuple[Callable[[Path], object], str]] = {
    "text": (lambda folder: _text(folder, "sizes"), "frames.ctf"),
    "sequences": (lambda folder: _text(folder, "lstm"), "sequences.ctf"),
    "images": (_images, "images"),
}


def disturb(folder: Path, form: str, way: str, whole: Path, seconds: float) -> str:
    """Do it after so many seconds; return what it came to.

    Raises:
        RuntimeError: not what it must.
    """
    target, log = folder / "run", folder / "log.txt"
    log.unlink(missing_ok=True)
    make, name = FORMATS[form]
    make(target)
    kept = (target / name).read_bytes()
    try:
        child = kills.begin(target, log)
        kills.wait_for_start(target, child)
        time.sleep(seconds)
        WAYS[way](target / name)
        status = kills.wait(child, faulty.ENOUGH)
        faulty.check_said(status, log)
        if not status and kills.digest(target) != kills.digest(whole):
            raise RuntimeError("it ended well with another model")
        for more in ("other", "elsewhere"):
            (target / more).unlink(missing_ok=True)
        (target / name).write_bytes(kept)
        faulty.expected_end(target, log, whole)
    except (RuntimeError, OSError) as error:
        raise RuntimeError(f"{form} {way} after {seconds:.2f} s: {error}") from None
    finally:
        shutil.rmtree(target)
    return "ended with a message" if status else "went on"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=18, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn")
    add_option(parser)
    options = parser.parse_args(arguments)
    kills.load(("sizes", "lstm"))
    begun, came, failed, chosen = time.monotonic(), Counter[str](), 0, random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="trials-", dir=kills.in_memory()) as temporary:
        folder = Path(temporary)
        lengths = {}
        for form, (make, _) in FORMATS.items():
            make(folder / form)
            began = time.monotonic()
            kills.run(folder / form)
            lengths[form] = time.monotonic() - began
            (folder / form / "log.txt").unlink()
        for number in range(options.times):
            form, way = list(FORMATS)[number % len(FORMATS)], list(WAYS)[number // len(FORMATS) % len(WAYS)]
            try:
                came[disturb(folder, form, way, folder / form, chosen.uniform(0, lengths[form]))] += 1
            except RuntimeError as error:
                failed += 1
                print(f"{number}: {error}", flush=True)
    seen = ", ".join(f"{count} {what}" for what, count in sorted(came.items())) + "; then identical"
    print(f"{options.times} times, {failed} failures: {seen}")
    record(options.record, Figure("data taken away", options.times, failed, seen, time.monotonic() - begun))
    return 1 if failed else 0
