"""Transition models, and alignments in transition-ids."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from cntk_reader_kaldi.transition_model import read_transition_model
from kaldi_bytes import F, alignment, archive, posterior
from kaldi_lattices import CHAIN, SILENCE_AND_WORDS, Model, binary_model, text_model
from test_reader import utterances

from cntk_core.api import CntkError, DataError, Location

WHERE = Location("r.cntk", 3, 4)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(data: bytes) -> Path:
    Path("final.mdl").write_bytes(data)
    return Path("final.mdl")


@pytest.mark.parametrize("model", [SILENCE_AND_WORDS, CHAIN], ids=["triples", "tuples"])
@pytest.mark.parametrize("form", [binary_model, text_model])
def test_what_transitions_stand_for(form, model: Model) -> None:
    found = read_transition_model(write(form(model)), WHERE)
    wanted = model.transitions()
    assert list(zip(found.phones.tolist(), found.pdfs.tolist(), strict=True)) == wanted
    assert found.unknown(found.pdfs[:0]) is None
    assert found.unknown(found.pdfs * 0 + len(wanted)) == len(wanted)
    assert found.unknown(found.pdfs * 0) == 0
    assert found.unknown(found.pdfs * 0 + 1) is None


def test_a_loop_of_a_chain_has_a_pdf_of_its_own() -> None:
    assert read_transition_model(write(binary_model(CHAIN)), WHERE).pdfs.tolist() == [-1, 1, 0, 3, 2]


BINARY, TEXT = binary_model(SILENCE_AND_WORDS), text_model(SILENCE_AND_WORDS)
WRONG = {
    "other": (b"<Nnet> </Nnet>", "final.mdl:1: <TransitionModel> was expected, not '<Nnet>'"),
    "empty": (b"", "final.mdl:1: <TransitionModel> was expected: the file ends"),
    "cut": (BINARY[:60], "'final.mdl', byte 53: the file ends inside an array of 4 whole numbers"),
    "name": (BINARY.replace(b"<Triples>", b"<Couples>"), "<Triples> or <Tuples> was expected, not '<Couples>'"),
    "tuples": (
        BINARY.replace(b"<Triples> ", b"<Tuples> ").replace(b"</Triples> ", b"</Tuples> "),
        "<Tuples> does not fit the topology before it",
    ),
    "phone": (TEXT.replace(b"\n3 0 2", b"\n4 0 2"), "the topology has no state 0 of phone 4 with a pdf 2"),
    "state": (TEXT.replace(b"\n3 0 2", b"\n3 2 2"), "the topology has no state 2 of phone 3 with a pdf 2"),
    "order": (TEXT.replace(b"<State> 1", b"<State> 2"), "state 1 was expected, not 2"),
    "entry": (TEXT.replace(b"</TopologyEntry>", b"</Entry>", 1), "<State> or </TopologyEntry> was expected, not"),
    "word": (TEXT.replace(b"<Transition>", b"<Move>", 1), "</State> was expected, not '<Move>'"),
    "many": (TEXT.replace(b"<Triples> 4", b"<Triples> 999999"), "999999 things cannot follow"),
    "none": (text_model(SILENCE_AND_WORDS._replace(tuples=[])), "the transition model has no transitions"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong(case: str) -> None:
    data, message = WRONG[case]
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read_transition_model(write(data), WHERE)
    assert caught.value.where is not None


def test_a_phone_without_states() -> None:
    kinds = BINARY.index(b"\xff\xff\xff\xff") + 4
    broken = BINARY[:kinds] + b"\7\0\0\0" + BINARY[kinds + 4 :]
    with pytest.raises(DataError, match="a phone has no states"):
        read_transition_model(write(broken), WHERE)


def test_a_missing_model() -> None:
    with pytest.raises(DataError, match=r"cannot open the transition model 'final.mdl': no such file") as caught:
        read_transition_model(Path("final.mdl"), WHERE)
    assert caught.value.where == WHERE


LABELS = 'labels=[ labelDim=4 ; mlfFile="ark:ids.ark" ; kaldiModel=final.mdl ]\n'
IDS = {"utt-a": [1, 1, 2, 4, 4, 5, 6], "utt-b": [6, 7, 8, 9], "utt-c": [8] * 9, "utt-d": [3], "utt-e": [5] * 6}


def test_alignments_in_transition_ids(make, corpus) -> None:
    """As ali-to-pdf would give them."""
    write(BINARY)
    Path("ids.ark").write_bytes(archive({key: alignment(ids) for key, ids in IDS.items()})[0])
    pdfs = [pdf for _, pdf in SILENCE_AND_WORDS.transitions()]
    reader = make(f"frameMode=false\nrandomize=none\n{F}{LABELS}")
    found = utterances(reader, "labels")
    for key, ids in IDS.items():
        assert np.argmax(found[key], axis=1).tolist() == [pdfs[one] for one in ids]


def test_posteriors_of_transitions_of_one_class_add_up(make, corpus) -> None:
    write(TEXT)
    frames = {key: [[(6, 0.25), (7, 0.5), (8, 0.25)]] * len(ids) for key, ids in IDS.items()}
    Path("ids.ark").write_bytes(archive({key: posterior(own) for key, own in frames.items()})[0])
    found = utterances(make(f"frameMode=false\nrandomize=none\n{F}{LABELS}"), "labels")
    assert found["utt-d"] == [[0, 0.75, 0.25, 0]]


def test_another_model(make, corpus) -> None:
    write(BINARY)
    Path("ids.ark").write_bytes(archive({key: alignment([99] * len(ids)) for key, ids in IDS.items()})[0])
    with pytest.raises(CntkError) as caught:
        utterances(make(f"frameMode=false\nrandomize=none\nmaxErrors=0\n{F}{LABELS}"), "labels")
    assert "'utt-a': 99 is no transition-id: 'final.mdl' has 1 to 9" in str(caught.value)
    assert "The model has to be the one that made the alignments and lattices." in str(caught.value)
