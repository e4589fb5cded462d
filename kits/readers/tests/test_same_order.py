"""One corpus in three formats, alone and joined: the same seed gives the same order on every path."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cntk_core.config import Config
from cntk_core.config.source import SourceText
from cntk_core.contract.reader import DataReader, EpochSpec
from cntk_kit_readers import chunked, utterances
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.log import Log

Make = Callable[..., DataReader]
SEQUENCES, LENGTH, PER_CHUNK = 40, 3, 4
WINDOW = 3 * PER_CHUNK * LENGTH
RANDOM = "randomizationSeed={seed}\nprefetch={prefetch}\ncacheSizeInBytes=0\n"
SAMPLES = f"sampleBasedRandomizationWindow=true\nrandomizationWindow={WINDOW}\n"

READERS = {
    "text": "readerType=CNTKTextFormatReader\nfile=x.ctf\nchunkSizeInBytes={text_bytes}\n"
    "input=[ x=[ dim=1 ; format=dense ] ]\n" + SAMPLES,
    "binary": "readerType=CNTKBinaryReader\nfile=x.cbf\n" + SAMPLES,
    "HTK": f"readerType=HTKDeserializers\nframeMode=false\nx=[ dim=1 ; scpFile=x.scp ]\nrandomize={WINDOW}\n",
    "composite of HTK": "deserializers=([ type=HTKFeatureDeserializer ; input=[ x=[ dim=1 ; scpFile=x.scp ] ] ])\n"
    + SAMPLES,
    "composite of two": "deserializers=([ type=CNTKBinaryFormatDeserializer ; file=x.cbf ]:\n"
    "[ type=CNTKTextFormatDeserializer ; file=x.ctf ; input=[ y=[ alias=x ; dim=1 ; format=dense ] ] ])\n" + SAMPLES,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sequences of equal size, so that every format has equally many in a chunk; values tell sequence and time."""
    folder = tmp_path_factory.mktemp("corpus")
    rows, lines, frames = [], [], []
    for key in range(SEQUENCES):
        values = [100.0 * key + t for t in range(LENGTH)]
        rows += [f"{key:02} |x {value:06.1f}\n" for value in values]
        lines.append(f"{key}=all.chunk[{key * LENGTH},{key * LENGTH + LENGTH - 1}]\n")
        frames += values
    (folder / "x.ctf").write_text("".join(rows))
    (folder / "x.scp").write_text("".join(lines))
    head = struct.pack(">iiHH", len(frames), 100_000, 4, 9)
    (folder / "all.chunk").write_bytes(head + np.array(frames, dtype=">f4").tobytes())
    text = READERS["text"].format(text_bytes=10**6)
    (folder / "r.cntk").write_text(f"command=T\nT=[ action=train ; reader=[\n{text}] ]")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        # A chunk ends with the sequence that reaches its size: the number of samples and the samples.
        assert main(["convert-data", "r.cntk", "-o", "x.cbf", "--chunk-size", str(PER_CHUNK * (4 + 4 * LENGTH))]) == 0
    return folder


@pytest.fixture
def make(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Return a function that makes one of the readers; each has chunks of ``PER_CHUNK`` sequences."""
    monkeypatch.chdir(corpus)
    monkeypatch.setattr(utterances, "CHUNK_FRAMES", PER_CHUNK * LENGTH - 1)
    readers: list[DataReader] = []

    def build(path: str, *, seed: int = 0, prefetch: str = "true") -> DataReader:
        text_bytes = PER_CHUNK * LENGTH * len("00 |x 0000.0\n")
        block = READERS[path].format(text_bytes=text_bytes) + RANDOM.format(seed=seed, prefetch=prefetch)
        config = Config.from_source(SourceText.of(f"reader=[\n{block}]", "r.cntk"))
        readers.append(ActionContext.create(config, Log()).make_reader(config))
        return readers[-1]

    yield build
    for reader in readers:
        reader.close()


def order(reader: DataReader, epochs: tuple[int, ...] = (0, 1), size: int = 10) -> list[int]:
    """Return the sequences in the order in which they are read."""
    found = []
    for epoch in epochs:
        for minibatch in reader.minibatches(EpochSpec(epoch=epoch, minibatch_size=size)):
            layout, data = minibatch.streams["x"].layout, minibatch.streams["x"].data
            first = np.asarray(data)[: layout.slots, 0][np.argsort(layout.order)]
            found += (first / 100).astype(int).tolist()
    return found


def test_chunks_are_the_same(make: Make) -> None:
    for path in READERS:
        assert [info.sequences for info in make(path).source.index()] == [PER_CHUNK] * (SEQUENCES // PER_CHUNK)


@pytest.mark.parametrize("seed", [0, 5])
def test_same_order_on_every_path(make: Make, seed: int) -> None:
    expected = order(make("text", seed=seed))
    assert sorted(expected) == sorted([*range(SEQUENCES)] * 2)
    assert expected[:SEQUENCES] != expected[SEQUENCES:]
    assert expected[:SEQUENCES] != sorted(expected[:SEQUENCES])
    for path in READERS:
        assert order(make(path, seed=seed)) == expected, path


def test_another_seed_gives_another_order(make: Make) -> None:
    assert order(make("text", seed=1)) != order(make("text", seed=2))


@pytest.mark.parametrize("path", READERS)
@pytest.mark.sampled(3)
def test_same_order_at_any_depth(make: Make, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Depth of prefetching, what was read before, and the size of minibatches change nothing."""
    expected = order(make(path, prefetch="false"))
    for samples in (1, 40, 10**6):
        monkeypatch.setattr(chunked, "PREFETCHED_SAMPLES", samples)
        assert order(make(path)) == expected
    reader = make(path)
    assert order(reader, (7, 1, 0), size=4)[-2 * SEQUENCES :] == expected[SEQUENCES:] + expected[:SEQUENCES]
    first = next(iter(reader.minibatches(EpochSpec(minibatch_size=6, skip_samples=60))))
    assert int(np.asarray(first.streams["x"].data)[0, 0]) // 100 == expected[20]


def test_streams_of_a_composite_belong_together(make: Make) -> None:
    for minibatch in make("composite of two").minibatches(EpochSpec(minibatch_size=9)):
        assert np.array_equal(minibatch.streams["x"].data, minibatch.streams["y"].data)
