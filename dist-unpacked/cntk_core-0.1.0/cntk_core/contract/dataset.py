r"""Dataset: what ``cntk data NAME`` makes of a data set that somebody has downloaded.

A wheel offers it as an entry point of the group ``cntk.datasets``; the name of the entry point is the word::

    class Iris(Dataset):
        requires_api = "1.0"

        def convert(self, source: Path, target: Path, *, checksum: bool, only: str, progress: DatasetProgress) -> None:
            rows = (source / "iris.data").read_text().splitlines()
            (target / "iris.ctf").write_text("".join(f"|features {row}\n" for row in rows))
            progress.done("iris.ctf", f"{len(rows)} flowers")
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar, Protocol

from cntk_core.contract.component import Component


class DatasetProgress(Protocol):
    """Who is told how far it is."""

    def at(self, name: str, count: int) -> None:
        """So many items of a file are done."""

    def done(self, name: str, what: str) -> None:
        """A file is written; ``what`` says what it holds."""


class Dataset(Component):
    """Turns files of a data set into files that recipes read. Made without arguments.

    Attributes:
        parts: what ``--only`` may name; empty where there is nothing to choose.
    """

    parts: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def convert(self, source: Path, target: Path, *, checksum: bool, only: str, progress: DatasetProgress) -> None:
        """Write the files.

        Args:
            source: the folder with what was downloaded.
            target: the folder of the new files; it is there.
            checksum: compare what was downloaded with the published checksums.
            only: one of ``parts``, or nothing for all.
            progress: who is told.

        Raises:
            DataError: files are missing, damaged, or not the published ones.
        """
