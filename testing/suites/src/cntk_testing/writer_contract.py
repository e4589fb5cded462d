"""The contract of a writer: what it writes depends on the values alone, and its recipe runs.

A plugin's test file makes writers of a folder::

    class TestTable(WriterContract):
        recipe = README

        @pytest.fixture
        def writer_factory(self):
            return lambda folder, context: TableWriter(TableOptions(file=folder / "out.tsv"), context)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from cntk_core.contract.writer import DataWriter, SequenceOutput, WriterContext
from cntk_testing.contract import check_component
from cntk_testing.recipes import FILE, RecipeContract, inside

WriterFactory = Callable[[Path, WriterContext], DataWriter]
Values = dict[str, list[NDArray[Any]]]


def written_in(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder by their names, with what they hold."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


class WriterContract(RecipeContract):
    """Tests of a writer for pytest: subclass it with a fixture ``writer_factory``.

    Attributes:
        outputs: output node to the number of its elements.
        lengths: frames of the sequences that are written.
        reads_back: the class has a method ``read_back(folder)``, which returns the values that were written.
    """

    recipe_key: ClassVar[str] = "writerType"
    outputs: ClassVar[Mapping[str, int]] = {"z": 3}
    lengths: ClassVar[Sequence[int]] = (1, 4, 2, 1)
    reads_back: ClassVar[bool] = False

    @pytest.fixture
    def writer_factory(self) -> WriterFactory:
        """Make a new writer that puts its files into a folder."""
        raise NotImplementedError(f"{type(self).__name__} has no fixture writer_factory")

    def read_back(self, folder: Path) -> Values:
        """Return the values in a folder's files: for each output those of each sequence, ``(frames, elements)``."""
        raise NotImplementedError(f"{type(self).__name__} reads back, but has no method read_back")

    def values(self) -> Values:
        """Return numbers for each output, between 0 and 1, those of each sequence ``(frames, elements)``, float32."""
        rng = np.random.default_rng(5)
        return {
            name: [rng.uniform(size=(length, size)).astype(np.float32) for length in self.lengths]
            for name, size in self.outputs.items()
        }

    def write(self, make: WriterFactory, folder: Path, steps: Sequence[int]) -> DataWriter:
        """Write so many sequences in each step, and return the writer, which is still open."""
        folder.mkdir(parents=True, exist_ok=True)
        writer = make(folder, WriterContext(self.outputs))
        first = 0
        for count in steps:
            places = range(first, first + count)
            writer.write({
                name: [SequenceOutput(f"s{number}", found[number]) for number in places]
                for name, found in self.values().items()
            })  # fmt: skip
            first += count
        return writer

    def test_component(self, writer_factory: WriterFactory, tmp_path: Path) -> None:
        """Options are an attrs class; the interface version fits."""
        writer = self.write(writer_factory, tmp_path / "one", [])
        check_component(type(writer))
        writer.discard()

    def test_the_steps_do_not_matter(self, writer_factory: WriterFactory, tmp_path: Path) -> None:
        """The same sequences give the same files, however many of them come at once."""
        whole = len(self.lengths)
        found: list[dict[str, bytes]] = []
        for steps in ([whole], [whole], [1] * whole, [1, whole - 1]):
            folder = tmp_path / f"{len(found)}" / "out"
            with inside(tmp_path):
                self.write(writer_factory, folder, steps).close()
            found.append(written_in(folder))
        assert found[0], "nothing is written"
        assert any(found[0].values()), "all files are empty"
        assert found[1] == found[0], "the same values give another file when they are written again"
        assert found[2] == found[0], "one sequence at a time gives other files than all at once"
        assert found[3] == found[0], "the first sequence alone and then the others give other files than all at once"

    def test_other_values_give_other_files(self, writer_factory: WriterFactory, tmp_path: Path) -> None:
        """Nothing is left out: fewer sequences give other files."""
        whole = len(self.lengths)
        for steps in ([whole], [whole - 1]):
            self.write(writer_factory, tmp_path / f"{steps[0]}" / "out", steps).close()
        assert written_in(tmp_path / f"{whole}") != written_in(tmp_path / f"{whole - 1}"), (
            "the last sequence is not written"
        )

    def test_what_is_written_can_be_read(self, writer_factory: WriterFactory, tmp_path: Path) -> None:
        """The values that were written come back."""
        if not self.reads_back:
            pytest.skip("the class does not read back what is written")
        self.write(writer_factory, tmp_path / "out", [len(self.lengths)]).close()
        back = self.read_back(tmp_path / "out")
        assert set(back) == set(self.outputs), f"the outputs {sorted(back)} are in the files"
        for name, expected in self.values().items():
            assert len(back[name]) == len(expected), f"'{name}' has {len(back[name])} sequences"
            for number, (one, other) in enumerate(zip(back[name], expected, strict=True)):
                np.testing.assert_allclose(one, other, rtol=1e-4, err_msg=f"sequence {number} of '{name}'")

    def test_close_twice(self, writer_factory: WriterFactory, tmp_path: Path) -> None:
        """A writer may be closed more than once, and discarded after it was closed."""
        writer = self.write(writer_factory, tmp_path / "out", [len(self.lengths)])
        writer.close()
        kept = written_in(tmp_path)
        writer.close()
        writer.discard()
        assert written_in(tmp_path) == kept, "what was written is changed when the writer is closed again"

    def test_discard(self, writer_factory: WriterFactory, tmp_path: Path) -> None:
        """After an error a writer ends, at any time and more than once; what is left is not like the whole."""
        for steps in ([], [1]):
            writer = self.write(writer_factory, tmp_path / f"part{len(steps)}", steps)
            writer.discard()
            writer.discard()
        self.write(writer_factory, tmp_path / "whole", [len(self.lengths)]).close()
        assert written_in(tmp_path / "part1") != written_in(tmp_path / "whole")

    @pytest.mark.recipe
    def test_the_recipe_runs_and_resumes(self, tmp_path: Path) -> None:
        """The recipe leaves files that were not there, the same when it is run again."""
        found = []
        for turn in range(2):
            folder = self.prepare(tmp_path / f"{turn}")
            before = written_in(folder)
            with inside(folder):
                self.run_all()
            found.append({name: data for name, data in written_in(folder).items() if name not in before})
        assert any(found[0].values()), "the recipe writes nothing"
        if self.resumes:  # what is trained and written is the same each time
            assert found[1] == found[0], "the recipe writes something else when it is run again"

    @pytest.mark.recipe
    def test_a_mistake_in_the_block_is_told(self, tmp_path: Path) -> None:
        """With ``strict=true`` a key that the writer does not have ends the run, before anything is computed."""
        folder = self.prepare(tmp_path / "mistake")
        text = (folder / FILE).read_text(encoding="utf-8")
        place = text.index("writerType")
        (folder / FILE).write_text(f"{text[:place]}noSuchKeyAtAll = 1\n{text[place:]}", encoding="utf-8")
        line = text[:place].count("\n") + 1
        with inside(folder):
            code, output = self.command("write", FILE, "strict=true")
        assert code == 1, f"the writer does not mind the key noSuchKeyAtAll:\n{output}"
        assert f"{FILE}:{line}:" in output, f"the line {line} of the key noSuchKeyAtAll is not told:\n{output}"
