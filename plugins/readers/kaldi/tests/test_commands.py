"""Commands in specifiers: run where the recipe allows it, refused elsewhere, and told when they fail."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from kaldi_bytes import LENGTHS, F, L, classes_of, frames_of, matrix
from test_reader import ORDER, expected, utterances

from cntk_core.api import CntkError, EpochSpec
from cntk_testing.inside import trusting_nothing

ALLOWED = f"frameMode=false\nallowCommands=true\n{ORDER}"
PIPED = L.replace("ark:ali.ark", "ark:cat ali.ark |")


def test_an_archive_that_a_command_writes(make) -> None:
    reader = make(f"{ALLOWED}{F}{PIPED}")
    assert utterances(reader) == expected()
    labels = utterances(reader, "labels")
    assert {name: np.argmax(rows, axis=1).tolist() for name, rows in labels.items()} == {
        name: classes_of(name) for name in LENGTHS
    }
    assert not list(reader.check())


def test_what_a_command_says_is_told(make) -> None:
    reader = make(f"{ALLOWED}{F}{PIPED.replace('cat', 'echo one >&2; echo two >&2; cat')}")
    assert reader.told == ["one", "two"]
    reader = make(f"{ALLOWED}{F}{PIPED.replace('cat', 'seq 43 >&2; cat')}")
    assert reader.told[-2:] == ["40", "... and 3 more lines of 'seq 43 >&2; cat ali.ark |'"]
    assert len(reader.told) == 41


def test_a_list_that_a_command_writes(make) -> None:
    features = F.replace("feats.scp", '"scp:grep -v utt-b feats.scp |"')
    assert utterances(make(ALLOWED + features)) == expected(["utt-a", "utt-c", "utt-d", "utt-e"])


def test_commands_of_a_list(make) -> None:
    """Some lines are commands, and give what stands behind the key in an archive."""
    for name in LENGTHS:
        Path(f"{name}.mat").write_bytes(matrix(frames_of(name)))
    Path("feats.scp").write_text(
        "".join(f"{name} {'cat ' * (name != 'utt-c')}{name}.mat{' |' * (name != 'utt-c')}\n" for name in LENGTHS)
    )
    reader = make(ALLOWED + F)
    assert utterances(reader) == expected()


def test_the_file_of_rx_may_name_a_command(make) -> None:
    Path("feats.rx").write_text("ark,s,cs:cat feats.ark |\n")
    Path("labels.rx").write_text('ark:cat "ali.ark" | cat |\n')
    text = f"{ALLOWED}features=[ dim=2 ; rx=feats.rx ]\nlabels=[ labelDim=3 ; mlfFile=labels.rx ]\n"
    assert utterances(make(text)) == expected()


def test_what_commands_gave_is_removed(make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    reader = make(f"{ALLOWED}{F}{PIPED}")
    assert len(os.listdir("t")) == 1
    reader.close()
    assert os.listdir("t") == []
    with pytest.raises(CntkError):
        make(f"{ALLOWED}{F}{PIPED.replace('cat ali.ark', 'false')}")
    assert os.listdir("t") == []


FAILING = {
    "fails": ("echo so >&2; exit 3", "r.cntk:5:23: the command 'echo so >&2; exit 3 |' failed with status 3\n    so"),
    "silently": ("false", "r.cntk:5:23: the command 'false |' failed with status 1\n    It says nothing."),
    "the first of a pipe": (
        "cat none.ark 2>/dev/null | cat",
        "r.cntk:5:23: the command 'cat none.ark 2>/dev/null | cat |' failed with status 1\n    It says nothing.",
    ),
    "no archive": ("echo", None),
    "damaged": (
        "head -c 20 ali.ark",
        "r.cntk:5:23: 'head -c 20 ali.ark |', byte 20: the file ends inside an alignment of 6 frames\n"
        "    The file is damaged or was not copied to its end.",
    ),
}


@pytest.mark.parametrize("case", FAILING)
def test_failing_commands(make, case: str) -> None:
    command, message = FAILING[case]
    with pytest.raises(CntkError) as caught:
        list(make(ALLOWED + F + PIPED.replace("cat ali.ark", command)).minibatches(EpochSpec(9)))
    if message is None:
        assert "is not in stream 'labels' (echo |)" in str(caught.value)
    else:
        assert str(caught.value) == message


def test_a_long_command_that_fails_is_cut(make) -> None:
    command = "false " + "x" * 99
    with pytest.raises(CntkError) as caught:
        make(ALLOWED + F + PIPED.replace("cat ali.ark", command))
    assert caught.value.message == f"the command '{command[:60]}...' failed with status 1"


def test_a_program_may_read_less_than_another_writes(make) -> None:
    """A pipe is not wrong because its first program was cut off: it has status 141."""
    with Path("many").open("wb") as file:
        file.write(b"x" * 300_000)
    reader = make(f"{ALLOWED}{F}{PIPED.replace('cat ali.ark', 'cat many | head -c 1 >/dev/null; cat ali.ark')}")
    assert utterances(reader) == expected()
    command = f"cat ali.ark many many | head -c {Path('ali.ark').stat().st_size}"
    assert utterances(make(f"{ALLOWED}{F}{PIPED.replace('cat ali.ark', command)}")) == expected()


@pytest.mark.parametrize(("text", "where"), [(F + PIPED, "r.cntk:4:23"), (F.replace("feats", "cmd"), "cmd.scp:1")])
def test_safe_refuses_commands(make, tmp_path: Path, text: str, where: str) -> None:
    Path("cmd.scp").write_text("utt-a touch done; cat feats.ark |\n")
    with trusting_nothing(tmp_path / "out"), pytest.raises(CntkError) as caught:
        make("allowCommands=true\n\n" + text.replace("cat ali", "touch done; cat ali"))
    assert str(caught.value).startswith(f"{where}: --safe: would run a command: touch done; cat ")
    assert not Path("done").exists()


def test_commands_are_not_run_unless_the_recipe_allows_it(make) -> None:
    Path("feats.scp").write_text("utt-a touch done; cat feats.ark |\n")
    with pytest.raises(CntkError):
        list(make(f"frameMode=false\n{F}").minibatches(EpochSpec(9)))
    with pytest.raises(CntkError):
        make(F + PIPED.replace("cat", "touch done; cat"))
    assert not Path("done").exists()


def test_no_shell(make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cntk_reader_kaldi.commands.shell", lambda command: ["/no/such/shell", command])
    with pytest.raises(CntkError) as caught:
        make(ALLOWED + F + PIPED)
    assert str(caught.value) == "r.cntk:5:23: the command 'cat ali.ark |' cannot be run: No such file or directory"


def test_without_bash_the_plain_shell_runs_commands(make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert utterances(make(f"{ALLOWED}{F}{PIPED}")) == expected()


def test_entries_of_an_archive_that_is_named_twice(make) -> None:
    """Two readers of the same command run it for themselves."""
    Path("counted.sh").write_text("echo x >> runs; cat ali.ark\n")
    text = f"{ALLOWED}{F}{L.replace('ark:ali.ark', 'ark:sh counted.sh |')}"
    first, second = make(text), make(text)
    assert utterances(first) == utterances(second)
    assert Path("runs").read_text() == "x\nx\n"
