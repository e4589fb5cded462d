"""The recipe of the README on two ranks: run, one rank killed inside an epoch, resumed."""

from __future__ import annotations

from cntk_testing import README, CommunicatorRecipe


class TestReadme(CommunicatorRecipe):
    recipe = README
