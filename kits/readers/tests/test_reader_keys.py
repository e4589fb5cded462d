"""The keys that every reader of chunks may be given, whether its options have them or not."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from cntk_core.config import Config, SourceText, option, options
from cntk_core.contract.reader import DataReader, EpochSpec, ReaderContext, StreamInfo
from cntk_core.errors import CntkError
from cntk_kit_readers.chunked import ChunkedReader
from cntk_kit_readers.randomize import Window
from cntk_kit_readers.reader_keys import READER_KEYS, ReaderKeys
from cntk_kit_readers.source import Chunk, ChunkInfo, ChunkSource, Column


@options
class Plain:
    """Options of a reader that knows nothing of the general keys."""

    file: str


@options
class Own:
    """Options with keys of the same names that mean something else."""

    file: str
    randomize: int = option(default=0)
    prefetch: int = option(default=3, key="ahead")


class Numbers(ChunkSource):
    """Forty samples in four chunks: their numbers."""

    def index(self):
        return [ChunkInfo(10, 10)] * 4

    def load(self, chunk):
        return Chunk({"x": Column(np.arange(10 * chunk, 10 * chunk + 10, dtype=np.float32)[:, None])})

    def close(self):
        pass


class Counting(ChunkedReader):
    """Reads them, at random over all the data unless the recipe says something else."""

    options: ClassVar[type] = Plain
    requires_api = "1.0"

    def __init__(self, options, context):
        window = Window()
        super().__init__(options, context, source=Numbers(), streams=(StreamInfo("x", (1,)),), window=window)


class Busy(Counting):
    options: ClassVar[type] = Own


class Unlike(DataReader):
    """A reader that has nothing to do with chunks."""

    options: ClassVar[type] = Plain
    requires_api = "1.0"
    streams = ()

    def minibatches(self, epoch):
        return iter(())


def made(text: str, kind: type[DataReader] = Counting, outer: str = "", *, for_writing: bool = False) -> DataReader:
    parent = Config.from_source(SourceText.of(outer, "r.cntk"))
    block = Config.from_source(SourceText.of(f"readerType = mine\nfile = f\n{text}", "r.cntk"), parent=parent)
    settings = kind.settings_from(block, "reader 'mine'")
    general = kind.general_from(block, "reader 'mine'")
    return kind(settings, ReaderContext(for_writing=for_writing, general=general))


def order(reader: DataReader) -> list[float]:
    found = [x for one in reader.minibatches(EpochSpec()) for x in one.streams["x"].data[:, 0].tolist()]
    reader.close()
    return found


def test_the_keys():
    assert READER_KEYS == (
        "randomize", "randomizationWindow", "sampleBasedRandomizationWindow", "randomizationSeed", "keepDataInMemory",
        "cacheSizeInBytes", "prefetch", "traceLevel", "verbosity", "precision",
    )  # fmt: skip


@pytest.mark.parametrize("text", ["randomize = none", "randomize = F", "randomize = 0", "randomizationWindow = 0"])
def test_the_order_of_the_files(text):
    assert order(made(text)) == list(range(40))


def test_seeds_and_windows():
    usual = order(made(""))
    assert usual == order(made("randomize = auto\nrandomizationSeed = 0"))
    assert usual != list(range(40))
    other = order(made("randomizationSeed = 7"))
    assert sorted(other) == sorted(usual)
    assert other != usual
    near = order(made("randomizationWindow = 1"))
    chunks = [x // 10 for x in near]
    assert all(len(set(chunks[n : n + 10])) == 1 for n in range(0, 40, 10)), "samples stay in their chunk"
    assert near != list(range(40))


def test_they_are_looked_up_around_the_block():
    assert order(made("", outer="randomize = false")) == list(range(40))


def test_memory_and_threads():
    reader = made("prefetch = false\ncacheSizeInBytes = 5")
    assert type(reader.minibatches(EpochSpec())).__name__ == "generator"
    assert reader._cache.limit == 5
    assert made("keepDataInMemory = true")._cache.limit is None


def test_what_the_options_have_is_theirs():
    reader = made("randomize = 4\nahead = 5", Busy, outer="randomize = false")
    assert (reader.settings.randomize, reader.settings.prefetch) == (4, 5)
    assert reader.context.general == ReaderKeys()
    assert order(reader) == order(made(""))


def test_every_reader_may_be_told_of_order_and_precision():
    made("randomize = false\nprecision = float\ntraceLevel = 1\nverbosity = 2\nmodule = x\ntype = y", Unlike)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "randomise = auto",
            Counting,
            "r.cntk:3:1: reader 'mine' has no option 'randomise'; did you mean 'randomize'?\n    Options: file",
        ),
        ("prefetch = 3", Unlike, "r.cntk:3:1: reader 'mine' has no option 'prefetch'\n    Options: file"),
        (
            "randomize = maybe",
            Counting,
            "r.cntk:3:13: randomize must be one of the names below, not 'maybe'\n"
            "    Accepted: auto, true, t, 1, none, false, f, 0.",
        ),
        ("cacheSizeInBytes = -1", Counting, "r.cntk:3:20: 'cacheSizeInBytes' must be at least 0, not -1"),
    ],
)
def test_errors(text, kind, message):
    with pytest.raises(CntkError) as caught:
        made(text, kind)
    assert str(caught.value).startswith(message)


def test_who_writes_keeps_the_order_whatever_the_recipe_says():
    assert order(made("randomize = true", for_writing=True)) == list(range(40))
