"""What importing a module brings in, as a new interpreter sees it.

The starts of interpreters, which import the core each time, were most of such a test. So one interpreter imports the
core's door, and a copy of it (``fork``) imports each module that is asked for. Where there is no ``fork``, each module
has an interpreter of its own.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from functools import cache

_ANSWERS = """
import importlib, json, os, sys, traceback

import cntk_core.api

def answer(name, out):
    try:
        importlib.import_module(name)
    except BaseException:
        found = {"error": traceback.format_exc()}
    else:
        found = {"modules": sorted(sys.modules)}
    out.write(json.dumps(found))
    out.flush()

questions, answers = sys.stdin, os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what a module prints is no answer
for name in map(str.strip, questions):
    if not hasattr(os, "fork"):
        answer(name, answers)
    elif (child := os.fork()) == 0:
        answer(name, answers)
        os._exit(0)
    elif status := os.waitpid(child, 0)[1]:
        answers.write(json.dumps({"error": f"the process ended with {os.waitstatus_to_exitcode(status)}"}))
    answers.write("\\n")
    answers.flush()
"""


class FreshImportError(Exception):
    """A module cannot be imported; the text is what the interpreter says."""


def modules_after_importing(module: str) -> frozenset[str]:
    """Return the names of all modules that are there when a new interpreter has imported one, and the core's door.

    Raises:
        FreshImportError: it cannot be imported.
    """
    interpreter = _interpreter(os.environ.get("PYTHONPATH", ""), os.getcwd())
    assert interpreter.stdin is not None
    assert interpreter.stdout is not None
    interpreter.stdin.write(f"{module}\n")
    interpreter.stdin.flush()
    line = interpreter.stdout.readline()
    if not hasattr(os, "fork"):
        _end(interpreter)
        _interpreter.cache_clear()
    if not line:
        raise FreshImportError("the interpreter has ended")
    answer = json.loads(line)
    if "error" in answer:
        raise FreshImportError(answer["error"])
    return frozenset(answer["modules"])


@cache
def _interpreter(path: str, folder: str) -> subprocess.Popen[str]:
    """An interpreter with this PYTHONPATH and working folder, which is kept until this process ends."""
    started = subprocess.Popen(
        [sys.executable, "-c", _ANSWERS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
    )
    atexit.register(_end, started)
    return started


def _end(interpreter: subprocess.Popen[str]) -> None:
    """Close its input, at which it ends, and wait for that."""
    for stream in (interpreter.stdin, interpreter.stdout):
        if stream is not None:
            stream.close()
    interpreter.wait()
