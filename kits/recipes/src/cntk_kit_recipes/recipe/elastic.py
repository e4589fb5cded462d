"""Going on without ranks that are lost, and with those that come (``--elastic``): who is there, what is done again."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from cntk_core.contract.builder import SeedNumbers
from cntk_core.errors import CntkError, ConfigError, RankGone, RankMissing, TrainingError
from cntk_kit_recipes.block.parallel_block import read_elastic
from cntk_kit_recipes.recipe.lost_ranks import Loss
from cntk_kit_recipes.recipe.ranks import ELASTIC, exchange_active
from cntk_kit_recipes.session.newcomers import NewRanks

if TYPE_CHECKING:
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
    """Do a job, and do it again with those that are there whenever ranks are lost in it, or come to it.

    Returns:
        The context for the next job.

    Raises:
        TrainingError: less than ``least`` ranks are left.
    """
    loss = context.loss if context.loss.is_late else attrs.evolve(context.loss, said="", begun=False)
    context = attrs.evolve(context, begun=Event(), loss=attrs.evolve(loss, is_late=False))
    vain = 0
    while (communicator := context.communicator or context.alone) is not None and communicator.is_elastic:
        seeds, acted = copy.deepcopy(context.seeds), False
        failure: CntkError | None = None
        try:
            work.act(context)
            acted = True
            work.meet(context)
        except (RankGone, RankMissing, NewRanks) as error:
            failure = error
        following = communicator.regroup(failure is None)
        if following is None:
            return context
        before = context.ranks
        context, is_done = _with_those_left(context, following, seeds, work.index, acted and context.rank == 0)
        vain = vain + 1 if context.ranks == before and not isinstance(failure, NewRanks) else 0
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
        following: connects those that are left, and those that have come.
        seeds: of before the job.
        index: of the job.
        was_done: this rank knows that it is done.
    """
    doing = following.watch.doing
    own = {
        "number": _numbers(context)[context.rank],
        "begun": context.loss.begun or context.begun.is_set(),
        "jobs": index + was_done,
        "seeds": _counted(seeds),
    }
    following, found = _facts(following, own)
    exchange_active(context.communicator or context.alone, following)
    numbers = tuple(one["number"] for one in found)
    changes = _Changes(_numbers(context), numbers, doing)
    loss = Loss(changes.said, numbers, any(one["begun"] for one in found))
    is_done = max(one["jobs"] for one in found) > index
    return _with(attrs.evolve(context, loss=loss, seeds=seeds), following), is_done


def _with(context: ActionContext, communicator: Communicator) -> ActionContext:
    """Return the context of ranks that are connected; one alone trains as a serial run does, as if started again."""
    if communicator.size == 1:
        return attrs.evolve(context, communicator=None, alone=communicator)
    return attrs.evolve(context, communicator=communicator, alone=None)


def arrive(context: ActionContext, number: int) -> tuple[ActionContext, int]:
    """As a rank that has come to others: hear what they are at, when they begin it again with this one.

    Args:
        context: of a rank that has only begun.
        number: what its launcher calls it.

    Returns:
        The context with which it goes on, and the number of the job.
    """
    communicator = context.communicator
    assert communicator is not None, "a rank that has come is connected to others"
    following, found = _facts(communicator, {"number": number, "begun": False, "jobs": 0, "seeds": []})
    exchange_active(communicator, following)
    numbers = tuple(one["number"] for one in found)
    begun = any(one["begun"] for one in found)
    loss = Loss(f"Rank {number} has come to the run.", numbers, begun, is_late=True)
    for *kind, coming in found[0]["seeds"]:
        while context.seeds.take(tuple(kind)) < coming - 1:
            pass
    index: int = max(one["jobs"] for one in found)
    return _with(attrs.evolve(context, loss=loss), following), index


def _counted(seeds: SeedNumbers) -> list[list[Any]]:
    """Return the kinds of which numbers were given, which are texts, each with the number that comes next."""
    (counted,) = attrs.asdict(seeds, recurse=False).values()
    return [[*kind, number] for kind, number in counted.items() if number > 1]


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


@attrs.frozen
class _Changes:
    """Who was there, and who is there now, as the launcher calls them.

    Attributes:
        before, now: their numbers.
        doing: what the ranks were at.
    """

    before: tuple[int, ...]
    now: tuple[int, ...]
    doing: str

    @property
    def said(self) -> str:
        """What the log says of it."""
        where = f" ({self.doing})" if self.doing else ""
        lost = [number for number in self.before if number not in self.now]
        come = [number for number in self.now if number not in self.before]
        if not lost and not come:
            return f"Warning: the ranks have parted{where}, but all of them are there."
        if not lost:
            said = f"{_named(come, 'has come', 'have come')}; {len(self.now)} ranks go on: {_listed(self.now)}."
            return said.capitalize()
        text = f"Warning: {_named(lost, 'is lost', 'are lost')}{where}; "
        if come:
            return f"{text}{_named(come, 'has come', 'have come')}; {len(self.now)} ranks go on: {_listed(self.now)}."
        return f"{text}{len(self.now)} of {len(self.before)} ranks go on: {_named(self.now, 'is left', 'are left')}."


def _listed(numbers: Sequence[int]) -> str:
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {', '.join(map(str, numbers))}"


def _named(numbers: Sequence[int], one: str, several: str) -> str:
    return f"{_listed(numbers)} {one if len(numbers) == 1 else several}"


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
