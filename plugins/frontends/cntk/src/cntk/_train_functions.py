"""``Function.train`` and ``Function.test``: a training session, or a test, in one call."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from cntk.eval import Evaluator
from cntk.io import MinibatchSource, UserMinibatchSource
from cntk.logging.writers import ProgressWriter, average
from cntk.train.trainer import Trainer
from cntk.train.training_session import (
    CheckpointConfig,
    CrossValidationConfig,
    TestConfig,
    minibatch_size_schedule,
    sourced,
    training_session,
)
from cntk.variables import Record


class _Collector(ProgressWriter):
    """Keeps all averages.

    Args:
        frequency: minibatches between two of them; None is none but the summaries.
    """

    def __init__(self, frequency: int | None = None) -> None:
        super().__init__(sys.maxsize if frequency is None else frequency)
        self.updates: list[Record] = []
        self.summaries: list[Record] = []
        self.tests: list[Record] = []

    def on_write_training_update(self, samples: Any, updates: Any, aggregate_loss: Any, aggregate_metric: Any) -> None:
        """Keep the averages of a window."""
        count = samples[1] - samples[0]
        found = (average(each, samples) for each in (aggregate_loss, aggregate_metric))
        self.updates.append(Record(**dict(zip(("loss", "metric"), found, strict=True)), samples=count))

    def on_write_training_summary(
        self,
        samples: int,
        updates: int,
        summaries: int,
        aggregate_loss: float,
        aggregate_metric: float,
        elapsed_milliseconds: int,
    ) -> None:
        """Keep the averages of an epoch."""
        loss, metric = average(aggregate_loss, samples), average(aggregate_metric, samples)
        self.summaries.append(Record(loss=loss, metric=metric, samples=samples))

    def on_write_test_summary(
        self, samples: int, updates: int, summaries: int, aggregate_metric: float, elapsed_milliseconds: int
    ) -> None:
        """Keep the average of a test."""
        self.tests.append(Record(metric=average(aggregate_metric, samples), samples=samples))


def train(
    criterion: Any,
    minibatch_source: Any,
    minibatch_size: Any = 32,
    streams: Sequence[Any] | None = None,
    model_inputs_to_streams: Mapping[Any, Any] | None = None,
    parameter_learners: Any = (),
    callbacks: Sequence[Any] = (),
    progress_frequency: Any = None,
    max_epochs: float | None = None,
    epoch_size: int | None = None,
    max_samples: int | None = None,
) -> Record:
    """Train the parameters of a criterion.

    Args:
        criterion: a Function: a loss, or a loss and a metric.
        minibatch_source: a source; or the data of the criterion's arguments, as a tuple.
        minibatch_size: samples of a minibatch, or a schedule of them.
        streams: of the arguments, in their order.
        model_inputs_to_streams: the same by variable.
        parameter_learners: the learners.
        callbacks: progress writers, and a configuration of checkpoints, of cross validation and of a test.
        progress_frequency: samples between two summaries, or (number, unit); by default an epoch.
        max_epochs: how many epochs; one by default.
        epoch_size: samples of an epoch; by default those of the data.
        max_samples: in place of epochs.

    Returns:
        A record with ``updates`` and ``epoch_summaries``, each a list of records with ``loss``, ``metric`` and
        ``samples``, and with a configuration of a test ``test_summary``.

    Raises:
        ValueError: settings are missing or exclude each other; the data do not fit.
    """
    sizes = minibatch_size_schedule(minibatch_size) if minibatch_size is not None else None
    if sizes is None:
        raise ValueError("training needs a minibatch_size")
    if max_samples is not None and max_epochs is not None:
        raise ValueError("max_samples and max_epochs exclude each other")
    if max_samples is None:
        epoch_size = _epoch_size(minibatch_source) if epoch_size is None else epoch_size
        max_samples = int((1 if max_epochs is None else max_epochs) * epoch_size)
    progress_frequency = epoch_size if progress_frequency is None else progress_frequency
    writers, configs = _sorted(callbacks)
    frequency = progress_frequency[0] if isinstance(progress_frequency, tuple) else progress_frequency
    collector = _Collector(None if frequency is None else max(frequency // sizes[0], 1))
    trainer = Trainer(None, criterion, parameter_learners, [*writers, collector])
    training_session(
        trainer,
        minibatch_source,
        sizes,
        _mapped(criterion, streams, model_inputs_to_streams),
        progress_frequency,
        max_samples,
        configs.get(CheckpointConfig),
        configs.get(CrossValidationConfig),
        configs.get(TestConfig),
    ).train()
    nothing = [Record(loss=0, metric=0, samples=0)]
    summaries = collector.summaries
    found = {"updates": collector.updates if summaries else nothing, "epoch_summaries": summaries or nothing}
    return Record(**found, **({"test_summary": collector.tests[-1]} if TestConfig in configs else {}))


def measure(
    criterion: Any,
    minibatch_source: Any,
    minibatch_size: int = 32,
    streams: Sequence[Any] | None = None,
    model_inputs_to_streams: Mapping[Any, Any] | None = None,
    callbacks: Sequence[Any] | None = None,
) -> Record:
    """Return the average of a criterion over data.

    Args:
        criterion: a Function: a metric, or a loss and a metric.
        minibatch_source: a source that ends; or the data of the criterion's arguments, as a tuple.
        minibatch_size: samples of a minibatch.
        streams: of the arguments, in their order.
        model_inputs_to_streams: the same by variable.
        callbacks: progress writers.

    Returns:
        A record with ``metric`` and ``samples``.

    Raises:
        ValueError: the source never ends; the data do not fit.
    """
    if minibatch_size is None:
        raise ValueError("a test needs a minibatch_size")
    mapped = _mapped(criterion, streams, model_inputs_to_streams)
    source, mapped = sourced(minibatch_source, mapped, criterion, endless=False)
    if source.is_infinite():
        raise ValueError("a test needs a source that ends: max_samples or max_sweeps")
    from cntk.ops import combine

    collector = _Collector()
    evaluator = Evaluator(combine([criterion.outputs[-1]]), [*(callbacks or ()), collector])
    wanted = set(evaluator.evaluation_function.arguments)
    while found := source.next_minibatch(minibatch_size):
        by_name = {info.m_name: data for info, data in found.items()}
        evaluator.test_minibatch({key: by_name[info.m_name] for key, info in mapped.items() if key in wanted})
    evaluator.summarize_test_progress()
    return collector.tests[-1]


def _epoch_size(source: Any) -> int:
    if isinstance(source, MinibatchSource | UserMinibatchSource):
        raise ValueError("training from a source needs epoch_size or max_samples")
    first = source[0] if isinstance(source, tuple) else source
    return len(first) if isinstance(first, list) else int(first.shape[0])


def _mapped(criterion: Any, streams: Sequence[Any] | None, by_variable: Any) -> Any:
    if not streams:
        return by_variable
    if by_variable:
        raise ValueError("streams and model_inputs_to_streams exclude each other")
    return dict(zip(criterion.arguments, streams, strict=True))


def _sorted(callbacks: Sequence[Any]) -> tuple[list[ProgressWriter], dict[type, Any]]:
    """Return the writers and the configurations, by their class.

    Raises:
        ValueError: something else was given, or two of a kind.
    """
    writers: list[ProgressWriter] = []
    configs: dict[type, Any] = {}
    for each in callbacks:
        kind = type(each)
        if isinstance(each, ProgressWriter):
            writers.append(each)
        elif kind not in (CheckpointConfig, CrossValidationConfig, TestConfig):
            raise ValueError(f"a callback is a progress writer or a configuration of a session, not {each!r}")
        elif configs.setdefault(kind, each) is not each:
            raise ValueError(f"there is more than one {kind.__name__}")
    return writers, configs
