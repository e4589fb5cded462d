"""The hooks: everything that a plugin may listen to or decide.

Event hooks get frozen records. Implementations are called in pluggy's order: those marked ``tryfirst``, then the last
registered first, then those marked ``trylast``, with wrappers around all of them. A hook that decides takes the first
answer that is not None; the core's own answer comes last. In a chain (:func:`passes_on`) each implementation gets what
the one before it answered. An implementation may leave out arguments that it does not need. New arguments are only ever
added; a hook or an argument that goes is announced with :func:`~cntk_core.plugins.markers.retired` first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cntk_core.plugins import answers
from cntk_core.plugins.markers import gathers, hookspec, passes_on, retired

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cntk_core.contract.events import (
        EpochStart,
        EpochSummary,
        EvaluationResult,
        Job,
        JobOutcome,
        MinibatchResult,
        MinibatchSource,
        UpdateStep,
    )
    from cntk_core.network.network import Network
    from cntk_core.plan.plan import Plan
    from cntk_core.plugins.registry import Registry
    from cntk_core.records.minibatch import Minibatch


@hookspec(historic=True)
def cntk_register(registry: Registry) -> None:
    """Add components and operations: ``registry.readers.add("wav", WavReader)``. Called once for every plugin."""


@hookspec
def cntk_configure(config: Any) -> None:
    """Look at the configuration, or amend it, once before anything reads it."""


@gathers
@hookspec
def cntk_sgd_keys() -> Collection[str] | None:
    """Name the keys that this plugin looks up in the SGD block (``job.block``), so that the block accepts them."""


@gathers
@hookspec
def cntk_section_keys(section: str) -> Collection[str] | None:
    """Name the keys that this plugin looks up in blocks called ``section``, so that these accept them.

    Blocks that refuse a key which nobody knows: ``reader``, ``cvReader``, ``writer``, and ``SGD`` as for
    :func:`cntk_sgd_keys`. The component of the block does not see them.
    """


@hookspec(firstresult=True)
def cntk_choose_engine(requested: str, available: tuple[str, ...]) -> str | None:
    """Say which of the available engines ``auto`` means. The first has the highest priority; the core takes it."""


@passes_on("network", answers.same_kind("network"))
@hookspec
def cntk_network_built(network: Network, config: Any) -> Network | None:
    """Return another network in place of the one that was built, or None to leave it as it is. The next one gets it."""


@hookspec
def cntk_plan_ready(plan: Plan, engine: str) -> None:
    """Look at a plan before the engine compiles it (graph dumps, cost reports)."""


@hookspec
def cntk_job_begin(job: Job) -> None:
    """Open what the listener needs for this job."""


@hookspec
def cntk_exception(job: Job, error: BaseException) -> None:
    """Note that a job fails, and with what, while everything is as it was. ``cntk_job_end`` follows."""


@hookspec
def cntk_job_end(job: Job, outcome: JobOutcome) -> None:
    """Close it again. Called also after a failure."""


@hookspec
def cntk_epoch_begin(job: Job, epoch: EpochStart) -> None:
    """Note that an epoch begins, with its rates."""


@passes_on("rate", answers.rate)
@hookspec
def cntk_learning_rate(job: Job, epoch: int, rate: float) -> float | None:
    """Return another learning rate per sample for an epoch (from 0), or None. The next one gets it.

    Asked before each epoch that begins; one that goes on after a stop has the rate that it began with. All ranks are
    asked and must give the same.
    """


@passes_on("minibatch", answers.minibatch)
@hookspec
def cntk_minibatch_read(source: MinibatchSource, minibatch: Minibatch) -> Minibatch | None:
    """Return another minibatch in place of one that a reader has given, or None. The next one gets it.

    Its streams keep their names, layouts and sample shapes, and their arrays may be shared with the reader: make new
    ones. What is drawn at random is keyed by ``source``, so that a run that goes on after a stop draws the same.
    """


@passes_on("gradients", answers.gradients)
@hookspec
def cntk_before_update(
    job: Job, step: UpdateStep, gradients: Mapping[str, NDArray[Any]]
) -> Mapping[str, NDArray[Any]] | None:
    """Look at the gradients before the parameters are updated, and return others in place of some, or None.

    The arrays are views of what the update takes: sums over the samples of the minibatch, of all ranks that reduce
    gradients, in memory order, before clipping and regularization. They may be changed in place, or others be returned
    by name: the next one gets these in their place. Trials of a rate search ask, too. Where somebody listens, no engine
    folds the update into the gradients, which takes longer.
    """


@hookspec
def cntk_epoch_end(job: Job, summary: EpochSummary) -> None:
    """Note what an epoch gave."""


@hookspec
def cntk_minibatch_end(job: Job, result: MinibatchResult) -> None:
    """Note what a minibatch gave. It is called often: be quick."""


@hookspec
def cntk_evaluation_minibatch_end(job: Job, result: MinibatchResult) -> None:
    """Note what a minibatch of an evaluation gave: the actions test and cv, and the validation set of a training.

    Where somebody listens, criteria are fetched from the device after each minibatch. Several ranks meet now and then
    only, and tell of what they have evaluated since.
    """


@hookspec
def cntk_evaluation_end(job: Job, result: EvaluationResult) -> None:
    """Note what an evaluation gave."""


@hookspec(firstresult=True)
def cntk_should_stop(job: Job, summary: EpochSummary) -> str | None:
    """Return why training should end after this epoch, or None to go on."""


@hookspec
def cntk_checkpoint_saved(job: Job, path: Path) -> None:
    """Note that a checkpoint is complete on disk (upload it, prune old ones)."""


@hookspec(warn_on_impl=retired("cntk_add_commands", "1.0", "1.2", "Offer a Verb (entry-point group cntk.verbs)."))
def cntk_add_commands(subparsers: Any) -> None:
    """Add commands to the command line: ``subparsers.add_parser(...)`` of argparse, with ``set_defaults(run=...)``.

    It gives way to verbs, which ``cntk --help`` lists (``cntk.verbs``).
    """
