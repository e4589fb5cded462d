"""Models of Python programs that lie elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import fsspec
import numpy as np
import pytest

from cntk_core.api import ModelFormatError
from cntk_core.api.training import Model


def test_a_function_of_cntk(forget: Callable[[], None]) -> None:
    import cntk as C

    x = C.input_variable(2)
    function = C.layers.Dense(3)(x)
    function.save("memory://models/f.model")
    assert fsspec.filesystem("memory").exists("/models/f.model")
    forget()
    again = C.Function.load("memory://models/f.model")
    data = np.array([[1, 2]], np.float32)
    np.testing.assert_array_equal(again(data), function(data))
    with pytest.raises(Exception, match=r"memory://models/none|/none"):
        C.Function.load("memory://models/none")


def test_a_trainer_of_cntk(forget: Callable[[], None]) -> None:
    import cntk as C

    x, y = C.input_variable(2), C.input_variable(3)
    z = C.layers.Dense(3)(x)

    def make() -> C.Trainer:
        loss = C.cross_entropy_with_softmax(z, y)
        return C.Trainer(z, (loss, None), [C.momentum_sgd(z.parameters, 0.1, 0.9)])

    trainer = make()
    batch = {x: np.ones((4, 2), np.float32), y: np.eye(3, dtype=np.float32)[[0, 1, 2, 0]]}
    trainer.train_minibatch(batch)
    trainer.save_checkpoint("memory://models/t.model", {"seen": 4})
    trainer.train_minibatch(batch)
    after = trainer.previous_minibatch_loss_average
    forget()
    other = make()
    assert other.restore_from_checkpoint("memory://models/t.model") == {"seen": 4}
    other.train_minibatch(batch)
    assert other.previous_minibatch_loss_average == after


def test_a_model(recipe: Path, forget: Callable[[], None]) -> None:
    from cntk_kit_recipes.cli import main

    assert main(["train", str(recipe)]) == 0
    model = Model.load("run/net.dnn")
    model.save("memory://models/net.dnn")
    forget()
    again = Model.load("memory://models/net.dnn")
    data = {"features": np.array([[1.0, 2.0]])}
    np.testing.assert_array_equal(again.evaluate(data)["z"], model.evaluate(data)["z"])
    model.save("memory://models/net.dnn")
    Model.load("memory://models/net.dnn")
    with pytest.raises(ModelFormatError, match="cannot be read"):
        Model.load("memory://models/other.dnn")
