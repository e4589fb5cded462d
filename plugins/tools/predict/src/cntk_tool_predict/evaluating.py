"""One batch after the other through a model, in this process or in several."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Minibatch, Node, show
from cntk_core.api.engines import make_plan
from cntk_core.api.recipes import NodeValues, compile_plan
from cntk_core.api.training import Model


@attrs.frozen(eq=False)
class Values:
    """Values of a node for a batch.

    Attributes:
        rows: ``(frames, *shape)``, sequence by sequence.
        lengths: frames of each sequence; None where samples are no sequences.
        keys: what the data call the sequences, if they do.
    """

    rows: NDArray[Any]
    lengths: Sequence[int] | None = None
    keys: Sequence[str] = ()


Batch = Mapping[str, Any] | Minibatch
"""By the name of an input an array, a row for each sample, or a list with an array for each sequence; or what a reader
has read.
"""


class Evaluator:
    """Computes nodes for batches.

    Args:
        model: the model.
        names: of the nodes; empty are its outputs.
    """

    def __init__(self, model: Model, names: Sequence[str]) -> None:
        network = model.network
        self._model = model
        self.nodes: tuple[Node, ...] = tuple(network[name] for name in names) or tuple(network.roots["output"])
        self._names = [node.name for node in self.nodes]
        self._values: NodeValues | None = None

    def __call__(self, batch: Batch) -> list[Values]:
        """Return the values of the nodes.

        Raises:
            DataError: the batch does not fit the inputs, or a node has no value for each sample.
        """
        if isinstance(batch, Minibatch):
            return self._of_minibatch(batch)
        found = self._model.evaluate(batch, self._names)
        samples = len(next(iter(batch.values()))) if batch else 0
        return [self._of_samples(node, found[node.name], samples) for node in self.nodes]

    def _of_samples(self, node: Node, value: Any, samples: int) -> Values:
        if not node.framed or len(value) != samples:
            there = f"but {len(value)}" if node.framed else "but one of all"
            raise DataError(f"'{node.name}' has no value for each of the {samples} samples, {there}")
        if not isinstance(value, list):
            return Values(np.asarray(value))
        lengths = [len(one) for one in value]
        return Values(np.concatenate(value), None if set(lengths) == {1} else lengths)

    def _of_minibatch(self, batch: Minibatch) -> list[Values]:
        if self._values is None:
            program = compile_plan(self._model.engine, make_plan(self._model.network, self.nodes), self._model.store)
            program.begin_epoch(0)
            self._values = NodeValues(self._model.network, program)
        self._values.evaluate(batch)
        return [self._of_sequences(self._values, node, batch) for node in self.nodes]

    @staticmethod
    def _of_sequences(values: NodeValues, node: Node, batch: Minibatch) -> Values:
        if not node.framed or min(node.known_shape, default=1) < 0:
            what = "has no value" if not node.framed else f"{show(node.known_shape)} has no value of one size"
            raise DataError(f"'{node.name}' {what} for each sample")
        found = values.sequences(node, batch)
        rows = np.concatenate([one.values for one in found])
        lengths = [len(one.values) for one in found]
        keys = [one.key for one in found]
        shaped = rows.reshape(len(rows), *node.known_shape)
        return Values(shaped, None if set(lengths) == {1} and not any(keys) else lengths, keys if any(keys) else ())


def evaluate_all(evaluator: Evaluator, batches: Iterator[Batch], workers: int) -> Iterator[list[Values]]:
    """Yield the values of each batch, in their order.

    Args:
        evaluator: has the model; with several workers each process gets a copy of it.
        batches: what is computed.
        workers: so many processes; at most two batches for each are waiting.
    """
    if workers <= 1:
        yield from map(evaluator, batches)
        return
    state = evaluator._model, [node.name for node in evaluator.nodes]
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin, state) as pool:
        waiting: deque[Future[list[Values]]] = deque()
        try:
            for batch in batches:
                waiting.append(pool.submit(_evaluate, batch))
                if len(waiting) >= 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for one in waiting:
                one.cancel()


_OWN: list[Evaluator] = []
"""That of a worker process."""


def _begin(model: Model, names: Sequence[str]) -> None:
    _OWN[:] = [Evaluator(model, names)]


def _evaluate(batch: Batch) -> list[Values]:
    return _OWN[0](batch)
