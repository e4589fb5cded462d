"""Requests that wait are computed together, by one thread that has the model."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import numpy as np

from cntk_core.api import CntkError
from cntk_core.api.training import Model

Inputs = Mapping[str, Any]
"""By the name of an input: an array ``(samples, *shape)``, or a list with one array for each sequence."""

Outputs = Mapping[str, Any]
"""By the name of a node: an array ``(samples, *shape)``, or a list with one array for each sequence."""


class Overload(Exception):
    """So many requests wait that no more are taken."""


class TooLate(Exception):
    """A request has waited longer than anybody waits for it."""


@attrs.define(eq=False)
class _Waiting:
    inputs: Inputs
    count: int
    answer: asyncio.Future[Outputs]
    until: float


class Batcher:
    """Answers requests in their order. Made within a running event loop.

    Args:
        model: the model; nobody else may use it at the same time.
        names: of the nodes that are computed.
        most: samples, or sequences, that are computed together.
        queue: requests that may wait.
        timeout: seconds that a request may wait.

    Attributes:
        requests, batches: how many there were.
    """

    def __init__(self, model: Model, names: Sequence[str], *, most: int, queue: int, timeout: float) -> None:
        self._model, self._names = model, list(names)
        self._most, self._queue, self._timeout = most, queue, timeout
        self._waiting: deque[_Waiting] = deque()
        self._thread = ThreadPoolExecutor(1, "model")
        self._busy = False
        self.requests = self.batches = 0

    async def __call__(self, inputs: Inputs, count: int) -> Outputs:
        """Return the nodes' values for the samples of a request.

        Args:
            inputs: of the request.
            count: how many samples, or sequences, each of them has.

        Raises:
            Overload: too many requests wait.
            TooLate: it has waited too long.
            CntkError: the inputs do not fit.
        """
        if len(self._waiting) >= self._queue:
            raise Overload
        answer: asyncio.Future[Outputs] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(inputs, count, answer, time.monotonic() + self._timeout))
        self.requests += 1
        if not self._busy:
            self._busy = True
            asyncio.get_running_loop().call_soon(self._next)
        return await answer

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _next(self) -> None:
        """Give the thread what waits: requests that can be computed together."""
        together = self._take()
        if not together:
            self._busy = False
            return
        loop = asyncio.get_running_loop()
        task = loop.run_in_executor(self._thread, self._compute, [one.inputs for one in together])
        task.add_done_callback(lambda done: self._answer(together, done))

    def _take(self) -> list[_Waiting]:
        now = time.monotonic()
        together: list[_Waiting] = []
        count = 0
        while self._waiting:
            one = self._waiting[0]
            if one.answer.done():  # whoever asked has gone
                self._waiting.popleft()
            elif one.until < now:
                self._waiting.popleft().answer.set_exception(TooLate())
            elif together and (count + one.count > self._most or _kind(one) != _kind(together[0])):
                break
            else:
                together.append(self._waiting.popleft())
                count += one.count
        return together

    def _compute(self, requests: Sequence[Inputs]) -> list[Outputs | CntkError]:
        """Compute requests together; if that fails each by itself, so that the error is of the one that it is about."""
        self.batches += 1
        if len(requests) > 1:
            try:
                joined = {name: _join([inputs[name] for inputs in requests]) for name in requests[0]}
                found = self._model.evaluate(joined, self._names)
                return _split(found, [len(next(iter(inputs.values()))) for inputs in requests])
            except CntkError:
                pass
        answers: list[Outputs | CntkError] = []
        for inputs in requests:
            try:
                answers.append(self._model.evaluate(inputs, self._names))
            except CntkError as error:
                answers.append(error)
        return answers

    def _answer(self, together: Sequence[_Waiting], done: asyncio.Future[list[Outputs | CntkError]]) -> None:
        failure = done.exception()
        found: Sequence[Any] = [failure] * len(together) if failure is not None else done.result()
        for one, answer in zip(together, found, strict=True):
            if one.answer.done():
                continue
            if isinstance(answer, BaseException):
                one.answer.set_exception(answer)
            else:
                one.answer.set_result(answer)
        self._next()


def _kind(one: _Waiting) -> Any:
    """What requests have in common that are computed together: names, shapes of samples, and sequences or not."""
    if not one.inputs:
        return object()
    return {
        name: value.shape[1:] if isinstance(value, np.ndarray) else "sequences" for name, value in one.inputs.items()
    }


def _join(values: Sequence[Any]) -> Any:
    if isinstance(values[0], np.ndarray):
        return np.concatenate(values)
    return [sequence for value in values for sequence in value]


def _split(found: Outputs, counts: Sequence[int]) -> list[Outputs | CntkError]:
    """Give each request its part of the values; a value that is of all samples together cannot be parted.

    Raises:
        CntkError: there is such a value.
    """
    total = sum(counts)
    for name, value in found.items():
        if (isinstance(value, np.ndarray) and not value.ndim) or len(value) != total:
            raise CntkError(f"'{name}' has no value for each sample")
    ends = np.cumsum(counts).tolist()
    spans = list(zip([0, *ends], ends, strict=False))
    return [{name: value[first:last] for name, value in found.items()} for first, last in spans]


def as_lists(value: Any) -> Any:
    """Return a value for JSON."""
    return [as_lists(one) for one in value] if isinstance(value, list) else value.tolist()
