"""Plugins of a program: classes, ops and hooks that a module or a notebook cell registers by itself.

::

    from cntk_core.api import Learner, register

    @register("lion")
    class Lion(Learner):
        ...

What is registered takes part in every run that this process begins from then on, and comes before everything else of
its name. Registered again, as when a cell runs twice, it takes the place of what was there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

import attrs

from cntk_core.errors import UsageError, did_you_mean
from cntk_core.plugins.places import HERE

if TYPE_CHECKING:
    from cntk_core.plugins.registry import Registry

OPS, HOOKS = "ops", "hooks"


@attrs.frozen(eq=False)
class _Entry:
    kind: str
    name: str
    thing: Any

    @property
    def value(self) -> str:
        return f"{getattr(self.thing, '__module__', '')}:{getattr(self.thing, '__qualname__', self.name)}"

    def load(self) -> Any:
        return self.thing


_entries: dict[tuple[str, str], _Entry] = {}


@overload
def register(thing: str, /, *, kind: str = "") -> Callable[[Any], Any]: ...
@overload
def register(thing: Any, /, *, name: str = "", kind: str = "") -> Any: ...
def register(thing: Any, /, *, name: str = "", kind: str = "") -> Any:
    """Let a class, an op or an object with hooks take part in the runs of this process; a decorator, too.

    Args:
        thing: a class of a component; an op; an object or a class with methods marked with ``@hookimpl``. A name in
            its place makes a decorator of it: ``@register("lion")``.
        name: the word that a recipe writes; by default the class's attribute ``name``, or else its own name. A class
            with ``words`` can be written so, too.
        kind: ``reader``, ``learner`` ...: only needed for what does not say it by its base class.

    Returns:
        What was registered, or the decorator.

    Raises:
        UsageError: it is nothing that can be registered, or there is no such kind.
    """
    if isinstance(thing, str):
        return lambda what: register(what, name=thing, kind=kind)
    for entry in _entries_of(thing, name, kind):
        _entries[entry.kind, entry.name.casefold()] = entry
    _note_parts()
    return thing


def unregister(thing: Any) -> None:
    """Leave out of later runs what :func:`register` has taken in. What was not registered is left out already."""
    from cntk_core.plugins.third_party_ops import op_behind

    op = op_behind(thing)
    for key, entry in list(_entries.items()):
        if entry.thing in (thing, op) or type(entry.thing) is thing:
            del _entries[key]
    _note_parts()


def _note_parts() -> None:
    """Say what code is registered, for messages about errors in it."""
    from cntk_core.plugins.faults import note_program_parts

    found: list[Any] = []
    for entry in _entries.values():
        if entry.kind == OPS:
            own = entry.thing.elementwise or entry.thing
            found += [own.forward, own.gradient, entry.thing.infer, entry.thing.attributes]
        else:
            found.append(type(entry.thing) if entry.kind == HOOKS else entry.thing)
    note_program_parts(
        (thing.__module__, thing.__qualname__)
        for thing in found
        if hasattr(thing, "__qualname__") and not thing.__module__.startswith(("cntk_core.", "cntk_kit_"))
    )


@contextmanager
def registrations_kept() -> Iterator[None]:
    """Within, what is registered and taken out is so for that time only: for tests."""
    before = dict(_entries)
    try:
        yield
    finally:
        _entries.clear()
        _entries.update(before)
        _note_parts()


def add_registered(registry: Registry, listen: Callable[[object], None]) -> None:
    """Take what is registered into a run.

    Args:
        registry: where components and ops go.
        listen: takes an object with hooks.
    """
    for entry in _entries.values():
        if entry.kind == OPS:
            registry.ops.add(entry.thing, HERE)
        elif entry.kind == HOOKS:
            listen(entry.thing)
        else:
            registry.table(entry.kind).add(entry.name, entry, HERE)


def registered(kind: str) -> dict[str, Any]:
    """Return the classes of a kind that are registered, by name."""
    return {entry.name: entry.thing for entry in _entries.values() if entry.kind == kind}


def _entries_of(thing: Any, name: str, kind: str) -> list[_Entry]:
    from cntk_core.plugins.files import has_hooks, words_of
    from cntk_core.plugins.registry import KINDS
    from cntk_core.plugins.third_party_ops import op_behind

    words = [one.word for one in KINDS]
    if kind and kind not in words:
        raise UsageError(
            f"there is no kind of plugin '{kind}'{did_you_mean(kind, words)}", hint=f"Kinds: {', '.join(words)}"
        )
    op = op_behind(thing)
    if op is not None:
        return [_Entry(OPS, op.name, op)]
    found = [one.word for one in KINDS if inspect.isclass(thing) and issubclass(thing, one.base)]
    if kind or found:
        return [_Entry(kind or found[0], word, thing) for word in words_of(thing, name)]
    listener = thing if not inspect.isclass(thing) else thing() if has_hooks(thing) else None
    if listener is not None and has_hooks(type(listener)):
        return [_Entry(HOOKS, name or type(listener).__qualname__, listener)]
    raise UsageError(
        f"{thing!r} cannot be registered",
        hint="It is no class of a component, no op, and has no method marked with @hookimpl.",
    )
