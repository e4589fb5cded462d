"""Damaged and hostile files: each one message, with the byte where it is wrong, and little memory."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from sparse_bytes import batch, corpus_file, dssm_file, libsvm_file

from cntk_core.api import CntkError, EpochSpec

Q, D = [{1: 2.0}, {0: 1.0, 2: -3.0}], [{0: 5.0}, {1: 6.0}]
QUERY = dssm_file(3, Q)  # offsets at 20, rows at 36 (12 bytes) and 48 (20)
DSSM = "q=[ file=q.bin; dim=3 ]\nd=[ file=d.bin; dim=2 ]\nl=[ labelDim=2 ]\n"
ROWS = corpus_file([((q, d), 1.5) for q, d in zip(Q, D, strict=True)], check=7)  # rows at 0 (12 + 12 + 4 + 4) and 32
CORPUS = "file=c.bin\nq=[ dim=3 ]\nd=[ dim=2 ]\nl=[ labelDim=1 ]\nverificationCode=7\n"
BATCHES = libsvm_file([("q", 3)], [("l", 1)], [batch([Q], [[[1], [2]]]), batch([D], [[[3], [4]]])])
# names at 24 and 33, offsets at 42 and 50, batches at 58 (4 + 4 + 12 + 12 + 12 + 8) and 110
PRECISION = (
    "\n    The file is damaged, or its values have another precision: precision=float or precision=double in the "
    "reader's block says which."
)
CUT = "\n    The file is damaged, or was not written to its end."
OTHER = "\n    Is it a file for LibSVMBinaryReader?"
Change = Callable[[bytes], bytes]


def put(offset: int, form: str, *values: float) -> Change:
    """Return a function that writes numbers over a place of a file."""

    def change(data: bytes) -> bytes:
        new = struct.pack("<" + form, *values)
        return data[:offset] + new + data[offset + len(new) :]

    return change


def cut(size: int) -> Change:
    return lambda data: data[:size]


DSSM_CASES: dict[str, tuple[Change, str]] = {
    "empty": (cut(0), "byte 0: the file ends before its header" + CUT),
    "half a header": (cut(19), "byte 19: the file ends before its header" + CUT),
    "many rows": (
        put(0, "q", 2**60),
        f"byte 0: the header promises {2**60} rows, and the file has no room for them\n"
        "    Is it a file for DSSMReader?",
    ),
    "less than no rows": (
        put(0, "q", -1),
        "byte 0: the header promises -1 rows, and the file has no room for them\n    Is it a file for DSSMReader?",
    ),
    "row before the file": (put(28, "q", -1), "byte 28: row 1 cannot begin at byte 35" + CUT),
    "row after the file": (put(28, "q", 2**62), f"byte 28: row 1 cannot begin at byte {2**62 + 36}" + CUT),
    "cut off": (cut(50), "byte 48: the file ends before a row of stream 'q'" + CUT),
    "cut inside of a row": (
        cut(60),
        "byte 48: a row of stream 'q' has 2 values, more than the file has room for" + PRECISION,
    ),
    "many values": (put(48, "i", 4), "byte 48: a row of stream 'q' (dim=3) cannot have 4 values" + PRECISION),
    "less than no values": (put(36, "i", -1), "byte 36: a row of stream 'q' (dim=3) cannot have -1 values" + PRECISION),
    "index": (put(64, "i", 3), "byte 64: index 3 of stream 'q' is not below its dimension 3" + PRECISION),
    "negative index": (put(60, "i", -1), "byte 60: index -1 of stream 'q' is not below its dimension 3" + PRECISION),
}
CORPUS_CASES: dict[str, tuple[Change, str]] = {
    "empty": (cut(0), "c.bin has no samples"),
    "code": (put(28, "i", 8), "byte 28: the row should end with verificationCode=7, not 8" + PRECISION),
    "cut before the code": (cut(28), "byte 24: the file ends before the label of a row" + PRECISION),
    "cut in a row": (cut(40), "byte 32: a row of stream 'q' has 2 values, more than the file has room for" + PRECISION),
    "cut between streams": (cut(52), "byte 52: the file ends before a row of stream 'd'" + CUT),
    "values": (put(0, "i", 4), "byte 0: a row of stream 'q' (dim=3) cannot have 4 values" + PRECISION),
    "index": (put(20, "i", 2), "byte 20: index 2 of stream 'd' is not below its dimension 2" + PRECISION),
}
LIBSVM_CASES: dict[str, tuple[Change, str]] = {
    "empty": (cut(0), "byte 0: the file ends before its header" + CUT),
    "no streams": (
        put(16, "ii", 0, 0),
        "byte 8: the header promises 2 batches of 0 streams of features and 0 of labels" + OTHER,
    ),
    "negative": (
        put(16, "i", -1),
        "byte 8: the header promises 2 batches of -1 streams of features and 1 of labels" + OTHER,
    ),
    "many streams": (put(16, "i", 2**31 - 1), "byte 42: the name of a stream cannot have 0 bytes" + OTHER),
    "many batches": (
        put(8, "q", 2**60),
        f"byte 8: the header promises {2**60} batches, and the file has no room for them" + CUT,
    ),
    "cut in the names": (cut(26), "byte 24: the file ends inside the description of a stream" + OTHER),
    "long name": (put(24, "i", 2**31 - 1), f"byte 24: the name of a stream cannot have {2**31 - 1} bytes" + OTHER),
    "no text": (put(28, "B", 255), "byte 28: the name of a stream is not UTF-8" + OTHER),
    "same name": (put(37, "B", ord("Q")), "byte 33: two streams of the file have the name 'Q'" + CUT),
    "no dimension": (put(29, "i", 0), "byte 29: stream 'q' cannot have 0 values in a sample" + CUT),
    "batch before the file": (put(42, "q", -1), "byte 42: batch 0 cannot lie at the bytes 57 to 110" + CUT),
    "batch after the file": (put(50, "q", 2**62), f"byte 42: batch 0 cannot lie at the bytes 58 to {2**62 + 58}" + CUT),
    "many rows": (put(58, "i", 99), "byte 58: batch 0 cannot have 99 rows in 52 bytes" + PRECISION),
    "another number of rows": (
        put(58, "i", 3),
        "byte 90: batch 0: the rows of stream 'q' do not have 3 values together" + PRECISION,
    ),
    "many values": (put(62, "i", 2**30), "byte 66: batch 0: there is no room for the values of stream 'q'" + PRECISION),
    "less than no values": (
        put(62, "i", -1),
        "byte 66: batch 0: there is no room for the values of stream 'q'" + PRECISION,
    ),
    "index": (put(82, "i", 3), "byte 82: batch 0: index 3 of stream 'q' is not below its dimension 3" + PRECISION),
    "rows that go back": (
        put(94, "i", 9),
        "byte 90: batch 0: the rows of stream 'q' do not have 3 values together" + PRECISION,
    ),
    "rows that begin late": (
        put(90, "i", 1),
        "byte 90: batch 0: the rows of stream 'q' do not have 3 values together" + PRECISION,
    ),
    "too long": (lambda data: data + b"\0", "byte 154: batch 1: 1 bytes belong to no stream" + PRECISION),
}
CASES = [
    *(("DSSMReader", "q.bin", change, message) for change, message in DSSM_CASES.values()),
    *(("SparsePCReader", "c.bin", change, message) for change, message in CORPUS_CASES.values()),
    *(("LibSVMBinaryReader", "b.bin", change, message) for change, message in LIBSVM_CASES.values()),
]
FILES = {"q.bin": QUERY, "d.bin": dssm_file(2, D), "c.bin": ROWS, "b.bin": BATCHES}
TEXTS = {"DSSMReader": DSSM, "SparsePCReader": CORPUS, "LibSVMBinaryReader": "file=b.bin"}
NAMES = [
    f"{kind} {name}" for kind, of in zip(TEXTS, (DSSM_CASES, CORPUS_CASES, LIBSVM_CASES), strict=True) for name in of
]


def read_all(make, name: str, files: dict[str, bytes], dtype: str = "float32") -> None:
    reader = make(name, TEXTS[name] + "\nprefetch=false", files, dtype=dtype)
    for _ in reader.minibatches(EpochSpec(minibatch_size=8)):
        pass


@pytest.mark.parametrize(("name", "file", "change", "message"), CASES, ids=NAMES)
def test_damaged_files(make, name: str, file: str, change: Change, message: str) -> None:
    """One message; ``cntk check-data`` has the same."""
    files = {**FILES, file: change(FILES[file])}
    with pytest.raises(CntkError) as caught:
        read_all(make, name, files)
    assert str(caught.value) == (message if message.startswith(file) else f"{file}: {message}")
    if "has no samples" in message:
        return
    with pytest.raises(CntkError) as again:
        raise next(iter(make(name, TEXTS[name], files, dtype="float32").check()))
    assert str(again.value) == str(caught.value)


@pytest.mark.parametrize("name", TEXTS)
def test_another_precision_is_found(make, name: str) -> None:
    """Values of 4 bytes are no values of 8 bytes; the message says what to write."""
    with pytest.raises(CntkError, match="precision=float or precision=double"):
        read_all(make, name, FILES, dtype="float64")


def test_values_that_are_too_large(make) -> None:
    files = {**FILES, "q.bin": dssm_file(3, [{1: 1e300}, {}], "d"), "d.bin": dssm_file(2, D, "d")}
    reader = make("DSSMReader", DSSM + "precision=double", files, dtype="float32")
    with pytest.raises(CntkError) as caught:
        list(reader.minibatches(EpochSpec(minibatch_size=8)))
    assert str(caught.value) == f"q.bin: byte 36: stream 'q': 1e+300 is too large for float32{PRECISION}"


@pytest.mark.parametrize("name", TEXTS)
def test_changed_bytes_never_crash(make, name: str, thorough: bool) -> None:
    """Whatever stands in a file: its values, or one error; and never more memory than a few times its size."""
    pick = random.Random(5)
    names = {"DSSMReader": "q.bin", "SparsePCReader": "c.bin", "LibSVMBinaryReader": "b.bin"}
    file = names[name]
    read_all(make, name, FILES)
    tracemalloc.start()
    try:
        for _ in range(250 if thorough else 10):
            data = bytearray(FILES[file])
            for _ in range(pick.choice((1, 1, 2, 4))):
                data[pick.randrange(len(data))] = pick.choice((0, 1, 127, 128, 255, pick.randrange(256)))
            try:
                read_all(
                    make, name, {**FILES, file: bytes(data[: pick.choice((len(data), pick.randrange(len(data))))])}
                )
            except CntkError:
                continue
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


def test_a_small_file_cannot_ask_for_any_memory(make) -> None:
    """Many rows that all are the same one are refused before they are collected."""
    rows = 20000
    row = struct.pack("<i1000f1000i", 1000, *range(1000), *range(1000))
    head = struct.pack("<qiq", rows, 1000, 0) + np.zeros(rows, "<i8").tobytes()
    files = {"q.bin": head + row, "d.bin": head + row}
    reader = make("DSSMReader", DSSM.replace("dim=3", "dim=1000").replace("dim=2", "dim=1000"), files, dtype="float32")
    tracemalloc.start()
    with pytest.raises(CntkError, match="rows of the file overlap"):
        list(reader.minibatches(EpochSpec(minibatch_size=8)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000
