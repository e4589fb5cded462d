"""The kit of authors of readers and writers: chunks, random order, packing, utterances."""

from __future__ import annotations

from cntk_core.contract.reader import CACHE_BYTES
from cntk_core.ops.language.layouts import slot_layout
from cntk_kit_readers import lattice_rows
from cntk_kit_readers.chunked import ChunkedReader
from cntk_kit_readers.composite import CompositeSource, FrameSource, Part
from cntk_kit_readers.decimals import (
    MOST_DIGITS,
    NO_EXPONENT,
    NO_NUMBER,
    ODD,
    POWERS_OF_TEN,
    USUAL,
    decimal_value,
    decimals_file,
    fill_odd,
    note_odd,
    read_digits,
    read_exponent,
)
from cntk_kit_readers.endless import Endless, Taken
from cntk_kit_readers.lines import LINE_BYTES, bounded_lines, line_too_long
from cntk_kit_readers.makers import PendingRows, RowMaker
from cntk_kit_readers.precision import in_precision
from cntk_kit_readers.randomize import Block, RandomOrder, SweepOrder, Window, chunk_windows
from cntk_kit_readers.reader_keys import ReaderKeys
from cntk_kit_readers.slots import Piece, SlotPlan
from cntk_kit_readers.source import Chunk, ChunkInfo, ChunkSource, Column
from cntk_kit_readers.threads import reader_threads
from cntk_kit_readers.truncation import Truncation
from cntk_kit_readers.utterance_keys import (
    UtteranceKeys,
    UtterancePartKeys,
    context_window,
    read_utterance_block,
    read_utterance_part,
)
from cntk_kit_readers.utterance_reader import UtteranceReader, window_of
from cntk_kit_readers.utterances import class_column, cut_chunks, read_windows

KIT_VERSION = "1.0"
"""Version of this kit. Names may change with its major; what goes is announced for two minor versions."""

__all__ = [
    "CACHE_BYTES",
    "KIT_VERSION",
    "LINE_BYTES",
    "MOST_DIGITS",
    "NO_EXPONENT",
    "NO_NUMBER",
    "ODD",
    "POWERS_OF_TEN",
    "USUAL",
    "Block",
    "Chunk",
    "ChunkInfo",
    "ChunkSource",
    "ChunkedReader",
    "Column",
    "CompositeSource",
    "Endless",
    "FrameSource",
    "Part",
    "PendingRows",
    "Piece",
    "RandomOrder",
    "ReaderKeys",
    "RowMaker",
    "SlotPlan",
    "SweepOrder",
    "Taken",
    "Truncation",
    "UtteranceKeys",
    "UtterancePartKeys",
    "UtteranceReader",
    "Window",
    "bounded_lines",
    "chunk_windows",
    "class_column",
    "context_window",
    "cut_chunks",
    "decimal_value",
    "decimals_file",
    "fill_odd",
    "in_precision",
    "lattice_rows",
    "line_too_long",
    "note_odd",
    "read_digits",
    "read_exponent",
    "read_utterance_block",
    "read_utterance_part",
    "read_windows",
    "reader_threads",
    "slot_layout",
    "window_of",
]
