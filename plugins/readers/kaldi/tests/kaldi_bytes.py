"""A small corpus, and Kaldi's objects, put together byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np


def matrix(frames: np.ndarray, token: bytes = b"FM ") -> bytes:
    """Return a matrix in binary form."""
    values = frames.astype("<f4" if token[:1] == b"F" else "<f8").tobytes()
    rows, columns = frames.shape
    return b"\0B" + token + struct.pack("<bibi", 4, rows, 4, columns) + values


def vector(values: np.ndarray, token: bytes = b"FV ") -> bytes:
    """Return a vector in binary form."""
    return b"\0B" + token + struct.pack("<bi", 4, len(values)) + values.astype("<f4").tobytes()


def compressed(codes: np.ndarray, least: float, extent: float, token: bytes, heads: np.ndarray | None = None) -> bytes:
    """Return a compressed matrix; ``codes`` are ``(rows, columns)``, ``heads`` ``(columns, 4)`` for ``CM``."""
    head = b"\0B" + token + (b"" if token == b"CM " else b" ") + struct.pack("<ffii", least, extent, *codes.shape)
    if heads is not None:
        return head + heads.astype("<u2").tobytes() + codes.T.astype("u1").tobytes()
    return head + codes.astype("<u2" if token == b"CM2" else "u1").tobytes()


def text_matrix(frames: np.ndarray) -> bytes:
    """Return a matrix in text form."""
    return b" [\n" + b"\n".join(b"  " + b" ".join(f"{x}".encode() for x in row) for row in frames.tolist()) + b" ]\n"


def alignment(classes: list[int]) -> bytes:
    """Return an alignment in binary form."""
    return b"\0B" + b"".join(struct.pack("<bi", 4, number) for number in (len(classes), *classes))


def posterior(frames: list[list[tuple[int, float]]]) -> bytes:
    """Return a posterior in binary form."""
    data = b"\0B" + struct.pack("<bi", 4, len(frames))
    for pairs in frames:
        data += struct.pack("<bi", 4, len(pairs))
        data += b"".join(struct.pack("<bibf", 4, number, 4, weight) for number, weight in pairs)
    return data


def archive(objects: Mapping[str, bytes]) -> tuple[bytes, dict[str, int]]:
    """Return an archive, and where each object begins."""
    data, offsets = b"", {}
    for key, value in objects.items():
        data += key.encode() + b" "
        offsets[key] = len(data)
        data += value
    return data, offsets


LENGTHS = {"utt-a": 7, "utt-b": 4, "utt-c": 9, "utt-d": 1, "utt-e": 6}


def frames_of(name: str, dim: int = 2) -> np.ndarray:
    """Frames whose values tell the utterance and the time."""
    number, length = list(LENGTHS).index(name), LENGTHS[name]
    return np.array([[100 * number + t + i / 4 for i in range(dim)] for t in range(length)], dtype=np.float32)


def classes_of(name: str) -> list[int]:
    return [(t + list(LENGTHS).index(name)) // 2 % 3 for t in range(LENGTHS[name])]


F = "features=[ dim=2 ; scpFile=feats.scp ]\n"
L = 'labels=[ labelDim=3 ; mlfFile="ark:ali.ark" ]\n'
