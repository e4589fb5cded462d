"""The recipe of the README: run, stopped inside an epoch, resumed."""

from __future__ import annotations

from cntk_testing import README, RecipeContract


class TestReadme(RecipeContract):
    recipe = README
    recipe_key = "gradUpdateType"


class TestAdaMax(TestReadme):
    def recipe_text(self) -> str:
        return super().recipe_text().replace("= adam", "= adamax ; beta2 = 0.99")


class TestAdaDelta(TestReadme):
    def recipe_text(self) -> str:
        return super().recipe_text().replace("= adam", "= adadelta ; rho = 0.9")


class TestAdamW(TestReadme):
    def recipe_text(self) -> str:
        return super().recipe_text().replace("= adam", "= adamw ; weightDecay = 0.1")
