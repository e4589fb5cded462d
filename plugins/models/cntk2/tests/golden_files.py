"""Models that CNTK 2.7 wrote, with inputs and what it computes for them: 136 of them, in ``golden.zip``.

For ``NAME``: ``NAME.model``, ``NAME.npz`` (named as ``tools/evaluate_model.py`` says), the entry of ``index.json``, and
for states of training ``NAME.ckp``.
"""

from __future__ import annotations

import io
import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ARCHIVE = Path(__file__).with_name("golden.zip")


@cache
def archive() -> zipfile.ZipFile:
    return zipfile.ZipFile(ARCHIVE)


@cache
def index() -> dict[str, Any]:
    """The entries by name."""
    cases: dict[str, Any] = json.loads(archive().read("index.json"))["cases"]
    return cases


def write(name: str, folder: Path, suffix: str = "model") -> Path:
    """Write a file of a case into a folder, and return its path."""
    path = folder / f"{name}.{suffix}"
    path.write_bytes(archive().read(path.name))
    return path


def arrays(name: str, prefix: str) -> dict[str, Any]:
    """The arrays of a case whose names begin so."""
    with np.load(io.BytesIO(archive().read(f"{name}.npz"))) as found:
        return {key: found[key] for key in found.files if key.startswith(prefix)}


def differences(expected: dict[str, Any], found: dict[str, Any], relative: float, absolute: float) -> list[str]:
    """What is missing, has another shape, or differs by more."""
    wrong = []
    for key, want in expected.items():
        have = found.get(key)
        if have is None or np.shape(have) != want.shape:
            wrong.append(f"{key}: {None if have is None else np.shape(have)} instead of {want.shape}")
        elif not np.allclose(have, want, rtol=relative, atol=absolute, equal_nan=True):
            wrong.append(f"{key}: differs by {np.nanmax(np.abs(have - want)):.3g}")
    return wrong
