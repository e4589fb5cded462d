"""The files of writeWordAndClass, byte by byte."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from cntk_action_classic.word_class import count_words, make_vocabulary
from hypothesis import given
from hypothesis import strategies as st

from cntk_kit_recipes.cli import main

TEXT = "a a a a b b\n  a b c  \n\nc\ta  d\n"

SECTION = (
    "X = [ action = writeWordAndClass ; inputFile = t.txt ; outputVocabFile = run/v.txt ; outputWord2Cls = run/w.txt ; "
    "outputCls2Index = run/c.txt ; outputMappingFile = run/m.txt ; vocabSize = 4 ; nbrClass = 2 ; cutoff = 0 ; {} ]\n"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path


def run(keys: str = "x = 1", status: int = 0) -> None:
    Path("r.cntk").write_text("command = X\n" + SECTION.format(keys), encoding="utf-8")
    assert main(["configFile=r.cntk"]) == status


def text(name: str) -> str:
    return Path("run", name).read_bytes().decode()


def test_files_without_marks() -> None:
    run()
    # a 6, b 3, c 2 and the unknown word for d: masses sqrt(6), sqrt(3), sqrt(2), 1 of 6.6
    assert (
        text("v.txt") == "     0\t     6\ta\t0\n     1\t     3\tb\t1\n     2\t     2\tc\t1\n     3\t     1\t<unk>\t1\n"
    )
    assert text("w.txt") == "0\n1\n1\n1\n"
    assert text("c.txt") == "0\n1\n"
    assert text("m.txt") == "a\nb\nc\n<unk>\n"


@pytest.mark.parametrize("said", ["nbrClass = 0", ""])
def test_without_classes_all_words_in_the_order_of_their_bytes(said: str) -> None:
    Path("r.cntk").write_text("command = X\n" + SECTION.replace("nbrClass = 2", "x = 1").format(said), encoding="utf-8")
    assert main(["configFile=r.cntk"]) == 0
    assert text("v.txt") == "     0\t     6\ta\t0\n     1\t     3\tb\t0\n     2\t     2\tc\t0\n     3\t     1\td\t0\n"
    assert not Path("run/w.txt").exists()


def test_marks_are_added_where_they_are_missing() -> None:
    counts = count_words([b"<s> a </s>\r\n", b"a\n", b"\n"], b"<s>", b"</s>")
    assert counts == {b"<s>": 3, b"</s>": 3, b"a": 2}
    assert count_words([b"</s> a\n", b"b\n"], b"</s>", b"</s>") == {b"</s>": 2, b"a": 1, b"b": 1}


def test_large_counts_are_written_as_the_original_does() -> None:
    Path("t.txt").write_text("a " * 1_234_567 + "b", encoding="utf-8")
    run("vocabSize = 2")
    assert text("v.txt").startswith("     0\t     1.23457e+06\ta\t1\n")


def test_results_that_are_newer_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    run()
    Path("run/v.txt").write_text("mine", encoding="utf-8")
    Path("t.txt").unlink()
    run()
    assert text("v.txt") == "mine"
    assert "All output files up to date.\n" in capsys.readouterr().err
    run("makeMode = false", status=1)
    assert "r.cntk:2:36: Failed to open input file: t.txt: No such file or directory\n" in capsys.readouterr().err


def test_vocabulary_larger_than_there_are_words(capsys: pytest.CaptureFixture[str]) -> None:
    run("vocabSize = 100 ; cutoff = 1")
    assert text("v.txt").count("\n") == 3
    said = capsys.readouterr().err
    assert (
        "\t\tRequired vocabulary size:100\n\t\tActual vocabulary size:4\n\t\tActual vocabulary size after cutoff:3\n"
        "\t\tWe will change to actual vocabulary size: 3\nCreated label-mapping file with 4 entries.\n"
        "Created vocabulary file with 4 entries.\nCreated word-to-class map with 3 entries.\n"
        "Created class-to-index map with 2 entries.\n"
    ) in said


def test_a_word_that_occurs_once_is_unknown_by_default() -> None:
    Path("r.cntk").write_text("command = X\n" + SECTION.replace("cutoff = 0", "").format("x = 1"), encoding="utf-8")
    assert main(["configFile=r.cntk"]) == 0
    assert text("m.txt") == "a\nb\n<unk>\n"


def test_no_word_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    run("cutoff = 6", status=1)
    assert capsys.readouterr().err.partition("EXCEPTION occurred: ")[2] == (
        "No word remained after cutoff with threshold 6.\n"
        "    't.txt' has 4 different words; give a smaller cutoff, or 0.\n"
    )


def test_wrong_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    run("vocabSize = 1", status=1)
    assert "vocabSize must be at least 2, not 1\n" in capsys.readouterr().err


@given(st.dictionaries(st.sampled_from([b"a", b"b", b"c", b"d", b"<unk>"]), st.integers(1, 50)), st.integers(1, 6))
def test_classes_never_go_down_and_nothing_is_lost(words: dict[bytes, int], classes: int) -> None:
    from cntk_action_classic.word_class import Settings

    if not words:
        return
    settings = Settings("", "", "", "", "", 4, classes, 0, b"<unk>", b"", b"")
    found = make_vocabulary(Counter(words), settings, lambda line: None)
    assert sum(count for _, count in found.words) == sum(words.values())
    assert list(found.classes) == sorted(found.classes)
    assert all(0 <= number < classes for number in found.classes)
    assert len(found.first_words()) == classes


@pytest.mark.parametrize(("keys", "classes"), [("x = 1", True), ("nbrClass = 0", False)])
def test_what_is_said(capsys: pytest.CaptureFixture[str], keys: str, classes: bool) -> None:
    run(keys)
    first = capsys.readouterr().err
    maps = "Word-to-class map  --> run/w.txt\nClass-to-index map --> run/c.txt\n" if classes else ""
    begin = f"Mapping file       --> run/m.txt\nVocabulary file    --> run/v.txt\n{maps}\n"
    assert f"{begin}Reading input file inputFile: t.txt\nVocabulary size 4.\n" in first
    run(keys)
    second = capsys.readouterr().err
    assert f"{begin}All output files up to date.\n" in second
    assert "Reading input file" not in second
