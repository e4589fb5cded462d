"""Files of version 31, which CNTK 2.7 wrote of networks of its own, with what it computed of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cntk_model_cntk1.bcn.load import load_bcn

from cntk_core.api import core_ops
from cntk_core.api.training import Model
from cntk_testing.reference import ReferenceEngine

DATA = Path(__file__).parent / "data"


OUTPUTS = {
    "net-lstm": {"ElementTimes16984": "lstm"},
    "reduce-several-axes": {
        "ReduceElements2954": "two", "ReduceElements3142": "sq", "ReduceElements2991": "stat", "Sqrt3102": "l2",
        "ReduceElements2974": "mean", "ReduceElements3031": "l1", "Reshape3011": "drop",
    },
}  # fmt: skip
"""Of each file: the outputs, which have their uids in such a file, and the names of their values."""


def rows(given: dict[str, np.ndarray], name: str) -> list[np.ndarray]:
    """A value, or those of all sequences."""
    return [given[key] for key in sorted(given) if key == name or key.startswith(f"{name}/")]


@pytest.mark.parametrize("name", OUTPUTS)
def test_values(name: str) -> None:
    network = load_bcn(DATA / f"{name}.dnn", core_ops().find)
    with np.load(DATA / f"{name}.npz") as arrays:
        given = dict(arrays)
    assert {node.name for node in network.roots["output"]} == set(OUTPUTS[name])
    data = {node.name: rows(given, f"in/{node.name}") for node in network.inputs}
    data = {key: values[0] if f"in/{key}" in given else values for key, values in data.items()}
    found = Model(network, engine=ReferenceEngine()).evaluate(data, list(OUTPUTS[name]))
    for output, kept in OUTPUTS[name].items():
        wanted = np.concatenate([each.ravel() for each in rows(given, f"out/{kept}")])
        ours = np.concatenate([np.ravel(each) for each in found[output]])
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)


def test_names_are_those_of_version_2() -> None:
    network = load_bcn(DATA / "net-lstm.dnn", core_ops().find)
    assert [node.name for node in network.inputs] == ["s"]
    assert not any("__v2lib" in node.name for node in network)
