"""Networks that see sequences, batches and whole shapes against CNTK 2.7, as ``tools/record_original.py`` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_builder_python import Graph
from network_cases import COUNT, MAKERS, NetworkCase, network_cases
from network_inputs import seeds, weighted

from cntk_core.model import Model
from cntk_core.plugins.manager import PluginManager
from cntk_testing.reference import ReferenceEngine

RECORDED = np.load(Path(__file__).with_name("networks.npz"))
TOLERANCE = {"float32": 1e-4, "float64": 1e-11}
SAMPLE = 6
"""So many cases of each are computed where not all are."""

PLUGINS = PluginManager()


def test_every_network_is_recorded():
    assert set(RECORDED.files) == {f"{name}/{precision}" for name in MAKERS for precision in TOLERANCE}
    assert {len(RECORDED[key]) for key in RECORDED.files} == {COUNT}


def computed(case: NetworkCase, dtype: Any, engine: Any) -> list[Any]:
    """Values of the outputs, then gradients by what is wanted."""
    graph = Graph(dtype)
    outputs = [term.node.name for term in case.build(graph)]
    model = Model(graph.finish(), engine=engine, plugins=PLUGINS)
    wanted = case.wanted()
    if not wanted:
        values = model.evaluate(case.data(), outputs)
        return [values[name] for name in outputs]
    tape = model.differentiable(wanted, outputs)
    values = tape.forward(case.data(), training=True)
    first = outputs[0]
    gradients = tape.backward({first: seeds(values[first]) if case.seeded else 1.0})
    return [*(values[name] for name in outputs), *(gradients[name] for name in wanted)]


def compare(case: NetworkCase, number: int, found: list[Any], precision: str) -> None:
    """Compare what ours found of a case with what is recorded."""
    expected = RECORDED[f"{case.name}/{precision}"][number]
    assert len(found) == len(expected)
    for index, (own, (count, theirs)) in enumerate(zip(found, expected, strict=True)):
        elements, total, size = weighted(own)
        what = f"array {index} of case {number}"
        assert elements == count, what
        assert abs(total - theirs) <= TOLERANCE[precision] * size, what


@pytest.mark.parametrize("name", MAKERS)
def test_a_sample(name):
    """The reference engine, which computes in double precision."""
    for number, case in enumerate(network_cases(name)):
        if number % (COUNT // SAMPLE) == 0:
            found = computed(case, np.float64, ReferenceEngine())
            compare(case, number, found, "float64")
            compare(case, number, found, "float32")


@pytest.mark.thorough
@pytest.mark.parametrize("name", MAKERS)
def test_all(name):
    for number, case in enumerate(network_cases(name)):
        found = computed(case, np.float64, ReferenceEngine())
        compare(case, number, found, "float64")
        compare(case, number, found, "float32")


@pytest.mark.thorough
@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("name", MAKERS)
def test_the_engine_for_processors(name, precision):
    for number, case in enumerate(network_cases(name)):
        if number % (COUNT // SAMPLE) == 0:
            compare(case, number, computed(case, np.dtype(precision), "cpu"), precision)
