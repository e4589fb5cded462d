"""Frames of a wave: those of kaldi-native-fbank 1.23, whose numbers are in the file beside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_reader_audio.spectra import Spectrum, normalized, with_deltas
from sounds import wave

REFERENCE: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "kaldi_native_fbank.json").read_text())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", REFERENCE)
def test_the_numbers_are_kaldis(case: str, dtype: type) -> None:
    expected = REFERENCE[case]
    spectrum = Spectrum(**expected["spectrum"])
    assert not spectrum.problem()
    found = spectrum.compute(wave().astype(dtype))
    assert found.dtype == dtype
    assert found.shape == (expected["frames"], spectrum.dim) == (spectrum.frames(4000), spectrum.dim)
    for number, row in expected["rows"].items():
        assert np.allclose(found[int(number)], row, atol=2e-4)


@pytest.mark.parametrize(
    ("samples", "snipped", "mirrored"), [(0, 0, 0), (399, 0, 2), (400, 1, 3), (559, 1, 3), (560, 2, 4), (4000, 23, 25)]
)
def test_how_many_frames_there_are(samples: int, snipped: int, mirrored: int) -> None:
    for edges, expected in ((True, snipped), (False, mirrored)):
        spectrum = Spectrum(snip_edges=edges)
        assert spectrum.frames(samples) == expected
        if samples > 400:
            assert spectrum.compute(wave(samples)).shape == (expected, 40)
    assert Spectrum().compute(wave(100)).shape == (0, 40)


@pytest.mark.parametrize("samples", [1, 79, 80, 239, 240, 399, 400, 401, 4000])
@pytest.mark.parametrize(("length", "shift"), [(25.0, 10.0), (10.0, 25.0), (10.0, 10.0)])
def test_a_wave_is_mirrored_at_its_ends(samples: int, length: float, shift: float) -> None:
    """The middle of each frame lies a shift behind that of the last; sample -1 is sample 0, -2 is 1, and so on."""
    spectrum = Spectrum(dim=5, length=length, shift=shift, snip_edges=False)
    size, step = spectrum.frame_samples, spectrum.shift_samples
    sound = wave(samples)
    found = spectrum.compute(sound)
    assert len(found) == spectrum.frames(samples) == (samples + step // 2) // step
    for number, frame in enumerate(found):
        places = np.arange(size) + step * number + step // 2 - size // 2
        places %= 2 * samples
        cut = sound[np.where(places < samples, places, 2 * samples - 1 - places)]
        assert np.allclose(frame, Spectrum(dim=5, length=length, shift=shift).compute(cut)[0])


@pytest.mark.parametrize(("length", "points"), [(31.875, 256), (32.0, 256), (32.125, 512), (16.0, 128)])
def test_points_of_the_transform(length: float, points: int) -> None:
    """The next power of two, which a frame may have itself."""
    assert Spectrum(rate=8000, length=length)._points == points


def test_silence_has_the_least_energy() -> None:
    """No logarithm of zero: the least energy is the smallest step of a float, as in Kaldi."""
    found = Spectrum(dim=5, energy=True).compute(np.zeros(400))
    assert np.allclose(found, np.log(np.finfo(np.float32).eps))


def test_long_waves_are_cut_into_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Spectrum(dim=5).compute(wave())
    monkeypatch.setattr("cntk_reader_audio.spectra._BLOCK", 4)
    assert np.allclose(Spectrum(dim=5).compute(wave()), whole, atol=1e-10)


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ({"length": 0.05}, "a frame needs two samples, and a shift one"),
        ({"shift": 0.05}, "a frame needs two samples, and a shift one"),
        ({"low": 8000.0}, "the bands must lie between 0 and 8000 Hz, not from 8000 to 8000 Hz"),
        ({"low": -1.0}, "the bands must lie between 0 and 8000 Hz, not from -1 to 8000 Hz"),
        ({"high": 9000.0}, "the bands must lie between 0 and 8000 Hz, not from 20 to 9000 Hz"),
        ({"dim": 1, "energy": True}, "0 bands do not give 1 values"),
        ({"kind": "mfcc", "dim": 24}, "23 bands do not give 24 values"),
        ({"dim": 200}, "200 bands are too many for frames of 400 samples: some are empty"),
        ({"kind": "mfcc", "dim": 23}, ""),
        ({"kind": "mfcc", "dim": 1, "bands": 1}, ""),
        ({"dim": 1}, ""),
        ({"dim": 2, "energy": True}, ""),
    ],
)
def test_numbers_that_do_not_fit(numbers: dict[str, Any], problem: str) -> None:
    assert Spectrum(**numbers).problem() == problem


def test_deltas() -> None:
    """The slope of a line through two frames on each side; that of a parabola at its middle is its derivative."""
    time = np.arange(9.0)
    found = with_deltas(np.column_stack([3 * time, time**2]), 2)
    assert found.shape == (9, 6)
    assert np.allclose(found[4], [12, 16, 3, 8, 0, 2])
    assert np.allclose(found[2:7, 2], 3)
    # At the ends frames repeat: (1 * (x1 - x0) + 2 * (x2 - x0)) / 10.
    assert np.allclose(found[0, 2:4], [1.5, 0.9])
    frames = np.ones((3, 2), dtype=np.float32)
    assert with_deltas(frames, 0) is frames
    assert with_deltas(frames, 1).dtype == np.float32


def test_second_deltas_are_one_filter() -> None:
    """Kaldi convolves the slopes before it looks at the frames, which matters at the ends."""
    step = np.zeros((12, 1))
    step[0] = 1
    slope = np.array([2, 1, 0, -1, -2]) / 10
    twice = np.convolve(slope, slope)
    padded = np.concatenate([np.ones(4), step[:, 0], np.zeros(4)])
    expected = [float(padded[t : t + 9] @ twice[::-1]) for t in range(12)]
    assert np.allclose(with_deltas(step, 2)[:, 2], expected)


def test_normalized() -> None:
    frames = np.array([[1.0, 5], [3, 5]])
    assert normalized(frames, "none") is frames
    assert normalized(frames, "mean").tolist() == [[-1, 0], [1, 0]]
    assert normalized(3 * frames, "meanVariance").tolist() == [[-1, 0], [1, 0]]
