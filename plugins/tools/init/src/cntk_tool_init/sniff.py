"""Says what data are, by what is in them: names of files say little."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

from cntk_core.api import DataError, Location
from cntk_tool_init.formats import ctf, images, speech, tables, text, uci
from cntk_tool_init.found import Data, Wishes, some
from cntk_tool_init.places import first_lines

_TEXT, _TABLE, _ARRAYS, _MLF, _HTK, _KALDI, _ALIGNED, _MAP, _UCI, _TAGGED, _SENTENCES, _OTHER = (
    "CNTK text", "a table", "arrays", "a label file of HTK", "a list of HTK features", "a list of Kaldi features",
    "alignments of Kaldi", "a map file", "columns", "words with tags", "sentences", "something else",
)  # fmt: skip
_WHAT = "cntk init reads CNTK text, CSV, Parquet, npz, folders of pictures, map files, columns, HTK, Kaldi and text."
_MAP_LINE = re.compile(r"(?:[^\t]+\t)?[^\t]+\t\d+\s*$")


def look(paths: Sequence[Path], wishes: Wishes) -> Data:
    """Look at files, or at a folder, and return what they are.

    Raises:
        DataError: they are nothing that is known, or do not belong together.
    """
    for path in paths:
        if not path.exists():
            raise DataError(f"'{path}' is not there", hint="Give --data a file or a folder.")
    if len(paths) == 1 and paths[0].is_dir():
        folder = paths[0]
        if any(images.pictures_in(one) for one in folder.iterdir() if one.is_dir()):
            return images.Pictures.of_folder(folder, wishes)
        paths = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith(".")]
        return _of_files(_known(paths), folder, wishes)
    return _of_files({path: kind_of(path) for path in paths}, paths[0], wishes)


def _known(paths: Sequence[Path]) -> dict[Path, str]:
    """Of the files of a folder those that are data: text that nobody means as such is not."""
    found = {path: kind_of(path) for path in paths}
    data = {path: kind for path, kind in found.items() if kind not in (_SENTENCES, _OTHER)}
    return data or {path: kind for path, kind in found.items() if kind == _SENTENCES}


def _of_files(found: dict[Path, str], where: Path, wishes: Wishes) -> Data:
    """Take files together."""
    by_kind = {kind: path for path, kind in found.items()}
    if _KALDI in by_kind and _UCI in by_kind and speech.is_alignment(by_kind[_UCI]):
        by_kind[_ALIGNED] = by_kind[_UCI]  # all utterances are as long
    if _HTK in by_kind or _MLF in by_kind:
        return speech.Htk(*_pair(by_kind, _HTK, _MLF, where), wishes)
    if _KALDI in by_kind or _ALIGNED in by_kind:
        return speech.Kaldi(*_pair(by_kind, _KALDI, _ALIGNED, where), wishes)
    if len(found) != 1:
        names = [f"{path.name} ({kind})" for path, kind in found.items()]
        raise DataError(
            f"there are several files, and it is not clear which one is meant: {some(names)}" if found
            else "there is nothing to learn from",
            where=Location(str(where)),
            hint="Give --data one of them, --held-out FILE for one that is not learned from." if found else _WHAT,
        )  # fmt: skip
    path, kind = next(iter(found.items()))
    match kind:
        case "CNTK text":
            return ctf.Text(path, wishes)
        case "a table":
            return tables.Table(path, wishes)
        case "arrays":
            return tables.Arrays(path, wishes)
        case "a map file":
            return images.Pictures.of_map(path, wishes)
        case "columns":
            return uci.Columns(path, wishes)
        case "words with tags":
            return text.TaggedWords(path, wishes)
        case "sentences":
            return text.Sentences(path, wishes)
    raise DataError("this is nothing that is known", where=Location(str(path)), hint=_WHAT)


def _pair(by_kind: dict[str, Path], first: str, second: str, where: Path) -> tuple[Path, Path]:
    """Return two files that need each other."""
    missing = [kind for kind in (first, second) if kind not in by_kind]
    if missing:
        raise DataError(
            f"{missing[0]} is missing",
            where=Location(str(where)),
            hint="Give both files: --data LIST LABELS. Binary alignments become text by copy-int-vector ark:a ark,t:b.",
        )
    return by_kind[first], by_kind[second]


def kind_of(path: Path) -> str:
    """Say what a file is."""
    with path.open("rb") as file:
        head = file.read(4096)
    if head[:4] == b"PAR1":
        return _TABLE
    if head[:4] == b"PK\x03\x04":
        return _ARRAYS if _is_npz(path) else _OTHER
    if b"\0" in head:
        return _OTHER
    lines = [line for line in first_lines(path) if line.strip()]
    if not lines:
        return _OTHER
    return _of_text(path, lines)


def _is_npz(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return all(name.endswith(".npy") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


def _of_text(path: Path, lines: Sequence[str]) -> str:
    """Say what a text is, by its first lines."""
    if lines[0].startswith("#!MLF!#"):
        return _MLF
    if all(ctf.ROW.match(line) for line in lines[:20]):
        return _TEXT
    if speech.is_htk_list(path):
        return _HTK
    if speech.is_kaldi_list(path):
        return _KALDI
    if (
        all(_MAP_LINE.match(line) for line in lines)
        and Path(lines[0].split("\t")[-2]).suffix.lower() in images.SUFFIXES
    ):
        return _MAP
    if tables.delimiter_of(lines):
        return _TABLE
    return _of_words(path, [line.split() for line in lines])


def _of_words(path: Path, rows: Sequence[Sequence[str]]) -> str:
    """Say what a text is that has nothing but blanks between words."""
    widths = {len(row) for row in rows}
    numbers = [sum(map(_is_number, row)) for row in rows]
    if len(widths) == 1 and widths != {1} and min(numbers) >= max(1, len(rows[0]) - 1):
        return _UCI
    if (path.suffix != ".txt" or len(widths) > 1) and speech.is_alignment(path):
        return _ALIGNED
    empty = any(not line.strip() for line in first_lines(path))
    if len(widths) == 1 and widths != {1} and empty and len({row[-1] for row in rows}) <= max(2, len(rows) // 2):
        return _TAGGED
    return _SENTENCES


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
