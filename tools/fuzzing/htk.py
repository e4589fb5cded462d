"""HTK's feature files, their lists, and label files, against parsers that read number by number.

The first byte of an input says which it is: features, a list of them, or labels with or without a list of states.
"""

from __future__ import annotations

import math
import random
import re
import struct
from pathlib import Path

import numpy as np
from cntk_reader_htk.htkfile import FeatureFile
from cntk_reader_htk.mlf import LabelParser
from cntk_reader_htk.scp import Script, read_script

from cntk_core.api import CntkError
from fuzzing.engine import Finding, mutated, same
from fuzzing.files import plain, write

_STATES = {"s1": 0, "s2": 1, "é": 2}
_CLASSES = 5


def make(pick: random.Random) -> bytes:
    kind = pick.randrange(4)
    data = (_features, _list, _labels, _labels)[kind](pick)
    return bytes([kind]) + (mutated(data, pick) if pick.random() < 0.6 else data)


def check(data: bytes) -> None:
    kind, rest = (data[0] if data else 0) % 4, data[1:]
    if kind == 0:
        _compare(rest, _read_features, _judge_features)
    elif kind == 1:
        _compare(rest, _read_list, _judge_list)
    else:
        _compare(rest, lambda text: _read_labels(text, kind), lambda text: _judge_labels(text, kind))


def _compare(data: bytes, read: object, judge: object) -> None:
    try:
        expected = judge(data)  # type: ignore[operator]
    except (ValueError, struct.error):
        expected = None
    try:
        found = read(data)  # type: ignore[operator]
    except CntkError as error:
        if expected is not None:
            raise Finding(f"refused what is right: {error}") from None
        raise
    if expected is None:
        raise Finding(f"accepted what is wrong: {found!r}")
    same("values", found, expected)


# -- features ---------------------------------------------------------------------------------------------


def _features(pick: random.Random) -> bytes:
    order, frames, dim = pick.choice("><"), pick.choice((1, 2, 5)), pick.choice((1, 2, 3))
    code = pick.choice((6, 7, 9, 11, 12)) | pick.choice((0, 0, 0o100, 0o400))
    values = [pick.choice((0.0, 1.5, -2.0, 1e38, math.inf, math.nan, 1e-40)) for _ in range(frames * dim)]
    period = pick.choice((100_000, 50_000, 1, 0x01010101))
    guid = bytes(16) if code & 0o77 == 12 else b""
    if pick.random() < 0.6:
        return (
            struct.pack(f"{order}iiHH", frames, period, 4 * dim, code)
            + guid
            + struct.pack(f"{order}{frames * dim}f", *values)
        )
    vectors = [pick.choice((1.0, 100.0, -3.0, 0.0, math.nan, 1e-40)) for _ in range(dim)]
    vectors += [pick.choice((0.0, 7.0, 1e38, math.inf)) for _ in range(dim)]
    head = struct.pack(f"{order}iiHH", frames + 4, period, 2 * dim, code | 0o2000) + guid
    stored = [pick.choice((0, 1, -1, 32767, -32768)) for _ in range(frames * dim)]
    return head + struct.pack(f"{order}{2 * dim}f", *vectors) + struct.pack(f"{order}{frames * dim}h", *stored)


def _read_features(data: bytes) -> tuple[int, int, str, list[str]]:
    file = FeatureFile(str(write("f.mfc", data)))
    try:
        header = file.header
        frames = np.empty((header.frames, header.dim), np.float32)
        file.read(0, header.frames - 1, frames)
        file.check_range(0, header.frames - 1)
    finally:
        file.close()
    return header.frames, header.dim, header.kind, plain(frames)


def _judge_features(data: bytes) -> tuple[int, int, str, list[str]]:
    order = ">"
    big, little = struct.unpack(">I", data[4:8])[0], struct.unpack("<I", data[4:8])[0]
    if little < big:
        order = "<"
    if big == little:
        for choice in "<>":
            frames, _, size, _ = struct.unpack(f"{choice}iiHH", data[:12])
            if frames > 0 and 0 <= len(data) - 12 - frames * size <= 8 * size + 2:
                order = choice
    frames, _, size, code = struct.unpack(f"{order}iiHH", data[:12])
    base = {6: "MFCC", 7: "FBANK", 9: "USER", 11: "PLP", 12: "USER"}.get(code & 0o77)
    if base is None or code & 0o40000:
        raise ValueError("kind")
    bits = ((0o100, "_E"), (0o400, "_D"), (0o200, "_N"), (0o1000, "_A"), (0o100000, "_T"), (0o4000, "_Z"))
    kind = base + "".join(name for bit, name in (*bits, (0o20000, "_0")) if code & bit)
    at = 12
    if code & 0o77 == 12:
        kind += ";guid=" + data[12:28].hex()
        at = 28
    width = 2 if code & 0o2000 else 4
    frames -= 4 if width == 2 else 0
    if size % width or size == 0 or frames <= 0:
        raise ValueError("sizes")
    dim = size // width
    return frames, dim, kind, _values(data, at, order, frames, dim, width)


def _values(data: bytes, at: int, order: str, frames: int, dim: int, width: int) -> list[str]:
    if len(data) < at + (8 * dim if width == 2 else 0) + frames * dim * width:
        raise ValueError("cut")
    found = []
    scale, shift = [1.0] * dim, [0.0] * dim
    if width == 2:
        scale = list(struct.unpack_from(f"{order}{dim}f", data, at))
        shift = list(struct.unpack_from(f"{order}{dim}f", data, at + 4 * dim))
        at += 8 * dim
        if 0.0 in scale:
            raise ValueError("scale")
    with np.errstate(all="ignore"):
        for place in range(frames * dim):
            (stored,) = struct.unpack_from(order + ("h" if width == 2 else "f"), data, at + place * width)
            value = np.float32(stored)
            if width == 2:
                value = (value + np.float32(shift[place % dim])) / np.float32(scale[place % dim])
            found.append(value)
    return plain(np.array(found, np.float32))


# -- lists ------------------------------------------------------------------------------------------------


def _list(pick: random.Random) -> bytes:
    lines = []
    for _ in range(pick.choice((1, 2, 4))):
        path = pick.choice(("a.mfc", "d/a.b.mfc", "d.x/c", "/abs/x.mfc", "é.mfc", "", ".../q.mfc"))
        extent = pick.choice(("[0,1]", "[ 3 , 9 ]", "[2,1]", "[0,2147483647]", "[0,2147483648]", "[a,b]", "["))
        form = pick.choice((path, f"n{pick.randrange(3)}.x={path}", f"k{pick.randrange(5)} = {path}{extent}", path))
        lines.append(form)
    return pick.choice(("\n", "\r\n", "\n\n")).join(lines).encode()


def _plain_script(script: Script) -> tuple[list[tuple[str, str, int, int | None]], int, set[str]]:
    entries = [(entry.key, entry.path, entry.first, entry.last) for entry in script.entries]
    return entries, len(script.errors), set(script.duplicates)


def _read_list(data: bytes) -> object:
    return _plain_script(read_script(write("l.scp", data)))


def _judge_list(data: bytes) -> object:
    entries: list[tuple[str, str, int, int | None]] = []
    errors = 0
    here = str(Path(write("l.scp", data)).parent)
    for raw in data.split(b"\n"):
        line = raw.decode().strip("\ufeff \t\r\n")
        if "\0" in line:
            raise ValueError("zero")
        if line:
            entry = _judge_entry(line, here)
            errors += entry is None
            entries += [entry] if entry is not None else []
    keys = [entry[0] for entry in entries]
    twice = {key for key in keys if keys.count(key) > 1}
    return [entry for entry in entries if entry[0] not in twice], errors, twice


def _judge_entry(line: str, here: str) -> tuple[str, str, int, int | None] | None:
    name, equals, path = line.partition("=")
    name, path = name.strip(), path.strip()
    extent: tuple[int, int | None] = 0, None
    if not equals:
        name = path = line
    brackets = path.count("[") + path.count("]")
    found = re.fullmatch(r"([^\]]*|.*)\[([^\[\]]*)\]", path)
    if found:
        numbers = re.fullmatch(r"\s*([0-9]{1,18})\s*,\s*([0-9]{1,18})\s*", found[2])
        if not equals or not numbers or not int(numbers[1]) <= int(numbers[2]) < 2**31:
            return None
        path, extent = found[1].strip(), (int(numbers[1]), int(numbers[2]))
    elif equals and brackets and ("[" in path or path.endswith("]")):
        return None
    if not name or not path:
        return None
    path = path.replace("...", here, 1)
    name = name if equals else name.replace("...", here, 1)
    folder, slash, file = name.rpartition("/")
    return folder + slash + (file[: file.rindex(".")] if "." in file else file), path, *extent


# -- labels -----------------------------------------------------------------------------------------------


def _labels(pick: random.Random) -> bytes:
    lines = ["#!MLF!#"]
    for number in range(pick.choice((1, 2, 3))):
        lines.append(pick.choice((f'"*/u{number}.lab"', f'"u{number}"', '"u0.x"', '"d/u.v.lab"')))
        at, step = 0, pick.choice((1, 3, 100_000, 1_000_000))
        for _ in range(pick.choice((1, 2, 4))):
            end = at + step * pick.randrange(4)
            shown = pick.choice((f"{at} {end}", f"{at}.0 {end}", f"{at} {end}e0"))
            lines.append(f"{shown} {pick.choice(('s1', 's2', 'é', 's1 2', 's2 4', 's2 5', 'x'))}")
            at = end
        lines.append(".")
    return "\n".join(lines).encode() + pick.choice((b"\n", b"", b"\r\n"))


def _read_labels(data: bytes, kind: int) -> object:
    parser = LabelParser(_STATES if kind == 2 else None, _CLASSES)
    parser.read(write("l.mlf", data))
    found = parser.labels()
    return (
        [
            (key, list(zip(found.classes[a:b].tolist(), found.counts[a:b].tolist(), strict=True)))
            for key, a, b in zip(found.keys, found.offsets[:-1].tolist(), found.offsets[1:].tolist(), strict=True)
        ],
        len(found.errors),
    )


def _judge_labels(data: bytes, kind: int) -> object:
    lines = [line.decode().strip("\ufeff \t\r\n") for line in data.split(b"\n")]
    lines = [line for line in lines if line]
    if not lines or lines[0] != "#!MLF!#" or any("\0" in line for line in lines):
        raise ValueError("header")
    entries: dict[str, list[tuple[int, int]]] = {}
    errors = 0
    rest = lines[1:]
    while rest:
        name = rest.pop(0)
        if name == "#!MLF!#":
            continue
        end = rest.index(".") if "." in rest else len(rest)
        own, cut, rest = rest[:end], end == len(rest), rest[end + 1 :]
        ranges = None if cut or not re.fullmatch(r'".+"', name) or not own else _ranges(own, kind)
        key = re.sub(r"\.[^./]*$", "", name[1:-1].removeprefix("*/"))
        if ranges is None or key in entries:
            errors += 1
        else:
            entries[key] = ranges
    return list(entries.items()), errors


def _ranges(lines: list[str], kind: int) -> list[tuple[int, int]] | None:
    found, at = [], 0
    for line in lines:
        words = line.split()
        if len(words) < 3 or (kind != 2 and len(words) != 4):
            return None
        number = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
        if not re.fullmatch(number, words[0]) or not re.fullmatch(number, words[1]):
            return None
        start, end = float(words[0]), float(words[1])
        if math.isinf(start) or math.isinf(end):
            return None
        if end - start >= 99_999:
            first, last = math.floor(start / 1e5 + 0.5), math.floor(end / 1e5 + 0.5)
        else:
            first, last = math.trunc(start), math.trunc(end)
        word = words[2] if kind == 2 else words[3]
        if kind == 2:
            state = _STATES.get(word, _CLASSES)
        else:
            state = int(word) if re.fullmatch("[0-9]{1,9}", word) else _CLASSES
        if first != at or last < first or last > 2**26 or state >= _CLASSES:
            return None
        found.append((state, last - first))
        at = last
    return found if at else None
