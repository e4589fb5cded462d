"""Lattices beside features and labels: their archives, the recogniser's phones, and a recipe that trains with them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

import attrs
import numpy as np
import pytest
from cntk_reader_htk import HTKMLFReader
from lattice_files import Arc, Lattice, first_version, second_version, write_archive, write_recogniser

from cntk_core.api import CntkError, Config, EpochSpec, ReaderContext
from cntk_core.api.builders import SourceText
from cntk_core.api.readers import lattice_rows
from cntk_kit_recipes.cli import main

LENGTHS = {"utt0": 8, "utt1": 6, "utt2": 7}
NOTHING = -1e30


def lattice_of(frames: int) -> Lattice:
    """Silence, then a word that is one of two, and an empty arc to the end."""
    word = frames - 3
    return Lattice(
        (0, 3, frames, frames),
        (
            Arc(0, 1, 0.0, (("sil", 3),)),
            Arc(1, 2, -1.5, (("a", word - 1), ("b", 1), ("sp", 0))),
            Arc(1, 2, -2.5, (("b", word - 1), ("sp", 1))),
            Arc(2, 3, -0.25),
        ),
    )


def features(frames: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(frames, 3)).astype(">f4")


def labels_of(frames: int, *, phones: bool = True) -> list[str]:
    first = "sil -1 !silence" if phones else ""
    second = "a -1 AA" if phones else ""
    spans = [(0, 1, "sil[2]", first), (1, 2, "sil[3]", ""), (2, 3, "sil[4]", "")]
    spans += [(3, 4, "a[2]", second), (4, frames, "a[3]", "")]
    return [f"{begin} {end} {state} {f'-1 {rest}' if rest else ''}".strip() for begin, end, state, rest in spans]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = ["#!MLF!#"]
    for seed, (name, frames) in enumerate(LENGTHS.items()):
        header = struct.pack(">iihh", frames, 100_000, 12, 9)
        (tmp_path / f"{name}.mfc").write_bytes(header + features(frames, seed).tobytes())
        lines += [f'"*/{name}.lab"', *labels_of(frames), "."]
    (tmp_path / "train.scp").write_text("".join(f"{name}.mfc\n" for name in LENGTHS))
    (tmp_path / "train.mlf").write_text("\n".join(lines) + "\n")
    write_recogniser(tmp_path)
    writers = (second_version, lambda one: second_version(one, acoustic=True), first_version)
    archive = {name: write(lattice_of(LENGTHS[name])) for name, write in zip(LENGTHS, writers, strict=True)}
    write_archive(tmp_path, "den.lats", archive)
    return tmp_path


READER = """
readerType=HTKMLFReader ; frameMode=false ; randomize=none
features=[ dim=3 ; scpFile=train.scp ]
labels=[ labelDim=6 ; mlfFile=train.mlf ; labelMappingFile=states.list ]
hmms=[ phoneFile=phones.tying ; transPFile=phones.transitions ]
lattices=[ denlatTocFile="*.lats.toc" ]
"""


OPEN: list[HTKMLFReader] = []


@pytest.fixture(autouse=True)
def close_readers() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


def reader_of(text: str = READER, told: list[str] | None = None, **inputs: tuple[int, ...]) -> HTKMLFReader:
    block = Config.from_source(SourceText.of(text, "r.cntk"))
    options = HTKMLFReader.settings_from(block, "reader 'HTKMLFReader'")
    context = ReaderContext(dtype=np.dtype(np.float64), inputs=inputs, trace=(told if told is not None else []).append)
    OPEN.append(HTKMLFReader(options, context))
    return OPEN[-1]


def rows_of(reader: HTKMLFReader, key: str) -> np.ndarray:
    for minibatch in reader.minibatches(EpochSpec(minibatch_size=1)):
        layout = minibatch.streams["lattices"].layout
        if layout.keys == (key,):
            return np.asarray(minibatch.streams["lattices"].data)
    raise AssertionError(key)


@pytest.mark.parametrize("key", LENGTHS)
def test_every_version_has_the_same_rows(corpus, key):
    frames = LENGTHS[key]
    rows = rows_of(reader_of(), key)
    # begin, end, first frame, frames, score, begins an arc, is silence; the two last rows are the reference
    assert rows[:, :7].tolist() == [
        [0, 1, 0, 3, 0, 1, 1],
        [1, 2, 3, frames - 4, -1.5, 1, 0],
        [1, 2, frames - 1, 1, -1.5, 0, 0],
        [1, 2, frames, 0, -1.5, 0, 0],
        [1, 2, 3, frames - 4, -2.5, 1, 0],
        [1, 2, frames - 1, 1, -2.5, 0, 0],
        [2, 3, frames, 0, -0.25, 1, 0],
        [-1, -1, 0, 3, 0, 1, 0],
        [-1, -1, 3, frames - 3, 0, 0, 0],
    ]
    assert rows[:, 7:10].tolist() == [
        [3, 4, 5], [0, 1, -1], [2, -1, -1], [4, -1, -1], [2, -1, -1], [4, -1, -1], [-1, -1, -1], [3, 4, 5], [0, 1, -1],
    ]  # fmt: skip
    half, quarter = np.log([0.5, 0.25])
    assert rows[0, 10:].tolist() == [
        0, NOTHING, NOTHING, half, half, NOTHING, NOTHING, half, half, NOTHING, NOTHING, half, NOTHING, NOTHING, half,
        NOTHING,
    ]  # fmt: skip
    assert rows[2, [10, 22, 25]].tolist() == [0, quarter, NOTHING]
    assert rows[3, [10, 13, 22, 25]].tolist() == [half] * 4
    assert rows[6, 25] == 0


def test_utterances_are_not_joined(corpus):
    told: list[str] = []
    made = list(reader_of(READER.replace("none", "auto"), told).minibatches(EpochSpec(minibatch_size=21)))
    assert sorted(key for one in made for key in one.streams["lattices"].layout.keys) == list(LENGTHS)
    assert not [line for line in told if "joins" in line]
    assert [one.samples for one in made] == [21]


def test_a_network_without_criterion_over_lattices_reads_none(corpus):
    Path("den.lats").unlink()
    reader = reader_of(features=(3,), labels=(6,))
    assert [stream.name for stream in reader.streams] == ["features", "labels"]


def test_the_hidden_input_takes_lattices_of_any_name(corpus):
    reader = reader_of(READER.replace("lattices=[", "dens=["), features=(3,), labels=(6,), lattices=(26,))
    assert "lattices" in [stream.name for stream in reader.streams]
    assert lattice_rows.lattice_input({"dens": (26,), "lattices": (26,)}, "dens") == "dens"


def test_numerators_and_unigram_choose_utterances(corpus):
    write_archive(corpus, "num", {name: second_version(lattice_of(LENGTHS[name])) for name in ("utt0", "utt1")})
    text = READER.replace('denlatTocFile="*.lats.toc"', "denlatTocFile=den.lats.toc ; numLatTocFile=num.toc")
    told: list[str] = []
    sizes = [one.samples for one in reader_of(text, told).minibatches(EpochSpec(minibatch_size=99))]
    assert sizes == [14]
    Path("uni.arpa").write_text("\\data\\\nngram 1=1\n\n\\1-grams:\n-1.0 AA\n\n\\end\\\n")
    labels = Path("train.mlf").read_text().replace("AA", "ZZ", 1)
    Path("train.mlf").write_text(labels)
    sizes = [one.samples for one in reader_of(text + "unigram=uni.arpa\n", told).minibatches(EpochSpec())]
    assert sizes == [6]
    assert "WARNING: left out: utterance 'utt0' has the word 'ZZ', which is not in the unigram" in told


def test_utterances_of_another_length_are_left_out(corpus):
    write_archive(corpus, "den.lats", {name: second_version(lattice_of(8)) for name in LENGTHS})
    told: list[str] = []
    (made,) = reader_of(told=told).minibatches(EpochSpec(minibatch_size=99))
    assert made.streams["lattices"].layout.keys == ("utt0",)
    assert "WARNING: left out: sequence 'utt1' has 6 frames in stream 'features', but 8 in stream 'lattices'" in told


def test_archives_in_another_folder(corpus):
    Path("far").mkdir()
    for name in ("den.lats", "den.lats.symlist"):
        Path(name).rename(f"far/{name}")
    text = READER.replace('denlatTocFile="*.lats.toc"', "denlatTocFile=den.lats.toc ; prefixPathInToc=far")
    assert len(rows_of(reader_of(text), "utt1")) == 9


MISTAKES = {
    "frames": (lambda: READER.replace("frameMode=false", "frameMode=true"), "r.cntk:6:12: stream 'lattices' has "
               "lattices, which belong to whole utterances, and frameMode=true"),
    "hmms": (lambda: READER.replace("hmms=[ phoneFile=phones.tying ; transPFile=phones.transitions ]", ""),
             "reader 'HTKMLFReader' has lattices, and no block with phones"),
    "states": (lambda: READER.replace("; labelMappingFile=states.list", ""),
               "reader 'HTKMLFReader' has lattices, and no state list"),
    "twice": (lambda: READER + "more=[ denlatTocFile=den.lats.toc ]",
              "r.cntk:7:8: reader 'HTKMLFReader' has lattices twice: 'lattices' and 'more'"),
    "none": (lambda: READER.replace("*.lats.toc", "*.nothing"),
             "r.cntk:6:12: stream 'lattices' of reader 'HTKMLFReader': there is no file '*.nothing'"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_of_recipes(corpus, name):
    make, message = MISTAKES[name]
    with pytest.raises(CntkError) as caught:
        reader_of(make())
    assert message in str(caught.value)


def change(name: str, old: str, new: str) -> None:
    path = Path(name)
    path.write_text(path.read_text().replace(old, new))


def cut(name: str, count: int) -> None:
    Path(name).write_bytes(Path(name).read_bytes()[:count])


FILES = {
    "toc": (lambda: change("den.lats.toc", "[", "("), "den.lats.toc:1: 'utt0=den.lats(0]' is no lattice of an archive"),
    "end": (lambda: cut("den.lats", 100), "'den.lats', byte 140: the file ends inside a lattice"),
    "tag": (lambda: change("den.lats.toc", "[0]", "[4]"), "'den.lats', byte 4: 'LAT' should stand here, not '\x02"),
    "phone": (lambda: change("phones.tying", "b one", "c one"),
              "the phone 'b' of the lattice 'utt0' is not in phones.tying"),
    "spoken": (lambda: change("train.mlf", "a -1 AA", "e -1 AA"), "train.mlf:6: there is no phone 'e'"),
    "state": (lambda: change("phones.tying", "a[2]", "a[1]"), "phones.tying:1: state 'a[1]' is not in the state list"),
    "transition": (lambda: change("phones.tying", "b one", "b won"),
                   "phones.tying:2: the transition 'won' is not in phones.transitions"),
    "count": (lambda: change("phones.tying", "b one", "b two"),
              "phones.tying:2: the phone 'b' has 1 states, and its transition 'two' 2"),
    "chance": (lambda: change("phones.transitions", "0.75 0.25\ntwo", "0.75 2\ntwo"),
               "phones.transitions:1: the transition 'one' has what is no probability"),
    "chances": (lambda: change("phones.transitions", "one 1 1", "one 1"),
                "phones.transitions:1: the transition 'one' has 3 probabilities, not 4"),
    "archive": (lambda: Path("den.lats").unlink(), "cannot open the lattices 'den.lats': no such file or directory"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_mistakes_of_files(corpus, name):
    spoil, message = FILES[name]
    spoil()
    with pytest.raises(CntkError) as caught:
        list(reader_of().minibatches(EpochSpec()))
    assert message in str(caught.value)


def test_a_phone_with_too_many_frames(corpus):
    lattice = lattice_of(8)
    arcs = (attrs.evolve(lattice.arcs[0], phones=(("sil", 4),)), *lattice.arcs[1:])
    write_archive(corpus, "den.lats", {"utt0": second_version(attrs.evolve(lattice, arcs=arcs))})
    with pytest.raises(CntkError) as caught:
        list(reader_of().minibatches(EpochSpec()))
    assert "'den.lats', byte 0: the phones of an arc have not as many frames as the arc" in str(caught.value)


RECIPE = """
command=Train:Test
precision=double
modelPath=net.dnn
reader=[ READER ]
Train=[
    action=train
    BrainScriptNetworkBuilder=[
        features=Input{3} ; labels=Input{6}
        z=LinearLayer{6}(features)
        sequence=SequenceWithSoftmax(labels, z, z, tag='criterion')
        errors=ClassificationError(labels, z, tag='evaluation')
    ]
    SGD=[ maxEpochs=4 ; minibatchSize=10 ; learningRatesPerSample=0.5 ; momentumPerMB=0
          seqGammarAMF=2 ; seqGammarLMF=1 ; frameDropThresh=0 ; KEYS ]
]
Test=[ action=test ]
"""


@pytest.mark.parametrize(
    "keys", ["", "seqGammarUsesMBR=true", "seqGammarBMMIFactor=0.2", "doReferenceAlign=true ; hSmoothingWeight=1"]
)
def test_a_recipe_learns_by_sequences(corpus, capsys, keys):
    Path("r.cntk").write_text(RECIPE.replace("READER", READER.strip()).replace("KEYS", keys))
    assert main(["configFile=r.cntk"]) == 0, capsys.readouterr().err
    log = capsys.readouterr().err
    found = [float(value) for value in re.findall(r"Finished Epoch.*?sequence = (-?[0-9.]+)", log)]
    assert len(found) == 4
    assert found[-1] < found[0]
    assert "without effect" not in log
