"""The recipe of the README: run, stopped inside an epoch, resumed; it leaves event files."""

from __future__ import annotations

from pathlib import Path

from cntk_testing import README, RecipeContract
from cntk_testing.recipes import inside


class TestReadme(RecipeContract):
    recipe = README
    recipe_key = "tensorBoardLogDir"

    def test_event_files_are_written(self, tmp_path: Path) -> None:
        with inside(self.prepare(tmp_path / "events")):
            self.run_all()
            assert [path for path in Path("model/events").rglob("*tfevents*") if path.stat().st_size]
