"""One run of a training session: from a network that is ready to the final model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from cntk_core.errors import TrainingError
from cntk_core.interfaces.engine import Program
from cntk_core.interfaces.reader import SWEEP, EpochSpec
from cntk_core.network.model_file import ModelInfo, save_model
from cntk_core.network.network import Network
from cntk_core.plan.make import make_plan
from cntk_core.plan.runnable import check_runnable
from cntk_core.plugins.events import EpochStart, EpochSummary
from cntk_core.training.checkpoint import Progress, restore_slots, save_checkpoint
from cntk_core.training.criteria import Criterion, averages
from cntk_core.training.epoch import EpochLoop, EpochResult
from cntk_core.training.evaluate import evaluate_program
from cntk_core.training.generations import Start, checkpoint_of
from cntk_core.training.precompute import precompute
from cntk_core.training.progress import RunLog
from cntk_core.training.roots import choose_criteria, describe_parameters
from cntk_core.training.schedules import effective_momentum, time_constant
from cntk_core.training.store import ParameterStore
from cntk_core.training.update import NOISE_SLOT, compose_update

if TYPE_CHECKING:
    from cntk_core.training.session import TrainingSession


@attrs.frozen
class TrainingSummary:
    """What a training gave.

    Attributes:
        epochs: epochs that the model has now, those before a restart included.
        trained: epochs of this run.
        criteria: of the last epoch of this run, averages by name.
        validation: the same on the validation set.
        stopped: why training ended before its last epoch; empty otherwise.
    """

    epochs: int
    trained: int
    criteria: Mapping[str, float] = attrs.field(factory=dict)
    validation: Mapping[str, float] = attrs.field(factory=dict)
    stopped: str = ""


class TrainingRun:
    """One run of a session.

    Args:
        session: the parts and settings.
        network: with shapes and values.
        start: what it was loaded from; None if it is new.
    """

    def __init__(self, session: TrainingSession, network: Network, start: Start | None) -> None:
        self.session = session
        self.settings = session.settings
        self.log = session.log
        self.paths = session.paths
        self.network = network
        self.start = start
        self.first = start.epochs if start is not None else 0
        self.criterion, self.evaluations = choose_criteria(network, self.settings)
        self.nodes = (self.criterion, *self.evaluations)
        self.store = ParameterStore(network.parameters, network.dtype)
        self.samples = 0
        self.epoch_samples = self.settings.epoch_size
        self._stale_files = not session.make_mode
        self._validation: Program | None = None

    def run(self) -> TrainingSummary:
        """Do everything."""
        self._describe()
        loop = self._prepare()
        self._restore()
        last: EpochResult | None = None
        validation: Mapping[str, Criterion] = {}
        stopped = ""
        epoch = self.first
        for epoch in range(self.first, self.settings.max_epochs):
            stopped = self._rate_is_too_low(epoch)
            if stopped:
                self._save(epoch, last, final=True)
                break
            last = self._train(loop, epoch)
            validation = self._validate(epoch)
            stopped = self._epoch_ended(epoch, last, validation)
            self._save(epoch + 1, last, final=bool(stopped))
            if stopped:
                self.log.line(f"Training ends after epoch {epoch + 1}: {stopped}")
                epoch += 1
                break
        else:
            epoch = max(self.settings.max_epochs, self.first)
        criteria = averages(last.criteria) if last is not None else {}
        return TrainingSummary(epoch, epoch - self.first, criteria, averages(validation), stopped)

    # -- before the first epoch ---------------------------------------------------------------------------

    def _describe(self) -> None:
        self.log.line()
        self.log.line(f"Model has {len(self.network)} nodes. Using {self.session.job.engine or 'CPU'}.")
        self.log.line()
        self.log.line(f"Training criterion:   {self.criterion.name} = {self.criterion.op.name}")
        if len(self.evaluations) == 1:
            node = self.evaluations[0]
            self.log.line(f"Evaluation criterion: {node.name} = {node.op.name}")
        elif self.evaluations:
            self.log.line()
            self.log.line("Evaluation criteria:")
            for node in self.evaluations:
                self.log.line(f"\t{node.name} = {node.op.name}")
        for text in describe_parameters(self.network, self.criterion, detailed=self.log.trace_level > 0):
            self.log.line(text)

    def _prepare(self) -> EpochLoop:
        session = self.session
        check_runnable(self.network, [*self.nodes, self.criterion])
        size = SWEEP if self.settings.use_all_data_for_pre_computed_node else self.settings.epoch_size
        spec = EpochSpec(epoch_size=size, minibatch_size=self.settings.minibatch_size[0])
        new = precompute(self.network, session.engine, self.store, session.reader, spec, self.log)
        if new or self.start is None:
            save_model(self.network, self.paths.model(self.first), ModelInfo(self.first, self.samples))
        plan = make_plan(self.network, self.nodes, self.criterion)
        for listener in session.listeners("cntk_plan_ready"):
            listener(plan=plan, engine=session.job.engine)
        rule = compose_update(session.learner, self.settings)
        self.store.add_slots(rule.slots)
        program = session.engine.compile(plan, self.store, rule, seed=session.seed)
        return EpochLoop(
            program,
            self.store,
            session.learner,
            self.settings,
            self.nodes,
            self.log,
            session.job,
            seed=session.seed,
            listeners=session.listeners("cntk_minibatch_end"),
        )

    def _restore(self) -> None:
        """Take the learner's state back, and say so."""
        checkpoint = self.start.checkpoint if self.start is not None else None
        if checkpoint is None or self.start is None:
            return
        slots = restore_slots(checkpoint, self.store)
        progress = checkpoint.progress
        self.samples = progress.samples
        self.epoch_samples = self.epoch_samples or progress.epoch_samples
        self.log.line(
            f"Restored from '{checkpoint_of(self.start.model)}': {progress.epochs} epochs, {progress.samples} samples"
            + (f", {', '.join(slots)}" if slots else "")
            + "."
        )
        if progress.settings != self.session.settings_hash():
            self.log.line("Warning: the settings are not those that the checkpoint was written with.")
        if progress.seed != self.session.seed:
            self.log.line(f"Warning: the random seed was {progress.seed}, now it is {self.session.seed}.")

    # -- epochs -------------------------------------------------------------------------------------------

    def _rate_is_too_low(self, epoch: int) -> str:
        rate, least = self.settings.rate(epoch), self.settings.min_learning_rate_per_sample
        if rate >= least:
            return ""
        text = (
            f"Learn Rate Per Sample for Epoch[{epoch + 1}] = {rate:.8g} "
            f"is less than minLearningRatePerSample {least:.8g}."
        )
        self.log.line(f"{text} Training complete.")
        return text

    def _train(self, loop: EpochLoop, epoch: int) -> EpochResult:
        settings, session = self.settings, self.session
        rate, momentum, size = settings.rate(epoch), settings.momentum(epoch), settings.minibatch_size[epoch]
        effective = effective_momentum(momentum, size)
        for listener in session.listeners("cntk_epoch_begin"):
            listener(job=session.job, epoch=EpochStart(epoch, size, rate, effective))
        self.log.epoch_begins(epoch, rate, effective, time_constant(momentum))
        self.log.loop_begins(settings.parts(epoch), settings.max_samples_in_ram)
        if self.log.bar is not None:
            self.log.bar.begin(f"epoch {epoch + 1} of {settings.max_epochs}", self.epoch_samples, rate)
        spec = EpochSpec(epoch=epoch, epoch_size=settings.epoch_size, minibatch_size=size)
        result = loop.run(session.reader.minibatches(spec), epoch, self.epoch_samples)
        self.samples += result.samples
        self.epoch_samples = settings.epoch_size or result.samples
        self.log.epoch_ends(epoch, settings.max_epochs, result.criteria, self.samples, rate, result.seconds)
        return result

    def _validate(self, epoch: int) -> Mapping[str, Criterion]:
        reader, session = self.session.cv_reader, self.session
        if reader is None:
            return {}
        if self._validation is None:
            self._validation = session.engine.compile(make_plan(self.network, self.nodes), self.store)
        spec = EpochSpec(minibatch_size=self.settings.minibatch_size[epoch])
        quiet = RunLog(_Through(self.log))
        criteria = evaluate_program(self._validation, reader, self.nodes, spec, quiet)
        self.log.validated(epoch, self.settings.max_epochs, criteria)
        return criteria

    def _epoch_ended(self, epoch: int, result: EpochResult, validation: Mapping[str, Criterion]) -> str:
        """Tell the listeners; return why training should end now, or nothing."""
        session, settings = self.session, self.settings
        summary = EpochSummary(
            epoch,
            result.samples,
            result.minibatches,
            averages(result.criteria),
            averages(validation),
            settings.rate(epoch),
            settings.minibatch_size[epoch],
            result.seconds,
        )
        for listener in session.listeners("cntk_epoch_end"):
            listener(job=session.job, summary=summary)
        for listener in session.listeners("cntk_should_stop"):
            reason = listener(job=session.job, summary=summary)
            if reason:
                return str(reason)
        return ""

    # -- files --------------------------------------------------------------------------------------------

    def _save(self, epochs: int, result: EpochResult | None, *, final: bool) -> None:
        """Save the checkpoint, then the model, then remove checkpoints that are not needed any more."""
        session, settings = self.session, self.settings
        if self._stale_files:
            self._stale_files = False
            if count := self.paths.remove_all():
                self.log.line(f"makeMode=false: removed {count} files of an earlier training of '{self.paths.final}'.")
        model = self.paths.final if final else self.paths.model(epochs)
        epoch = max(epochs - 1, 0)
        progress = Progress(
            epochs=epochs,
            samples=self.samples,
            epoch_samples=self.epoch_samples,
            learning_rate=settings.rate(epoch),
            criterion=result.loss if result is not None else 0.0,
            minibatch_size=settings.minibatch_size[epoch],
            seed=session.seed,
            reader_epoch=epochs,
            settings=session.settings_hash(),
        )
        self.log.detail(f"SGD: Saving checkpoint model '{model}'")
        try:
            save_checkpoint(
                checkpoint_of(model), self.paths.folder, self.network, self.store, progress, leave_out=(NOISE_SLOT,)
            )
            save_model(self.network, model, ModelInfo(epochs, self.samples))
        except OSError as error:
            raise TrainingError(
                f"the model '{model}' cannot be saved: {error.strerror or error}",
                hint="The models and checkpoints of earlier epochs are untouched; run again to go on from them.",
            ) from None
        if not settings.keep_check_point_files:
            self.paths.prune_checkpoints(settings.max_epochs if final else epochs)
        for listener in session.listeners("cntk_checkpoint_saved"):
            listener(job=session.job, path=model)


class _Through:
    """Lines of a part of the run go where those of the run go."""

    def __init__(self, log: RunLog) -> None:
        self.line = log.line
