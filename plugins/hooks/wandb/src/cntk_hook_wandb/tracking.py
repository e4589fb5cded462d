"""A run of Weights & Biases. It is no global one: a script with a run of its own is not disturbed."""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MODES = ("online", "offline")
EPOCH = "epoch"
"""What metrics are drawn against. W&B's own steps never go back; a training does that lost an epoch and goes on."""

FINISHED, FAILED, KILLED = 0, 1, 255
"""Exit codes by which W&B knows how a run has ended; 255 is a run that was stopped."""


class TrackedRun:
    """A run of Weights & Biases that a training is told to.

    Args:
        project: its name.
        entity: whose project it is; empty: as W&B's own settings say.
        name: of the run; empty: W&B makes one up.
        mode: ``online`` or ``offline``; empty: as W&B's own settings say.
        key: what is the same when the training goes on.
        goes_on: continue the last run with this key.
        settings: what is known before the first epoch.

    Raises:
        Exception: whatever W&B raises, here and in every method.
    """

    def __init__(
        self,
        project: str,
        entity: str,
        name: str,
        mode: str,
        *,
        key: str,
        goes_on: bool,
        settings: Mapping[str, object],
    ) -> None:
        import wandb

        # Only a server could be asked for the last run, and there may be none: its id is kept beside W&B's own files.
        note = Path(wandb.Settings().wandb_dir) / f"cntk-{hashlib.sha256(key.encode()).hexdigest()[:16]}.id"
        earlier = note.read_text(encoding="utf-8").strip() if goes_on and note.is_file() else ""
        self.goes_on = bool(earlier)
        """Whether an earlier run is continued."""
        self.run_id = earlier or secrets.token_hex(4)
        chosen: Any = mode or None
        self._run: Any = wandb.init(
            project=project,
            entity=entity or None,
            name=name or None,
            mode=chosen,
            id=self.run_id,
            resume="allow",
            config=None if earlier else dict(settings),
            reinit="create_new",
            settings=wandb.Settings(
                console="off"
            ),  # the log is CNTK's; W&B would put itself between it and the console
        )
        self._run.define_metric(EPOCH, hidden=True)
        self._run.define_metric("*", step_metric=EPOCH)
        if note.parent.is_dir():  # not where W&B is switched off
            note.write_text(self.run_id + "\n", encoding="utf-8")

    def metrics(self, values: Mapping[str, float], epoch: int) -> None:
        """Write a number for each name."""
        self._run.log({**values, EPOCH: epoch})

    def file(self, path: Path) -> None:
        """Keep a copy of a file: without one W&B makes a link, which Windows may refuse."""
        copy = Path(self._run.dir) / path.name
        if not copy.parent.is_dir():  # where W&B is switched off
            return
        shutil.copyfile(path, copy)
        self._run.save(str(copy), base_path=self._run.dir, policy="now")

    def end(self, code: int) -> None:
        """Say how it ended, and wait until W&B has everything."""
        self._run.finish(exit_code=code)
