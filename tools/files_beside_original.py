"""Lets the original load the model files that we write, and compares what it computes with ours.

    python tools/files_beside_original.py PYTHON MODEL...

PYTHON is an interpreter that has CNTK 2.7 (``import cntk``), as published: Python 3.6, on the processor. It is
third-party software and no part of this project. Each MODEL, of any format that we read, is written as a file of
version 1 and one of version 2; `tools/fuzzing/file_twin.py` loads both with the original and with ``cntk-compat``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cntk_core.api import CntkError
from cntk_core.api.recipes import ModelFiles, PluginManager

TWIN = Path(__file__).with_name("fuzzing") / "file_twin.py"
FORMATS = ("CNTK-1", "CNTK-2")
TOLERANCE = 1e-5
"""Relative to the largest number of an output."""
AT_ONCE = 12
"""Files that one process loads: a crash loses what follows in it."""


def write(models: Sequence[Path], format: str, folder: Path) -> Iterator[Path]:
    """Write models in a format; those that it cannot say are named."""
    files = ModelFiles(PluginManager().registry)
    for number, model in enumerate(models):
        path = folder / f"{number:04}.{format}"
        try:
            files.save(files.load(model), path, format)
        except CntkError as error:
            print(f"{model}: not written as {format}: {str(error).splitlines()[0]}")
        else:
            yield path


def loaded(python: str, paths: Sequence[Path], folder: Path) -> dict[str, Any]:
    """Return what an interpreter finds in files, by path."""
    found: dict[str, Any] = {}
    for first in range(0, len(paths), AT_ONCE):
        some = list(map(str, paths[first : first + AT_ONCE]))
        result = folder / "found.json"
        result.write_text("{}", encoding="utf-8")
        subprocess.run([python, TWIN, result, *some], capture_output=True, check=False)
        said = json.loads(result.read_text(encoding="utf-8"))
        found |= {path: said.get(path, "refused: crash") for path in some}
    return found


def compared(theirs: Any, ours: Any) -> Iterator[str]:
    """Say for a file, and for each of its outputs, what became of it."""
    if isinstance(theirs, str):
        yield f"the file is not loaded by the original: {theirs}"
        return
    if isinstance(ours, str) or theirs["arguments"] != ours["arguments"]:
        yield f"the file is another one to us: {ours if isinstance(ours, str) else ours['arguments']}"
        return
    for name in sorted(theirs["outputs"].keys() | ours["outputs"].keys()):
        a, b = theirs["outputs"].get(name, "refused: unknown"), ours["outputs"].get(name, "refused: unknown")
        if isinstance(a, str):
            yield "an output is refused by the original"
        elif isinstance(b, str):
            yield f"an output is refused by ours: {name}: {b}"
        else:
            yield "an output is the same" if alike(a, b) else f"an output differs: {name}"


def alike(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> bool:
    """Whether the numbers of all sequences agree."""
    if [len(one) for one in a] != [len(one) for one in b]:
        return False
    first, second = np.concatenate([*a, []]), np.concatenate([*b, []])
    scale = float(np.max(np.abs(first), initial=1e-30))
    return bool(np.allclose(first, second, rtol=0.0, atol=TOLERANCE * scale, equal_nan=True))


def main() -> None:
    """Write, load and compare."""
    parser = argparse.ArgumentParser(description="Let the original load the model files that we write.")
    parser.add_argument("python", help="an interpreter that has the original, release 2.7")
    parser.add_argument("models", nargs="+", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for format in FORMATS:
            paths = list(write(options.models, format, folder))
            theirs, ours = (loaded(python, paths, folder) for python in (options.python, sys.executable))
            counts: Counter[str] = Counter()
            for path in paths:
                for said in compared(theirs[str(path)], ours[str(path)]):
                    kind, _, more = said.partition(": ")
                    counts[kind] += 1
                    if more:
                        print(f"{options.models[int(path.stem)]}: {said}")
            print(f"{format}: {len(paths)} files written; {dict(counts.most_common())}")


if __name__ == "__main__":
    main()
