"""The denominator graph of lattice-free MMI: its language model, its states, and what it says of mistakes."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from cntk_reader_htk.denominator import estimate, main
from lattice_files import write_recogniser

SAID = "u0 sil a b a\nu1 sil b a\nu2 sil a a\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    write_recogniser(tmp_path)
    Path("train.said").write_text(SAID)
    return ["train.said", "phones.tying", "phones.transitions", "states.list", "phones.graph"]


def test_bigrams_are_counted():
    model = estimate([line.split()[1:] for line in SAID.splitlines()], 2)
    assert model.first == {("sil",): 1.0}
    assert model.following == {
        ("sil",): {("a",): 2 / 3, ("b",): 1 / 3},
        ("a",): {("b",): 1 / 2, ("a",): 1 / 2},
        ("b",): {("a",): 1.0},
    }


def test_trigrams_whose_history_only_ends_utterances_are_followed_by_what_follows_its_end():
    model = estimate([line.split()[1:] for line in SAID.splitlines()], 3)
    assert model.following["sil", "a"] == {("a", "b"): 1 / 2, ("a", "a"): 1 / 2}
    assert model.following["a", "a"] == {("a", "b"): 1 / 2, ("a", "a"): 1 / 2}
    assert estimate([["x"]], 3).following == {("x",): {}}


def test_the_graph_has_the_states_of_the_phones(files, capsys):
    assert main([*files, "--order", "2"]) == 0
    assert capsys.readouterr().out == "phones.graph: 3 histories, 6 states, 15 starts and arcs\n"
    lines = [line.split() for line in Path("phones.graph").read_text().splitlines()]
    classes = {int(state): int(own) for kind, state, own in (line for line in lines if line[0] == "class")}
    assert sorted(classes.values()) == [0, 1, 2, 3, 4, 5]
    sums: dict[str, float] = defaultdict(float)
    for line in lines:
        if line[0] == "arc":
            sums[line[1]] += float(line[3])
    assert sorted(sums.values()) == pytest.approx([1.0] * 6)
    (start,) = [line for line in lines if line[0] == "start"]
    assert (classes[int(start[1])], float(start[2])) == (3, 1.0)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("u0 sil e", "train.said:1: there is no phone 'e'"),
        (None, "cannot open the list of transcripts 'train.said'"),
    ],
)
def test_mistakes(files, capsys, said, message):
    if said is None:
        Path("train.said").unlink()
    else:
        Path("train.said").write_text(said)
    assert main(files) == 1
    assert message in capsys.readouterr().err


def test_the_order_is_two_or_more(files, capsys):
    with pytest.raises(SystemExit):
        main([*files, "--order", "1"])
    assert "--order is at least 2" in capsys.readouterr().err
