"""The recipe of the README: run, stopped, resumed, with broken data; and what the writer keeps."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from cntk_reader_htk import HTKMLFWriter

from cntk_core.api import WriterContext
from cntk_core.api.builders import parse_text
from cntk_testing import README, PackagingContract, ReaderRecipe, WriterContract

UTTERANCES = 5


def features(dim: int = 39) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(1)
    return {f"u{n}": numbers.normal(size=(8 + n, dim)).astype(">f4") for n in range(UTTERANCES)}


def write_corpus(folder: Path) -> None:
    """Utterances, one file each, with their labels, a state list, and a list of files to write."""
    labels = ["#!MLF!#"]
    for name, frames in features().items():
        header = struct.pack(">iihh", len(frames), 100_000, 4 * frames.shape[1], 9)
        (folder / f"{name}.mfc").write_bytes(header + frames.tobytes())
        labels.append(f'"*/{name}.lab"')
        labels += [f"{t * 100_000} {(t + 1) * 100_000} s{t % 7}" for t in range(len(frames))]
        labels.append(".")
    (folder / "train.scp").write_text("".join(f"{name}.mfc\n" for name in features()))
    (folder / "scores.scp").write_text("".join(f"{name}.scores\n" for name in features()))
    (folder / "train.mlf").write_text("\n".join(labels) + "\n")
    (folder / "states.list").write_text("".join(f"s{n}\n" for n in range(132)))


class TestReadme(ReaderRecipe):
    recipe = README

    def files(self, folder: Path) -> None:
        write_corpus(folder)

    def break_data(self, folder: Path) -> None:
        file = folder / "u3.mfc"
        file.write_bytes(file.read_bytes()[:-10])


class TestWriter(WriterContract):
    recipe = README

    def files(self, folder: Path) -> None:
        write_corpus(folder)

    @pytest.fixture
    def writer_factory(self):
        def make(folder: Path, context: WriterContext) -> HTKMLFWriter:
            (folder.parent / "list.scp").write_text("".join(f"{folder}/{n}.scores\n" for n in range(4)))
            text = f'writer=[ outputNodeNames=z ; z=[ dim=3 ; scpFile="{folder.parent}/list.scp" ] ]'
            return HTKMLFWriter(HTKMLFWriter.settings_from(parse_text(text).section("writer"), "the writer"), context)

        return make


class TestPackaging(PackagingContract):
    distribution = "cntk-reader-htk"
    kind = "writer"
