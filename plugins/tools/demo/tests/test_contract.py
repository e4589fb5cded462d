"""The verb keeps its contract."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from cntk_tool_demo.verb import Demo

from cntk_testing import PackagingContract, VerbContract

missing = [name for name in ("sklearn", "matplotlib") if find_spec(name) is None]


@pytest.mark.skipif(bool(missing), reason=f"not installed: {missing}")
@pytest.mark.thorough  # README.md runs it in tests/docs
@pytest.mark.slow  # it trains
class TestDemo(VerbContract):
    verb_class = Demo
    command_lines = (("--folder", "digits"),)


class TestPackaging(PackagingContract):
    distribution = "cntk-tool-demo"
    kind = "verb"
