"""The fault boundary: whose an exception is, found when it has happened, so that no call of a plugin costs anything.

Every part of a traceback belongs to a module, and a module to the wheel, the file or the program that it came with. An
error is a plugin's if a plugin's frame is in its traceback, or if a function of a plugin was called with arguments that
it does not take (that call has no frame). Wheels of ours are no plugins here: their defects are defects of the program.
"""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType

import attrs

from cntk_core.errors import BrokenPluginError, CntkError, WrongResult
from cntk_core.plugins.advice import Place, advice_for
from cntk_core.plugins.discovery import wheel_modules
from cntk_core.plugins.offer import HERE, Source, last_line, reason_of, remedy_for, short_place
from cntk_core.plugins.precedence import is_first_party

MARK = "__cntk_plugin__"
"""Variable of a module that says whose it is: the :class:`Source` of a plugin file."""

_LEAVING = (KeyboardInterrupt, BrokenPipeError, GeneratorExit)
"""What is nobody's fault."""

_CALL = re.compile(r"([\w.<>]+)\(\) (?:takes|missing|got) ")
"""How Python says that a function was called with arguments that it does not take."""

_program_parts: frozenset[tuple[str, str]] = frozenset()


def note_program_parts(parts: Iterable[tuple[str, str]]) -> None:
    """Let errors in these functions and classes count as those of the program's own plugins, and in no others.

    Args:
        parts: a module and the name in it, of everything that is registered now.
    """
    global _program_parts
    _program_parts = frozenset(parts)


@attrs.frozen
class Fault:
    """Whose fault an error is, and where it happened.

    Attributes:
        source: the wheel, the file or the program.
        place: the innermost line of it that took part.
    """

    source: Source
    place: Place


@contextmanager
def plugins_named() -> Iterator[None]:
    """Within, an error that is a plugin's becomes one that names the plugin, with the error as its cause.

    Raises:
        BrokenPluginError: in place of such an error. Errors of our own types pass.
    """
    try:
        yield
    except (CntkError, *_LEAVING):
        raise
    except BaseException as error:
        broken = fault_error(error)
        if broken is None:
            raise
        raise broken from error


def fault_error(error: BaseException) -> BrokenPluginError | None:
    """Return the error that names the plugin whose fault another one is; None if it is no plugin's."""
    fault = fault_of(error)
    if fault is None:
        return None
    who = f"{fault.place.function} of {whose(fault.source)}"
    wrong = next((one for one in _with_causes(error) if isinstance(one, WrongResult)), None)
    if wrong is not None and fault.place.frame is None:
        hint = f"it is at {fault.place}\n{remedy_for(fault.source)}"
        return BrokenPluginError(f"{who} {wrong.message}", hint=hint)
    return _described(fault, error, who)


def hook_failure(
    hook: str, source: Source, error: BaseException, *, ends: bool = False, function: object = None
) -> BrokenPluginError:
    """Describe a hook that raised an error that is none of ours.

    Args:
        hook: its name.
        source: whose it is.
        error: what it raised.
        ends: it ends the run, so that somebody has to do something about it.
        function: the plugin's function, for errors that were not raised in it.
    """
    fault = fault_of(error)
    hint = [] if fault is None else _called_by(fault, error)
    if fault is None:
        place = last_line(error)
        code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
        if place:
            hint.append(f"raised by {place}")
        elif code is not None:
            hint.append(f"it is at {short_place(code.co_filename, code.co_firstlineno)}")
    if ends:
        hint.append(remedy_for(source))
    return BrokenPluginError(
        f"hook {hook} of {source} failed: {type(error).__name__}: {error}", hint="\n".join(hint) or None
    )


def took_part() -> list[str]:
    """Return who of the plugins that are not of this project has been loaded in this process."""
    owners = _Owners()
    found = {whose(source) for module in list(sys.modules.values()) if (source := owners.of_module(module)) is not None}
    return sorted(found - {whose(HERE)})


def fault_of(error: BaseException) -> Fault | None:
    """Find the plugin whose fault an error is, also if it is the cause of the error; None if there is none."""
    owners = _Owners()
    for one in _with_causes(error):
        fault = _in_frames(one, owners) or _in_result(one, owners) or _in_call(one, owners)
        if fault is not None:
            return fault
    return None


def _described(fault: Fault, error: BaseException, who: str) -> BrokenPluginError:
    source, place = fault.source, fault.place
    origin = next((one for one in _with_causes(error) if _belongs(one, place)), error)
    hint = [*_called_by(fault, origin), *advice_for(origin, place), remedy_for(source)]
    reason, name = reason_of(origin), type(origin).__name__
    return BrokenPluginError(f"{who} failed: {name if reason == name else f'{name}: {reason}'}", hint="\n".join(hint))


def _called_by(fault: Fault, error: BaseException) -> list[str]:
    """The line of the plugin, and that of a library which it has called, if that raised the error."""
    inner = last_line(error)
    if fault.place.frame is None:
        return [f"it is at {fault.place}"]
    if not inner or inner == str(fault.place):
        return [f"raised by {fault.place}"]
    return [f"raised by {inner}, called from {fault.place}"]


def whose(source: Source) -> str:
    """``cntk-learner-lion 0.1.0``, ``the plugin file 'lion.py'``, ``this program``."""
    return str(source) if source.is_wheel or source == HERE else f"the plugin file '{source.name}'"


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it came from, and so on."""
    one: BaseException | None = error
    seen: set[int] = set()
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _belongs(error: BaseException, place: Place) -> bool:
    if place.frame is None:
        return bool(_CALL.match(str(error)))
    return any(frame is place.frame for frame, _ in traceback.walk_tb(error.__traceback__))


def _in_frames(error: BaseException, owners: _Owners) -> Fault | None:
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        source = owners.of(frame)
        if source is not None:
            return Fault(source, place_of(frame.f_code, line, frame))
    return None


def place_of(code: CodeType, line: int, frame: FrameType | None = None) -> Place:
    """Return the place of a line of a function."""
    return Place(short_place(code.co_filename, line), code.co_qualname.replace("<locals>.", ""), frame)


def _in_result(error: BaseException, owners: _Owners) -> Fault | None:
    """Find the function of a plugin that gave what cannot be used."""
    if not isinstance(error, WrongResult):
        return None
    function = inspect.unwrap(error.function)
    code = getattr(function, "__code__", None)
    source = owners.of_module(sys.modules.get(getattr(function, "__module__", "")))
    return None if code is None or source is None else Fault(source, place_of(code, code.co_firstlineno))


def _in_call(error: BaseException, owners: _Owners) -> Fault | None:
    """Find a function of a plugin that was called with arguments that it does not take."""
    found = _CALL.match(str(error)) if isinstance(error, TypeError) else None
    if found is None:
        return None
    called: list[tuple[Source, FunctionType]] = []
    for module in list(sys.modules.values()):
        source = owners.of_module(module)
        if source is not None and (function := _attribute(module, found[1])) is not None:
            called.append((source, function))
    if len({source for source, _ in called}) > 1:  # the message has the name alone, which others may have used, too
        near = list(_near(error))
        called = [one for one in called if any(one[1] is function for function in near)]
    if not called:
        return None
    source, function = called[0]
    return Fault(source, attrs.evolve(place_of(function.__code__, function.__code__.co_firstlineno), called=function))


def _near(error: BaseException) -> Iterator[object]:
    """The functions that the innermost frame of an error has at hand: its variables, their attributes and methods."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for value in list(frames[-1].f_locals.values()) if frames else ():
        kind = value if isinstance(value, type) else type(value)
        members = [member for base in kind.__mro__ for member in vars(base).values()]
        for one in (value, *getattr(value, "__dict__", {}).values(), *members):
            yield one.__func__ if isinstance(one, MethodType | classmethod | staticmethod) else one


def _attribute(module: ModuleType, path: str) -> FunctionType | None:
    value: object = module
    for name in path.split("."):
        value = inspect.getattr_static(value, name, None)
        if isinstance(value, classmethod | staticmethod):
            value = value.__func__
    return value if isinstance(value, FunctionType) else None


class _Owners:
    """Whose modules are. Made when an error is looked at: it reads the metadata of the installed wheels."""

    def __init__(self) -> None:
        self._wheels = {
            package: source for package, source in wheel_modules().items() if not is_first_party(source.name)
        }

    def of(self, frame: FrameType) -> Source | None:
        """Return whose the code of a frame is; None for ours and for libraries."""
        mark, name = frame.f_globals.get(MARK), str(frame.f_globals.get("__name__", ""))
        if isinstance(mark, Source):
            return mark
        within = frame.f_code.co_qualname
        if any(name == module and f"{within}.".startswith(f"{part}.") for module, part in _program_parts):
            return HERE
        return self._of_name(name)

    def of_module(self, module: object) -> Source | None:
        """Return whose a module is."""
        mark, name = getattr(module, "__dict__", {}).get(MARK), str(getattr(module, "__name__", ""))
        if isinstance(mark, Source):
            return mark
        return HERE if any(name == registered for registered, _ in _program_parts) else self._of_name(name)

    def _of_name(self, name: str) -> Source | None:
        return self._wheels.get(name.partition(".")[0])
