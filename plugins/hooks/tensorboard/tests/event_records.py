"""An independent reader of event files, written from the documented formats: records with CRC-32C, protocol buffers.

A record is its length (8 bytes), a masked CRC of that, the data, a masked CRC of the data; all little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

POLYNOMIAL = 0x82F63B78  # CRC-32C (Castagnoli), reflected
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path: Path) -> Iterator[bytes]:
    content = path.read_bytes()
    place = 0
    while place < len(content):
        head = content[place : place + 8]
        (length,) = struct.unpack("<Q", head)
        data = content[place + 12 : place + 12 + length]
        assert len(data) == length
        assert content[place + 8 : place + 12] == struct.pack("<I", masked(head))
        assert content[place + 12 + length : place + 16 + length] == struct.pack("<I", masked(data))
        yield data
        place += 16 + length


def varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def fields(data: bytes) -> Iterator[tuple[int, object]]:
    """Number and value of each field of a message."""
    place = 0
    while place < len(data):
        key, place = varint(data, place)
        kind = key & 7
        value: object
        if kind == VARINT:
            value, place = varint(data, place)
        elif kind == BYTES:
            length, place = varint(data, place)
            value, place = data[place : place + length], place + length
        else:
            form, size = ("<d", 8) if kind == FIXED64 else ("<f", 4)
            assert kind in (FIXED64, FIXED32)
            (value,), place = struct.unpack(form, data[place : place + size]), place + size
        yield key >> 3, value


def only(data: bytes, number: int, default=None):
    return next((value for found, value in fields(data) if found == number), default)


def doubles(data: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(data) // 8}d", data))


class Events:
    """What the event files of a folder hold, in the order in which they were written."""

    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.glob("events.out.tfevents.*"))
        self.scalars: dict[str, list[tuple[int, float]]] = {}
        self.histograms: dict[str, list[tuple[int, dict]]] = {}
        self.graphs: list[dict[str, tuple[str, list[str], list[int]]]] = []
        self.restarts: list[int] = []
        for path in self.files:
            events = list(records(path))
            assert only(events[0], 3) == b"brain.Event:2"
            assert all(only(event, 1) > 1e9 for event in events)
            for event in events[1:]:
                self._take(event)

    def _take(self, event: bytes) -> None:
        step = only(event, 2, 0)
        for number, value in fields(event):
            if number == 4:
                self.graphs.append(dict(map(node, (part for key, part in fields(value) if key == 1))))
            elif number == 5:
                for _, told in fields(value):
                    self._take_value(told, step)
            elif number == 7:
                assert only(value, 1) == 1  # START
                self.restarts.append(step)

    def _take_value(self, told: bytes, step: int) -> None:
        tag = only(told, 1).decode()
        histogram = only(told, 5)
        if histogram is None:
            self.scalars.setdefault(tag, []).append((step, only(told, 2, 0.0)))
            return
        names = {1: "min", 2: "max", 3: "num", 4: "sum", 5: "sum_squares"}
        found: dict = dict.fromkeys(names.values(), 0.0)  # zeros are left out of messages
        found |= {names[key]: value for key, value in fields(histogram) if key in names}
        found |= {"limits": doubles(only(histogram, 6)), "counts": doubles(only(histogram, 7))}
        self.histograms.setdefault(tag, []).append((step, found))


def node(data: bytes) -> tuple[str, tuple[str, list[str], list[int]]]:
    inputs = [value.decode() for key, value in fields(data) if key == 3]
    attribute = only(data, 5)
    assert only(attribute, 1) == b"_output_shapes"
    shape = only(only(only(attribute, 2), 1), 7)
    return only(data, 1).decode(), (only(data, 2).decode(), inputs, [only(part, 1, 0) for _, part in fields(shape)])
