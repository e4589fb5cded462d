"""ONNX's own tests of single operations: those of the list are read and agree, and none that agrees is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from node_tests import AGREEING, AGREES, cases, outcome


@pytest.mark.slow
@pytest.mark.thorough
def test_the_list_is_right(tmp_path: Path) -> None:
    found = {case.name for case in cases() if outcome(case, tmp_path)[0] == AGREES}
    assert sorted(found) == AGREEING
