"""Damaged and hostile files: each one message, with the byte where it is wrong."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from cbf_bytes import MAGIC, Stream, binary_file

from cntk_core.api import CntkError, EpochSpec

A, B = Stream(b"a", 2), Stream(b"b", 3, sparse=True)
ONE = {b"a": np.array([[1.0, 2], [3, 4]]), b"b": np.array([[0.0, 5, 0], [6, 0, 7]])}
TWO = {b"a": np.array([[8.0, 9]]), b"b": np.array([[0.0, 0, 1]])}
FILE = binary_file([A, B], [[ONE, TWO], [TWO]])
# The first chunk begins at 12 with two lengths; stream a is at 20 (20 bytes, then 12), stream b at 52 (40, then 20).
CHUNK, STREAM_A, STREAM_B = 12, 20, 52
HEADER = struct.unpack("<q", FILE[-8:])[0]
TABLE = HEADER + 16 + 11 + 11

CUT = "\n    The file is damaged, or was not written to its end."
AGAIN = "\n    The file is damaged; write it again."
CONVERT = "\n    `cntk convert-data` writes one, from text or from anything else that can be read."


def put(offset: int, form: str, *values: int) -> Callable[[bytes], bytes]:
    """Return a function that writes numbers over a place of the file."""

    def change(data: bytes) -> bytes:
        new = struct.pack("<" + form, *values)
        return data[:offset] + new + data[offset + len(new) :]

    return change


CASES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "byte 0: the file ends before its header" + CUT),
    "only the magic number": (lambda data: data[:8], "byte 8: the file ends before its header" + CUT),
    "text": (
        lambda data: b"|features 1 2\n" * 10,
        "byte 0: this is no file in CNTK's binary format\n"
        "    If it is a text file, it has readerType=CNTKTextFormatReader." + CONVERT,
    ),
    "something else": (lambda data: b"PK" + data, "byte 0: this is no file in CNTK's binary format" + CONVERT),
    "version": (put(8, "I", 2), "byte 8: the file has version 2 of the binary format, not 1"),
    "cut off": (
        lambda data: data[:HEADER],
        f"byte {HEADER - 8}: the header should be at byte 4294967298, and the file has no room for one there" + CUT,
    ),
    "offset of the header": (
        put(len(FILE) - 8, "q", -1),
        f"byte {len(FILE) - 8}: the header should be at byte -1, and the file has no room for one there" + CUT,
    ),
    "no header there": (
        put(len(FILE) - 8, "q", HEADER - 1),
        f"byte {HEADER - 1}: there is no header, although the end of the file says so" + CUT,
    ),
    "no streams": (put(HEADER + 12, "I", 0), f"byte {HEADER + 12}: the header says that the file has no streams"),
    "many streams": (
        put(HEADER + 12, "I", 2**32 - 1),
        f"byte {HEADER + 8}: the header promises 4294967295 streams and 2 chunks, more than there is room for" + CUT,
    ),
    "many chunks": (
        put(HEADER + 8, "I", 2**32 - 1),
        f"byte {HEADER + 8}: the header promises 2 streams and 4294967295 chunks, more than there is room for" + CUT,
    ),
    "few chunks": (
        put(HEADER + 8, "I", 1),
        f"byte {TABLE}: the table of 1 chunks should end at byte {TABLE + 16}, not {TABLE + 32}" + CUT,
    ),
    "encoding": (
        put(HEADER + 16, "B", 7),
        f"byte {HEADER + 16}: encoding 7 of a stream is neither dense (0) nor sparse (1)",
    ),
    "long name": (
        put(HEADER + 17, "I", 2**31),
        f"byte {HEADER + 17}: the name of a stream cannot have 2147483648 bytes" + CUT,
    ),
    "no name": (put(HEADER + 17, "I", 0), f"byte {HEADER + 17}: the name of a stream cannot have 0 bytes" + CUT),
    "name is no text": (put(HEADER + 21, "B", 255), f"byte {HEADER + 21}: the name of a stream is not UTF-8" + CUT),
    "names": (put(HEADER + 32, "B", ord("A")), f"byte {HEADER + 27}: two streams of the file have the name 'A'"),
    "type of values": (
        put(HEADER + 22, "B", 2),
        f"byte {HEADER + 22}: type 2 of the values of stream 'a' is neither float (0) nor double (1)",
    ),
    "no values": (put(HEADER + 23, "I", 0), f"byte {HEADER + 23}: stream 'a' cannot have 0 values in a sample"),
    "large dimension": (
        put(HEADER + 34, "I", 2**31),
        f"byte {HEADER + 34}: stream 'b' cannot have 2147483648 values in a sample",
    ),
    "chunk before the file": (
        put(TABLE, "q", 4),
        f"byte {TABLE}: chunk 0 cannot lie at the bytes 4 to 112 with 2 sequences" + CUT,
    ),
    "chunk behind the file": (
        put(TABLE + 16, "q", 2**40),
        f"byte {TABLE}: chunk 0 cannot lie at the bytes 12 to 1099511627776 with 2 sequences" + CUT,
    ),
    "many sequences": (
        put(TABLE + 8, "I", 2**32 - 1),
        f"byte {TABLE}: chunk 0 cannot lie at the bytes 12 to 112 with 4294967295 sequences" + CUT,
    ),
    "samples of a chunk": (
        put(TABLE + 12, "I", 9),
        "byte 12: the sequences of chunk 0 have 3 samples, but the table of chunks says 9" + CUT,
    ),
    "length of a sequence": (
        lambda data: put(CHUNK, "II", 1, 2)(data),
        "byte 12: chunk 0: sequence 0 has 2 samples, and its chunk says 1" + AGAIN,
    ),
    "long dense sequence": (
        put(STREAM_A, "I", 2**32 - 1),
        "byte 20: chunk 0: sequence 0 of stream 'a' has 4294967295 samples, more than the chunk has room for" + AGAIN,
    ),
    "short dense sequence": (
        put(STREAM_A, "I", 0),
        "byte 24: chunk 0: sequence 1 of stream 'a' has 1065353216 samples, more than the chunk has room for" + AGAIN,
    ),
    "many sparse values": (
        put(STREAM_B + 4, "i", 1000),
        "byte 52: chunk 0: sequence 0 of stream 'b' has 2 samples with 1000 values, and the chunk has no room for that"
        + AGAIN,
    ),
    "negative sparse values": (
        put(STREAM_B + 4, "i", -1),
        "byte 52: chunk 0: sequence 0 of stream 'b' has 2 samples with -1 values, and the chunk has no room for that"
        + AGAIN,
    ),
    "index": (
        put(STREAM_B + 8 + 12 + 8, "i", 3),
        "byte 80: chunk 0: index 3 of stream 'b' is not below its dimension 3" + AGAIN,
    ),
    "negative index": (
        put(STREAM_B + 40 + 8 + 4, "i", -1),
        "byte 104: chunk 0: index -1 of stream 'b' is not below its dimension 3" + AGAIN,
    ),
    "values of the samples": (
        put(STREAM_B + 8 + 24, "i", 3),
        "byte 84: chunk 0: the samples of sequence 0 of stream 'b' do not have 3 values together" + AGAIN,
    ),
    "negative values of a sample": (
        put(STREAM_B + 8 + 24, "ii", -1, 4),
        "byte 84: chunk 0: the samples of sequence 0 of stream 'b' do not have 3 values together" + AGAIN,
    ),
    "bytes left over": (
        lambda data: data[:HEADER] + b"cntk" + data[HEADER:-8] + struct.pack("<q", HEADER + 4),
        f"byte {HEADER}: chunk 1: 4 bytes after the last sequence belong to no stream" + AGAIN,
    ),
    "chunk ends": (
        put(TABLE + 16, "qII", 92, 0, 0),
        "byte 92: chunk 0: the chunk ends before sequence 1 of 2 of stream 'b'" + AGAIN,
    ),
}  # fmt: skip


def read(make, data: bytes, **options: str) -> int:
    reader = make(data, **options)
    return sum(minibatch.samples for minibatch in reader.minibatches(EpochSpec(minibatch_size=100)))


def test_the_sound_file(make) -> None:
    assert read(make, FILE) == 4


@pytest.mark.parametrize("case", CASES)
def test_damaged_files(make, case: str) -> None:
    change, message = CASES[case]
    with pytest.raises(CntkError) as caught:
        read(make, change(FILE))
    assert str(caught.value) == f"x.cbf: {message}"


def test_missing_file(make) -> None:
    with pytest.raises(CntkError) as caught:
        make(None)
    assert str(caught.value) == (
        "r.cntk:1:1: CNTKBinaryReader: cannot open file 'x.cbf': no such file or directory\n"
        "    A relative name starts at the directory in which the command runs."
    )


def test_check_lists_one_error_for_each_chunk(make) -> None:
    data = put(STREAM_B + 4, "i", -1)(put(112 + 4 + 4 + 8 + 4, "i", -1)(FILE))
    assert [str(error).partition(":")[2].partition(": sequence")[0] for error in make(data).check()] == [
        " byte 52: chunk 0",
        " byte 128: chunk 1",
    ]


@pytest.mark.slow
def test_any_damage_is_an_error_of_ours_and_needs_little_memory(make) -> None:
    """Random bytes at random places: the file is read, or one of our errors says what is wrong with it."""
    rng = random.Random(7)
    errors = 0
    tracemalloc.start()
    for _ in range(150):
        data = bytearray(FILE)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        reader = None
        try:
            reader = make(bytes(data[: rng.randint(0, len(data))] if rng.random() < 0.2 else data))
            for number in range(len(reader.source.index())):
                reader.source.load(number)
        except CntkError:
            errors += 1
        finally:
            if reader is not None:
                reader.close()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert errors > 40
    assert peak < 32 * 1024 * 1024


def test_magic_number_is_the_original_one() -> None:
    assert struct.pack("<Q", MAGIC) == b"nib_ktnc"


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("uneven", [False, True])
def test_values_for_double_precision(make, sparse: bool, uneven: bool) -> None:
    large = {b"a": np.array([[1.0, 1e39]] * (2 if uneven else 1))}
    data = binary_file([Stream(b"a", 2, sparse=sparse, double=True)], [[large, {b"a": np.array([[3.0, 4]])}]])
    with pytest.raises(CntkError) as caught:
        read(make, data, dtype="float32")
    assert str(caught.value) == (
        "x.cbf: byte 20: chunk 0: stream 'a': 1e+39 is too large for float32\n    The file is damaged; write it again."
    )
    read(make, data, dtype="float64")
