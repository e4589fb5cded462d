"""The recipe of the README: run, stopped inside an epoch, resumed."""

from __future__ import annotations

from cntk_testing import README, RecipeContract


class TestReadme(RecipeContract):
    recipe = README
    recipe_key = "engine"
