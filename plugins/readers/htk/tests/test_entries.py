"""Label files are read by a compiled loop where they are usual, and line by line: both give the same."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from cntk_reader_htk import mlf
from cntk_reader_htk.mlf import MOST_FRAMES, LabelParser
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.api import DataError
from cntk_testing.examples import examples

STATES = {"a": 0, "sil_s2": 1, "\u00e9": 2}
RANGE = st.tuples(st.integers(0, 9), st.sampled_from(["a", "sil_s2", "a -12.5 word"]))
ENTRY = st.lists(RANGE, min_size=1, max_size=4)


def written(entries: list[list[tuple[int, str]]], unit: int) -> str:
    text = "#!MLF!#\n"
    for number, ranges in enumerate(entries):
        text += f'"*/u{number}.lab"\n'
        frame = 0
        for count, state in ranges:
            text += f"{frame * unit} {(frame + count) * unit} {state}\n"
            frame += count
        text += ".\n"
    return text


def read(path: Path, monkeypatch: pytest.MonkeyPatch, *, usual: bool, limit: int = 3, longest: int = 100) -> tuple:
    parser = LabelParser(STATES, limit, longest)
    with monkeypatch.context() as patch:
        if not usual:
            patch.setattr(mlf, "_loop", lambda: None)
        parser.read(path)
    labels = parser.labels()
    arrays = (labels.offsets, labels.classes, labels.counts)
    errors = [str(error) for error in labels.errors]
    return labels.keys, [each.tolist() for each in arrays], errors, parser._places


@examples(50)
@given(entries=st.lists(ENTRY, max_size=5), unit=st.sampled_from([1, 100_000]), piece=st.integers(1, 90))
def test_both_ways_read_the_same(
    entries: list, unit: int, piece: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "labels.mlf"
    path.write_text(written(entries, unit))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mlf, "_PIECE", piece)
        assert read(path, patch, usual=True) == read(path, patch, usual=False)


def test_the_first_wrong_states_are_compared_with_those_there_are(tmp_path: Path) -> None:
    path = tmp_path / "labels.mlf"
    path.write_text("#!MLF!#\n" + "".join(f'"u{n}.lab"\n0 3 sill_s2\n.\n' for n in range(12)))
    parser = LabelParser(STATES, 3)
    parser.read(path)
    errors = [error.message for error in parser.labels().errors]
    wrong = "state 'sill_s2' is not in the state list"
    assert errors == [f"{wrong}; did you mean 'sil_s2'?"] * 10 + [wrong] * 2


SOUND = '"u.lab"\n0 3 a\n3 5 sil_s2 2.5\n.\n'


@pytest.mark.skipif(find_spec("llvmlite") is None, reason="needs llvmlite")
def test_usual_entries_need_no_other_way(tmp_path: Path) -> None:
    path = tmp_path / "labels.mlf"
    text = "#!MLF!#\n" + SOUND + SOUND.replace("u.", "v.")
    path.write_text(text)
    parser = LabelParser(STATES, 3)
    assert parser._read_usual(path) == (len(text), text.count("\n"))
    assert parser.labels().keys == ["u", "v"]


@pytest.mark.parametrize(
    "odd",
    [
        "0 3 a\n",
        '"w.lab"\n.\n',
        '"w.lab"\n0 3 a\n',
        '"w.lab"\n0 3 a\n.',
        '"w.lab"\n0  3\ta\n.\n',
        '"w.lab"\r\n0 3 a\r\n.\r\n',
        '"w.lab"\n\n0 3 a\n.\n',
        '"w.lab"\n0 3 \u00e9\n.\n',
        '"w.lab"\n 3 a\n.\n',
        '"w.lab"\n0:3 a\n.\n',
        '"w.lab"\n0 3.5 a\n.\n',
        '"w.lab"\n0 1e3 a\n.\n',
        '"w.lab"\n0 3\n.\n',
        '"w.lab"\n0 3 \n.\n',
        '"w.lab"\n0 3 b\n.\n',
        '"w.lab"\n1 3 a\n.\n',
        '"w.lab"\n0 3 a\n4 5 a\n.\n',
        '"w.lab"\n0 3 a\n3 2 a\n.\n',
        '"w.lab"\n0 0 a\n.\n',
        f'"w.lab"\n0 {MOST_FRAMES + 1} a\n.\n',
        f'"w.lab"\n0 {10**15} a\n.\n',
        SOUND,
        "#!MLF!#\n",
        "w.lab\n0 3 a\n.\n",
        '""\n0 3 a\n.\n',
        ".\n",
        "\n.\n.\n",
    ],
)
@pytest.mark.parametrize("piece", [1, 1 << 20])
def test_what_is_odd_is_told_of_as_before(
    odd: str, piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlf, "_PIECE", piece)
    path = tmp_path / "labels.mlf"
    path.write_bytes(f"#!MLF!#\n{SOUND}{odd}{SOUND.replace('u.', 'x.')}".encode())
    expected = read(path, monkeypatch, usual=False)
    assert read(path, monkeypatch, usual=True) == expected


def test_classes_beyond_the_dimension_and_long_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "labels.mlf"
    path.write_text("#!MLF!#\n" + SOUND)
    _, _, errors, _ = read(path, monkeypatch, usual=True, limit=1)
    assert errors == [
        f"{path}:4: 'sil_s2' is class 1, but labelDim=1\n"
        "    Classes are counted from 0; labelDim is how many there are."
    ]
    with pytest.raises(DataError, match="the line has more than 9 bytes, maxLineBytes=9"):
        read(path, monkeypatch, usual=True, longest=9)
