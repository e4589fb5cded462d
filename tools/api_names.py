"""What the doors of plugins offer, read from the running code: names, signatures, members, hooks, groups.

A door is described by lines such as ``method Learner.update(context: UpdateContext) -> None``, one for each thing that
an author can use; ``tools/api.py`` keeps them in files and compares, ``tools/api_pages.py`` makes pages of them.
"""

from __future__ import annotations

import enum
import functools
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, get_origin

import attrs

OPERATORS = ("__call__", "__contains__", "__enter__", "__exit__", "__getitem__", "__iter__", "__len__")
"""Methods with underscores that an author calls or defines."""


@dataclass(frozen=True)
class Door:
    """A module that plugins import from.

    Attributes:
        name: of its snapshot and its page.
        module: what is imported.
        version: name of the variable with its version.
    """

    name: str
    module: str
    version: str = "KIT_VERSION"

    def load(self) -> ModuleType:
        """Import it."""
        return import_module(self.module)

    def current(self) -> str:
        """Its version now."""
        return str(getattr(self.load(), self.version))


DOORS = (
    Door("contract", "cntk_core.api", "API_VERSION"),
    Door("readers", "cntk_core.api.readers"),
    Door("engines", "cntk_core.api.engines"),
    Door("builders", "cntk_core.api.builders"),
    Door("parallel", "cntk_core.api.parallel"),
    Door("recipes", "cntk_core.api.recipes"),
    Door("training", "cntk_core.api.training"),
)


def lines_of(door: Door) -> list[str]:
    """Describe everything that a door offers: a line each, names in alphabetical order, members as they are defined."""
    module = door.load()
    found = [line for name in sorted(module.__all__) for line in lines_of_name(name, getattr(module, name))]
    return [*found, *hook_lines(), *group_lines()] if door.name == "contract" else found


def lines_of_name(name: str, value: Any) -> Iterator[str]:
    """Describe one name with its members."""
    if inspect.isclass(value) and get_origin(value) is None:
        yield f"class {name}{bases_of(value)}{kind_of(value)}"
        yield from members_of(name, value)
    elif inspect.isfunction(value):
        yield f"function {name}{signature(value)}"
    elif name.endswith("_VERSION"):
        yield f"constant {name}"
    elif isinstance(value, bool | int | float | str | tuple | enum.Enum):
        yield f"constant {name} = {shown(value)}"
    elif callable(value) and get_origin(value) is None and not type(value).__module__.startswith("typing"):
        yield f"function {name}: {type(value).__name__}"
    elif get_origin(value) is not None or type(value).__module__ in ("types", "typing"):
        yield f"alias {name} = {value}"
    else:
        yield f"constant {name}: {type(value).__name__}"


def kind_of(cls: type) -> str:
    """What sort of class it is, if authors write subclasses of it or there is more to say."""
    if getattr(cls, "_is_protocol", False):
        return " [protocol]"
    if inspect.isabstract(cls):
        return " [abstract]"
    return " [enum]" if issubclass(cls, enum.Enum) else ""


def bases_of(cls: type) -> str:
    """Its bases that are no detail."""
    names = [base.__name__ for base in cls.__bases__ if base is not object and not base.__name__.startswith("_")]
    names = [name for name in names if name not in ("ABC", "Generic", "Protocol")]
    return f"({', '.join(names)})" if names else ""


def members_of(name: str, cls: type) -> Iterator[str]:
    """Describe what an author may use of a class: constructor, fields, attributes, properties, methods."""
    if issubclass(cls, enum.Enum):
        yield from (f"member {name}.{member.name} = {shown(member.value)}" for member in cls)
        return
    yield from constructor_of(name, cls)
    fields = {field.name: field for field in attrs.fields(cls)} if attrs.has(cls) else {}
    told: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not base.__module__.startswith("cntk_") or (base is not cls and base in public_classes()):
            continue
        for member, annotation in inspect.get_annotations(base).items():
            if not member.startswith("_"):
                kind = "field" if member in fields else "attribute"
                told[member] = f"{kind} {name}.{member}: {text_of(annotation)}"
        if "__init__" in vars(base) and not attrs.has(base):
            told |= {member: f"attribute {name}.{member}" for member in set_in(base) if member not in told}
        for member, value in vars(base).items():
            if (not member.startswith("_") or member in OPERATORS) and (line := member_line(name, member, value)):
                told[member] = line
    yield from told.values()


@functools.cache
def public_classes() -> frozenset[type]:
    """The classes that stand behind a door themselves: what others inherit from them is told there alone."""
    values = [getattr(door.load(), name) for door in DOORS for name in door.load().__all__]
    return frozenset(value for value in values if inspect.isclass(value) and get_origin(value) is None)


def constructor_of(name: str, cls: type) -> Iterator[str]:
    """Describe how it is made, where that is written down in our code."""
    own = next((base for base in cls.__mro__ if "__init__" in vars(base)), object)
    if own.__module__.startswith("cntk_") and not getattr(cls, "_is_protocol", False):
        yield f"constructor {name}{signature(vars(own)['__init__'], skip_self=True)}".removesuffix(" -> None")


def set_in(cls: type) -> Iterator[str]:
    """Yield the attributes that a constructor sets."""
    source = inspect.getsource(vars(cls)["__init__"])
    yield from dict.fromkeys(re.findall(r"^ +self\.([a-z]\w*)(?:: [^=\n]+)? = ", source, re.MULTILINE))


def member_line(name: str, member: str, value: Any) -> str:
    """Describe a method or property; empty for anything else."""
    full = f"{name}.{member}"
    end = " [abstract]" if getattr(value, "__isabstractmethod__", False) else ""
    if isinstance(value, staticmethod):
        return f"staticmethod {full}{signature(value.__func__)}{end}"
    if isinstance(value, classmethod):
        return f"classmethod {full}{signature(value.__func__, skip_self=True)}{end}"
    if inspect.isfunction(value):
        return f"method {full}{signature(value, skip_self=True)}{end}"
    if isinstance(value, property):
        returned = text_of(inspect.get_annotations(value.fget).get("return", "")) if value.fget else ""
        return f"property {full}: {returned}{' [settable]' if value.fset else ''}{end}"
    if isinstance(value, functools.cached_property):
        return f"property {full}: {text_of(inspect.get_annotations(value.func).get('return', ''))}"
    return ""


def hook_lines() -> Iterator[str]:
    """Describe every hook: its arguments, and who decides."""
    from cntk_core.plugins import specs

    for name in sorted(name for name in vars(specs) if name.startswith("cntk_")):
        function = getattr(specs, name)
        marks = [key for key, value in sorted(function.cntk_spec.items()) if value is True]
        yield f"hook {name}{signature(function)}{''.join(f' [{mark}]' for mark in marks)}"


def group_lines() -> Iterator[str]:
    """Describe every group of entry points."""
    from cntk_core.plugins.discovery import HOOKS_GROUP, OPS_GROUP
    from cntk_core.plugins.registry import KINDS

    groups = {kind.group: kind.base.__name__ for kind in KINDS}
    groups |= {HOOKS_GROUP: "module, object or class with hooks", OPS_GROUP: "Op, or a module or list of them"}
    yield from (f"group {group}: {what}" for group, what in sorted(groups.items()))


def signature(function: Any, *, skip_self: bool = False) -> str:
    """Return a signature as it would be written: ``(a: int, *, b: str = '') -> None``."""
    found = inspect.signature(function)
    parameters = list(found.parameters.values())[int(skip_self) :]
    parts: list[str] = []
    for number, parameter in enumerate(parameters):
        before = parameters[number - 1].kind if number else None
        if before is parameter.POSITIONAL_ONLY and parameter.kind is not before:
            parts.append("/")
        if parameter.kind is parameter.KEYWORD_ONLY and before not in (
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        ):
            parts.append("*")
        parts.append(parameter_text(parameter))
    if parameters and parameters[-1].kind is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    returned = "" if found.return_annotation is found.empty else f" -> {text_of(found.return_annotation)}"
    return f"({', '.join(parts)}){returned}"


def parameter_text(parameter: inspect.Parameter) -> str:
    """Return one parameter with its annotation and default."""
    stars: dict[object, str] = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    star = stars.get(parameter.kind, "")
    annotated = parameter.annotation is not parameter.empty
    text = f"{star}{parameter.name}" + (f": {text_of(parameter.annotation)}" if annotated else "")
    if parameter.default is parameter.empty:
        return text
    return f"{text}{' = ' if annotated else '='}{shown(parameter.default)}"


def text_of(annotation: Any) -> str:
    """Return an annotation as it is written in the source."""
    if isinstance(annotation, str):
        return annotation
    return "None" if annotation is None else inspect.formatannotation(annotation)


def shown(value: Any) -> str:
    """Return a value so that it reads the same in every process."""
    if value is attrs.NOTHING:
        return "..."
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    text = repr(value)
    return f"{type(value).__name__}(...)" if re.search(r" at 0x[0-9a-f]+", text) or len(text) > 80 else text


def split(text: str) -> tuple[list[str], str]:
    """Return the arguments of a signature that begins with its bracket, and what stands behind them."""
    depth, parts, start = 0, [], 1
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if (letter == "," and depth == 1) or (letter == ")" and depth == 0):
            parts.append(text[start:place].strip())
            start = place + 1
            if depth == 0:
                return [part for part in parts if part], text[start:]
    return [], text
