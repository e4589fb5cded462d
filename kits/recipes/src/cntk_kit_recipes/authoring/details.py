"""``cntk plugins show``: everything about one plugin: where it comes from, whether it is usable, its options."""

from __future__ import annotations

import enum
import inspect
import json
import types
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs

from cntk_core.config import Config, Schedule, Value, option_key
from cntk_core.contract.component import Component
from cntk_core.errors import MissingPluginError, PluginError
from cntk_core.ops.kernel import Kernel
from cntk_core.ops.language.op import Op
from cntk_core.plugins.discovery import CORE_WHEEL
from cntk_core.plugins.manager import PluginManager, hook_names
from cntk_core.plugins.offer import HooksOffer, Offer, Source
from cntk_kit_recipes.authoring.check import find_offers
from cntk_kit_recipes.authoring.report import state_of

_OP = "op"


@attrs.frozen
class OptionDetails:
    """An option of a plugin.

    Attributes:
        key: as a recipe writes it.
        type: what it takes, in words.
        default: its value where a recipe does not give it, as a recipe would write it; None if it has to be given.
        doc: one line.
        aliases: other keys that mean the same.
    """

    key: str
    type: str
    default: str | None
    doc: str = ""
    aliases: tuple[str, ...] = ()


@attrs.frozen
class PluginDetails:
    """What ``cntk plugins show`` says of a plugin.

    Attributes:
        kind, name, wheel, version, state, reason, mend: as in the table of ``cntk plugins``.
        target: what the entry point names.
        file: where it is defined; empty if it could not be loaded.
        requires: what the wheel asks of the core and the kits.
        requires_api: the interface that it is written for; empty if it does not say.
        doc: its documentation.
        options: what a recipe can tell it; of an op, its attributes.
        general: further keys, which all of its kind may be given.
        parts: of ops and kernels, their names; of hooks, those that it implements.
    """

    kind: str
    name: str
    wheel: str
    version: str
    state: str
    reason: str = ""
    mend: str = ""
    target: str = ""
    file: str = ""
    requires: tuple[str, ...] = ()
    requires_api: str = ""
    doc: str = ""
    options: tuple[OptionDetails, ...] = ()
    general: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


def describe_plugins(name: str, plugin_files: Sequence[str] = ()) -> list[PluginDetails]:
    """Return the details of everything that a name means.

    Args:
        name: what a recipe writes, ``KIND:NAME``, a wheel, or the name of an op, the core's included.
        plugin_files: one-off plugins.

    Raises:
        UsageError: there is no such kind.
        MissingPluginError: nothing is installed that the name could mean.
    """
    manager = PluginManager(plugin_files, load_hooks=False, report=lambda text: None)
    prefix, _, word = name.rpartition(":")
    alone = _find_op(manager, word) if prefix in ("", _OP, "ops") else None
    try:
        found = [_details(offer, manager) for offer in find_offers(manager, name)]
    except MissingPluginError:
        if alone is None:
            raise
        return [alone]
    told = {part for one in found if one.kind == "ops" for part in one.parts}
    return found if alone is None or alone.name in told else [*found, alone]


def _details(offer: Offer[Any], manager: PluginManager) -> PluginDetails:
    state, reason, mend = state_of(manager, offer)
    known = PluginDetails(
        offer.word,
        offer.name,
        offer.source.name,
        offer.source.version,
        state,
        reason,
        mend,
        offer.target,
        requires=_requires(offer.source),
    )
    value = offer.outcome()
    if isinstance(value, PluginError):
        return known
    thing = _function_of(value[0]) if isinstance(value, tuple) else value
    module = inspect.getmodule(thing)
    told = module if isinstance(value, tuple) else value
    if isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], Op):
        told = value[0]
    return attrs.evolve(
        known,
        file=_file_of(thing),
        requires_api=str(getattr(value, "requires_api", "") or getattr(module, "requires_api", "")),
        doc=_doc_of(told),
        options=(options := _options_of(value)),
        general=_general_of(value, options),
        parts=tuple(_parts_of(offer, value)),
    )


def _find_op(manager: PluginManager, name: str) -> PluginDetails | None:
    """Look for an op by its own name: the core's, one of a file, one of several that a wheel offers together."""
    operations = manager.registry.ops
    try:
        op = operations.find("", name)
    except PluginError:
        return None
    if op is None:
        return None
    source = next((source for source, one in operations.added() if one is op), Source(CORE_WHEEL, _version()))
    names = sorted({alias for aliases in op.aliases.values() for alias in aliases})
    return PluginDetails(
        _OP,
        op.name,
        source.name,
        source.version,
        "usable",
        file=_file_of(_function_of(op)),
        requires=_requires(source),
        doc=op.doc,
        options=tuple(_fields_of(op.attributes, declared_only=False)),
        parts=tuple(names),
    )


def _version() -> str:
    from cntk_core import __version__

    return __version__


def _requires(source: Source) -> tuple[str, ...]:
    try:
        listed = (metadata.requires(source.name) or []) if source.is_wheel else []
    except metadata.PackageNotFoundError:
        return ()
    return tuple(one for one in listed if one.startswith(("cntk-core", "cntk-kit-")) and "extra ==" not in one)


def _function_of(part: Op | Kernel) -> Any:
    """Return a function that an op or a kernel is made of."""
    if isinstance(part, Kernel):
        return part.forward
    return part.forward or (part.elementwise.forward if part.elementwise else part.infer)


def _file_of(thing: Any) -> str:
    if not (inspect.isclass(thing) or inspect.isroutine(thing) or inspect.ismodule(thing)):
        thing = type(thing)
    try:
        return str(inspect.getsourcefile(thing) or "")
    except TypeError:  # built in
        return ""


def _doc_of(thing: Any) -> str:
    own = thing.doc if isinstance(thing, Op) else getattr(thing, "__doc__", None)
    return inspect.cleandoc(own or "")


def _parts_of(offer: Offer[Any], value: Any) -> Iterator[str]:
    if isinstance(offer, HooksOffer):
        yield from (name for name in hook_names() if hasattr(value, name))
    elif isinstance(value, tuple):
        yield from dict.fromkeys(one.name if isinstance(one, Op) else one.op.name for one in value)


# -- options --------------------------------------------------------------------------------------------------


def _options_of(value: Any) -> tuple[OptionDetails, ...]:
    if isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], Op):
        return tuple(_fields_of(value[0].attributes, declared_only=False))
    if not (inspect.isclass(value) and issubclass(value, Component)):
        return ()
    # One that reads its block itself fills in fields that are no options.
    base = next((one for one in value.__mro__ if "configure" in vars(one)), Component)
    return tuple(_fields_of(value.options, declared_only=base is not Component))


def _general_of(value: Any, options: Sequence[OptionDetails]) -> tuple[str, ...]:
    known = {key.casefold() for option in options for key in (option.key, *option.aliases)}
    return tuple(key for key in getattr(value, "general_keys", ()) if key.casefold() not in known)


def _fields_of(options: Any, *, declared_only: bool) -> Iterator[OptionDetails]:
    try:
        hints = get_type_hints(options)
    except Exception:  # names that only a type checker knows
        hints = {}
    for field in attrs.fields(options):
        if field.init and ("doc" in field.metadata or not declared_only):
            kind = hints.get(field.name, field.type)
            aliases = tuple(field.metadata.get("aliases", ()))
            doc = str(field.metadata.get("doc") or "")
            yield OptionDetails(option_key(field), type_in_words(kind), _default_of(field), doc, aliases)


def type_in_words(kind: Any) -> str:
    """Return what an option takes: ``integer``, ``one of a, b``, ``integers by epoch`` ..."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(type_in_words(one) for one in arguments if one is not type(None))
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if origin is tuple:
        same = len(arguments) == 2 and arguments[1] is Ellipsis
        return f"list of {type_in_words(arguments[0])}" if same else ":".join(map(type_in_words, arguments))
    if origin is Schedule:
        return f"{type_in_words(arguments[0])}, by epoch"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f"one of {', '.join(str(member.value) for member in kind)}"
    if kind in _WORDS:
        return _WORDS[kind]
    if isinstance(kind, type) and attrs.has(kind):
        return f"block of {', '.join(option_key(field) for field in attrs.fields(kind) if field.init)}"
    return kind.__name__ if isinstance(kind, type) else str(kind)


_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "integer",
    float: "number",
    str: "text",
    Path: "path",
    Config: "block",
    Value: "value",
}


def _default_of(field: attrs.Attribute[Any]) -> str | None:
    default: Any = field.default
    if default is attrs.NOTHING:
        return None
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # a function for type checkers, a class in truth
        if default.takes_self:
            return "from the others"
        default = default.factory()
    return value_as_written(default)


def value_as_written(value: Any) -> str:
    """Return a value as a recipe would write it; ``none`` where there is nothing to write."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, tuple | list):
        return ":".join(map(value_as_written, value)) or '""'
    return '""' if value == "" else f"{value:g}" if isinstance(value, float) else str(value)


# -- as text --------------------------------------------------------------------------------------------------


def show_details(details: Sequence[PluginDetails]) -> str:
    """Return the details as text: a block for each plugin."""
    return "\n\n".join("\n".join(_lines_of(one)) for one in details)


def _lines_of(one: PluginDetails) -> Iterator[str]:
    yield f"{one.kind} {one.name}"
    rows = {
        "wheel": f"{one.wheel} {one.version}".rstrip(),
        "state": one.state + (f": {one.reason}" if one.reason else ""),
        "target": one.target,
        "file": one.file,
        "requires": ", ".join((*one.requires, *([f"plugin interface {one.requires_api}"] if one.requires_api else []))),
        _PARTS.get(one.kind, "parts"): ", ".join(one.parts),
    }
    for title, text in rows.items():
        first, *more = text.splitlines() or [""]
        if first:
            yield f"  {title:<9} {first}"
            yield from (f"            {line}" for line in more)
    yield from (f"    {line}" for line in one.mend.splitlines())
    if one.doc:
        yield ""
        yield from (f"  {line}".rstrip() for line in one.doc.splitlines())
    if one.options:
        yield ""
        yield "  attributes:" if one.kind in (_OP, "ops") else "  options:"
        for option in one.options:
            yield from _option_lines(option)
    if one.general:
        yield ""
        yield f"  further keys, as of every {one.kind}: {', '.join(one.general)}"


_PARTS = {_OP: "also", "ops": "ops", "kernels": "ops", "hooks": "hooks"}


def _option_lines(option: OptionDetails) -> Iterator[str]:
    default = "has to be given" if option.default is None else f"default {option.default}"
    also = f"; also {', '.join(option.aliases)}" if option.aliases else ""
    yield f"    {option.key} ({option.type}; {default}{also})"
    if option.doc:
        yield f"        {option.doc}"


def as_json(records: Sequence[Any]) -> str:
    """Return records of attrs classes as a JSON list."""
    return json.dumps([attrs.asdict(record) for record in records], indent=2)
