"""Source distributions, and wheels that are built from them; the same bytes from the same sources."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
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
    into = into.resolve()
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
    """Build one file of a project with the hatchling of this environment, in this process: there are a hundred."""
    from hatchling.build import build_sdist, build_wheel

    kept = os.environ.get("SOURCE_DATE_EPOCH")
    os.environ["SOURCE_DATE_EPOCH"] = str(time)
    try:
        with contextlib.chdir(project):
            return into / (build_sdist if kind == "sdist" else build_wheel)(str(into))
    except (Exception, SystemExit) as reason:
        raise ReleaseError(f"{project}: no {kind} can be built: {reason!r}") from None
    finally:
        os.environ.pop("SOURCE_DATE_EPOCH")
        if kept is not None:
            os.environ["SOURCE_DATE_EPOCH"] = kept


def digests(files: Sequence[Path]) -> dict[str, str]:
    """The SHA-256 of files, by name."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files)}


def differences(first: Sequence[Path], second: Sequence[Path]) -> list[str]:
    """The names of files of which two builds have not the same bytes, or which only one has made."""
    one, two = digests(first), digests(second)
    return sorted(name for name in {*one, *two} if one.get(name) != two.get(name))
