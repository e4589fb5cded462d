"""The recipe of the README: run, stopped inside an epoch, resumed; and simulated as the README says."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_testing import README, RecipeContract
from cntk_testing.recipes import inside


class TestReadme(RecipeContract):
    recipe = README
    recipe_key = "parallelizationMethod"
    ranks = 2

    def test_it_is_simulated(self, tmp_path: Path) -> None:
        pytest.importorskip("cntk_tool_scaling")
        with inside(self.prepare(tmp_path / "simulated")):
            code, output = self.command("simulate", "recipe.cntk", "-n", "1,2,4", "--network", "1GbE")
            assert code == 0, output
            assert not Path("model").exists(), "a simulation saves no model"
