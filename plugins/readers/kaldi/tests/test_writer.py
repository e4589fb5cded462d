"""Kaldi2Reader as a writer: archives that Kaldi reads, in files, on the standard output and into commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_reader_kaldi import Kaldi2Writer
from cntk_reader_kaldi.archive import ArchiveFile, ArchiveFiles
from cntk_reader_kaldi.sinks import Specifier
from cntk_reader_kaldi.tables import read_table
from cntk_reader_kaldi.writer import Output, WriterOptions
from test_recipe import write_corpus

from cntk_core.api import CntkError, Config, Location, SequenceOutput, WriterContext
from cntk_core.api.builders import SourceText
from cntk_testing import README, WriterContract
from cntk_testing.inside import trusting_nothing

VALUES = {"one": np.array([[1.5, -2], [3, 4]]), "two": np.array([[0.25, 60], [70, 1], [2, 3]])}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read_archive(path: str) -> dict[str, np.ndarray]:
    """Return the matrices of an archive or list by their keys."""
    files, found = ArchiveFiles(), {}
    table = read_table(path, Location("test"), files, lambda file, at: file.header(at).end)
    assert not table.errors
    for entry in table.entries:
        file = files.get(entry.path)
        header = file.header(entry.offset)
        found[entry.key] = np.zeros((header.rows, header.dim))
        file.read(header, 0, found[entry.key])
    files.close()
    return found


class TestContract(WriterContract):
    recipe = README
    reads_back = True

    @pytest.fixture
    def writer_factory(self):
        def make(folder: Path, context: WriterContext) -> Kaldi2Writer:
            outputs = tuple(
                Output(name=name, dim=dim, archive=Specifier(str(folder / f"{name}.ark")))
                for name, dim in context.outputs.items()
            )
            return Kaldi2Writer(WriterOptions(outputs=outputs), context)

        return make

    def files(self, folder: Path) -> None:
        write_corpus(folder)

    def read_back(self, folder: Path) -> dict[str, list[Any]]:
        """Read the archives."""
        return {name: list(read_archive(f"ark:{folder / name}.ark").values()) for name in self.outputs}


def make(text: str, **outputs: int) -> Kaldi2Writer:
    """Make a writer of a block of text; what it tells is kept in ``writer.told``."""
    block = Config.from_source(SourceText.of(f"outputNodeNames=z\n{text}", "r.cntk"))
    told: list[str] = []
    options = Kaldi2Writer.settings_from(block, "writer 'Kaldi2Reader'")
    writer: Any = Kaldi2Writer(options, WriterContext(outputs or {"z": 2}, trace=told.append))
    writer.told = told
    return writer


def write(writer: Kaldi2Writer, dtype: type = np.float32, keys: dict[str, str] | None = None) -> None:
    for key, values in VALUES.items():
        writer.write({"z": [SequenceOutput((keys or {}).get(key, key), values.astype(dtype))]})
    writer.close()


SMALL = {name: np.where(values > 50, np.log(len(values)), values) for name, values in VALUES.items()}


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray] = SMALL) -> bool:
    return list(found) == list(expected) and all(np.allclose(found[key], expected[key]) for key in expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["ark", "ark,t"])
def test_an_archive(form: str, dtype: type) -> None:
    """Large values become the logarithm of the number of frames, as in CNTK; matrices are in single precision."""
    writer = make(f'z=[ dim=2 ; Kaldicmd="{form}:out/z.ark" ]')
    assert not Path("out/z.ark").exists()
    write(writer, dtype)
    assert same(read_archive("ark:out/z.ark"))
    assert [path.name for path in Path("out").iterdir()] == ["z.ark"]
    data = Path("out/z.ark").read_bytes()
    head = b"one \0BFM \4\2\0\0\0\4\2\0\0\0\0\0\xc0?"
    assert data.startswith(head if form == "ark" else b"one  [\n  1.5 -2.0 \n  3.0 4.0 ]\ntwo  [\n")
    assert writer.told == [
        "evaluate: writing 2 frames of one",
        "WARNING: Kaldi2Reader: 2 values of 'two' are larger than overflowValue=50 and become 1.099",
        "evaluate: writing 3 frames of two",
    ]


def test_a_list_beside_the_archive() -> None:
    write(make('overflowValue=100\nz=[ dim=2 ; Kaldicmd="ark,scp:z.ark,out/z.scp" ]'))
    assert same(read_archive("scp:out/z.scp"), VALUES)
    assert Path("out/z.scp").read_text().splitlines()[0] == "one z.ark:4"


def test_the_standard_output(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each utterance is there at once, and nothing else is."""
    with open(1, "w", encoding="utf-8", closefd=False) as output, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", output)
        writer = make('z=[ dim=2 ; Kaldicmd="ark:-" ]')
        writer.write({"z": [SequenceOutput("one", VALUES["one"].astype(np.float32))]})
        first = capfdbinary.readouterr().out
        writer.close()
        writer.discard()
    Path("z.ark").write_bytes(first)
    assert same(read_archive("ark:z.ark"), {"one": VALUES["one"]})
    assert not capfdbinary.readouterr().out


def test_a_command() -> None:
    write(make('allowCommands=true\nz=[ dim=2 ; Kaldicmd="ark:| cat > z.ark" ]'))
    assert same(read_archive("ark:z.ark"))


def test_a_command_that_is_cut_off() -> None:
    """What it has got is not whole, so it is ended before its input is."""
    writer = make('allowCommands=true\nz=[ dim=2 ; Kaldicmd="ark:| cat > z.ark && mv z.ark whole.ark" ]')
    writer.write({"z": [SequenceOutput("one", VALUES["one"])]})
    writer.discard()
    assert not Path("whole.ark").exists()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("ark:| cat > /dev/null; exit 2", "'| cat > /dev/null; exit 2' failed with status 2"),
        ("ark:none/\0", "embedded null byte"),
    ],
)
def test_what_cannot_be_written(command: str, reason: str) -> None:
    with pytest.raises(CntkError) as caught:
        write(make(f'allowCommands=true\nz=[ dim=2 ; Kaldicmd="{command}" ]'))
    target = command.removeprefix("ark:")
    assert str(caught.value) == f"r.cntk:3:13: '{target}' cannot be written: {reason}"


def test_a_command_that_ends_early() -> None:
    writer = make('allowCommands=true\nz=[ dim=2 ; Kaldicmd="ark:| true" ]')
    large = np.zeros((100_000, 2), dtype=np.float32)
    with pytest.raises(CntkError) as caught:
        writer.write({"z": [SequenceOutput("one", large)] * 9})
    writer.discard()
    assert str(caught.value) == (
        "r.cntk:3:13: '| true' cannot be written: '| true' ended before it had read everything"
    )


def test_a_full_disk() -> None:
    writer = make('z=[ dim=2 ; Kaldicmd="ark:/dev/full" ]')
    with pytest.raises(CntkError) as caught:
        writer.write({"z": [SequenceOutput("one", np.zeros((9999, 2)))]})
    writer.discard()
    assert str(caught.value) == "r.cntk:2:13: '/dev/full' cannot be written: No space left on device"
    writer = make('z=[ dim=2 ; Kaldicmd="ark:/dev/full" ]')
    writer.write({"z": [SequenceOutput("one", np.zeros((1, 2)))]})
    with pytest.raises(CntkError, match="No space left on device"):
        writer.close()
    writer.discard()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_file_for_each_utterance(dtype: type) -> None:
    """A list names the files; a key is the file's name without its ending."""
    Path("files.scp").write_text("out/two.mat\nout/one.mat 2\n")
    write(make("z=[ dim=2 ; scpFile=files.scp ]"), dtype)
    assert {path.name for path in Path("out").iterdir()} == {"one.mat", "two.mat"}
    assert same(read_archive("ark:out/one.mat"), {"one": SMALL["one"]})
    assert same(read_archive("ark:out/two.mat"), {"two": SMALL["two"]})
    assert Path("out/one.mat").read_bytes()[6:8] == (b"FM" if dtype is np.float32 else b"DM")


def test_keys_of_the_list() -> None:
    """Utterances are looked for by their keys; without keys they come in the order of the list."""
    Path("counts").write_text("x/two.a.mfc 3\none 2\n")
    text = 'overflowValue=100\nz=[ dim=2 ; Kaldicmd="ark:z.ark" ; scpFile=counts ]'
    write(make(text), keys={"two": "two.a"})
    assert same(read_archive("ark:z.ark"), {"one": VALUES["one"], "two.a": VALUES["two"]})
    write(make(text), keys={"one": "", "two": ""})
    assert same(read_archive("ark:z.ark"), {"two.a": VALUES["one"], "one": VALUES["two"]})
    writer = make(text)
    with pytest.raises(CntkError) as caught:
        write(writer, keys={"one": "three"})
    writer.discard()
    assert str(caught.value) == (
        "r.cntk:3:36: Kaldi2Reader: utterance 1 ('three') is not in the list of 'z', which has 2\n"
        "    The list needs a line for each utterance that is read."
    )


def test_without_keys_utterances_are_numbered() -> None:
    write(make('z=[ dim=2 ; Kaldicmd="ark:z.ark" ]'), keys={"one": "", "two": ""})
    assert list(read_archive("ark:z.ark")) == ["0", "1"]


def test_what_is_no_number_is_told() -> None:
    writer = make('maxNumOverflowWarning=1\nz=[ dim=1 ; Kaldicmd="ark:z.ark" ]', z=1)
    for key in ("one", "two"):
        writer.write({"z": [SequenceOutput(key, np.array([[np.nan], [np.inf], [-np.inf]], dtype=np.float32))]})
    writer.close()
    assert writer.told == [
        "WARNING: Kaldi2Reader: 3 values of 'one' are not finite (3 frames)",
        "WARNING: Kaldi2Reader: 1 values of 'one' are larger than overflowValue=50 and become 1.099",
        "evaluate: writing 3 frames of one",
        "WARNING: Kaldi2Reader: 3 values of 'two' are not finite (3 frames)",
        "evaluate: writing 3 frames of two",
    ]


FORMS = (
    "\n    Kaldicmd is ark:FILE, ark,t:FILE (as text), ark,scp:FILE,LIST, ark:- (the standard output) or ark:| COMMAND."
)
BLOCKS = {
    "nothing": ("z=[ dim=2 ]", "r.cntk:2:1: output 'z' of writer 'Kaldi2Reader' has neither Kaldicmd nor scpFile\n"
                '    Kaldicmd="ark:FILE" writes an archive; scpFile alone is a list of files, one for each utterance.'),
    "specifier": ('z=[ dim=2 ; Kaldicmd="z.ark" ]', "r.cntk:2:13: 'z.ark' does not say where an archive goes" + FORMS),
    "list alone": ('z=[ dim=2 ; Kaldicmd="scp:z.scp" ]', "r.cntk:2:13: 'scp:z.scp' does not say where an archive goes"
                   + FORMS),
    "one file": ('z=[ dim=2 ; Kaldicmd="ark,scp:z.scp" ]', "r.cntk:2:13: 'ark,scp:z.scp' needs the names of two files"
                 + FORMS),
    "list of the output": ('z=[ dim=2 ; Kaldicmd="ark,scp:-,z.scp" ]', "r.cntk:2:13: 'ark,scp:-,z.scp' needs the names "
                           "of two files" + FORMS),
    "command": ('z=[ dim=2 ; Kaldicmd="ark:| gzip" ]', "r.cntk:2:13: the command '| gzip' is not run\n"
                "    allowCommands=true in the reader's block runs it."),
    "type": ('z=[ dim=2 ; type=category ; Kaldicmd="ark:z" ]', "r.cntk:2:13: the type of output 'z' must be real"),
    "dim": ('z=[ dim=3 ; Kaldicmd="ark:z" ]', "r.cntk:2:5: the node 'z' has 2 values, not dim=3\n    Set dim=2."),
    "node": ('outputNodeNames=y\ny=[ dim=2 ; Kaldicmd="ark:z" ]', "r.cntk:3:13: Kaldi2Reader: the action writes no "
             "node 'y'\n    It writes: z; outputNodeNames of the section says which."),
    "no nodes": ("outputNodeNames=default", "r.cntk: writer 'Kaldi2Reader' has no outputNodeNames\n"
                 '    outputNodeNames=z ; writer=[ ... z=[ dim=... ; Kaldicmd="ark:z.ark" ] ]'),
    "list": ("z=[ dim=2 ; scpFile=none ]", "r.cntk:2:13: cannot open the list of utterances to write 'none': no such "
             "file or directory\n    A relative name starts at the directory in which the command runs."),
    "twice": ('outputNodeNames=y:z\ny=[ dim=2 ; Kaldicmd="ark:-" ]\nz=[ dim=2 ; Kaldicmd="ark:-" ]',
              "r.cntk: writer 'Kaldi2Reader': two outputs are written to '-'\n"
              "    Each archive has the values of one node."),
}  # fmt: skip


@pytest.mark.parametrize("case", BLOCKS)
def test_blocks(case: str) -> None:
    text, message = BLOCKS[case]
    with pytest.raises(CntkError) as caught:
        make(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('allowCommands=true\nz=[ dim=2 ; Kaldicmd="ark:| cat" ]', "r.cntk:3:13: --safe: Kaldicmd would run a "),
        ('z=[ dim=2 ; Kaldicmd="ark:../z.ark" ]', "r.cntk:2:13: --safe: Kaldicmd: '../z.ark'"),
        ('z=[ dim=2 ; Kaldicmd="ark,scp:out/z.ark,../z.scp" ]', "r.cntk:2:13: --safe: Kaldicmd: '../z.scp'"),
        ("z=[ dim=2 ; scpFile=files.scp ]", "r.cntk:2:13: --safe: scpFile: '../one.mat'"),
    ],
)  # fmt: skip
def test_safe(tmp_path: Path, text: str, message: str) -> None:
    Path("files.scp").write_text("../one.mat\n")
    with trusting_nothing(tmp_path / "out"), pytest.raises(CntkError) as caught:
        make(text)
    assert str(caught.value).startswith(message)


def test_an_archive_that_is_there_is_replaced_at_the_end() -> None:
    Path("z.ark").write_bytes(b"old")
    writer = make('z=[ dim=2 ; Kaldicmd="ark:z.ark" ]')
    writer.write({"z": [SequenceOutput("one", VALUES["one"])]})
    writer.discard()
    assert Path("z.ark").read_bytes() == b"old"
    assert [path.name for path in Path().iterdir()] == ["z.ark"]
    write(make('z=[ dim=2 ; Kaldicmd="ark:z.ark" ]'))
    file = ArchiveFile("z.ark")
    assert file.next_key(0) == ("one", 4)
    file.close()
