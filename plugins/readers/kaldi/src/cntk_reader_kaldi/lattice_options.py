"""What a recipe says of lattices: ``denlats``, ``alignments`` and ``seqTrainCriterion`` of the reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.api import (
    CntkError,
    Config,
    ConfigError,
    Location,
    MissingKeyError,
    at_least,
    option,
    options,
)
from cntk_core.api.readers import LINE_BYTES
from cntk_reader_kaldi.lattice_paths import Scales

LATTICES, ALIGNMENTS, CRITERION = "denlats", "alignments", "seqTrainCriterion"
_CRITERIA = ("smbr", "mpfe")
_COMPUTED = ("readerderiv", "seqtrainderiv", "readerobj", "seqtrainobj")
_ADD = f"Add {CRITERION}=smbr or {CRITERION}=mpfe."
_NOT_WHOLE = "Lattices belong to whole utterances: set frameMode=false and Truncated=false."


@options
class LatticeKeys:
    """The keys of ``denlats``."""

    rx: str = option(doc="The table of lattices (ark:... or scp:...), or a file that has that text.")
    kaldi_model: str = option(doc="The model whose transition-ids the lattices have (final.mdl).")
    sil_phone_list: str = option(default="", doc="Numbers of the phones that are silence, 1:2:3.")
    one_silence_class: bool = option(default=True, doc="Silence is correct wherever silence is wanted; false: never.")
    lm_scale: float = option(default=1.0, doc="Factor of the graph's costs.")
    old_acoustic_scale: float = option(default=0.0, doc="Factor of the lattice's own costs of the sound.")
    acoustic_scale: float | None = option(default=None, doc="That of the criterion: 1/seqGammarAMF of the SGD block.")
    allow_commands: bool = option(
        default=False, doc="Commands (ark:... |) are run; `cntk kaldi-prepare` runs them once."
    )
    max_line_bytes: int = option(default=LINE_BYTES, doc="A longer line is refused.", validator=at_least(1))


@options
class AlignmentTableKeys:
    """The keys of ``alignments``."""

    rx: str = option(doc="The table of transition-ids (ark:... or scp:...), or a file that has that text.")


@options
class LatticeOptions:
    """A stream of lattices."""

    name: str
    table: str
    model: str
    where: Location
    model_where: Location | None = None
    silence: tuple[int, ...] = ()
    one_silence_class: bool = True
    scales: Scales = Scales()
    criterion: str | None = None
    alignments: str | None = None
    alignments_where: Location | None = None
    allow_commands: bool = False
    max_line_bytes: int = LINE_BYTES


@options
class Computed:
    """A block for what CNTK's reader computed; the action `train` gives it to the network."""

    where: Location


@options
class AlignmentTable:
    """The table of ``alignments``."""

    table: str
    where: Location


def read_lattices(section: Config, name: str, told: str, specifier: Any) -> LatticeOptions:
    """Read the block ``denlats``. Raises CntkError."""
    keys = section.bind(LatticeKeys, what=told)
    where = section.location("rx")
    acoustic = 0.2 if keys.acoustic_scale is None else keys.acoustic_scale
    if not 0.0 < acoustic < float("inf"):
        at = section.location("acousticScale")
        raise ConfigError(f"acousticScale must be above 0, not {acoustic:g}", where=at)
    return LatticeOptions(
        name=name,
        table=specifier(keys.rx, where, keys.max_line_bytes),
        model=keys.kaldi_model,
        where=where,
        model_where=section.location("kaldiModel"),
        silence=_phones(keys.sil_phone_list, section),
        one_silence_class=keys.one_silence_class,
        scales=Scales(keys.lm_scale, acoustic * keys.old_acoustic_scale),
        allow_commands=keys.allow_commands,
        max_line_bytes=keys.max_line_bytes,
    )


def _phones(text: str, section: Config) -> tuple[int, ...]:
    words = [word for word in text.replace(",", ":").split(":") if word.strip()]
    if not all(word.strip().isascii() and word.strip().isdigit() for word in words):
        hint = "It has the numbers of phones with colons between them, 1:2:3; silence.csl has such a line."
        raise ConfigError(f"'{text}' is no list of phones", where=section.location("silPhoneList"), hint=hint)
    return tuple(map(int, words))


def _check_scale(section: Config, errors: list[CntkError]) -> None:
    """Say where the SGD block beside the reader has other scales than the lattices say."""
    told, beside = section.own("acousticScale"), section.get("SGD")
    if told is None or beside is None or not beside.is_block:
        return
    block, acoustic = beside.config(), told.real()
    for key in ("seqGammarAMF", "seqGammarLMF"):
        value = block.own(key)
        given = 14.0 if value is None else value.real()
        if abs(given * acoustic - 1.0) > 1e-3:
            text = f"acousticScale={acoustic:g} of the lattices is {key}={1 / acoustic:g} of the SGD block"
            hint = f"Write seqGammarAMF={1 / acoustic:g} ; seqGammarLMF={1 / acoustic:g} into the SGD block."
            errors.append(ConfigError(f"{text}, not {given:g}", where=section.location("acousticScale"), hint=hint))
            return


def is_computed(section: Config) -> bool:
    """Tell whether a block is for what CNTK's reader computed itself: the criterion and its derivatives."""
    value = section.own("type")
    return value is not None and value.text.lower() in _COMPUTED


def with_lattices(
    block: Config, what: str, found: Sequence[Any], keys: Any, errors: list[CntkError]
) -> tuple[Any, ...]:
    """Return the streams of a reader; that of lattices knows the criterion and the alignments.

    Args:
        block: of the reader.
        what: the reader, for messages.
        found: the streams, and the table of alignments.
        keys: of the reader's block, by their names in Python.
        errors: what is wrong is added to them.
    """
    streams = [one for one in found if not isinstance(one, AlignmentTable | Computed)]
    computed = any(isinstance(one, Computed) for one in found)
    aligned = next((one for one in found if isinstance(one, AlignmentTable)), None)
    lattices = next((one for one in streams if isinstance(one, LatticeOptions)), None)
    criterion = keys["seq_train_criterion"]
    if criterion is None and lattices is None and aligned is None and not computed:
        return tuple(streams)
    if computed and criterion is None:
        at = next(one.where for one in found if isinstance(one, Computed))
        errors.append(MissingKeyError(f"{what} computes a criterion, and there is no {CRITERION}", where=at, hint=_ADD))
    where = block.location(CRITERION) if criterion is not None else block.where
    if lattices is None:
        hint = f"Add {LATTICES}=[ rx=ark:... ; kaldiModel=final.mdl ]."
        errors.append(MissingKeyError(f"{what} has no block {LATTICES}, the lattices", where=where, hint=hint))
        return tuple(streams)
    if criterion is not None and criterion not in _CRITERIA:
        text = f"{CRITERION} must be smbr or mpfe, not '{criterion}'"
        errors.append(ConfigError(text, where=where, hint="Without it the labels say which frames are correct."))
    if criterion is not None and aligned is None:
        hint = f"Add {ALIGNMENTS}=[ rx=ark:... ], the transition-ids of each frame."
        errors.append(MissingKeyError(f"{what}: {CRITERION} needs {ALIGNMENTS}", where=where, hint=hint))
    for key, wrong in (("frameMode", keys["frame_mode"]), ("truncated", keys["truncated"])):
        if wrong:
            text = f"stream '{lattices.name}' has lattices, which belong to whole utterances, and {key}=true"
            errors.append(ConfigError(text, where=lattices.where, hint=_NOT_WHOLE))
    if not computed:
        _check_criterion(block, criterion, where, errors)
        _check_scale(block.section(lattices.name), errors)
    first: Any = lattices
    whole = attrs.evolve(
        first,
        criterion=criterion,
        alignments=None if aligned is None else aligned.table,
        alignments_where=None if aligned is None else aligned.where,
    )
    return tuple(whole if one is lattices else one for one in streams)


def _check_criterion(block: Config, criterion: str | None, where: Location, errors: list[CntkError]) -> None:
    """Say where the SGD block beside the reader asks for MMI, while the reader counts frames for sMBR."""
    beside = block.get("SGD")
    if criterion is None or beside is None or not beside.is_block:
        return
    value = beside.config().own("seqGammarUsesMBR")
    if value is None or not value.boolean():
        text = f"{CRITERION}={criterion} needs seqGammarUsesMBR=true in the SGD block"
        errors.append(ConfigError(text, where=where, hint=f"Without {CRITERION} the criterion is MMI."))
