"""Puts a fault into functions that are already imported, for `tools/survey.py`.

A file with a fault is compiled; where the code of a function differs, the live functions that were made of the old
code get the new one. Nothing is imported again, so everybody who holds such a function meets the fault.
"""

from __future__ import annotations

import gc
import inspect
import os
import pickle
import select
import signal
import time
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Place: TypeAlias = tuple[tuple[str, int], ...]
"""Where code stands in that of a module: names of what it is in, each with its number there."""


class AtImportError(Exception):
    """The fault is in what runs when the module is imported: in no function, or in a default, class or decorator."""


def swaps(before: str, after: str, file: str) -> list[tuple[CodeType, CodeType]]:
    """Return the code of functions that a fault changes, old and new.

    Args:
        before: the text of the file.
        after: the text with the fault.
        file: the name that the code has.

    Raises:
        AtImportError: a change of live functions cannot show the fault.
    """
    old = dict(_codes(compile(before, file, "exec", dont_inherit=True)))
    new = dict(_codes(compile(after, file, "exec", dont_inherit=True)))
    found: dict[Place, tuple[CodeType, CodeType]] = {}
    for place in old:
        if place not in new or _bare(old[place]) == _bare(new[place]):
            continue
        functions = [outer for end in range(len(place)) if _is_function(old[outer := place[: end + 1]])]
        if not functions:
            raise AtImportError
        # what a function makes anew at each call (closures, comprehensions) comes from the outermost one's code
        found.update((outer, (old[outer], new[outer])) for outer in functions)
    return list(found.values())


def put(changes: list[tuple[CodeType, CodeType]]) -> None:
    """Give live functions other code.

    Raises:
        AtImportError: no function has the old code.
    """
    gc.unfreeze()  # frozen objects are not listed
    by_name = {(old.co_name, old.co_firstlineno, old.co_filename): (old, new) for old, new in changes}
    count = 0
    for one in gc.get_objects():
        if type(one) is FunctionType:
            code = one.__code__
            old, new = by_name.get((code.co_name, code.co_firstlineno, code.co_filename), (None, None))
            if old is not None and new is not None and len(new.co_freevars) == len(code.co_freevars):
                one.__code__ = new
                count += 1
    if not count:
        raise AtImportError


def in_child(work: Callable[[], T], seconds: float) -> T | BaseException:
    """Run a function in a forked child, silently, and return what it returns or raises.

    Args:
        work: what it returns can be pickled.
        seconds: after so long the child and its children are killed; that gives a ``TimeoutError``.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        try:
            said: Any = work()
        except BaseException as error:
            said = RuntimeError(repr(error))
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(said, pipe)
        os._exit(0)
    os.close(writing)
    try:
        data = _read(reading, seconds)
    finally:
        os.close(reading)
        for kill in (os.killpg, os.kill):  # it may not have become the head of its group yet
            try:
                kill(child, signal.SIGKILL)
            except ProcessLookupError:
                continue
        os.waitpid(child, 0)
    if data is None:
        return TimeoutError(f"after {seconds:.0f} s")
    return pickle.loads(data) if data else RuntimeError("the process ended")


def _read(pipe: int, seconds: float) -> bytes | None:
    """Return what comes until the other end is closed; None if that takes too long."""
    data, end = b"", time.monotonic() + seconds
    while select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
        part = os.read(pipe, 1 << 16)
        if not part:
            return data
        data += part
    return None


def _codes(code: CodeType, place: Place = ()) -> Iterator[tuple[Place, CodeType]]:
    yield place, code
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    for number, one in enumerate(inner):
        yield from _codes(one, (*place, (one.co_name, number)))


def _is_function(code: CodeType) -> bool:
    """Whether it runs when it is called: not that of a module or class."""
    return bool(code.co_flags & inspect.CO_NEWLOCALS)


def _bare(code: CodeType) -> tuple[object, ...]:
    """What it does itself, without where it stands and what is in the code inside it."""
    constants = tuple("code" if isinstance(one, CodeType) else (type(one), repr(one)) for one in code.co_consts)
    return code.co_code, constants, code.co_names, code.co_varnames
