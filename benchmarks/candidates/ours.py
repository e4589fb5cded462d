"""Our own step: the plan of a network, compiled by the CPU engine."""

from __future__ import annotations

import numpy as np
from workloads import MOMENTUM, RATE, Workload

from cntk_core.api import Minibatch, ParameterStore, StreamData, UpdateContext, frame_layout, make_plan
from cntk_core.training.settings import SGDSettings
from cntk_core.training.update import compose_update


class Candidate:
    """Trains with ``cntk_engine_cpu`` and ``cntk_learner_sgd``."""

    def __init__(self, workload: Workload, threads: int) -> None:
        from cntk_builder_python import Dense, Graph, Sequential, cross_entropy_with_softmax, sigmoid
        from cntk_engine_cpu import CpuEngine
        from cntk_learner_sgd import SGD

        graph = Graph(np.float32)
        hidden = [Dense(width, sigmoid, name=f"layer{index}") for index, width in enumerate(workload.sizes[1:-1])]
        last = Dense(workload.sizes[-1], name=f"layer{len(hidden)}")
        z = Sequential(*hidden, last)(graph.input("features", workload.sizes[0]))
        criterion = graph.criterion(cross_entropy_with_softmax(z, graph.label("labels", workload.sizes[-1])), "ce").node
        network = graph.network
        network.infer()
        self.names = {}
        for name, value in workload.parameters().items():
            parameter = network[f"layer{name[1:]}.{name[0]}"]
            parameter.value = value
            self.names[name] = parameter
        plan = make_plan(network, [criterion], criterion)
        self.store = ParameterStore(network.parameters, np.float32)
        learner = SGD()
        self.store.add_slots(learner.slots)
        engine = CpuEngine(CpuEngine.options(num_cpu_threads=threads))
        self.program = engine.compile(plan, self.store, compose_update(learner, SGDSettings(max_epochs=1)))
        context = UpdateContext(samples=workload.minibatch, learning_rate=RATE, momentum=MOMENTUM)
        self.scalars = [learner.scalars(context)] * len(plan.trained)
        self.data = [self._minibatch(x, y, workload) for x, y in workload.data()]
        self.done = 0

    @staticmethod
    def _minibatch(x: np.ndarray, y: np.ndarray, workload: Workload) -> Minibatch:
        labels = np.zeros((len(y), workload.sizes[-1]), np.float32)
        labels[np.arange(len(y)), y] = 1
        layout = frame_layout(len(y))
        return Minibatch({"features": StreamData(x, layout), "labels": StreamData(labels, layout)}, len(y))

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
        return {name: parameter.value for name, parameter in self.names.items()}
