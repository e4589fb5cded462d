"""Where the bytes of images are: plain files, and files in zip containers."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path

from cntk_core.api import DataError, Location, local_path
from cntk_reader_image.limits import BrokenImageError, Limits

_MORE = 1 << 20
"""So many bytes are asked for where a file is longer than the system says."""
_IN_CONTAINER = re.compile(r"(.+?)@[/\\](.+)|(.+?\.[zZ][iI][pP])@(.+)", re.DOTALL)


def split_container(path: str) -> tuple[str, str] | None:
    """Return the container and the name in it of ``archive.zip@/folder/image.jpg``; None for a plain file."""
    found = _IN_CONTAINER.fullmatch(path)
    if found is None:
        return None
    container, name = found.group(1, 2) if found.group(1) else found.group(3, 4)
    return container, name.replace("\\", "/")


class Folder:
    """Finds the files of a map file.

    Paths are relative to the directory in which the command runs, those that begin with ``...`` to the map file's.
    """

    def __init__(self, map_file: Path) -> None:
        self._folder = str(map_file.parent)

    def resolve(self, path: str) -> str:
        """Return the path as the system knows it."""
        return local_path(self._folder + path[3:] if path.startswith("...") else path)


def read_file(path: str, limits: Limits) -> bytes:
    """Return the bytes of a file. Raises BrokenImageError, before anything is read of a file that is too large."""
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            # A file object would take longer than the reading of a small file.
            size = os.fstat(file).st_size
            limits.check_file(size)
            data = os.read(file, size)
            while more := os.read(file, _MORE):
                data += more
                limits.check_file(len(data))
            return data
        finally:
            os.close(file)
    except OSError as error:
        raise BrokenImageError((error.strerror or str(error)).lower()) from None


class Container:
    """A zip file with images. May be read from any thread.

    Raises:
        DataError: there is none, at ``where``, the line of the map file that names it.
    """

    def __init__(self, path: str, where: Location) -> None:
        try:
            self._zip = zipfile.ZipFile(path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise DataError(f"cannot open the container '{path}': {reason}", where=where) from None
        except (NotImplementedError, ValueError, EOFError) as error:
            raise DataError(f"cannot read the container '{path}': {str(error).lower()}", where=where) from None
        except zipfile.BadZipFile as error:
            raise DataError(f"the container '{path}' is no zip file: {str(error).lower()}", where=where) from None
        self._names = frozenset(self._zip.namelist())

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def read(self, name: str, limits: Limits) -> bytes:
        """Return the bytes of a file of the container, never more than its directory says. Raises BrokenImageError."""
        try:
            limits.check_file(self._zip.getinfo(name).file_size)
            return self._zip.read(name)
        except (OSError, KeyError, RuntimeError, NotImplementedError, ValueError, EOFError) as error:
            raise BrokenImageError(str(error)) from None
        except Exception as error:
            # zlib.error and BadZipFile derive from Exception alone.
            if isinstance(error, zipfile.BadZipFile) or type(error).__name__ == "error":
                raise BrokenImageError(str(error)) from None
            raise

    def close(self) -> None:
        """Close the file."""
        self._zip.close()
