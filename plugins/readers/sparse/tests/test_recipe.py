"""The recipe of the README: run, stopped, resumed, with broken data."""

from __future__ import annotations

from pathlib import Path

import pytest
from sparse_bytes import dssm_file

from cntk_testing import README, ReaderRecipe


@pytest.mark.thorough
class TestReadme(ReaderRecipe):
    recipe = README

    def files(self, folder: Path) -> None:
        queries = [{n % 20: 1.0, (n + 3) % 20: 2.0} for n in range(40)]
        documents = [{n % 20: 1.0, (n + 7) % 30: 1.0} for n in range(40)]
        (folder / "query.bin").write_bytes(dssm_file(20, queries))
        (folder / "document.bin").write_bytes(dssm_file(30, documents))
