"""The recipe of the README on two ranks: run, one rank killed inside an epoch, resumed."""

from __future__ import annotations

import pytest

from cntk_testing import README, CommunicatorRecipe


@pytest.mark.thorough  # tests/docs starts processes on the page of this wheel, and the contract kills a rank
class TestReadme(CommunicatorRecipe):
    recipe = README
