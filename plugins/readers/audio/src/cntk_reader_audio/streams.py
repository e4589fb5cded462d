"""From the options of a stream to its source of data."""

from __future__ import annotations

import math
from collections.abc import Callable

from cntk_core.api import ConfigError, Location, ReaderContext, StreamInfo, raise_problems, show
from cntk_core.api.readers import ChunkedReader, Part
from cntk_reader_audio.labels import read_labels, read_tokens
from cntk_reader_audio.noise import Noise
from cntk_reader_audio.options import FeatureOptions, LabelOptions, StreamOptions
from cntk_reader_audio.sources import Form, LabelSource, WaveSource
from cntk_reader_audio.waves import read_list

Warn = Callable[[str], None]
_NOWHERE = Location("<options>")


class Streams:
    """Opens the streams of a reader; labels belong to the frames of its first features."""

    def __init__(self) -> None:
        self._waves: WaveSource | None = None

    def open(
        self, stream: StreamOptions, context: ReaderContext, warn: Warn, *, max_errors: int, longest: int | None = None
    ) -> tuple[Part, StreamInfo]:
        """Open a stream as a part of a reader, features first.

        Raises:
            DataError, ConfigError: a file is wrong, or the dimensions do not fit.
        """
        if isinstance(stream, LabelOptions):
            return self._open_labels(stream, context, warn, max_errors)
        left, right = stream.window
        form = _form(stream, (1 + left + right) * stream.frame_dim, context)
        noise = _open_noise(stream)
        source = WaveSource(stream, form, noise, max_errors=max_errors, longest=longest, warn=warn)
        self._waves = self._waves or source
        return Part(source, (form.name,)), StreamInfo(form.name, form.shape, sequence=True)

    def _open_labels(
        self, stream: LabelOptions, context: ReaderContext, warn: Warn, max_errors: int
    ) -> tuple[Part, StreamInfo]:
        assert self._waves is not None, "features are opened first"
        where, limit = stream.where or _NOWHERE, stream.max_line_bytes
        form = _form(stream, stream.dim, context)
        tokens = None if stream.mapping is None else read_tokens(stream.mapping, stream.mapping_where or where, limit)
        labels = read_labels(
            stream.file,
            where,
            form=stream.form,
            units=stream.units,
            dim=stream.dim,
            tokens=tokens,
            max_line_bytes=limit,
        )
        source = LabelSource(
            labels, self._waves, form, dim=stream.dim, max_errors=max_errors, title=str(stream.file), warn=warn
        )
        return Part(source, (form.name,)), StreamInfo(form.name, form.shape, sparse=True, sequence=True)


def _open_noise(stream: FeatureOptions) -> Noise | None:
    noise, rate = stream.noise, stream.spectrum.rate
    if noise is None:
        return None
    if noise.script is None:
        return Noise(noise.snr, noise.chance, noise.seed, rate)
    where = noise.where or _NOWHERE
    entries, errors = read_list(noise.script, where, stream.max_line_bytes)
    raise_problems(list(errors))
    if not entries:
        raise ConfigError("the list of noise has no files", where=where, hint="Without noiseFile there is white noise.")
    return Noise(noise.snr, noise.chance, noise.seed, rate, entries)


def _form(stream: StreamOptions, dim: int, context: ReaderContext) -> Form:
    """Return the name and the shape of the network's input that a stream feeds. Raises ConfigError."""
    name, shape = ChunkedReader.find_input(context, stream.name)
    if shape is None:
        return Form(name, (dim,), context.dtype)
    if math.prod(shape) != dim:
        what = "samples" if isinstance(stream, FeatureOptions) else "labels"
        raise ConfigError(
            f"stream '{stream.name}' has {what} of dimension {dim}, but the network's input '{name}' is {show(shape)}",
            where=stream.where,
            hint="Change dim, deltas and contextWindow of the stream, or the input of the network.",
        )
    return Form(name, shape, context.dtype)
