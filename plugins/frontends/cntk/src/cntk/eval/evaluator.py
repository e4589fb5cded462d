"""Evaluator: averages of a Function over minibatches."""

from __future__ import annotations

from typing import Any

import numpy as np

from cntk._members.training import LibraryWriters
from cntk.train._criterion import Sums, summed
from cntk.train._feeds import arguments_of
from cntk.train.trainer import _function, _listed


class Evaluator(LibraryWriters):
    """Evaluates a metric on minibatches.

    Args:
        eval_function: the metric, a Function or an output of one; None: it can do nothing but print.
        progress_writers: are told of the progress, one or several.
    """

    def __init__(self, eval_function: Any, progress_writers: Any = None) -> None:
        self._function = _function(eval_function)
        self._writers = _listed(progress_writers)
        self._sums = Sums()

    @property
    def evaluation_function(self) -> Any:
        """The metric."""
        return self._function

    def test_minibatch(self, arguments: Any, device: Any = None, distributed: bool = False) -> float:
        """Return the average of the metric over a minibatch.

        Args:
            arguments: data by variable or name; or the data of the only argument.
            device: is taken for compatibility.
            distributed: accepted; an average is of this rank.

        Raises:
            ValueError: there is no metric; data are missing or do not fit.
        """
        from cntk.ops import combine

        if self._function is None:
            raise ValueError("this evaluator has no function")
        given = arguments_of(arguments, list(self._function.arguments))
        found = combine([summed(self._function)]).eval(given)
        values = [np.asarray(each) for each in found] if isinstance(found, list) else [np.asarray(found)]
        total, samples = sum(float(each.sum()) for each in values), sum(each.size for each in values)
        self._sums.metric += total
        self._sums.samples += samples
        for writer in self._writers:
            writer.update_test(samples, self._read)
        return total / samples if samples else 0.0

    def _read(self) -> tuple[None, float]:
        return None, self._sums.metric

    def summarize_test_progress(self) -> None:
        """Let the writers write a summary, and begin anew."""
        for writer in self._writers:
            writer.write_test_summary(self._read)
        self._sums = Sums()

    def print_node_timing(self) -> None:
        """Say where times of nodes are found."""
        print("Times of nodes: cntk.debugging.start_profiler() and stop_profiler() write them into files.")
