"""Minibatches of sound files: frames, pieces, speeds, noise, labels of three forms, composites."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from cntk_reader_audio import AudioFeatureDeserializer
from cntk_reader_audio.noise import Noise
from cntk_reader_audio.spectra import Spectrum, normalized, with_deltas
from cntk_reader_audio.waves import read_list, resample
from scipy.signal import resample_poly
from sounds import CLASSES, FRAMES, LENGTHS, RATE, F, L, wave

from cntk_core.api import CntkError, Config, EpochSpec, Location, ReaderContext, StreamInfo
from cntk_core.api.builders import SourceText
from cntk_core.api.recipes import Log
from cntk_testing.inside import ActionContext, unpack_sequences

ORDER = "frameMode=false\nreadMethod=none\n"
SPECTRUM = Spectrum(dim=5, rate=RATE)


def utterances(reader, stream: str = "features") -> dict[str, np.ndarray]:
    """Return what is read of each utterance, by key, in the order in which it comes."""
    found = {}
    for minibatch in reader.minibatches(EpochSpec(minibatch_size=5)):
        data, layout = minibatch.streams[stream].data, minibatch.streams[stream].layout
        dense = data if isinstance(data, np.ndarray) else data.toarray()
        parts = dict(zip(layout.keys, unpack_sequences(dense, layout), strict=True))
        found |= {layout.keys[i]: parts[layout.keys[i]] for i in np.argsort(layout.order).tolist()}
    return found


def sound(name: str) -> np.ndarray:
    """Return the samples of a file."""
    (path,) = Path().glob(f"{name}.*")
    return soundfile.read(path)[0]


def features(text: str) -> str:
    return F.replace(" ]", f" ; {text} ]")


def test_frames_of_files(make) -> None:
    """wav and flac, in the order of the list."""
    found = utterances(make(ORDER + F, dtype="float64"))
    assert list(found) == list(LENGTHS)
    for name, frames in found.items():
        assert len(frames) == FRAMES[name]
        assert np.array_equal(frames, SPECTRUM.compute(sound(name)))
        assert np.abs(sound(name) - wave(LENGTHS[name], list(LENGTHS).index(name))).max() < 1e-4


def test_single_precision(make) -> None:
    found = utterances(make(ORDER + F))["utt-a"]
    assert found.dtype == np.float32
    assert np.allclose(found, SPECTRUM.compute(sound("utt-a")), atol=1e-4)


def test_every_key_of_the_spectrum_counts(make) -> None:
    text = features(
        "kind=mfcc ; melBands=12 ; frameLength=20 ; frameShift=8 ; lowFrequency=100 ; highFrequency=-200 ; "
        "window=hamming ; preemphasis=0.9 ; useEnergy=true ; snipEdges=false ; lifter=10 ; deltas=2 ; "
        "normalize=meanVariance ; contextWindow=0:1"
    )
    spectrum = Spectrum(
        kind="mfcc", dim=5, rate=RATE, length=20, shift=8, bands=12, low=100, high=-200, window="hamming",
        preemphasis=0.9, energy=True, snip_edges=False, lifter=10,
    )  # fmt: skip
    found = utterances(make(ORDER + text, dtype="float64"))["utt-c"]
    frames = normalized(with_deltas(spectrum.compute(sound("utt-c")), 2), "meanVariance")
    assert np.allclose(found[:, :15], frames)
    assert np.allclose(found[:-1, 15:], frames[1:])


def test_pieces_of_files(make) -> None:
    Path("wav.scp").write_text("one utt-a.wav 0.025 0.08\nutt-b utt-b.flac\n")
    found = utterances(make(ORDER + F, dtype="float64"))
    assert np.array_equal(found["one"], SPECTRUM.compute(sound("utt-a")[200:640]))
    assert np.array_equal(found["utt-b"], SPECTRUM.compute(sound("utt-b")))


def test_pieces_from_the_first_sample_on(make) -> None:
    Path("wav.scp").write_text("one utt-a.wav 0 0.08\ntwo utt-a.wav 0.0 0.05\n")
    found = utterances(make(ORDER + F, dtype="float64"))
    assert np.array_equal(found["one"], SPECTRUM.compute(sound("utt-a")[:640]))
    assert np.array_equal(found["two"], SPECTRUM.compute(sound("utt-a")[:400]))


def test_streams(make) -> None:
    reader = make(ORDER + features("deltas=1 ; contextWindow=5") + L)
    assert reader.streams == (StreamInfo("features", (50,), sequence=True), StreamInfo("labels", (3,), True, True))
    assert make(F + L + "frameMode=true").streams == (StreamInfo("features", (5,)), StreamInfo("labels", (3,), True))


def deserialized(text: str, told: list[str]) -> AudioFeatureDeserializer:
    block = Config.from_source(SourceText.of(text, "r.cntk"))
    options = AudioFeatureDeserializer.settings_from(block, "deserializer")
    return AudioFeatureDeserializer(options, ReaderContext(dtype=np.dtype("f4"), trace=told.append))


INPUT = "input=[ features=[ scpFile=wav.scp ; dim=5 ; sampleRate=8000 ] ]\n"


@pytest.mark.parametrize(("level", "count"), [(0, 0), (1, 1), (2, 1)])
def test_what_a_part_leaves_out(corpus: Path, level: int, count: int) -> None:
    """What it leaves out is told, and found by a check."""
    Path("wav.scp").write_text("utt-a utt-a.wav\nx none.wav\nutt-c utt-c.wav\n")
    told: list[str] = []
    part = deserialized(f"{INPUT}maxErrors=1 ; traceLevel={level} ; randomize=none", told)
    assert part.streams == (StreamInfo("features", (5,), sequence=True),)
    assert part.source.keys(0) == ["utt-a", "utt-c"]
    assert len(told) == count
    assert [error.where for error in part.check()] == [Location("wav.scp", 2, 0)]
    part.close()


def test_a_part_is_shuffled_if_the_recipe_says_so(corpus: Path) -> None:
    for how in ("none", "auto"):
        part = deserialized(f"{INPUT}randomize={how}", [])
        epochs = [[mb.streams["features"].layout.keys for mb in part.minibatches(EpochSpec(epoch=k, minibatch_size=1))]
                  for k in range(3)]  # fmt: skip
        assert (epochs[0] == epochs[1] == epochs[2] == [(name,) for name in LENGTHS]) == (how == "none")
        assert all(sorted(keys) == sorted(epochs[0]) for keys in epochs)
        part.close()


def test_utterances_of_several_chunks(make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cntk_kit_readers.utterances.CHUNK_FRAMES", 12)
    names = list(LENGTHS)
    sources = [part.source for part in make(ORDER + F + L).parts]
    for source in sources:
        assert source.keys(1) == names[2:3]
        assert source.load(1).keys == names[2:3]
        chunks, places = np.array([2, 0]), np.array([1, 1])
        rows = [FRAMES[names[4]], FRAMES[names[1]]]
        (column,) = source.pick(chunks, places).columns.values()
        assert column.lengths(np.arange(2)).tolist() == rows
    fresh = make(ORDER + F + L).parts[0].source
    (column,) = fresh.pick(np.array([1]), np.array([0])).columns.values()
    assert column.lengths(np.arange(1)).tolist() == [FRAMES[names[2]]]


def test_names_with_blanks(make) -> None:
    soundfile.write("a b 1 2.wav", wave(400), RATE)
    Path("wav.scp").write_text("one a b 1 2.wav\ntwo\tutt-a.wav\n")
    assert list(utterances(make(ORDER + F))) == ["one", "two"]


def test_channels(make) -> None:
    soundfile.write("two.wav", np.column_stack([wave(400), wave(400, 9)]), RATE, subtype="DOUBLE")
    Path("wav.scp").write_text("one two.wav\n")
    for channel, seed in ((0, 7), (1, 9)):
        found = utterances(make(ORDER + features(f"channel={channel}"), dtype="float64"))
        assert np.allclose(found["one"], SPECTRUM.compute(wave(400, seed)))


def test_other_rates(make) -> None:
    soundfile.write("fast.wav", wave(1601), 2 * RATE, subtype="DOUBLE")
    Path("wav.scp").write_text("one fast.wav\n")
    found = utterances(make(ORDER + features("resample=true"), dtype="float64"))["one"]
    assert np.allclose(found, SPECTRUM.compute(resample_poly(wave(1601), 1, 2)))


def test_speeds(make) -> None:
    """A copy for each speed; each has frames of its own, and the labels of its utterance."""
    reader = make(ORDER + features("speed=1:0.8:1.25:1:0.8") + L, dtype="float64")
    found = utterances(reader)
    keys = [f"{prefix}{name}" for prefix in ("", "sp0.8-", "sp1.25-", "sp1-2-", "sp0.8-2-") for name in LENGTHS]
    keys.remove("sp1.25-utt-d")
    assert list(found) == keys
    for name in LENGTHS:
        assert np.array_equal(found[f"sp0.8-{name}"], SPECTRUM.compute(resample_poly(sound(name), 5, 4)))
        assert np.array_equal(found[name], found[f"sp1-2-{name}"])
    assert len(found["sp0.8-utt-c"]) > len(found["utt-c"]) > len(found["sp1.25-utt-c"])
    labels = utterances(reader, "labels")
    assert {key: set(np.argmax(rows, axis=1)) for key, rows in labels.items()} == {
        key: {CLASSES[key[-5:]]} for key in keys
    }
    assert reader.told == ["WARNING: wav.scp: 1 copies at another speed are shorter than a frame and left out"]


def test_noise_depends_on_seed_and_key_alone(make) -> None:
    """So a run that goes on reads the same bytes; another copy of an utterance has other noise."""
    text = ORDER + features("noiseSnr=5:15 ; speed=1:1")
    first, again = utterances(make(text)), utterances(make(text))
    assert all(np.array_equal(first[key], again[key]) for key in first)
    assert not np.array_equal(first["utt-a"], first["sp1-2-utt-a"])
    Path("wav.scp").write_text("utt-c utt-c.wav\nutt-a utt-a.wav\n")
    assert np.array_equal(utterances(make(text))["utt-a"], first["utt-a"])
    other = utterances(make(text.replace("noiseSnr", "noiseSeed=1 ; noiseSnr")))
    assert not np.array_equal(other["utt-a"], first["utt-a"])


def noise_of(folder: Path, values: np.ndarray) -> Noise:
    soundfile.write(folder / "noise.wav", values, RATE, subtype="DOUBLE")
    (folder / "noise.scp").write_text(f"n {folder / 'noise.wav'}\n")
    entries, _ = read_list(folder / "noise.scp", Location("r.cntk"), 1 << 20)
    return Noise((0.0, 0.0), 1.0, 0, RATE, entries)


def test_noise_of_a_file_is_added_from_some_place_on(tmp_path: Path) -> None:
    samples = wave(300)
    rising = np.linspace(0.1, 0.9, 5000)
    for key in "abcdef":
        added = noise_of(tmp_path, rising).add(samples, key) - samples
        assert (np.diff(added) > 0).all()
        assert np.allclose(np.diff(added), np.diff(added)[0])
        assert np.isclose(np.sum(added**2), np.sum(samples**2))


def test_noise_that_is_too_short_goes_around(tmp_path: Path) -> None:
    samples = wave(300)
    added = noise_of(tmp_path, np.linspace(0.1, 0.9, 120)).add(samples, "a") - samples
    assert np.allclose(added[:180], added[120:])
    assert (np.diff(added[:120]) > 0).all()


def test_how_loud_noise_is() -> None:
    samples = wave(4000)
    for least, largest in ((10.0, 10.0), (-5.0, 20.0)):
        added = [Noise((least, largest), 1.0, 0, RATE).add(samples, f"{key}") - samples for key in range(50)]
        ratios = [10 * np.log10(np.sum(samples**2) / np.sum(one**2)) for one in added]
        assert min(ratios) >= least - 1e-9
        assert max(ratios) <= largest + 1e-9
        assert max(ratios) - min(ratios) >= 0.8 * (largest - least)
    silence = np.zeros(100)
    assert Noise((0.0, 0.0), 1.0, 0, RATE).add(silence, "a") is silence
    assert Noise((0.0, 0.0), 1.0, 0, RATE).add(samples.astype(np.float32), "a").dtype == np.float32


def test_not_every_utterance_gets_noise() -> None:
    samples = wave(200)
    noise = Noise((10.0, 10.0), 0.25, 0, RATE)
    count = sum(noise.add(samples, f"{key}") is not samples for key in range(400))
    assert 70 < count < 130


def test_noise_of_files(make) -> None:
    """A piece from a random place; a short file goes around, one of another rate is resampled."""
    soundfile.write("tone.wav", np.full(50, 0.5), RATE, subtype="DOUBLE")
    soundfile.write("fast.wav", np.full(9000, -0.25), 2 * RATE, subtype="DOUBLE")
    soundfile.write("nothing.wav", np.zeros(0), RATE)
    base = utterances(make(ORDER + F, dtype="float64"))
    for files, changed in ((["tone.wav"], True), (["fast.wav"], True), (["nothing.wav"], False)):
        Path("noise.scp").write_text("".join(f"n{number} {file}\n" for number, file in enumerate(files)))
        text = ORDER + features("noiseSnr=0 ; noiseFile=noise.scp")
        found = utterances(make(text, dtype="float64"))
        assert found.keys() == base.keys()
        assert all(np.isfinite(rows).all() for rows in found.values())
        assert np.array_equal(found["utt-c"], base["utt-c"]) != changed


def test_labels_of_utterances(make) -> None:
    labels = utterances(make(ORDER + F + L), "labels")
    assert {name: rows.tolist() for name, rows in labels.items()} == {
        name: [[float(i == CLASSES[name]) for i in range(3)]] * FRAMES[name] for name in LENGTHS
    }


def test_frames_are_samples(make) -> None:
    (minibatch,) = make(F + L + "readMethod=none").minibatches(EpochSpec(minibatch_size=100))
    assert minibatch.samples == sum(FRAMES.values())
    classes = np.argmax(minibatch.streams["labels"].data.toarray(), axis=1).tolist()
    assert classes == [CLASSES[name] for name in LENGTHS for _ in range(FRAMES[name])]


def test_alignments(make) -> None:
    """A class for each frame; of a copy at another speed the classes of the frames where they were."""
    Path("ali.txt").write_text("".join(f"{n} {' '.join(str(t % 7) for t in range(FRAMES[n]))}\n" for n in LENGTHS))
    text = "labels=[ labelFile=ali.txt ; labelDim=7 ; labelType=alignment ]"
    labels = utterances(make(ORDER + features("speed=1:2") + text), "labels")
    assert np.argmax(labels["utt-c"], axis=1).tolist() == [t % 7 for t in range(FRAMES["utt-c"])]
    fast = np.argmax(labels["sp2-utt-c"], axis=1).tolist()
    assert fast == [2 * t % 7 for t in range(len(fast))]


def test_all_labels_that_do_not_fit_are_told_of(make) -> None:
    """The first ones by name; of the others how many there are."""
    wrong = "".join(f"{name}{i} 0 0\n" for name in LENGTHS for i in range(2))
    Path("wav.scp").write_text("".join(f"{n}{i} {p}\n" for n, p in _files() for i in range(2)) + "good utt-b.flac\n")
    Path("ali.txt").write_text(f"{wrong}good {' '.join('0' * FRAMES['utt-b'])}\n")
    text = "labels=[ labelFile=ali.txt ; labelDim=7 ; labelType=alignment ]"
    reader = make(f"maxErrors=10\n{ORDER}{F}{text}")
    assert list(utterances(reader)) == ["good"]
    told = [line for line in reader.told if "ali.txt:" in line]
    assert len(told) == 6
    assert told[-1] == "WARNING: ali.txt: 10 malformed utterances left out in all"


def _files() -> list[tuple[str, str]]:
    return [(name, next(Path().glob(f"{name}.*")).name) for name in LENGTHS]


def test_tokens_for_ctc(make) -> None:
    """Each token has its share of the frames, and the value 2 where it begins; equal ones stay two."""
    Path("text").write_text("utt-a b a a\nutt-c a\nutt-e c b\n")
    Path("tokens").write_text("a 1\nb 0\nc 3\n")
    text = "labels=[ labelFile=text ; labelDim=4 ; labelType=ctc ; labelMappingFile=tokens ]"
    labels = utterances(make(ORDER + F + text), "labels")
    assert list(labels) == ["utt-a", "utt-c", "utt-e"]
    assert FRAMES["utt-a"] == 11
    assert np.argmax(labels["utt-a"], axis=1).tolist() == [0] * 3 + [1] * 8
    assert labels["utt-a"].max(axis=1).tolist() == [2, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1]
    assert labels["utt-c"][:, 1].tolist() == [2] + [1] * 16


def test_characters(make) -> None:
    Path("text").write_text("utt-c ab  b\n")
    Path("tokens").write_text("<space>\na\nb\n")
    text = "labels=[ labelFile=text ; labelDim=4 ; labelType=ctc ; labelMappingFile=tokens ; units=characters ]"
    labels = utterances(make(ORDER + F + text), "labels")["utt-c"]
    starts = labels.max(axis=1) == 2
    assert np.argmax(labels[starts], axis=1).tolist() == [1, 2, 0, 2]


def test_without_labels_of_its_own(make) -> None:
    Path("words.txt").write_text("utt-b low\nutt-x high\n")
    reader = make(ORDER + F + L)
    assert list(utterances(reader)) == ["utt-b"]
    assert reader.told[0] == (
        "WARNING: left out: sequence 'utt-a' of stream 'features' is not in stream 'labels' (words.txt)"
    )


def test_long_utterances_are_left_out(make) -> None:
    reader = make(f"{ORDER}maxUtteranceLength=11\n{F}")
    assert list(utterances(reader)) == ["utt-a", "utt-b", "utt-d", "utt-e"]
    assert reader.told == ["WARNING: wav.scp: 1 utterances have more frames than maxUtteranceLength=11"]


def test_two_streams_of_one_sound(make) -> None:
    other = "wide=[ scpFile=wav.scp ; dim=9 ; sampleRate=8000 ; contextWindow=3 ]\n"
    reader = make(ORDER + F + other + L)
    assert utterances(reader, "wide")["utt-b"].shape == (FRAMES["utt-b"], 27)


def test_a_part_of_a_composite(corpus: Path) -> None:
    """Labels of another kind of file, matched by the keys."""
    keys = {name: str(number) for number, name in enumerate(LENGTHS)}
    lines = Path("wav.scp").read_text().splitlines()
    Path("wav.scp").write_text("".join(f"{keys[line.split()[0]]} {line.split()[1]}\n" for line in lines))
    rows = [f"{keys[name]} |y {CLASSES[name]}:1\n" * FRAMES[name] for name in LENGTHS]
    Path("labels.txt").write_text("".join(rows))
    text = """reader=[ randomize=none ; keepDataInMemory=false
      deserializers=([ type=AudioFeatureDeserializer ; input=[ x=[ scpFile=wav.scp ; dim=5 ; sampleRate=8000 ] ] ]:
        [ type=CNTKTextFormatDeserializer ; file=labels.txt ; input=[ y=[ dim=3 ; format=sparse ] ] ]) ]"""
    config = Config.from_source(SourceText.of(text, "r.cntk"))
    reader = ActionContext.create(config, Log()).make_reader(config)
    assert {str(key): len(rows) for key, rows in utterances(reader, "x").items()} == {
        keys[name]: frames for name, frames in FRAMES.items()
    }
    assert not list(reader.check())
    reader.close()
    wrong = """reader=[ deserializers=(
        [ type=AudioFeatureDeserializer ; input=[ x=[ labelFile=words.txt ; labelDim=3 ] ] ]) ]"""
    config = Config.from_source(SourceText.of(wrong, "r.cntk"))
    with pytest.raises(CntkError) as caught:
        ActionContext.create(config, Log()).make_reader(config)
    assert caught.value.message.endswith("reads features, and 'x' is something else")


def test_resampling_keeps_the_precision() -> None:
    from fractions import Fraction

    assert resample(wave(100).astype(np.float32), Fraction(10, 9)).dtype == np.float32
    samples = wave(100)
    assert resample(samples, Fraction(1)) is samples


@pytest.mark.parametrize("count", [2, 5, 6, 9])
def test_many_malformed_utterances(make, count: int) -> None:
    """The first five are shown, and how many more there are."""
    Path("wav.scp").write_text(
        "utt-a utt-a.wav\n" + "".join(f"x{number} none{number}.wav\n" for number in range(count))
    )
    with pytest.raises(CntkError) as caught:
        utterances(make(f"{ORDER}{F}maxErrors=1\n"))
    first, *lines = str(caught.value).splitlines()
    assert first == f"wav.scp: {count} malformed utterances, maxErrors=1"
    assert len([line for line in lines if ".wav'" in line]) == min(count, 5)
    assert [line.strip() for line in lines if "more" in line] == ([f"... and {count - 5} more"] if count > 5 else [])
    reader = make(f"{ORDER}{F}maxErrors={count}\n")
    assert list(utterances(reader)) == ["utt-a"]
    assert len(reader.told) == min(count, 5) + (count > 5)
