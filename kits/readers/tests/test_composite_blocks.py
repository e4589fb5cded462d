from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cntk_core.config import Config, SourceText
from cntk_core.contract.reader import DataReader, EpochSpec, ReaderContext
from cntk_core.errors import CntkError
from cntk_core.plugins.manager import PluginManager
from cntk_kit_readers.composite_reader import CompositeReader, composite_class

A = '[ type=CNTKTextFormatDeserializer ; file="a.ctf" ; input=[ a=[ dim=1 ; format=dense ] ] ]'
B = '[ type=CNTKTextFormatDeserializer ; file="b.ctf" ; input=[ b=[ dim=9 ; format=sparse ] ] ]'
BOTH = f"deserializers=({A}:{B})\nrandomize=false\n"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences 1, 2, 3 with 1, 2, 3 rows; the other file has them backwards and lacks none."""
    monkeypatch.chdir(tmp_path)
    Path("a.ctf").write_text("".join(f"{s} |a {s}.{t}\n" for s in (1, 2, 3) for t in range(s)))
    Path("b.ctf").write_text("".join(f"{s} |b {s + t}:1\n" for s in (3, 4, 2, 1) for t in range(s)))


def configure(text: str) -> tuple[type[CompositeReader], object]:
    reader = composite_class(PluginManager((), ()).registry.readers.get)
    return reader, reader.settings_from(Config.from_source(SourceText.of(text, "r.cntk")), "reader 'Composite'")


def make(text: str = BOTH, **context: object) -> CompositeReader:
    reader, options = configure(text)
    return reader(options, ReaderContext(**context))  # type: ignore[arg-type]


def test_sequences_of_two_files() -> None:
    reader = make()
    (minibatch,) = reader.minibatches(EpochSpec(minibatch_size=10))
    a, b = minibatch.streams["a"], minibatch.streams["b"]
    assert a.layout is b.layout
    assert a.layout.keys == (3, 2, 1)
    assert np.allclose(a.data[:, 0], [3.0, 2.0, 1.0, 3.1, 2.1, 3.2])
    assert b.data.indices.tolist() == [3, 2, 1, 4, 3, 5]  # type: ignore[union-attr]
    assert not list(reader.check())
    reader.close()


def test_frames_and_pieces() -> None:
    frames = make(BOTH + "frameMode=true")
    sizes = [minibatch.samples for minibatch in frames.minibatches(EpochSpec(minibatch_size=4))]
    assert sizes == [4, 2]
    frames.close()
    pieces = make(BOTH + "truncated=true\ntruncationLength=2")
    first, *_ = pieces.minibatches(EpochSpec(minibatch_size=4))
    assert first.streams["a"].layout.slots == 2
    pieces.close()


def test_the_write_action_reads_what_the_network_needs() -> None:
    reader = make(for_writing=True, inputs={"a": (1,)})
    assert [stream.name for stream in reader.streams] == ["a"]
    reader.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("deserializers=()", "r.cntk:1:15: reader 'Composite' has no deserializers\n"
         "    deserializers=( [ type=... ; input=[ ... ] ] : [ type=... ] )"),
        ("deserializers=([ file=x ])", "r.cntk:1:16: a deserializer needs its type\n"
         "    type=HTKFeatureDeserializer, HTKMLFDeserializer, CNTKTextFormatDeserializer, ..."),
        (f"deserializers=({A})\ntruncated=true", "r.cntk:2:1: truncated=true needs "
         "truncationLength\n    Give the frames "
         "of a piece; minibatchSize / truncationLength is how many sequences go side by side."),
        (f"deserializers=({A})\ntruncated=true\nframeMode=true", "r.cntk:2:1: frameMode=true and "
         "truncated=true exclude "
         "each other\n    Truncated training needs sequences."),
        (f"deserializers=({A}:{A})", "r.cntk:1:113: the stream 'a' is read by 'CNTKTextFormatDeserializer' already\n"
         "    Each stream has a name of its own."),
        (f"deserializers=({A.replace('CNTKTextFormat', 'Wav')})", "r.cntk:1:23: no reader named 'WavDeserializer'"),
    ],
)  # fmt: skip
def test_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(CntkError) as caught:
        make(text)
    assert str(caught.value).startswith(message)


def test_all_parts_are_checked_at_once() -> None:
    with pytest.raises(CntkError) as caught:
        make(BOTH.replace("dim=1", "dim=x").replace("dim=9", "dim=0").replace("false", "perhaps"))
    assert str(caught.value).endswith("3 problems found")


def test_what_cannot_be_a_part() -> None:
    class Whole(DataReader):
        requires_api = "1.0"

    def find(name: str, where: object = None) -> type[DataReader]:
        return Whole

    block = Config.from_source(SourceText.of("deserializers=([ type=Whole ])", "r.cntk"))
    with pytest.raises(CntkError) as caught:
        composite_class(find).settings_from(block, "reader 'Composite'")
    assert str(caught.value) == "r.cntk:1:23: 'Whole' cannot be a part of a composite reader"
