"""``cntk plugins new``: a complete small wheel with its contract test."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import attrs

from cntk_core.contract.component import API_VERSION
from cntk_core.errors import PluginError, UsageError, did_you_mean
from cntk_core.ops.table import core_ops

CORE_RANGE = "cntk-core>=0.1"
KITS = ("builders", "engines", "parallel", "readers")
"""What a generated wheel requires: until 1.0 a new minor version may break plugins."""


@attrs.frozen
class Template:
    """How wheels of a kind are named.

    Attributes:
        group: entry-point group.
        suffix: what ends the name of its class; empty where the wheel has functions.
        target: what the entry point names in the module.
        base: distribution and import names begin with ``cntk-<base>-``.
    """

    group: str
    suffix: str
    target: str
    base: str


TEMPLATES: Mapping[str, Template] = {
    "engine": Template("cntk.engines", "Engine", ":%class%", "engine"),
    "op": Template("cntk.ops", "", ":%snake%", "op"),
    "builder": Template("cntk.builders", "Builder", ":%class%", "builder"),
    "reader": Template("cntk.readers", "Reader", ":%class%", "reader"),
    "learner": Template("cntk.learners", "Learner", ":%class%", "learner"),
    "parallelizer": Template("cntk.parallelizers", "Parallelizer", ":%class%", "parallel"),
    "aggregation": Template("cntk.aggregations", "Aggregation", ":%class%", "aggregation"),
    "hook": Template("cntk.hooks", "", "", "hook"),
    "action": Template("cntk.actions", "Action", ":%class%", "action"),
    "verb": Template("cntk.verbs", "Verb", ":%class%", "verb"),
    "model_format": Template("cntk.model_formats", "Format", ":%class%", "model"),
    "initializer": Template("cntk.initializers", "Initializer", ":%class%", "initializer"),
    "schedule": Template("cntk.schedules", "Schedule", ":%class%", "schedule"),
    "dataset": Template("cntk.datasets", "Dataset", ":%class%", "dataset"),
}
"""The kinds of plugins that can be made."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([_-][A-Za-z0-9]+)*")
_PLACEHOLDER = re.compile(r"%[a-z_]+%")


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
    sources = files("cntk_core.plugins") / "templates"
    texts: dict[str, str] = {}
    for part in ("common", kind):
        for path, text in _templates(sources / part):
            texts[_fill(path.removesuffix(".tmpl"), words)] = text
    words["needs"] = ", ".join(f'"{need}"' for need in (CORE_RANGE, *_kits(texts.values())))
    words["example"] = _fill(texts.pop("example.md").rstrip("\n"), words)
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
    }
    words["target"] = words["module"] + _fill(template.target, words)
    return words


def _check_op_name(name: str) -> None:
    if "-" in name:
        raise UsageError(f"'{name}' is no name for an op: in a network description '-' is no letter")
    taken = core_ops().find("", name)
    if taken is not None:
        raise UsageError(f"the core has an op '{taken.name}' already", hint="Choose another name.")


def next_steps(folder: Path, kind: str) -> str:
    """Say what was made and what to do with it."""
    names = "\n".join(f"  {file}" for file in sorted(path for path in folder.rglob("*") if path.is_file()))
    return (
        f"A new {kind}:\n{names}\n\n"
        f"Install it and run its tests:\n"
        f'  pip install --editable "{folder}[test]"\n'
        f"  pytest {folder}"
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
