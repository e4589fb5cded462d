"""Who a process is, and whether it lives."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from cntk_core.system import processes as module
from cntk_core.system.processes import Process, began, is_of_dead


def test_a_process_that_ends():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        found = Process(Process.own().machine, process.pid, began(process.pid))
        assert found.lives() is True
        assert Process.of_token(found.token).lives() is True
        name = f"new-{found.token}.tmp"
        assert not is_of_dead(name, rf"new-({module.TOKEN})\.tmp")
        process.stdin.close()
        process.stdin = None
        # It has ended, and its parent has not asked yet: that is no life.
        while module._fields(process.pid)[0] != "Z":
            pass
        assert found.lives() is False
        process.wait(30)
    assert found.lives() is False
    assert is_of_dead(name, rf"new-({module.TOKEN})\.tmp")
    assert not is_of_dead(name, rf"old-({module.TOKEN})\.tmp")


def test_a_process_elsewhere():
    stranger = attrs.evolve(Process.own(), machine="another machine")
    assert stranger.lives() is None
    assert Process.of_token(stranger.token).lives() is None
    assert not is_of_dead(stranger.token, f"({module.TOKEN})")


@pytest.mark.parametrize("number", [1, 2**22 + 1])
def test_a_system_that_does_not_say_when_processes_began(number):
    assert Process(Process.own().machine, number, "").lives() is (number == 1)
    assert Process.of_token(Process(Process.own().machine, number, "").token).lives() is (number == 1)


def test_a_machine_is_a_boot_of_a_host_and_a_space_of_numbers():
    parts = module.machine().split()
    assert parts == [
        socket.gethostname(),
        Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
        os.readlink("/proc/self/ns/pid"),
    ]
