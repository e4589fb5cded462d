"""The keys that a recipe may give to every reader of chunks, and what they mean for its order and its memory.

An options class of a reader that says more about them (another default, a property of its own) derives from
:class:`ReaderKeys`. For all others :class:`~cntk_kit_readers.chunked.ChunkedReader` reads and obeys them itself.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import attrs

from cntk_core.config import Config, at_least, option, option_key, option_keys, options
from cntk_core.contract.reader import CACHE_BYTES
from cntk_kit_readers.randomize import Window

NOT_RANDOM = ("none", "false", "f", "0")
"""Words of ``randomize`` for the order of the files."""


@options
class ReaderKeys:
    """The keys of a reader's block that are the same for all readers."""

    randomize: Literal["auto", "true", "t", "1", "none", "false", "f", "0"] = option(
        default="auto", doc="Whether the sequences are read in random order."
    )
    randomization_window: int | None = option(
        default=None,
        doc="How far the random order moves a sequence, in chunks.",
        validator=attrs.validators.optional(at_least(0)),
    )
    sample_based_randomization_window: bool = option(default=False, doc="randomizationWindow counts samples.")
    randomization_seed: int = option(default=0, doc="Another seed gives another random order.")
    keep_data_in_memory: bool = option(default=False, doc="Read the data once and keep them.")
    cache_size_in_bytes: int = option(
        default=CACHE_BYTES, doc="Parsed data that is kept, if a window has less.", validator=at_least(0)
    )
    prefetch: bool = option(default=True, doc="Prepare the next minibatches in a background thread.")
    trace_level: int = option(default=1, doc="0: errors; 1: warnings too.")
    verbosity: int = option(default=0, doc="Accepted; traceLevel decides.")
    precision: Literal["float", "double"] | None = option(default=None, doc="The network's own precision is used.")

    @property
    def is_shuffled(self) -> bool:
        """Whether the order is random."""
        return self.randomize not in NOT_RANDOM and self.randomization_window != 0

    def window_within(self, usual: Window | None) -> Window | None:
        """Return how far the random order moves a sequence; None is not at all.

        Args:
            usual: the window where the recipe gives none. None: the reader has no random order.
        """
        if usual is None or not self.is_shuffled:
            return None
        if self.randomization_window is None:
            return usual
        return Window(self.randomization_window, self.sample_based_randomization_window)


READER_KEYS: tuple[str, ...] = tuple(option_key(field) for field in attrs.fields(cast(Any, ReaderKeys)))
"""The names of the keys in a recipe."""


def read_reader_keys(block: Config, options_class: type, what: str) -> ReaderKeys | None:
    """Read the keys of :class:`ReaderKeys` that a reader's own options do not have; the others keep their defaults.

    Args:
        block: of the reader.
        options_class: the reader's options.
        what: names the reader in errors.

    Returns:
        The keys; None for options that derive from :class:`ReaderKeys`, which have them all.

    Raises:
        CntkError: everything that is wrong with them, together.
    """
    if issubclass(options_class, ReaderKeys):
        return None
    owned = option_keys(options_class)
    # What the options have is not looked up in the sections around the block either.
    closed = "\n".join(f"{key}=default" for key in READER_KEYS if key.lower() in owned)
    return block.only(READER_KEYS).with_entries(closed).bind(ReaderKeys, what=what)
