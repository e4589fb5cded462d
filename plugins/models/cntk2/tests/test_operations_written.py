"""Each operation with all of its examples: written in version 2 and read back it has the same values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_model_cntk2.model_format import Cntk2Format
from cntk_model_cntk2.save import NUMBERS

from cntk_core.api import Minibatch, Network, Op, ParameterStore, UnsupportedError, core_ops
from cntk_core.api.engines import make_plan
from cntk_testing.op_examples import EXAMPLES
from cntk_testing.op_networks import cases_together, network_of
from cntk_testing.reference import ReferenceEngine

RANDOM = {"Dropout", "RandomSample", "RandomSampleInclusionFrequency", "RandomDistribution"}
"""Whose values depend on what stands beside them in a file."""

WRITTEN = [op for op in core_ops() if op.name in NUMBERS and op.name in EXAMPLES and op.name not in RANDOM]


@pytest.mark.parametrize("op", WRITTEN, ids=lambda op: op.name)
def test_examples_come_back(op: Op, tmp_path: Path) -> None:
    path = tmp_path / "op.model"
    for cases in cases_together(op, EXAMPLES[op.name]):
        for case in cases:
            sample, data = network_of([case], "float32", learned=False)
            network = sample.network
            network.roots["output"] = list(sample.roots)
            try:
                Cntk2Format().save(network, path)
            except UnsupportedError:
                continue
            found = values(Cntk2Format().load(path, core_ops().find), data)
            np.testing.assert_allclose(np.ravel(found), np.ravel(values(network, data)), rtol=1e-5, atol=1e-6)


def values(network: Network, data: Minibatch) -> Any:
    program = ReferenceEngine().compile(
        make_plan(network, network.roots["output"]), ParameterStore(network.parameters, np.float64)
    )
    program.evaluate(data)
    (name,) = (node.name for node in network.roots["output"] if node.name.startswith("result"))
    return program.value(name)
