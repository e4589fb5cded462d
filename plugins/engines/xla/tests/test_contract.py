"""The engine keeps the contract of engines."""

from __future__ import annotations

import pytest
from cntk_engine_xla import XlaEngine

from cntk_core.testing import EngineContract, PackagingContract


@pytest.mark.thinned
@pytest.mark.sampled(6)
class TestXlaEngine(EngineContract):
    """Each size and each network is compiled; so there are two sizes, of which one needs padding, and few networks."""

    engine_class = XlaEngine
    sizes = (10, 9, 1, 9)

    @pytest.fixture
    def engine(self):
        return XlaEngine(XlaEngine.options(xla_cache="none"))


class TestPackaging(PackagingContract):
    distribution = "cntk-engine-xla"
    kind = "engine"
