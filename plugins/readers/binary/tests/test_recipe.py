"""The recipe of the README: run, stopped, resumed, with broken data; and what the writer keeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cntk_reader_binary import CNTKBinaryReader, CNTKBinaryWriter
from cntk_reader_binary.options import BinaryReaderOptions
from cntk_reader_binary.writer import BinaryWriterOptions

from cntk_core.api import EpochSpec, ReaderContext, SequenceOutput, WriterContext
from cntk_testing import README, PackagingContract, ReaderRecipe, WriterContract
from cntk_testing.writer_contract import Values


def write_data(folder: Path) -> None:
    """Forty samples of ten classes."""
    rows = np.random.default_rng(1).normal(size=(40, 1, 64)).astype(np.float32)
    labels = np.eye(10, dtype=np.float32)[np.arange(40) % 10][:, None]
    options = BinaryWriterOptions(file=folder / "train.cbf", chunk_size_in_bytes=200)
    writer = CNTKBinaryWriter(options, WriterContext({"features": 64, "labels": 10}))
    found = {"features": rows, "labels": labels}
    writer.write({name: [SequenceOutput("", one) for one in values] for name, values in found.items()})
    writer.close()


class TestReadme(ReaderRecipe):
    recipe = README

    def files(self, folder: Path) -> None:
        write_data(folder)


class TestWriter(WriterContract):
    recipe = README
    reads_back = True

    def files(self, folder: Path) -> None:
        write_data(folder)

    @pytest.fixture
    def writer_factory(self):
        return lambda folder, context: CNTKBinaryWriter(BinaryWriterOptions(file=folder / "out.cbf"), context)

    def read_back(self, folder: Path) -> Values:
        options = BinaryReaderOptions(file=folder / "out.cbf", randomize="none")
        reader = CNTKBinaryReader(options, ReaderContext())
        found = [minibatch.streams["z"].data for minibatch in reader.minibatches(EpochSpec(minibatch_size=1))]
        reader.close()
        return {"z": found}


class TestPackaging(PackagingContract):
    distribution = "cntk-reader-binary"
    kind = "writer"
