"""Sound files: lists of them, their lengths, their samples, and other speeds."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import CntkError, DataError, Location, UnsupportedError, local_path
from cntk_core.api.readers import LINE_BYTES, bounded_lines

_FORMS = (
    "A line is the key of an utterance and its file, perhaps with the seconds where it begins and ends behind them."
)
_COMMAND = "Run it once and write what it gives to wav or flac files."
_DAMAGED = "Is it a sound file (wav, flac, ogg), and whole?"
_STREAMED = (0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
"""Sizes of a wav file that was written before its length was known, as programs in a pipe do."""
_LIMIT = 1000
"""Speeds and ratios of rates are fractions with numbers up to this."""


@attrs.frozen
class Entry:
    """One utterance of a list.

    Attributes:
        key: its name.
        path: the file.
        where: the line of the list.
        begin, end: seconds; ``end`` is None for the end of the file.
    """

    key: str
    path: str
    where: Location
    begin: float = 0.0
    end: float | None = None


def read_lines(path: Path, where: Location, what: str, max_line_bytes: int = LINE_BYTES) -> list[tuple[Location, str]]:
    """Return the lines of a text file that are not empty.

    Raises:
        DataError: it cannot be read, is no text, or has too long a line.
    """
    found = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(bounded_lines(file, max_line_bytes, str(path)), 1):
                place = Location(str(path), number)
                found.append((place, line.decode("utf-8").strip()))
    except UnicodeDecodeError:
        hint = "A list is text in UTF-8."
        raise DataError(f"this is no {what}", where=Location(str(path), len(found) + 1), hint=hint) from None
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        missing = isinstance(error, OSError) and not path.exists()
        remedy = "A relative name starts at the directory in which the command runs." if missing else None
        raise DataError(f"cannot open the {what} '{path}': {reason}", where=where, hint=remedy) from None
    return [(place, line) for place, line in found if line]


def read_list(
    path: Path, where: Location, max_line_bytes: int = LINE_BYTES
) -> tuple[tuple[Entry, ...], tuple[CntkError, ...]]:
    """Read a list of utterances, and return them and what is wrong with other lines.

    Raises:
        DataError: it cannot be read.
    """
    entries: dict[str, Entry] = {}
    errors: list[CntkError] = []
    for place, line in read_lines(path, where, "list of sound files", max_line_bytes):
        try:
            entry = _parse(line, place)
            if entry.key in entries:
                text = f"the key '{entry.key}' stands in line {entries[entry.key].where.line} already"
                raise DataError(text, where=place, hint="Each utterance has one line.")
        except CntkError as error:
            errors.append(error)
            continue
        entries[entry.key] = entry
    return tuple(entries.values()), tuple(errors)


def _parse(line: str, place: Location) -> Entry:
    key, _, rest = line.partition(" ") if "\t" not in line else line.partition("\t")
    rest = rest.strip()
    if not rest or "\0" in rest:
        raise DataError(f"'{key}' has no file", where=place, hint=_FORMS)
    if rest.endswith("|") or rest.startswith("|"):
        raise UnsupportedError(f"'{rest[:60]}' is a command, which is not run", where=place, hint=_COMMAND)
    words = rest.rsplit(None, 2)
    begin, end = (_seconds(word) for word in words[1:]) if len(words) == 3 else (None, None)
    if begin is None or end is None:
        return Entry(key, rest, place)
    if not begin < end:
        raise DataError(f"the piece from {begin:g} to {end:g} s ends before it begins", where=place, hint=_FORMS)
    return Entry(key, words[0], place, begin, end)


def _seconds(word: str) -> float | None:
    try:
        found = float(word)
    except ValueError:
        return None
    return found if math.isfinite(found) and found >= 0 else None


@attrs.frozen
class Piece:
    """Where the samples of an utterance are: ``count`` of them from ``first`` on, at ``rate`` in a second."""

    first: int
    count: int
    rate: int


def find_piece(entry: Entry, channel: int) -> Piece:
    """Return where the samples of an utterance are; only the head of the file is read.

    Raises:
        DataError: the file cannot be read, or does not have the piece or the channel.
    """
    import soundfile

    try:
        _check_riff(entry)
        found = soundfile.info(local_path(entry.path, entry.where))
    except (soundfile.SoundFileError, OSError, ValueError) as error:
        raise _unreadable(entry, error) from None
    if channel >= found.channels:
        text = f"'{entry.path}' has {found.channels} channels, and channel={channel}"
        raise DataError(text, where=entry.where, hint="Channels are counted from 0.")
    first = round(entry.begin * found.samplerate)
    last = found.frames if entry.end is None else round(entry.end * found.samplerate)
    if last > found.frames:
        seconds = found.frames / found.samplerate
        text = f"the piece ends at {entry.end:g} s, and '{entry.path}' at {seconds:.6g} s"
        raise DataError(text, where=entry.where, hint="The list belongs to another file.")
    return Piece(first, last - first, found.samplerate)


def _check_riff(entry: Entry) -> None:
    """Make sure that a wav file is as long as its head says: the library takes what is there for the whole.

    Raises:
        DataError: it is shorter.
        OSError, ValueError: it cannot be read.
    """
    with open(local_path(entry.path, entry.where), "rb") as file:
        head = file.read(8)
        size = file.seek(0, os.SEEK_END)
    if head[:4] != b"RIFF" or len(head) < 8:
        return
    told = int.from_bytes(head[4:], "little")
    if told not in _STREAMED and told + 8 > size:
        text = f"'{entry.path}' ends at byte {size}, and its head says {told + 8}"
        raise DataError(text, where=entry.where, hint="The file is damaged or was not copied to its end.")


def read_samples(entry: Entry, piece: Piece, channel: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the samples of an utterance, from -1 to 1. Shape ``(samples,)``.

    Raises:
        DataError: they cannot be read.
    """
    import soundfile

    try:
        path = local_path(entry.path, entry.where)
        found, _ = soundfile.read(path, piece.count, piece.first, dtype=dtype.name, always_2d=True)
    except (soundfile.SoundFileError, OSError, ValueError) as error:
        raise _unreadable(entry, error) from None
    if len(found) < piece.count:
        text = f"'{entry.path}' has {len(found)} of {piece.count} samples"
        raise DataError(text, where=entry.where, hint="The file is damaged or was not copied to its end.")
    samples: NDArray[Any] = found[:, channel]
    return samples


def _unreadable(entry: Entry, error: Exception) -> DataError:
    path = Path(entry.path)
    missing = "\0" not in entry.path and not path.exists()
    hint = "A relative name starts at the directory in which the command runs." if missing else _DAMAGED
    reason = "no such file" if missing else str(getattr(error, "error_string", error)).strip(" .").lower()
    return DataError(f"cannot read '{entry.path}': {reason}", where=entry.where, hint=hint)


def ratio_of(speed: float, rate: int, wanted: int) -> Fraction:
    """Return by what the number of samples is multiplied, for a speed and from one rate to another."""
    return (Fraction(wanted, rate) / Fraction(speed).limit_denominator(_LIMIT)).limit_denominator(_LIMIT * _LIMIT)


def resampled_count(count: int, ratio: Fraction) -> int:
    """Return how many samples :func:`resample` gives."""
    return -(-count * ratio.numerator // ratio.denominator)


def resample(samples: NDArray[Any], ratio: Fraction) -> NDArray[Any]:
    """Return samples at another rate, filtered so that nothing is folded back. Shape ``(samples,)``."""
    if ratio == 1:
        return samples
    from scipy.signal import resample_poly

    found: NDArray[Any] = resample_poly(samples, ratio.numerator, ratio.denominator)
    return found.astype(samples.dtype, copy=False)


def copies(entries: Sequence[Entry], speeds: Sequence[float]) -> list[tuple[str, Entry, float]]:
    """Return the key, entry and speed of each copy of utterances: one for each speed, all of one speed together.

    The first copy at speed 1 keeps its key, another is called ``sp0.9-key``, a second one of a speed ``sp0.9-2-key``.
    """
    found = []
    for number, speed in enumerate(speeds):
        turn = list(speeds[:number]).count(speed)
        prefix = "" if speed == 1 and not turn else f"sp{speed:g}-{f'{turn + 1}-' if turn else ''}"
        found += [(prefix + entry.key, entry, speed) for entry in entries]
    return found
