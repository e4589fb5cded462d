"""Corrupt text files as a user sees them: one message with the row and column, and what to do."""

from __future__ import annotations

import pytest
from cntk_reader_cntk_text import StreamOptions

from cntk_core.api import CntkError, EpochSpec

A = StreamOptions(name="a", dim=2, format="dense")
S = StreamOptions(name="s", dim=3, format="sparse")

ROWS = {
    "letters": ("7 |a 1 x |s 0:1", "3:8: stream 'a': 'x' is no number"),
    "comma": ("7 |a 1,5 2 |s 0:1", "3:6: stream 'a': '1,5' is no number (the decimal point is '.')"),
    "missing value": ("7 |a nan 2 |s 0:1", "3:6: stream 'a': 'nan' is no number "
                      "(the format has no infinite or missing values)"),
    "too large": ("7 |a 1 1e400 |s 0:1", "3:8: stream 'a': '1e400' is too large"),
    "too many": ("7 |a 1 2 3 |s 0:1", "3:10: stream 'a' has more than 2 values"),
    "pairs": ("7 |a 0:1 |s 0:1", "3:6: stream 'a': '0:1' is no number (index:value is for streams with format=sparse)"),
    "index": ("7 |a 1 2 |s 3:1", "3:13: stream 's': index 3 is not below dim=3 (the first is 0)"),
    "negative index": ("7 |a 1 2 |s -1:1", "3:13: stream 's': '-1:1' is no pair index:value"),
    "no pair": ("7 |a 1 2 |s 1", "3:13: stream 's': '1' is no pair index:value"),
    "no value": ("7 |a 1 2 |s 1:", "3:15: stream 's': '' is no number"),
    "empty": ("", "3:1: the row is empty"),
    "only an id": ("7", "3:1: the row has no samples"),
    "only others": ("7 |b 1 |c 2", "3:1: the row has no samples"),
    "no name": ("7 | 1 2 |s 0:1", "3:3: '|' is not followed by the name of a stream"),
    "no bar": ("7 a 1 2 |s 0:1", "3:3: 'a' stands where '|' and the name of a stream should be"),
    "two ids": ("7 8 |a 1 2 |s 0:1", "3:3: '8' stands where '|' and the name of a stream should be"),
    "zero bytes": ("7 |a 1 \0\0 2 |s 0:1", "3:11: '2' stands where '|' and the name of a stream should be"),
    "cut off": ("7 |a 1 2 |s 0:1 |", "3:17: '|' is not followed by the name of a stream"),
    "no label": ("7 |a 1 2", "3: sequence 7 has no sample of stream 's'"),
    "two samples in a row": ("7 |a 1 2 |a 3 4 |s 0:1", "3: sequence 7 has 2 samples of stream 'a' in 1 row"),
    "rows without a sample": ("7 |a 1 2\n7 |s 0:1", "3: sequence 7 has 2 rows, but no stream has more than 1 samples"),
}  # fmt: skip

GOOD = "5 |a 1 2 |s 0:1\n6 |a 3 4 |s 1:1\n"


@pytest.mark.parametrize("case", ROWS)
def test_malformed_rows(make, case: str) -> None:
    row, message = ROWS[case]
    text = f"{GOOD}{row}\n8 |a 5 6 |s 2:1\n"
    with pytest.raises(CntkError) as caught:
        list(make(text, (A, S)).minibatches(EpochSpec(minibatch_size=1)))
    assert str(caught.value) == (
        "t.ctf: CNTKTextFormatReader: at least 1 malformed row, maxErrors=0\n"
        f"    t.ctf:{message}\n"
        "    `cntk check-data` lists them all; maxErrors=n leaves out up to n rows."
    )


@pytest.mark.parametrize("case", ROWS)
def test_a_malformed_row_counts_once(make, case: str) -> None:
    """With maxErrors=1 it is left out and said, and nothing else is; check-data lists the same."""
    row, message = ROWS[case]
    reader = make(f"{GOOD}{row}\n8 |a 5 6 |s 2:1\n", (A, S), max_errors=1)
    keys = [mb.streams["a"].layout.keys for mb in reader.minibatches(EpochSpec(minibatch_size=1))]
    kept = [key for group in keys for key in group] or [5, 6, 8]
    assert [key for key in kept if key != 7] == [5, 6, 8]
    assert reader.told == [f"WARNING: left out: t.ctf:{message}"]
    assert [str(error) for error in reader.check()] == [f"t.ctf:{message}"]


@pytest.mark.parametrize(("allowed", "fails"), [(6, True), (7, False), (100, False)])
def test_max_errors_counts_exactly(make, allowed: int, fails: bool) -> None:
    """Seven bad rows and sequences over several chunks and blocks of rows."""
    bad = ["7 |a x |s 0:1", "8 |a 1 2", "", "10 |a 1 2 3 |s 0:1", "11 |s 5:1 |a 1 2", "12", "13 |a 1 2 |a 1 2 |s 0:1"]
    text = "".join(f"{GOOD.replace('5 ', f'{20 + 2 * i} ').replace('6 ', f'{21 + 2 * i} ')}{row}\n"
                   for i, row in enumerate(bad))  # fmt: skip
    options = {"max_errors": allowed, "chunk_size_in_bytes": 60}
    if not fails:
        reader = make(text, (A, S), **options)
        assert sum(mb.samples for mb in reader.minibatches(EpochSpec(minibatch_size=3))) == 14
        assert len(list(reader.check())) == 7
        return
    with pytest.raises(CntkError) as caught:
        list(make(text, (A, S), **options).minibatches(EpochSpec()))
    assert str(caught.value).startswith("t.ctf: CNTKTextFormatReader: 7 malformed rows, maxErrors=6\n    t.ctf:3:6: ")
