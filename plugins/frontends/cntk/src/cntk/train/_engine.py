"""From loss, metric and learners to a trainer of the core."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from cntk._graph.errors import told
from cntk._graph.leaves import node_of
from cntk._graph.lower import Maker, lower
from cntk._graph.pieces import minibatch_of
from cntk._graph.run import generation, model_of
from cntk.learners import Learner, UserLearner
from cntk.train._criterion import beside, reached, summed
from cntk.train._fused import Fused, fused, is_one_hot
from cntk.train._host import HostRule
from cntk_core.api import Minibatch, Network, Node, ParameterStore, StreamData
from cntk_core.api.training import Parallel
from cntk_core.api.training import Trainer as CoreTrainer


@attrs.frozen
class Learned:
    """What a minibatch has brought.

    Attributes:
        samples: that it had, on all ranks.
        updated: whether anything was learned.
        result: of the core.
    """

    samples: int
    updated: bool
    result: Any


class Engine:
    """Makes the core's trainer when the first minibatch comes, and again when what it was made of has changed.

    Args:
        loss, metric: the functions; the metric may be None.
        learners: their learners.
    """

    def __init__(self, loss: Any, metric: Any, learners: Sequence[Learner]) -> None:
        self._loss, self._metric, self._learners = loss, metric, learners
        self._made: _Made | None = None
        self._fuses = True
        self._carried = (0.0, 0.0)
        self._parallel = next((each.parallel for each in learners if getattr(each, "parallel", None)), None)

    @property
    def is_distributed(self) -> bool:
        """Whether several ranks train together."""
        return self._parallel is not None

    @property
    def place(self) -> tuple[int, int]:
        """The rank of this process, and how many there are."""
        return (
            (0, 1) if self._parallel is None else (self._parallel.communicator.rank, self._parallel.communicator.size)
        )

    def check_parameters(self) -> None:
        """Look whether the criterion depends on what is learned.

        Raises:
            ValueError: not on all of it.
        """
        functions = [each for each in (self._loss, self._metric) if each is not None]
        known = {parameter for each in functions for parameter in each.parameters}
        strange = [str(each) for learner in self._learners for each in learner.parameters if each not in known]
        if strange:
            raise ValueError(f"learners have parameters that the criterion does not depend on: {', '.join(strange)}")

    def _current(self, data: Mapping[Any, Any]) -> _Made:
        if self._made is not None and self._made.labels and not _are_one_hot(self._made.labels, data):
            self._fuses = False
        if self._made is None or not self._made.is_current() or (self._made.labels and not self._fuses):
            is_again = self._made is not None
            if self._made is not None:
                loss, metric = self.read_totals()
                self._carried = (self._carried[0] + loss, self._carried[1] + metric)
                self._made.leave(self._learners)
            with told():
                self._made = self._make(data, joined=is_again and not self.is_distributed)
        return self._made

    def _make(self, data: Mapping[Any, Any], *, joined: bool) -> _Made:
        functions = [self._loss] if self._metric in (None, self._loss) else [self._loss, self._metric]
        found = [fused(each.output) for each in functions]
        labels = {each.labels for each in found if each is not None and each.labels is not None}
        self._fuses = self._fuses and _are_one_hot(labels, data)
        wanted = [each if each is None or self._fuses or each.labels is None else None for each in found]
        return _Made(functions, wanted, self._learners, self._parallel, joined=joined)

    def learn(self, data: Mapping[Any, Any], *, sweep_end: bool) -> Learned:
        """Learn a minibatch.

        Args:
            data: by variable, as the core takes it.
            sweep_end: a sweep over the data ends here.

        Raises:
            ValueError: the data do not fit.
        """
        made = self._current(data)
        with told():
            for learner in self._learners:
                learner.sweep_end = sweep_end
            result = made.trainer.train_minibatch(made.named(data) if data else None)
        samples = int(result.samples)
        learned = [learner for learner in self._learners if samples and learner.learning_rate() != 0.0]
        for learner in learned:
            learner.end(samples, sweep_end=sweep_end)
        if self._parallel is not None:
            strategy = made.trainer._team.strategy  # the only one that knows; it is not among what a step tells
            if strategy.has_met and not strategy.reduces_gradients:
                self._count_together()
        return Learned(samples, bool(learned) and result.updated, result)

    def _count_together(self) -> None:
        """Let learners count what all ranks have learned until now, as the original does when models come together."""
        assert self._parallel is not None
        for learner in self._learners:
            total = np.array([learner.unmet], np.float64)
            self._parallel.communicator.allreduce(total)
            learner.meet(int(total[0]))

    def test(self, data: Mapping[Any, Any]) -> tuple[float, int]:
        """Return the sum of the metric over a minibatch, and its samples. Raises ValueError: the data do not fit."""
        made = self._current(data)
        with told():
            found = made.trainer.test_minibatch(made.named(data))
        metric = found[made.metric]
        return float(metric.total), int(metric.samples)

    def average(self, learned: Learned, what: str) -> float:
        """Return the average loss or metric of the minibatch that was learned last."""
        assert self._made is not None
        name = self._made.loss if what == "loss" else self._made.metric
        return float(learned.result.criteria[name].average)

    def read_totals(self) -> tuple[float, float]:
        """Return the sums of loss and metric since the last call."""
        carried, self._carried = self._carried, (0.0, 0.0)
        if self._made is None:
            return carried
        found = self._made.trainer.read_totals()
        metric = found[self._made.metric].total if self._metric is not None else 0.0
        return carried[0] + found[self._made.loss].total, carried[1] + metric


def _are_one_hot(labels: Collection[Any], data: Mapping[Any, Any]) -> bool:
    """Whether labels are one-hot, as far as there are any."""
    return all(label not in data or is_one_hot(data[label]) for label in labels)


class _Made:
    """The core's trainer of some functions and learners.

    Args:
        functions: the loss, and perhaps the metric.
        wanted: for each the one operation that stands for it, None if none does.
        learners: what learns.
        parallel: how ranks train together.
        joined: keep parameters together with those of programs that have some of them as well.

    Attributes:
        labels: inputs whose data have to be one-hot, for operations that stand for functions.
    """

    def __init__(
        self,
        functions: Sequence[Any],
        wanted: Sequence[Fused | None],
        learners: Sequence[Learner],
        parallel: Parallel | None,
        *,
        joined: bool = False,
    ) -> None:
        self.labels = {each.labels for each in wanted if each is not None and each.labels is not None}
        self.parameters = {parameter: node_of(parameter) for learner in learners for parameter in learner.parameters}
        maker, self.nodes, named = _lowered(functions, wanted)
        there = reached(named[0])
        apart = [parameter for parameter, node in self.parameters.items() if node not in there]
        if apart:
            functions = [beside(functions[0], apart), *functions[1:]]
            maker, self.nodes, named = _lowered(functions, [None, *wanted[1:]])
        self._names = {variable: node.name for variable, node in self.nodes.items()}
        maker.network.mark(named[0], "criterion")
        evaluations = [node for node in named[1:] if node is not named[0]]
        for node in evaluations:
            maker.network.mark(node, "evaluation")
        for node in maker.network.inputs:
            maker.network.mark(node, "feature")
        self.loss, self.metric = named[0].name, named[-1].name
        if joined:
            _join(maker.network)
        model = model_of(maker.network)
        self.trainer = CoreTrainer(
            maker.network,
            named[0],
            [_settings(learner, self.parameters) for learner in learners],
            evaluations=evaluations,
            engine=model.engine,
            plugins=model.plugins,
            parallel=parallel,
            seed=learners[0].noise_seed,
            padded=False,
        )
        store = self.trainer.model.store
        self._generation = generation()
        self._collects = [(node, node.collect) for node in self.parameters.values()]
        for number, learner in enumerate(learners):
            learner.move_into(store, self.parameters, f"{number}." if len(learners) > 1 else "")

    def is_current(self) -> bool:
        """Whether the parameters are still where this trainer has them, and nobody wants it compiled again."""
        return self._generation == generation() and all(node.collect is collect for node, collect in self._collects)

    def leave(self, learners: Sequence[Learner]) -> None:
        """Give the learners their arrays back."""
        for learner in learners:
            learner.move_out()

    def named(self, data: Mapping[Any, Any]) -> dict[str, Any] | Minibatch:
        """Return data by the names of the inputs, of variables that these functions read; packed ones as a minibatch.

        Raises:
            GraphError: some are packed, and others do not fit them.
        """
        names = self._names
        found = {names[variable]: each for variable, each in data.items() if variable in names}
        if any(isinstance(each, StreamData) for each in found.values()):
            return minibatch_of(self.trainer.model.network, found)
        return found


def _lowered(functions: Sequence[Any], wanted: Sequence[Fused | None]) -> tuple[Maker, dict[Any, Node], list[Node]]:
    """Return what has made the network of functions, the nodes of variables, and the node of each function."""
    roots = [
        (summed(function),) if each is None else each.operands for function, each in zip(functions, wanted, strict=True)
    ]
    maker, nodes = lower(list(dict.fromkeys(variable for several in roots for variable in several)))
    named = [
        nodes[several[0]]
        if each is None
        else maker.add(f"{function.uid}.{each.op}", each.op, [nodes[variable] for variable in several])
        for function, each, several in zip(functions, wanted, roots, strict=True)
    ]
    maker.network.infer()
    return maker, nodes, named


def _join(network: Network) -> None:
    """Have one store for the parameters of a network and all those that are in a store with one of them.

    Two programs that share a part of their parameters would take them from each other at each step otherwise, and be
    made again each time.
    """
    found = dict.fromkeys(_store_of(each) for each in network.parameters)
    stores = [store for store in found if store is not None and store.dtype == network.dtype]
    others = [each for store in stores for each in store.parameters]
    there = [each for each in others if _store_of(each) in stores]  # some may have gone elsewhere since
    ParameterStore.of(dict.fromkeys([*network.parameters, *there]), network.dtype)


def _store_of(parameter: Any) -> Any:
    """The store that has a parameter, None if none has."""
    return getattr(parameter.collect, "store", None)


def _settings(learner: Learner, nodes: Mapping[Any, Any]) -> Any:
    mine = {nodes[parameter].name: parameter for parameter in learner.parameters}
    rule = HostRule(learner, mine) if isinstance(learner, UserLearner) else None
    return learner.settings([nodes[parameter] for parameter in learner.parameters], rule)
