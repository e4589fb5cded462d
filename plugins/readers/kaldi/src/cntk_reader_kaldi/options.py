"""What a recipe may say to the readers, and how it is read."""

from __future__ import annotations

from pathlib import Path

import attrs

from cntk_core.api import (
    CntkError,
    Config,
    DataError,
    Location,
    MissingKeyError,
    UnsupportedError,
    at_least,
    option,
    options,
    raise_problems,
)
from cntk_core.api.readers import LINE_BYTES, UtteranceKeys, context_window, read_utterance_block
from cntk_reader_kaldi.lattice_options import (
    ALIGNMENTS,
    LATTICES,
    AlignmentTable,
    AlignmentTableKeys,
    Computed,
    LatticeOptions,
    is_computed,
    read_lattices,
    with_lattices,
)
from cntk_reader_kaldi.tables import read_lines

NO_TRANSFORM = "NO_FEATURE_TRANSFORM"


@options
class FeatureKeys:
    """The keys of a block of features."""

    dim: int = option(doc="Values of a frame in the table, or of the whole window.", validator=at_least(1))
    scp_file: str = option(default="", doc="The table; with rx the list of utterances and their lengths.")
    rx: str = option(
        default="", doc="The table, as Kaldi writes it (scp:... or ark:...), or a file that has that text."
    )
    context_window: tuple[int, ...] = option(default=(1,), doc="Frames of the window, or left:right.")
    feature_transform: str = option(
        default="", doc=f"File of Kaldi's nnet1 that the frames go through; empty or {NO_TRANSFORM} is none."
    )
    expand_to_utterance: bool = option(default=False, doc="One frame (an i-vector), repeated for each frame.")
    allow_commands: bool = option(
        default=False, doc="Commands (ark:... |) are run; `cntk kaldi-prepare` runs them once."
    )
    max_line_bytes: int = option(default=LINE_BYTES, doc="A longer line is refused.", validator=at_least(1))


@options
class AlignmentKeys:
    """The keys of a block of labels."""

    label_dim: int = option(aliases=("dim",), doc="Number of classes.", validator=at_least(1))
    mlf_file: str = option(
        aliases=("rx",), doc="The table of alignments or posteriors (ark:... or scp:...), or a file that has that text."
    )
    label_mapping_file: Path | None = option(
        default=None, doc="Classes of the table, one to a line; none: 0, 1, 2, ..."
    )
    kaldi_model: Path | None = option(
        default=None, doc="The model (final.mdl) whose transition-ids the table has; none: it has classes."
    )
    soft_labels: bool = option(default=True, doc="Weights of posteriors are kept; false: the class with the largest.")
    targets_delay: int = option(
        default=0, aliases=("targets_delay",), doc="Frames by which labels come later.", validator=at_least(0)
    )
    allow_commands: bool = option(
        default=False, doc="Commands (ark:... |) are run; `cntk kaldi-prepare` runs them once."
    )
    max_line_bytes: int = option(default=LINE_BYTES, doc="A longer line is refused.", validator=at_least(1))


@options
class FeatureOptions:
    """A stream of features; ``lengths`` lists the utterances and their lengths, if it is there."""

    name: str
    dim: int
    table: str
    window: tuple[int, int] = (0, 0)
    lengths: Path | None = None
    expand: bool = False
    transform: Path | None = None
    transform_where: Location | None = None
    where: Location | None = None
    allow_commands: bool = False
    max_line_bytes: int = LINE_BYTES


@options
class AlignmentOptions:
    """A stream of labels."""

    name: str
    dim: int
    table: str
    mapping: Path | None = None
    mapping_where: Location | None = None
    model: Path | None = None
    model_where: Location | None = None
    soft: bool = True
    delay: int = 0
    where: Location | None = None
    allow_commands: bool = False
    max_line_bytes: int = LINE_BYTES


StreamOptions = FeatureOptions | AlignmentOptions | LatticeOptions


@options
class KaldiKeys(UtteranceKeys):
    """The keys of the reader's own block; most are for its streams."""

    seq_train_criterion: str | None = option(
        default=None, doc="smbr, mpfe: which frames of lattices count as correct; none: those that have their label."
    )
    allow_commands: bool = option(
        default=False, doc="Commands (ark:... |) are run; `cntk kaldi-prepare` runs them once."
    )
    soft_labels: bool = option(default=True, doc="Weights of posteriors are kept; false: the class with the largest.")
    targets_delay: int = option(
        default=0, aliases=("targets_delay",), doc="Frames by which labels come later.", validator=at_least(0)
    )


@options
class KaldiReaderOptions(KaldiKeys):
    """Everything that a recipe says to the reader."""

    streams: tuple[StreamOptions, ...] = attrs.field()


def read_options(block: Config, what: str) -> KaldiReaderOptions:
    """Read the reader's block and its sub-blocks, one for each stream. Raises all errors together."""
    errors: list[CntkError] = []
    keys, found = read_utterance_block(
        block, what, KaldiKeys, read_block, features=FeatureOptions, ignore=(), errors=errors
    )
    streams = with_lattices(block, what, found, keys, errors)
    read = KaldiReaderOptions(**keys, streams=streams)
    raise_problems([*errors, *read.problems(block)])
    return read


def read_stream(block: Config, name: str, what: str) -> StreamOptions:
    """Read the block of a stream of a composite: lattices need the blocks of others. Raises CntkError."""
    found = read_block(block, name, what)
    if not isinstance(found, LatticeOptions | AlignmentTable | Computed):
        return found
    raise UnsupportedError(
        f"stream '{name}' of {what}: lattices cannot be a part of a composite",
        where=block.section(name).where,
        hint="readerType=Kaldi2Reader reads them, beside features=[ ... ] and labels=[ ... ].",
    )


def read_block(block: Config, name: str, what: str) -> StreamOptions | AlignmentTable | Computed:
    """Read a block inside the reader's: labels if it has ``mlfFile`` or ``labelDim``, features if it has no other."""
    section = block.section(name)
    told = f"stream '{name}' of {what}"
    if is_computed(section):
        return Computed(where=section.where)
    if name.lower() == LATTICES or (section.own("kaldiModel") is not None and section.own("labelDim") is None):
        return read_lattices(section, name, told, specifier_of)
    if name.lower() == ALIGNMENTS:
        keys_ = section.bind(AlignmentTableKeys, what=told)
        where = section.location("rx")
        return AlignmentTable(table=specifier_of(keys_.rx, where, LINE_BYTES), where=where)
    if section.own("mlfFile") is not None or section.own("labelDim") is not None:
        keys = section.bind(AlignmentKeys, ignore=("type", "labelType"), what=told)
        key = "mlfFile" if section.own("mlfFile") is not None else "rx"
        where = section.location(key)
        return AlignmentOptions(
            name=name,
            dim=keys.label_dim,
            table=specifier_of(keys.mlf_file, where, keys.max_line_bytes),
            mapping=keys.label_mapping_file,
            mapping_where=section.location("labelMappingFile"),
            model=keys.kaldi_model,
            model_where=section.location("kaldiModel"),
            soft=keys.soft_labels,
            delay=keys.targets_delay,
            where=where,
            allow_commands=keys.allow_commands,
            max_line_bytes=keys.max_line_bytes,
        )
    return _read_features(section, name, told)


def _read_features(section: Config, name: str, told: str) -> FeatureOptions:
    keys = section.bind(FeatureKeys, ignore=("type",), what=told)
    if not keys.rx and not keys.scp_file:
        hint = "Write scpFile=feats.scp, or rx=... with scp:... or ark:... in the file that it names."
        raise MissingKeyError(f"{told} has neither rx nor scpFile", where=section.where, hint=hint)
    where = section.location("rx" if keys.rx else "scpFile")
    transform = None if keys.feature_transform in ("", NO_TRANSFORM) else Path(keys.feature_transform)
    return FeatureOptions(
        name=name,
        dim=keys.dim,
        table=specifier_of(keys.rx, where, keys.max_line_bytes) if keys.rx else keys.scp_file,
        window=context_window(keys.context_window, section),
        lengths=Path(keys.scp_file) if keys.rx and keys.scp_file else None,
        expand=keys.expand_to_utterance,
        transform=transform,
        transform_where=section.location("featureTransform"),
        where=where,
        allow_commands=keys.allow_commands,
        max_line_bytes=keys.max_line_bytes,
    )


def specifier_of(text: str, where: Location, max_line_bytes: int) -> str:
    """Return the specifier that a key gives, or that stands in the file that it names."""
    if text.split(":")[0].split(",")[0] in ("scp", "ark") or text.endswith((".scp", ".ark")):
        return text
    lines = read_lines(Path(text), where, "file with the specifier of a table", max_line_bytes)
    if len(lines) != 1:
        hint = "It has one line: scp:feats.scp or ark:feats.ark."
        raise DataError(
            f"the file with the specifier of a table has {len(lines)} lines", where=Location(text), hint=hint
        )
    return " ".join(lines[0][1])
