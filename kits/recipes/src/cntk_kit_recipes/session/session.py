"""TrainingSession: from a network and its parts to a trained model on the disk.

The session knows the order of the steps and no arithmetic: where to begin, values computed beforehand, epochs,
validation, checkpoints, models.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any, Protocol

import attrs

from cntk_core.contract.engine import ExecutionEngine
from cntk_core.contract.events import Job, JobOutcome
from cntk_core.contract.learner import Learner
from cntk_core.contract.reader import DataReader
from cntk_core.errors import CheckpointError, ModelFormatError, TrainingError
from cntk_core.network.initializers import initialize_parameters
from cntk_core.network.network import Network
from cntk_core.training.files.checkpoint import Checkpoint, remove_unnamed, restore_values
from cntk_core.training.files.generations import ModelPaths, Start, final_epochs, find_start
from cntk_core.training.files.settings_text import differences, settings_text
from cntk_core.training.loop.progress import RunLog
from cntk_core.training.loop.ranks import Ranks
from cntk_core.training.loop.stop_request import StopRequest
from cntk_core.training.settings import SGDSettings
from cntk_kit_recipes.locks.lock import Lock
from cntk_kit_recipes.session.final_model import check_final, mend_final
from cntk_kit_recipes.session.leftovers import remove_leftovers
from cntk_kit_recipes.session.remarks import remarks
from cntk_kit_recipes.session.run import TrainingRun, TrainingSummary
from cntk_kit_recipes.session.saving import saving, tidying

_SHOWN_ONLY = {
    "checkpoint_every_samples",
    "checkpoint_every_minutes",
    "max_epochs",
    "keep_check_point_files",
    "num_mbs_to_show_result",
    "first_mbs_to_show_result",
    "trace_level",
    "max_samples_in_ram",
    "num_subminibatches",
}
"""Settings that do not change what is learned in an epoch."""
_HOW_READ = ("trace_level", "verbosity", "prefetch", "keep_data_in_memory")
"""Settings of readers that do not change what is read."""

_ENDING = 10.0
"""Seconds that a rank which was lost has to let go of the files."""
_LOCKS: dict[Path, str] = {}
"""By model, what tells the lock of the rank that wrote it last; a rank that follows it may take it."""


class Hooks(Protocol):
    """Who listens."""

    def listeners(self, name: str) -> Sequence[Callable[..., Any]]:
        """Functions that want to hear of an event; usually none."""
        ...


class TrainingSession:
    """Trains a network and leaves models and checkpoints.

    Args:
        network: the network, or a function that builds it (it is not called if training goes on from a model).
        engine, reader, learner: the parts.
        settings: the SGD block.
        model_path: the final model; others stand beside it.
        load_model: ``(path, precision or None) -> Network`` of a model file.
        cv_reader: gives the validation set.
        hooks: who listens to events.
        log: where lines go.
        seed: of parameters' first values and of all random streams.
        make_mode: go on from what is there; otherwise begin anew.
        resume: go on from a final model that has fewer epochs than asked for now.
        must_resume: it is an error if there is nothing to go on from.
        job: what listeners are told about this run.
        ranks: who trains together; each of them runs a session. None is a serial run.
        stop: asks training to end after a minibatch.
        after_loss: who was lost, if this session goes on with the training of a session that lost ranks.
        begun: set as soon as files of this training have taken the place of those of an earlier one.
    """

    def __init__(
        self,
        network: Network | Callable[[], Network],
        engine: ExecutionEngine,
        reader: DataReader,
        learner: Learner,
        settings: SGDSettings,
        model_path: str | Path,
        *,
        load_model: Callable[[Path, Any], Network],
        cv_reader: DataReader | None = None,
        hooks: Hooks | None = None,
        log: RunLog | None = None,
        seed: int = 0,
        make_mode: bool = True,
        resume: bool = False,
        must_resume: bool = False,
        job: Job | None = None,
        ranks: Ranks | None = None,
        stop: StopRequest | None = None,
        after_loss: str = "",
        begun: Event | None = None,
    ) -> None:
        self._given = network
        self.engine = engine
        self.reader = reader
        self.learner = learner
        self.settings = settings
        self.paths = ModelPaths(Path(model_path), settings.max_epochs)
        self.load_model = load_model
        self.cv_reader = cv_reader
        self.hooks = hooks
        self.log = log or RunLog(trace_level=settings.trace_level)
        self.lock = Lock(self.paths.final, f"the model '{self.paths.final}'", self.log.line)
        self.seed = seed
        self.make_mode = make_mode
        self.resume = resume
        self.must_resume = must_resume
        self.ranks = ranks
        self.stop = stop or StopRequest()
        self.after_loss = after_loss
        self.begun = begun or Event()
        self.job = job or Job("train", "train", model_path=Path(model_path), epochs=settings.max_epochs)

    def run(self) -> TrainingSummary:
        """Train until the last epoch, or until something ends it before.

        Raises:
            CntkError: a model, the network, the data or a criterion is not what it must be.
            Locked: another process writes this model.
        """
        with self._files():
            return self._run()

    @contextmanager
    def _files(self) -> Iterator[None]:
        """Within, rank 0 alone writes the files, and what is there is in order.

        The other ranks are told what tells its lock from others: one of them may have to follow it.
        """
        try:
            if self.ranks is None or self.ranks.is_main:
                self._take_files()
            if self.ranks is not None:
                self.ranks.doing("tidying up")
                _LOCKS[self.paths.final] = self.ranks.first_text(self.lock.token)
            yield
        finally:
            self.lock.release()

    def _take_files(self) -> None:
        """Lock the files, and put them in order; where nothing is left to do, they may belong to somebody else."""
        is_finished = self._is_finished()
        try:
            with saving(self.paths.final):
                known = _LOCKS.get(self.paths.final, "") if self.after_loss else ""
                self.lock.take(patience=_ENDING if self.after_loss else 0.0, predecessor=known)
                if self.make_mode and not is_finished:
                    mend_final(self.paths, self._rebuild, self.log.line)
        except TrainingError:
            if not is_finished:
                raise
            return
        with tidying(self.log.line):
            remove_leftovers(self.paths.final)
            remove_unnamed(self.paths.folder)

    def _is_finished(self) -> bool:
        """Whether the final model is there, whole, and all that is asked for.

        Raises:
            TrainingError: there is a folder in its place.
        """
        if self.paths.final.is_dir():
            raise TrainingError(f"the model '{self.paths.final}' cannot be saved: it is a folder")
        try:
            if self._epochs_done() is None:
                return False
            check_final(self.paths)
        except ModelFormatError:
            return False
        return True

    def _run(self) -> TrainingSummary:
        done = self._finished_before()
        start = self._start() if done is None else None
        if self.ranks is not None:
            place = None if start is None else [start.epochs, start.minibatches, start.checkpoint is not None]
            self.ranks.agree("model files", [done is not None, place])
        if self.after_loss:
            self._tell_loss(done, start)
        if done is not None:
            return done
        network = start.network if start is not None else self._built()
        for line in remarks(network):
            self.log.line(line)
        self.job = attrs.evolve(self.job, network=network, first_epoch=start.epochs if start is not None else 0)
        begun = time.perf_counter()
        self._emit("cntk_job_begin", job=self.job)
        outcome = JobOutcome(succeeded=False)
        try:
            summary = TrainingRun(self, network, start).run()
            outcome = JobOutcome(True, summary.trained, time.perf_counter() - begun, summary.stopped)
            return summary
        except BaseException as error:
            outcome = JobOutcome(False, 0, time.perf_counter() - begun, error=error)
            self._emit("cntk_exception", job=self.job, error=error)
            raise
        finally:
            if self.ranks is not None:
                self.ranks.finish()
            if self.log.bar is not None:
                self.log.bar.end()
            self._emit("cntk_job_end", job=self.job, outcome=outcome)

    def _tell_loss(self, done: TrainingSummary | None, start: Start | None) -> None:
        if done is not None:
            place = "the final model is there"
        elif start is None or (start.checkpoint is None and not start.epochs):
            place = "training begins again"
        else:
            inside = f" and {start.minibatches} minibatches" if start.minibatches else ""
            counted = f" ({start.checkpoint.progress.samples} samples)" if start.checkpoint is not None else ""
            place = f"training goes on from '{start.path or start.model}', after {start.epochs} epochs{inside}{counted}"
        self.log.line(f"{self.after_loss} {place[0].upper()}{place[1:]}.")

    def meet(self, what: str) -> None:
        """Wait for the other ranks, if there are any."""
        if self.ranks is not None:
            self.ranks.meet(what)

    def listeners(self, name: str) -> Sequence[Callable[..., Any]]:
        """Who listens to an event."""
        return self.hooks.listeners(name) if self.hooks is not None else ()

    def _emit(self, name: str, **told: Any) -> None:
        for listener in self.listeners(name):
            listener(**told)

    # -- where to begin -----------------------------------------------------------------------------------

    def _epochs_done(self) -> int | None:
        """Epochs of the final model if nothing is left to do."""
        epochs = final_epochs(self.paths) if self.make_mode else None
        return None if epochs is None or (self.resume and epochs < self.settings.max_epochs) else epochs

    def _finished_before(self) -> TrainingSummary | None:
        """What there is to say if the final model is there already and nothing is left to do."""
        epochs = self._epochs_done()
        if epochs is None:
            return None
        self.log.line(f"Final model exists: {self.paths.final}")
        if epochs < self.settings.max_epochs:
            self.log.line(
                f"It was trained for {epochs} of {self.settings.max_epochs} epochs. "
                "Give resume=auto to go on from there."
            )
        self.log.line("No further training is necessary.")
        return TrainingSummary(epochs, 0)

    def _start(self) -> Start | None:
        if not self.make_mode:
            return None
        final = final_epochs(self.paths) if self.resume else None
        start = find_start(
            self.paths, self._load, self._rebuild, self.log.line, final=final, refuse=self._other_minibatches
        )
        if self.must_resume and (start is None or start.checkpoint is None):
            raise CheckpointError(
                f"resume=must, but there is no usable checkpoint of '{self.paths.final}'",
                hint="Look at modelPath and at the lines above, or give resume=auto to begin anew where there is none.",
            )
        if start is not None:
            self.log.line(f"Starting from checkpoint. Loading network from '{start.model}'.")
        return start

    def _other_minibatches(self, checkpoint: Checkpoint) -> str:
        """Say why the rest of an epoch cannot be found again: the reader, the size of epochs or the ranks changed."""
        before = int(checkpoint.progress.ranks.get("ranks", 1))
        now = self.ranks.size if self.ranks is not None else 1
        if before != now and (
            before > 1 or (self.ranks is not None and self.ranks.train_epoch(checkpoint.progress.epochs))
        ):
            return f"it is of {before} ranks, and now there are {now}"
        changes = [
            line
            for line in differences(checkpoint.progress.recipe, self.recipe())
            if line.startswith(("reader.", "SGD.epochSize:"))
        ]
        return f"the epoch has other minibatches now ({'; '.join(changes)})" if changes else ""

    def _load(self, path: Path) -> Network:
        dtype = self._given.dtype if isinstance(self._given, Network) else None
        return self.load_model(path, dtype)

    def _built(self) -> Network:
        network = self._given if isinstance(self._given, Network) else self._given()
        network.infer()
        initialize_parameters(network, self.seed)
        return network

    def _rebuild(self, checkpoint: Checkpoint) -> Network:
        network = self._given if isinstance(self._given, Network) else self._given()
        network.infer()
        restore_values(checkpoint, network)
        return network

    def recipe(self) -> dict[str, str]:
        """The settings that decide what is learned, as text: of the SGD block, the learner and the reader."""
        learner = {"learner": type(self.learner).__name__, **settings_text(self.learner.settings, "learner")}
        return {
            **settings_text(self.settings, "SGD", leave_out=_SHOWN_ONLY),
            **learner,
            **settings_text(self.reader.settings, "reader", leave_out=_HOW_READ),
        }

    def settings_hash(self) -> str:
        """Hash of :meth:`recipe`."""
        return hashlib.sha256(str(sorted(self.recipe().items())).encode()).hexdigest()
