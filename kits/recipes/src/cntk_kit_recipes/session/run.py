"""One run of a training session: from a network that is ready to the final model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs
import numpy as np

from cntk_core.contract.engine import Program
from cntk_core.contract.events import EpochStart
from cntk_core.contract.host_program import compile_plan
from cntk_core.contract.reader import SWEEP, EpochSpec
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import TrainingError
from cntk_core.network.network import Network
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import marked_assignments
from cntk_core.plan.runnable import check_runnable
from cntk_core.training.files.checkpoint import Checkpoint, Progress, load_checkpoint, restore_slots, restore_store
from cntk_core.training.files.position import Position
from cntk_core.training.loop.criteria import Criterion
from cntk_core.training.loop.rank_state import OwnState, take_back
from cntk_core.training.loop.update import compose_update
from cntk_core.training.rates.auto_adjust import RateControl
from cntk_core.training.rates.schedules import effective_momentum, time_constant
from cntk_kit_recipes.block.early_stopping import Best
from cntk_kit_recipes.session.best_model import put_back
from cntk_kit_recipes.session.epoch import EpochLoop
from cntk_kit_recipes.session.epoch_progress import EpochResult, NotANumber, Pace
from cntk_kit_recipes.session.epoch_rates import Pacing
from cntk_kit_recipes.session.evaluate import evaluate_program
from cntk_kit_recipes.session.evaluation_told import Audience
from cntk_kit_recipes.session.generations import Start, checkpoint_of
from cntk_kit_recipes.session.gradient_check import GradientCheck
from cntk_kit_recipes.session.listeners import asked_rate, tell_epoch
from cntk_kit_recipes.session.nan_origin import explained
from cntk_kit_recipes.session.newcomers import NewRanks
from cntk_kit_recipes.session.node_settings import NodeSettings, spare_normalizations
from cntk_kit_recipes.session.parts import SessionParts
from cntk_kit_recipes.session.periodic_saving import InsideKeeper
from cntk_kit_recipes.session.precompute import precompute
from cntk_kit_recipes.session.rank_saving import RankSaver
from cntk_kit_recipes.session.rate_control import ControlState, Verdict, judge, single
from cntk_kit_recipes.session.run_log import RunLog, averages
from cntk_kit_recipes.session.saving import Saver
from cntk_kit_recipes.session.settings_text import differences
from cntk_kit_recipes.session.soundness import Soundness
from cntk_kit_recipes.session.trained_nodes import choose_criteria, describe_training

_BETWEEN_LOOKS = 100
"""Minibatches after which ranks meet that would not otherwise, to see whether it is time for a checkpoint."""

LEAST_RATE = 1e-12
"""Learning rate per sample below which the log says so."""


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
        parts: and settings.
        network: with shapes and values.
        start: what it was loaded from; None if it is new.
    """

    def __init__(self, parts: SessionParts, network: Network, start: Start | None) -> None:
        self.parts = parts
        self.settings = parts.settings
        self.log = parts.log
        self.paths = parts.paths
        self.network = network
        self.start = start
        self.first = self.done = start.epochs if start is not None else 0
        self.criterion, self.evaluations = choose_criteria(network, self.settings)
        self.nodes = (self.criterion, *self.evaluations)
        self.traced = parts.traces.nodes(network, self.nodes) if parts.traces is not None else ()
        spare_normalizations(network, self.settings)
        self.store = ParameterStore(network.parameters, network.dtype)
        self.ranks = parts.ranks
        self.saver = RankSaver(Saver(parts, network, self.store, start), self.store, self.ranks)
        self.position: Position | None = None
        self.state = ControlState(minibatch_size=self.settings.minibatch_size[self.first])
        self.samples = 0
        self.epoch_samples = self.settings.epoch_size
        self.copied: list[str] = []
        self._validation: Program | None = None

    def run(self) -> TrainingSummary:
        """Do everything. Raises NewRanks between two epochs if others wait to be taken in."""
        describe_training(self.network, self.criterion, self.evaluations, self.parts.job.engine, self.log)
        if self.settings.gradient_check and self.network.dtype != np.float64:
            raise TrainingError("gradientcheck needs numbers of double precision", hint="Give precision=double.")
        if self.settings.save_best_model_per_criterion and self.parts.cv_reader is None:
            self.log.line("Warning: saveBestModelPerCriterion has no effect without a cvReader.")
        self.loop = self._prepare()
        self.pacing = Pacing(self.loop, self.parts.reader)
        self._restore()
        soundness = Soundness(self.store, self.log.line)
        node_settings = NodeSettings(self.network.order([self.criterion]), self.settings, self.log.line)
        last: EpochResult | None = None
        validation: Mapping[str, Criterion] = {}
        trained, stopped = 0, ""
        while self.done < self.settings.max_epochs and not stopped:
            node_settings.begin(self.done)
            pace, self.state = self._pace()
            stopped = self._rate_is_too_low(pace)
            if stopped:
                self._save(last, final=True)
                break
            last = self._train(pace)
            soundness.look(pace.epoch, pace.rate, last.loss)
            trained += 1
            validation = self._validate(pace)
            stopped = tell_epoch(self.parts, pace, last, validation)
            if stopped:
                self.log.line(f"Training ends after epoch {pace.epoch + 1}: {stopped}")
            verdict = self._judge(pace, last, validation)
            stopped = stopped or verdict.finished
            self._keep(pace, last, verdict, final=bool(stopped))
            if self.done < self.settings.max_epochs and not stopped and self.parts.newcomers():
                raise NewRanks
        if self.settings.save_best_model_per_criterion:
            left = {name: best for name, best in self.state.best.items() if name not in self.copied}
            self.saver.copy_best(left, self.done)
        for line in self.loop.program.remarks():
            self.log.line(line)
        criteria = averages(last.criteria) if last is not None else {}
        return TrainingSummary(self.done, trained, criteria, averages(validation), stopped)

    # -- before the first epoch ---------------------------------------------------------------------------

    def _prepare(self) -> EpochLoop:
        parts = self.parts
        check_runnable(self.network, [*self.nodes, self.criterion])
        size = SWEEP if self.settings.use_all_data_for_pre_computed_node else self.settings.epoch_size
        spec = EpochSpec(epoch_size=size, minibatch_size=self.settings.minibatch_size[0])
        new = precompute(self.network, parts.engine, self.store, parts.reader, spec, self.log)
        if new or self.start is None:
            self.saver.initial(self.first, self.samples)
        roots = dict.fromkeys([*self.nodes, *marked_assignments(self.network), *self.traced])
        plan = make_plan(self.network, list(roots), self.criterion)
        self.ranks.check_assigned(plan)
        for listener in parts.listeners("cntk_plan_ready"):
            listener(plan=plan, engine=parts.job.engine)
        rule = compose_update(parts.learner, self.settings)
        self.store.add_slots(rule.slots)
        program = compile_plan(parts.engine, plan, self.store, rule, seed=parts.seed)
        check = None
        if self.settings.gradient_check:
            own = parts.engine.compile(plan, self.store, seed=parts.seed)
            numbers, digits = self.settings.program_settings, int(self.settings.sig_figs)
            check = GradientCheck(own, self.store, self.criterion.name, digits, numbers, parts.seed)
        return EpochLoop(
            program,
            self.store,
            parts.learner,
            self.settings,
            self.nodes,
            self.log,
            parts.job,
            seed=parts.seed,
            listeners=self._minibatch_listeners(program),
            before_update=parts.listeners("cntk_before_update"),
            check=check,
            ranks=self.ranks,
            stop=parts.stop,
        )

    def _minibatch_listeners(self, program: Program) -> Sequence[Callable[..., object]]:
        listeners, traces = self.parts.listeners("cntk_minibatch_end"), self.parts.traces
        return [*listeners, lambda job, result: traces.show(program)] if traces is not None else listeners

    def _restore(self) -> None:
        """Take the learner's state back, and say so."""
        checkpoint = self.start.checkpoint if self.start is not None else None
        if checkpoint is None or self.start is None:
            self._need_rate()
            return
        slots = restore_slots(checkpoint, self.store)
        progress = checkpoint.progress
        self.samples = progress.samples
        self.position = self._own_state(checkpoint).position
        self.state = self._restored_state(progress)
        self.loop.rows = self.state.rows
        self.epoch_samples = self.epoch_samples or progress.epoch_samples
        self.log.line(
            f"Restored from '{self.start.path}': {progress.epochs} epochs, {progress.samples} samples"
            + (f", {self.position.minibatches} minibatches of the next epoch" if self.position is not None else "")
            + (f", {', '.join(slots)}" if slots else "")
            + "."
        )
        if not progress.recipe and progress.settings:  # a checkpoint of the first releases has only a hash
            self.log.line("The checkpoint does not say with which settings it was written; those of now count.")
        elif changes := differences(progress.recipe, self.parts.recipe):
            self.log.line(
                "Warning: the recipe is not the one that the checkpoint was written with; it counts from now on:"
            )
            for line in changes:
                self.log.line(f"    {line}")
        if progress.seed != self.parts.seed:
            self.log.line(f"Warning: the random seed was {progress.seed}, now it is {self.parts.seed}.")

    def _own_state(self, checkpoint: Checkpoint) -> OwnState:
        """Take back what belongs to this rank alone."""
        own = take_back(checkpoint, self.store, self.ranks)
        self.loop.steps = checkpoint.progress.steps if own.steps is None else own.steps
        if own.said:
            self.log.line(own.said)
        return own

    def _restored_state(self, progress: Progress) -> ControlState:
        """What control remembered; without a control it is where it was when training left off."""
        if not progress.control:  # a checkpoint of the first releases
            return attrs.evolve(self.state, rate=progress.learning_rate)
        return ControlState.of(progress.control)

    def _need_rate(self) -> None:
        """Raise if nobody knows the learning rate of the first epoch of this run."""
        options = self.settings.auto_adjust
        if options.rate_control is RateControl.AFTER and not self.settings.has_rate(self.first):
            raise TrainingError(
                f"adjustAfterEpoch does not know the learning rate of epoch {self.first + 1}: "
                "there is no checkpoint, and the recipe gives none",
                hint=f"Give {self.first + 1} rates in learningRatesPerSample or learningRatesPerMB.",
            )

    # -- epochs -------------------------------------------------------------------------------------------

    def _pace(self) -> tuple[Pace, ControlState]:
        """Decide how the next epoch goes through the data; one that was begun goes on as it was."""
        if self.position is None:
            pace, state = self.pacing.decide(self.done, self.state, self.epoch_samples)
            rate = asked_rate(self.parts, self.done, pace.rate)
            if rate != pace.rate:
                pace, state = attrs.evolve(pace, rate=rate), attrs.evolve(state, rate=single(rate))
            return pace, state
        position, state, rate = self.position, self.state, self.position.rate
        if self.settings.has_rate(self.done):
            rate = asked_rate(self.parts, self.done, self.settings.rate(self.done, state.rows))
            state = attrs.evolve(state, rate=single(rate))
        return Pace(self.done, rate, position.minibatch_size, may_fail=position.may_fail), state

    def _rate_is_too_low(self, pace: Pace) -> str:
        least = self.settings.min_learning_rate_per_sample
        if pace.rate >= least:
            return ""
        text = (
            f"Learn Rate Per Sample for Epoch[{pace.epoch + 1}] = {pace.rate:.8g} "
            f"is less than minLearningRatePerSample {least:.8g}."
        )
        self.log.line(f"{text} Training complete.")
        return text

    def _train(self, pace: Pace) -> EpochResult:
        settings, parts, epoch = self.settings, self.parts, pace.epoch
        momentum = settings.momentum(epoch, self.state.rows)
        effective = effective_momentum(momentum, pace.minibatch_size)
        learned = self.position.minibatches if self.position is not None else 0
        started = EpochStart(epoch, pace.minibatch_size, pace.rate, effective, self.loop.steps, learned)
        for listener in parts.listeners("cntk_epoch_begin"):
            listener(job=parts.job, epoch=started)
        self.log.epoch_begins(epoch, pace.rate, effective, time_constant(momentum))
        spec = EpochSpec(epoch=epoch, epoch_size=settings.epoch_size, minibatch_size=pace.minibatch_size)
        together = self.loop.together(pace)
        spec = together.spec(spec)
        if said := together.begin_epoch(self.store, epoch, inside=self.position is not None):
            self.log.line(said)
        how = together.describe(epoch)
        self.log.loop_begins(settings.parts(pace.minibatch_size), settings.max_samples_in_ram, how)
        if self.log.bar is not None:
            self.log.bar.begin(f"epoch {epoch + 1} of {settings.max_epochs}", self.epoch_samples, pace.rate)
        learned_samples = self.position.read if self.position is not None else 0
        try:
            minibatches = parts.reader.minibatches(attrs.evolve(spec, learned_samples=learned_samples))
            result = self.loop.run(
                minibatches,
                pace,
                self.epoch_samples,
                position=self.position,
                keeper=self._keeper(pace),
            )
        except NotANumber as error:
            if together.exchange:
                raise
            begun = self.start.model if self.start is not None and epoch == self.first else self.paths.model(epoch)
            raise explained(error, parts, self.loop, self.criterion, begun, pace, spec) from None
        self.position = None
        self.state = attrs.evolve(self.state, rows=self.loop.rows)
        self.samples += result.samples
        self.epoch_samples = settings.epoch_size or result.samples
        rate = self.state.rate
        self.log.epoch_ends(epoch, settings.max_epochs, result.criteria, self.samples, rate, result.seconds)
        return result

    def _keeper(self, pace: Pace) -> InsideKeeper | None:
        """Return what saves training inside the epoch: where the recipe wants that, and before a stop."""
        samples, minutes = self.settings.checkpoint_every_samples, self.settings.checkpoint_every_minutes
        if not self.ranks.saves_inside:
            if samples or minutes:
                self.log.line("Warning: this way of parallel training is saved after each epoch only.")
            return None

        together = self.loop.together(pace)
        samples = -(-samples * together.count_for // together.size)  # rank 0 counts what its group reads
        often = _BETWEEN_LOOKS * pace.minibatch_size * together.count_for // together.size
        together.strategy.meet_every = samples or (often if minutes else 0)

        def save(position: Position) -> bool:
            return self.saver.save_inside(
                attrs.evolve(self._progress(None), reader_samples=position.read_by_all), position
            )

        read = self.position.read_by_all if self.position is not None else 0
        return InsideKeeper(save, self.store, self.log, samples, 60.0 * minutes, read)

    def _validate(self, pace: Pace) -> Mapping[str, Criterion]:
        reader, parts = self.parts.cv_reader, self.parts
        if reader is None:
            return {}
        if self._validation is None:
            roots = list(dict.fromkeys([*self.nodes, *self.traced]))
            self._validation = parts.engine.compile(make_plan(self.network, roots), self.store)
        # As in the original, the configured size: that of the search may be too large for the validation set.
        spec = EpochSpec(minibatch_size=self.settings.minibatch_size[pace.epoch])
        quiet = RunLog(_Through(self.log))
        audience = Audience.of(parts.hooks, parts.job, epoch=pace.epoch)
        criteria = evaluate_program(
            self._validation, reader, self.nodes, spec, quiet, ranks=self.ranks, audience=audience, traces=parts.traces
        )
        self.log.validated(pace.epoch, self.settings.max_epochs, criteria)
        return criteria

    # -- control ------------------------------------------------------------------------------------------

    def _judge(self, pace: Pace, result: EpochResult, validation: Mapping[str, Criterion]) -> Verdict:
        """Compare the criterion with the one before; adjust the rate, and go back if that was better."""
        options = self.settings.auto_adjust
        if self.settings.save_best_model_per_criterion and validation:
            self.state = self.state.with_best(averages(validation), pace.epoch + 1)
            self.log.best_so_far(self.state.best)
        watched = self.state.watched
        self.state = self.state.with_criterion(self._controlling(result, validation))
        if self.pacing.compares(pace.epoch):
            verdict = judge(options, self.state, lambda: self._roll_back(pace))
        elif (pace.epoch + 1) % options.interval == 0:
            verdict = Verdict(self.state.compared())
        else:
            verdict = Verdict(self.state)
        self.state = verdict.state
        if verdict.change:
            self.log.line(f"learnRatePerSample {verdict.change} to {self.state.rate:.8g}")
        stopped_early = self._watch(
            pace, watched, averages(validation or result.criteria), taken_back=verdict.roll_back
        )
        return self._ended(pace, verdict, stopped_early)

    def _watch(self, pace: Pace, before: Best, criteria: Mapping[str, float], *, taken_back: bool) -> str:
        """Take note of an epoch; say why it was the last one by ``earlyStopping``, which is usually empty."""
        options = self.parts.early_stopping
        if options is None:
            return ""
        name, value = options.chosen(criteria)
        best = before.missed() if taken_back else before.after(value, pace.epoch + 1, options.min_delta)
        self.state = attrs.evolve(self.state, watched=best)
        return f"'{name}' has not improved since epoch {best.epochs}" if best.waited >= options.patience else ""

    def _ended(self, pace: Pace, verdict: Verdict, stopped_early: str) -> Verdict:
        """Say why an epoch was the last one, if it was."""
        if verdict.finished:
            self.log.line("Finished training and saved final model")
            self.log.line()
            return verdict
        repeats = verdict.roll_back and self.state.rate == pace.rate
        reason = "the same epoch would be repeated, because the learning rate was not reduced" if repeats else ""
        reason = reason or stopped_early
        if not reason:
            return verdict
        self.log.line(f"Training ends after epoch {pace.epoch + 1}: {reason}")
        return attrs.evolve(verdict, finished=reason)

    def _controlling(self, result: EpochResult, validation: Mapping[str, Criterion]) -> float:
        """Return the average of the criterion that controls the learning rate."""
        options = self.settings.auto_adjust
        chosen = validation if validation and options.use_cv_set_control_lr_if_cv_exists else result.criteria
        values = list(averages(chosen).values())
        return values[1 if options.use_eval_criterion_control_lr and len(values) > 1 else 0]

    def _roll_back(self, pace: Pace) -> ControlState | None:
        """Go back to the model of the comparison before, if there is one."""
        if self.state.previous is None:
            return None
        model = self.paths.model(pace.epoch + 1 - self.settings.auto_adjust.interval)
        self.log.line(f"Loading (rolling back to) previous model with best training-criterion value: {model}.")
        checkpoint = load_checkpoint(checkpoint_of(model))
        restore_store(checkpoint, self.store)
        self.samples = checkpoint.progress.samples
        self._own_state(checkpoint)
        return self._restored_state(checkpoint.progress)

    # -- files --------------------------------------------------------------------------------------------

    def _keep(self, pace: Pace, result: EpochResult, verdict: Verdict, *, final: bool) -> None:
        """Save what an epoch gave, or, after a roll-back, the new state of the model that training went back to."""
        if not verdict.roll_back:
            self.done = pace.epoch + 1
            self._save(result, final=final)
            return
        self.done = pace.epoch + 1 - self.settings.auto_adjust.interval
        self.saver.revise(self._progress(result), pace.epoch)
        if final:
            self._save(result, final=True)
        elif self.state.rate < LEAST_RATE:
            rate = self.state.rate
            self.log.line(f"learnRate per sample is reduced to {rate:.8g} which is below 1e-12. stop training.")

    def _save(self, result: EpochResult | None, *, final: bool) -> None:
        """Save a model; the last one with the best parameters, if ``earlyStopping`` wants them."""
        options, best = self.parts.early_stopping, self.state.watched.epochs
        is_last = final or self.done == self.settings.max_epochs
        if is_last and options is not None and options.restore_best and best not in (0, self.done):
            if self.settings.save_best_model_per_criterion:  # the final model is not that of the last epoch any more
                self.copied = [name for name, (_, epochs) in self.state.best.items() if epochs == self.done]
                self.saver.save_copies(self.copied, self._progress(result))
            put_back(self.parts, self.store, best)
        self.saver.save(self._progress(result), final=final)

    def _progress(self, result: EpochResult | None) -> Progress:
        self.saver.steps = self.loop.steps
        return Progress(
            epochs=self.done,
            samples=self.samples,
            epoch_samples=self.epoch_samples,
            learning_rate=self.state.rate,
            criterion=result.loss if result is not None else 0.0,
            minibatch_size=self.state.minibatch_size,
            seed=self.parts.seed,
            reader_epoch=self.done,
            settings=self.parts.settings_hash(),
            recipe=self.parts.recipe,
            steps=self.loop.steps,
            control=self.state.entries(),
        )


class _Through:
    """Lines of a part of the run go where those of the run go."""

    def __init__(self, log: RunLog) -> None:
        self.line = log.line
