"""A console that is closed, full or gone is no reason to end."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys

import pytest

from cntk_core.system import console


class Broken(io.StringIO):
    """A stream that the system refuses to write to."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def write(self, text: str) -> int:
        raise OSError(self.number, os.strerror(self.number))

    def flush(self) -> None:
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize("number", [errno.EPIPE, errno.EIO, errno.ENOSPC])
def test_a_stream_that_cannot_be_written(monkeypatch, number):
    monkeypatch.setattr(sys, "stderr", Broken(number))
    assert not console.tell("a line")
    console.leave()
    steady = console.SteadyStream(sys.stderr)
    assert steady.write("text") == 4
    steady.flush()
    assert not steady.isatty()


def test_a_stream_that_is_not_there(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert not console.tell("a line")
    console.leave()
    closed = io.StringIO()
    closed.close()
    assert not console.write_line(closed, "a line")


def test_a_stream_that_can(capsys):
    assert console.tell("a line")
    console.SteadyStream(sys.stderr).write("more\n")
    console.leave()
    assert capsys.readouterr().err == "a line\nmore\n"


def test_a_pipe_that_nobody_reads_any_more(monkeypatch):
    """From the first failure on nobody meets another one, whoever writes to it."""
    read, write = os.pipe()
    with open(write, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        assert console.tell("a line")
        os.close(read)
        assert not console.tell("a line")
        assert os.write(stream.fileno(), b"of a library") == 12
        assert console.tell("a line")


MISSING = """
import os, sys
from cntk_core.system.console import open_missing
open_missing()
print("out", file=sys.stdout, flush=True)
print("error", file=sys.stderr, flush=True)
assert sys.stdin.read() == ""
with open(sys.argv[1], "w") as file:
    assert file.fileno() > 2, "a library that prints would write into it"
    os.write(2, b"of a library")
    file.write("whole")
"""


def test_streams_that_were_closed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(MISSING)
    command = f"{sys.executable} {script} {tmp_path}/file <&- >&- 2>&-"
    assert subprocess.run(command, shell=True, check=False, timeout=60).returncode == 0
    assert (tmp_path / "file").read_text() == "whole"


def test_what_was_opened_to_let_go_of_a_stream_is_closed(tmp_path):
    with open(tmp_path / "told", "w", encoding="utf-8") as stream:
        before = os.listdir("/proc/self/fd")
        console.abandon(stream)
        assert len(os.listdir("/proc/self/fd")) == len(before)
        stream.write("a line\n")
    assert (tmp_path / "told").read_text(encoding="utf-8") == ""


def test_what_is_left_is_written_at_the_end(monkeypatch):
    told: list[str] = []
    stream = io.TextIOWrapper(io.BufferedWriter(io.BytesIO()), encoding="utf-8")
    monkeypatch.setattr(stream, "flush", lambda: told.append("flushed"), raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    console.leave()
    assert told == ["flushed"]
