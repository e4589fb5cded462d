"""One-off plugins: a Python file that is given on the command line (``--plugin ./file.py``)."""

from __future__ import annotations

import difflib
import inspect
import sys
import traceback
from collections.abc import Iterable
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from cntk_core.contract.component import Component
from cntk_core.errors import BrokenPluginError, Location, MissingPluginError, PluginError
from cntk_core.plugins.faults import MARK
from cntk_core.plugins.importing import importing
from cntk_core.plugins.markers import PROJECT
from cntk_core.plugins.offer import Kind, Source
from cntk_core.plugins.registry import KINDS, Registry
from cntk_core.plugins.requirements import wrong_module
from cntk_core.plugins.third_party_kernels import kernels_of
from cntk_core.plugins.third_party_ops import ops_of

_numbers = count(1)


def load_file(path: str) -> ModuleType:
    """Run a plugin file and return it as a module.

    Raises:
        MissingPluginError: there is no such file.
        BrokenPluginError: it cannot be run; the error has the file and the line.
    """
    file = Path(path)
    if file.is_dir():
        raise MissingPluginError(f"'{path}' is a folder, not a plugin file", hint="Name a Python file in it.")
    if not file.is_file():
        siblings = [str(other) for other in sorted(file.parent.glob("*.py"))] if file.parent.is_dir() else []
        close = difflib.get_close_matches(str(file), siblings)
        guess = f"; did you mean '{close[0]}'?" if close else ""
        raise MissingPluginError(f"there is no plugin file '{path}'{guess}")
    name = f"cntk_plugin_file_{next(_numbers)}_{file.stem}"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BrokenPluginError(f"the plugin file '{path}' is no Python file", hint="Its name must end with .py.")
    module = module_from_spec(spec)
    source = Source(path)
    setattr(module, MARK, source)
    # Options are read from annotations, which are looked up in the module by name.
    sys.modules[name] = module
    try:
        with importing(source):
            spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit and panics of native extensions are no Exception
        del sys.modules[name]
        raise BrokenPluginError(
            f"the plugin file cannot be loaded: {type(error).__name__}: {_message(error)}",
            where=Location(path, _line_of(error, file)),
            hint=_install(error),
        ) from error
    return module


def _install(error: BaseException) -> str | None:
    """Return how to get a module that is not there, such as the kit behind a door; None for other errors."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    return f"Install what it needs: pip install {error.name.partition('.')[0].replace('_', '-')}"


def add_file(registry: Registry, path: str, module: ModuleType) -> bool:
    """Offer the components, ops and kernels of a plugin file; return whether there were any or it has hooks.

    A component is offered under its attribute ``name``, or else under the name of its class, and under its ``words``.

    Raises:
        PluginError: an op has a name that is taken, or the file is written for another version of the interface.
    """
    source = Source(path)
    wrong = wrong_module(f"the plugin file '{path}'", module, module.__name__, source)
    if wrong is not None:
        raise type(wrong)(wrong.message, where=Location(path), hint=wrong.hint)
    classes = components_of(module)
    ops = ops_of(module)
    kernels = kernels_of(module)
    for kind, component in classes:
        for word in words_of(component):
            registry.table(kind.word).add(word, component, source)
    for op in ops:
        try:
            registry.ops.add(op, source)
        except PluginError as error:
            raise PluginError(error.message, where=Location(path), hint=error.hint) from None
    for kernel in kernels:
        registry.kernels.add(kernel, source)
    return bool(classes or ops or kernels)


def components_of(module: ModuleType) -> list[tuple[Kind, type[Component]]]:
    """Return the component classes that a module defines itself, without the bases of others of them."""
    own = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Component) and value.__module__ == module.__name__
    ]
    unique = list(dict.fromkeys(own))
    final = [one for one in unique if not any(other is not one and issubclass(other, one) for other in unique)]
    kept = [one for one in unique if one in final or not inspect.isabstract(one)]
    return [(kind, one) for one in kept for kind in KINDS if issubclass(one, kind.base)]


def listeners_of(module: ModuleType) -> list[object]:
    """Return what a module has hooks in: itself if it has such functions, and objects of classes with such methods.

    A class of the module's own is made without arguments, unless the module has made an object of it or derives
    another one from it.

    Raises:
        BrokenPluginError: a class cannot be made without arguments.
    """
    found: list[object] = [module] if _marked(vars(module).values()) else []
    values = [value for value in vars(module).values() if value is not module]
    classes = [value for value in values if inspect.isclass(value) and value.__module__ == module.__name__]
    listening = [one for one in dict.fromkeys(classes) if has_hooks(one) and not issubclass(one, Component)]
    objects = [value for value in values if type(value) in listening]
    found += {id(value): value for value in objects}.values()
    for one in listening:
        if not any(issubclass(other, one) and other is not one for other in (*listening, *map(type, objects))):
            found += [] if any(type(value) is one for value in objects) else [_made(one)]
    return found


def has_hooks(kind: type) -> bool:
    """Whether a class has methods that are marked as hooks, its own or of a base."""
    return _marked(value for base in kind.__mro__ for value in vars(base).values())


def _marked(values: Iterable[object]) -> bool:
    return any(inspect.isroutine(value) and hasattr(value, f"{PROJECT}_impl") for value in values)


def _made(kind: type) -> object:
    try:
        return kind()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        where = Location(inspect.getsourcefile(kind) or "", inspect.getsourcelines(kind)[1])
        raise BrokenPluginError(
            f"the class {kind.__name__} has hooks, and making an object of it failed: {type(error).__name__}: {error}",
            where=where,
            hint=f"It is made without arguments, unless the file has an object: listener = {kind.__name__}(...)",
        ) from error


def words_of(component: type, name: str = "") -> tuple[str, ...]:
    """Return what a class is offered as, each once: a name, by default its own, and its further ``words``."""
    own: Any = getattr(component, "name", None)
    name = name or (own if isinstance(own, str) and own else component.__name__)
    return tuple({word.casefold(): word for word in (name, *vars(component).get("words", ()))}.values())


def _message(error: BaseException) -> str:
    return (error.msg if isinstance(error, SyntaxError) else str(error)) or "no message"


def _line_of(error: BaseException, file: Path) -> int:
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).name == file.name:
        return error.lineno or 0
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == file.resolve()]
    return next((line for line in reversed(lines) if line), 0)
