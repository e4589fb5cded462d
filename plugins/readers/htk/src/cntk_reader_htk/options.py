"""What a recipe may say to the readers, and how it is read."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from cntk_core.api import (
    CntkError,
    Config,
    ConfigError,
    DataError,
    Location,
    MissingKeyError,
    UnsupportedError,
    at_least,
    local_path,
    option,
    options,
    raise_problems,
)
from cntk_core.api.readers import LINE_BYTES, UtteranceKeys, context_window, read_utterance_block
from cntk_reader_htk.scp import read_lines


@options
class FeatureKeys:
    """The keys of a block of features."""

    dim: int = option(doc="Values of a frame in the files, or of the whole window.", validator=at_least(1))
    scp_file: Path = option(doc="List of feature files.")
    context_window: tuple[int, ...] = option(default=(1,), doc="Frames of the window, or left:right.")
    prefix_path_in_scp: str = option(default="", key="prefixPathInSCP", doc="Folder in front of each path of the list.")
    expand_to_utterance: bool = option(default=False, doc="One frame (an i-vector), repeated for each frame.")
    max_line_bytes: int = option(default=LINE_BYTES, doc="A longer line is refused.", validator=at_least(1))
    defines_mb_size: bool = option(default=False, key="definesMBSize", doc="Accepted; the longest stream counts.")


@options
class LabelKeys:
    """The keys of a block of labels."""

    label_dim: int = option(aliases=("dim",), doc="Number of classes.", validator=at_least(1))
    mlf_file: Path | None = option(default=None, doc="Label file.")
    mlf_file_list: Path | None = option(default=None, doc="File with the name of a label file in each line.")
    label_mapping_file: Path | None = option(default=None, doc="State list: a name to a line, in the order of classes.")
    phone_boundaries: bool = option(default=False, doc="The label of the first frame of each range is 2 (CTC).")
    scp_file: Path | None = option(default=None, doc="Accepted; the features say which utterances there are.")
    label_to_target_mapping_file: Path | None = option(default=None, doc="A target of zeros and ones for each state.")
    target_dim: int = option(default=0, doc="Elements of such a target.", validator=at_least(0))
    max_line_bytes: int = option(default=LINE_BYTES, doc="A longer line is refused.", validator=at_least(1))
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
    max_line_bytes: int = LINE_BYTES


@options
class LabelOptions:
    """A stream of labels; ``places`` are the lines of a list that name the files, or nothing."""

    name: str
    dim: int
    files: tuple[Path, ...]
    states: Path | None = None
    phone_boundaries: bool = False
    targets: Path | None = None
    target_dim: int = 0
    where: Location | None = None
    places: tuple[Location, ...] = ()
    max_line_bytes: int = LINE_BYTES


@options
class LatticeKeys:
    """The keys of a block of lattices."""

    denlat_toc_file: str = option(doc="Table of the lattices' archives; with * and ? several.")
    num_lat_toc_file: str = option(default="", doc="Table of other lattices; utterances that it lacks are left out.")
    prefix_path_in_toc: str = option(default="", doc="Folder in front of each archive of the tables.")
    max_line_bytes: int = option(default=LINE_BYTES, doc="A longer line is refused.", validator=at_least(1))


@options
class HmmKeys:
    """The keys of a block with the phones of a recogniser."""

    phone_file: Path = option(doc="The states and the transition of each phone.")
    trans_p_file: Path = option(doc="The transitions, by name.")


@options
class HmmOptions:
    """The phones of a recogniser."""

    phones: Path
    transitions: Path
    where: Location


@options
class LatticeOptions:
    """A stream of lattices; all but the tables comes from other blocks."""

    name: str
    tables: tuple[Path, ...]
    numerators: tuple[Path, ...] = ()
    prefix: str = ""
    hmms: HmmOptions | None = None
    labels: LabelOptions | None = None
    unigram: Path | None = None
    where: Location | None = None
    max_line_bytes: int = LINE_BYTES


StreamOptions = FeatureOptions | LabelOptions | LatticeOptions


@options
class ReaderKeys(UtteranceKeys):
    """The keys of the reader's own block."""

    join_utterances: bool | None = option(
        default=None, doc="HTKMLFReader: as CNTK 2.0, join whole utterances and fill gaps with copies (its default)."
    )
    use_numeric_sequence_keys: bool = option(default=False, doc="Keys are numbers.")
    use_mersenne_twister_rand: bool = option(default=False, doc="Joined utterances: another random order.")
    page_file_path: str = option(default="", doc="Accepted; no page files are needed.")
    page_path: str = option(default="", doc="Accepted; no page files are needed.")
    hash_sequence_keys: bool = option(default=False, doc="Accepted; keys are compared as they are.")
    unigram: Path | None = option(default=None, doc="With lattices: utterances with other words are left out.")


@options
class HTKReaderOptions(ReaderKeys):
    """Everything that a recipe says to the reader."""

    streams: tuple[StreamOptions, ...] = attrs.field()

    @property
    def joins(self) -> bool:
        """Whether HTKMLFReader joins utterances: where it is not said, where the original's did.

        It refused ``randomize=none`` without ``readMethod=rollingWindow``.
        """
        if self.frame_mode or self.truncated or self.lattices is not None:
            return False
        if self.join_utterances is None:
            return self.is_shuffled or self.rolls
        return self.join_utterances

    @property
    def lattices(self) -> LatticeOptions | None:
        """The stream of lattices, if there is one."""
        return next((stream for stream in self.streams if isinstance(stream, LatticeOptions)), None)

    @property
    def rolls(self) -> bool:
        """Whether the order is one of frames, in the original."""
        return self.read_method == "rollingWindow"

    def problems(self, block: Config) -> list[CntkError]:
        """Return what is wrong between the keys of a block."""
        errors = super().problems(block)
        lattices = self.lattices
        if lattices is not None and (self.frame_mode or self.truncated or self.join_utterances):
            wrong = "frameMode" if self.frame_mode else "truncated" if self.truncated else "joinUtterances"
            text = f"stream '{lattices.name}' has lattices, which belong to whole utterances, and {wrong}=true"
            errors.append(ConfigError(text, where=lattices.where, hint=f"Set {wrong}=false."))
        if self.join_utterances and (self.frame_mode or self.truncated):
            other = "frameMode" if self.frame_mode else "truncated"
            errors.append(
                ConfigError(
                    f"joinUtterances=true and {other}=true exclude each other",
                    where=block.where,
                    hint="Only whole utterances are joined: set frameMode=false and truncated=false.",
                )
            )
        return errors


def read_options(block: Config, what: str) -> HTKReaderOptions:
    """Read the reader's block and its sub-blocks, one for each stream. Raises all errors together."""
    errors: list[CntkError] = []
    if block.own("legacyMode") is not None:
        errors.append(ConfigError("legacyMode is no longer a key of the reader", where=block.location("legacyMode")))
    keys, streams = read_utterance_block(
        block, what, ReaderKeys, read_block, features=FeatureOptions, ignore=("legacyMode",), errors=errors
    )
    read = HTKReaderOptions(**keys, streams=_with_lattices(block, what, streams, keys["unigram"]))
    raise_problems(read.problems(block))
    return read


def _with_lattices(
    block: Config, what: str, blocks: Sequence[StreamOptions | HmmOptions], unigram: Path | None
) -> tuple[StreamOptions, ...]:
    """Return the streams; that of lattices knows the phones and labels that stand in other blocks."""
    streams = [stream for stream in blocks if not isinstance(stream, HmmOptions)]
    hmms = next((stream for stream in blocks if isinstance(stream, HmmOptions)), None)
    lattices = [stream for stream in streams if isinstance(stream, LatticeOptions)]
    labels = next((stream for stream in streams if isinstance(stream, LabelOptions)), None)
    if not lattices:
        return tuple(streams)
    if len(lattices) > 1:
        text = f"{what} has lattices twice: '{lattices[0].name}' and '{lattices[1].name}'"
        raise ConfigError(text, where=lattices[1].where, hint="denlatTocFile may name several tables: den*.toc")
    if hmms is None:
        hint = "Add hmms=[ phoneFile=... ; transPFile=... ], the recogniser that made them."
        raise MissingKeyError(f"{what} has lattices, and no block with phones", where=block.where, hint=hint)
    if labels is None or labels.states is None:
        hint = "The phones' states are those of labelMappingFile=... of the labels."
        raise MissingKeyError(f"{what} has lattices, and no state list", where=block.where, hint=hint)
    first: Any = lattices[0]
    whole = attrs.evolve(first, hmms=hmms, labels=labels, unigram=unigram)
    return tuple(whole if stream is lattices[0] else stream for stream in streams)


def read_stream(block: Config, name: str, what: str) -> StreamOptions:
    """Read the block of a stream of a composite: lattices need the blocks of others. Raises CntkError."""
    found = read_block(block, name, what)
    if isinstance(found, FeatureOptions | LabelOptions):
        return found
    hint = "readerType=HTKMLFReader reads them, beside features=[ ... ] and labels=[ ... ]."
    where = block.section(name).where
    raise UnsupportedError(
        f"stream '{name}' of {what}: lattices cannot be a part of a composite", where=where, hint=hint
    )


def read_block(block: Config, name: str, what: str) -> StreamOptions | HmmOptions:
    """Read a block inside the reader's: labels if it has label files, features if it has a list of files."""
    section = block.section(name)
    told = f"stream '{name}' of {what}"
    if section.own("denlatTocFile") is not None or section.own("numLatTocFile") is not None:
        return _read_lattices(section, name, told)
    if section.own("phoneFile") is not None or section.own("transPFile") is not None:
        phones = section.bind(HmmKeys, what=told)
        return HmmOptions(phones=phones.phone_file, transitions=phones.trans_p_file, where=section.where)
    if section.own("mlfFile") is not None or section.own("mlfFileList") is not None:
        return _read_labels(section, name, told)
    if section.own("scpFile") is not None:
        return _read_features(section, name, told)
    raise MissingKeyError(
        f"{told} has neither scpFile nor mlfFile",
        where=section.where,
        hint="Features have scpFile=..., the list of feature files; labels have mlfFile=... or mlfFileList=...",
    )


def _read_lattices(section: Config, name: str, told: str) -> LatticeOptions:
    keys = section.bind(LatticeKeys, ignore=("type",), what=told)
    where = section.location("denlatTocFile")
    return LatticeOptions(
        name=name,
        tables=_files(keys.denlat_toc_file, where, told),
        numerators=_files(keys.num_lat_toc_file, section.location("numLatTocFile"), told),
        prefix=keys.prefix_path_in_toc,
        where=where,
        max_line_bytes=keys.max_line_bytes,
    )


def _files(pattern: str, where: Location, told: str) -> tuple[Path, ...]:
    """Return the files that a pattern names, in alphabetical order. Raises DataError if there is none."""
    if not pattern:
        return ()
    found = sorted(glob.glob(pattern)) if glob.has_magic(pattern) else [pattern]
    if not found:
        raise DataError(
            f"{told}: there is no file '{pattern}'", where=where, hint="Relative names start where cntk runs."
        )
    return tuple(map(Path, found))


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
        window=context_window(keys.context_window, section),
        prefix=keys.prefix_path_in_scp,
        expand=keys.expand_to_utterance,
        where=section.location("scpFile"),
        max_line_bytes=keys.max_line_bytes,
    )


def check_type(section: Config, key: str, wanted: str) -> None:
    """Raise if a block has a type of its own (not that of a parent) which is not the one there is."""
    value = section.own(key)
    if value is not None and value.text.lower() != wanted:
        raise value.error(f"'{wanted}'", f"Accepted: {wanted}.")


def _read_labels(section: Config, name: str, told: str) -> LabelOptions:
    keys = section.bind(LabelKeys, ignore=("type", "labelType"), what=told)
    check_type(section, "labelType", "category")
    check_type(section, "type", "category")
    _check_targets(keys, section, told)
    if keys.mlf_file is not None and section.own("mlfFile") is not None:
        where = section.location("mlfFile")
        files: tuple[Path, ...] = (keys.mlf_file,)
        places: tuple[Location, ...] = ()
    else:
        where = section.location("mlfFileList")
        assert keys.mlf_file_list is not None
        name_of_list = str(keys.mlf_file_list)
        lines = list(read_lines(keys.mlf_file_list, where, "list of label files", keys.max_line_bytes))
        if not lines:
            hint = "It has the name of a label file in each line."
            raise DataError("the list of label files is empty", where=Location(name_of_list), hint=hint)
        places = tuple(Location(name_of_list, number) for number, _ in lines)
        files = tuple(Path(local_path(line, place)) for (_, line), place in zip(lines, places, strict=True))
    return LabelOptions(
        name=name,
        dim=keys.label_dim,
        files=files,
        states=keys.label_mapping_file,
        phone_boundaries=keys.phone_boundaries,
        targets=keys.label_to_target_mapping_file,
        target_dim=keys.target_dim,
        where=where,
        places=places,
        max_line_bytes=keys.max_line_bytes,
    )


def _check_targets(keys: LabelKeys, section: Config, told: str) -> None:
    """Raise if one of the keys that belong to targets is missing."""
    if keys.label_to_target_mapping_file is None:
        return
    for key, given in (("targetDim", keys.target_dim), ("labelMappingFile", keys.label_mapping_file)):
        if not given:
            where = section.location("labelToTargetMappingFile")
            hint = f"Add {key}=... to the block."
            raise MissingKeyError(f"{told}: labelToTargetMappingFile needs {key}", where=where, hint=hint)
