"""Ranges of columns, posteriors of single frames, parts of composites, and what the streams are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_reader_kaldi import KaldiAlignmentDeserializer, KaldiFeatureDeserializer
from cntk_reader_kaldi.archive import ArchiveFile
from kaldi_bytes import LENGTHS, F, L, archive, compressed, frames_of, matrix, posterior, text_matrix

from cntk_core.api import CntkError, Config, DataError, EpochSpec, ReaderContext, StreamInfo
from cntk_core.api.builders import SourceText

ORDER = "frameMode=false\nreadMethod=none\n"


def read(reader: Any, stream: str) -> list[list[float]]:
    (minibatch,) = reader.minibatches(EpochSpec(minibatch_size=1000))
    data = minibatch.streams[stream].data
    return (data if isinstance(data, np.ndarray) else data.toarray()).tolist()


@pytest.mark.parametrize(("columns", "kept"), [("0:0", [0]), ("1:2", [1, 2]), ("2:2", [2]), ("0:2", [0, 1, 2])])
def test_ranges_of_columns(make, columns: str, kept: list[int]) -> None:
    frames = np.arange(12.0).reshape(4, 3)
    data, offsets = archive({"u": matrix(frames)})
    Path("wide.ark").write_bytes(data)
    Path("wide.scp").write_text(f"u wide.ark:{offsets['u']}[1:2,{columns}]\n")
    reader = make(f"{ORDER}features=[ dim={len(kept)} ; scpFile=wide.scp ]")
    assert read(reader, "features") == frames[1:3, kept].tolist()


def test_streams(make) -> None:
    reader = make(ORDER + F.replace("dim=2", "dim=2 ; contextWindow=3") + L)
    assert reader.streams == (StreamInfo("features", (6,), sequence=True), StreamInfo("labels", (3,), True, True))
    assert make(F + L).streams == (StreamInfo("features", (2,)), StreamInfo("labels", (3,), True))


def test_keys_that_exclude_each_other(make) -> None:
    with pytest.raises(CntkError) as caught:
        make(f"frameMode=true ; truncated=true\n{F}{L}")
    assert "frameMode" in str(caught.value)
    assert "truncated" in str(caught.value)


@pytest.mark.parametrize("frames", [[[(0, 1.0)]], [[(0, 0.5), (2, 0.5)]], [[(0, 0.5), (2, 0.5)], [(1, 1.0)]]])
def test_posteriors_of_any_length(make, frames: list[list[tuple[int, float]]]) -> None:
    """Of one frame, too, with one class or several."""
    Path("post.ark").write_bytes(archive({name: posterior(frames) for name in ("a", "b")})[0])
    shown = np.arange(len(frames) * 2.0).reshape(-1, 2)
    Path("x.ark").write_bytes(archive({name: matrix(shown) for name in ("a", "b")})[0])
    labels = 'labels=[ labelDim=3 ; mlfFile="ark:post.ark" ; softLabels=true ]'
    reader = make(f"{ORDER}features=[ dim=2 ; scpFile=x.ark ]\n{labels}")
    weights = [[dict(pairs).get(number, 0.0) for number in range(3)] for pairs in frames]
    assert sorted(read(reader, "labels")) == sorted(weights * 2)
    assert reader.source.index()[0].sample_counts().tolist() == [len(frames)] * 2


def test_the_ends_of_percentiles_are_those_of_the_range(tmp_path: Path) -> None:
    heads = np.array([[0, 21845, 43690, 65535]])
    path = tmp_path / "x.ark"
    path.write_bytes(compressed(np.array([[0], [64], [192], [255]]), -3.0, 1.5, b"CM ", heads))
    file = ArchiveFile(str(path))
    found = np.zeros((4, 1))
    file.read(file.header(0), 0, found)
    file.close()
    np.testing.assert_allclose(found[:, 0], [-3.0, -2.5, -2.0, -1.5], rtol=1e-12)


def test_a_row_that_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "x.ark"
    path.write_bytes(b"[\n 1 2\n" + b" 1" * 40 + b"\n]\n")
    file = ArchiveFile(str(path), 60)
    with pytest.raises(DataError) as caught:
        file.header(0)
    file.close()
    assert str(caught.value) == (
        f"'{path}', byte 0: row 1 of the matrix has more than 60 bytes, maxLineBytes=60\n"
        "    Is it the right file? If it is, give the reader a larger maxLineBytes."
    )


def part(kind: Any, text: str, told: list[str]) -> Any:
    options = kind.settings_from(Config.from_source(SourceText.of(text, "r.cntk")), "deserializer")
    return kind(options, ReaderContext(dtype=np.dtype("f4"), trace=told.append))


@pytest.mark.parametrize(("level", "count"), [(0, 0), (1, 1), (2, 1)])
def test_parts_tell_and_find_what_they_leave_out(corpus: Path, level: int, count: int) -> None:
    rest = f"maxErrors=1 ; traceLevel={level} ; randomize=none"
    whole = Path("feats.scp").read_text()
    Path("feats.scp").write_text(f"{whole}x none.ark:1\n")
    made = archive({"utt-a": b"7 8\n", "utt-b": b"0 1\n"})[0]
    Path("ali.ark").write_bytes(made)
    inputs = {
        KaldiFeatureDeserializer: "input=[ f=[ dim=2 ; scpFile=feats.scp ] ]",
        KaldiAlignmentDeserializer: 'input=[ l=[ labelDim=3 ; mlfFile="ark,t:ali.ark" ] ]',
    }
    for kind, text in inputs.items():
        told: list[str] = []
        reader = part(kind, f"{text}\n{rest}", told)
        keys = list(LENGTHS) if kind is KaldiFeatureDeserializer else ["utt-b"]
        assert [key for chunk in range(len(reader.source.index())) for key in reader.source.keys(chunk)] == keys
        assert len(told) == count
        assert len(list(reader.check())) == 1
        reader.close()


def test_text_matrices_lie_end_to_end(make) -> None:
    Path("t.ark").write_bytes(archive({name: text_matrix(frames_of(name)) for name in ("utt-a", "utt-b")})[0])
    reader = make(f"{ORDER}features=[ dim=2 ; scpFile=t.ark ]")
    assert sorted(read(reader, "features")) == sorted(
        row for name in ("utt-a", "utt-b") for row in frames_of(name).tolist()
    )
