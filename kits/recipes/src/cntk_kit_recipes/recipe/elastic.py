"""Going on without ranks that are lost (``--elastic``): who is left, what is done again, and what is said of it."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from cntk_core.errors import CntkError, ConfigError, RankGone, RankMissing, TrainingError
from cntk_kit_recipes.block.parallel_block import read_elastic
from cntk_kit_recipes.recipe.lost_ranks import Loss
from cntk_kit_recipes.recipe.ranks import ELASTIC, exchange_active

if TYPE_CHECKING:
    from cntk_core.contract.builder import SeedNumbers
    from cntk_core.contract.parallel import Communicator
    from cntk_kit_recipes.recipe.context import ActionContext
    from cntk_kit_recipes.recipe.jobs import Job

AS_RECIPE = "recipe"

_VAIN = 3
"""So many times in a row the ranks may part without one being lost."""


def min_ranks(jobs: Sequence[Job], environment: Mapping[str, str] = os.environ) -> int:
    """Return how many ranks must be left for a run to go on; 0 if all are needed.

    A recipe asks for it in the block ``parallelTrain`` of any of its trainings.

    Raises:
        ConfigError: the variable makes no sense.
    """
    given = environment.get(ELASTIC, "")
    found = [_asked(job) for job in jobs if job.action.announces_itself]
    least = max((number for _, number in found), default=1)
    if given and given != AS_RECIPE:
        if not given.isdecimal() or not int(given):
            raise ConfigError(f"{ELASTIC} is '{given}': it is a number of ranks that is at least 1, or '{AS_RECIPE}'")
        return int(given)
    return least if given or any(asked for asked, _ in found) else 0


def _asked(job: Job) -> tuple[bool, int]:
    try:
        return read_elastic(job.section.section("SGD"))
    except CntkError:  # it is told when the section is checked
        return False, 1


def asked_in_recipe(arguments: Sequence[str], only: str, plugin_files: Sequence[str] = ()) -> bool:
    """Whether a recipe asks for it; one that cannot be read does not, and the ranks will say what is wrong with it."""
    from cntk_core.config import load_recipe
    from cntk_core.plugins.manager import PluginManager
    from cntk_kit_recipes.recipe.jobs import find_jobs

    try:
        registry = PluginManager(plugin_files, load_hooks=False).registry
        return min_ranks(find_jobs(load_recipe(arguments), registry, only), {}) > 0
    except (CntkError, OSError):
        return False


def prepare(communicator: Communicator, least: int) -> None:
    """Let a run go on when ranks are lost.

    Raises:
        UnsupportedError: the ranks are connected in a way that cannot do that.
        ConfigError: there are not even as many ranks as must be left.
    """
    if least > communicator.size:
        raise ConfigError(
            f"{least} ranks must be left (minRanks), but there are only {communicator.size} to begin with",
            hint="Give a smaller number, or start more ranks.",
        )
    communicator.tolerate_losses()


@attrs.frozen
class Work:
    """A job as all ranks do it.

    Attributes:
        job: what it is.
        index: its number among those of the run.
        act: does it; a training goes on from its last checkpoint.
        meet: waits until all ranks have done it.
        replaced: told the context that goes on after a loss.
    """

    job: Job
    index: int
    act: Callable[[ActionContext], None]
    meet: Callable[[ActionContext], None]
    replaced: Callable[[ActionContext], None]


def persevere(context: ActionContext, work: Work, least: int) -> ActionContext:
    """Do a job, and do it again with those that are left whenever ranks are lost in it.

    Returns:
        The context for the next job.

    Raises:
        TrainingError: less than ``least`` ranks are left.
    """
    context = attrs.evolve(context, begun=Event(), loss=attrs.evolve(context.loss, said="", begun=False))
    vain = 0
    while (communicator := context.communicator) is not None and communicator.is_elastic:
        seeds, acted, failure = copy.deepcopy(context.seeds), False, None
        try:
            work.act(context)
            acted = True
            work.meet(context)
        except (RankGone, RankMissing) as error:
            failure = error
        following = communicator.regroup(failure is None)
        if following is None:
            return context
        before = context.ranks
        context, is_done = _with_those_left(context, following, seeds, work.index, acted and context.rank == 0)
        vain = vain + 1 if context.ranks == before else 0
        if vain == _VAIN and failure is not None:
            raise failure
        _check(context, least)
        work.replaced(context)
        _tell(context, work.job, is_done=is_done)
        if is_done:
            return context
    work.act(context)
    work.meet(context)
    return context


def _with_those_left(
    context: ActionContext, following: Communicator, seeds: SeedNumbers, index: int, was_done: bool
) -> tuple[ActionContext, bool]:
    """Return the context of those that are left, and whether the job is done.

    Args:
        context: with which the job was done.
        following: connects those that are left.
        seeds: of before the job.
        index: of the job.
        was_done: this rank knows that it is done.
    """
    doing = following.watch.doing
    own = {
        "number": _numbers(context)[context.rank],
        "begun": context.loss.begun or context.begun.is_set(),
        "jobs": index + was_done,
    }
    following, found = _facts(following, own)
    exchange_active(context.communicator, following)
    numbers = tuple(one["number"] for one in found)
    lost = [number for number in _numbers(context) if number not in numbers]
    loss = Loss(_said(lost, doing, numbers, context.ranks), numbers, any(one["begun"] for one in found))
    # One rank alone trains as a serial run does, which is also what it would do if it were started again.
    left = following if following.size > 1 else None
    is_done = max(one["jobs"] for one in found) > index
    return attrs.evolve(context, communicator=left, loss=loss, seeds=seeds), is_done


def _facts(following: Communicator, own: Mapping[str, Any]) -> tuple[Communicator, list[dict[str, Any]]]:
    """Return what all that are left know, by rank, and their communicator: another one if more are lost meanwhile."""
    packed = np.frombuffer(json.dumps(own).encode(), np.uint8)
    while True:
        try:
            return following, [json.loads(bytes(one)) for one in following.allgather(packed)]
        except (RankGone, RankMissing):
            following = following.regroup(False) or following


def _numbers(context: ActionContext) -> tuple[int, ...]:
    return context.loss.numbers or tuple(range(context.ranks))


def _said(lost: Sequence[int], doing: str, numbers: Sequence[int], before: int) -> str:
    where = f" ({doing})" if doing else ""
    if not lost:
        return f"Warning: the ranks have parted{where}, but all of them are there."
    named = f"rank {lost[0]} is" if len(lost) == 1 else f"ranks {', '.join(map(str, lost))} are"
    left = f"rank {numbers[0]} is" if len(numbers) == 1 else f"ranks {', '.join(map(str, numbers))} are"
    return f"Warning: {named} lost{where}; {len(numbers)} of {before} ranks go on: {left} left."


def _check(context: ActionContext, least: int) -> None:
    if context.ranks < least:
        raise TrainingError(
            f"{context.loss.said.removeprefix('Warning: ')} At least {least} must be left (minRanks)",
            hint="What was saved before is kept; the same command goes on from it.",
        )


def _tell(context: ActionContext, job: Job, *, is_done: bool) -> None:
    """Say who was lost and what follows; a training says it itself, with the place where it goes on."""
    text = context.loss.said
    if is_done:
        text += f" '{job.command}' ({job.name}) is done."
    elif not job.action.announces_itself:
        text += f" '{job.command}' ({job.name}) begins again."
    if is_done or not job.action.announces_itself:
        context.log.line(text)
    if context.log.to_file:
        context.log.console(text)
