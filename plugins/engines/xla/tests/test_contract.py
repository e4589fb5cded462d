"""The engine keeps the contract of engines."""

from __future__ import annotations

import pytest
from cntk_engine_xla import XlaEngine

from cntk_core.testing import EngineContract, PackagingContract


@pytest.mark.sampled(24)
class TestXlaEngine(EngineContract):
    engine_class = XlaEngine


class TestPackaging(PackagingContract):
    distribution = "cntk-engine-xla"
    kind = "engine"
