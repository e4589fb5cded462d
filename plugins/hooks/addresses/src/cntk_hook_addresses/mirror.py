"""Where copies lie: each address has one path below a folder, and each such path is of one address."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote, unquote

import attrs

from cntk_core.api import DataError

NAME = "addresses"
"""The folder of copies in that of all caches."""

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/{1,3})(.*)", re.DOTALL)
_EMPTY = "%"
"""Stands for nothing between two slashes, which no folder can be called."""


@attrs.frozen
class Mirror:
    """The folder of copies.

    Attributes:
        folder: absolute, without links.
    """

    folder: Path

    @classmethod
    def of_user(cls) -> Mirror:
        """Return the one below ``CNTK_CACHE``, else below the user's cache folder.

        Raises:
            DataError: there is none.
        """
        given = os.environ.get("CNTK_CACHE")
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        if not given and not os.path.isabs(home):
            raise DataError(
                "there is no folder for copies of files from elsewhere", hint="Set CNTK_CACHE to a folder of yours."
            )
        return cls(Path(os.path.realpath(given or os.path.join(home, "cntk"))) / NAME)

    def path(self, address: str) -> Path | None:
        """Return where the copy of an address lies; None if it is none."""
        found = _ADDRESS.fullmatch(address)
        if found is None:
            return None
        scheme, slashes, rest = found.groups()
        # A Path has taken slashes away: of s3://bucket the second, of file:///folder two of three.
        absolute = len(slashes) == 3 or (len(slashes) == 1 and scheme.lower() == "file")
        return self.folder.joinpath(scheme.lower(), *(["%"] if absolute else []), *map(_folded, rest.split("/")))

    def address(self, path: str | Path) -> str | None:
        """Return the address of which a path is the copy; None if it is none."""
        try:
            scheme, *parts = Path(path).relative_to(self.folder).parts
        except ValueError:
            return None
        if not parts or scheme.startswith("."):
            return None
        return f"{scheme}://{'/'.join('' if part == _EMPTY else unquote(part) for part in parts)}"

    def shown(self, text: str) -> str:
        """Return a text with addresses in place of paths of copies."""
        pattern = re.escape(str(self.folder)) + r"[/\\][A-Za-z0-9_.~%/\\-]*[A-Za-z0-9_~%-]"
        return re.sub(pattern, lambda found: self.address(found[0]) or found[0], text)


def _folded(part: str) -> str:
    """Return what a part of an address is called as a file: no name is empty, or leads out of the folder."""
    if not part:
        return _EMPTY
    return quote(part, safe="") if part.strip(".") else part.replace(".", "%2E")
