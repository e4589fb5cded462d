"""What listens to a training and tells Weights & Biases."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path

import attrs

from cntk_core.api import (
    CntkError,
    Config,
    ConfigError,
    EpochSummary,
    Job,
    JobOutcome,
    MissingPluginError,
    ask_to_run,
    did_you_mean,
    hookimpl,
)
from cntk_hook_wandb.tracking import FAILED, FINISHED, KILLED, MODES, TrackedRun

PROJECT, ENTITY, NAME, MODE = "wandbProject", "wandbEntity", "wandbRunName", "wandbMode"
KEYS = (PROJECT, ENTITY, NAME, MODE)


@attrs.frozen
class Wishes:
    """What a recipe asks for.

    Attributes:
        project: its name.
        entity: the user or team whose project it is; empty: as W&B's own settings say.
        name: of the run; empty: W&B makes one up.
        mode: ``online`` or ``offline``; empty: as W&B's own settings say.
    """

    project: str
    entity: str
    name: str
    mode: str

    @classmethod
    def of(cls, block: Config | None) -> Wishes | None:
        """Read the keys; None without a project.

        Raises:
            RefusedError: the recipe may talk to nobody.
            MissingPluginError: W&B's library is not installed.
            ConfigError: there is no such mode.
        """
        value = block.get(PROJECT) if block is not None else None
        if block is None or value is None or value.is_empty:
            return None
        ask_to_run("the client of Weights & Biases", key=PROJECT, where=value.where)
        if find_spec("wandb") is None:
            hint = 'pip install "cntk-hook-wandb[wandb]"'
            raise MissingPluginError(f"{PROJECT} needs the library wandb", where=value.where, hint=hint)
        mode = block.string(MODE, "").lower()
        if mode and mode not in MODES:
            given = block.get(MODE)
            raise ConfigError(
                f"{MODE} is '{mode}'{did_you_mean(mode, MODES)}",
                where=value.where if given is None else given.where,
                hint=f"It is {' or '.join(MODES)}.",
            )
        return cls(value.string(), block.string(ENTITY, ""), block.string(NAME, ""), mode)


class WandB:
    """A listener that tells Weights & Biases of trainings whose recipe names a project, ``wandbProject``."""

    def __init__(self) -> None:
        self._run: TrackedRun | None = None

    @hookimpl
    def cntk_sgd_keys(self) -> tuple[str, ...]:
        """Keys of the SGD block that are read here."""
        return KEYS

    @hookimpl
    def cntk_job_begin(self, job: Job) -> None:
        """Begin a run where a training asks for one, or go on with its own. Only the first worker tells.

        Raises:
            CntkError: W&B is not installed, or the recipe may not talk to it.
        """
        self._run = None
        wishes = Wishes.of(job.block) if job.network is not None and job.rank == 0 else None
        if wishes is None or job.block is None:
            return
        model = str(Path() if job.model_path is None else job.model_path.absolute())
        recipe = Path(job.block.top.where.file)
        settings: dict[str, object] = {
            **settings_of(job.block),
            "parameters": _size(job),
            "cntk": {"command": job.name, "recipe": str(recipe), "model": model, "engine": job.engine},
        }
        self._run = TrackedRun(
            wishes.project,
            wishes.entity,
            wishes.name,
            wishes.mode,
            key=f"{wishes.project}\n{job.name}\n{model}",
            goes_on=job.first_epoch > 0,
            settings=settings,
        )
        if recipe.is_file() and not self._run.goes_on:
            self._run.file(recipe)

    @hookimpl
    def cntk_epoch_end(self, summary: EpochSummary) -> None:
        """Tell what an epoch gave."""
        if self._run is None:
            return
        told = {
            **{name: float(value) for name, value in summary.criteria.items()},
            **{f"test_{name}": float(value) for name, value in summary.validation.items()},
            "learningRatePerSample": summary.learning_rate,
            "minibatchSize": float(summary.minibatch_size),
        }
        if summary.seconds > 0:
            told["samplesPerSecond"] = summary.samples / summary.seconds
        self._run.metrics(told, summary.epoch + 1)

    @hookimpl
    def cntk_job_end(self, outcome: JobOutcome) -> None:
        """Say how it ended."""
        if self._run is not None:
            run, self._run = self._run, None
            run.end(FINISHED if outcome.succeeded else FAILED if isinstance(outcome.error, Exception) else KILLED)


def settings_of(block: Config) -> dict[str, object]:
    """Return the values of a block as W&B takes them: blocks as mappings, values as text.

    Args:
        block: that of a training.
    """
    found: dict[str, object] = {}
    for key in block.keys():  # noqa: SIM118 - a Config is no dict
        value = block.own(key)
        if value is None or key in KEYS:
            continue
        try:
            found[key] = settings_of(value.config()) if value.is_block else value.text
        except CntkError:
            continue  # of what cannot be read, the training tells
    return found


def _size(job: Job) -> int:
    """Return how many numbers are learned."""
    return sum(math.prod(each.known_shape) for each in job.network.parameters) if job.network is not None else 0
