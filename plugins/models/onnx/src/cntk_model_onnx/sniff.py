"""Whether a file may be one of ONNX, from its first bytes."""

from __future__ import annotations

from pathlib import Path

_AFTER_VERSION = frozenset(b"\x12\x1a\x22\x28\x32\x3a\x42\x72\xa2")
"""First bytes of what may follow the version: producer and its version, domain, number, text, graph, operators."""

_VERSION, _PRODUCER, _MOST_VERSIONS = 0x08, 0x12, 64


def looks_like(begin: bytes, path: Path) -> bool:
    """Whether a file begins as writers of ONNX begin: with the version of the format, or their own name."""
    if len(begin) < 4:
        return False
    if begin[0] == _VERSION:
        return 1 <= begin[1] < _MOST_VERSIONS and begin[2] in _AFTER_VERSION
    if begin[0] != _PRODUCER or path.suffix.lower() != ".onnx":
        return False
    text = begin[2 : 2 + begin[1]]
    return text.isascii() and text.decode("ascii", "replace").isprintable()
