"""What a training is made of, as the parts of a session see it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import Any, Protocol

import attrs

from cntk_core.contract.engine import ExecutionEngine
from cntk_core.contract.events import Job
from cntk_core.contract.learner import Learner
from cntk_core.contract.reader import DataReader
from cntk_core.network.network import Network
from cntk_core.training.loop.ranks import Ranks
from cntk_core.training.settings import SGDSettings
from cntk_kit_recipes.block.early_stopping import EarlyStopping
from cntk_kit_recipes.locks.lock import Lock
from cntk_kit_recipes.session.generations import ModelPaths
from cntk_kit_recipes.session.newcomers import Newcomers, nobody
from cntk_kit_recipes.session.run_log import RunLog
from cntk_kit_recipes.session.settings_text import settings_text
from cntk_kit_recipes.session.stop_request import StopRequest
from cntk_kit_recipes.session.traces import Traces

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


class Hooks(Protocol):
    """Who listens."""

    def listeners(self, name: str) -> Sequence[Callable[..., Any]]:
        """Functions that want to hear of an event; usually none."""
        ...


@attrs.frozen(eq=False)
class SessionParts:
    """The parts of a training.

    Attributes:
        engine, reader, learner: what computes, reads and updates.
        settings: the SGD block.
        paths: of the models.
        load_model: ``(path, precision or None) -> Network`` of a model file.
        lock: of the files.
        ranks: who trains.
        log: where lines go.
        job: what listeners are told about this run.
        cv_reader: gives the validation set.
        hooks: who listens to events.
        seed: of parameters' first values and of all random streams.
        make_mode: go on from what is there; otherwise begin anew.
        stop: asks training to end after a minibatch.
        begun: set as soon as files of this training have taken the place of those of an earlier one.
        early_stopping: when training ends before its last epoch; None: it does not.
        traces: prints values of nodes after each minibatch; None: nobody does.
        newcomers: whether ranks wait to be taken in.
    """

    engine: ExecutionEngine
    reader: DataReader
    learner: Learner
    settings: SGDSettings
    paths: ModelPaths
    load_model: Callable[[Path, Any], Network]
    lock: Lock
    ranks: Ranks
    log: RunLog
    job: Job
    cv_reader: DataReader | None = None
    hooks: Hooks | None = None
    seed: int = 0
    make_mode: bool = True
    stop: StopRequest = attrs.field(factory=StopRequest)
    begun: Event = attrs.field(factory=Event)
    early_stopping: EarlyStopping | None = None
    traces: Traces | None = None
    newcomers: Newcomers = nobody

    def listeners(self, name: str) -> Sequence[Callable[..., Any]]:
        """Who listens to an event."""
        return self.hooks.listeners(name) if self.hooks is not None else ()

    def emit(self, name: str, **told: Any) -> None:
        """Tell those who listen to an event."""
        for listener in self.listeners(name):
            listener(**told)

    @cached_property
    def recipe(self) -> Mapping[str, str]:
        """The settings that decide what is learned, as text: of the SGD block, the learner and the reader."""
        learner = {"learner": type(self.learner).__name__, **settings_text(self.learner.settings, "learner")}
        return {
            **settings_text(self.settings, "SGD", leave_out=_SHOWN_ONLY),
            **learner,
            **settings_text(self.reader.settings, "reader", leave_out=_HOW_READ),
        }

    def settings_hash(self) -> str:
        """Hash of :meth:`recipe`."""
        return hashlib.sha256(str(sorted(self.recipe.items())).encode()).hexdigest()
