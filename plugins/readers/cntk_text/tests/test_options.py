"""The reader's block in a recipe."""

from __future__ import annotations

from pathlib import Path

import pytest
from cntk_reader_cntk_text import CNTKTextFormatReader, TextReaderOptions

from cntk_core.api import CntkError, Problems, ReaderContext
from cntk_core.api.builders import parse_text
from cntk_core.api.readers import Window

WHAT = "reader 'CNTKTextFormatReader'"


def configure(text: str) -> TextReaderOptions:
    return CNTKTextFormatReader.settings_from(parse_text(text, file="r.cntk").section("reader"), WHAT)


def error_of(text: str) -> str:
    with pytest.raises(CntkError) as caught:
        configure(text)
    return str(caught.value)


def test_all_keys() -> None:
    options = configure(
        """
        Dir = data
        precision = double
        reader = [
            readerType = CNTKTextFormatReader
            file = "$Dir$/t.ctf" ; randomize = none ; skipSequenceIds = true ; maxErrors = 3 ; traceLevel = 0
            chunkSizeInBytes = 1000 ; keepDataInMemory = true ; frameMode = true ; randomizationSeed = 7
            input = [
                features = [ alias = f ; dim = 4 ; format = dense ; definesMBSize = true ]
                labels = [ dim = 3 ; format = "sparse" ]
            ]
        ]
        """
    )
    assert options.file == Path("data/t.ctf")
    assert options.window is None
    assert (options.max_errors, options.trace_level, options.chunk_size_in_bytes) == (3, 0, 1000)
    features, labels = options.streams
    assert (features.name, features.alias, features.dim, features.format) == ("features", "f", 4, "dense")
    assert features.defines_mb_size
    assert (labels.name, labels.alias, labels.format) == ("labels", "labels", "sparse")


BLOCK = "reader = [ file = t.ctf ; {} ; input = [ a = [ dim = 1 ; format = dense ] ] ]"


@pytest.mark.parametrize(
    ("keys", "window"),
    [
        ("randomize = auto", Window(128)),
        ("randomize = true ; chunkSizeInBytes = 4294967296", Window(1)),
        ("randomizationWindow = 5", Window(5)),
        ("randomizationWindow = 500 ; sampleBasedRandomizationWindow = true", Window(500, True)),
        ("sampleBasedRandomizationWindow = true", Window()),
        ("randomize = None", None),
        ("randomize = false ; randomizationWindow = 5", None),
        ("randomizationWindow = 0", None),
    ],
)
def test_randomization(keys: str, window: Window | None) -> None:
    assert configure(BLOCK.format(keys)).window == window


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            BLOCK.format("skipSequenceId = true"),
            "r.cntk:1:27: reader 'CNTKTextFormatReader' has no option 'skipSequenceId'; "
            "did you mean 'skipSequenceIds'?",
        ),
        (BLOCK.format("maxErrors = -1"), "r.cntk:1:39: 'maxErrors' must be at least 0, not -1"),
        (BLOCK.format("maxErrors = some"), "r.cntk:1:39: reader:maxErrors must be a whole number, not 'some'"),
        (
            "reader = [ input = [ a = [ dim = 1 ; format = dense ] ] ]",
            "r.cntk:1:1: required parameter missing: reader:file",
        ),
        ("reader = [ file = t.ctf ]", "r.cntk:1:1: reader 'CNTKTextFormatReader' needs the key 'input'"),
        (
            "reader = [ file = t.ctf ; input = [ ] ]",
            "r.cntk:1:35: 'input' of reader 'CNTKTextFormatReader' names no stream",
        ),
        (
            "reader = [ file = t.ctf ; input = [ a = [ alias = x ] ] ]",
            "r.cntk:1:37: stream 'a' of reader 'CNTKTextFormatReader' needs dim and format",
        ),
        (
            "reader = [ file = t.ctf ; input = [ a = [ dim = 1 ; format = dens ] ] ]",
            "r.cntk:1:62: reader:input:a:format must be one of the names below, not 'dens'; did you mean 'dense'?",
        ),
        (
            "reader = [ file = t.ctf ; input = [ a = [ dim = 0 ; format = dense ] ] ]",
            "r.cntk:1:49: 'dim' must be at least 1, not 0",
        ),
        (
            "reader = [ file = t.ctf ; input = [ a = [ dim = 1 ; format = dense ; labelDim = 3 ] ] ]",
            "r.cntk:1:70: stream 'a' of reader 'CNTKTextFormatReader' has no option 'labelDim'",
        ),
        (
            "reader = [ file = t.ctf ; input = [ a = [ dim = 1 ; format = dense ] "
            " ; b = [ alias = a ; dim = 1 ; format = dense ] ] ]",
            "r.cntk:1:91: alias 'a' of stream 'b' is taken by stream 'a'",
        ),
        (
            "reader = [ file = t.ctf ; input = [ a = [ dim = 2147483648 ; format = sparse ] ] ]",
            "r.cntk:1:43: dim=2147483648 of stream 'a' is larger than 2147483647",
        ),
        (
            # So large a stream is accepted.
            "reader = [ file = t.ctf ; input = [ a = [ dim = 2147483647 ; format = sparse ] ; b = [ dim = 1 ] ] ]",
            "r.cntk:1:82: stream 'b' of reader 'CNTKTextFormatReader' needs format",
        ),
        (
            "reader = [ file = t.ctf ; input = [ a = [ dim = 3000000000 ; format = sparse ] ] ]",
            "r.cntk:1:43: dim=3000000000 of stream 'a' is larger than 2147483647",
        ),
        (
            "reader = [ file = t.ctf ; input = [ a = [ dim = 1 ; format = dense ; definesMBSize = true ]"
            " ; b = [ dim = 1 ; format = dense ; definesMBSize = true ] ] ]",
            "r.cntk:1:101: only one stream may have definesMBSize=true, not 'a' and 'b'",
        ),
    ],
)  # fmt: skip
def test_errors(text: str, message: str) -> None:
    assert error_of(text).splitlines()[0] == message


def test_all_errors_together() -> None:
    with pytest.raises(Problems) as caught:
        configure("reader = [ fil = t.ctf ; input = [ a = [ dim = x ; format = dense ] ] ]")
    assert len(caught.value.errors) == 3


def test_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = configure(BLOCK.format("file = none.ctf").replace("file = t.ctf ; ", ""))
    with pytest.raises(CntkError) as caught:
        CNTKTextFormatReader(options, ReaderContext())
    assert str(caught.value) == (
        "r.cntk:1:12: CNTKTextFormatReader: cannot open file 'none.ctf': no such file or directory\n"
        "    A relative name starts at the directory in which the command runs."
    )


def test_a_folder_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.ctf").mkdir()
    with pytest.raises(CntkError) as caught:
        CNTKTextFormatReader(configure(BLOCK.format("")), ReaderContext())
    assert str(caught.value) == "r.cntk:1:12: CNTKTextFormatReader: cannot open file 't.ctf': is a directory"
