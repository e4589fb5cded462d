"""Compiled code on disk: what is believed, what is thrown away, how much is kept, and what a bad folder costs."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from cntk_kit_engines import code_cache, trust
from cntk_kit_engines.code_cache import CodeCache

CODE = b"machine code" * 100


@pytest.fixture
def cache(tmp_path):
    return CodeCache("ours", tmp_path / "kept", title="functions")


def again(cache, **more):
    """The same folder as a later process has it."""
    return CodeCache("ours", cache.folder, title="functions", **more)


def path_of(cache, identity="f(x)"):
    return cache.folder / code_cache._name(identity)


def test_what_was_written_is_read(cache):
    assert cache.read("f(x)") is None
    cache.write("f(x)", CODE)
    cache.write("g(x)", b"")
    later = again(cache)
    assert [later.read("f(x)"), later.read("g(x)"), later.read("h(x)")] == [CODE, b"", None]
    state = later.state()
    assert (state.folder, state.entries, state.damaged, state.problem) == (cache.folder, 2, 0, "")
    assert state.size == sum(path.stat().st_size for path in cache.folder.iterdir())


def test_the_folders_are_for_the_user_alone(tmp_path):
    old = os.umask(0)
    try:
        cache = CodeCache("ours", tmp_path / "a" / "b", title="functions")
        cache.write("f(x)", CODE)
        cache.write("f(x)", CODE)
    finally:
        os.umask(old)
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "a", tmp_path / "a" / "b")] == [0o700, 0o700]
    assert path_of(cache).stat().st_mode & 0o777 == 0o600
    assert again(cache).read("f(x)") == CODE


def test_each_bit_counts(cache, caplog):
    cache.write("f(x)", b"code")
    path = path_of(cache)
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        assert cache.read("f(x)") is None
        assert not path.exists()
    assert len(caplog.messages) == len(data)


def test_each_length_counts(cache, caplog):
    cache.write("f(x)", b"code")
    path = path_of(cache)
    data = path.read_bytes()
    for length in [*range(len(data)), len(data) + 1]:
        path.write_bytes((data + b"\n")[:length])
        assert cache.read("f(x)") is None
    assert len(caplog.messages) == len(data) + 1


def test_what_was_compiled_from_something_else(cache, caplog):
    cache.write("g(x)", CODE)
    path_of(cache, "g(x)").rename(path_of(cache))
    assert again(cache).state().damaged == 1
    assert cache.read("f(x)") is None
    assert caplog.messages == [
        f"compiled code in '{path_of(cache)}' was compiled from something else; it is thrown away and compiled anew"
    ]


def test_a_link_is_not_followed(cache, tmp_path, caplog):
    cache.write("f(x)", CODE)
    path_of(cache).rename(tmp_path / "elsewhere")
    path_of(cache).symlink_to(tmp_path / "elsewhere")
    assert cache.read("f(x)") is None
    assert caplog.messages == [
        f"compiled code in '{path_of(cache)}' cannot be read (Too many levels of symbolic links); it is compiled anew"
    ]
    cache.write("f(x)", CODE)
    assert cache.read("f(x)") == CODE
    assert (tmp_path / "elsewhere").exists()


def test_a_pipe_does_not_wait(cache, caplog):
    cache.write("f(x)", CODE)
    path_of(cache).unlink()
    os.mkfifo(path_of(cache))
    assert cache.read("f(x)") is None
    assert caplog.messages == [f"compiled code in '{path_of(cache)}' is no file; it is thrown away and compiled anew"]


def test_a_file_that_others_may_write(cache, caplog):
    cache.write("f(x)", CODE)
    path_of(cache).chmod(0o620)
    assert cache.read("f(x)") is None
    assert caplog.messages == [
        f"compiled code in '{path_of(cache)}' is not the user's own: '{path_of(cache)}' can be written by others "
        "(mode 0620); it is thrown away and compiled anew"
    ]


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_may_write(cache, caplog, mode):
    cache.write("f(x)", CODE)
    folder = cache.folder
    folder.chmod(mode)
    later = CodeCache("ours", folder, title="functions")
    assert later.read("f(x)") is None
    later.write("g(x)", CODE)
    assert later.read("g(x)") is None
    problem = f"'{folder}' can be written by others (mode {mode:04o})"
    assert caplog.messages == [
        "compiled functions are not kept, each run compiles them anew: "
        f"{problem}, so that others could have code run here; chmod go-w '{folder}' mends it"
    ]
    state = later.state()
    assert (state.entries, state.problem, state.mend) == (1, problem, f"chmod go-w '{folder}' mends it")


@pytest.mark.parametrize(("mode", "kept"), [(0o777, False), (0o1777, True), (0o755, True)])
def test_the_folders_above(tmp_path, mode, kept):
    """Where others may write, they could put a folder in place of ours; not if it is sticky."""
    (tmp_path / "above").mkdir()
    (tmp_path / "above").chmod(mode)
    cache = CodeCache("ours", tmp_path / "above" / "kept", title="functions")
    cache.write("f(x)", CODE)
    assert (cache.read("f(x)") == CODE) == kept


@pytest.mark.parametrize(("members", "kept"), [([], True), (["somebody"], False)])
def test_a_group_of_the_users_own_above(tmp_path, monkeypatch, members, kept):
    """With a group for each user, home folders may be writable by that group."""
    grp, pwd = pytest.importorskip("grp"), pytest.importorskip("pwd")
    user = pwd.getpwuid(os.geteuid())
    (tmp_path / "above").mkdir()
    (tmp_path / "above").chmod(0o775)
    gid = (tmp_path / "above").stat().st_gid
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: type(user)((*user[:3], gid, *user[4:])))
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((user.pw_name, "x", gid, members)))
    cache = CodeCache("ours", tmp_path / "above" / "kept", title="functions")
    assert (cache.folder is not None) == kept


@pytest.mark.parametrize(
    ("owner", "problem"), [(4711, "'/x' belongs to the user 4711"), (12345, ""), (0, "")], ids=["other", "own", "root"]
)
def test_whose_it_is(monkeypatch, owner, problem):
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(trust, "_user", lambda uid: f"the user {uid}")
    status = os.stat_result((0o40700, 1, 1, 2, owner, 4711, 0, 0, 0, 0))
    mend = "set CNTK_CACHE to a folder of your own" if problem else ""
    assert trust.reason_to_distrust(Path("/x"), status) == (problem, mend)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("function", ["tempfile.mkstemp", "os.fdopen", "os.replace"])
def test_a_disk_that_cannot_be_written(cache, caplog, monkeypatch, function, code):
    """One line, whatever fails; nothing is left behind."""
    assert cache.folder is not None

    def fail(*arguments, **named):
        if function == "os.fdopen":
            os.close(arguments[0])
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(function, fail)
        cache.write("f(x)", CODE)
        cache.write("g(x)", CODE)
    assert caplog.messages == [
        "compiled functions are not kept, each run compiles them anew: "
        f"'{cache.folder}' cannot be written: {os.strerror(code)}"
    ]
    assert list(cache.folder.iterdir()) == []
    cache.write("f(x)", CODE)
    assert cache.read("f(x)") is None


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_a_disk_that_cannot_be_read(cache, caplog, monkeypatch, code):
    def fail(*arguments):
        raise OSError(code, os.strerror(code))

    cache.write("f(x)", CODE)
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", fail)
        assert cache.read("f(x)") is None
    assert caplog.messages == [
        f"compiled code in '{path_of(cache)}' cannot be read ({os.strerror(code)}); it is compiled anew"
    ]
    assert cache.read("f(x)") == CODE


def test_a_folder_that_cannot_be_made(tmp_path, caplog, monkeypatch):
    def fail(self, *arguments, **named):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", fail)
    cache = CodeCache("ours", tmp_path / "kept", title="functions")
    cache.write("f(x)", CODE)
    assert cache.read("f(x)") is None
    assert caplog.messages == [
        "compiled functions are not kept, each run compiles them anew: "
        f"'{tmp_path}/kept' cannot be used: Read-only file system"
    ]
    assert cache.state().problem == ""


def test_the_oldest_go(cache):
    size = len(code_cache._packed("f00", CODE))
    small = again(cache, limit=8 * size)
    for number in range(8):
        small.write(f"f{number:02}", CODE)
        os.utime(path_of(cache, f"f{number:02}"), (number + 1e9, number + 1e9))
    assert small.state().entries == 8
    small.write("f08", CODE)
    assert [small.read(f"f{number:02}") is not None for number in range(9)] == [False] * 3 + [True] * 6
    # A process that has written nothing yet counts what lies there.
    for number in range(9, 12):
        again(cache, limit=8 * size).write(f"f{number:02}", CODE)
    assert small.state().size <= 8 * size


def test_what_is_used_stays(cache):
    size = len(code_cache._packed("f0", CODE))
    small = again(cache, limit=4 * size)
    for number in range(4):
        small.write(f"f{number}", CODE)
        os.utime(path_of(cache, f"f{number}"), (number + 1e9, number + 1e9))
    assert small.read("f0") == CODE
    small.write("f4", CODE)
    assert [small.read(f"f{number}") is not None for number in range(5)] == [True, False, False, True, True]


def test_what_is_too_large_is_not_kept(cache, caplog):
    small = again(cache, limit=len(CODE))
    small.write("f(x)", CODE)
    assert list(cache.folder.iterdir()) == []
    assert not caplog.messages


def test_what_a_killed_process_left_goes(cache):
    old, new = cache.folder / ".half-1.tmp", cache.folder / ".half-2.tmp"
    foreign = cache.folder / "notes.tmp"
    for path in (old, new, foreign):
        path.write_bytes(b"half")
    hours_ago = time.time() - 2 * 3600
    for path in (old, foreign):
        os.utime(path, (hours_ago, hours_ago))
    cache.write("f(x)", CODE)
    assert [path.exists() for path in (old, new, foreign)] == [False, True, True]
    assert cache.clear() == 1
    assert [path.name for path in cache.folder.iterdir()] == ["notes.tmp"]
    assert cache.clear() == 0


def test_many_threads_write_the_same(cache):
    found = []

    def work() -> None:
        for number in range(20):
            cache.write(f"f{number}", CODE * number)
            found.append(cache.read(f"f{number}") == CODE * number)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 80
    assert cache.state().entries == 20


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"CNTK_CACHE": "/x/y", "XDG_CACHE_HOME": "/z"}, "/x/y"),
        ({"XDG_CACHE_HOME": "/z", "HOME": "/home/u"}, "/z/cntk"),
        ({"CNTK_CACHE": "", "HOME": "/home/u"}, "/home/u/.cache/cntk"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/u"}, None),
        ({"HOME": "~"}, None),
    ],
)
def test_where_it_lies(monkeypatch, environment, expected):
    for name in ("CNTK_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = code_cache.cache_root()
    assert found == (None if expected is None else Path(expected))


def test_without_a_home(monkeypatch, caplog):
    monkeypatch.setattr(code_cache, "cache_root", lambda: None)
    cache = CodeCache("ours", title="functions")
    cache.write("f(x)", CODE)
    assert cache.read("f(x)") is None
    assert cache.clear() == 0
    assert caplog.messages == [
        "compiled functions are not kept, each run compiles them anew: there is no home folder; "
        "CNTK_CACHE names another one"
    ]
    assert cache.state().problem == "there is no home folder"


def test_the_state_makes_nothing(tmp_path):
    cache = CodeCache("ours", tmp_path / "a" / "b", title="functions")
    state = cache.state()
    assert (state.folder, state.entries, state.problem) == (tmp_path / "a" / "b", 0, "")
    assert cache.clear() == 0
    assert not (tmp_path / "a").exists()


def test_the_state_of_damaged_entries(cache):
    for name in "fgh":
        cache.write(name, CODE)
    path_of(cache, "g").write_bytes(b"")
    path_of(cache, "h").chmod(0o666)
    assert again(cache).state().damaged == 2
