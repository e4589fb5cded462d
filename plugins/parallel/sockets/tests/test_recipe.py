"""The recipe of the README on two ranks: run, one rank killed inside an epoch, resumed."""

from __future__ import annotations

import pytest

from cntk_testing import README, CommunicatorRecipe


@pytest.mark.thorough  # tests/docs runs it on two processes, the contract kills ranks, and kits/recipes goes on
class TestReadme(CommunicatorRecipe):
    recipe = README
