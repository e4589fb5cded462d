"""What our candidates share: a network compiled with a momentum update, and minibatches in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from workloads import RATE

from candidates.engines import make_engine
from cntk_core.api import Minibatch, Network, ParameterStore, UpdateContext
from cntk_core.api.engines import make_plan
from cntk_core.training.loop.update import compose_update
from cntk_core.training.settings import SGDSettings


class Trainer:
    """Trains a network with an engine and ``cntk_learner_sgd``.

    Args:
        network: with shapes; its criterion is ``ce``.
        values: first values by the workload's names.
        names: for each of these the parameter's name in the network.
        data: the minibatches.
        momentum: of the update.
        threads: most threads.
        rate: of learning.
    """

    def __init__(
        self,
        network: Network,
        values: Mapping[str, np.ndarray],
        names: Mapping[str, str],
        data: Sequence[Minibatch],
        momentum: float,
        threads: int,
        rate: float = RATE,
    ) -> None:
        from cntk_learner_sgd import SGD

        self.names = {name: network[names[name]] for name in values}
        self.shapes = {name: value.shape for name, value in values.items()}
        for name, value in values.items():
            self.names[name].value = value.reshape(self.names[name].known_shape)
        criterion = network["ce"]
        plan = make_plan(network, [criterion], criterion)
        self.store = ParameterStore(network.parameters, np.float32)
        learner = SGD()
        self.store.add_slots(learner.slots)
        self.program = make_engine(threads).compile(
            plan, self.store, compose_update(learner, SGDSettings(max_epochs=1))
        )
        context = UpdateContext(samples=1, learning_rate=rate, momentum=momentum)
        self.scalars = [learner.scalars(context)] * len(plan.trained)
        self.data = data
        self.done = 0

    def steps(self, count: int) -> float:
        """Do ``count`` steps; return the last loss."""
        for _ in range(count - 1):
            self._step()
        self.program.read_totals()
        self._step()
        return self.program.read_totals()["ce"]

    def _step(self) -> None:
        self.program.train_step(self.data[self.done % len(self.data)], self.scalars)
        self.done += 1

    def parameters(self) -> dict[str, np.ndarray]:
        """Present values by name."""
        return {name: self.store.value(parameter).reshape(self.shapes[name]) for name, parameter in self.names.items()}
