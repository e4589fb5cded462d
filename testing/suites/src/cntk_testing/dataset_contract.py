r"""The contract of data sets.

A plugin's test file subclasses :class:`DatasetContract`::

    class TestIris(DatasetContract):
        dataset_class = Iris
        files = ("iris.ctf",)

        def download(self, folder: Path) -> None:
            (folder / "iris.data").write_text("5.1,3.5,1.4,0.2,Iris-setosa\n")
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from cntk_core.contract.dataset import Dataset
from cntk_core.errors import DataError
from cntk_testing.contract import Contract, check_component


class Notes:
    """Keeps what is told of the progress."""

    def __init__(self) -> None:
        self.files: list[str] = []

    def at(self, name: str, count: int) -> None:
        """So many items are done; not kept."""

    def done(self, name: str, what: str) -> None:
        """A file is written."""
        self.files.append(name)


class DatasetContract(Contract):
    """Tests of a data set for pytest: subclass it.

    Attributes:
        dataset_class: what is tested.
        files: what is written, by name in the target folder.
    """

    dataset_class: ClassVar[type[Dataset]]
    files: ClassVar[tuple[str, ...]]

    def download(self, folder: Path) -> None:
        """Write what somebody would have downloaded, as small as it can be."""
        raise NotImplementedError("a DatasetContract needs download()")

    def convert(self, source: Path, target: Path, only: str = "") -> list[str]:
        """Write the files, without the published checksums; return what was told to be done."""
        notes = Notes()
        target.mkdir(exist_ok=True)
        self.dataset_class().convert(source, target, checksum=False, only=only, progress=notes)
        return notes.files

    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        """The folder with what was downloaded."""
        folder = tmp_path / "source"
        folder.mkdir()
        self.download(folder)
        return folder

    def test_component(self) -> None:
        """It is a complete class that says for which interface it was written, and is made without arguments."""
        check_component(self.dataset_class)
        self.dataset_class()

    def test_files(self, source: Path, tmp_path: Path) -> None:
        """The files are written, not empty, told of, and the same when they are written again."""
        told = self.convert(source, tmp_path / "one")
        self.convert(source, tmp_path / "two")
        assert told, "nothing was told to be done: progress.done(name, what)"
        for name in self.files:
            first = (tmp_path / "one" / name).read_bytes()
            assert first, f"{name} is empty"
            assert first == (tmp_path / "two" / name).read_bytes(), f"{name} differs from run to run"

    def test_parts(self, source: Path, tmp_path: Path) -> None:
        """Each part can be written alone, or says that there is none."""
        for part in self.dataset_class.parts:
            try:
                told = self.convert(source, tmp_path / f"only-{part}", part)
            except DataError:  # it says that it has no such part
                continue
            assert told, f"--only {part} writes nothing"

    def test_what_is_missing(self, tmp_path: Path) -> None:
        """An empty folder is a DataError, and no file is left."""
        empty = tmp_path / "empty"
        empty.mkdir()
        with pytest.raises(DataError):
            self.convert(empty, tmp_path / "target")
        left = [path.name for path in (tmp_path / "target").rglob("*") if path.is_file()]
        assert not left, f"files of a data set that is not there: {', '.join(left)}"
