"""What a recipe may do that nobody trusts: where it may write, and which events of Python are refused."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cntk_core import trust
from cntk_core.errors import Location
from cntk_core.trust import Policy, RefusedError, ask_to_load, ask_to_run, ask_to_write, check_folder

WHERE = Location("r.cntk", 3, 5)


@pytest.fixture
def out(tmp_path, monkeypatch) -> Path:
    """The output folder, with a policy that has a folder of the program's own beside it. No hook is needed here."""
    folder, own = tmp_path / "out", tmp_path / "own"
    folder.mkdir()
    own.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trust, "_policy", Policy(folder, (own,)))
    return folder


def refused(call, *arguments, **named) -> str:
    with pytest.raises(RefusedError) as caught:
        call(*arguments, **named)
    return str(caught.value)


def objection(path, **named) -> str:
    return trust.policy().objection(path, **named)


@contextmanager
def nobody_listening() -> Iterator[None]:
    """Without the policy: a test before this one may have left the hook, which no process can take away again."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trust, "_policy", None)
        yield


def test_what_lies_below_the_output_folder_may_be_written(out):
    for path in (out / "a", out / "deep" / "er" / "a.dnn", "out/a", out, os.devnull, out / "a.python"):
        assert objection(path) == ""


def test_what_may_not_be_written(out):
    elsewhere = out.parent / "a"
    assert objection(elsewhere) == f"'{elsewhere}' is not below the output folder '{out}'"
    assert objection("out/../a") == f"'out/../a' is not below the output folder '{out}'"
    assert objection(out.parent / "output") == f"'{out.parent}/output' is not below the output folder '{out}'"
    with nobody_listening():
        (out / "link").symlink_to(elsewhere)
    assert objection(out / "link") == f"'{out}/link', which is '{elsewhere}', is not below the output folder '{out}'"
    for name in (".bashrc", ".git/hooks/a"):
        assert objection(out / name) == f"'{out / name}' is hidden, as files are that other programs obey"
    for name in ("a.py", "A.PYC", "lib.so", "x.pth"):
        assert objection(out / name) == f"'{out / name}' is a file that Python imports or loads"
    with nobody_listening():
        elsewhere.write_text("x", encoding="utf-8")
        os.link(elsewhere, out / "hard")
    assert objection(out / "alone") == ""
    assert objection(out / "hard") == f"'{out}/hard' is a file with another name elsewhere (a hard link)"


def test_folders_of_the_program_are_its_own(out):
    path = out.parent / "own" / ".cache.py"
    assert objection(path) == f"'{path}' is not below the output folder '{out}'"
    assert objection(path, own=True) == ""
    assert objection(out.parent / "other", own=True) != ""


def test_a_policy_makes_its_folder_and_knows_what_is_the_programs_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CNTK_CACHE", str(tmp_path / "kept"))
    made = Policy.of(tmp_path / "a" / "b")
    assert made.folder == tmp_path / "a" / "b"
    assert made.folder.is_dir()
    assert {tmp_path / "cache", tmp_path / "kept"} <= set(made.own)
    assert Policy.of(made.folder) == made
    monkeypatch.delenv("CNTK_CACHE")
    assert set(made.own) - set(Policy.of(made.folder).own) == {tmp_path / "kept"}


def test_who_asks_is_told_with_the_place(out):
    ask_to_write("out/a", key="modelPath", where=WHERE)
    said = refused(ask_to_write, "a", key="modelPath", where=WHERE)
    assert said.splitlines()[0] == f"r.cntk:3:5: --safe: modelPath: 'a' is not below the output folder '{out}'"
    assert refused(ask_to_write, "a").startswith("--safe: 'a' is not below")
    assert refused(ask_to_run, "rm -r", key="command", where=WHERE).splitlines()[0] == (
        "r.cntk:3:5: --safe: command would run a command: rm -r"
    )
    assert refused(ask_to_run, "rm").startswith("--safe: would run a command: rm\n")
    assert refused(ask_to_load, "m.py", key="plugins").startswith("--safe: plugins would load Python code: m.py\n")
    assert refused(ask_to_load, "m.py").startswith("--safe: would load Python code: m.py\n")


def test_without_a_policy_everything_may_be_done(out, monkeypatch):
    monkeypatch.setattr(trust, "_policy", None)
    ask_to_write("/a.py")
    ask_to_run("rm")
    ask_to_load("m.py")
    trust._audit("os.remove", ("/a.py", -1))
    trust._audit("os.system", (b"rm",))


WRITE, READ = os.O_WRONLY | os.O_CREAT, os.O_RDONLY


@pytest.mark.parametrize(
    ("event", "given", "wrong"),
    [
        ("open", ("a", "w", WRITE), "a"),
        ("open", ("a", None, os.O_RDWR), "a"),
        ("open", ("a", "r", READ), ""),
        ("open", ("a", "r", None), ""),
        ("open", ("out/a", "w", WRITE), ""),
        ("open", (b"a", "w", WRITE), "a"),
        ("open", (3, "w", WRITE), ""),
        ("os.mkdir", ("a", 0o777, -1), "a"),
        ("os.mkdir", ("out", 0o777, -1), ""),
        ("os.mkdir", ("own", 0o777, -1), ""),
        ("os.mkdir", ("out/new", 0o777, -1), ""),
        ("os.remove", ("a", -1), "a"),
        ("os.rmdir", ("a", -1), "a"),
        ("os.truncate", ("a", 5), "a"),
        ("os.chmod", ("a", 0o777, -1), "a"),
        ("os.chown", ("a", 1, 1, -1), "a"),
        ("os.utime", ("a", None, None, -1), "a"),
        ("os.setxattr", ("a", "b", b"c", 0), "a"),
        ("os.rename", ("a", "out/b", -1, -1), "a"),
        ("os.rename", ("out/a", "b", -1, -1), "b"),
        ("os.rename", ("out/a", "out/b", -1, -1), ""),
        ("os.link", ("a", "out/b", -1, -1), ""),
        ("os.link", ("out/a", "b", -1, -1), "b"),
        ("os.symlink", ("a", "out/b", -1), ""),
        ("os.symlink", ("out/a", "b", -1), "b"),
        ("os.listdir", ("a",), ""),
    ],
)
def test_events_that_change_files(out, event, given, wrong):
    if not wrong:
        trust._audit(event, given)
        return
    said = refused(trust._audit, event, given).splitlines()[0]
    assert said == f"--safe: '{wrong}' is not below the output folder '{out}'; it would be written, changed or removed"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_names_in_a_folder_that_is_open(out):
    inside, above = os.open(out, os.O_RDONLY), os.open(out.parent, os.O_RDONLY)
    try:
        trust._audit("os.remove", ("a", inside))
        trust._audit("os.rename", ("a", "b", inside, inside))
        trust._audit("os.symlink", ("x", "a", inside))
        for event, given in (
            ("os.remove", ("a", above)),
            ("os.rename", ("a", "b", inside, above)),
            ("os.rename", ("a", "b", above, inside)),
            ("os.link", ("a", "b", inside, above)),
            ("os.symlink", ("x", "a", above)),
            ("os.remove", (str(out.parent / "a"), inside)),
        ):
            assert f"is not below the output folder '{out}'" in refused(trust._audit, event, given)
    finally:
        os.close(inside)
        os.close(above)
    assert "'/a' is not below" in refused(trust._audit, "os.remove", ("a", 10**6))


@pytest.mark.parametrize(
    ("event", "given", "command"),
    [
        ("subprocess.Popen", ("ls", ["ls", "-l"], None, None), "ls -l"),
        ("subprocess.Popen", (b"ls", None, None, None), "ls"),
        ("os.system", (b"ls -a",), "ls -a"),
        ("os.exec", ("/bin/ls", (b"ls", "x"), None), "ls x"),
        ("os.posix_spawn", ("/bin/ls", [], None), "/bin/ls"),
        ("os.spawn", (0, "/bin/ls", ["ls", "y"], None), "ls y"),
    ],
)
def test_programs_are_not_started(out, event, given, command):
    assert refused(trust._audit, event, given).startswith(f"--safe: a program would be started: {command}\n")


@pytest.mark.parametrize("name", trust.OBEYED)
def test_folders_with_files_that_libraries_obey(tmp_path, name):
    check_folder(tmp_path)
    (tmp_path / name).touch()
    said = refused(check_folder, tmp_path)
    assert said.startswith(f"--safe: the folder '{tmp_path}' has a file '{name}', which libraries obey\n")


def test_a_policy_holds_for_a_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sys.dont_write_bytecode
    with trust.trusting_nothing(tmp_path / "out") as made:
        assert trust.policy() is made
        assert sys.dont_write_bytecode
        (tmp_path / "out" / "a").write_text("x", encoding="utf-8")
        with pytest.raises(RefusedError):
            os.system("true")
    assert trust.policy() is None
    assert sys.dont_write_bytecode is before
