"""What is wrong with a section is said before anything runs: by `cntk config check`, which runs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main

READER = "reader = [ readerType = UCIFastReader ; file = t.txt ; features = [ start = 0 ; dim = 1 ] ]"
WORDS = "action = writeWordAndClass ; inputFile = t.txt ; outputVocabFile = v.txt"


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("action = SVD ; outputmodelPath = b", "modelPath"),
        ("action = SVD ; modelPath = a", "outputmodelPath"),
        ("action = SVD ; modelPath = a ; outputmodelPath = b ; KeepRatio = 1.5", "a KeepRatio is a number from 0 to 1"),
        (
            "action = SVD ; modelPath = a ; outputmodelPath = b ; KeepRatio = -0.5",
            "a KeepRatio is a number from 0 to 1",
        ),
        (
            "action = SVD ; modelPath = a ; outputmodelPath = b ; AlignedSize = 0",
            "AlignedSize must be at least 1, not 0",
        ),
        ('action = SVD ; modelPath = a ; outputmodelPath = b ; NodeNameRegex = "W["', "is not a regular expression"),
        (f"{WORDS} ; vocabSize = 1", "vocabSize must be at least 2, not 1"),
        (f"{WORDS} ; vocabSize = 9 ; nbrClass = -1", "nbrClass must be at least 0, not -1"),
        (f"{WORDS} ; vocabSize = 9 ; nbrClass = 2 ; outputCls2Index = c.txt", "outputWord2Cls"),
        (f"{WORDS} ; vocabSize = 9 ; nbrClass = 2 ; outputWord2Cls = w.txt", "outputCls2Index"),
        (f"action = bnstat ; {READER}", "modelPath"),
        (f"action = bnstat ; modelPath = a ; {READER} ; itersPerNode = 0", "at least 1"),
        ("action = bnstat ; modelPath = a", "reader"),
        (f"action = cv ; crossValidationInterval = 1:1:2 ; {READER}", "modelPath"),
        (f"action = cv ; modelPath = a ; {READER}", "crossValidationInterval"),
        (f"action = cv ; modelPath = a ; crossValidationInterval = 1:x:2 ; {READER}", "crossValidationInterval"),
        ("action = dumpNode", "modelPath"),
        ("action = dumpNode ; modelPath = a ; printValues = false ; printMetadata = false", "nothing to dump"),
        ('action = dumpNode ; modelPath = a ; nodeNameRegex = "W["', "nodeNameRegex"),
        ("action = plot", "modelPath"),
        ("action = plot ; modelPath = a ; outputFile = a.png", "you also need a renderCmd"),
        ("action = edit", "editPath"),
        ("action = adapt ; modelPath = b", "origModelFileName"),
    ],
)
def test_a_section_with_a_fault(section: str, said: str, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.cntk").write_text(f"command = X\nX = [ {section} ]\n", encoding="utf-8")
    assert main(["config", "check", "r.cntk"]) == 1
    told = capsys.readouterr()
    assert said in told.err + told.out
    assert [path.name for path in tmp_path.iterdir()] == ["r.cntk"]


@pytest.mark.parametrize(
    "section",
    [
        "action = SVD ; modelPath = a ; outputmodelPath = b ; KeepRatio = 1 ; AlignedSize = 1",
        "action = SVD ; modelPath = a ; outputmodelPath = b ; KeepRatio = 0",
        f"{WORDS} ; vocabSize = 2",
        f"action = bnstat ; modelPath = a ; {READER} ; itersPerNode = 1",
        "action = dumpNode ; modelPath = a ; printValues = false",
        "action = dumpNode ; modelPath = a ; printMetadata = false",
        "action = plot ; modelPath = a ; outputFile = a.svg",
        "action = plot ; modelPath = a ; outputFile = a.png ; renderCmd = dot",
    ],
)
def test_a_section_without_one(section: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.cntk").write_text(f"command = X\nX = [ {section} ]\n", encoding="utf-8")
    assert main(["config", "check", "r.cntk"]) == 0
