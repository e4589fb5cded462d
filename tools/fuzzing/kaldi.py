"""Kaldi's matrices, alignments and lists against parsers that read number by number.

The first byte of an input says which it is: a matrix, an alignment or posterior, or a list.
"""

from __future__ import annotations

import math
import random
import re
import struct
from contextlib import closing

import numpy as np
from cntk_reader_kaldi.archive import ArchiveFile, ArchiveFiles
from cntk_reader_kaldi.tables import read_table

from cntk_core.api import CntkError, Location
from fuzzing.engine import Finding, mutated, same
from fuzzing.files import plain, write

_NUMBERS = (0.0, 1.5, -2.0, 1e38, math.inf, math.nan)
_NUMBER = re.compile(r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|nan|inf)", re.IGNORECASE)


def make(pick: random.Random) -> bytes:
    kind = pick.randrange(3)
    data = (_matrix, _classes, _list)[kind](pick)
    return bytes([kind]) + (mutated(data, pick) if pick.random() < 0.6 else data)


def check(data: bytes) -> None:
    read, judge = ((_read_matrix, _judge_matrix), (_read_classes, _judge_classes), (_read_list, _judge_list))[
        (data[0] if data else 0) % 3
    ]
    try:
        expected = judge(data[1:])
    except (ValueError, struct.error):
        expected = None
    try:
        found = read(data[1:])
    except CntkError as error:
        if expected is not None:
            raise Finding(f"refused what is right: {error}") from None
        raise
    if expected is None:
        raise Finding(f"accepted what is wrong: {found!r}")
    same("values", found, expected)


# -- matrices ---------------------------------------------------------------------------------------------


def _matrix(pick: random.Random) -> bytes:
    rows, dim = pick.choice((1, 2, 4)), pick.choice((1, 2, 3))
    values = [pick.choice((*_NUMBERS, 1e300) if pick.random() < 0.02 else _NUMBERS) for _ in range(rows * dim)]
    match pick.randrange(5):
        case 0:
            lines = [" ".join(map(str, values[i * dim : (i + 1) * dim])) for i in range(rows)]
            return f" [\n  {chr(10).join(lines)} ]\n".encode()
        case 1:
            return b"\0BFV " + struct.pack(f"<bi{dim}f", 4, dim, *(0.5 for _ in range(dim)))
        case 2:
            floats = [min(value, 1e38) if math.isfinite(value) else value for value in values]
            return b"\0BFM " + struct.pack(f"<bibi{rows * dim}f", 4, rows, 4, dim, *floats)
        case 3:
            return b"\0BDM " + struct.pack(f"<bibi{rows * dim}d", 4, rows, 4, dim, *values)
        case _:
            token = pick.choice((b"CM ", b"CM2 ", b"CM3 "))
            head = b"\0B" + token + struct.pack("<ffii", pick.choice((0.0, -1.0)), pick.choice((1.0, 9.5)), rows, dim)
            heads = pick.randbytes(8 * dim) if token == b"CM " else b""
            return head + heads + pick.randbytes(rows * dim * (2 if token == b"CM2 " else 1))


def _read_matrix(data: bytes) -> tuple[int, int, list[str]]:
    with closing(ArchiveFile(str(write("m.ark", data)))) as file:
        header = file.header(0)
        values = np.empty((header.rows, header.dim), np.float32)
        file.read(header, 0, values)
    return header.rows, header.dim, plain(values)


def _judge_matrix(data: bytes) -> tuple[int, int, list[str]]:
    if not data:
        raise ValueError("empty")
    if data[:2] != b"\0B":
        return _judge_text(data)
    token, at = data[2:5], 5
    if token in (b"CM ", b"CM2", b"CM3"):
        return _judge_compressed(data, token, at + (token != b"CM "))
    if token in (b"FV ", b"DV "):
        rows, (lead, dim), at, leads = 1, struct.unpack_from("<bi", data, at), at + 5, 4
    elif token in (b"FM ", b"DM "):
        leads, rows, lead, dim = struct.unpack_from("<bibi", data, at)
        at += 10
    else:
        raise ValueError("token")
    if lead != 4 or leads != 4 or rows <= 0 or dim <= 0:
        raise ValueError("sizes")
    width = 4 if token[:1] == b"F" else 8
    if at + rows * dim * width > len(data):
        raise ValueError("cut")
    values = [struct.unpack_from("<f" if width == 4 else "<d", data, at + i * width)[0] for i in range(rows * dim)]
    return rows, dim, _floats(values)


def _floats(values: list[float]) -> list[str]:
    with np.errstate(all="ignore"):
        found = np.array(values).astype(np.float32)
    if any(np.isinf(new) and math.isfinite(old) for new, old in zip(found, values, strict=True)):
        raise ValueError("too large")
    return plain(found)


def _judge_text(data: bytes) -> tuple[int, int, list[str]]:
    text = data.lstrip(b" \t\r\n")
    if text[:1] != b"[" or b"]" not in text:
        raise ValueError("brackets")
    inside = text.lstrip(b"[").partition(b"]")[0].decode("latin-1")
    rows = [[word for word in re.split(r"[ \t\r\n\x0b\x0c]+", line) if word] for line in inside.split("\n")]
    rows = [row for row in rows if row]
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError("rows")
    if not all(_NUMBER.fullmatch(word) for row in rows for word in row):
        raise ValueError("number")
    return len(rows), len(rows[0]), _floats([float(word) for row in rows for word in row])


def _judge_compressed(data: bytes, token: bytes, at: int) -> tuple[int, int, list[str]]:
    least, extent, rows, dim = struct.unpack_from("<ffii", data, at)
    at += 16
    width = 2 if token == b"CM2" else 1
    if rows <= 0 or dim <= 0 or at + (8 * dim if token == b"CM " else 0) + rows * dim * width > len(data):
        raise ValueError("sizes")
    found = np.empty((rows, dim))
    with np.errstate(all="ignore"):
        for row in range(rows):
            for column in range(dim):
                if token != b"CM ":
                    place = at + (row * dim + column) * width
                    (code,) = struct.unpack_from("<H" if width == 2 else "<B", data, place)
                    found[row, column] = np.float64(least) + np.float64(extent) * (
                        code / (65535.0 if width == 2 else 255.0)
                    )
                    continue
                points = [
                    least + np.float64(extent) * (p / 65535.0) for p in struct.unpack_from("<4H", data, at + 8 * column)
                ]
                code = data[at + 8 * dim + column * rows + row]
                found[row, column] = _between(points, code)
    return rows, dim, _floats(found.reshape(-1).tolist())


def _between(points: list[float], code: int) -> float:
    """Return a value between four percentiles."""
    if code <= 64:
        return points[0] + (points[1] - points[0]) * (code / 64)
    if code <= 192:
        return points[1] + (points[2] - points[1]) * ((code - 64) / 128)
    return points[2] + (points[3] - points[2]) * ((code - 192) / 63)


# -- classes ----------------------------------------------------------------------------------------------


def _classes(pick: random.Random) -> bytes:
    frames = [pick.randrange(9) for _ in range(pick.choice((1, 2, 5)))]
    match pick.randrange(4):
        case 0:
            return b"\0B" + b"".join(struct.pack("<bi", 4, number) for number in (len(frames), *frames))
        case 1:
            return " ".join(map(str, frames)).encode() + pick.choice((b"\n", b"", b" \n"))
        case 2:
            return " ".join(f"[ {frame} 0.{frame} 3 0.05 ]" for frame in frames).encode() + b"\n"
        case _:
            pairs = [struct.pack("<bibibfbibf", 4, 2, 4, f, 4, 0.5, 4, 1, 4, pick.random()) for f in frames]
            return b"\0B" + struct.pack("<bi", 4, len(frames)) + b"".join(pairs)


Frames = list[list[tuple[int, str]]]
"""The classes of each frame, with their weights."""


def _read_classes(data: bytes) -> Frames:
    with closing(ArchiveFile(str(write("a.ark", data)))) as file:
        found, _ = file.posterior(0)
    pairs = iter(zip(found.classes.tolist(), plain(found.weights.astype(np.float32)), strict=True))
    return [[next(pairs) for _ in range(count)] for count in found.counts.tolist()]


def _judge_classes(data: bytes) -> Frames:
    if not data:
        raise ValueError("empty")
    if data[:2] != b"\0B":
        return _judge_text_classes(data.partition(b"\n")[0].decode("latin-1"))
    lead, frames = struct.unpack_from("<bi", data, 2)
    if lead != 4 or not 0 <= frames <= len(data):
        raise ValueError("frames")
    try:
        return _judge_alignment(data, frames)
    except (ValueError, struct.error):
        return _judge_posterior(data, frames)


def _judge_alignment(data: bytes, frames: int) -> Frames:
    found = []
    for frame in range(frames):
        lead, number = struct.unpack_from("<bi", data, 7 + 5 * frame)
        if lead != 4:
            raise ValueError("no alignment")
        found.append([_pair(number, 1.0)])
    if data[7 + 5 * frames : 8 + 5 * frames] == b"\4":
        raise ValueError("a posterior")
    return found


def _pair(number: int, weight: float) -> tuple[int, str]:
    with np.errstate(over="ignore"):
        return number, plain(np.array([weight]).astype(np.float32))[0]


def _judge_posterior(data: bytes, frames: int) -> Frames:
    found, at = [], 7
    for _ in range(frames):
        lead, count = struct.unpack_from("<bi", data, at)
        at += 5
        if lead != 4 or count < 0:
            raise ValueError("no posterior")
        pairs = []
        for _ in range(count):
            one, number, two, weight = struct.unpack_from("<bibf", data, at)
            if one != 4 or two != 4:
                raise ValueError("no posterior")
            at += 10
            pairs.append(_pair(number, weight))
        found.append(pairs)
    return found


def _judge_text_classes(line: str) -> Frames:
    if "[" not in line:
        words = [word for word in re.split(r"[ \t\r\x0b\x0c]+", line) if word]
        if not all(re.fullmatch("[0-9]{1,9}", word) for word in words):
            raise ValueError("class")
        return [[_pair(int(word), 1.0)] for word in words]
    if not re.fullmatch(r"[ \t\r\x0b\x0c]*(\[[^\[\]]*\][ \t\r\x0b\x0c]*)+", line):
        raise ValueError("brackets")
    found: Frames = []
    for group in re.findall(r"\[([^\[\]]*)\]", line):
        words = [word for word in re.split(r"[ \t\r\x0b\x0c]+", group) if word]
        pairs = list(zip(words[::2], words[1::2], strict=True))
        if not all(re.fullmatch("[0-9]{1,9}", one) and _NUMBER.fullmatch(two) for one, two in pairs):
            raise ValueError("pair")
        found.append([_pair(int(one), float(two)) for one, two in pairs])
    return found


# -- lists ------------------------------------------------------------------------------------------------


def _list(pick: random.Random) -> bytes:
    lines = []
    for _ in range(pick.choice((1, 2, 4))):
        key, path = (
            pick.choice(("a", "b", "u-1", "é")),
            pick.choice(("x.ark", "d/y.ark:17", "z:0", "x.ark:9[0:3]", "x[2:1]", "x[:,0:2]", "x:7[1:4,2:2]")),
        )
        lines.append(f"{key} {path}" + pick.choice(("", "", "", " |", "[1:2]", "]")))
    return "\n".join(lines).encode()


Entry = tuple[str, str, int, int, int | None, tuple[int, int] | None]
Entries = list[Entry]


def _read_list(data: bytes) -> tuple[Entries, int]:
    path = write("l.scp", data)
    table = read_table(f"scp:{path}", Location("r"), ArchiveFiles(), lambda file, at: at)
    entries = [(one.key, one.path, one.offset, one.first, one.last, one.columns) for one in table.entries]
    return entries, len(table.errors)


def _judge_list(data: bytes) -> tuple[Entries, int]:
    entries: Entries = []
    errors = 0
    for raw in data.split(b"\n"):
        line = raw.decode()
        if "\0" in line:
            raise ValueError("zero")
        words = line.split(None, 1)
        if not words:
            continue
        entry = _judge_entry(words) if len(words) == 2 else None
        if entry is None or entry[0] in {known[0] for known in entries}:
            errors += 1
        else:
            entries.append(entry)
    return entries, errors


def _judge_entry(words: list[str]) -> Entry | None:
    key, path = words[0], words[1].strip()
    if path.startswith("|") or path.endswith("|") or path == "-":
        return None
    ranges: list[tuple[int, int] | None] = [None, None]
    if path.endswith("]"):
        path, bracket, inside = path[:-1].rpartition("[")
        parts = inside.split(",")
        if not bracket or "]" in inside or len(parts) > 2:
            return None
        for number, part in enumerate(parts):
            ends = re.fullmatch(r"\s*([0-9]{1,9})\s*:\s*([0-9]{1,9})\s*", part)
            if part.strip() != ":" and (not ends or int(ends[1]) > int(ends[2])):
                return None
            ranges[number] = (int(ends[1]), int(ends[2])) if ends else None
        path = path.strip()
    first, last = ranges[0] or (0, None)
    head, colon, digits = path.rpartition(":")
    if colon and head and re.fullmatch("[0-9]{1,18}", digits):
        return key, head, int(digits), first, last, ranges[1]
    return key, path, 0, first, last, ranges[1]
