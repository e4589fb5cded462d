"""Kaldi's lattices: every form gives the paths of the file, with their scores and correct frames."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from cntk_reader_kaldi import Kaldi2Reader
from cntk_reader_kaldi.lattice_file import read_lattice
from cntk_reader_kaldi.lattice_options import LatticeOptions
from kaldi_bytes import LENGTHS, F, L, alignment, archive
from kaldi_lattices import SILENCE_AND_WORDS, Edge, Fst, binary, binary_model, text, text_model

from cntk_core.api import CntkError, Config, EpochSpec
from cntk_core.api.builders import SourceText
from cntk_core.api.readers import lattice_rows

TRANSITIONS = SILENCE_AND_WORDS.transitions()
INPUTS = {"features": (2,), "labels": (4,), "lattices": (lattice_rows.LATTICE_COLUMNS,)}
WORDS = ((1, 2, 4, 5), (6, 6, 7), (8, 9), (8, 8, 9), (6, 7))
IDS = {"utt-a": [1, 1, 2, 4, 4, 5, 6], "utt-b": [6, 7, 8, 9], "utt-c": [8] * 9, "utt-d": [3], "utt-e": [5] * 6}


def compact_of(frames: int, seed: int = 0) -> Fst:
    """Two ways through an utterance, a last word at the end of one of them, and states that lead nowhere."""
    rng = np.random.default_rng([seed, frames])

    def ids(count: int) -> tuple[int, ...]:
        return tuple(rng.integers(1, len(TRANSITIONS), count).tolist())

    def cost() -> float:
        return float(rng.integers(-8, 24)) / 8

    split = frames // 2
    edges = [
        Edge(0, 1, 7, cost(), cost(), ids(split)),
        Edge(0, 1, 8, cost(), cost(), ids(split)),
        Edge(1, 3, 9, cost(), cost(), ids(frames - split)),
        Edge(1, 2, 10, cost(), cost(), ids(frames - split - (frames > 1))),
        Edge(2, 5, 0, 0.0, 0.0),
        Edge(1, 4, 11, cost(), cost(), ids(1)),
        Edge(6, 3, 11, cost(), cost(), ids(frames)),
    ]
    return Fst(7, edges, {3: (0.0, 0.0, ()), 5: (cost(), cost(), ids(int(frames > 1)))})


def plain_of(fst: Fst) -> Fst:
    """Return the same lattice with an arc for each transition-id, as Lattice has it."""
    edges, finals, states = [], {}, fst.states

    def add(source: int, target: int, edge: tuple[int, float, float, tuple[int, ...]]) -> None:
        nonlocal states
        word, graph, sound, ids = edge
        while len(ids) > 1:
            edges.append(Edge(source, states, word, graph, sound, ids[:1]))
            source, states, ids = states, states + 1, ids[1:]
            word, graph, sound = 0, 0.0, 0.0
        edges.append(Edge(source, target, word, graph, sound, ids))

    for edge in fst.edges:
        add(edge.source, edge.target, edge[2:])
    for state, (graph, sound, ids) in fst.finals.items():
        if ids:
            states += 1
            add(state, states - 1, (0, graph, sound, ids))
            finals[states - 1] = (0.0, 0.0, ())
        else:
            finals[state] = (graph, sound, ())
    return Fst(states, edges, finals, fst.start)


FORMS = {
    "compact": lambda fst: binary(fst, compact=True),
    "double": lambda fst: binary(fst, compact=True, double=True),
    "plain": lambda fst: binary(plain_of(fst), compact=False),
    "text": lambda fst: text(fst, compact=True),
    "plain text": lambda fst: text(plain_of(fst), compact=False),
}


@pytest.fixture
def lattices(corpus: Path) -> Path:
    Path("final.mdl").write_bytes(binary_model(SILENCE_AND_WORDS))
    Path("ids.ark").write_bytes(archive({key: alignment(ids) for key, ids in IDS.items()})[0])
    pdfs = {key: [TRANSITIONS[one][1] for one in ids] for key, ids in IDS.items()}
    Path("ali.ark").write_bytes(archive({key: alignment(own) for key, own in pdfs.items()})[0])
    write(FORMS["compact"])
    return corpus


def write(form, lengths=LENGTHS) -> None:
    data, offsets = archive({key: form(compact_of(length)) for key, length in lengths.items()})
    Path("lat.ark").write_bytes(data)
    Path("lat.scp").write_text("".join(f"{key} lat.ark:{at}\n" for key, at in offsets.items()))


DENLATS = "denlats=[ rx={} ; kaldiModel=final.mdl {}]\n"
READER = "frameMode=false\nrandomize=none\n" + F + L.replace("labelDim=3", "labelDim=4")


def rows_of(reader) -> dict[str, np.ndarray]:
    found = {}
    for minibatch in reader.minibatches(EpochSpec(minibatch_size=1)):
        layout = minibatch.streams["lattices"].layout
        found[layout.keys[0]] = np.asarray(minibatch.streams["lattices"].data)
    return found


def ways_of(rows: np.ndarray, correct: bool = False) -> Counter[tuple]:
    """Return the classes of all paths of rows, with the score of each and perhaps its correct frames."""
    heads = np.flatnonzero(rows[:, 5])
    found: Counter[tuple] = Counter()
    last = set(rows[:, 1]) - set(rows[:, 0])
    assert len(last) == 1

    def follow(node: float, frame: int, classes: tuple[int, ...], score: float, right: float) -> None:
        if node in last:
            found[(classes, round(score, 4), *((right,) if correct else ()))] += 1
        for head in heads[rows[heads, 0] == node].tolist():
            own, at = [], frame
            end = next((one for one in heads.tolist() if one > head), len(rows))
            for row in rows[head:end]:
                assert row[2] == at
                own += [int(row[7])] * int(row[3])
                at += int(row[3])
            more = max(rows[head, 6] - 1, 0)
            follow(rows[head, 1], at, classes + tuple(own), score + rows[head, 4], right + more)

    follow(0.0, 0, (), 0.0, 0.0)
    return found


def expected(key: str, graph: float = 1.0, sound: float = 0.0, right=None) -> Counter[tuple]:
    """The same, counted in the lattice that was written."""
    found: Counter[tuple] = Counter()
    for ids, graph_cost, sound_cost in compact_of(LENGTHS[key]).ways():
        score = round(-(graph * graph_cost + sound * sound_cost), 4)
        more = () if right is None else (sum(map(right, ids, IDS[key])),)
        found[(tuple(TRANSITIONS[one][1] for one in ids), score, *more)] += 1
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("table", ["ark:lat.ark", "scp:lat.scp"])
def test_all_paths(make, lattices, form: str, table: str) -> None:
    write(FORMS[form])
    reader = make(READER + DENLATS.format(table, ""), dtype="float64", inputs=INPUTS)
    assert not list(reader.check())
    found = rows_of(reader)
    assert list(found) == list(LENGTHS)
    for key, rows in found.items():
        assert ways_of(rows) == expected(key)
        assert not rows[:, 6].any()


def test_arcs_without_choice_are_one(make, lattices) -> None:
    rows = {}
    for form in ("compact", "plain"):
        write(FORMS[form])
        rows[form] = rows_of(make(READER + DENLATS.format("ark:lat.ark", ""), dtype="float64", inputs=INPUTS))
    for key in LENGTHS:
        counts = {form: int(found[key][:, 5].sum()) for form, found in rows.items()}
        assert counts["plain"] == counts["compact"]


def silent(one: int) -> bool:
    return TRANSITIONS[one][0] == 1


def same(place: int, one: int, wanted: int) -> bool:
    return TRANSITIONS[one][place] == TRANSITIONS[wanted][place]


COUNTINGS = {
    "smbr": ("true", lambda one, wanted: same(1, one, wanted) or (silent(one) and silent(wanted))),
    "mpfe": ("true", lambda one, wanted: same(0, one, wanted)),
    "smbr apart": ("false", lambda one, wanted: same(1, one, wanted) and not silent(one)),
    "mpfe apart": ("false", lambda one, wanted: same(0, one, wanted) and not silent(one)),
}


@pytest.mark.parametrize("case", COUNTINGS)
@pytest.mark.parametrize("model", [binary_model, text_model])
def test_which_frames_are_correct(make, lattices, case: str, model) -> None:
    Path("final.mdl").write_bytes(model(SILENCE_AND_WORDS))
    one_class, right = COUNTINGS[case]
    block = DENLATS.format("ark:lat.ark", f"; silPhoneList=1 ; oneSilenceClass={one_class}")
    told = f"seqTrainCriterion={case.split()[0]}\nalignments=[ rx=ark:ids.ark ]\n"
    found = rows_of(make(READER + told + block, dtype="float64", inputs=INPUTS))
    for key, rows in found.items():
        assert ways_of(rows, correct=True) == expected(key, right=right)


def test_scales(make, lattices) -> None:
    scales = "; lmScale=0.5 ; acousticScale=0.25 ; oldAcousticScale=2 "
    found = rows_of(make(READER + DENLATS.format("ark:lat.ark", scales), dtype="float64", inputs=INPUTS))
    for key, rows in found.items():
        assert ways_of(rows) == expected(key, 0.5, 0.5)


def test_costs_that_the_criterion_would_not_believe(make, lattices) -> None:
    """An arc of the cost 1000 is several, none of which is below -150."""
    fst = Fst(2, [Edge(0, 1, 1, 1000.25, 0, (1, 2, 3)), Edge(0, 1, 2, 0.5, 0, (6, 7, 8))], {1: (300.0, 0, (9,))})
    Path("lat.ark").write_bytes(archive({"utt-b": binary(fst, compact=True)})[0])
    (rows,) = rows_of(make(READER + DENLATS.format("ark:lat.ark", ""), dtype="float64", inputs=INPUTS)).values()
    assert rows[:, 4].min() >= -150.0
    assert ways_of(rows) == Counter({((0, 0, 0, 2), -1300.25): 1, ((1, 1, 2, 2), -300.5): 1})


def test_costs_that_cannot_be(make, lattices) -> None:
    fst = Fst(2, [Edge(0, 1, 1, 1e19, 0, (1, 2, 3))], {1: (0.0, 0, (9,))})
    Path("lat.ark").write_bytes(archive({"utt-b": binary(fst, compact=True)})[0])
    (error,) = make(READER + DENLATS.format("ark:lat.ark", ""), inputs=INPUTS).check()
    assert "'utt-b': an arc of the lattice costs 1e+19" in str(error)


def test_utterances_without_lattice_or_alignment_are_left_out(make, lattices) -> None:
    write(FORMS["compact"], {key: length for key, length in LENGTHS.items() if key != "utt-a"})
    Path("ids.ark").write_bytes(archive({key: alignment(ids) for key, ids in IDS.items() if key != "utt-c"})[0])
    told = "seqTrainCriterion=smbr\nalignments=[ rx=ark:ids.ark ]\n"
    reader = make(READER + told + DENLATS.format("ark:lat.ark", ""), inputs=INPUTS)
    assert list(rows_of(reader)) == ["utt-b", "utt-d", "utt-e"]
    assert "WARNING: left out: utterance 'utt-c' of lat.ark has no alignment" in reader.told
    assert any("utt-a" in line for line in reader.told)


def test_lattices_by_a_command(make, lattices) -> None:
    Path("lat.1.gz").write_bytes(gzip.compress(Path("lat.ark").read_bytes()))
    block = DENLATS.format('"ark:gunzip -c lat.*.gz |"', "; allowCommands=true ")
    found = rows_of(make(READER + block, dtype="float64", inputs=INPUTS))
    assert {key: ways_of(rows) for key, rows in found.items()} == {key: expected(key) for key in LENGTHS}


def test_a_network_without_lattices_does_not_read_them(make, lattices) -> None:
    Path("lat.ark").unlink()
    reader = make(READER + DENLATS.format("ark:lat.ark", ""), inputs={"features": (2,), "labels": (4,)})
    assert [set(minibatch.streams) for minibatch in reader.minibatches(EpochSpec(minibatch_size=99))] == [
        {"features", "labels"}
    ]


def test_another_judge(tmp_path: Path) -> None:
    """What another program (kaldifst) writes of a lattice is read as it is."""
    kaldifst = pytest.importorskip("kaldifst")
    made = kaldifst.Lattice()
    for _ in range(4):
        made.add_state()
    made.start = 2
    wanted = []
    for source, target, label, graph, sound in [(2, 0, 3, 1.5, -2.25), (2, 0, 0, 0.5, 1.0), (0, 1, 5, 0.25, 8.0)]:
        weight = kaldifst.LatticeWeight(graph, sound)
        made.add_arc(source, kaldifst.LatticeArc(label, 7, weight, target))
        wanted.append((source, target, graph, sound, (label,) if label else ()))
    made.set_final(1, kaldifst.LatticeWeight(0.125, 0.5))
    made.write(str(tmp_path / "one.fst"))
    data = (tmp_path / "one.fst").read_bytes()
    found, end = read_lattice(lambda at, count: data[at : at + count], 0, len(data))
    assert end == len(data)
    assert (found.start, found.states) == (2, 4)
    tuples = [(arc.source, arc.target, arc.graph, arc.sound, arc.ids) for arc in found.arcs]
    assert sorted(tuples) == sorted([*wanted, (1, -1, 0.125, 0.5, ())])


SOUND = binary(compact_of(4), compact=True)
LOOP = Fst(2, [Edge(0, 1, 1, 0, 0, (6, 7)), Edge(1, 0, 1, 0, 0, (6, 7))], {1: (0, 0, ())})
UNEVEN = Fst(2, [Edge(0, 1, 1, 0, 0, (6, 7)), Edge(0, 1, 1, 0, 0, (6,))], {1: (0, 0, ())})
WRONG = {
    "other": (b"\0BFM ", "byte 6: a lattice begins with a number of OpenFst, or with an empty line"),
    "kind": (SOUND.replace(b"compactlattice44", b"compactlattice48"), "'vector of compactlattice48' is no lattice"),
    "cut": (SOUND[:100], "the file ends inside a lattice"),
    "symbols": (SOUND.replace(b"44\2\0\0\0\0", b"44\2\0\0\0\1"), "the lattice has tables of symbols"),
    "circle": (binary(LOOP, compact=True), "'utt-b': the lattice goes round in a circle"),
    "lengths": (binary(UNEVEN, compact=True), "'utt-b': two ways of the lattice to the same state have 2 and 1 frames"),
    "no end": (binary(Fst(2, LOOP.edges[:1], {}), compact=True), "'utt-b': the lattice has no way to its end"),
    "nothing": (b"\n\n", "'utt-b': the lattice has no way to its end"),
    "no arc": (b"\n0 1 x 1,2\n1\n\n", "line 1 of the lattice, '0 1 x 1,2', is no arc and no final state"),
    "no weight": (b"\n0 1 6 1,2,3_x\n1\n\n", "line 1 of the lattice"),
    "two ids": (b"\n0 1 6 7 1,2,3\n1\n\n", "line 1 of the lattice"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_lattice(make, lattices, case: str) -> None:
    data, message = WRONG[case]
    Path("lat.ark").write_bytes(b"utt-b " + data)
    with pytest.raises(CntkError) as caught:
        rows_of(make(READER + DENLATS.format("ark:lat.ark", ""), inputs=INPUTS))
    assert message in str(caught.value)


def test_a_lattice_of_another_model(make, lattices) -> None:
    other = SILENCE_AND_WORDS._replace(tuples=SILENCE_AND_WORDS.tuples[:1])
    Path("final.mdl").write_bytes(binary_model(other))
    reader = make(READER + DENLATS.format("ark:lat.ark", ""), inputs=INPUTS)
    assert any("is no transition-id: 'final.mdl' has 1 to 3" in str(error) for error in reader.check())


def test_an_alignment_of_another_length(make, lattices) -> None:
    Path("ids.ark").write_bytes(archive({key: alignment([*ids, 6]) for key, ids in IDS.items()})[0])
    told = "seqTrainCriterion=smbr\nalignments=[ rx=ark:ids.ark ]\n"
    reader = make(READER + told + DENLATS.format("ark:lat.ark", ""), inputs=INPUTS)
    assert "the alignment has 8 frames, and the lattice 7" in str(next(iter(reader.check())))


GIVEN = DENLATS.format("ark:lat.ark", "")
REFUSED = {
    "no lattices": ("seqTrainCriterion=smbr\n", "has no block denlats, the lattices"),
    "no alignments": (f"seqTrainCriterion=smbr\n{GIVEN}", "seqTrainCriterion needs alignments"),
    "criterion": (f"seqTrainCriterion=mmi\n{GIVEN}", "seqTrainCriterion must be smbr or mpfe, not 'mmi'"),
    "frames": (f"frameMode=true\n{GIVEN}", "which belong to whole utterances, and frameMode=true"),
    "cut": (f"truncated=true\n{GIVEN}", "which belong to whole utterances, and truncated=true"),
    "silence": (
        f"seqTrainCriterion=smbr\nalignments=[ rx=ark:ids.ark ]\n{GIVEN.replace(']', '; silPhoneList=1:9 ]')}",
        "silPhoneList has phone 9, which 'final.mdl' does not have",
    ),
    "phones": (GIVEN.replace("]", "; silPhoneList=1:x ]"), "'1:x' is no list of phones"),
    "scale": (GIVEN.replace("]", "; acousticScale=0 ]"), "acousticScale must be above 0, not 0"),
    "derivatives": ("derivatives=[ type=seqTrainDeriv ]\n", "computes a criterion, and there is no seqTrainCriterion"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_recipe_says_wrongly(make, lattices, case: str) -> None:
    lines, message = REFUSED[case]
    block = READER.replace("frameMode=false", "") + lines if "frameMode" in lines else READER + lines
    with pytest.raises(CntkError) as caught:
        make(block, inputs=INPUTS)
    assert message in str(caught.value)


SMBR = "seqTrainCriterion=smbr\nalignments=[ rx=ark:ids.ark ]\n"
SCALED = GIVEN.replace("]", "; acousticScale=0.1 ]")
BESIDE = {
    "MMI": (SMBR + GIVEN, "maxEpochs=1", "r.cntk:3:1: seqTrainCriterion=smbr needs seqGammarUsesMBR=true"),
    "language": (
        SCALED,
        "seqGammarAMF=10 ; seqGammarLMF=9",
        "acousticScale=0.1 of the lattices is seqGammarLMF=10 of the SGD ",
    ),
    "acoustic": (SCALED, "", "acousticScale=0.1 of the lattices is seqGammarAMF=10 of the SGD block, not 14"),
    "sMBR": (SMBR + SCALED, "seqGammarUsesMBR=true ; seqGammarAMF=10 ; seqGammarLMF=10", None),
}


@pytest.mark.parametrize("case", BESIDE)
def test_what_the_sgd_block_beside_it_says(lattices, case: str) -> None:
    lines, beside, message = BESIDE[case]
    text_ = f"SGD=[ {beside} ]\nreader=[\n{lines}{READER}]"
    block = Config.from_source(SourceText.of(text_, "r.cntk")).section("reader")
    if message is None:
        streams = Kaldi2Reader.settings_from(block, "the reader").streams
        assert [stream.criterion for stream in streams if isinstance(stream, LatticeOptions)] == ["smbr"]
        return
    with pytest.raises(CntkError) as caught:
        Kaldi2Reader.settings_from(block, "the reader")
    assert message in str(caught.value)


def test_no_cost_is_lost_in_text() -> None:
    """A weight that is not there costs nothing; what is infinite is no way."""
    data = b"\n3 1 4\n3 1 5 0.5,-1e2,6_7\n1 Infinity,Infinity,\n1 0.25,0,\n\n"
    found, end = read_lattice(lambda at, count: data[at : at + count], 0, len(data))
    assert end == len(data)
    assert found.start == 3
    assert [(arc.target, arc.graph, arc.sound, arc.ids) for arc in found.arcs] == [
        (1, 0.0, 0.0, ()), (1, 0.5, -100.0, (6, 7)), (-1, 0.25, 0.0, ()),
    ]  # fmt: skip
