"""Schedules of dropout and batch normalisation, and parameters that weight decay leaves alone."""

from __future__ import annotations

import numpy as np
import pytest
from small import TABLE, Lines, make_network, make_session, operation

from cntk_core.config import Schedule
from cntk_core.network.node import Parameter
from cntk_kit_recipes.session.node_settings import NodeSettings, normalizations


def normalized():
    """The small network with a batch normalisation of the hidden layer."""
    network = make_network()
    hidden, product = network["h"], network["Wh"]
    shapes = {
        "scale": np.ones(5),
        "bias": np.zeros(5),
        "mean": np.zeros(5),
        "variance": np.ones(5),
        "count": np.zeros(1),
    }
    inputs = [
        network.add(Parameter.make(name, value.shape, value=value, learning_rate_multiplier=float(index < 2)))
        for index, (name, value) in enumerate(shapes.items())
    ]
    found = operation(
        network, "bn", "BatchNormalization", hidden, *inputs, normalization_time_constant=7.0, blend_time_constant=0.0
    )
    product.inputs = [product.inputs[0], found]
    network.infer()
    return network


def constants(network) -> tuple[float, float]:
    (node,) = normalizations(network)
    return node.attributes.normalization_time_constant, node.attributes.blend_time_constant


class Watch:
    """Notes the constants in each epoch."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float]] = []

    def listeners(self, name):
        return (self.note,) if name == "cntk_epoch_begin" else ()

    def note(self, job, epoch):
        self.seen.append(constants(job.network))


def test_the_network_decides_until_a_schedule_does(tmp_path):
    watch, lines = Watch(), Lines()
    times = Schedule.of([0.0, 50.0, 50.0, 0.0])
    make_session(
        tmp_path, lines, network=normalized, max_epochs=4, hooks=watch,
        batch_normalization_time_constant=times, batch_normalization_blend_time_constant=Schedule.of([0.0, 0.0, 3.0]),
    ).run()  # fmt: skip
    assert watch.seen == [(7.0, 0.0), (50.0, 0.0), (50.0, 3.0), (0.0, 3.0)]
    assert lines.with_text("Setting") == [
        "Setting batch normalization time constant to 50.",
        "Setting batch normalization blend time constant to 3.",
        "Setting batch normalization time constant to 0.",
    ]


def test_the_constant_changes_what_is_learned(tmp_path):
    for name, times in (("a", [0.0]), ("b", [500.0])):
        make_session(
            tmp_path / name, network=normalized, max_epochs=1, batch_normalization_time_constant=Schedule.of(times)
        ).run()
    assert (tmp_path / "a/net.dnn").read_bytes() != (tmp_path / "b/net.dnn").read_bytes()


def test_a_run_that_goes_on_has_the_constants_of_its_epoch(tmp_path):
    network = normalized()
    changes = {"batch_normalization_time_constant": Schedule.of([50.0, 0.0])}
    from small import settings

    NodeSettings(list(network), settings(**changes), Lines().line).begin(1)
    assert constants(network) == (0.0, 0.0)


def test_networks_without_such_nodes_are_warned_of(tmp_path):
    lines = Lines()
    make_session(tmp_path, lines, max_epochs=1, dropout_rate=0.5, batch_normalization_time_constant=9.0).run()
    assert "Setting dropout rate to 0.5." in lines.all
    assert "WARNING: Attempting to set dropout rate, but there is no dropout node in the network." in lines.all
    assert "WARNING: there is no batch normalization node." in lines.all


def test_a_dropout_schedule_is_told_when_it_changes(tmp_path):
    lines = Lines()
    rates = Schedule.of([0.5, 0.5, 0.0])
    make_session(tmp_path, lines, network=lambda: make_network(dropout=True), dropout_rate=rates).run()
    assert lines.with_text("Setting") == ["Setting dropout rate to 0.5.", "Setting dropout rate to 0."]


@pytest.mark.parametrize("spared", [True, False])
def test_weight_decay_may_leave_normalisations_alone(tmp_path, spared):
    network = normalized()
    make_session(
        tmp_path, network=network, max_epochs=1, l2_reg_weight=0.1, disable_reg_in_batch_normalization=spared
    ).run()
    multipliers = {node.name: node.regularization_multiplier for node in network.parameters}
    assert multipliers["scale"] == multipliers["bias"] == (0.0 if spared else 1.0)
    assert multipliers["W0"] == multipliers["mean"] == 1.0


def test_the_operation_is_known():
    assert TABLE.find("ndl", "BatchNormalization") is not None
