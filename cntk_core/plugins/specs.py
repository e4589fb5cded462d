"""The hooks: everything that a plugin may listen to or decide.

Event hooks get frozen records and may not rely on the order in which plugins are called. A hook that decides takes the
first answer that is not None, the last registered plugin first; the core's own answer comes last. An implementation may
leave out arguments that it does not need. New arguments are only ever added.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cntk_core.plugins.markers import hookspec

if TYPE_CHECKING:
    from cntk_core.contract.events import EpochStart, EpochSummary, Job, JobOutcome, MinibatchResult
    from cntk_core.network.network import Network
    from cntk_core.plan.plan import Plan
    from cntk_core.plugins.registry import Registry


@hookspec(historic=True)
def cntk_register(registry: Registry) -> None:
    """Add components and operations: ``registry.readers.add("wav", WavReader)``. Called once for every plugin."""


@hookspec
def cntk_configure(config: Any) -> None:
    """Look at the configuration, or amend it, once before anything reads it."""


@hookspec
def cntk_sgd_keys() -> Collection[str] | None:
    """Name the keys that this plugin looks up in the SGD block (``job.block``), so that the block accepts them."""


@hookspec(firstresult=True)
def cntk_choose_engine(requested: str, available: tuple[str, ...]) -> str | None:
    """Say which of the available engines ``auto`` means. The core prefers cuda, then cpu, then the first."""


@hookspec(firstresult=True)
def cntk_network_built(network: Network, config: Any) -> Network | None:
    """Return another network in place of the one that was built, or None to leave it as it is."""


@hookspec
def cntk_plan_ready(plan: Plan, engine: str) -> None:
    """Look at a plan before the engine compiles it (graph dumps, cost reports)."""


@hookspec
def cntk_job_begin(job: Job) -> None:
    """Open what the listener needs for this job."""


@hookspec
def cntk_job_end(job: Job, outcome: JobOutcome) -> None:
    """Close it again. Called also after a failure."""


@hookspec
def cntk_epoch_begin(job: Job, epoch: EpochStart) -> None:
    """Note that an epoch begins, with its rates."""


@hookspec
def cntk_epoch_end(job: Job, summary: EpochSummary) -> None:
    """Note what an epoch gave."""


@hookspec
def cntk_minibatch_end(job: Job, result: MinibatchResult) -> None:
    """Note what a minibatch gave. It is called often: be quick."""


@hookspec(firstresult=True)
def cntk_should_stop(job: Job, summary: EpochSummary) -> str | None:
    """Return why training should end after this epoch, or None to go on."""


@hookspec
def cntk_checkpoint_saved(job: Job, path: Path) -> None:
    """Note that a checkpoint is complete on disk (upload it, prune old ones)."""


@hookspec
def cntk_add_commands(subparsers: Any) -> None:
    """Add commands to the command line: ``subparsers.add_parser(...)`` of argparse, with ``set_defaults(run=...)``."""
