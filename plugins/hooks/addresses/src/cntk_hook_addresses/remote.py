"""Files elsewhere, through fsspec, and what is said when that fails."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

from cntk_core.api import CntkError, DataError, did_you_mean

_MARKS = (
    ("etag", "ETag"),
    ("checksum", "md5Hash", "md5", "crc32c", "sha256", "content_md5", "blob_id"),
    ("mtime", "LastModified", "last_modified", "updated", "modify", "created", "last_commit"),
)
"""What file systems call what changes with a file's content: the first of each line that is there counts."""

_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "hf": "hf", "http": "http", "https": "http"}


@attrs.frozen
class Found:
    """A file elsewhere.

    Attributes:
        address: where.
        size: bytes; None if nobody says.
        mark: changes with the content.
        is_folder: it is no file.
    """

    address: str
    size: int | None
    mark: str
    is_folder: bool = False


def look(address: str) -> Found | None:
    """Return what lies at an address; None if there is nothing.

    Raises:
        DataError: it cannot be found out.
    """
    with _told(address, "looked at"):
        system, path = _system(address)
        system.invalidate_cache()
        try:
            return _found(address, system.info(path))
        except FileNotFoundError:
            return None


def family(address: str) -> dict[str, Found]:
    """Return the files of a training: the model, and those whose names begin with it, by address.

    Raises:
        DataError: they cannot be listed.
    """
    with _told(address, "looked at"):
        system, path = _system(address)
        system.invalidate_cache()
        above, _, name = path.rstrip("/").rpartition("/")
        try:
            entries = system.ls(above, detail=True)
        except FileNotFoundError:
            return {}
        found: dict[str, Found] = {}
        for entry in entries:
            last = entry["name"].rstrip("/").rpartition("/")[2]
            if last != name and not last.startswith((f"{name}.", f"{name}_")):
                continue
            inside = system.find(entry["name"], detail=True) if entry["type"] == "directory" else {last: entry}
            for one in inside.values():
                at = address.rpartition("/")[0] + one["name"][len(entry["name"]) - len(last) - 1 :]
                found[at] = _found(at, one)
        return found


def fetch(found: Found, into: Path) -> None:
    """Copy a file from elsewhere; it is whole, or an error is raised.

    Raises:
        DataError: that failed.
    """
    with _told(found.address, "brought here"):
        system, path = _system(found.address)
        system.get_file(path, str(into))
        got = into.stat().st_size
        if found.size is not None and got != found.size:
            raise DataError(
                f"'{found.address}' cannot be brought here: it has {found.size} bytes, and {got} have come",
                hint="Somebody may be writing it. Try again.",
            )


def send(path: Path, address: str) -> Found:
    """Copy a file to an address, in one step where the file system can, and return what lies there then.

    Raises:
        DataError: that failed; what was there is untouched where the file system can do so.
    """
    with _told(address, "written"):
        system, target = _system(address)
        with suppress(OSError, NotImplementedError):
            system.makedirs(target.rpartition("/")[0], exist_ok=True)
        with path.open("rb") as file, system.transaction, system.open(target, "wb") as there:
            shutil.copyfileobj(file, there, 1 << 20)
    found = look(address)
    if found is None or found.size not in (None, path.stat().st_size):
        raise DataError(f"'{address}' cannot be written: what lies there is not what was sent")
    return found


def remove(address: str) -> None:
    """Remove a file elsewhere, if it is there.

    Raises:
        DataError: that failed.
    """
    with _told(address, "removed"):
        system, path = _system(address)
        with suppress(FileNotFoundError):
            system.rm_file(path)


def _system(address: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    return url_to_fs(address)  # type: ignore[no-any-return]


def _found(address: str, entry: Mapping[str, Any]) -> Found:
    marks = [next((str(entry[key]) for key in keys if entry.get(key)), "") for keys in _MARKS]
    if not any(marks):
        # Nothing but its size may be known of a file: then all that is known of it has to stay the same.
        marks = [hashlib.sha256(json.dumps(dict(entry), sort_keys=True, default=str).encode()).hexdigest()]
    size = entry.get("size")
    return Found(address, size, "|".join([str(size), *marks]), entry.get("type") == "directory")


@contextmanager
def _told(address: str, done: str) -> Iterator[None]:
    """Turn whatever a file system says into one of our errors."""
    try:
        yield
    except CntkError:
        raise
    except ImportError as error:
        scheme = address.partition(":")[0]
        extra = _EXTRAS.get(scheme)
        said = f'pip install "cntk-hook-addresses[{extra}]"' if extra else None
        raise DataError(f"'{address}' needs a library that is not installed: {error}", hint=said) from None
    except ValueError as error:
        if "rotocol not known" not in str(error):
            raise _failure(address, done, error) from error
        from fsspec import available_protocols

        scheme, known = address.partition(":")[0], sorted(available_protocols())
        raise DataError(
            f"'{address}': nothing reads addresses with '{scheme}://'{did_you_mean(scheme, known)}",
            hint=f"Known are {', '.join(known)}.\nA wheel with a file system of fsspec for it adds another.",
        ) from None
    except Exception as error:
        raise _failure(address, done, error) from error


def _failure(address: str, done: str, error: Exception) -> DataError:
    text = " ".join(str(getattr(error, "strerror", None) or error).split()) or "no reason is given"
    return DataError(
        f"'{address}' cannot be {done}: {type(error).__name__}: {text}",
        hint="See whether it is written rightly, whether this machine reaches it, and what it is let to do there "
        "(the variables or files with keys that this file system's library reads).",
    )
