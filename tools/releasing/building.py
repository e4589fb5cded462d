"""Source distributions, and wheels that are built from them; the same bytes from the same sources."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from releasing.staging import ReleaseError


def build(source: Path, folders: Sequence[str], into: Path, time: int) -> list[Path]:
    """Build the source distribution of each wheel, and from that the wheel, so that nothing can be missing in it.

    Args:
        source: the staged repository; source distributions are unpacked beside it.
        folders: of the wheels in it.
        into: where the files go, an empty folder or none.
        time: seconds since 1970, which the files in them have.

    Returns:
        The source distributions and the wheels.

    Raises:
        ReleaseError: one cannot be built.
    """
    into.mkdir(parents=True, exist_ok=True)
    unpacked = source.with_name("unpacked")
    shutil.rmtree(unpacked, ignore_errors=True)
    made = []
    for folder in folders:
        archive = _hatchling(source / folder, "sdist", into, time)
        with tarfile.open(archive) as opened:
            opened.extractall(unpacked, filter="data")
        wheel = _hatchling(unpacked / archive.name.removesuffix(".tar.gz"), "wheel", into, time)
        made += [archive, wheel]
    return made


def _hatchling(project: Path, kind: str, into: Path, time: int) -> Path:
    """Build one file of a project in this environment, which has all that builds need."""
    before = set(into.iterdir())
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(into)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(time)}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, check=False, text=True)
    made = set(into.iterdir()) - before
    if done.returncode or len(made) != 1:
        raise ReleaseError(f"{project}: no {kind} can be built:\n{done.stdout}{done.stderr}")
    return made.pop()


def digests(files: Sequence[Path]) -> dict[str, str]:
    """The SHA-256 of files, by name."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files)}


def differences(first: Sequence[Path], second: Sequence[Path]) -> list[str]:
    """The names of files of which two builds have not the same bytes, or which only one has made."""
    one, two = digests(first), digests(second)
    return sorted(name for name in {*one, *two} if one.get(name) != two.get(name))
