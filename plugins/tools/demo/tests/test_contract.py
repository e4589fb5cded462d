"""The verb keeps its contract."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from cntk_tool_demo.verb import Demo

from cntk_testing import PackagingContract, VerbContract


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib")
@pytest.mark.thorough  # README.md runs it in tests/docs
@pytest.mark.slow  # it trains
class TestDemo(VerbContract):
    verb_class = Demo
    command_lines = (("--folder", "digits"),)


class TestPackaging(PackagingContract):
    distribution = "cntk-tool-demo"
    kind = "verb"
