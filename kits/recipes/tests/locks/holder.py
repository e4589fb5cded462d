"""Processes that have a lock: run as ``holder.py PATH [HOW]`` and told to go on by a line on standard input."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from cntk_kit_recipes.locks import lock as module
from cntk_kit_recipes.locks.lock import Lock, Locked

PATH, HOW = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "hold"


def answer(text: str) -> str:
    """Print a line, and wait for one."""
    print(text, flush=True)
    return sys.stdin.readline()


def hold(lock: Lock) -> None:
    """Take it; write when asked to."""
    try:
        lock.take()
    except Locked as error:
        answer(f"refused: {error.message}")
        return
    while answer(f"taken {lock.token}"):
        try:
            lock.check()
        except Locked as error:
            answer(f"lost: {error.message}")
    lock.release()


def leave_a_child(lock: Lock) -> None:
    """Take it, and leave a child behind that has inherited everything."""
    lock.take()
    if not os.fork():
        sys.stdin.read()
        os._exit(0)
    answer(f"taken {lock.token}")


def take_turns(lock: Lock) -> None:
    """Take it many times, beside others, each time in a new process; some of these end without giving it back."""
    met, seen = 0, Lock._is_left

    def slowly(raw: bytes, dead: bytes) -> bool:
        """Between looking and writing there is time for others."""
        found = seen(raw, dead)
        time.sleep(0.003)
        return found

    module.Lock._is_left = staticmethod(slowly)
    answer("ready")
    for turn in range(20):
        child = os.fork()
        if not child:
            os._exit(one_turn(lock, gives_back=turn % 3 > 0))
        met += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(f"met {met}", flush=True)


def one_turn(lock: Lock, *, gives_back: bool) -> int:
    """Return how many others were met in it."""
    mark, met = PATH.with_name("inside"), 0
    while True:
        try:
            lock.take()
            break
        except Locked:
            time.sleep(0.001)
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        met = 1
    lock.check()
    mark.unlink(missing_ok=True)
    if gives_back:
        lock.release()
    return met


module.PAUSE = 0.001
{"hold": hold, "child": leave_a_child, "turns": take_turns}[HOW](Lock(PATH, f"the model '{PATH.name}'"))
