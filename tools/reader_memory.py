"""How much memory a reader needs: reads a generated corpus of one window and one of ten, and compares the peaks.

    python tools/reader_memory.py [--format binary|text|htk] [--window MB] [--times N]

Every corpus is read by a process of its own, in random order within a window of eight chunks and without a cache beside
it. The peak is what the kernel counts for that process, less what it has before it reads.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import attrs
import numpy as np

DIM, FRAMES = 64, 100
SEQUENCE_BYTES = 4 * DIM * FRAMES
CHUNKS = 8
"""Chunks of a window."""
MB = 1024 * 1024
FORMATS = ("binary", "text", "htk")

_BLOCK = """
cacheSizeInBytes = 0
{keys}
"""


@attrs.frozen
class Peak:
    """What reading a corpus took.

    Attributes:
        corpus: bytes of the values of the corpus.
        before, peak: bytes of memory before the first minibatch, and at most.
        samples: how many were read.
    """

    corpus: int
    before: int
    peak: int
    samples: int


def measure(form: str, window: int, times: int, folder: Path) -> Peak:
    """Generate a corpus of so many windows of so many bytes, and read it once."""
    sequences = max(window * times // SEQUENCE_BYTES, 1)
    keys = _write(form, window, sequences, folder)
    child = [sys.executable, __file__, "--child", keys]
    done = subprocess.run(child, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return Peak(sequences * SEQUENCE_BYTES, **json.loads(done.stdout))


def _write(form: str, window: int, sequences: int, folder: Path) -> str:
    """Write a corpus; return the keys of its reader's block."""
    rng = np.random.default_rng(1)
    frames = rng.standard_normal((FRAMES, DIM)).astype(np.float32)
    chunk = window // CHUNKS
    if form == "binary":
        _write_binary(folder / "x.cbf", frames, sequences, chunk)
        return f"readerType=CNTKBinaryReader\nfile=x.cbf\nrandomizationWindow={CHUNKS}"
    if form == "htk":
        _write_htk(folder, frames, sequences)
        return (
            f"readerType=HTKMLFReader\nframeMode=false\njoinUtterances=false\n"
            f"x=[ dim={DIM} ; scpFile=x.scp ]\nrandomize={window // 4 // DIM}"
        )
    rows = "".join("{key} |x " + " ".join(f"{value:.1f}" for value in frame) + "\n" for frame in frames)
    with (folder / "x.ctf").open("w", encoding="utf-8") as file:
        file.writelines(rows.replace("{key}", str(number)) for number in range(sequences))
    text_bytes = chunk * len(rows) // SEQUENCE_BYTES
    return (
        f"readerType=CNTKTextFormatReader\nfile=x.ctf\nrandomizationWindow={CHUNKS}\nchunkSizeInBytes={text_bytes}\n"
        f"input=[ x=[ dim={DIM} ; format=dense ] ]"
    )


def _write_binary(path: Path, frames: np.ndarray, sequences: int, chunk: int) -> None:
    from cntk_reader_binary import BinaryWriterOptions, CNTKBinaryWriter

    from cntk_core.api import SequenceOutput, WriterContext

    writer = CNTKBinaryWriter(BinaryWriterOptions(file=path, chunk_size_in_bytes=chunk), WriterContext({"x": DIM}))
    for _ in range(sequences):
        writer.write({"x": [SequenceOutput("", frames)]})
    writer.close()


def _write_htk(folder: Path, frames: np.ndarray, sequences: int) -> None:
    data = frames.astype(">f4").tobytes()
    with (folder / "all.chunk").open("wb") as file:
        file.write(struct.pack(">iiHH", sequences * FRAMES, 100_000, 4 * DIM, 9))
        file.writelines(data for _ in range(sequences))
    lines = (f"{number}=all.chunk[{number * FRAMES},{number * FRAMES + FRAMES - 1}]\n" for number in range(sequences))
    (folder / "x.scp").write_text("".join(lines))


def _child(keys: str) -> None:
    """Read the corpus of this folder and print what it took."""
    from cntk_core.api.engines import native_function
    from cntk_core.config import Config
    from cntk_core.config.source import SourceText
    from cntk_core.contract.reader import EpochSpec
    from cntk_kit_recipes.recipe.context import ActionContext
    from cntk_kit_recipes.recipe.log import Log

    config = Config.from_source(SourceText.of(f"reader=[{_BLOCK.format(keys=keys)}]", "reader"))
    reader = ActionContext.create(config, Log()).make_reader(config)
    # The library of what is compiled is there in every run: the engine has it, whatever the reader does.
    native_function("def f(x):\n    return x\n", "f", "int64(int64)")
    before = _memory("VmRSS")
    samples = sum(minibatch.samples for minibatch in reader.minibatches(EpochSpec(minibatch_size=1024)))
    print(json.dumps({"before": before, "peak": _memory("VmHWM"), "samples": samples}))
    reader.close()


def _memory(key: str) -> int:
    """Return a figure of this process in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description="How much memory a reader needs.")
    parser.add_argument("--format", choices=FORMATS, action="append", help="default: all")
    parser.add_argument("--window", type=int, default=64, help="megabytes of a window (default: 64)")
    parser.add_argument("--times", type=int, default=10, help="windows of the large corpus (default: 10)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(options.child)
        return
    print("format   corpus  more memory than before reading")
    for form in options.format or FORMATS:
        for times in (1, options.times):
            with tempfile.TemporaryDirectory() as folder:
                found = measure(form, options.window * MB, times, Path(folder))
            print(f"{form:8} {found.corpus // MB:4} MB  {(found.peak - found.before) // MB} MB")


if __name__ == "__main__":
    main()
