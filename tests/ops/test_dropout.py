"""Dropout and random values: rates and seeds of nodes, and those of the run."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cntk_core.errors import ShapeError
from cntk_core.network.model_file import load_model, save_model
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node
from cntk_core.network.tensor_file import read_metadata
from cntk_core.ops.families.dropout import DROPOUT, RATE, DropoutAttributes, dropout_rate
from cntk_core.ops.families.sampling import RANDOM_DISTRIBUTION
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.language.random import SEEDED, stream_key
from cntk_core.ops.table import core_ops
from cntk_core.plan.make import make_plan
from cntk_testing.engine_contract import start
from cntk_testing.networks import Sketch
from cntk_testing.reference import ReferenceEngine


@pytest.mark.parametrize(
    ("own", "training", "expected"), [(-1.0, True, 0.4), (0.2, True, 0.2), (0.0, True, 0.0), (0.2, False, 0.0)]
)
def test_the_rate_of_a_node_comes_before_that_of_the_run(own, training, expected):
    context = OpContext((True,), 1, training, settings={RATE: 0.4})
    assert dropout_rate(DropoutAttributes(own), context) == expected


def test_a_seed_of_a_node_is_the_key_of_its_stream():
    assert stream_key(7, 3, DropoutAttributes()) == (7, 3)
    assert stream_key(7, 3, DropoutAttributes(seed=0)) == (0, SEEDED)
    assert stream_key(7, 3, None) == (7, 3)


def _masks(seeds, run_seed):
    made = Sketch("float64")
    x = made.op("Plus", made.input("x", 50), made.parameter("b", 50))
    nodes = [made.op("Dropout", x, attributes=DropoutAttributes(0.5, seed)) for seed in seeds]
    total = made.op("SumElements", made.op("Plus", *nodes), name="total")
    run = start(ReferenceEngine(), made.finish(total, *nodes), seed=run_seed)
    found = []
    for step in range(2):
        run.program.compute_gradients(run.sample.minibatch(4, step))
        found.append([run.program.value(node.name) != 0 for node in nodes])
    return found


def test_nodes_with_the_same_seed_drop_the_same_elements_whatever_the_seed_of_the_run():
    (first, second), (later, _) = _masks((3, 3), 1)
    np.testing.assert_array_equal(first, second)
    assert (first != later).any()
    np.testing.assert_array_equal(first, _masks((3, 4), 2)[0][0])


def test_nodes_with_other_seeds_or_none_drop_others():
    ((first, second), _), ((third, fourth), _) = _masks((3, 4), 1), _masks((-1, -1), 1)
    assert (first != second).any()
    assert (third != fourth).any()
    assert (third != _masks((-1, -1), 2)[0][0]).any()


@pytest.mark.parametrize("rate", [1.0, 2.0, float("nan")])
def test_a_rate_that_drops_everything_is_refused(rate):
    network = Network()
    network.add(Node("d", DROPOUT, [network.add(Input.make("x", (2,)))], DropoutAttributes(rate)))
    with pytest.raises(ShapeError) as caught:
        network.infer()
    assert str(caught.value) == (
        f"Dropout 'd': {rate:g} is no share of elements that could be dropped\n"
        "    A dropoutRate is at least 0 and below 1; below 0 it is that of the run."
    )


def test_a_model_file_keeps_what_a_node_has_of_its_own_and_nothing_else(tmp_path):
    network = Network()
    x = network.add(Input.make("x", (2,)))
    network.add(Node("d", DROPOUT, [x], DropoutAttributes(0.25, 3)))
    network.add(Node("e", DROPOUT, [x], DropoutAttributes()))
    network.add(Node("r", RANDOM_DISTRIBUTION, [x], RANDOM_DISTRIBUTION.attributes("normal")))
    network.infer()
    save_model(network, tmp_path / "net.dnn")
    loaded = load_model(tmp_path / "net.dnn", core_ops().find)
    assert [loaded[name].attributes for name in "de"] == [DropoutAttributes(0.25, 3), DropoutAttributes()]
    nodes = json.loads(read_metadata(tmp_path / "net.dnn")["network"])["nodes"]
    written = {node["name"]: node.get("attributes") for node in nodes}
    assert written["d"] == {"dropout_rate": 0.25, "seed": 3}
    assert written["e"] is None
    assert set(written["r"]) == {"type", "args", "dims"}  # as before it could have a seed
    assert make_plan(loaded, [loaded["d"]]).roots
