"""``cntk kaldi-prepare``: commands are shown, run after asking, and their archives take their place."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from cntk_reader_kaldi.prepare import prepare
from cntk_reader_kaldi.verb import KaldiPrepare
from kaldi_bytes import LENGTHS, alignment, archive, classes_of, frames_of, matrix
from test_reader import expected, utterances

from cntk_core.api import CntkError
from cntk_testing import VerbContract
from cntk_testing.inside import trusting_nothing

NETWORK = "SimpleNetworkBuilder=[ layerSizes=2:3 ]"
RECIPE = f"""command = Train
Train = [
    action = train
    {NETWORK}
    SGD = [ maxEpochs = 1 ]
    reader = [
        readerType = Kaldi2Reader
        features = [ dim = 2 ; scpFile = "scp:feats.scp" ]
        labels = [ labelDim = 3 ; mlfFile = labels.rx ]
    ]
    cvReader = [
        readerType = Kaldi2Reader
        features = [ dim = 2 ; rx = "scp:sort feats.scp |" ]
        labels = [ labelDim = 3 ; mlfFile = "ark:cat ali.ark |" ]
    ]
]
"""


def write_files(folder: Path) -> None:
    data, offsets = archive({name: matrix(frames_of(name)) for name in LENGTHS})
    (folder / "feats.ark").write_bytes(data)
    (folder / "feats.scp").write_text("".join(f"{name} feats.ark:{at}\n" for name, at in offsets.items()))
    (folder / "ali.ark").write_bytes(archive({name: alignment(classes_of(name)) for name in LENGTHS})[0])
    (folder / "labels.rx").write_text("ark:cat ali.ark |\n")
    (folder / "r.cntk").write_text(RECIPE)


class TestVerb(VerbContract):
    verb_class = KaldiPrepare
    command_lines = (
        ("r.cntk", "--yes"),
        ("r.cntk", "--section", "Train", "--to", "elsewhere", "--yes"),
        ("none.cntk",),
    )

    def prepare(self, folder: Path) -> None:
        """A recipe with commands, and one without."""
        write_files(folder)
        (folder / "none.cntk").write_text(
            RECIPE.replace("ark:cat ali.ark |", "ark:ali.ark").replace("scp:sort feats.scp |", "scp:feats.scp")
            .replace("labels.rx", "ali.ark")
        )  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    return tmp_path


WORDS = ["configFile=r.cntk"]
SHOWN = """Train-reader-labels  (labels.rx:1)
    cat ali.ark |
Train-cvReader-features  (r.cntk:13:32)
    sort feats.scp |
Train-cvReader-labels  (r.cntk:14:35)
    cat ali.ark |
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("agreed", [True, False])
def test_what_is_shown_and_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, agreed: bool
) -> None:
    """The same command is run once."""
    asked: list[str] = []
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or "Yes")
    assert prepare(WORDS, Path("out"), agreed=agreed) == 0
    assert asked == ([] if agreed else ["Run these 2 commands? [y/N] "])
    assert capsys.readouterr().out == (
        f"""{SHOWN}out/Train-reader-labels.ark: 5 utterances
out/Train-cvReader-features.scp: a list
Put in the place of the commands:
    in the file labels.rx: ark:out/Train-reader-labels.ark
    r.cntk:13:32: rx = scp:out/Train-cvReader-features.scp
    r.cntk:14:35: mlfFile = ark:out/Train-reader-labels.ark
"""
    )
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "Train-cvReader-features.scp",
        "Train-reader-labels.ark",
    ]
    assert Path("out/Train-reader-labels.ark").read_bytes() == Path("ali.ark").read_bytes()


def test_what_was_written_takes_the_place_of_the_commands(make) -> None:
    prepare(WORDS, Path("out"), agreed=True)
    text = ("frameMode=false\nreadMethod=none\nfeatures=[ dim=2 ; rx=\"scp:out/Train-cvReader-features.scp\" ]\n"
            "labels=[ labelDim=3 ; mlfFile=\"ark:out/Train-reader-labels.ark\" ]")  # fmt: skip
    reader = make(text)
    assert utterances(reader) == expected(sorted(LENGTHS))


@pytest.mark.parametrize("answer", ["", "n", "no way", EOFError])
def test_nothing_is_run_without_a_yes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    def reply(text: str) -> str:
        if answer is EOFError:
            raise EOFError
        return str(answer)

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", reply)
    assert prepare(WORDS, Path("out")) == 1
    assert capsys.readouterr().out == f"{SHOWN}Nothing was run.\n"
    assert not Path("out").exists()


def test_nobody_to_ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert prepare(WORDS, Path("out")) == 1
    line = "--yes runs them; without it somebody has to be asked, and nobody is there."
    assert capsys.readouterr().out == f"{SHOWN}{line}\nNothing was run.\n"


def test_a_list_with_commands(capsys: pytest.CaptureFixture[str], make) -> None:
    """What is no command stays as it is."""
    for name in LENGTHS:
        Path(f"{name}.mat").write_bytes(matrix(frames_of(name)))
    lines = [f"{name} cat {name}.mat |" for name in LENGTHS if name != "utt-c"]
    Path("feats.scp").write_text("\n".join(["utt-c utt-c.mat", *lines]))
    one = "command=T\nT=[ action=train ; reader=[ readerType=Kaldi2Reader ; x=[ dim=2 ; scpFile=feats.scp ] ] ]\n"
    Path("one.cntk").write_text(one)
    assert prepare(["configFile=one.cntk"], Path("out"), agreed=True) == 0
    printed = capsys.readouterr().out
    assert "T-reader-x  (one.cntk:2:67)\n    cat utt-a.mat |\n" in printed
    assert "one.cntk:2:67: scpFile = scp:out/T-reader-x.scp" in printed
    reader = make("frameMode=false\nreadMethod=none\nx=[ dim=2 ; scpFile=out/T-reader-x.scp ]")
    assert utterances(reader, "x") == expected(["utt-c", "utt-a", "utt-b", "utt-d", "utt-e"])


def test_only_some_of_many_commands_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    Path("feats.scp").write_text("".join(f"u{number} cat utt.mat |\n" for number in range(7)))
    Path("utt.mat").write_bytes(matrix(np.ones((1, 2))))
    one = "command=T\nT=[ action=train ; reader=[ readerType=Kaldi2Reader ; x=[ dim=2 ; scpFile=feats.scp ] ] ]\n"
    Path("one.cntk").write_text(one)
    assert prepare(["configFile=one.cntk"], Path("out"), agreed=True) == 0
    assert capsys.readouterr().out.splitlines()[5:8] == [
        "    cat utt.mat |", "    ... and 2 more", "out/T-reader-x.ark: 7 utterances"
    ]  # fmt: skip


def test_parts_of_composites_and_two_sections(capsys: pytest.CaptureFixture[str]) -> None:
    Path("one.cntk").write_text(
        """command=T:U
        T=[ action=train ; reader=[ deserializers=(
            [ type=KaldiFeatureDeserializer ; input=[ x=[ dim=2 ; scpFile="ark:cat feats.ark |" ] ] ]:
            [ type=KaldiAlignmentDeserializer ; input=[ y=[ labelDim=3 ; mlfFile="ark:cat ali.ark |" ] ] ]) ] ]
        U=[ action=test ; reader=[ readerType=Kaldi2Reader ; z=[ dim=2 ; scpFile="ark:cat feats.ark |" ] ] ]"""
    )
    assert prepare(["configFile=one.cntk"], Path("out"), agreed=True) == 0
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines() if "  (" in line] == [
        "T-reader-1-x", "T-reader-2-y", "U-reader-z"
    ]  # fmt: skip
    assert prepare(["configFile=one.cntk"], Path("out"), section="U", agreed=True) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if "  (" in line] == ["U-reader-z"]


FAILING = {
    "fails": ("echo so >&2; exit 3", "labels.rx:1: the command 'echo so >&2; exit 3 |' failed with status 3\n    so"),
    "nothing": ("true", "labels.rx:1: the command gave nothing\n    Run it yourself to see what it says."),
    "no archive": (
        "echo one two",
        "labels.rx:1: 'what the command gave (Train-reader-labels)', byte 4: 'two' is neither an alignment nor a "
        "posterior\n"
        "    An alignment is the classes of the frames; a posterior [ class weight ... ].",
    ),
}


@pytest.mark.parametrize("case", FAILING)
def test_commands_that_fail(case: str) -> None:
    command, message = FAILING[case]
    Path("labels.rx").write_text(f"ark:{command} |\n")
    with pytest.raises(CntkError) as caught:
        prepare(WORDS, Path("out"), agreed=True)
    assert str(caught.value) == message
    assert list(Path("out").iterdir()) == []


def test_safe() -> None:
    Path("labels.rx").write_text("ark:touch done; cat ali.ark |\n")
    with trusting_nothing(Path("out")), pytest.raises(CntkError) as caught:
        prepare(WORDS, Path("out"), agreed=True)
    assert str(caught.value).startswith("labels.rx:1: --safe: would run a command: touch done; cat ali.ark |")
    assert not Path("done").exists()


def test_an_archive_that_cannot_be_written() -> None:
    Path("out").mkdir()
    Path("out/Train-reader-labels.ark").mkdir()
    with pytest.raises(CntkError) as caught:
        prepare(WORDS, Path("out"), agreed=True)
    assert str(caught.value) == "labels.rx:1: 'out/Train-reader-labels.ark' cannot be written: Is a directory"
