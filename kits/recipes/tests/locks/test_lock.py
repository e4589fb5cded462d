"""One process at a time: whoever has ended has no lock any more, and whoever lives keeps it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from cntk_core.system.processes import Process, began
from cntk_kit_recipes.locks import lock as module
from cntk_kit_recipes.locks import lock_record
from cntk_kit_recipes.locks.lock import Lock, Locked
from cntk_kit_recipes.locks.lock_record import Record

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs locks of POSIX")
HOLDER = Path(__file__).with_name("holder.py")
REMEDY = "    Wait until it is done, end it, or give another modelPath."


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for name, seconds in {"PAUSE": 0.001, "BETWEEN": 0.2, "WATCHED": 0.3, "LOOK": 0.01, "SETTLED": 0.01}.items():
        monkeypatch.setattr(module, name, seconds)


def start(path: Path, how: str = "hold") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(HOLDER), str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@contextmanager
def holding(path: Path, how: str = "hold"):
    """A process that has the lock; its token."""
    with start(path, how) as process:
        try:
            said, token = process.stdout.readline().split()
            assert said == "taken"
            yield process, token
        finally:
            process.kill()


def make(path: Path) -> tuple[Lock, list[str]]:
    said: list[str] = []
    return Lock(path, "the model 'net'", said.append), said


def refusal(path: Path) -> str:
    with pytest.raises(Locked) as caught:
        make(path)[0].take()
    return str(caught.value)


def record(path: Path) -> Record:
    found = Record.read((path.parent / "net.lock").read_bytes())
    assert found is not None
    return found


def write(path: Path, **changes) -> Record:
    """Leave the lock of somebody."""
    found = attrs.evolve(Record.own(), **changes)
    (path.parent / "net.lock").write_bytes(found.raw())
    return found


STRANGER = {"process": Process("another machine", 7, "1"), "host": "node7", "command": "cntk r.cntk", "since": 0.0}


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "net"


def test_it_says_who_has_it_while_it_is_held(path):
    lock, said = make(path)
    lock.take()
    entries = json.loads((path.parent / "net.lock").read_text())
    assert entries["format"] == "cntk-core-lock"
    assert (entries["process"], entries["token"]) == (os.getpid(), lock.token)
    lock.check()
    lock.release()
    lock.release()
    lock.check()
    assert lock.token == ""
    assert not list(path.parent.iterdir())
    assert not said


def test_another_process_is_refused_with_the_name_of_the_holder(path):
    with holding(path) as (process, _):
        found = record(path)
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.since))
        called = f"process {process.pid} on {found.host}, since {since} ({HOLDER} {path} hold)"
        assert refusal(path) == f"the model 'net' is being written by {called}\n{REMEDY}"
        process.stdin.close()
        process.wait(30)
        lock, said = make(path)
        lock.take()
        lock.release()
        assert not said, "it was given back"


def test_the_lock_of_a_killed_process_is_taken_over(path):
    with holding(path) as (process, token):
        found = record(path)
        assert found.token == token
        process.kill()
        process.wait(30)
        lock, said = make(path)
        lock.take()
        assert said == [f"The lock '{path}.lock' was left by {found} that is gone; it is taken over."]
        assert record(path).token == lock.token
        lock.release()


def test_a_child_that_outlives_its_parent_has_no_lock(path):
    with holding(path, "child") as (process, _):
        process.kill()
        os.waitpid(process.pid, os.WNOHANG)
        deadline = time.monotonic() + 30
        while record(path).process.lives() and time.monotonic() < deadline:
            time.sleep(0.01)
        lock, said = make(path)
        lock.take()
        assert len(said) == 1
        lock.release()
        process.stdin.close()


@pytest.mark.slow
def test_of_many_that_start_at_once_one_gets_it(path):
    write(path, process=Process(Process.own().machine, 2**22 + 1, "1"))  # and a dead one had it
    processes = [start(path) for _ in range(8)]
    try:
        said = [process.stdout.readline() for process in processes]
    finally:
        for process in processes:
            process.communicate()
    winners = [process.pid for process, line in zip(processes, said, strict=True) if line.startswith("taken")]
    assert len(winners) == 1
    refused = [
        line for line in said if line.startswith(f"refused: the model 'net' is being written by process {winners[0]}")
    ]
    assert len(refused) == 7


@pytest.mark.slow
def test_nobody_meets_another_one_inside(path):
    processes = [start(path, "turns") for _ in range(3)]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 3
    for process in processes:
        process.stdin.close()
        process.stdin = None
    assert [process.communicate(timeout=60)[0] for process in processes] == ["met 0\n"] * 3


def test_in_one_process_it_is_had_once(path):
    lock, _ = make(path)
    lock.take()
    try:
        assert refusal(path) == f"the model 'net' is being written by this process already\n{REMEDY}"
        (path.parent / "link").symlink_to(path.parent)
        assert "by this process already" in refusal(path.parent / "link" / "net")
        threading.Timer(0.05, lock.release).start()
        later, _ = make(path)
        later.take(patience=30)
        later.release()
    finally:
        lock.release()


@pytest.mark.parametrize("content", [b"", b"\0" * 200, b"\n", b'{"form', Record.own().raw()[:60]])
def test_a_holder_that_ended_while_it_wrote(path, content):
    (path.parent / "net.lock").write_bytes(content)
    lock, _ = make(path)
    lock.take()
    assert record(path).token == lock.token
    lock.release()


def test_a_file_that_is_no_lock_stays(path):
    (path.parent / "net.lock").write_text("a padlock")
    assert refusal(path) == (
        f"'{path}.lock' is there, and it is no lock of this program\n"
        "    While files are written, their lock has this name. Move the file, or give another name."
    )
    assert (path.parent / "net.lock").read_text() == "a padlock"


def test_a_number_that_was_given_to_another_process(path):
    own = Process.own()
    write(path, process=attrs.evolve(own, began=f"{own.began}0"))
    lock, said = make(path)
    lock.take()
    assert len(said) == 1
    lock.release()


def test_ranks_of_a_launcher_that_is_not_known(path, monkeypatch):
    with holding(path):
        monkeypatch.setattr(lock_record.sys, "argv", [str(HOLDER), str(path), "hold"])
        assert refusal(path).partition("\n")[2] == (
            f"{REMEDY}\n"
            "    Both were started by the same command at nearly the same time: if they are ranks of one training, "
            "their launcher\n"
            "    is not known here, and each of them trains alone. 'cntk train RECIPE -n N' starts ranks; "
            "a launcher is known if it\n"
            "    sets RANK and WORLD_SIZE."
        )
        monkeypatch.setattr(lock_record, "_TOGETHER", 0.0)
        assert refusal(path).partition("\n")[2] == REMEDY


# -- holders that cannot be seen --------------------------------------------------------------------------


def test_another_machine_on_a_disk_whose_locks_all_see(path, monkeypatch):
    monkeypatch.setattr(module, "kernel_knows_all", lambda folder: True)
    write(path, **STRANGER)
    lock, said = make(path)
    lock.take()
    assert len(said) == 1
    lock.release()


def test_another_machine_that_has_the_lock_of_the_system(path, monkeypatch):
    monkeypatch.setattr(module, "kernel_knows_all", lambda folder: True)
    with holding(path):
        found = write(path, **STRANGER)
        assert refusal(path) == f"the model 'net' is being written by {found}\n{REMEDY}"


def test_a_holder_that_gives_signs_of_life(path, monkeypatch):
    monkeypatch.setattr(module, "kernel_knows_all", lambda folder: False)
    monkeypatch.setattr(module, "WATCHED", 30.0)
    found = write(path, **STRANGER)
    over = threading.Event()

    def beat():
        while not over.wait(0.02):
            os.utime(path.parent / "net.lock")

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        assert refusal(path) == f"the model 'net' is being written by {found}\n{REMEDY}"
    finally:
        over.set()
        thread.join()


def test_a_holder_that_gives_none(path, monkeypatch):
    monkeypatch.setattr(module, "kernel_knows_all", lambda folder: False)
    found = write(path, **STRANGER)
    lock, said = make(path)
    lock.take()
    lock.release()
    assert said == [
        f"'{path}.lock' is the lock of {found}. That process cannot be seen from here: "
        "waiting up to 0 s for a sign of life.",
        f"The lock '{path}.lock' was left by {found} that is gone; it is taken over.",
    ]


@pytest.mark.parametrize("locks", [True, False])
def test_signs_of_life_are_given_where_they_are_needed(path, monkeypatch, locks):
    monkeypatch.setattr(module, "kernel_knows_all", lambda folder: False)
    monkeypatch.setattr(module, "BEAT", 0.01)
    if not locks:
        monkeypatch.setattr(module, "_lock", lambda handle: None)
    lock, _ = make(path)
    lock.take()
    begun = (path.parent / "net.lock").stat().st_mtime_ns
    deadline = time.monotonic() + 30
    while (path.parent / "net.lock").stat().st_mtime_ns == begun:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    lock.release()
    assert not list(path.parent.iterdir())


def test_a_disk_without_locks(path, monkeypatch):
    monkeypatch.setattr(module, "_lock", lambda handle: None)
    with holding(path) as (process, _):
        assert f"by process {process.pid} on" in refusal(path)
        process.kill()
        process.wait(30)
        lock, said = make(path)
        lock.take()
        assert len(said) == 1
        lock.check()
        lock.release()
    assert not list(path.parent.iterdir())


def test_two_that_write_at_once_on_a_disk_without_locks(path, monkeypatch):
    """The one that wrote last has it."""
    monkeypatch.setattr(module, "_lock", lambda handle: None)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        other = Process(Process.own().machine, process.pid, began(process.pid))
        real = time.sleep

        def sleep(seconds):
            if seconds == module.SETTLED:
                write(path, process=other, command="the other one")
            real(seconds)

        monkeypatch.setattr(module.time, "sleep", sleep)
        assert f"by process {process.pid} on" in refusal(path)
        process.communicate()


# -- losing it --------------------------------------------------------------------------------------------


def test_a_lock_that_somebody_removed_is_taken_again(path):
    lock, said = make(path)
    lock.take()
    (path.parent / "net.lock").unlink()
    lock.check()
    assert said == [f"Warning: the lock '{path}.lock' was not there any more; it is again."]
    assert record(path).token == lock.token
    lock.check()
    lock.release()
    assert not list(path.parent.iterdir())


def test_a_lock_that_somebody_else_has_taken(path):
    """This process had been standing still, and another one believed it dead."""
    lock, _ = make(path)
    lock.take()
    (path.parent / "net.lock").unlink()
    other = write(path, **STRANGER)
    with pytest.raises(Locked) as caught:
        lock.check()
    assert str(caught.value) == (
        f"the model 'net' now belongs to {other}: this one writes no more\n"
        "    That process did not see this one any more and took over its lock. What it writes is whole."
    )
    lock.release()
    assert record(path) == other


def test_who_follows_a_holder_takes_it_from_a_living_one(path):
    with holding(path) as (process, token):
        lock, _ = make(path)
        with pytest.raises(Locked):
            lock.take(predecessor="another")
        lock.take(predecessor=token)
        process.stdin.write("write\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith(f"lost: the model 'net' now belongs to process {os.getpid()} on ")
        process.stdin.close()
        process.wait(30)
        lock.check()
        lock.release()


def test_who_is_patient_waits_for_a_holder_that_ends(path):
    with holding(path) as (process, _):
        threading.Timer(0.2, process.kill).start()
        lock, said = make(path)
        lock.take(patience=60.0)
        assert process.wait(30)
        assert lock.token == record(path).token
        assert len(said) == 1
        assert said[0].endswith("that is gone; it is taken over.")
        lock.release()


def test_a_holder_whose_lock_goes_while_it_is_watched_is_gone(path, monkeypatch):
    monkeypatch.setattr(module, "kernel_knows_all", lambda folder: False)
    monkeypatch.setattr(module, "WATCHED", 30.0)
    write(path, **STRANGER)
    thread = threading.Timer(0.1, lambda: (path.parent / "net.lock").unlink())
    thread.start()
    lock, said = make(path)
    lock.take()
    thread.join()
    assert lock.token == record(path).token
    lock.release()
    assert len(said) == 2


def test_a_folder_that_cannot_be_written():
    with pytest.raises(OSError, match=r"Permission denied|Read-only"):
        make(Path("/sys/net"))[0].take()


def test_a_full_disk_leaves_nothing(path, monkeypatch):
    def full(handle, raw, offset):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "pwrite", full)
        with pytest.raises(OSError, match="No space"):
            make(path)[0].take()
    assert not list(path.parent.iterdir())
    with make(path)[0].held():
        assert (path.parent / "net.lock").exists()
