"""What a disk may hold after the power has gone."""

from __future__ import annotations

import random
import struct

import pytest


@pytest.fixture
def power(trial):
    return trial("power")


@pytest.fixture
def save(power):
    """The calls of a save: a file is written, flushed and named, and its folder is flushed."""
    make = power.Entry
    return [
        make(power.CREATE, 7, 0, "net.tmp", "", b""),
        make(power.WRITE, 7, 0, "", "", b"new!"),
        make(power.SYNC, 7, 0, "net.tmp", "", b""),
        make(power.RENAME, 0, 0, "net.tmp", "net", b""),
        make(power.SYNC, 1, 0, ".", "", b""),
    ]


def states(power, entries, *, ordered=False, old=b"old!"):
    """All that may be there: names with contents."""
    found = set()
    for seed in range(300):
        disk = power.Disk({".": None, "net": 5}, {5: bytearray(old)})
        for entry in power.chosen_entries(entries, random.Random(seed), ordered=ordered):
            disk.do(entry)
        names = {name: bytes(disk.contents[inode]) for name, inode in disk.names.items() if inode is not None}
        found.add(tuple(sorted(names.items())))
    return found


@pytest.mark.parametrize("ordered", [True, False])
def test_a_save_that_flushes_leaves_the_old_or_the_new(power, save, ordered):
    assert states(power, save, ordered=ordered) == {(("net", b"new!"),)}
    assert states(power, save[:4], ordered=ordered) == {
        (("net", b"new!"),),
        (("net", b"old!"), ("net.tmp", b"new!")),
        (("net", b"old!"),),
    }


def test_a_save_that_does_not_flush_loses(power, save):
    """The oracle's own test: without the flush a file of zeros may have the name."""
    careless = [entry for entry in save if entry.inode != 7 or entry.kind != power.SYNC]
    there = {dict(state).get("net") for state in states(power, careless)}
    assert {b"new!", bytes(4), b""} <= there


def test_what_lasts(power, save):
    assert power.lasting(save) == [True] * 5
    assert power.lasting(save[:4]) == [False, True, True, False]
    assert power.lasting(save[:2]) == [False, False]


def test_a_folder_that_was_flushed_and_then_named(power):
    make = power.Entry
    entries = [
        make(power.MKDIR, 3, 0, "new.tmp", "", b""),
        make(power.CREATE, 4, 0, "new.tmp/a", "", b""),
        make(power.RENAME, 0, 0, "new.tmp", "1", b""),
        make(power.SYNC, 3, 0, "1", "", b""),
    ]
    assert power.lasting(entries) == [False, True, False, True]
    disk = power.Disk({".": None}, {})
    for entry in entries:
        disk.do(entry)
    assert disk.names == {".": None, "1": None, "1/a": 4}


def test_the_journal_is_read(power):
    head = struct.Struct("=3q3I")
    data = head.pack(power.WRITE, 9, 2, 0, 0, 3) + b"abc" + head.pack(power.RENAME, 0, 0, 4, 4, 0) + b"/f/a/f/b"
    written, renamed = power.read_journal(data, "/f")
    assert (written.kind, written.inode, written.offset, written.data) == (power.WRITE, 9, 2, b"abc")
    assert (renamed.kind, renamed.path, renamed.name) == (power.RENAME, "a", "b")


def test_writes_beyond_the_end(power):
    disk = power.Disk({".": None, "a": 1}, {1: bytearray(b"x")})
    disk.do(power.Entry(power.WRITE, 1, 3, "", "", b"y"))
    assert disk.contents[1] == b"x\0\0y"
    disk.do(power.Entry(power.CUT, 1, 2, "a", "", b""))
    assert disk.contents[1] == b"x\0"
