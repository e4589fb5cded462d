"""The engine that only interprets: its gradients agree with differences, and its programs go on when read again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cntk_testing.gradients import check_along_directions
from cntk_testing.input_contract import InputsContract
from cntk_testing.networks import SAMPLES
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES, sequences_for

ALONE = ("classifier", "shared", "chain", "reductions", "softmaxes")
IN_LOOPS = ("lstm", "bidirectional", "overlapping", "learned_state", "attention", "gathered")


@pytest.mark.parametrize("fuse", [True, False], ids=["fused", "plain"])
@pytest.mark.parametrize("name", [*ALONE, *IN_LOOPS])
def test_gradients(name: str, fuse: bool) -> None:
    made: Any = SAMPLES.get(name) or SEQUENCE_SAMPLES[name]
    sample = made("float64")
    data = sample.minibatch(5) if name in SAMPLES else sequences_for(sample, [3, 2], 1)
    by = [node for node in sample.network.parameters if node.learned]
    by += [node for node in sample.network.inputs if node.name == "x"]
    check_along_directions(sample.network, sample.criterion, by, data, fuse=fuse)


class TestReferenceInputs(InputsContract):
    supports_sequences = True

    @pytest.fixture
    def engine(self) -> ReferenceEngine:
        return ReferenceEngine()

    @pytest.fixture(params=["float32", "float64"])
    def dtype(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    def assert_close(self, found: Any, expected: Any, dtype: str, what: str) -> None:
        np.testing.assert_allclose(found, expected, rtol=1e-4, err_msg=what)
