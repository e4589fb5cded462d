"""TrainingSession: from a network and its parts to a trained model on the disk.

The session knows the order of the steps and no arithmetic: where to begin, values computed beforehand, epochs,
validation, checkpoints, models.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import attrs

from cntk_core.contract.engine import ExecutionEngine
from cntk_core.contract.events import Job, JobOutcome
from cntk_core.contract.learner import Learner
from cntk_core.contract.reader import DataReader
from cntk_core.errors import CheckpointError, ModelFormatError, TrainingError
from cntk_core.network.initializers import initialize_parameters
from cntk_core.network.network import Network
from cntk_core.training.files.checkpoint import Checkpoint, remove_unnamed, restore_values
from cntk_core.training.loop.alone import Alone
from cntk_core.training.loop.ranks import Ranks
from cntk_core.training.settings import SGDSettings
from cntk_kit_recipes.block.early_stopping import EarlyStopping
from cntk_kit_recipes.locks.lock import Lock
from cntk_kit_recipes.session.final_model import check_final, mend_final
from cntk_kit_recipes.session.generations import ModelPaths, Start, final_epochs, find_start
from cntk_kit_recipes.session.leftovers import remove_leftovers
from cntk_kit_recipes.session.neighbours import check_names_of_epochs, check_own_name
from cntk_kit_recipes.session.newcomers import Newcomers, NewRanks, nobody
from cntk_kit_recipes.session.parts import Hooks, SessionParts
from cntk_kit_recipes.session.remarks import remarks
from cntk_kit_recipes.session.run import TrainingRun, TrainingSummary
from cntk_kit_recipes.session.run_log import RunLog
from cntk_kit_recipes.session.saving import saving, tidying
from cntk_kit_recipes.session.settings_text import differences
from cntk_kit_recipes.session.stop_request import StopRequest
from cntk_kit_recipes.session.traces import Traces

_ENDING = 10.0
"""Seconds that a rank which was lost has to let go of the files."""
_LOCKS: dict[Path, str] = {}
"""By model, what tells the lock of the rank that wrote it last; a rank that follows it may take it."""


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
        ranks: who trains together; each of them runs a session. None: nobody else.
        stop: asks training to end after a minibatch.
        after_loss: who was lost or has come, if this session goes on with the training of one with other ranks.
        begun: set as soon as files of this training have taken the place of those of an earlier one.
        early_stopping: when training ends before its last epoch, and with which parameters.
        traces: prints values of nodes after each minibatch.
        newcomers: says after an epoch, to all ranks, whether others wait to be taken in.
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
        early_stopping: EarlyStopping | None = None,
        traces: Traces | None = None,
        newcomers: Newcomers = nobody,
    ) -> None:
        log, paths = log or RunLog(trace_level=settings.trace_level), ModelPaths(Path(model_path), settings.max_epochs)
        self.parts = SessionParts(
            engine,
            reader,
            learner,
            settings,
            paths,
            load_model,
            Lock(paths.final, f"the model '{paths.final}'", log.line),
            ranks or Alone(),
            log,
            job or Job("train", "train", model_path=paths.final, epochs=settings.max_epochs),
            cv_reader,
            hooks,
            seed,
            make_mode,
            stop or StopRequest(),
            begun or Event(),
            early_stopping,
            traces,
            newcomers,
        )
        self._given, self._paths, self._log = network, paths, log
        self._resume = resume
        self._must_resume = must_resume
        self._after_loss = after_loss

    @property
    def job(self) -> Job:
        """What listeners are told about this run."""
        return self.parts.job

    def run(self) -> TrainingSummary:
        """Train until the last epoch, or until something ends it before.

        Raises:
            NewRanks: others wait, and this session is left so that another one goes on with them.
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
        ranks = self.parts.ranks
        try:
            if ranks.is_main:
                self._take_files()
            ranks.doing("tidying up")
            _LOCKS[self._paths.final] = ranks.first_text(self.parts.lock.token)
            yield
        finally:
            self.parts.lock.release()

    def _take_files(self) -> None:
        """Lock the files, and put them in order; where nothing is left to do, they may belong to somebody else."""
        check_own_name(self._paths.final)
        is_finished = self._is_finished()
        if not is_finished:
            check_names_of_epochs(self._paths, all_of_them=not self.parts.make_mode)
        try:
            with saving(self._paths.final):
                known = _LOCKS.get(self._paths.final, "") if self._after_loss else ""
                self.parts.lock.take(patience=_ENDING if self._after_loss else 0.0, predecessor=known)
                if self.parts.make_mode and not is_finished:
                    mend_final(self._paths, self._rebuild, self._log.line)
        except TrainingError:
            if not is_finished:
                raise
            return
        with tidying(self._log.line):
            remove_leftovers(self._paths.final)
            remove_unnamed(self._paths.folder)

    def _is_finished(self) -> bool:
        """Whether the final model is there, whole, and all that is asked for.

        Raises:
            TrainingError: there is a folder in its place.
        """
        if self._paths.final.is_dir():
            raise TrainingError(f"the model '{self._paths.final}' cannot be saved: it is a folder")
        try:
            if self._epochs_done() is None:
                return False
            check_final(self._paths)
        except ModelFormatError:
            return False
        return True

    def _run(self) -> TrainingSummary:
        done = self._finished_before()
        start = self._start() if done is None else None
        place = None if start is None else [start.epochs, start.minibatches, start.checkpoint is not None]
        self.parts.ranks.agree("model files", [done is not None, place])
        if self._after_loss:
            self._tell_loss(done, start)
        if done is not None:
            return done
        network = start.network if start is not None else self._built()
        for line in remarks(network):
            self._log.line(line)
        job = attrs.evolve(self.job, network=network, first_epoch=start.epochs if start is not None else 0)
        parts = self.parts = attrs.evolve(self.parts, job=job)
        begun = time.perf_counter()
        parts.emit("cntk_job_begin", job=job)
        outcome = JobOutcome(succeeded=False)
        try:
            summary = TrainingRun(parts, network, start).run()
            outcome = JobOutcome(True, summary.trained, time.perf_counter() - begun, summary.stopped)
            return summary
        except NewRanks as error:
            outcome = JobOutcome(False, 0, time.perf_counter() - begun, str(error))
            raise
        except BaseException as error:
            outcome = JobOutcome(False, 0, time.perf_counter() - begun, error=error)
            parts.emit("cntk_exception", job=job, error=error)
            raise
        finally:
            parts.ranks.finish()
            if parts.log.bar is not None:
                parts.log.bar.end()
            parts.emit("cntk_job_end", job=job, outcome=outcome)

    def _tell_loss(self, done: TrainingSummary | None, start: Start | None) -> None:
        if done is not None:
            place = "the final model is there"
        elif start is None or (start.checkpoint is None and not start.epochs):
            place = "training begins again"
        else:
            inside = f" and {start.minibatches} minibatches" if start.minibatches else ""
            counted = f" ({start.checkpoint.progress.samples} samples)" if start.checkpoint is not None else ""
            place = f"training goes on from '{start.path or start.model}', after {start.epochs} epochs{inside}{counted}"
        self._log.line(f"{self._after_loss} {place[0].upper()}{place[1:]}.")

    # -- where to begin -----------------------------------------------------------------------------------

    def _epochs_done(self) -> int | None:
        """Epochs of the final model if nothing is left to do."""
        epochs = final_epochs(self._paths) if self.parts.make_mode else None
        return None if epochs is None or (self._resume and epochs < self.parts.settings.max_epochs) else epochs

    def _finished_before(self) -> TrainingSummary | None:
        """What there is to say if the final model is there already and nothing is left to do."""
        epochs = self._epochs_done()
        if epochs is None:
            return None
        self._log.line(f"Final model exists: {self._paths.final}")
        if epochs < self.parts.settings.max_epochs:
            self._log.line(
                f"It was trained for {epochs} of {self.parts.settings.max_epochs} epochs. "
                "Give resume=auto to go on from there."
            )
        self._log.line("No further training is necessary.")
        return TrainingSummary(epochs, 0)

    def _start(self) -> Start | None:
        if not self.parts.make_mode:
            if self._paths.everything():
                # Somebody who did not mean it can still end the run: nothing is removed before something is saved.
                self._log.line(
                    f"makeMode=false: training begins anew. The files of an earlier training of '{self._paths.final}' "
                    "are removed when the first model of this one is saved."
                )
            return None
        final = final_epochs(self._paths) if self._resume else None
        start = find_start(
            self._paths, self._load, self._rebuild, self._log.line, final=final, refuse=self._other_minibatches
        )
        if self._must_resume and (start is None or start.checkpoint is None):
            raise CheckpointError(
                f"resume=must, but there is no usable checkpoint of '{self._paths.final}'",
                hint="Look at modelPath and at the lines above, or give resume=auto to begin anew where there is none.",
            )
        if start is not None:
            self._log.line(f"Starting from checkpoint. Loading network from '{start.model}'.")
        return start

    def _other_minibatches(self, checkpoint: Checkpoint) -> str:
        """Say why the rest of an epoch cannot be found again: the reader, the size of epochs or the ranks changed."""
        before = int(checkpoint.progress.ranks.get("ranks", 1))
        now = self.parts.ranks.size
        if before != now and (before > 1 or self.parts.ranks.train_epoch(checkpoint.progress.epochs)):
            return f"it is of {before} ranks, and now there are {now}"
        changes = [
            line
            for line in differences(checkpoint.progress.recipe, self.parts.recipe)
            if line.startswith(("reader.", "SGD.epochSize:"))
        ]
        return f"the epoch has other minibatches now ({'; '.join(changes)})" if changes else ""

    def _load(self, path: Path) -> Network:
        dtype = self._given.dtype if isinstance(self._given, Network) else None
        return self.parts.load_model(path, dtype)

    def _built(self) -> Network:
        network = self._given if isinstance(self._given, Network) else self._given()
        network.infer()
        initialize_parameters(network, self.parts.seed)
        return network

    def _rebuild(self, checkpoint: Checkpoint) -> Network:
        network = self._given if isinstance(self._given, Network) else self._given()
        network.infer()
        restore_values(checkpoint, network)
        return network
