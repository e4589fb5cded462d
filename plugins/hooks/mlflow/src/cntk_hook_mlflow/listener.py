"""What listens to a training and tells MLflow."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path

import attrs

from cntk_core.api import (
    CntkError,
    Config,
    EpochSummary,
    Job,
    JobOutcome,
    MissingPluginError,
    ask_to_run,
    hookimpl,
)
from cntk_hook_mlflow.tracking import FAILED, FINISHED, KILLED, TrackedRun

EXPERIMENT, URI, NAME = "mlflowExperiment", "mlflowTrackingUri", "mlflowRunName"


@attrs.frozen
class Wishes:
    """What a recipe asks for.

    Attributes:
        experiment: its name.
        uri: of the tracking server, or where MLflow keeps its data; empty: as MLflow's own variables say.
        name: of the run; empty: MLflow makes one up.
    """

    experiment: str
    uri: str
    name: str

    @classmethod
    def of(cls, block: Config | None) -> Wishes | None:
        """Read the keys; None without an experiment.

        Raises:
            RefusedError: the recipe may talk to nobody.
            MissingPluginError: MLflow is not installed.
        """
        value = block.get(EXPERIMENT) if block is not None else None
        if block is None or value is None or value.is_empty:
            return None
        ask_to_run("MLflow's client", key=EXPERIMENT, where=value.where)
        if find_spec("mlflow") is None:
            raise MissingPluginError(f"{EXPERIMENT} needs MLflow", where=value.where, hint="pip install mlflow")
        uri = block.get(URI)
        # Its text, not its string: that of an address would be the path of a copy.
        return cls(value.string(), "" if uri is None else uri.text, block.string(NAME, ""))


class MLflow:
    """A listener that tells MLflow of trainings whose recipe names an experiment, ``mlflowExperiment``."""

    def __init__(self) -> None:
        self._run: TrackedRun | None = None

    @hookimpl
    def cntk_sgd_keys(self) -> tuple[str, ...]:
        """Keys of the SGD block that are read here."""
        return (EXPERIMENT, URI, NAME)

    @hookimpl
    def cntk_job_begin(self, job: Job) -> None:
        """Begin a run where a training asks for one, or go on with its own. Only the first worker tells.

        Raises:
            CntkError: MLflow is not installed, or the recipe may not talk to it.
        """
        self._run = None
        wishes = Wishes.of(job.block) if job.network is not None and job.rank == 0 else None
        if wishes is None or job.block is None:
            return
        model = str(Path() if job.model_path is None else job.model_path.absolute())
        key = f"{job.name}\n{model}"
        run = TrackedRun(wishes.uri, wishes.experiment, wishes.name, key, goes_on=job.first_epoch > 0)
        self._run = run
        if run.goes_on:
            return
        recipe = Path(job.block.top.where.file)
        run.tags({"cntk.command": job.name, "cntk.recipe": str(recipe), "cntk.model": model, "cntk.engine": job.engine})
        run.parameters({**parameters_of(job.block), "parameters": str(_size(job))})
        if recipe.is_file():
            run.file(recipe)

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


def parameters_of(block: Config, within: str = "") -> dict[str, str]:
    """Return the values of a block by their path in it, ``minibatchSize``, ``earlyStopping.patience``.

    Args:
        block: that of a training.
        within: what stands in front of the names.
    """
    found: dict[str, str] = {}
    for key in block.keys():  # noqa: SIM118 - a Config is no dict
        value = block.own(key)
        if value is None or key in (EXPERIMENT, URI, NAME):
            continue
        try:
            if value.is_block:
                found.update(parameters_of(value.config(), f"{within}{key}."))
            else:
                found[f"{within}{key}"] = value.text
        except CntkError:
            continue  # of what cannot be read, the training tells
    return found


def _size(job: Job) -> int:
    """Return how many numbers are learned."""
    return sum(math.prod(each.known_shape) for each in job.network.parameters) if job.network is not None else 0
