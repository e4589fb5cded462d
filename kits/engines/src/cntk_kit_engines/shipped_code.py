"""Code that was compiled when a wheel was made, for levels of processors: common kernels need not be compiled at all.

One file for each level. It begins with the SHA-256 of its index; the index has for each piece of code the SHA-256 of
what it was compiled from (the whole text, the compiler that wrote it, LLVM's passes) and of the code. All of it is
compared before the code is run; what differs counts as not there. The files lie beside the modules that read them, and
whoever could change them could change those as well, so that owners and modes are not looked at.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import zlib
from collections.abc import Mapping
from pathlib import Path

from cntk_kit_engines.code_generator import PIPELINE, host_level

MAGIC = b"cntk shipped code 1\n"
FOLDER = Path(__file__).with_name("shipped")
"""Where the files lie in a wheel. ``tools/ship_kernels.py`` makes them; a checkout has none."""

_HEAD = len(MAGIC) + 64 + 1 + 8 + 1

logger = logging.getLogger("cntk.engine")


class ShippedCode:
    """The code of one file.

    Args:
        path: of the file, which need not be there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin = 0

    @functools.cached_property
    def index(self) -> Mapping[str, tuple[int, int, str]]:
        """By the digest of what it was compiled from: where a piece of code lies, its packed size, its SHA-256."""
        try:
            with self._path.open("rb") as file:
                head = file.read(_HEAD)
                text = file.read(int(head[-9:-1], 16)) if head.startswith(MAGIC) and len(head) == _HEAD else b""
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            self._tell(str(error))
            return {}
        if hashlib.sha256(text).hexdigest().encode() != head[len(MAGIC) : len(MAGIC) + 64]:
            self._tell("its SHA-256 differs")
            return {}
        self._begin = _HEAD + len(text)
        found: dict[str, tuple[int, int, str]] = json.loads(text)
        return found

    def read(self, identity: str) -> bytes | None:
        """Return the code that was compiled from ``identity``, None if there is none that can be believed."""
        found = self.index.get(digest_of(identity))
        if found is None:
            return None
        begin, size, wanted = found
        try:
            with self._path.open("rb") as file:
                file.seek(self._begin + begin)
                code = zlib.decompress(file.read(size))
        except (OSError, zlib.error) as error:
            self._tell(str(error))
            return None
        if hashlib.sha256(code).hexdigest() != wanted:
            self._tell("the SHA-256 of a kernel differs")
            return None
        return code

    def _tell(self, problem: str) -> None:
        logger.warning("shipped kernels in '%s' are not used: %s", self._path, problem)
        self.__dict__["index"] = {}


def digest_of(identity: str) -> str:
    """The key of what was compiled from ``identity`` by the passes that this version has."""
    return hashlib.sha256(f"{PIPELINE}\n{identity}".encode()).hexdigest()


def write_shipped(path: Path, code: Mapping[str, bytes]) -> None:
    """Write a file of code.

    Args:
        path: of the file.
        code: by what it was compiled from (:func:`digest_of`).
    """
    index, packed, place = {}, [], 0
    for key, each in sorted(code.items()):
        packed.append(zlib.compress(each, 9))
        index[key] = (place, len(packed[-1]), hashlib.sha256(each).hexdigest())
        place += len(packed[-1])
    text = json.dumps(index).encode()
    head = MAGIC + hashlib.sha256(text).hexdigest().encode() + b"\n" + b"%08x\n" % len(text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join([head, text, *packed]))


@functools.cache
def shipped_code() -> ShippedCode:
    """The code that was shipped for this machine."""
    return ShippedCode(FOLDER / f"{host_level()}.kernels")
