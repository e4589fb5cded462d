"""``cntk kaldi-prepare``: what the commands of a recipe's tables give, as archives."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from cntk_core.api import CntkError, Config, DataError, Location, ask_to_run, ask_to_write
from cntk_core.api.recipes import open_recipe
from cntk_reader_kaldi.archive import ArchiveFile
from cntk_reader_kaldi.commands import is_command, run_command
from cntk_reader_kaldi.lattice_options import ALIGNMENTS, LATTICES
from cntk_reader_kaldi.options import specifier_of
from cntk_reader_kaldi.tables import (
    EndOf,
    end_of_classes,
    end_of_lattice,
    end_of_matrix,
    read_lines,
    split_specifier,
)

_READERS = ("reader", "cvReader")
_LABELS = "mlfFile"
_MODEL = "kaldiModel"
_KEYS = (_LABELS, "rx", "scpFile")
_UNFINISHED = ".unfinished"
_LINE = 1 << 20
_SHOWN = 5


@attrs.frozen
class Found:
    """A table of a recipe that has commands.

    Attributes:
        name: of the archive.
        text: the specifier.
        end_of: the offset after an object of it.
        lines: of a list with commands, ``key`` and what stands behind it; None where the table is one command.
        where: the place of the specifier.
        put: where what replaces it belongs.
    """

    name: str
    text: str
    end_of: EndOf
    lines: tuple[tuple[Location, str, str], ...] | None
    where: Location
    put: str

    @property
    def commands(self) -> list[tuple[str, Location]]:
        """The commands and their places."""
        if self.lines is None:
            return [(split_specifier(self.text)[1], self.where)]
        return [(path, place) for place, _, path in self.lines if is_command(path)]


def prepare(
    arguments: Sequence[str],
    folder: Path,
    *,
    section: str | None = None,
    agreed: bool = False,
    plugin_files: Sequence[str] = (),
) -> int:
    """Show the commands of a recipe's tables, run them after asking, and say what to put in their place.

    Args:
        arguments: ``configFile=...``, ``key=value``.
        folder: for the archives.
        section: look at the readers of this command section only.
        agreed: do not ask.
        plugin_files: Python files with further plugins.

    Returns:
        0 if nothing is left to do, 1 if the commands were not run.

    Raises:
        CntkError: a command fails, or gives no archive.
    """
    _, sections = open_recipe(arguments, section, plugin_files)
    found = [one for part in sections for key in _READERS for one in _tables(part, key)]
    if not found:
        print("no reader of the recipe names a command")
        return 0
    firsts: dict[str, Found] = {}
    for one in found:
        firsts.setdefault(one.text, one)
    different = list(firsts.values())
    for one in found:
        _show(one)
    for one in different:
        for command, where in one.commands:
            ask_to_run(command, where=where)
        ask_to_write(folder / f"{one.name}.ark", where=one.where)
    if not agreed and not _asked(sum(len(one.commands) for one in different)):
        print("Nothing was run.")
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    written = {one.text: _write(one, folder) for one in different}
    print("Put in the place of the commands:")
    for one in found:
        print(f"    {one.put}{written[one.text]}")
    return 0


def _tables(part: Config, key: str) -> Iterator[Found]:
    """Yield the tables with commands of one reader's block."""
    value = part.get(key)
    if value is not None and value.is_block:
        yield from _of_block(value.config(), f"{part.name}-{key}".replace(":", "-"))


def _of_block(block: Config, name: str) -> Iterator[Found]:
    given = [key for key in _KEYS if block.own(key) is not None]
    if given:
        yield from _of_stream(block, given[0], name)
    own = block.keys()
    for key in own:
        value = block.own(key)
        if value is None:
            continue
        if key.lower() == "deserializers":
            for number, element in enumerate(value.array(), 1):
                yield from _of_block(element.config(), f"{name}-{number}")
        elif value.is_block:
            yield from _of_block(block.section(key), name if key.lower() == "input" else f"{name}-{key}")


def _of_stream(block: Config, key: str, name: str) -> Iterator[Found]:
    where = block.location(key)
    text = block.string(key)
    direct = split_specifier(text)[1] != text.strip() or text.endswith((".scp", ".ark"))
    if key == "scpFile" and not direct:
        return  # a list of HTK's
    specifier = text if direct else specifier_of(text, where, _LINE)
    put = f"{where}: {key} = " if direct else f"in the file {text}: "
    kind, path = split_specifier(specifier)
    lines = None
    if kind == "scp" and not is_command(path):
        lines = tuple((place, words[0], words[-1]) for place, words in read_lines(Path(path), where, "list of a table"))
        if not any(is_command(line[2]) for line in lines):
            return
    elif not is_command(path):
        return
    yield Found(name, specifier, _end_of(block, key), lines, where if direct else Location(text, 1), put)


def _end_of(block: Config, key: str) -> EndOf:
    """Return what finds the end of an object: classes, lattices, or matrices."""
    kind = block.name.rpartition(":")[2].lower()
    if key == _LABELS or block.own("labelDim") is not None or kind == ALIGNMENTS:
        return end_of_classes
    return end_of_lattice if block.own(_MODEL) is not None or kind == LATTICES else end_of_matrix


def _show(found: Found) -> None:
    print(f"{found.name}  ({found.where})")
    commands = found.commands
    for command, _ in commands[:_SHOWN]:
        print(f"    {command}")
    if len(commands) > _SHOWN:
        print(f"    ... and {len(commands) - _SHOWN} more")


def _asked(count: int) -> bool:
    if not sys.stdin.isatty():
        print("--yes runs them; without it somebody has to be asked, and nobody is there.")
        return False
    what = "this command" if count == 1 else f"these {count} commands"
    try:
        return input(f"Run {what}? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _write(found: Found, folder: Path) -> str:
    """Write one archive, and a list where the table is one; return the specifier of it."""
    archive = folder / f"{found.name}.ark"
    unfinished = archive.with_name(archive.name + _UNFINISHED)
    listing: list[str] = []
    try:
        with unfinished.open("wb") as file:
            if found.lines is None:
                run_command(split_specifier(found.text)[1], file, found.where, _tell)
            for place, key, path in found.lines or ():
                if not is_command(path):
                    listing.append(f"{key} {path}\n")
                    continue
                file.write(f"{key} ".encode())
                file.flush()
                listing.append(f"{key} {archive}:{file.seek(0, os.SEEK_END)}\n")
                run_command(path, file, place, _tell)
        kind = split_specifier(found.text)[0]
        if found.lines is None and kind == "scp":
            target = archive.with_suffix(".scp")
            os.replace(unfinished, target)
            print(f"{target}: a list")
            return f"scp:{target}"
        count = _count(unfinished, found)
        os.replace(unfinished, archive)
    except OSError as error:
        raise DataError(f"'{archive}' cannot be written: {error.strerror or error}", where=found.where) from None
    finally:
        unfinished.unlink(missing_ok=True)
    print(f"{archive}: {count} utterances")
    if found.lines is None:
        return f"ark:{archive}"
    target = archive.with_suffix(".scp")
    target.write_text("".join(listing), encoding="utf-8")
    return f"scp:{target}"


def _count(path: Path, found: Found) -> int:
    """Return how many objects an archive has. Raises DataError if it is none."""
    file = ArchiveFile(str(path), name=f"what the command gave ({found.name})")
    try:
        at = count = 0
        while (entry := file.next_key(at)) is not None:
            at = found.end_of(file, entry[1])
            count += 1
    except CntkError as error:
        hint = "A table is an archive: the commands end in `... ark:- |`."
        raise DataError(error.message, where=found.where, hint=error.hint or hint) from None
    finally:
        file.close()
    if not count:
        raise DataError("the command gave nothing", where=found.where, hint="Run it yourself to see what it says.")
    return count


def _tell(line: str) -> None:
    print(f"    {line}", file=sys.stderr)
