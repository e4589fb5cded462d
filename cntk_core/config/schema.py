"""Options: from a section of a recipe to an attrs class (names, types, defaults and messages in one place).

A component declares what it can be told::

    @options
    class SgdOptions:
        max_epochs: int                                       # maxEpochs, required
        minibatch_size: Schedule[int] = option(default=Schedule.constant(256))
        gradient_clipping: bool = option(default=True, key="gradientClippingWithTruncation")

and gets it with ``bind(section, SgdOptions, what="learner 'sgd'")``.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, dataclass_transform, get_args, get_origin, get_type_hints

import attrs

from cntk_core.config.schedule import Schedule
from cntk_core.config.section import Config
from cntk_core.config.unread import STRICT, misplaced
from cntk_core.config.values import Value
from cntk_core.errors import CntkError, ConfigError, OptionError, Problems, did_you_mean, raise_problems

T = TypeVar("T")
_type_hints = cache(get_type_hints)  # a twentieth of the time of a small recipe, were it not kept


def option(
    *,
    default: Any = attrs.NOTHING,
    key: str | None = None,
    aliases: tuple[str, ...] = (),
    doc: str = "",
    validator: Callable[[Any, Any, Any], Any] | None = None,
    converter: Callable[[Any], Any] | None = None,
) -> Any:
    """Declare one option.

    Args:
        default: Its value when the recipe does not give it; without one the option is required.
        key: Its name in a recipe; by default the field's name in camel case (``max_epochs`` is ``maxEpochs``).
        aliases: Other names that a recipe may use.
        doc: One line for ``cntk plugins`` and the documentation.
        validator, converter: As for ``attrs.field``; a validator raises ValueError.
    """
    metadata = {"key": key, "aliases": aliases, "doc": doc}
    return attrs.field(default=default, metadata=metadata, validator=validator, converter=converter)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(attrs.field, option))
def options(cls: type[T]) -> type[T]:
    """Make a class of options: frozen, with keyword arguments only."""
    return attrs.frozen(kw_only=True)(cls)


def at_least(least: float) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """Return a validator of options: a number must not be below another."""

    def check(_: object, field: attrs.Attribute[Any], value: Any) -> None:
        if value < least:
            raise ValueError(f"'{field.name}' must be at least {least}, not {value}")

    return check


def option_key(field: attrs.Attribute[Any]) -> str:
    """Return the name of an option in a recipe."""
    key = field.metadata.get("key")
    if key:
        return str(key)
    first, *rest = field.name.strip("_").split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def bind(config: Config, options_class: type[T], *, ignore: Collection[str] = (), what: str = "the section") -> T:
    """Read a section into a class of options.

    Values are looked up like any other, also in the parents; only the section's own keys should all be known: see
    :func:`unknown_keys`.

    Args:
        options_class: An attrs class whose fields are annotated with ``str``, ``bool``, ``int``, ``float``, ``Path``,
            an ``Enum`` (by name or value, without case), a ``Literal`` of texts, ``tuple[X, ...]``, ``Schedule[X]``,
            ``Config`` (a block as it is), ``Value``, another class of options, or any of these ``| None``.
        ignore: Own keys that belong to somebody else.
        what: Who is asked, for messages: ``"reader 'CNTKTextFormatReader'"``.

    Raises:
        MissingKeyError, OptionError, ConfigError, Problems: Everything that is wrong with the section, together.
    """
    fields = attrs.fields(cast(Any, options_class))
    hints = _type_hints(cast(Any, options_class))
    errors: list[CntkError] = list(_unknown_keys(config, fields, ignore, what))
    given: dict[str, Any] = {}
    for field in fields:
        if not field.init:
            continue
        try:
            value = _look_up(config, field, what)
            if value is None:
                continue
            read = _convert(value, hints[field.name], what)
            _validate(field, value, read)
            given[field.alias or field.name] = read
        except Problems as error:
            errors.extend(error.errors)
        except CntkError as error:
            errors.append(error)
    raise_problems(errors)
    try:
        return options_class(**given)
    except ValueError as error:  # what a class checks of several options together
        raise ConfigError(f"{what}: {error}", where=config.where) from None


def option_keys(options_class: type) -> frozenset[str]:
    """Return all names of the options of a class, in lower case."""
    fields = attrs.fields(cast(Any, options_class)) if attrs.has(options_class) else ()
    return frozenset(name.lower() for field in fields if field.init for name in _names(field))


def _names(field: attrs.Attribute[Any]) -> tuple[str, ...]:
    return (option_key(field), *field.metadata.get("aliases", ()))


def _unknown_keys(
    config: Config, fields: Collection[attrs.Attribute[Any]], ignore: Collection[str], what: str
) -> list[OptionError]:
    keys = [option_key(field) for field in fields if field.init]
    known = {name.lower() for field in fields if field.init for name in _names(field)}
    return unknown_keys(config, known, keys, ignore=ignore, what=what)


def unknown_keys(
    config: Config, known: Collection[str], shown: Collection[str], *, ignore: Collection[str] = (), what: str
) -> list[OptionError]:
    """Return what is wrong with those own keys of a section that nobody knows.

    One that is like a known key, or an option of another block of the recipe, is an error. Others are noted at the top
    level of a recipe that is run, so that recipes with keys of old programs can be run; ``strict=true`` there makes
    them errors, and so they are where there is no such recipe.

    Args:
        config: the section.
        known: all names of its options, in lower case.
        shown: the options as messages name them.
        ignore: own keys that belong to somebody else.
        what: who is asked, for messages.
    """
    known = {*known, *(name.lower() for name in ignore)}
    top = config.top
    unread = None if top.unread is None or top.boolean(STRICT, False) else top.unread
    if unread is not None:
        unread.offer(what, shown)
    hint = f"Options: {', '.join(shown)}" if shown else "It has no options."
    errors: list[OptionError] = []
    for key in config.keys():  # noqa: SIM118 - a Config is no dict
        if key.lower() in known:
            continue
        where, guess = config.location(key), did_you_mean(key, [*shown, *ignore, *config.taken])
        if guess or unread is None:
            errors.append(OptionError(f"{what} has no option '{key}'{guess}", where=where, hint=hint))
        elif owner := unread.owner(key, what):
            errors.append(misplaced(key, what, where, owner))
        else:
            unread.add(key, what, where)
    return errors


def _look_up(config: Config, field: attrs.Attribute[Any], what: str) -> Value | None:
    names = _names(field)
    twice = [name for name in names if config.own(name) is not None]
    if len(twice) > 1:
        raise OptionError(
            f"{what} is given '{twice[0]}' and '{twice[1]}', which mean the same",
            where=config.location(twice[1]),
            hint=f"Remove one of them ('{twice[0]}' is at {config.location(twice[0])}).",
        )
    if field.default is attrs.NOTHING:
        return config.require(*names)
    return config.get(*names)


def _validate(field: attrs.Attribute[Any], value: Value, read: Any) -> None:
    """Run the field's validator here already, where the place of the value is known."""
    if field.validator is None:
        return
    try:
        field.validator(None, field, field.converter(read) if callable(field.converter) else read)
    except ValueError as error:
        reason = str(error.args[0] if error.args else error).replace(f"'{field.name}'", f"'{value.short_name}'")
        raise ConfigError(reason, where=value.where, hint=field.metadata.get("doc") or None) from None


def _convert(value: Value, wanted: Any, what: str) -> Any:
    simple = _SIMPLE.get(wanted)
    if simple is not None:
        return simple(value)
    origin = get_origin(wanted)
    arguments = get_args(wanted)
    if origin in (Union, types.UnionType):
        (inner,) = [argument for argument in arguments if argument is not type(None)]
        return _convert(value, inner, what)
    if origin is tuple:
        return _tuple(value, arguments, what)
    if origin is Schedule:
        return value.schedule(arguments[0])
    if origin is Literal:
        return _choice(value, {text.lower(): text for text in arguments})
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        members = {str(member.value).lower(): member for member in wanted}
        return _choice(value, {**members, **{member.name.lower(): member for member in wanted}}, list(members))
    if isinstance(wanted, type) and attrs.has(wanted):
        return bind(value.config(), wanted, what=f"'{value.short_name}' of {what}")
    raise TypeError(f"options cannot be of type {wanted!r}")


_SIMPLE: Mapping[Any, Callable[[Value], Any]] = {
    str: Value.string,
    bool: Value.boolean,
    int: Value.integer,
    float: Value.real,
    Path: lambda value: Path(value.string()),
    Config: Value.config,
    Value: lambda value: value,
}


def _tuple(value: Value, arguments: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    elements = value.array()
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_convert(element, arguments[0], what) for element in elements)
    if len(elements) != len(arguments):
        raise value.error(f"{len(arguments)} values", "Accepted: values separated with ':'.")
    return tuple(_convert(element, kind, what) for element, kind in zip(elements, arguments, strict=True))


def _choice(value: Value, choices: Mapping[str, Any], shown: Collection[str] | None = None) -> Any:
    text = value.string()
    found = choices.get(text.lower())
    if found is None:
        names = [str(choice) for choice in (choices.values() if shown is None else shown)]
        error = value.error("one of the names below", f"Accepted: {', '.join(names)}.")
        error.message += did_you_mean(text, names)
        raise error
    return found
