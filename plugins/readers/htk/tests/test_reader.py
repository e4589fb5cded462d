"""What the readers give: frames and windows, labels, utterances, i-vectors, pieces; what is left out and said."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from cntk_reader_htk.htkfile import FeatureFile

from cntk_core.api import CntkError, EpochSpec
from cntk_testing.inside import pack, unpack

LENGTHS = {"utt0": 7, "utt1": 4, "utt2": 9, "utt3": 1, "utt4": 6}
FEATURES = "features=[ dim=2 ; scpFile=archive.scp ]\n"
LABELS = "labels=[ labelDim=3 ; mlfFile=ali.mlf ; labelMappingFile=states.list ]\n"


def frames_of(name: str, dim: int = 2) -> np.ndarray:
    number = list(LENGTHS).index(name)
    return np.array([[100 * number + t + i / 4 for i in range(dim)] for t in range(LENGTHS[name])], dtype=np.float32)


def classes_of(name: str) -> list[int]:
    return [(t + len(name)) // 2 % 3 for t in range(LENGTHS[name])]


def htk(frames: np.ndarray, order: str = ">", kind: int = 9, tail: bytes = b"", period: int = 100_000) -> bytes:
    header = struct.pack(f"{order}iiHH", len(frames), period, 4 * frames.shape[1], kind)
    return header + frames.astype(f"{order}f4").tobytes() + tail


def whole(reader, size: int = 1000):
    (minibatch,) = reader.minibatches(EpochSpec(minibatch_size=size))
    return minibatch.streams


class TestFrames:
    def test_order_of_the_list(self, make) -> None:
        streams = whole(make(FEATURES + LABELS + "randomize=none"))
        assert np.array_equal(streams["features"].data, np.concatenate([frames_of(name) for name in LENGTHS]))
        expected = np.concatenate([classes_of(name) for name in LENGTHS])
        assert streams["labels"].sparse
        assert np.array_equal(streams["labels"].data.toarray(), np.eye(3)[expected])

    @pytest.mark.parametrize(("window", "left", "right"), [("3", 1, 1), ("2:1", 2, 1), ("0:3", 0, 3), ("11", 5, 5)])
    def test_windows_repeat_the_edges(self, make, window: str, left: int, right: int) -> None:
        text = f"features=[ dim=2 ; contextWindow={window} ; scpFile=files.scp ]\nrandomize=none"
        expected = []
        for name in LENGTHS:
            frames = frames_of(name)
            for t in range(len(frames)):
                steps = np.clip(np.arange(t - left, t + right + 1), 0, len(frames) - 1)
                expected.append(frames[steps].ravel())
        assert np.array_equal(whole(make(text))["features"].data, expected)

    def test_window_from_the_dimension(self, make) -> None:
        wide = make("features=[ dim=6 ; scpFile=archive.scp ]")
        named = make("features=[ dim=2 ; contextWindow=3 ; scpFile=archive.scp ]")
        assert np.array_equal(whole(wide)["features"].data, whole(named)["features"].data)

    def test_random_order_keeps_pairs_together(self, make) -> None:
        streams = whole(make())
        values = streams["features"].data[:, 0]
        names = list(LENGTHS)
        expected = [classes_of(names[int(v) // 100])[int(v) % 100] for v in values.tolist()]
        assert not np.array_equal(values, np.sort(values))
        assert np.array_equal(streams["labels"].data.indices, expected)

    def test_shape_of_the_network(self, make) -> None:
        text = "features=[ dim=2 ; contextWindow=3 ; scpFile=archive.scp ]"
        reader = make(text, inputs={"Features": (3, 2)})
        assert whole(reader)["Features"].data.shape == (27, 3, 2)

    def test_several_chunks(self, make, monkeypatch: pytest.MonkeyPatch) -> None:
        expected = whole(make(FEATURES + LABELS + "randomize=none"))
        monkeypatch.setattr("cntk_kit_readers.utterances.CHUNK_FRAMES", 5)
        found = whole(make(FEATURES + LABELS + "randomize=none"))
        assert np.array_equal(found["features"].data, expected["features"].data)
        assert np.array_equal(found["labels"].data.indices, expected["labels"].data.indices)


class TestUtterances:
    def test_packed(self, make) -> None:
        streams = whole(make(FEATURES + LABELS + "frameMode=false ; randomize=none"))
        layout = streams["features"].layout
        assert layout.keys == ("utt2", "utt0", "utt4", "utt1", "utt3")
        assert layout is streams["labels"].layout
        for name, frames in zip(LENGTHS, unpack(streams["features"].data, layout), strict=True):
            assert np.array_equal(frames, frames_of(name))
        assert np.array_equal(pack([frames_of(name) for name in LENGTHS], layout), streams["features"].data)

    def test_utterances_side_by_side(self, make) -> None:
        text = FEATURES + "frameMode=false ; randomize=none ; nbruttsineachrecurrentiter=2:3"
        sizes = [minibatch.samples for minibatch in make(text).minibatches(EpochSpec(minibatch_size=1))]
        assert sizes == [11, 10, 6]
        sizes = [minibatch.samples for minibatch in make(text).minibatches(EpochSpec(epoch=1, minibatch_size=1))]
        assert sizes == [20, 7]
        new = make(text, old=False)
        assert [one.samples for one in new.minibatches(EpochSpec(minibatch_size=1))] == [7, 4, 9, 1, 6]

    def test_phone_boundaries(self, make) -> None:
        labels = LABELS.replace(" ]", " ; phoneBoundaries=true ]")
        data = whole(make(FEATURES + labels + "frameMode=false ; randomize=none"))["labels"]
        (first, *_) = unpack(data.data.toarray(), data.layout)
        assert first.max(axis=1).tolist() == [2, 1, 2, 1, 2, 1, 2]

    def test_write_action_has_an_utterance_in_each_minibatch(self, make) -> None:
        reader = make(FEATURES + LABELS, for_writing=True, inputs={"features": (2,)})
        found = list(reader.minibatches(EpochSpec(minibatch_size=64)))
        assert [one.samples for one in found] == list(LENGTHS.values())
        assert [one.streams["features"].layout.keys for one in found] == [(name,) for name in LENGTHS]
        assert set(found[0].streams) == {"features"}

    def test_long_utterances_are_left_out(self, make) -> None:
        reader = make(FEATURES + "frameMode=false ; maxUtteranceLength=6", old=False)
        assert whole(reader)["features"].layout.frames == 11
        assert reader.told == ["WARNING: archive.scp: 2 utterances have more frames than maxUtteranceLength=6"]

    def test_i_vectors(self, make, corpus: Path) -> None:
        for name in LENGTHS:
            Path(f"feat/{name}.iv").write_bytes(htk(np.full((1, 3), LENGTHS[name], dtype=np.float32)))
        Path("iv.scp").write_text("".join(f"{name}.x=feat/{name}.iv[0,0]\n" for name in reversed(LENGTHS)))
        text = FEATURES + "a=[ dim=3 ; scpFile=iv.scp ; expandToUtterance=true ]\nrandomize=none"
        streams = whole(make(text))
        lengths = list(LENGTHS.values())
        assert np.array_equal(streams["a"].data[:, 2], np.repeat(lengths, lengths))


class TestPieces:
    def test_slots_go_on(self, make) -> None:
        text = FEATURES + LABELS + "frameMode=false ; truncated=true ; randomize=none ; nbruttsineachrecurrentiter=2"
        reader = make(text)
        slots: list[list[float]] = [[], []]
        begun: list[str] = []
        carried: set[int] = set()
        for minibatch in reader.minibatches(EpochSpec(minibatch_size=3)):
            layout = minibatch.streams["features"].layout
            places = np.lexsort((layout.lengths, layout.order))
            for place, frames in enumerate(unpack(minibatch.streams["features"].data[:, 0], layout)):
                slots[place] += frames.tolist()
            starts = {int(slot) for slot, step in layout.begins if step == 0}
            place_of = {int(slot): place for place, slot in enumerate(places)}
            continued = {place_of[s] for s in range(layout.slots) if layout.lengths[s] and s not in starts}
            assert continued == carried
            carried = {place_of[slot] for slot in layout.continues}
            begun += [str(key) for key in layout.keys]
        assert not carried
        assert sorted(begun) == list(LENGTHS)
        expected = [["utt0", "utt2", "utt4"], ["utt1", "utt3"]]
        first = [[100 * list(LENGTHS).index(n) + t for n in names for t in range(LENGTHS[n])] for names in expected]
        assert sorted(map(len, slots)) == sorted(len(slot) for slot in slots)
        assert sorted(value for slot in slots for value in slot) == sorted(
            100 * i + t for i, n in enumerate(LENGTHS) for t in range(LENGTHS[n])
        )
        assert slots[0][:7] == first[0][:7]
        assert slots[1][:4] == first[1][:4]

    def test_rates_belong_to_all_slots(self, make) -> None:
        old = make(FEATURES + "frameMode=false ; truncated=true ; nbruttsineachrecurrentiter=4:8")
        assert [old.minibatch_factor(epoch) for epoch in range(3)] == [4, 8, 8]
        new = make(FEATURES + "frameMode=false ; truncated=true ; truncationLength=2 ; nbruttsineachrecurrentiter=4")
        assert new.minibatch_factor(0) == 1


class TestKeys:
    def test_missing_labels_are_left_out_and_said(self, make, corpus: Path) -> None:
        text = Path("ali.mlf").read_text().replace('"*/utt1.lab"', '"*/other.lab"')
        Path("ali.mlf").write_text(text)
        reader = make()
        assert whole(reader)["features"].layout.frames == 23
        message = "sequence 'utt1' of stream 'features' is not in stream 'labels' (ali.mlf)"
        assert reader.told == [f"WARNING: left out: {message}"]

    def test_lengths_that_differ(self, make, corpus: Path) -> None:
        Path("archive.scp").write_text(Path("archive.scp").read_text().replace("[7,10]", "[7,9]"))
        reader = make()
        assert whole(reader)["features"].layout.frames == 23
        message = "sequence 'utt1' has 3 frames in stream 'features', but 4 in stream 'labels'"
        assert reader.told == [f"WARNING: left out: {message}"]
        with pytest.raises(CntkError) as caught:
            whole(make(FEATURES + LABELS + "checkData=false"))
        assert str(caught.value) == f"{message}\n    checkData=true leaves such sequences out."

    def test_no_key_in_common(self, make, corpus: Path) -> None:
        Path("ali.mlf").write_text(Path("ali.mlf").read_text().replace("*/", "an4/"))
        with pytest.raises(CntkError) as caught:
            whole(make())
        assert str(caught.value) == (
            "no sequence is in all streams: "
            "sequence 'utt0' of stream 'features' is not in stream 'labels' (ali.mlf)\n"
            "    The keys have to be the same in all files; without folders and extensions where those differ."
        )

    def test_duplicates_are_left_out(self, make, corpus: Path) -> None:
        Path("archive.scp").write_text(Path("archive.scp").read_text() + "utt1.fbank=all.chunk[7,10]\n")
        reader = make(FEATURES)
        assert whole(reader)["features"].layout.frames == 23
        assert reader.told == ["WARNING: archive.scp: left out, since they occur more than once: 'utt1'"]


class TestFormats:
    @pytest.mark.parametrize("order", [">", "<"])
    def test_byte_orders_and_checksums(self, tmp_path: Path, order: str) -> None:
        path = tmp_path / "a.mfc"
        path.write_bytes(htk(frames_of("utt0"), order, kind=6 | 0o100 | 0o400 | 0o1000 | 0o10000 | 0o20000, tail=b"cc"))
        file = FeatureFile(str(path))
        assert (file.header.kind, file.header.frames, file.header.dim) == ("MFCC_E_D_A_0", 7, 2)
        found = np.zeros((3, 2))
        file.read(2, 4, found)
        file.close()
        assert np.array_equal(found, frames_of("utt0")[2:5])

    @pytest.mark.parametrize("period", [0, 0x01020201])
    @pytest.mark.parametrize("order", [">", "<"])
    def test_the_size_decides_where_the_period_reads_the_same_both_ways(
        self, tmp_path: Path, order: str, period: int
    ) -> None:
        path = tmp_path / "a.mfc"
        path.write_bytes(htk(frames_of("utt0"), order, period=period))
        file = FeatureFile(str(path))
        assert (file.header.order, file.header.frames, file.header.period) == (order, 7, period)
        file.close()

    @pytest.mark.parametrize("order", [">", "<"])
    def test_compressed(self, tmp_path: Path, order: str) -> None:
        stored = np.array([[0, 100], [-300, 7], [32767, -32768]])
        scale, shift = np.array([10.0, 1000.0]), np.array([5.0, -20.0])
        header = struct.pack(f"{order}iiHH", 3 + 4, 100_000, 4, 6 | 0o2000)
        vectors = np.concatenate([scale, shift]).astype(f"{order}f4").tobytes()
        path = tmp_path / "a.mfc"
        path.write_bytes(header + vectors + stored.astype(f"{order}i2").tobytes())
        file = FeatureFile(str(path))
        found = np.zeros((3, 2))
        file.read(0, 2, found)
        file.close()
        assert np.allclose(found, (stored + shift) / scale, rtol=1e-6)

    def test_guid_and_bytes(self, tmp_path: Path) -> None:
        body = htk(frames_of("utt1"), kind=12)
        path = tmp_path / "a.fe"
        path.write_bytes(body[:12] + bytes(range(16)) + body[12:])
        file = FeatureFile(str(path))
        assert file.header.kind == "USER;guid=000102030405060708090a0b0c0d0e0f"
        file.close()
        images = tmp_path / "t10k-images-idx3-ubyte"
        images.write_bytes(struct.pack(">4i", 2051, 3, 2, 2) + bytes(range(12)))
        file = FeatureFile(str(images))
        found = np.zeros((2, 4))
        file.read(1, 2, found)
        file.close()
        assert found.tolist() == [[4, 5, 6, 7], [8, 9, 10, 11]]

    def test_times_in_frames(self, make, corpus: Path) -> None:
        expected = whole(make(FEATURES + LABELS + "randomize=none"))["labels"].data.indices
        text = Path("ali.mlf").read_text().replace("00000 ", " ")
        Path("ali.mlf").write_text(text)
        found = whole(make(FEATURES + LABELS + "randomize=none"))["labels"].data.indices
        assert np.array_equal(found, expected)

    def test_classes_without_a_state_list(self, make, corpus: Path) -> None:
        expected = whole(make(FEATURES + LABELS + "randomize=none"))["labels"].data.indices
        text = Path("ali.mlf").read_text()
        for number, state in enumerate(("a[2]", "a[3]", "sil[2]")):
            text = text.replace(state, f"{state} {number}")
        Path("b.mlf").write_text(text)
        Path("mlfs").write_text("b.mlf\n")
        found = whole(make(FEATURES + "labels=[ dim=3 ; mlfFileList=mlfs ]\nrandomize=none"))["labels"].data.indices
        assert np.array_equal(found, expected)

    def test_places_of_files(self, make, corpus: Path) -> None:
        expected = whole(make(FEATURES))["features"].data
        Path("lists").mkdir()
        Path("lists/bare.scp").write_text("".join(f"{name}.mfc=feat/{name}.mfc\n" for name in LENGTHS))
        Path("feat/near.scp").write_text("".join(f".../{name}.mfc\n" for name in LENGTHS))
        text = 'features=[ dim=2 ; scpFile=lists/bare.scp ; prefixPathInSCP="./" ]'
        assert np.array_equal(whole(make(text))["features"].data, expected)
        near = make("features=[ dim=2 ; scpFile=feat/near.scp ]")
        assert np.array_equal(whole(near)["features"].data, expected)
