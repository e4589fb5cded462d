"""Readers side by side: streams joined by the place of their sequences, whatever the order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cntk_core.config import Config
from cntk_core.config.source import SourceText
from cntk_core.contract.reader import DataReader, EpochSpec
from cntk_core.errors import BrokenPluginError, CntkError
from cntk_core.plugins.faults import plugins_named
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.log import Log

A = "a=[ readerType=CNTKTextFormatReader ; file=a.ctf ; chunkSizeInBytes=40 ; input=[ x=[ dim=1 ; format=dense ] ] ]\n"
B = "b=[ file=b.ctf ; input=[ y=[ dim=2 ; format=sparse ] ] ]\n"
W = "w=[ readerType=LUSequenceReader ; file=w.txt ; f=[ dim=0 ] ; in=[ token=v.txt ] ; out=[ token=v.txt ] ]\n"
NUMBERS = range(20)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty sequences of one or two rows; the other file has one row for each, and other ids."""
    monkeypatch.chdir(tmp_path)
    Path("a.ctf").write_text("".join(f"{n} |x {n}\n" * (n % 2 + 1) for n in NUMBERS))
    Path("b.ctf").write_text("".join(f"{100 - n} |y {n % 2}:{n}\n" for n in NUMBERS))
    Path("v.txt").write_text("p\nq\n")
    Path("w.txt").write_text("p q\nq p\n\n" * 10)


def make(text: str) -> DataReader:
    config = Config.from_source(SourceText.of(f"reader=[\n{text}]", "r.cntk"))
    return ActionContext.create(config, Log()).make_reader(config)


def pairs(reader: DataReader, epoch: int) -> list[tuple[float, float]]:
    """Return the values of both streams for each sequence, in the order in which they are read."""
    found = []
    for minibatch in reader.minibatches(EpochSpec(epoch=epoch, minibatch_size=4)):
        values = []
        for name in ("x", "y"):
            stream = minibatch.streams[name]
            data = stream.data if isinstance(stream.data, np.ndarray) else stream.data.toarray()
            values.append(data[: stream.layout.slots].sum(axis=1)[np.argsort(stream.layout.order)])
        found += list(zip(values[0].tolist(), values[1].tolist(), strict=True))
    return found


@pytest.mark.parametrize("randomize", ["auto", "none"])
def test_sequences_belong_together(randomize: str) -> None:
    reader = make(f"readers=a:b\nrandomize={randomize}\n{A}{B}")
    assert [stream.name for stream in reader.streams] == ["x", "y"]
    first, second = pairs(reader, 0), pairs(reader, 1)
    assert sorted(first) == [(n, n) for n in NUMBERS]
    assert (first == second) == (randomize == "none")
    assert (first == sorted(first)) == (randomize == "none")
    assert not list(reader.check())
    reader.close()


def test_readers_that_have_no_chunks_are_read_in_step() -> None:
    reader = make("readers=w:b\nrandomize=none\n" + W + B)
    with pytest.raises(CntkError) as caught:
        list(reader.minibatches(EpochSpec(minibatch_size=2)))
    reader.close()
    assert str(caught.value) == (
        "r.cntk:2:1: minibatch 1 of the epoch has 1 sequences in reader 'w', but 2 sequences in reader 'b'\n"
        "    Readers side by side need the same sequences, in the same order and groups."
    )
    Path("b.ctf").write_text("".join(f"{n} |y 1:{n}\n" for n in range(10)))
    reader = make("readers=w:b\nrandomize=none\n" + W + B)
    found = list(reader.minibatches(EpochSpec(minibatch_size=1)))
    again = list(reader.minibatches(EpochSpec(minibatch_size=1, learned_samples=4)))
    reader.close()
    assert len(found) == len(again) == 10
    assert all(sorted(minibatch.streams) == ["f", "out", "y"] for minibatch in again)
    assert sorted(found[3].streams) == ["f", "out", "y"]
    assert found[3].samples == 2
    assert found[3].streams["y"].data.toarray().tolist() == [[0, 3]]


def test_different_numbers_of_sequences() -> None:
    Path("b.ctf").write_text("1 |y 1:1\n2 |y 0:1\n")
    reader = make(f"readers=a:b\n{A}{B}")
    message = (
        "reader 'a' has 20 sequences (a.ctf), but reader 'b' has 2 (b.ctf)\n"
        "    Readers side by side need the same sequences in the same order; deserializers=( ... ) joins data by key."
    )
    with pytest.raises(CntkError) as caught:
        next(iter(reader.minibatches(EpochSpec())))
    assert str(caught.value) == message
    assert [str(error) for error in reader.check()] == [message]
    reader.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("readers=a:c\n" + A, "r.cntk:1:1: required parameter missing: reader:c"),
        (
            f"readers=a:b\n{A}{B.replace('y=', 'X=')}",
            "r.cntk:4:1: the stream 'X' of reader 'b' is read by 'a' already\n    Each stream has a name of its own.",
        ),
        (
            "readers=a:b\n" + A.replace("file=a.ctf ; ", "") + B.replace("file=b.ctf ; ", ""),
            "r.cntk:4:1: required parameter missing: reader:b:file",
        ),
    ],
)
def test_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(CntkError) as caught:
        make(text)
    assert message in str(caught.value)


STRANGE = """
from cntk_core.api import *
class Strange(DataReader):
    @classmethod
    def configure(cls, block, what): return NoOptions()
    streams = {}
    def minibatches(self, epoch):
        {}
"""


def strange(streams: str, body: str) -> DataReader:
    Path("p.py").write_text(STRANGE.format(streams, body), encoding="utf-8")
    text = f"reader=[\nreaders=b:s\nrandomize=none\n{B}s=[ readerType=Strange ]\n]"
    config = Config.from_source(SourceText.of(text, "r.cntk"))
    return ActionContext.create(config, Log(), plugin_files=["p.py"]).make_reader(config)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("return None", "returned None, not minibatches"),
        ("yield {'x': 1}", "gave {'x': 1}, not a Minibatch of StreamData"),
        ("yield Minibatch({'x': None}, 1)", "gave a Minibatch, not a Minibatch of StreamData"),
    ],
)
def test_a_strange_reader_is_named(body: str, wrong: str) -> None:
    reader = strange("(StreamInfo('x', (1,)),)", body)
    with pytest.raises(BrokenPluginError) as caught, plugins_named():
        list(reader.minibatches(EpochSpec(minibatch_size=1)))
    reader.close()
    assert caught.value.message == f"Strange.minibatches of the plugin file 'p.py' {wrong}"
    assert "p.py:7\n    Mend the file." in str(caught.value)


@pytest.mark.parametrize(("streams", "shown"), [("None", "None"), ("('x',)", "1 values")])
def test_strange_streams_are_named(streams: str, shown: str) -> None:
    with pytest.raises(CntkError) as caught:
        strange(streams, "yield None")
    first, second = str(caught.value).splitlines()
    assert first == f"r.cntk:5:16: the streams of reader 's' are {shown}, not a tuple of StreamInfo"
    assert second.startswith("    Mend ")
    assert second.endswith(".Strange.streams.")
