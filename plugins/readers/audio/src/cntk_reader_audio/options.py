"""What a recipe may say to the readers, and how it is read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import attrs

from cntk_core.api import CntkError, Config, ConfigError, Location, at_least, option, options, raise_problems
from cntk_core.api.readers import LINE_BYTES, UtteranceKeys, context_window, read_utterance_block
from cntk_reader_audio.labels import Form, Units
from cntk_reader_audio.spectra import Spectrum

_SLOWEST, _FASTEST = 0.25, 4.0


@options
class FeatureKeys:
    """The keys of a block of features."""

    scp_file: Path = option(doc="List of sound files: a key and a file to a line, perhaps with begin and end in s.")
    kind: Literal["fbank", "mfcc"] = option(default="fbank", doc="Logarithms of mel bands, or cepstra.")
    dim: int = option(doc="Values of a frame, without deltas and context.", validator=at_least(1))
    sample_rate: int = option(default=16000, doc="Samples in a second.", validator=at_least(1))
    resample: bool = option(default=False, doc="Files may have other rates.")
    channel: int = option(default=0, doc="The channel that is read, from 0.", validator=at_least(0))
    frame_length: float = option(default=25.0, doc="Of a frame, in ms.")
    frame_shift: float = option(default=10.0, doc="From one frame to the next, in ms.")
    mel_bands: int = option(default=23, doc="Of mfcc; fbank has dim.", validator=at_least(1))
    low_frequency: float = option(default=20.0, doc="Of the lowest band, in Hz.")
    high_frequency: float = option(default=0.0, doc="Of the highest band, in Hz; 0 or less counts from half the rate.")
    window: Literal["povey", "hamming", "hanning", "blackman", "rectangular"] = option(
        default="povey", doc="Form of the window."
    )
    preemphasis: float = option(default=0.97, doc="How much of the sample before is taken from each.")
    use_energy: bool = option(default=False, doc="The first value is the logarithm of the energy.")
    snip_edges: bool = option(default=True, doc="Frames lie within the file; false: it is mirrored at its ends.")
    lifter: float = option(default=22.0, doc="Of mfcc; 0 is none.")
    deltas: int = option(default=0, doc="Order of the changes in time behind each frame.", validator=at_least(0))
    normalize: Literal["none", "mean", "meanVariance"] = option(default="none", doc="Of each utterance.")
    context_window: tuple[int, ...] = option(default=(1,), doc="Frames of the window, or left:right.")
    speed: tuple[float, ...] = option(default=(1.0,), doc="A copy of each utterance for each speed.")
    noise_snr: tuple[float, ...] = option(
        default=(), doc="Noise is added: ratio of the energies of sound and noise in dB, a number or least:largest."
    )
    noise_chance: float = option(default=1.0, doc="Of an utterance to get noise.")
    noise_seed: int = option(default=0, doc="Another seed gives other noise.", validator=at_least(0))
    noise_file: Path | None = option(default=None, doc="List of sound files with noise; white noise without it.")
    max_line_bytes: int = option(default=LINE_BYTES, doc="A longer line is refused.", validator=at_least(1))


@options
class LabelKeys:
    """The keys of a block of labels."""

    label_dim: int = option(aliases=("dim",), doc="Number of classes.", validator=at_least(1))
    label_file: Path = option(doc="A key and its labels to a line.")
    label_type: Form = option(default="category", doc="category, alignment or ctc.")
    units: Units = option(default="words", doc="Tokens of a text are its words, or its characters.")
    label_mapping_file: Path | None = option(default=None, doc="Names of the classes, one to a line; else numbers.")
    max_line_bytes: int = option(default=LINE_BYTES, doc="A longer line is refused.", validator=at_least(1))


@options
class NoiseOptions:
    """Noise that is added."""

    snr: tuple[float, float]
    chance: float = 1.0
    seed: int = 0
    script: Path | None = None
    where: Location | None = None


@options
class FeatureOptions:
    """A stream of features."""

    name: str
    script: Path
    spectrum: Spectrum
    window: tuple[int, int] = (0, 0)
    resample: bool = False
    channel: int = 0
    deltas: int = 0
    normalize: Literal["none", "mean", "meanVariance"] = "none"
    speeds: tuple[float, ...] = (1.0,)
    noise: NoiseOptions | None = None
    expand: bool = False
    where: Location | None = None
    max_line_bytes: int = LINE_BYTES

    @property
    def frame_dim(self) -> int:
        """Values of a frame, with deltas."""
        return self.spectrum.dim * (1 + self.deltas)


@options
class LabelOptions:
    """A stream of labels."""

    name: str
    dim: int
    file: Path
    form: Form = "category"
    units: Units = "words"
    mapping: Path | None = None
    mapping_where: Location | None = None
    where: Location | None = None
    max_line_bytes: int = LINE_BYTES


StreamOptions = FeatureOptions | LabelOptions


@options
class AudioReaderOptions(UtteranceKeys):
    """Everything that a recipe says to the reader."""

    streams: tuple[StreamOptions, ...] = attrs.field()


def read_options(block: Config, what: str) -> AudioReaderOptions:
    """Read the reader's block and its sub-blocks, one for each stream. Raises all errors together."""
    errors: list[CntkError] = []
    keys, streams = read_utterance_block(
        block, what, UtteranceKeys, read_stream, features=FeatureOptions, ignore=(), errors=errors
    )
    read = AudioReaderOptions(**keys, streams=streams)
    raise_problems(read.problems(block))
    return read


def read_stream(block: Config, name: str, what: str) -> StreamOptions:
    """Read the block of a stream: labels if it has ``labelFile`` or ``labelDim``, else features."""
    section = block.section(name)
    told = f"stream '{name}' of {what}"
    if section.own("labelFile") is None and section.own("labelDim") is None:
        return _read_features(section, name, told)
    keys = section.bind(LabelKeys, ignore=("type",), what=told)
    return LabelOptions(
        name=name,
        dim=keys.label_dim,
        file=keys.label_file,
        form=keys.label_type,
        units=keys.units,
        mapping=keys.label_mapping_file,
        mapping_where=section.location("labelMappingFile"),
        where=section.location("labelFile"),
        max_line_bytes=keys.max_line_bytes,
    )


def _read_features(section: Config, name: str, told: str) -> FeatureOptions:
    keys = section.bind(FeatureKeys, ignore=("type",), what=told)
    spectrum = Spectrum(
        kind=keys.kind,
        dim=keys.dim,
        rate=keys.sample_rate,
        length=keys.frame_length,
        shift=keys.frame_shift,
        bands=keys.mel_bands,
        low=keys.low_frequency,
        high=keys.high_frequency,
        window=keys.window,
        preemphasis=keys.preemphasis,
        energy=keys.use_energy,
        snip_edges=keys.snip_edges,
        lifter=keys.lifter,
    )
    problem = spectrum.problem()
    if problem:
        raise ConfigError(f"{told}: {problem}", where=section.where)
    if not keys.speed or not all(_SLOWEST <= speed <= _FASTEST for speed in keys.speed):
        text = f"{told}: speed must be numbers from {_SLOWEST:g} to {_FASTEST:g}"
        raise ConfigError(
            text, where=section.location("speed"), hint="speed=0.9:1:1.1 reads each utterance three times."
        )
    return FeatureOptions(
        name=name,
        script=keys.scp_file,
        spectrum=spectrum,
        window=context_window(keys.context_window, section),
        resample=keys.resample,
        channel=keys.channel,
        deltas=keys.deltas,
        normalize=keys.normalize,
        speeds=keys.speed,
        noise=_read_noise(keys, section, told),
        where=section.location("scpFile"),
        max_line_bytes=keys.max_line_bytes,
    )


def _read_noise(keys: FeatureKeys, section: Config, told: str) -> NoiseOptions | None:
    if not keys.noise_snr:
        others = [key for key in ("noiseChance", "noiseSeed", "noiseFile") if section.own(key) is not None]
        if others:
            text = f"{told}: {others[0]} is given, and noiseSnr is not"
            raise ConfigError(text, where=section.location(others[0]), hint="noiseSnr=5:20 adds noise.")
        return None
    least, largest = keys.noise_snr[0], keys.noise_snr[-1]
    if len(keys.noise_snr) > 2 or not -math.inf < least <= largest < math.inf:
        text = f"{told}: noiseSnr must be a number of dB, or the least and the largest"
        hint = "noiseSnr=5:20 draws it for each utterance."
        raise ConfigError(text, where=section.location("noiseSnr"), hint=hint)
    if not 0 <= keys.noise_chance <= 1:
        raise ConfigError(f"{told}: noiseChance must be from 0 to 1", where=section.location("noiseChance"))
    return NoiseOptions(
        snr=(least, largest),
        chance=keys.noise_chance,
        seed=keys.noise_seed,
        script=keys.noise_file,
        where=section.location("noiseFile"),
    )
