"""The figures of trials: kept in a file, one JSON object a line, and shown in the table of `docs/reliability.md`."""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- trials -->\n", "<!-- /trials -->\n"


@attrs.frozen
class Figure:
    """What a trial gave: a row of the table.

    Attributes:
        part: the subcommand, and what of it.
        tried: how many attempts there were, of what kind.
        failures: how many did not end as they must.
        seen: what else there is to say.
        seconds: that it took.
    """

    part: str
    tried: int
    failures: int
    seen: str
    seconds: float


def add_option(parser: argparse.ArgumentParser) -> None:
    """Let a command line name the file of figures."""
    parser.add_argument("--record", type=Path, metavar="FILE", help="add what came of it to this file of figures")


def record(path: Path | None, figure: Figure) -> None:
    """Add a figure to a file, with the day and the commit; nothing without a file."""
    if path is None:
        return
    shown = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude", "*"]
    commit = subprocess.run(shown, capture_output=True, text=True, check=False).stdout.strip()
    row = {**attrs.asdict(figure), "day": time.strftime("%Y-%m-%d"), "commit": commit}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def table(lines: Iterable[str]) -> str:
    """Return the table of the last figure of each part, in the order in which parts came first."""
    rows = {}
    for line in lines:
        row = json.loads(line)
        rows[row["part"]] = row
    text = "| trial | tried | failed | seen | took | day, commit |\n| --- | ---: | ---: | --- | ---: | --- |\n"
    for row in rows.values():
        took = f"{row['seconds'] / 60:.1f} min" if row["seconds"] >= 60 else f"{row['seconds']:.0f} s"
        cells = (row["part"], f"{row['tried']:,}", f"{row['failures']:,}", row["seen"], took)
        text += f"| {' | '.join(cells)} | {row['day']}, {row['commit']} |\n"
    return text


def write_table(record: Path, page: Path = PAGE) -> None:
    """Put the table of a file of figures into the page, between its two comments."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{page} has no lines '{BEGIN.strip()}' and '{END.strip()}'")
    shown = table(record.read_text(encoding="utf-8").splitlines())
    page.write_text(f"{before}{BEGIN}{shown}{END}{after}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("record", type=Path, help="the file of figures")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    write_table(options.record, options.page)
    return 0
