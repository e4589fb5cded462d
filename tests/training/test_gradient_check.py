"""gradientcheck: right gradients pass and change nothing, wrong ones are named."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from small import Lines, ListReader, make_data, make_network, make_session

from cntk_core.errors import TrainingError
from cntk_kit_recipes.session.gradient_check import agree
from cntk_testing.reference import ReferenceEngine


@pytest.mark.parametrize(
    ("numeric", "computed", "result"),
    [
        (0.5, 0.5000005, True),
        (0.5, 0.500002, False),
        (0.0, 0.0, True),
        (0.0, 2e-6, False),
        (1234.0, 1234.005, True),
        (1234.0, 1234.02, False),
        (math.nan, 1.0, False),
    ],
)
def test_how_near_is_near_enough(numeric, computed, result):
    assert agree(numeric, computed, 6) is result
    assert agree(computed, numeric, 6) is result


def test_right_gradients_pass_and_nothing_changes(tmp_path):
    same = {"network": lambda: make_network(dropout=True), "dropout_rate": 0.3, "max_epochs": 1}
    make_session(tmp_path / "checked", gradient_check=True, sig_figs=5.0, **same).run()
    make_session(tmp_path / "plain", **same).run()
    assert (tmp_path / "checked/net.dnn").read_bytes() == (tmp_path / "plain/net.dnn").read_bytes()


class WrongEngine(ReferenceEngine):
    """Its gradients of one parameter are 1 percent too large."""

    wrong = "W1"

    def compile(self, plan, store, rule=None, *, seed=0):
        program = super().compile(plan, store, rule, seed=seed)
        right = program.compute_gradients

        def wrong(minibatch):
            right(minibatch)
            for parameter in plan.trained:
                if parameter.name == self.wrong:
                    store.gradient(parameter)[...] *= 1.01

        program.compute_gradients = wrong
        return program


def test_wrong_gradients_are_named(tmp_path):
    with pytest.raises(TrainingError) as caught:
        make_session(tmp_path, engine=WrongEngine(), gradient_check=True).run()
    first, *others = str(caught.value).splitlines()
    assert first == "gradients are wrong in minibatch 1 of epoch 1: 15 elements differ in the first 6 digits"
    assert all(line.startswith("    dW1 Numeric gradient = ") for line in others)
    assert len(others) == 15


@pytest.mark.parametrize(("name", "count"), [("b0", 5), ("W1", 15)])
def test_parameters_beside_one_with_a_sparse_gradient_are_checked(tmp_path, monkeypatch, name, count):
    monkeypatch.setattr(WrongEngine, "wrong", name)
    data = make_data()
    sparse = ListReader({"labels": data["labels"], "features": csr_array(data["features"])})
    with pytest.raises(TrainingError) as caught:
        make_session(
            tmp_path,
            engine=WrongEngine(),
            gradient_check=True,
            reader=sparse,
            network=lambda: make_network(sparse=True),
        ).run()
    assert f"{count} elements differ" in str(caught.value)
    assert str(caught.value).count(f"d{name} Numeric gradient = ") == count


def test_single_precision_is_refused(tmp_path):
    with pytest.raises(TrainingError) as caught:
        make_session(tmp_path, Lines(), network=lambda: make_network(np.float32), gradient_check=True).run()
    assert str(caught.value) == "gradientcheck needs numbers of double precision\n    Give precision=double."
