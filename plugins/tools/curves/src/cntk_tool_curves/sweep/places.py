"""What a recipe writes, moved into a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

from cntk_core.api import CntkError, Config, Value
from cntk_tool_curves.settings import PLACES
from cntk_tool_curves.sweep.grid import override

LOG = "log.jsonl"
"""Name of the log for programs of each run."""

_DEPTH = 4
_FORCED = {"makemode": "true", "resume": "auto", "stderr": "-"}
"""Keys that say how a run begins and where its text log goes: it goes on from what is there, and the log is caught."""

_KEPT = frozenset({"currentdirectory"})
"""A place from which paths of data count."""


def moved(config: Config, folder: Path) -> list[str]:
    """Return the ``key=value`` with which all that a recipe writes goes below a folder, and with which it can go on.

    The path below it is the one that the recipe has, so that files of several commands keep apart. What reads such a
    file later, or a model of one of its epochs, is given the new path, too. The log for programs is ``log.jsonl``.

    Args:
        config: the recipe.
        folder: of the run.
    """
    if config.current_directory is not None:
        folder = folder.absolute()  # the run goes somewhere else
    forced = {**_FORCED, "jsonlog": f'"{(folder / LOG).as_posix()}"'}
    values = [(value, text) for value in _values(config, _DEPTH) if (text := _text(value)) and _key(value) not in _KEPT]
    written = {
        text: _below(text, folder) for value, text in values if _key(value) in PLACES and _key(value) not in forced
    }
    found: dict[tuple[str, ...], str] = {
        ("makeMode",): forced["makemode"],
        ("stderr",): "-",
        ("jsonLog",): forced["jsonlog"],
    }
    for value, text in values:
        path = tuple(value.name.split(":"))
        if len(path) > 1 and _key(value) in forced:
            found[path] = forced[_key(value)]
        elif text in written or _epoch_of(text, written):
            found[path] = f'"{_new_path(text, written)}"'
    return [override(path, new) for path, new in found.items()]


def _key(value: Value) -> str:
    return value.name.rpartition(":")[2].lower()


def _values(config: Config, depth: int) -> Iterator[Value]:
    """Yield the plain values of a section and of the blocks in it, but for networks in some language."""
    for key in config.keys():  # noqa: SIM118 - a Config is no dict
        value = config.own(key)
        if value is None:
            continue
        try:
            inner = value.config() if value.is_block else None
        except CntkError:
            continue
        if inner is None:
            yield value
        elif depth and not key.lower().endswith("builder"):
            yield from _values(inner, depth - 1)


def _text(value: Value) -> str:
    try:
        return value.string()
    except CntkError:
        return ""


def _below(path: str, folder: Path) -> str:
    """Return where a file goes that a recipe writes to a path; standard output stays what it is."""
    if path == "-":
        return path
    parts = [part for part in PurePath(path).parts if part not in ("..", PurePath(path).anchor)]
    return folder.joinpath(*parts).as_posix()


def _epoch_of(text: str, written: Mapping[str, str]) -> bool:
    """Whether a text is the path of a model of one of the epochs (``net.dnn.3``) of one that is written."""
    stem, _, number = text.rpartition(".")
    return stem in written and number.isdecimal()


def _new_path(text: str, written: Mapping[str, str]) -> str:
    if text in written:
        return written[text]
    stem, _, number = text.rpartition(".")
    return f"{written[stem]}.{number}"
