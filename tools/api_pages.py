"""The reference of the doors: a page each with every name, its signature and its docstring, and a page of all names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, get_origin

import attrs
from api_names import DOORS, Door, group_lines, hook_lines, lines_of_name, split

INTRODUCTION = """\
# Reference of the plugin interface

Plugins import from the modules below and from nothing else of `cntk_core`. Each has a version of its own;
[what a version promises](../stability.md) stands on another page, and [Writing a plugin](../writing-a-plugin.md) shows
how the names are used. `tools/api.py` writes these pages from the source.
"""

TITLES = ("Components", "Records", "Options", "Errors", "Other classes", "Functions", "Other names", "Hooks", "Groups")
SECTIONS = ("Args", "Attributes", "Raises", "Returns", "Yields")
ITEM = re.compile(r"(?P<names>[A-Za-z_*][\w*, ]*): (?P<text>.*)", re.DOTALL)

RAISED = re.compile(r"^Raises:\n +([\w, ]+):", re.MULTILINE)


def pages() -> dict[str, str]:
    """Return the text of every page by the name of its file."""
    found = {f"{door.name}.md": page(door) for door in DOORS}
    return {"README.md": overview(), **found}


def overview() -> str:
    """Return the page of all doors with their names."""
    parts = [INTRODUCTION]
    for door in DOORS:
        parts.append(f"## [`{door.module}`]({door.name}.md) {door.current()}\n\n{first_paragraph(door.load())}\n")
        groups = grouped(door)
        rows = [f"- {title}: {', '.join(link(door, name) for name in names)}" for title, names in groups.items()]
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def link(door: Door, name: str) -> str:
    """Return a link to a name's heading."""
    return f"[`{name}`]({door.name}.md#{name.lower()})"


def page(door: Door) -> str:
    """Return the page of one door."""
    module = door.load()
    parts = [f"# `{door.module}` {door.current()}\n", f"{paragraphs(module.__doc__)}\n"]
    parts.append("Written by `tools/api.py`. [All doors](README.md), [what a version promises](../stability.md).\n")
    for title, names in grouped(door).items():
        parts.append(f"## {title}\n")
        parts += [entry(name, getattr(module, name)) for name in names]
    if door.name == "contract":
        parts += [*hooks(), *groups()]
    return "\n".join(parts)


def grouped(door: Door) -> dict[str, list[str]]:
    """Return the names of a door by what they are; groups without names are left out."""
    module = door.load()
    found: dict[str, list[str]] = {title: [] for title in TITLES}
    for name in sorted(module.__all__, key=str.casefold):
        found[group_of(getattr(module, name))].append(name)
    return {title: names for title, names in found.items() if names}


def group_of(value: Any) -> str:
    """Return the group that a value stands in."""
    from cntk_core.contract.component import Component

    if getattr(value, "__module__", "").startswith("cntk_core.config"):
        return "Options"
    if inspect.isclass(value) and get_origin(value) is None:
        if issubclass(value, Component):
            return "Components"
        if issubclass(value, BaseException):
            return "Errors"
        return "Records" if attrs.has(value) else "Other classes"
    return "Functions" if inspect.isroutine(value) or type(value).__module__.startswith("pluggy") else "Other names"


def entry(name: str, value: Any) -> str:
    """Return what the page says of one name."""
    first, *members = lines_of_name(name, value)
    made = [line for line in members if line.startswith("constructor ")]
    shown = [first, *made] if first.startswith("class ") else [first]
    parts = [f"### {name}\n", fenced(shown)]
    if inspect.isclass(value) or inspect.isroutine(value):
        parts.append(f"{paragraphs(value.__doc__)}\n")
    rows = [member for member in members if not member.startswith("constructor ")]
    parts.append("".join(["Members:\n\n" * bool(rows), *(f"- {member_text(value, member)}\n" for member in rows)]))
    return "\n".join(part for part in parts if part.strip())


def member_text(owner: type, line: str) -> str:
    """Return the row of one member: its signature, and the first line of its docstring."""
    kind, _, rest = line.partition(" ")
    name = re.split(r"[^\w.]", rest)[0].rpartition(".")[2]
    signature = rest.partition(".")[2]
    member = inspect.getattr_static(owner, name, None)
    doc = getattr(member, "__func__", member).__doc__ if kind not in ("field", "attribute", "member") else ""
    raised = ", ".join(names.strip() for names in RAISED.findall(inspect.cleandoc(doc or "")))
    told = first_sentence(doc or "") + (f" Raises {raised}." if raised else "")
    return f"`{signature}`" + (f": {told}" if told else "") + (" (A class method.)" if kind == "classmethod" else "")


def hooks() -> Iterator[str]:
    """Yield what the page says of hooks."""
    from cntk_core.plugins import specs

    yield f"## Hooks\n\n{paragraphs(specs.__doc__)}\n"
    for line in hook_lines():
        name = re.split(r"\W", line.removeprefix("hook "))[0]
        yield f"### {name}\n\n{fenced([line])}\n{paragraphs(getattr(specs, name).__doc__)}\n"


def groups() -> Iterator[str]:
    """Yield the table of groups of entry points."""
    yield "## Groups of entry points\n\n| group | what an entry point names |\n| --- | --- |"
    for line in group_lines():
        group, _, what = line.removeprefix("group ").partition(": ")
        yield f"| `{group}` | {what} |"
    yield ""


def fenced(lines: list[str]) -> str:
    """Return lines as a block; a long signature is broken at its arguments."""
    return "\n".join(["```text", *(part for line in lines for part in broken(line)), "```", ""])


def broken(line: str) -> list[str]:
    """Break a signature that is too long for a page into a line for each argument."""
    head, bracket, _ = line.partition("(")
    arguments, rest = split(line[len(head) :])
    if len(line) <= 110 or not bracket or not arguments:
        return [line]
    return [f"{head}(", *(f"    {argument}," for argument in arguments), f"){rest}"]


# -- docstrings ----------------------------------------------------------------------------------------------


def first_paragraph(thing: Any) -> str:
    """Return the first paragraph of a docstring as Markdown."""
    return paragraphs(inspect.cleandoc(thing.__doc__ or "").partition("\n\n")[0])


def first_sentence(doc: str) -> str:
    """Return the first paragraph of a docstring in one line."""
    return inline(" ".join(inspect.cleandoc(doc).partition("\n\n")[0].split()))


def paragraphs(doc: str | None) -> str:
    """Return a docstring as Markdown: its paragraphs, its sections (arguments, errors raised) as lists."""
    parts: list[str] = []
    lines = inspect.cleandoc(doc or "").splitlines()
    while lines:
        title = lines[0].removesuffix(":")
        if title in SECTIONS and lines[0].endswith(":"):
            taken = list(indented(lines[1:]))
            parts.append(section(title, taken))
            lines = lines[1 + len(taken) :]
        else:
            parts.append(inline(lines[0]))
            lines = lines[1:]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).strip()
    return re.sub(r"::$", ":", text, flags=re.MULTILINE)


def indented(lines: list[str]) -> Iterator[str]:
    """Yield the lines up to the first that is not indented."""
    for line in lines:
        if line and not line.startswith(" "):
            return
        yield line


def section(title: str, lines: list[str]) -> str:
    """Return a section of a docstring as a list."""
    items: list[str] = []
    for line in inspect.cleandoc("\n".join(["", *lines])).splitlines():
        if line.startswith(" ") and items:
            items[-1] += f" {line.strip()}"
        elif line.strip():
            items.append(line.strip())
    rows = []
    for item in items:
        found = ITEM.fullmatch(item)
        names = ", ".join(f"`{name.strip()}`" for name in found["names"].split(",")) if found else ""
        rows.append(f"- {names}: {inline(found['text'])}" if found else f"- {inline(item)}")
    return "\n".join([f"\n{title}:\n", *rows, ""])


def inline(text: str) -> str:
    """Return a line with the marks of Markdown in place of those of docstrings."""
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text).replace("``", "`")
