"""Lists of sounds, pieces of files, heads of wav files, speeds, noise: the last value that is taken and the next."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import soundfile
from cntk_reader_audio.noise import Noise
from cntk_reader_audio.spectra import Spectrum, with_deltas
from cntk_reader_audio.waves import Entry, Piece, copies, find_piece, ratio_of, read_list, read_samples, resampled_count
from sounds import RATE, wave

from cntk_core.api import DataError, Location

HERE = Location("wav.scp", 1)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def entry(path: str, begin: float = 0.0, end: float | None = None) -> Entry:
    return Entry("utt", path, HERE, begin, end)


def test_lines_of_a_list() -> None:
    Path("list").write_text(
        "a x.wav\n\nb\ty z.wav\nc  d.wav 0.5 1\nd e.wav 0 1 2\ne f.wav x 2\nf g.wav 0 nan\ng h.wav -1 2\n"
    )
    entries, errors = read_list(Path("list"), HERE)
    assert errors == ()
    assert [(each.key, each.path, each.where.line, each.begin, each.end) for each in entries] == [
        ("a", "x.wav", 1, 0, None), ("b", "y z.wav", 3, 0, None), ("c", "d.wav", 4, 0.5, 1),
        ("d", "e.wav 0", 5, 1, 2), ("e", "f.wav x 2", 6, 0, None), ("f", "g.wav 0 nan", 7, 0, None),
        ("g", "h.wav -1 2", 8, 0, None),
    ]  # fmt: skip


def test_lines_behind_a_wrong_one_are_read() -> None:
    Path("list").write_text("a\nb x.wav\nc y.wav 1 1\nb z.wav\nd z.wav\n")
    entries, errors = read_list(Path("list"), HERE)
    assert [each.key for each in entries] == ["b", "d"]
    assert [str(each).split(":")[1] for each in errors] == ["1", "3", "4"]


def test_pieces_of_a_file() -> None:
    stereo = np.stack([wave(4000), -wave(4000)], 1)
    soundfile.write("x.wav", stereo, RATE)
    assert find_piece(entry("x.wav"), 1) == Piece(0, 4000, RATE)
    assert find_piece(entry("x.wav", 0.125, 0.5), 0) == Piece(1000, 3000, RATE)
    with pytest.raises(DataError, match=r"'x\.wav' has 2 channels, and channel=2"):
        find_piece(entry("x.wav"), 2)
    with pytest.raises(DataError, match=r"the piece ends at 0\.50013 s, and 'x\.wav' at 0\.5 s"):
        find_piece(entry("x.wav", 0, 0.50013), 0)
    found = read_samples(entry("x.wav"), Piece(10, 20, RATE), 1, np.dtype(np.float64))
    np.testing.assert_allclose(found, stereo[10:30, 1], atol=1e-4)
    with pytest.raises(DataError, match=r"'x\.wav' has 10 of 20 samples"):
        read_samples(entry("x.wav"), Piece(3990, 20, RATE), 1, np.dtype(np.float64))


@pytest.mark.parametrize("missing", [0, 1])
def test_a_wav_file_is_as_long_as_its_head_says(missing: int) -> None:
    soundfile.write("x.wav", wave(100), RATE)
    data = Path("x.wav").read_bytes()
    Path("x.wav").write_bytes(data[: len(data) - missing])
    if missing:
        with pytest.raises(DataError, match=rf"'x\.wav' ends at byte {len(data) - 1}, and its head says {len(data)}"):
            find_piece(entry("x.wav"), 0)
    else:
        assert find_piece(entry("x.wav"), 0).count == 100


@pytest.mark.parametrize("size", [7, 8])
def test_a_file_that_is_hardly_a_head(size: int) -> None:
    Path("x.wav").write_bytes(b"RIFF\xf0\0\0\0"[:size])
    told = r"ends at byte 8, and its head says 248" if size == 8 else r"cannot read 'x\.wav': "
    with pytest.raises(DataError, match=told):
        find_piece(entry("x.wav"), 0)


def test_speeds_and_rates_are_fractions() -> None:
    assert ratio_of(1, 8000, 16000) == 2
    assert ratio_of(0.9, 8000, 8000) == Fraction(10, 9)
    assert ratio_of(1.1, 44100, 16000) == Fraction(1600, 4851)
    assert [resampled_count(count, Fraction(10, 9)) for count in (0, 9, 10)] == [0, 10, 12]


def test_copies_have_the_speed_in_their_keys() -> None:
    one = entry("x.wav")
    found = copies([one, one], [0.9, 1, 0.9, 1])
    assert [key for key, _, _ in found[::2]] == ["sp0.9-utt", "utt", "sp0.9-2-utt", "sp1-2-utt"]
    assert [speed for _, _, speed in found] == [0.9, 0.9, 1, 1, 0.9, 0.9, 1, 1]


def test_noise_has_the_energy_that_is_said() -> None:
    sound = wave(4000)
    for decibels in (0.0, 20.0):
        noisy = Noise((decibels, decibels), 1.0, 3, RATE).add(sound, "utt")
        ratio = np.sum(sound**2) / np.sum((noisy - sound) ** 2)
        assert 10 * np.log10(ratio) == pytest.approx(decibels, abs=1e-6)
    assert Noise((0, 0), 0.0, 3, RATE).add(sound, "utt") is sound
    shares = [Noise((0, 0), 0.25, 3, RATE).add(sound, f"utt{n}") is not sound for n in range(200)]
    assert 0.15 < np.mean(shares) < 0.35
    silence = np.zeros(10)
    assert Noise((0, 0), 1.0, 3, RATE).add(silence, "utt") is silence


def test_noise_of_a_file_is_a_piece_of_it() -> None:
    soundfile.write("n.wav", wave(50), RATE)
    kept, _ = soundfile.read("n.wav")
    noise = Noise((0, 0), 1.0, 3, RATE, [entry("n.wav")])
    whole = noise.add(wave(120), "utt") - wave(120)
    loudness = whole[0] / kept[0]
    np.testing.assert_allclose(whole, np.resize(kept, 120) * loudness, atol=1e-9)  # a short file goes around
    soundfile.write("empty.wav", np.zeros(0), RATE)
    sound = wave(30)
    assert Noise((0, 0), 1.0, 3, RATE, [entry("empty.wav")]).add(sound, "utt") is sound


@pytest.mark.parametrize(("low", "high", "fits"), [(0, 8000, True), (0, 8001, False), (-1, 100, False), (20, 0, True)])
def test_bands_lie_between_0_and_half_of_the_rate(low: float, high: float, fits: bool) -> None:
    assert ("the bands must lie between" in Spectrum(dim=5, low=low, high=high).problem()) is not fits


@pytest.mark.parametrize(("length", "shift"), [(25, 10), (10, 25), (20, 20)])
def test_frames_beyond_the_edges_are_mirrored(length: float, shift: float) -> None:
    spectrum = Spectrum(dim=5, length=length, shift=shift, snip_edges=False)
    sound, size, step = wave(2000), spectrum.frame_samples, spectrum.shift_samples
    around = np.concatenate([sound[::-1], sound, sound[::-1]])
    first = len(sound) - (size - step) // 2
    inside = Spectrum(dim=5, length=length, shift=shift)
    expected = [inside.compute(around[first + n * step :][:size])[0] for n in range(spectrum.frames(2000))]
    np.testing.assert_allclose(spectrum.compute(sound), expected, atol=1e-6)


def test_changes_of_a_straight_line_are_its_slope() -> None:
    line = 3.0 * np.arange(20)[:, None]
    found = with_deltas(line, 2)
    assert found.shape == (20, 3)
    np.testing.assert_allclose(found[4:-4, 1], 3, atol=1e-12)
    np.testing.assert_allclose(found[4:-4, 2], 0, atol=1e-12)
    np.testing.assert_allclose(with_deltas(line, 1, 1)[0, 1], 1.5)
