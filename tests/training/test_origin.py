"""A criterion that is not a number: the first node that was none is named, with its minibatch."""

from __future__ import annotations

import math

import numpy as np
import pytest
from small import Lines, ListReader, make_data, make_network, make_session, operation

from cntk_core.errors import TrainingError

MILD = {"learning_rates_per_sample": 0.01, "num_mbs_to_show_result": 5}


def message(folder, **changes) -> list[str]:
    with pytest.raises(TrainingError) as caught:
        make_session(folder, Lines(), **{**MILD, **changes}).run()
    return str(caught.value).splitlines()


def test_data(tmp_path):
    data = make_data()
    data["features"][19, 2] = math.nan
    first, second, *others = message(tmp_path, reader=ListReader(data))
    assert first == "The training criterion is not a number (NAN)."
    assert second == "    The data of 'features' have values that are not numbers, in minibatch 3 of epoch 1."
    assert others == [
        "    It happened in epoch 1, minibatches 1 to 5.",
        "    A lower learning rate or clippingThresholdPerSample may help.",
    ]


class Rising(ListReader):
    """All features are 1 but for one minibatch of the third epoch."""

    odd = 1.0

    def minibatches(self, epoch):
        for index, minibatch in enumerate(super().minibatches(epoch)):
            minibatch.streams["features"].data[...] = 1.0
            if (epoch.epoch, index) == (2, 1):
                minibatch.streams["features"].data[3] = self.odd
            yield minibatch


class Large(Rising):
    odd = 1e4


class Negative(Rising):
    odd = -1.0


def network_with(op: str):
    """The small network, with what is 0 as long as ``op`` of the products (all of them positive) is finite added."""
    network = make_network()
    for name in ("W0", "b0"):
        network[name].value = np.abs(network[name].value) + 1.0
    product = network["Wh"]
    grown = operation(network, "grown", op, network["Wx"])
    difference = operation(network, "difference", "Minus", grown, grown)
    product.inputs = [product.inputs[0], operation(network, "sum", "Plus", network["h"], difference)]
    network.infer()
    return network


LATE = {"max_epochs": 4, "momentum_per_mb": 0.9}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_node_in_a_later_epoch(tmp_path):
    text = message(tmp_path, network=lambda: network_with("Exp"), reader=Large(), **LATE)
    assert text[1] == (
        "    'difference' = Minus(...) is the first node that is not a number, in minibatch 2 of epoch 3; "
        "its input 'grown' has infinite values."
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_gradient(tmp_path):
    text = message(tmp_path, network=lambda: network_with("Sqrt"), reader=Negative(), **LATE)
    assert text[1] == ("    The nodes are numbers, but the gradient of 'W0' is not finite, in minibatch 2 of epoch 3.")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_run_that_went_on_finds_the_same(tmp_path):
    for _ in range(2):  # the second run begins with the third epoch
        text = message(tmp_path, network=lambda: network_with("Exp"), reader=Large(), **LATE)
        assert "in minibatch 2 of epoch 3" in text[1]


def test_the_search_for_the_origin_is_told(tmp_path):
    lines = Lines()
    data = make_data()
    data["features"][...] = math.nan
    with pytest.raises(TrainingError):
        make_session(tmp_path, lines, reader=ListReader(data), **MILD).run()
    assert "The training criterion is not a number. Looking for its origin: the epoch is run once more." in lines.all
