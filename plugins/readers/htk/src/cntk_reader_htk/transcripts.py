"""What label files say beside the states: the phones and words of the reference.

A line is ``start end state score phone score word``: phones stand in the fifth column of the first line of a phone,
words in the seventh of the first line of a word.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import attrs

from cntk_core.api import DataError, Location, did_you_mean
from cntk_core.api.readers import LINE_BYTES
from cntk_reader_htk.mlf import HEADER, frame_range
from cntk_reader_htk.scp import read_lines, sequence_key

SILENCES = frozenset({"!silence", "!sent_start", "!sent_end", "<s>", "</s>"})
"""Words that any language model knows."""


@attrs.define(eq=False)
class Transcript:
    """Of an utterance: phones, the frames of each, and words."""

    phones: list[str] = attrs.field(factory=list)
    frames: list[int] = attrs.field(factory=list)
    words: list[str] = attrs.field(factory=list)


def read_transcripts(
    paths: Sequence[Path], phones: Collection[str], max_line_bytes: int = LINE_BYTES
) -> dict[str, Transcript]:
    """Return the utterances of label files whose lines have phones. What else is wrong with them is not said here.

    Args:
        paths: the files.
        phones: those that there are.
        max_line_bytes: a longer line is refused.

    Raises:
        DataError: a file cannot be read, or names a phone that there is not.
    """
    found: dict[str, Transcript] = {}
    for path in paths:
        own: Transcript | None = None
        for number, line in read_lines(path, None, "label file", max_line_bytes):
            if line.startswith('"'):
                own = found.setdefault(sequence_key(line.strip('"').removeprefix("*/")), Transcript())
            elif own is not None and line not in (".", HEADER):
                _add(own, line.split(), phones, Location(str(path), number))
    return {key: one for key, one in found.items() if one.phones}


def _add(own: Transcript, words: list[str], phones: Collection[str], where: Location) -> None:
    """Add what a line says."""
    span = frame_range(words[0], words[1]) if len(words) > 1 else None
    if span is None:
        return
    if len(words) > 4:
        if words[4] not in phones:
            hint = "phoneFile has to have all phones of the label file."
            raise DataError(f"there is no phone '{words[4]}'{did_you_mean(words[4], phones)}", where=where, hint=hint)
        own.phones.append(words[4])
        own.frames.append(0)
    if own.frames:
        own.frames[-1] += span[1] - span[0]
    if len(words) > 6:
        own.words.append(words[6])


def read_words(path: Path, where: Location | None, max_line_bytes: int = LINE_BYTES) -> frozenset[str]:
    r"""Return the words of a language model in ARPA's format: those of its section ``\\1-grams:``.

    Raises:
        DataError: it cannot be read, or has no such section.
    """
    words: set[str] = set()
    inside = False
    for _, line in read_lines(path, where, "unigram", max_line_bytes):
        if line.startswith("\\"):
            inside = line.lower() == "\\1-grams:"
        elif inside and len(line.split()) > 1:
            words.add(line.split()[1])
    if not words:
        hint = "unigram= wants a language model in ARPA's format, with a section \\1-grams:"
        raise DataError("the language model has no words", where=Location(str(path)), hint=hint)
    return frozenset(words | SILENCES)
