"""The keys that readers of utterances have in common, and how their blocks are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import attrs

from cntk_core.config.schedule import Schedule
from cntk_core.config.schema import at_least, option, options
from cntk_core.config.section import Config
from cntk_core.contract.reader import CACHE_BYTES
from cntk_core.errors import CntkError, ConfigError, MissingKeyError, collect, raise_problems
from cntk_kit_readers.lines import LINE_BYTES

_OFF = ("none", "false", "f", "0")
_AUTO = ("auto", "true", "t", "1")


@options
class UtteranceKeys:
    """The keys of the reader's own block."""

    read_method: Literal["blockRandomize", "rollingWindow", "none"] = option(
        default="blockRandomize", doc="none: in the order of the files."
    )
    randomize: str = option(default="auto", doc="auto, none, or how many frames the random order moves a frame.")
    randomization_seed: int = option(default=0, doc="Another seed gives another random order.")
    frame_mode: bool = option(default=True, doc="Frames are samples; false: utterances are sequences.")
    truncated: bool = option(default=False, doc="Truncated back-propagation.")
    truncation_length: int = option(default=0, doc="Frames of a piece of an utterance.", validator=at_least(0))
    nbruttsineachrecurrentiter: Schedule[int] = option(
        default=Schedule.constant(1), doc="Utterances side by side, by epoch."
    )
    max_utterance_length: int | None = option(
        default=None, doc="Longer utterances are left out.", validator=attrs.validators.optional(at_least(1))
    )
    minibatch_mode: Literal["partial", "full"] = option(default="partial", doc="The short last minibatch is kept.")
    check_data: bool = option(default=True, doc="Leave out utterances whose streams differ in length.")
    max_errors: int = option(default=0, doc="Malformed utterances that are left out.", validator=at_least(0))
    keep_data_in_memory: bool = option(default=False, doc="Read the files once and keep their frames.")
    cache_size_in_bytes: int = option(
        default=CACHE_BYTES, doc="Parsed data that is kept, if a window has less.", validator=at_least(0)
    )
    prefetch: bool = option(default=True, doc="Prepare the next minibatches in a background thread.")
    max_line_bytes: int = option(
        default=LINE_BYTES, doc="A longer line of a list or of text is refused.", validator=at_least(1)
    )
    verbosity: int = option(default=0, doc="Accepted; traceLevel decides.")
    trace_level: int = option(default=1, doc="0: errors; 1: warnings too.")
    precision: Literal["float", "double"] | None = option(default=None, doc="The network's own precision is used.")

    @property
    def is_shuffled(self) -> bool:
        """Whether the order is random."""
        return self.read_method != "none" and self.randomize.lower() not in _OFF

    @property
    def window_frames(self) -> int | None:
        """How many frames a random order moves within; None leaves it to the reader."""
        return int(self.randomize) if self.is_shuffled and self.randomize.lower() not in _AUTO else None

    def problems(self, block: Config) -> list[CntkError]:
        """Return what is wrong between the keys of a block."""
        errors: list[CntkError] = []
        word = self.randomize.lower()
        if word not in (*_OFF, *_AUTO) and not (word.isascii() and word.isdigit() and len(word) < 19):
            text = f"randomize must be auto, none, or a number of frames, not '{self.randomize}'"
            errors.append(ConfigError(text, where=block.where))
        if self.frame_mode and self.truncated:
            hint = "Truncated training needs utterances: set frameMode=false."
            errors.append(
                ConfigError("frameMode=true and truncated=true exclude each other", where=block.where, hint=hint)
            )
        counts = self.nbruttsineachrecurrentiter
        if min(counts[epoch] for epoch in range(len(counts))) < 1:
            errors.append(ConfigError("nbruttsineachrecurrentiter must be at least 1", where=block.where))
        return errors


@options
class UtterancePartKeys:
    """The keys of a part of a composite reader that has utterances."""

    randomize: Literal["auto", "true", "t", "1", "none", "false", "f", "0"] = option(
        default="auto", doc="Whether the utterances are read in random order."
    )
    expand_to_utterance: bool = option(default=False, doc="One frame (an i-vector), repeated for each frame.")
    max_errors: int = option(default=0, doc="Malformed utterances that are left out.")
    max_line_bytes: int = option(
        default=LINE_BYTES, doc="A longer line of a list or of text is refused.", validator=at_least(1)
    )
    verbosity: int = option(default=0, doc="Accepted; traceLevel decides.")
    trace_level: int = option(default=1, doc="0: errors; 1: warnings too.")
    precision: Literal["float", "double"] | None = option(default=None, doc="The network's own precision is used.")

    @property
    def is_shuffled(self) -> bool:
        """Whether the order is random."""
        return self.randomize not in _OFF


def read_utterance_block(
    block: Config,
    what: str,
    keys_class: type,
    read_stream: Callable[[Config, str, str], Any],
    *,
    features: type,
    ignore: Sequence[str],
    errors: list[CntkError],
) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Read a reader's block and its sub-blocks, one for each stream.

    Args:
        block: of the reader.
        what: the reader, for messages.
        keys_class: of its own keys.
        read_stream: ``(block, name, what) -> stream``.
        features: the class of streams of features, of which there must be one.
        ignore: own keys that belong to somebody else; if they are blocks, they are no streams.
        errors: what is wrong with the block so far.

    Returns:
        The keys by their names in Python, and the streams.

    Raises:
        CntkError: all that is wrong, together.
    """
    others = {key.lower() for key in ignore}
    blocks = sorted(block.block_names(), key=str.lower)
    names = [name for name in blocks if name.lower() not in others]
    keys = collect(lambda: block.bind(keys_class, ignore=(*ignore, *blocks), what=what), errors)
    streams = [collect(partial(read_stream, block, name, what), errors) for name in names]
    if not any(isinstance(stream, features) for stream in streams) and not errors:
        hint = "Add features=[ dim=... ; scpFile=... ] and labels=[ labelDim=... ; mlfFile=... ]."
        errors.append(MissingKeyError(f"{what} has no block of features", where=block.where, hint=hint))
    raise_problems(errors)
    return _by_name(keys), tuple(streams)


def read_utterance_part(
    block: Config,
    what: str,
    keys_class: type,
    read_stream: Callable[[Config, str, str], Any],
    *,
    ignore: Sequence[str],
    example: str,
) -> tuple[dict[str, Any], Any]:
    """Read the block of a part of a composite reader and its one stream.

    Args:
        block: of the part.
        what: the part, for messages.
        keys_class: of its own keys.
        read_stream: ``(block, name, what) -> stream``.
        ignore: own keys that belong to somebody else.
        example: a stream, for a hint.

    Returns:
        The keys by their names in Python, and the stream.

    Raises:
        CntkError: all that is wrong, together.
    """
    errors: list[CntkError] = []
    keys = collect(lambda: block.bind(keys_class, ignore=ignore, what=what), errors)
    value = block.own("input")
    if value is None:
        hint = f"Add input=[ {example} ], the name of a network input and its stream."
        raise MissingKeyError(f"{what} needs the key 'input'", where=block.where, hint=hint)
    section = value.config()
    names = section.keys()
    if len(names) != 1:
        raise ConfigError(f"'input' of {what} must have one stream, not {len(names)}", where=value.where)
    stream: Any = collect(lambda: read_stream(section, names[0], what), errors)
    raise_problems(errors)
    return _by_name(keys), stream


def _by_name(keys: Any) -> dict[str, Any]:
    """Return options by their names in Python, for a class that has more of them."""
    return attrs.asdict(keys, recurse=False)


def context_window(given: Sequence[int], section: Config) -> tuple[int, int]:
    """Return how many frames a window has to the left and to the right.

    Args:
        given: the value of contextWindow: an odd number of frames, or left and right.
        section: where it stands.

    Raises:
        ConfigError: it is neither.
    """
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
