"""What a recipe may say to the readers, and how it is read."""

from __future__ import annotations

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
from cntk_reader_htk.scp import read_lines

_FOREIGN_KEYS = ("readerType", "type", "module", "legacyMode")
_OFF = ("none", "false", "f", "0")
_AUTO = ("auto", "true", "t", "1")


def _at_least(least: int) -> Any:
    def check(_: object, field: attrs.Attribute[int], value: int) -> None:
        if value < least:
            raise ValueError(f"'{field.name}' must be at least {least}, not {value}")

    return check


@options
class FeatureKeys:
    """The keys of a block of features."""

    dim: int = option(doc="Values of a frame in the files, or of the whole window.", validator=_at_least(1))
    scp_file: Path = option(doc="List of feature files.")
    context_window: tuple[int, ...] = option(default=(1,), doc="Frames of the window, or left:right.")
    prefix_path_in_scp: str = option(default="", key="prefixPathInSCP", doc="Folder in front of each path of the list.")
    expand_to_utterance: bool = option(default=False, doc="One frame (an i-vector), repeated for each frame.")
    defines_mb_size: bool = option(default=False, key="definesMBSize", doc="Accepted; the longest stream counts.")


@options
class LabelKeys:
    """The keys of a block of labels."""

    label_dim: int = option(aliases=("dim",), doc="Number of classes.", validator=_at_least(1))
    mlf_file: Path | None = option(default=None, doc="Label file.")
    mlf_file_list: Path | None = option(default=None, doc="File with the name of a label file in each line.")
    label_mapping_file: Path | None = option(default=None, doc="State list: a name to a line, in the order of classes.")
    phone_boundaries: bool = option(default=False, doc="The label of the first frame of each range is 2 (CTC).")
    scp_file: Path | None = option(default=None, doc="Accepted; the features say which utterances there are.")
    label_to_target_mapping_file: str = option(default="", doc="Not supported.")
    target_dim: int = option(default=0, doc="Not supported.")
    defines_mb_size: bool = option(default=False, key="definesMBSize", doc="Accepted; the longest stream counts.")


@options
class FeatureOptions:
    """A stream of features; ``window`` is (left, right), (0, 0) if it follows from ``dim``."""

    name: str
    dim: int
    script: Path
    window: tuple[int, int] = (0, 0)
    prefix: str = ""
    expand: bool = False
    where: Location | None = None


@options
class LabelOptions:
    """A stream of labels; ``places`` are the lines of a list that name the files, or nothing."""

    name: str
    dim: int
    files: tuple[Path, ...]
    states: Path | None = None
    phone_boundaries: bool = False
    where: Location | None = None
    places: tuple[Location, ...] = ()


StreamOptions = FeatureOptions | LabelOptions


@options
class ReaderKeys:
    """The keys of the reader's own block."""

    read_method: Literal["blockRandomize", "rollingWindow", "none"] = option(
        default="blockRandomize", doc="none: in the order of the list."
    )
    randomize: str = option(default="auto", doc="auto, none, or how many frames the random order moves a frame.")
    randomization_seed: int = option(default=0, doc="Another seed gives another random order.")
    frame_mode: bool = option(default=True, doc="Frames are samples; false: utterances are sequences.")
    truncated: bool = option(default=False, doc="Truncated back-propagation.")
    truncation_length: int = option(default=0, doc="Frames of a piece of an utterance.", validator=_at_least(0))
    nbruttsineachrecurrentiter: Schedule[int] = option(
        default=Schedule.constant(1), doc="Utterances side by side, by epoch."
    )
    join_utterances: bool | None = option(
        default=None, doc="HTKMLFReader: as CNTK 2.0, join whole utterances and fill gaps with copies (its default)."
    )
    max_utterance_length: int | None = option(
        default=None, doc="Longer utterances are left out.", validator=attrs.validators.optional(_at_least(1))
    )
    minibatch_mode: Literal["partial", "full"] = option(default="partial", doc="The short last minibatch is kept.")
    check_data: bool = option(default=True, doc="Leave out utterances whose streams differ in length.")
    use_numeric_sequence_keys: bool = option(default=False, doc="Keys are numbers.")
    max_errors: int = option(default=0, doc="Malformed utterances that are left out.", validator=_at_least(0))
    keep_data_in_memory: bool = option(default=False, doc="Read the files once and keep their frames.")
    cache_size_in_bytes: int = option(
        default=CACHE_BYTES, doc="Parsed data that is kept, if a window has less.", validator=_at_least(0)
    )
    prefetch: bool = option(default=True, doc="Prepare the next minibatches in a background thread.")
    verbosity: int = option(default=0, doc="Accepted; traceLevel decides.")
    trace_level: int = option(default=1, doc="0: errors; 1: warnings too.")
    precision: Literal["float", "double"] | None = option(default=None, doc="The network's own precision is used.")
    use_mersenne_twister_rand: bool = option(default=False, doc="Accepted; the generator is ours.")
    page_file_path: str = option(default="", doc="Accepted; no page files are needed.")
    page_path: str = option(default="", doc="Accepted; no page files are needed.")
    hash_sequence_keys: bool = option(default=False, doc="Accepted; keys are compared as they are.")


@options
class HTKReaderOptions(ReaderKeys):
    """Everything that a recipe says to the reader."""

    streams: tuple[StreamOptions, ...] = attrs.field()
    where: Location | None = None

    @property
    def window(self) -> Window | None:
        """How frames are randomized; None is not at all. A window without size is to be chosen."""
        word = self.randomize.lower()
        if self.read_method == "none" or word in _OFF:
            return None
        if word in _AUTO:
            return Window(None, in_samples=True)
        return Window(int(word), in_samples=True)

    @property
    def joins(self) -> bool:
        """Whether HTKMLFReader joins utterances: where it is not said, where the original's did.

        It refused ``randomize=none`` without ``readMethod=rollingWindow``.
        """
        if self.frame_mode or self.truncated:
            return False
        if self.join_utterances is None:
            return self.window is not None or self.rolls
        return self.join_utterances

    @property
    def rolls(self) -> bool:
        """Whether the order is one of frames, in the original."""
        return self.read_method == "rollingWindow"

    def check(self) -> list[CntkError]:
        """Return what is wrong between the keys."""
        errors: list[CntkError] = []
        word = self.randomize.lower()
        if word not in (*_OFF, *_AUTO) and not (word.isascii() and word.isdigit() and len(word) < 19):
            text = f"randomize must be auto, none, or a number of frames, not '{self.randomize}'"
            errors.append(ConfigError(text, where=self.where))
        if self.frame_mode and self.truncated:
            errors.append(
                ConfigError(
                    "frameMode=true and truncated=true exclude each other",
                    where=self.where,
                    hint="Truncated training needs utterances: set frameMode=false.",
                )
            )
        if self.join_utterances and (self.frame_mode or self.truncated):
            other = "frameMode" if self.frame_mode else "truncated"
            errors.append(
                ConfigError(
                    f"joinUtterances=true and {other}=true exclude each other",
                    where=self.where,
                    hint="Only whole utterances are joined: set frameMode=false and truncated=false.",
                )
            )
        counts = self.nbruttsineachrecurrentiter
        if min(counts[epoch] for epoch in range(len(counts))) < 1:
            errors.append(ConfigError("nbruttsineachrecurrentiter must be at least 1", where=self.where))
        return errors


def read_options(block: Config, what: str) -> HTKReaderOptions:
    """Read the reader's block and its sub-blocks, one for each stream. Raises all errors together."""
    errors: list[CntkError] = []
    if block.own("legacyMode") is not None:
        errors.append(ConfigError("legacyMode is no longer a key of the reader", where=block.location("legacyMode")))
    names = sorted((key for key in block.keys() if _is_block(block, key)), key=str.lower)  # noqa: SIM118
    keys = collect(lambda: block.bind(ReaderKeys, ignore=(*_FOREIGN_KEYS, *names), what=what), errors)
    streams = [collect(lambda name=name: read_stream(block, name, what), errors) for name in names]
    if not any(isinstance(stream, FeatureOptions) for stream in streams) and not errors:
        errors.append(
            MissingKeyError(
                f"{what} has no block of features",
                where=block.where,
                hint="Add features=[ dim=... ; scpFile=... ] and labels=[ labelDim=... ; mlfFile=... ].",
            )
        )
    raise_problems(errors)
    assert keys is not None
    read = HTKReaderOptions(**attrs.asdict(keys, recurse=False), streams=tuple(streams), where=block.where)
    raise_problems(read.check())
    return read


def collect(read: Any, errors: list[CntkError]) -> Any:
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
    """Read the block of a stream: labels if it has label files, features if it has a list of files."""
    section = block.section(name)
    told = f"stream '{name}' of {what}"
    for key in ("denlatTocFile", "numLatTocFile", "phoneFile", "transPFile"):
        if section.own(key) is not None:
            raise UnsupportedError(
                f"{told}: {key} (sequence training with lattices) is not there yet", where=section.location(key)
            )
    if section.own("mlfFile") is not None or section.own("mlfFileList") is not None:
        return _read_labels(section, name, told)
    if section.own("scpFile") is not None:
        return _read_features(section, name, told)
    raise MissingKeyError(
        f"{told} has neither scpFile nor mlfFile",
        where=section.where,
        hint="Features have scpFile=..., the list of feature files; labels have mlfFile=... or mlfFileList=...",
    )


def _read_features(section: Config, name: str, told: str) -> FeatureOptions:
    for key in ("featureTransform", "rx"):
        if section.own(key) is not None:
            hint = "readerType=Kaldi2Reader of the wheel cntk-reader-kaldi reads Kaldi's tables."
            raise UnsupportedError(f"{told}: {key} belongs to Kaldi", where=section.location(key), hint=hint)
    keys = section.bind(FeatureKeys, ignore=("type",), what=told)
    check_type(section, "type", "real")
    return FeatureOptions(
        name=name,
        dim=keys.dim,
        script=keys.scp_file,
        window=_window(keys.context_window, section),
        prefix=keys.prefix_path_in_scp,
        expand=keys.expand_to_utterance,
        where=section.location("scpFile"),
    )


def check_type(section: Config, key: str, wanted: str) -> None:
    """Raise if a block has a type of its own (not that of a parent) which is not the one there is."""
    value = section.own(key)
    if value is not None and value.text.lower() != wanted:
        raise value.error(f"'{wanted}'", f"Accepted: {wanted}.")


def _window(given: tuple[int, ...], section: Config) -> tuple[int, int]:
    where = section.location("contextWindow")
    if len(given) == 1 and given[0] > 0 and given[0] % 2:
        return given[0] // 2, given[0] // 2
    if len(given) == 2 and min(given) >= 0:
        return given[0], given[1]
    shown = ":".join(map(str, given))
    raise ConfigError(
        f"contextWindow must be an odd number of frames, or left:right, not '{shown}'",
        where=where,
        hint="contextWindow=11 is the same as contextWindow=5:5.",
    )


def _read_labels(section: Config, name: str, told: str) -> LabelOptions:
    keys = section.bind(LabelKeys, ignore=("type", "labelType"), what=told)
    check_type(section, "labelType", "category")
    check_type(section, "type", "category")
    if keys.label_to_target_mapping_file:
        where = section.location("labelToTargetMappingFile")
        raise UnsupportedError(f"{told}: labelToTargetMappingFile is not there yet", where=where)
    if keys.mlf_file is not None and section.own("mlfFile") is not None:
        where = section.location("mlfFile")
        files: tuple[Path, ...] = (keys.mlf_file,)
        places: tuple[Location, ...] = ()
    else:
        where = section.location("mlfFileList")
        assert keys.mlf_file_list is not None
        name_of_list = str(keys.mlf_file_list)
        lines = list(read_lines(keys.mlf_file_list, where, "list of label files"))
        if not lines:
            hint = "It has the name of a label file in each line."
            raise DataError("the list of label files is empty", where=Location(name_of_list), hint=hint)
        files = tuple(Path(line) for _, line in lines)
        places = tuple(Location(name_of_list, number) for number, _ in lines)
    return LabelOptions(
        name=name,
        dim=keys.label_dim,
        files=files,
        states=keys.label_mapping_file,
        phone_boundaries=keys.phone_boundaries,
        where=where,
        places=places,
    )
