"""Ranks that come to a run: what is left for them where, what they are told, and what is said of it."""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace

import attrs
import pytest
from test_elastic import Context, assert_same_training, log_of, prepare, run

from cntk_core.contract.builder import SeedNumbers
from cntk_core.plugins.markers import hookimpl
from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.elastic import _Changes, _facts, arrive
from cntk_kit_recipes.recipe.log import Log
from cntk_kit_recipes.recipe.lost_ranks import Loss
from cntk_testing import VirtualRanks
from cntk_testing.virtual_ranks import VirtualCommunicator


class Awaited(VirtualCommunicator):
    """Ranks to whom somebody seems to come after each epoch, and never does."""

    @property
    def newcomers(self):
        return 1

    def regroup(self, done):
        found = super().regroup(done)
        if found is not None:
            found.__class__ = Awaited
        return found


class Told:
    """Hears how trainings end, and of errors."""

    def __init__(self):
        self.outcomes, self.errors = [], []

    @hookimpl
    def cntk_job_end(self, job, outcome):
        if job.rank == 0 and job.action == "train":
            self.outcomes.append((outcome.succeeded, outcome.stopped, outcome.error))

    @hookimpl
    def cntk_exception(self, job, error):
        self.errors.append(error)


def test_training_is_left_after_an_epoch_and_goes_on_to_the_last_bit(tmp_path, monkeypatch):
    """As often as it takes: who comes in vain is no reason to end."""
    one, other = tmp_path / "awaited", tmp_path / "undisturbed"
    prepare(one)
    prepare(other)
    for folder in (one, other):
        recipe = folder / "r.cntk"
        recipe.write_text(recipe.read_text("utf-8").replace("maxEpochs = 3", "maxEpochs = 6"), encoding="utf-8")
    told = Told()

    def work(communicator):
        communicator.__class__ = Awaited
        with closing(Log(quiet=True)) as log:
            run_recipe(["configFile=r.cntk"], log, communicator=communicator, listeners=[told])

    monkeypatch.chdir(one)
    VirtualRanks(2, deadline=120.0).run(work)
    run(other, monkeypatch, 2)
    assert_same_training(one, other)
    assert told.outcomes == [(False, "ranks wait to be taken in", None)] * 5 + [(True, "", None)]
    assert told.errors == []
    for epoch in range(1, 6):
        said = f"Training goes on from 'net.dnn.{epoch}.ckp', after {epoch} epochs ({60 * epoch} samples).\n"
        assert said in log_of(one)
    assert log_of(one).rstrip().endswith("__COMPLETED__")


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ((0, 1, 2), (0, 2), "Warning: rank 1 is lost (minibatch 3); 2 of 3 ranks go on: ranks 0, 2 are left."),
        ((0, 1, 2), (2,), "Warning: ranks 0, 1 are lost (minibatch 3); 1 of 3 ranks go on: rank 2 is left."),
        ((0, 2), (0, 2, 1), "Rank 1 has come; 3 ranks go on: ranks 0, 2, 1."),
        ((0,), (0, 1, 4), "Ranks 1, 4 have come; 3 ranks go on: ranks 0, 1, 4."),
        (
            (0, 1, 2),
            (0, 2, 3),
            "Warning: rank 1 is lost (minibatch 3); rank 3 has come; 3 ranks go on: ranks 0, 2, 3.",
        ),
        ((0, 1), (0, 1), "Warning: the ranks have parted (minibatch 3), but all of them are there."),
    ],
)
def test_what_is_said(before, now, said):
    assert _Changes(before, now, "minibatch 3").said == said


def test_who_comes_hears_what_the_others_are_at():
    """The job, whether it had saved something, and which numbers its random parameters begin with."""

    def rank(communicator):
        seeds = [["brainscript", "f", 7], ["ndl", "f", 2]]
        if communicator.rank < 2:
            number = (0, 3)[communicator.rank]
            _facts(communicator, {"number": number, "begun": number == 3, "jobs": 2, "seeds": seeds})
            return None
        log = SimpleNamespace(line=lambda text: None)
        context = Context(communicator, log, Loss("", (), False), seeds=SeedNumbers())
        context, job = arrive(context, 1)
        assert attrs.astuple(context.loss) == ("Rank 1 has come to the run.", (0, 3, 1), True, True)
        return (
            job,
            context.seeds.take(("brainscript", "f")),
            context.seeds.take(("ndl", "f")),
            context.seeds.take(("x",)),
        )

    assert VirtualRanks(3).run(rank) == [None, None, (2, 7, 2, 1)]
