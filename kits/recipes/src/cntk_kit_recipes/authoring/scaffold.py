"""``cntk plugins new``: a complete small wheel with its contract test."""

from __future__ import annotations

import getpass
import keyword
import os
import re
import time
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import attrs

from cntk_core.contract.component import API_VERSION
from cntk_core.errors import PluginError, UsageError, did_you_mean
from cntk_core.ops.table import core_ops

CORE = "cntk-core>=0.1"
"""What a generated wheel requires. It has no upper end: the class says which interface it was written for."""
KITS = ("builders", "engines", "parallel", "readers", "recipes")
"""Kits that a generated wheel requires if it goes through their doors."""


@attrs.frozen
class Template:
    """How wheels of a kind are named: what stands in the ``kind.toml`` of the folder with its files.

    Attributes:
        group: entry-point group.
        suffix: what ends the name of its class; empty where the wheel has functions.
        target: what the entry point names in the module.
        base: distribution and import names begin with ``cntk-<base>-``.
        parts: folders of files that it shares with other kinds.
        command: uses it, in the folder of the wheel; mostly it runs the recipe of the README.
        needs: distributions that this needs beside the core.
    """

    group: str
    suffix: str
    target: str
    base: str
    parts: tuple[str, ...] = attrs.field(converter=tuple)
    command: str
    needs: tuple[str, ...] = attrs.field(converter=tuple)


def _read_templates() -> dict[str, Template]:
    folders = sorted((files("cntk_kit_recipes.authoring") / "templates").iterdir(), key=lambda folder: folder.name)
    descriptions = {folder.name: folder / "kind.toml" for folder in folders}
    return {
        kind: Template(**tomllib.loads(file.read_text(encoding="utf-8")))
        for kind, file in descriptions.items()
        if file.is_file()
    }


TEMPLATES: Mapping[str, Template] = _read_templates()
"""The kinds of plugins that can be made: one for each folder of templates with a ``kind.toml``."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([_-][A-Za-z0-9]+)*")
_PLACEHOLDER = re.compile(r"%[a-zA-Z_]+%")


def new_plugin(kind: str, name: str, folder: str | Path = ".") -> Path:
    """Write a wheel and return its folder, ``cntk-<kind>-<name>`` in ``folder``.

    Args:
        kind: one of :data:`TEMPLATES`.
        name: the word that a recipe will write: letters, digits, ``_`` and ``-``.
        folder: where the folder of the wheel goes.

    Raises:
        UsageError: there is no such kind, or the name cannot be used.
        PluginError: the folder exists and is not empty, or cannot be written.
    """
    words = names_of(kind, name)
    target = Path(folder) / words["wheel"]
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise PluginError(f"'{target}' exists already", hint="Choose another name or --folder, or remove it.")
    sources = files("cntk_kit_recipes.authoring") / "templates"
    texts: dict[str, str] = {}
    for part in (*TEMPLATES[kind].parts, kind):
        for path, text in _templates(sources / part):
            texts[_fill(path.removesuffix(".tmpl"), words)] = text
    words["requires"] = ", ".join(f'"{need}"' for need in (CORE, *_kits(texts.values())))
    words["example"] = _fill(texts.pop("example.md"), words)
    has_example = any(path.startswith("example/") for path in texts)
    words["shipped"] = _fill('\n"example" = "%module%/contract/example"', words) if has_example else ""
    words["trial"] = _trial(texts.get("example/recipe.cntk", ""), words)
    try:
        for path, text in texts.items():
            file = target / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_fill(text, words), encoding="utf-8")
    except OSError as error:
        raise PluginError(f"'{error.filename}' cannot be written: {error.strerror}") from error
    return target


def names_of(kind: str, name: str) -> dict[str, str]:
    """Return the names that a template needs: of the wheel, the module, the class.

    Raises:
        UsageError: there is no such kind, or the name cannot be used.
    """
    template = TEMPLATES.get(kind)
    if template is None:
        raise UsageError(
            f"there is no kind of plugin '{kind}'{did_you_mean(kind, TEMPLATES)}", hint=f"Kinds: {', '.join(TEMPLATES)}"
        )
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise UsageError(
            f"'{name}' is no name for a plugin",
            hint="A name begins with a letter and has letters, digits, '_' and '-'; Python's own words are not names.",
        )
    if kind == "op":
        _check_op_name(name)
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower().split("_")
    snake = "_".join(parts)
    camel = "".join(part[:1].upper() + part[1:] for part in re.split(r"[_-]", name))
    words = {
        "kind": kind,
        "name": name,
        "snake": snake,
        "wheel": f"cntk-{template.base}-{'-'.join(parts)}",
        "module": f"cntk_{template.base}_{snake}",
        "class": camel if camel.lower().endswith(template.suffix.lower()) else camel + template.suffix,
        "group": template.group,
        "api": API_VERSION,
        "CLASS": snake.upper(),
        "needs": ", ".join(f'"{name}"' for name in ("cntk-testing>=0.1", *template.needs)),
        "author": _author(),
        "year": str(time.localtime().tm_year),
    }
    words["target"] = words["module"] + _fill(template.target, words)
    words["command"] = _fill(template.command, words)
    return words


def _trial(recipe: str, words: Mapping[str, str]) -> str:
    """Return what a README shows to try a plugin: its recipe, if it has one, and a command."""
    command = f"```sh\n{words['command']}\n```"
    if not recipe:
        return command
    return f"```\n{_fill(recipe, words)}```\n\n`example/` has this recipe and its data:\n\n{command}"


def _author() -> str:
    """Return who writes the wheel, as far as the machine knows."""
    try:
        return os.environ.get("GIT_AUTHOR_NAME") or getpass.getuser()
    except (OSError, KeyError):  # nobody has this number
        return "its author"


def _check_op_name(name: str) -> None:
    if "-" in name:
        raise UsageError(f"'{name}' is no name for an op: in a network description '-' is no letter")
    taken = core_ops().find("", name)
    if taken is not None:
        raise UsageError(f"the core has an op '{taken.name}' already", hint="Choose another name.")


def next_steps(folder: Path, kind: str) -> str:
    """Say what was made and what to do with it."""
    command = next(
        line for line in (folder / "README.md").read_text(encoding="utf-8").splitlines() if line[:5] == "cntk "
    )
    names = "\n".join(f"  {file}" for file in sorted(path for path in folder.rglob("*") if path.is_file()))
    return (
        f"A new {kind}:\n{names}\n\n"
        f"Install it and run its tests:\n"
        f'  pip install --editable "{folder}[test]"\n'
        f"  pytest {folder}\n\n"
        f"Try what its README shows:\n"
        f"  cd {folder}\n"
        f"  {command}"
    )


def _templates(folder: Traversable, prefix: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found += _templates(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".tmpl"):
            found.append((prefix + entry.name, entry.read_text(encoding="utf-8")))
    return found


def _kits(texts: Iterable[str]) -> list[str]:
    """Return the kits through whose doors a template goes."""
    return [f"cntk-kit-{kit}>=0.1" for kit in KITS if any(f"cntk_core.api.{kit} " in text for text in texts)]


def _fill(text: str, words: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: words[match[0].strip("%")], text)
