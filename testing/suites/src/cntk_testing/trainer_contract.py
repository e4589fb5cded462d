"""What every engine does for a trainer: several learners, trainers that take turns, a place that is returned to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from cntk_core.contract.engine import ExecutionEngine
from cntk_core.contract.learner import Learner, Slot, UpdateContext
from cntk_core.model import Model
from cntk_core.plugins.manager import PluginManager
from cntk_core.trainer import LearnerSettings, Trainer
from cntk_testing.networks import Sample, classifier
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sparse_networks import SPARSE_SAMPLES, with_sparse_streams

Array = NDArray[Any]


class Momentum(Learner):
    """Descent with momentum."""

    requires_api = "1.0"
    slots = (Slot("smoothed"),)

    def scalars(self, context: UpdateContext) -> Mapping[str, float]:
        """The rate and the momentum."""
        return {"rate": context.learning_rate, "momentum": context.momentum}

    def rule(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """``s = momentum * s + rate * g; w -= s``."""
        smoothed = scalars["momentum"] * slots["smoothed"] + scalars["rate"] * gradient
        return value - smoothed, {"smoothed": smoothed}


class Counting(Momentum):
    """The same with a rate that falls with the number of steps, which is part of its state."""

    state = (Slot("count"),)

    def advance(self, context: UpdateContext) -> Mapping[str, float]:
        """Count a step."""
        return {"count": context.state["count"] + 1.0}

    def scalars(self, context: UpdateContext) -> Mapping[str, float]:
        """The rate by the count, and the momentum."""
        return {"rate": context.learning_rate / context.state["count"], "momentum": context.momentum}


class TrainerContract:
    """Part of the contract of engines; the reference does the same steps."""

    tolerance: ClassVar[Mapping[str, float]]
    supports_sparse: ClassVar[bool]

    def test_several_learners(self, engine: ExecutionEngine, dtype: str) -> None:
        """Each updates its own parameters by its own rule; what none has stays, and has no gradient."""
        made = [self._trainer(each, classifier(dtype)) for each in (engine, ReferenceEngine())]
        before = [_values(one) for one in made]
        for step, frames in enumerate((8, 3, 8)):
            losses = [one.train_minibatch(classifier(dtype).minibatch(frames, step)).loss for one in made]
            assert losses[0] == pytest.approx(losses[1], rel=100 * self.tolerance[dtype])
        self._assert_same_parameters(made[0], made[1], dtype)
        names = sorted(name for name, value in _values(made[0]).items() if not np.array_equal(value, before[0][name]))
        assert names == sorted(parameter.name for parameter in made[0].model.store.parameters[:3])

    def test_learners_of_sparse_gradients(self, engine: ExecutionEngine, dtype: str) -> None:
        """Rows that do not occur keep their momentum, whatever the other learner does."""
        if not self.supports_sparse:
            pytest.skip("the engine takes no sparse streams")
        make = SPARSE_SAMPLES["labels"]
        made = []
        for each in (engine, ReferenceEngine()):
            sample = make(dtype)
            names = [parameter.name for parameter in sample.network.parameters]
            learners = [
                LearnerSettings(Momentum(), 0.05, 0.5, parameters=names[:1]),
                LearnerSettings(Counting(), 0.05, 0.5, l2=0.01),
            ]
            made.append(_make(each, sample, learners))
        sample = make(dtype)
        for step in range(3):
            data = with_sparse_streams(sample.minibatch(8, step), sample, step)
            for one in made:
                one.train_minibatch(data)
        self._assert_same_parameters(made[0], made[1], dtype)

    def test_trainers_and_models_take_turns(self, engine: ExecutionEngine, dtype: str) -> None:
        """They have the parameters in common, and slots of their own, wherever the numbers lie."""
        found = []
        for each in (engine, ReferenceEngine()):
            sample = classifier(dtype)
            names = [parameter.name for parameter in sample.network.parameters]
            one = _make(each, sample, LearnerSettings(Momentum(), 0.05, 0.5, parameters=names[:2]))
            other = _make(each, sample, LearnerSettings(Counting(), 0.05, 0.5, parameters=names[1:]))
            model, seen = Model(sample.network, engine=each, plugins=one.model.plugins), []
            for step in range(3):
                data = sample.minibatch(6, step)
                for trainer in (one, other, one):
                    trainer.train_minibatch(data)
                x = data.streams["x"].data
                seen.append(np.asarray(model.evaluate({"x": x, "labels": data.streams["labels"].data}, ["h"])["h"]))
            found.append((one, seen))
        for ours, expected in zip(found[0][1], found[1][1], strict=True):
            np.testing.assert_allclose(ours, expected, rtol=100 * self.tolerance[dtype], atol=self.tolerance[dtype])
        self._assert_same_parameters(found[0][0], found[1][0], dtype)

    def test_saved_and_restored_to_the_byte(self, engine: ExecutionEngine, dtype: str, tmp_path: Path) -> None:
        """A trainer that goes back to a checkpoint makes the same steps again."""
        made = self._trainer(engine, classifier(dtype))
        sample = classifier(dtype)
        made.train_minibatch(sample.minibatch(8))
        made.save(tmp_path / "net")
        found = []
        for _ in range(2):
            for step in (1, 2):
                made.train_minibatch(sample.minibatch(8, step))
            found.append({name: value.tobytes() for name, value in _values(made).items()})
            made.restore(tmp_path / "net")
        assert found[0] == found[1]

    def _trainer(self, engine: ExecutionEngine, sample: Sample) -> Trainer:
        first, second, third, *_ = sample.network.parameters
        return _make(
            engine,
            sample,
            [
                LearnerSettings(Momentum(), 0.05, 0.5, parameters=[first.name], mean=True, clip=0.05, clip_norm=True),
                LearnerSettings(Counting(), 0.05, 0.5, parameters=[second.name, third.name], l2=0.01),
            ],
        )

    def _assert_same_parameters(self, ours: Trainer, reference: Trainer, dtype: str) -> None:
        expected = _values(reference)
        for name, value in _values(ours).items():
            allowed = 10 * self.tolerance[dtype]
            np.testing.assert_allclose(value, expected[name], rtol=allowed, atol=allowed, err_msg=name)


def _make(engine: ExecutionEngine, sample: Sample, learners: Any) -> Trainer:
    plugins = PluginManager(discover=False)
    return Trainer(sample.network, sample.criterion, learners, evaluations=[], engine=engine, plugins=plugins)


def _values(trainer: Trainer) -> dict[str, Array]:
    store = trainer.model.store
    return {parameter.name: store.value(parameter).copy() for parameter in store.parameters}
