"""A run of MLflow, by its client: nothing is global, so that a script with runs of its own is not disturbed."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

KEY_TAG = "cntk.key"
"""Tag by which a training that goes on finds its run."""

FINISHED, FAILED, KILLED = "FINISHED", "FAILED", "KILLED"

_NOT_IN_NAMES = re.compile(r"[^-/\w. ]")
_AT_ONCE = 100
"""Parameters that MLflow takes in one call."""

_LONGEST = 500
"""Characters of a parameter that every MLflow keeps."""


class TrackedRun:
    """A run of MLflow that a training is told to.

    Args:
        uri: of the tracking server, or where MLflow keeps its data; empty: as MLflow's own variables say.
        experiment: its name; it is made if it is not there.
        name: of the run; empty: MLflow makes one up.
        key: what is the same when the training goes on.
        goes_on: look for the last run with this key.

    Raises:
        Exception: whatever MLflow raises, here and in every method.
    """

    def __init__(self, uri: str, experiment: str, name: str, key: str, *, goes_on: bool) -> None:
        from mlflow.tracking import MlflowClient

        self._client: Any = MlflowClient(tracking_uri=uri or None)
        found = self._client.get_experiment_by_name(experiment)
        number = self._client.create_experiment(experiment) if found is None else found.experiment_id
        short = hashlib.sha256(key.encode()).hexdigest()[:32]
        earlier = self._last(number, short) if goes_on else None
        self.goes_on = earlier is not None
        """Whether an earlier run is continued."""
        if earlier is None:
            made = self._client.create_run(number, tags={KEY_TAG: short}, run_name=name or None)
            self.run_id = str(made.info.run_id)
        else:
            self.run_id = earlier
            self._client.update_run(earlier, status="RUNNING")

    def _last(self, experiment: str, key: str) -> str | None:
        """Return the id of the last run with a key."""
        words = {"filter_string": f"tags.`{KEY_TAG}` = '{key}'", "order_by": ["attributes.start_time DESC"]}
        runs = self._client.search_runs([experiment], max_results=1, **words)
        return str(runs[0].info.run_id) if runs else None

    def tags(self, tags: Mapping[str, str]) -> None:
        """Give the run tags."""
        from mlflow.entities import RunTag

        self._client.log_batch(self.run_id, tags=[RunTag(name, text) for name, text in tags.items()])

    def parameters(self, parameters: Mapping[str, str]) -> None:
        """Note parameters; MLflow takes each once."""
        from mlflow.entities import Param

        made = [Param(clean(name), text[:_LONGEST]) for name, text in parameters.items()]
        for at in range(0, len(made), _AT_ONCE):
            self._client.log_batch(self.run_id, params=made[at : at + _AT_ONCE])

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Write a number for each name."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._client.log_batch(
            self.run_id, metrics=[Metric(clean(name), value, now, step) for name, value in values.items()]
        )

    def file(self, path: Path) -> None:
        """Keep a copy of a file."""
        self._client.log_artifact(self.run_id, str(path))

    def end(self, status: str) -> None:
        """Say how it ended."""
        self._client.set_terminated(self.run_id, status)


def clean(name: str) -> str:
    """Return a name without the characters that MLflow does not take."""
    return _NOT_IN_NAMES.sub("_", name)
