"""The engine keeps the contract of engines."""

from __future__ import annotations

import pytest
from cntk_engine_xla import XlaEngine

from cntk_testing import EngineContract, PackagingContract


@pytest.mark.thinned
@pytest.mark.sampled(20, test_op=8, test_sequences=6)
class TestXlaEngine(EngineContract):
    """Each size of padding is compiled; so there is one, which some minibatches fill and others do not."""

    engine_class = XlaEngine
    array_module = "jax.numpy"
    sizes = (10, 9, 10)
    lengths = ([5, 4, 0, 1], [3, 6], [2, 2, 4, 1, 1])

    @pytest.fixture
    def engine(self):
        return XlaEngine(XlaEngine.options(xla_cache="none"))


class TestPackaging(PackagingContract):
    distribution = "cntk-engine-xla"
    kind = "engine"
