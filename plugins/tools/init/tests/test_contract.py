"""The verb keeps its contract."""

from __future__ import annotations

from pathlib import Path

from cntk_tool_init.verb import Init

from cntk_testing import PackagingContract, VerbContract


class TestInit(VerbContract):
    verb_class = Init
    command_lines = (("new", "--data", "rows.ctf", "--yes"), ("--data", "rows.ctf", "--look"))

    def prepare(self, folder: Path) -> None:
        rows = "".join(f"|label {n % 2}:1 |x {n} {n % 2}\n" for n in range(20))
        (folder / "rows.ctf").write_text(rows, encoding="utf-8")


class TestPackaging(PackagingContract):
    distribution = "cntk-tool-init"
    kind = "verb"
