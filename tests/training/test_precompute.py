"""Values computed once over the data."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
import scipy.sparse
from small import Lines, ListReader, make_data, make_network, operation

from cntk_core.contract.reader import EpochSpec
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import CntkError, Location
from cntk_core.network.network import Network
from cntk_core.network.node import Input
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_recipes.session.precompute import precompute
from cntk_kit_recipes.session.run_log import RunLog
from cntk_testing.reference import ReferenceEngine


def run(network: Network, reader, lines: Lines | None = None, **spec) -> bool:
    log = RunLog(lines or Lines(), trace_level=1)
    store = ParameterStore(network.parameters, network.dtype)
    return precompute(network, ReferenceEngine(), store, reader, EpochSpec(minibatch_size=7, **spec), log)


def test_mean_and_deviation_of_an_input_and_of_a_computed_value():
    network = make_network(normalized=True)
    doubled = operation(network, "doubled", "Plus", network["features"], network["features"])
    operation(network, "meanOfDoubled", "Mean", doubled)
    network.infer()
    assert run(network, ListReader())
    data = make_data()["features"]
    np.testing.assert_allclose(network["mean"].value, data.mean(0), rtol=3e-7)
    np.testing.assert_allclose(network["invStdDev"].value, 1 / data.std(0), rtol=3e-7)
    np.testing.assert_allclose(network["meanOfDoubled"].value, 2 * data.mean(0), rtol=3e-7)


def test_values_that_need_others_take_one_more_pass():
    network = make_network(normalized=True)
    operation(network, "meanOfNormalized", "Mean", network["normalized"])
    network.infer()
    lines = Lines()
    assert run(network, ListReader(), lines)
    assert "Precomputing --> 3 PreCompute nodes found." in lines.all
    np.testing.assert_allclose(network["meanOfNormalized"].value, np.zeros(4), atol=3e-8)


def test_part_of_the_data_if_asked_for():
    network = make_network(normalized=True)
    run(network, ListReader(), epoch_size=10)
    np.testing.assert_allclose(network["mean"].value, make_data()["features"][:10].mean(0), rtol=3e-7)


def test_a_sparse_input_has_a_mean():
    network = Network(np.float64)
    words = network.add(Input.make("words", (3,), sparse=True))
    operation(network, "prior", "Mean", words)
    network.infer()

    class Reader(ListReader):
        def minibatches(self, epoch):
            for batch in super().minibatches(epoch):
                data = batch.streams["labels"]
                yield Minibatch({"words": StreamData(scipy.sparse.csr_array(data.data), data.layout)}, batch.samples)

    assert run(network, Reader())
    np.testing.assert_allclose(network["prior"].value, make_data()["labels"].mean(0), rtol=3e-7)


def test_nothing_to_do_is_said():
    lines = Lines()
    assert not run(make_network(), ListReader(), lines)
    assert lines.all == ["No PreCompute nodes found, or all already computed. Skipping pre-computation step."]


def test_no_data_is_an_error():
    with pytest.raises(CntkError, match="no data"):
        run(make_network(normalized=True), ListReader(make_data(0)))


def test_a_value_that_needs_itself():
    """A mean of what a loop makes, and the loop reads the mean."""
    network = make_network(normalized=True)
    network["mean"].value = network["invStdDev"].value = np.zeros(4)
    features = network["features"]
    past = operation(network, "past", "PastValue", features)
    whole = operation(network, "whole", "Mean", past)
    past.inputs[0] = operation(network, "shifted", "Plus", features, whole)
    whole.where = Location("r.cntk", 3, 5)
    with pytest.raises(CntkError, match=r"^r\.cntk:3:5: the precomputed nodes whole need each other$"):
        run(network, ListReader())


def test_an_op_that_gathers_nothing():
    network = make_network(normalized=True)
    mean = network["mean"]
    mean.op = attrs.evolve(mean.op, accumulator=None)
    with pytest.raises(CntkError, match=r"^Mean 'mean' cannot be computed beforehand$"):
        run(network, ListReader())
