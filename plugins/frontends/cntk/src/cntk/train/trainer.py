"""Trainer: learns minibatch after minibatch, and tells writers of its progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cntk._graph.run import onlooker
from cntk._inherited import inherit
from cntk._members.training import LibraryTrainer
from cntk.internal import sanitize_var_map
from cntk.learners import Learner
from cntk.train._criterion import Sums, loss_and_metric
from cntk.train._engine import Engine
from cntk.train._feeds import Known, arguments_of, feeds_of, sweep_ends


class Trainer(LibraryTrainer):
    """Trains a model.

    Args:
        model: the Function that is trained; None where the criterion says it all.
        criterion: a loss; or a loss and a metric, as a tuple or as a Function with two outputs.
        parameter_learners: one learner or several; other parameters are left as they are.
        progress_writers: are told of the progress, one or several.

    Raises:
        ValueError: there is no learner, one has a parameter that the criterion does not depend on, or the criterion is
            something else.
    """

    def __init__(
        self,
        model: Any,
        criterion: Any,
        parameter_learners: Learner | Sequence[Learner],
        progress_writers: Any = None,
    ) -> None:
        self._loss, self._metric = loss_and_metric(criterion)
        self._model = _function(model)
        given = parameter_learners if isinstance(parameter_learners, list | tuple) else [parameter_learners]
        self._learners = tuple(given)
        if not self._learners or None in self._learners:
            raise ValueError("a Trainer needs at least one learner, such as cntk.sgd(model.parameters, 0.1)")
        self._writers = _listed(progress_writers)
        for learner in self._learners:
            learner.add_progress_writers(self._writers)
        self._engine = Engine(self._loss, self._metric, self._learners)
        self._last: Any = None
        self._kept: Any = None
        self._known: set[Any] = set()
        self._arrays = Known()
        self._training, self._test = Sums(), Sums()
        self._engine.check_parameters()

    @staticmethod
    def _get_loss_metric(criterion: Any) -> tuple[Any, Any]:
        return loss_and_metric(criterion)

    @property
    def model(self) -> Any:
        """The Function that is trained."""
        return self._model

    @property
    def loss_function(self) -> Any:
        """What is minimised."""
        return self._loss

    @property
    def evaluation_function(self) -> Any:
        """The metric; None if there is none."""
        return self._metric

    @property
    def parameter_learners(self) -> tuple[Learner, ...]:
        """The learners."""
        return self._learners

    # -- minibatches --------------------------------------------------------------------------------------

    def _arguments(self) -> list[Any]:
        functions = [each for each in (self._loss, self._metric, self._model) if each is not None]
        return list(dict.fromkeys(argument for each in functions for argument in each.arguments))

    def _given(self, arguments: Any) -> dict[Any, Any]:
        """Return data by variable. Raises ValueError: something has none, or they are for nothing."""
        if not isinstance(arguments, dict) or set(arguments) != self._known:
            found = self._arguments()
            self._known = set(found)
            return arguments_of(arguments, found)
        return arguments

    def train_minibatch(
        self,
        arguments: Any,
        outputs: Iterable[Any] | None = None,
        device: Any = None,
        is_sweep_end: bool | None = None,
    ) -> Any:
        """Learn a minibatch.

        Args:
            arguments: data by variable or name; or the data of the only argument. Nothing: nothing is learned.
            outputs: variables whose values before the update are wanted.
            device: is taken for compatibility.
            is_sweep_end: a sweep over the data ends here; minibatches of a source say it themselves.

        Returns:
            Whether anything was learned; with ``outputs`` that and a dictionary of the values.

        Raises:
            ValueError: data are missing or do not fit; a source says where sweeps end.
        """
        if outputs is None and onlooker() is None and self._arrays.fits(arguments):
            return self._learn_feeds(arguments, bool(is_sweep_end))
        given = self._given(arguments)
        ends = sweep_ends(given)
        if ends is not None and is_sweep_end is not None:
            raise ValueError("a source says itself where sweeps end: is_sweep_end is for other data")
        found = self._values(outputs, given)
        updated = self._learn(given, bool(is_sweep_end) if ends is None else ends)
        return (updated, found) if outputs else updated

    def _values(self, outputs: Iterable[Any] | None, given: Mapping[Any, Any]) -> dict[Any, Any]:
        if not outputs:
            return {}
        from cntk.ops import combine

        wanted = list(outputs)
        function = combine(wanted)
        inputs = {variable: given[variable] for variable in function.arguments}
        found = function.eval(inputs)
        return found if isinstance(found, dict) else {wanted[0]: found}

    def _learn(self, given: Mapping[Any, Any], ends: bool) -> bool:
        data = feeds_of(given)
        if not data and not self._engine.is_distributed:
            self._last = None
            return False
        look = onlooker()
        if look is not None and data:
            learned = [parameter for learner in self._learners for parameter in learner.parameters]
            look.ahead(self._loss.output, sanitize_var_map(self._arguments(), dict(given)), learned)
        self._arrays.note(given, data)
        return self._learn_feeds(data, ends)

    def _learn_feeds(self, data: Mapping[Any, Any], ends: bool) -> bool:
        self._last = result = self._engine.learn(data, sweep_end=ends)
        if result.samples:
            self._training.samples += result.samples
            for writer in self._writers:
                writer.update_training(result.samples, self._read_training)
        return bool(result.updated)

    def _read_training(self) -> tuple[float, float | None]:
        """Return the sums of loss and metric since the last summary."""
        fresh = self._engine.read_totals()
        self._training.add(*fresh)
        return self._training.loss, None if self._metric is None else self._training.metric

    def test_minibatch(self, arguments: Any, device: Any = None) -> float:
        """Return the average of the metric over a minibatch.

        Args:
            arguments: data by variable or name; or the data of the only argument.
            device: is taken for compatibility.

        Raises:
            ValueError: there is no metric; data are missing or do not fit.
        """
        total, samples = self._tested(arguments)
        return total / samples if samples else 0.0

    def _tested(self, arguments: Any) -> tuple[float, int]:
        if self._metric is None:
            raise ValueError("a trainer without a metric tests nothing: give it (loss, metric)")
        data = feeds_of(self._given(arguments))
        if not data:
            return 0.0, 0
        total, samples = self._engine.test(data)
        self._test.samples += samples
        self._test.metric += total
        for writer in self._writers:
            writer.update_test(samples, self._read_test)
        return total, samples

    def _read_test(self) -> tuple[None, float]:
        return None, self._test.metric

    # -- what was found -----------------------------------------------------------------------------------

    @property
    def previous_minibatch_loss_average(self) -> float:
        """The average loss of the last minibatch. Raises RuntimeError: there was none."""
        return self._previous("loss")

    @property
    def previous_minibatch_evaluation_average(self) -> float:
        """The average metric of the last minibatch. Raises RuntimeError: there was none; ValueError: no metric."""
        if self._metric is None:
            raise ValueError("this trainer has no metric: give it (loss, metric)")
        return self._previous("metric")

    def _previous(self, what: str) -> float:
        if self._last is None or not self._last.samples:
            raise RuntimeError("no minibatch was learned, or the last one was empty")
        found: float = self._engine.average(self._last, what)
        return found

    @property
    def previous_minibatch_sample_count(self) -> int:
        """Samples of the last minibatch."""
        return 0 if self._last is None else int(self._last.samples)

    @property
    def total_number_of_samples_seen(self) -> int:
        """Samples of all updates."""
        return int(self._learners[0].total_number_of_samples_seen)

    def summarize_training_progress(self) -> None:
        """Let the writers write a summary of training, and begin anew."""
        for writer in self._writers:
            writer.write_training_summary(self._read_training)
        self._engine.read_totals()
        self._training = Sums()

    def summarize_test_progress(self) -> None:
        """Let the writers write a summary of tests, and begin anew."""
        for writer in self._writers:
            writer.write_test_summary(self._read_test)
        self._test = Sums()

    def print_node_timing(self) -> None:
        """Say where times of nodes are found."""
        print("Times of nodes: cntk.debugging.start_profiler() and stop_profiler() write them into files.")

    # -- files --------------------------------------------------------------------------------------------

    def save_checkpoint(self, filename: str, external_state: Mapping[str, Any] | None = None) -> None:
        """Save model and learners: the file itself is the model, ``.ckp`` the learners, as the original writes them.

        Args:
            filename: of the model.
            external_state: what :meth:`restore_from_checkpoint` returns: numbers, texts, lists, dictionaries.

        Raises:
            ValueError: the state holds something else.
            OSError: it cannot be written.
        """
        from cntk.train._checkpoint import save

        save(filename, self._whole(), self._learners, dict(external_state or {}))

    def restore_from_checkpoint(self, filename: str) -> dict[str, Any]:
        """Go on from what :meth:`save_checkpoint` has written. Returns the external state.

        Raises:
            ValueError: the files are missing, damaged, or of another model or other learners.
        """
        from cntk.train._checkpoint import restore

        self._last = None
        return restore(filename, self._whole(), self._learners)

    def _whole(self) -> Any:
        """Return the Function that checkpoints have."""
        from cntk.train._checkpoint import whole

        if self._kept is None:
            self._kept = whole(self._model, self._loss, self._metric)
        return self._kept


def _function(given: Any) -> Any:
    """Return a Function, of a Function or a variable that one computes."""
    from cntk.ops import combine

    if given is None or hasattr(given, "root_function"):
        return given
    return combine([given], name=given.name)


def _listed(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


inherit(__name__)
