"""Minibatches of Kaldi's tables: keys, windows, ranges, i-vectors, composites."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kaldi_bytes import LENGTHS, F, L, archive, classes_of, frames_of, matrix, posterior, text_matrix, vector

from cntk_core.api import CntkError, Config, EpochSpec
from cntk_core.api.builders import SourceText
from cntk_core.api.recipes import Log
from cntk_testing.inside import ActionContext, unpack_sequences

ORDER = "readMethod=none\n"


def utterances(reader, stream: str = "features") -> dict[str, list]:
    """Return what is read of each utterance, by key, in the order in which it comes."""
    found = {}
    for minibatch in reader.minibatches(EpochSpec(minibatch_size=5)):
        data, layout = minibatch.streams[stream].data, minibatch.streams[stream].layout
        dense = data if isinstance(data, np.ndarray) else data.toarray()
        parts = dict(zip(layout.keys, unpack_sequences(dense, layout), strict=True))
        found |= {layout.keys[i]: parts[layout.keys[i]].tolist() for i in np.argsort(layout.order).tolist()}
    return found


def expected(names=LENGTHS) -> dict[str, list]:
    return {name: frames_of(name).tolist() for name in names}


@pytest.mark.parametrize("table", ["scpFile=feats.scp", "scpFile=feats.ark", "rx=feats.rx", 'rx="scp:feats.scp"'])
def test_features_and_labels(make, table: str) -> None:
    Path("feats.rx").write_text("ark,s,cs:feats.ark\n")
    reader = make(f"frameMode=false\n{ORDER}features=[ dim=2 ; {table} ]\n{L}")
    assert utterances(reader) == expected()
    assert list(utterances(reader)) == list(LENGTHS)
    labels = utterances(reader, "labels")
    assert {name: np.argmax(rows, axis=1).tolist() for name, rows in labels.items()} == {
        name: classes_of(name) for name in LENGTHS
    }
    assert not list(reader.check())


def test_files_whose_names_look_like_specifiers(make) -> None:
    Path("feats.scp").rename("odd:feats.scp")
    Path("ark").write_bytes(Path("feats.ark").read_bytes())
    for table in ("odd:feats.scp", "ark"):
        reader = make(f'frameMode=false\n{ORDER}features=[ dim=2 ; scpFile="{table}" ]')
        assert utterances(reader) == expected()


def test_utterances_of_several_chunks(make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cntk_kit_readers.utterances.CHUNK_FRAMES", 1)
    reader = make(f"frameMode=false\n{ORDER}{F}{L}")
    chunks = len(reader.source.index())
    assert chunks > 3
    assert [key for chunk in range(chunks) for key in reader.source.load(chunk).keys] == list(LENGTHS)
    assert utterances(reader) == expected()


def test_text_archives(make) -> None:
    Path("t.ark").write_bytes(archive({name: text_matrix(frames_of(name)) for name in LENGTHS})[0])
    Path("ali.txt").write_bytes(archive({n: b"".join(b"%d " % c for c in classes_of(n)) + b"\n" for n in LENGTHS})[0])
    reader = make('frameMode=false\nreadMethod=none\nfeatures=[ dim=2 ; scpFile=t.ark ]\n'
                  'labels=[ labelDim=3 ; mlfFile="ark,t:ali.txt" ]')  # fmt: skip
    assert utterances(reader) == expected()


def test_ranges_of_rows(make) -> None:
    offset = Path("feats.scp").read_text().split()[1]
    Path("part.scp").write_text(f"first {offset}[0:2]\nlast {offset}[6:6]\n")
    reader = make(f"frameMode=false\n{ORDER}features=[ dim=2 ; scpFile=part.scp ]")
    whole = frames_of("utt-a").tolist()
    assert utterances(reader) == {"first": whole[:3], "last": whole[6:]}


def test_windows_and_frames(make) -> None:
    """In frame mode each frame has its window, with repeated frames at the ends of the utterances."""
    reader = make(ORDER + F.replace("dim=2", "dim=2 ; contextWindow=1:2") + L)
    (minibatch,) = reader.minibatches(EpochSpec(minibatch_size=100))
    data = minibatch.streams["features"].data
    assert data.shape == (27, 8)
    frames = frames_of("utt-a")
    assert data[0].tolist() == np.concatenate([frames[0], frames[0], frames[1], frames[2]]).tolist()
    assert data[6].tolist() == np.concatenate([frames[5], frames[6], frames[6], frames[6]]).tolist()


def test_list_of_lengths(make) -> None:
    Path("counts").write_text("utt-c 9\nutt-a 7\n")
    Path("feats.rx").write_text("scp:feats.scp\n")
    text = f"frameMode=false\n{ORDER}features=[ dim=2 ; rx=feats.rx ; scpFile=counts ]"
    assert utterances(make(text)) == expected(["utt-a", "utt-c"])
    Path("counts").write_text("utt-c 8\n")
    with pytest.raises(CntkError) as caught:
        utterances(make(text))
    assert str(caught.value) == (
        "feats.scp:3: 'utt-c' has 9 frames, and the list of lengths says 8\n"
        "    Make the list again: feat-to-len writes it."
    )


def test_long_utterances_are_left_out(make) -> None:
    text = f"frameMode=false\nmaxUtteranceLength=7\n{ORDER}{F}"
    reader = make(text)
    assert utterances(reader) == expected(["utt-a", "utt-b", "utt-d", "utt-e"])
    assert reader.told == ["WARNING: feats.scp: 1 utterances have more frames than maxUtteranceLength=7"]
    reader = make(text.replace("=7", "=9"))
    assert utterances(reader) == expected()
    assert reader.told == []
    # Without frameMode=false frames count, not utterances.
    assert sum(minibatch.samples for minibatch in make(f"maxUtteranceLength=7\n{F}").minibatches(EpochSpec(100))) == 27


def test_ranges_of_alignments(make) -> None:
    """A list may name a part of each alignment; the features have to be as long."""
    offset = Path("ali.ark").read_bytes().index(b"utt-c ") + 6
    Path("ali.scp").write_text(f"utt-c ali.ark:{offset}[2:5]\n")
    (line,) = (line for line in Path("feats.scp").read_text().splitlines() if line.startswith("utt-c "))
    Path("feats.scp").write_text(f"{line}[2:5]\n")
    labels = utterances(make(f"frameMode=false\n{ORDER}{F}{L.replace('ark:ali.ark', 'scp:ali.scp')}"), "labels")
    assert np.argmax(labels["utt-c"], axis=1).tolist() == classes_of("utt-c")[2:6]


def test_i_vectors(make) -> None:
    vectors = {name: vector(np.array([i, -i])) for i, name in enumerate(LENGTHS)}
    Path("i.ark").write_bytes(archive(vectors)[0])
    reader = make(f"frameMode=false\n{ORDER}{F}aid=[ dim=2 ; scpFile=i.ark ; expandToUtterance=true ]")
    assert utterances(reader, "aid")["utt-c"] == [[2, -2]] * 9


def test_posteriors(make) -> None:
    frames = {name: [[(c, 0.25), ((c + 1) % 3, 0.5)] for c in classes_of(name)] for name in LENGTHS}
    frames["utt-c"][4] = []
    Path("ali.ark").write_bytes(archive({name: posterior(own) for name, own in frames.items()})[0])
    soft = utterances(make(f"frameMode=false\n{ORDER}{F}{L}"), "labels")
    rows = [[dict(pairs).get(i, 0) for i in range(3)] for pairs in frames["utt-c"]]
    assert soft["utt-c"] == rows
    assert rows[4] == [0, 0, 0]
    hard = utterances(make(f"frameMode=false\nsoftLabels=false\n{ORDER}{F}{L}"), "labels")
    assert hard["utt-c"] == [[float(value == 0.5) for value in row] for row in rows]


def test_labels_that_come_later(make) -> None:
    for key in ("targets_delay", "targetsDelay"):
        labels = utterances(make(f"frameMode=false\n{key}=2\n{ORDER}{F}{L}"), "labels")
        own = classes_of("utt-c")
        assert np.argmax(labels["utt-c"], axis=1).tolist() == [own[0], own[0], *own[:-2]]


def test_label_mapping(make) -> None:
    """The number of a class is that of its line; the same numbers change nothing."""
    Path("map").write_text("2\n0\n1\n")
    labels = utterances(make(f"frameMode=false\n{ORDER}{F}{L.replace(']', '; labelMappingFile=map ]')}"), "labels")
    assert np.argmax(labels["utt-c"], axis=1).tolist() == [[1, 2, 0][one] for one in classes_of("utt-c")]
    Path("map").write_text("0\n1\n2\n")
    labels = utterances(make(f"frameMode=false\n{ORDER}{F}{L.replace(']', '; labelMappingFile=map ]')}"), "labels")
    assert np.argmax(labels["utt-c"], axis=1).tolist() == classes_of("utt-c")


def test_ranges_of_columns(make) -> None:
    offset = Path("feats.scp").read_text().split()[1]
    Path("part.scp").write_text(f"one {offset}[0:2,1:1]\nall {offset}[:,0:0]\n")
    reader = make(f"frameMode=false\n{ORDER}features=[ dim=1 ; scpFile=part.scp ]")
    whole = frames_of("utt-a")
    assert utterances(reader) == {"one": whole[:3, 1:].tolist(), "all": whole[:, :1].tolist()}


def test_ranges_that_end_a_little_late(make) -> None:
    offset = Path("feats.scp").read_text().split()[1]
    Path("part.scp").write_text(f"one {offset}[5:9]\n")
    reader = make(f"frameMode=false\n{ORDER}features=[ dim=2 ; scpFile=part.scp ]")
    assert utterances(reader) == {"one": frames_of("utt-a")[5:].tolist()}
    assert reader.told == ["WARNING: part.scp: 1 ranges end up to 3 frames behind their utterance"]


def test_truncated_training(make) -> None:
    reader = make(f"frameMode=false\ntruncated=true\ntruncationLength=4\n{ORDER}{F}{L}")
    sizes = [minibatch.samples for minibatch in reader.minibatches(EpochSpec(minibatch_size=8))]
    assert sum(sizes) == 27
    assert max(sizes) == 8


def test_missing_labels_are_left_out(make) -> None:
    data = archive({name: matrix(frames_of(name)) for name in LENGTHS})[0]
    Path("feats.ark").write_bytes(data)
    Path("ali.ark").write_bytes(b"utt-b 0 0 1 2\nutt-c 1 1\n")
    reader = make(f"frameMode=false\n{ORDER}{F}{L}")
    assert list(utterances(reader)) == ["utt-b"]
    assert reader.told[0] == (
        "WARNING: left out: sequence 'utt-a' of stream 'features' is not in stream 'labels' (ali.ark)"
    )
    assert reader.told[1] == (
        "WARNING: left out: sequence 'utt-c' has 9 frames in stream 'features', but 2 in stream 'labels'"
    )


def test_parts_of_a_composite(corpus: Path) -> None:
    text = """reader=[ randomize=none
      deserializers=([ type=KaldiFeatureDeserializer ; input=[ x=[ dim=2 ; scpFile=feats.scp ] ] ]:
                     [ type=KaldiAlignmentDeserializer ; input=[ y=[ labelDim=3 ; mlfFile="ark:ali.ark" ] ] ]) ]"""
    config = Config.from_source(SourceText.of(text, "r.cntk"))
    reader = ActionContext.create(config, Log()).make_reader(config)
    assert utterances(reader, "x") == expected()
    assert not list(reader.check())
    reader.close()
