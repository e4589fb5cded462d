"""What a recipe may say to the readers, and how it is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import attrs

from cntk_core.api import (
    CACHE_BYTES,
    CntkError,
    Config,
    ConfigError,
    DataError,
    Location,
    MissingKeyError,
    Problems,
    Schedule,
    UnsupportedError,
    Window,
    option,
    options,
    raise_problems,
)
from cntk_reader_kaldi.tables import read_lines

_OFF = ("none", "false", "f", "0")
_AUTO = ("auto", "true", "t", "1")
_FOREIGN_KEYS = ("readerType", "type", "module")
_SEQUENCE_TRAINING = ("seqTrainCriterion", "denlats", "alignments", "targets_delay")
NO_TRANSFORM = "NO_FEATURE_TRANSFORM"


def _at_least(least: int) -> Any:
    def check(_: object, field: attrs.Attribute[int], value: int) -> None:
        if value < least:
            raise ValueError(f"'{field.name}' must be at least {least}, not {value}")

    return check


@options
class FeatureKeys:
    """The keys of a block of features."""

    dim: int = option(doc="Values of a frame in the table, or of the whole window.", validator=_at_least(1))
    scp_file: str = option(default="", doc="The table; with rx the list of utterances and their lengths.")
    rx: str = option(
        default="", doc="The table, as Kaldi writes it (scp:... or ark:...), or a file that has that text."
    )
    context_window: tuple[int, ...] = option(default=(1,), doc="Frames of the window, or left:right.")
    feature_transform: str = option(default="", doc=f"Empty or {NO_TRANSFORM}.")
    expand_to_utterance: bool = option(default=False, doc="One frame (an i-vector), repeated for each frame.")


@options
class AlignmentKeys:
    """The keys of a block of labels."""

    label_dim: int = option(aliases=("dim",), doc="Number of classes.", validator=_at_least(1))
    mlf_file: str = option(
        aliases=("rx",), doc="The table of alignments or posteriors (ark:... or scp:...), or a file that has that text."
    )
    label_mapping_file: str = option(default="", doc="Accepted: alignments have numbers.")


@options
class FeatureOptions:
    """A stream of features; ``lengths`` lists the utterances and their lengths, if it is there."""

    name: str
    dim: int
    table: str
    window: tuple[int, int] = (0, 0)
    lengths: Path | None = None
    expand: bool = False
    where: Location | None = None


@options
class AlignmentOptions:
    """A stream of labels."""

    name: str
    dim: int
    table: str
    where: Location | None = None


StreamOptions = FeatureOptions | AlignmentOptions


@options
class ReaderKeys:
    """The keys of the reader's own block."""

    read_method: Literal["blockRandomize", "rollingWindow", "none"] = option(
        default="blockRandomize", doc="none: in the order of the table."
    )
    randomize: str = option(default="auto", doc="auto, none, or how many frames the random order moves a frame.")
    randomization_seed: int = option(default=0, doc="Another seed gives another random order.")
    frame_mode: bool = option(default=True, doc="Frames are samples; false: utterances are sequences.")
    truncated: bool = option(default=False, doc="Truncated back-propagation.")
    truncation_length: int = option(default=0, doc="Frames of a piece of an utterance.", validator=_at_least(0))
    nbruttsineachrecurrentiter: Schedule[int] = option(
        default=Schedule.constant(1), doc="Utterances side by side, by epoch."
    )
    max_utterance_length: int | None = option(
        default=None, doc="Longer utterances are left out.", validator=attrs.validators.optional(_at_least(1))
    )
    mini_batch_mode: str = option(default="partial", aliases=("minibatchMode",), doc="The short last one is kept.")
    check_data: bool = option(default=True, doc="Leave out utterances whose streams differ in length.")
    max_errors: int = option(default=0, doc="Malformed utterances that are left out.", validator=_at_least(0))
    keep_data_in_memory: bool = option(default=False, doc="Read the tables once and keep their frames.")
    cache_size_in_bytes: int = option(
        default=CACHE_BYTES, doc="Data that is kept, if a window has less.", validator=_at_least(0)
    )
    prefetch: bool = option(default=True, doc="Prepare the next minibatches in a background thread.")
    verbosity: int = option(default=0, doc="Accepted; traceLevel decides.")
    trace_level: int = option(default=1, doc="0: errors; 1: warnings too.")
    precision: Literal["float", "double"] | None = option(default=None, doc="The network's own precision is used.")


@options
class KaldiReaderOptions(ReaderKeys):
    """Everything that a recipe says to the reader."""

    streams: tuple[StreamOptions, ...] = attrs.field()
    where: Location | None = None

    @property
    def window(self) -> Window | None:
        """How frames are randomized; None is not at all. A window without size is to be chosen."""
        word = self.randomize.lower()
        if self.read_method == "none" or word in _OFF:
            return None
        return Window(None if word in _AUTO else int(word), in_samples=True)

    def check(self) -> list[CntkError]:
        """Return what is wrong between the keys."""
        errors: list[CntkError] = []
        word = self.randomize.lower()
        if word not in (*_OFF, *_AUTO) and not (word.isascii() and word.isdigit() and len(word) < 19):
            text = f"randomize must be auto, none, or a number of frames, not '{self.randomize}'"
            errors.append(ConfigError(text, where=self.where))
        if self.frame_mode and self.truncated:
            hint = "Truncated training needs utterances: set frameMode=false."
            errors.append(
                ConfigError("frameMode=true and truncated=true exclude each other", where=self.where, hint=hint)
            )
        counts = self.nbruttsineachrecurrentiter
        if min(counts[epoch] for epoch in range(len(counts))) < 1:
            errors.append(ConfigError("nbruttsineachrecurrentiter must be at least 1", where=self.where))
        return errors


def read_options(block: Config, what: str) -> KaldiReaderOptions:
    """Read the reader's block and its sub-blocks, one for each stream. Raises all errors together."""
    errors: list[CntkError] = []
    for key in _SEQUENCE_TRAINING:
        if block.own(key) is not None:
            text = f"{what}: {key} (sequence training) is not there yet"
            errors.append(UnsupportedError(text, where=block.location(key)))
    names = sorted((key for key in block.keys() if _is_block(block, key)), key=str.lower)  # noqa: SIM118
    ignore = (*_FOREIGN_KEYS, *_SEQUENCE_TRAINING, *names)
    keys = collect(lambda: block.bind(ReaderKeys, ignore=ignore, what=what), errors)
    names = [name for name in names if name.lower() not in ("denlats", "alignments")]
    streams = [
        collect(lambda name=name: read_stream(block, name, what), errors)  # type: ignore[misc]
        for name in names
    ]
    if not any(isinstance(stream, FeatureOptions) for stream in streams) and not errors:
        hint = "Add features=[ dim=... ; scpFile=... ] and labels=[ labelDim=... ; mlfFile=... ]."
        errors.append(MissingKeyError(f"{what} has no block of features", where=block.where, hint=hint))
    raise_problems(errors)
    read = KaldiReaderOptions(**attrs.asdict(keys, recurse=False), streams=tuple(streams), where=block.where)
    raise_problems(read.check())
    return read


def collect(read: Callable[[], Any], errors: list[CntkError]) -> Any:
    """Return what a function returns, or note its errors and return None."""
    try:
        return read()
    except Problems as error:
        errors.extend(error.errors)
    except CntkError as error:
        errors.append(error)
    return None


def _is_block(block: Config, key: str) -> bool:
    value = block.own(key)
    return value is not None and value.is_block


def read_stream(block: Config, name: str, what: str) -> StreamOptions:
    """Read the block of a stream: labels if it has ``mlfFile`` or ``labelDim``, else features."""
    section = block.section(name)
    told = f"stream '{name}' of {what}"
    if section.own("mlfFile") is not None or section.own("labelDim") is not None:
        keys = section.bind(AlignmentKeys, ignore=("type", "labelType"), what=told)
        key = "mlfFile" if section.own("mlfFile") is not None else "rx"
        where = section.location(key)
        return AlignmentOptions(name=name, dim=keys.label_dim, table=_specifier(keys.mlf_file, where), where=where)
    return _read_features(section, name, told)


def _read_features(section: Config, name: str, told: str) -> FeatureOptions:
    keys = section.bind(FeatureKeys, ignore=("type",), what=told)
    if keys.feature_transform not in ("", NO_TRANSFORM):
        where = section.location("featureTransform")
        hint = "Write the transformed features to an archive with Kaldi's nnet-forward."
        raise UnsupportedError(f"{told}: featureTransform is not there yet", where=where, hint=hint)
    if not keys.rx and not keys.scp_file:
        hint = "Write scpFile=feats.scp, or rx=... with scp:... or ark:... in the file that it names."
        raise MissingKeyError(f"{told} has neither rx nor scpFile", where=section.where, hint=hint)
    where = section.location("rx" if keys.rx else "scpFile")
    return FeatureOptions(
        name=name,
        dim=keys.dim,
        table=_specifier(keys.rx, where) if keys.rx else keys.scp_file,
        window=_window(keys.context_window, section),
        lengths=Path(keys.scp_file) if keys.rx and keys.scp_file else None,
        expand=keys.expand_to_utterance,
        where=where,
    )


def _specifier(text: str, where: Location) -> str:
    """Return the specifier that a key gives, or that stands in the file that it names."""
    if text.split(":")[0].split(",")[0] in ("scp", "ark") or text.endswith((".scp", ".ark")):
        return text
    lines = read_lines(Path(text), where, "file with the specifier of a table")
    if len(lines) != 1:
        hint = "It has one line: scp:feats.scp or ark:feats.ark."
        raise DataError(
            f"the file with the specifier of a table has {len(lines)} lines", where=Location(text), hint=hint
        )
    return " ".join(lines[0][1])


def _window(given: tuple[int, ...], section: Config) -> tuple[int, int]:
    if len(given) == 1 and given[0] > 0 and given[0] % 2:
        return given[0] // 2, given[0] // 2
    if len(given) == 2 and min(given) >= 0:
        return given[0], given[1]
    shown = ":".join(map(str, given))
    raise ConfigError(
        f"contextWindow must be an odd number of frames, or left:right, not '{shown}'",
        where=section.location("contextWindow"),
        hint="contextWindow=11 is the same as contextWindow=5:5.",
    )
