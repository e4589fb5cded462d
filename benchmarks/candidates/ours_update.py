"""Our own update: a learner's rule as the engine compiles it, over one large parameter."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np
from workloads import MOMENTUM, RATE, RuleUpdate

from candidates.engines import make_engine
from cntk_core.api import Learner, ParameterStore, UpdateContext
from cntk_core.api.engines import make_plan
from cntk_core.training.loop.update import compose_update, first_state
from cntk_core.training.settings import SGDSettings


def _sgd(*, nag: bool) -> Learner:
    from cntk_learner_sgd import SGD, SGDOptions

    return SGD(SGDOptions(use_nag=nag))


def _adagrad(*, mean: bool) -> Learner:
    from cntk_learner_adagrad import AdaGrad, AdaGradOptions

    return AdaGrad(AdaGradOptions(norm_with_ave_multiplier=mean))


def _rmsprop(*, mean: bool) -> Learner:
    from cntk_learner_rmsprop import RmsProp, RmsPropOptions

    return RmsProp(RmsPropOptions(norm_with_ave_multiplier=mean))


def _fsadagrad() -> Learner:
    from cntk_learner_fsadagrad import FSAdaGrad

    return FSAdaGrad()


def _adam(name: str) -> Learner:
    import cntk_learner_adam

    learner: Learner = getattr(cntk_learner_adam, name)()
    return learner


RULES: dict[str, Callable[[], Learner]] = {
    "momentum": lambda: _sgd(nag=False),
    "nag": lambda: _sgd(nag=True),
    "adagrad": lambda: _adagrad(mean=False),
    "adagrad-mean": lambda: _adagrad(mean=True),
    "rmsprop": lambda: _rmsprop(mean=False),
    "rmsprop-mean": lambda: _rmsprop(mean=True),
    "fsadagrad": _fsadagrad,
    "adam": lambda: _adam("Adam"),
    "adamw": lambda: _adam("AdamW"),
    "adamax": lambda: _adam("AdaMax"),
    "adadelta": lambda: _adam("AdaDelta"),
}


class Candidate:
    """Updates with an engine and the rule's learner."""

    def __init__(self, workload: RuleUpdate, threads: int) -> None:
        from cntk_builder_python import Graph

        graph = Graph(np.float32)
        product = graph.apply("ElementTimes", graph.parameter(workload.elements), graph.input("x", workload.elements))
        criterion = graph.criterion(graph.apply("SumElements", product), "sum").node
        graph.network.infer()
        self.parameter = graph.network["W"]
        self.parameter.value = workload.parameters()["W"]
        plan = make_plan(graph.network, [criterion], criterion)
        self.store = ParameterStore(graph.network.parameters, np.float32)
        self.store.gradient(self.parameter)[...] = workload.gradient()
        self.learner = RULES[workload.rule]()
        self.context = UpdateContext(1, RATE, MOMENTUM, state=first_state(self.learner), dtype="float32")
        rule = compose_update(self.learner, SGDSettings(max_epochs=1))
        self.program = make_engine(threads).compile(plan, self.store, rule)

    def steps(self, count: int) -> float:
        """Do ``count`` updates."""
        for _ in range(count):
            self.context = attrs.evolve(self.context, state=self.learner.advance(self.context))
            self.program.update([self.learner.scalars(self.context)])
        self.program.read_totals()  # an engine that computes beside this process has done its work then
        return 0.0

    def parameters(self) -> dict[str, np.ndarray]:
        """Present values by name."""
        return {"W": self.store.value(self.parameter)}
