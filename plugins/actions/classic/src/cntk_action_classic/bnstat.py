"""The action bnstat: the statistics of batch normalization, computed anew over data with a model that is trained.

Node by node, in the order of evaluation: the mean of what goes into it and its variance inside minibatches, over so
many minibatches; then the node is frozen, and the next one sees its normalized values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Action, Config, DataError, EpochSpec, Minibatch, Network, NetworkError, Node, Parameter
from cntk_core.api.engines import statistics_used
from cntk_core.api.recipes import NodeValues, RecipeContext, evaluation_nodes, inputs_of

_MEAN, _VARIANCE, _COUNT = 3, 4, 5
"""Inputs of the operation that hold its statistics."""

_MINIBATCH_SIZE = 40960
_MINIBATCHES = 30


class BatchNormalizationStatisticsAction(Action):
    """Computes the statistics of batch normalization anew, over data, with a model that is trained."""

    requires_api = "1.0"
    name = "bnstat"
    writes = ("newModelPath",)

    def check(self, context: RecipeContext, section: Config) -> None:
        """Raise what is wrong with the section before anything runs."""
        section.require("modelPath")
        context.reader_class(section)
        if section.integer("itersPerNode", _MINIBATCHES) < 1:
            raise section.require("itersPerNode").error("at least 1", "It is the number of minibatches for each node.")

    def run(self, context: RecipeContext, section: Config) -> None:
        """Compute the statistics of ``modelPath`` and write ``newModelPath``.

        Raises:
            CntkError: the model has no batch normalization, or the data gives too few minibatches.
        """
        model = section.require("modelPath")
        target = section.string("newModelPath", "") or f"{model.string()}.PBN"
        network = context.load_model(model.string(), model.where)
        nodes = normalizations(network, evaluation_nodes(context, network, section))
        if not nodes:
            raise NetworkError(f"the model '{model.string()}' has no BatchNormalization to evaluate", where=model.where)
        count = section.integer("itersPerNode", _MINIBATCHES)
        size = section.schedule("minibatchSize", int, _MINIBATCH_SIZE)[0]
        reader = context.make_reader(section, inputs_of(network, [node.inputs[0] for node in nodes]), in_order=True)
        try:
            minibatches = reader.minibatches(EpochSpec(epoch_size=len(nodes) * count * size, minibatch_size=size))
            for node in nodes:
                context.log.line(f"Estimating Statistics --> {node.name}")
                values = NodeValues.of_nodes(context, section, network, [node.inputs[0]])
                set_statistics(node, _gather(node, values, islice(minibatches, count)))
        finally:
            reader.close()
        context.save_model(network, target, section.location("newModelPath"))


def normalizations(network: Network, roots: list[Node]) -> list[Node]:
    """Return the nodes that normalize by statistics, in the order of evaluation."""
    return [node for node in network.order(roots) if node.op.updates]


@attrs.define(eq=False)
class Statistics:
    """Sums over minibatches, in double precision.

    Attributes:
        samples: values of each mean so far: frames, times positions if the statistics are of channels.
        mean: of all of them.
        variance: means of the unbiased variances inside minibatches, weighted with their samples.
    """

    samples: int = 0
    mean: Any = 0.0
    variance: Any = 0.0

    def add(self, rows: NDArray[Any]) -> None:
        """Take a minibatch, ``(samples, statistics)``."""
        count = len(rows)
        if not count:
            return
        self.samples += count
        share = count / self.samples
        self.mean = self.mean + share * (rows.mean(axis=0, dtype=np.float64) - self.mean)
        spread = rows.var(axis=0, dtype=np.float64, ddof=1) if count > 1 else 0.0
        self.variance = self.variance + share * (spread - self.variance)


def _gather(node: Node, values: NodeValues, minibatches: Iterator[Minibatch]) -> Statistics:
    statistics = Statistics()
    count = statistics_used(node.inputs[0].known_shape, node.inputs[1].known_shape, node.attributes)
    for minibatch in minibatches:
        values.evaluate(minibatch)
        statistics.add(as_rows(values.of(node.inputs[0], minibatch), count))
    if not statistics.samples:
        raise DataError(f"the data gave no minibatch for the statistics of '{node.name}'")
    return statistics


def as_rows(value: NDArray[Any], count: int) -> NDArray[Any]:
    """Return frames ``(frames, *shape)`` as one row for each value of a mean, of which there are ``count``."""
    return value.reshape(len(value), count, -1).swapaxes(1, 2).reshape(-1, count)


def set_statistics(node: Node, statistics: Statistics) -> None:
    """Give a node its statistics and freeze it.

    Raises:
        NetworkError: what should hold them is not a parameter.
    """
    found = {_MEAN: statistics.mean, _VARIANCE: statistics.variance, _COUNT: float(statistics.samples)}
    for index, child in enumerate(node.inputs):
        if index not in found:
            continue
        if not isinstance(child, Parameter) or child.value is None:
            raise NetworkError(
                f"input {index + 1} of BatchNormalization '{node.name}' is no parameter but '{child.name}'",
                where=node.where,
            )
        values = np.atleast_1d(found[index])
        child.value[np.unravel_index(np.arange(values.size), child.value.shape)] = values
    node.attributes = attrs.evolve(node.attributes, normalization_time_constant=math.inf, blend_time_constant=math.inf)
