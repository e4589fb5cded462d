"""Learners and functions in Python, assignments and reductions of minibatches on two ranks, with every strategy."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from cntk_core.errors import TrainingError
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.families.reductions import ReduceAttributes
from cntk_core.ops.table import core_op
from cntk_core.trainer import Trainer
from cntk_kit_builders.user_function import UserFunction, op_of
from cntk_testing import ReferenceEngine
from tests.trainer.driven import assert_same, learner, make_network, minibatches, plugins, trainer, values
from tests.trainer.test_pickling import Smoothed, network_that_assigns
from tests.trainer.test_ranks import STRATEGIES, on_ranks, parallel, share, train


class Counted(UserFunction):
    """The mean of x, drawn at random a little, and how many frames were seen."""

    outputs = ("mean", "seen")
    reduces_frames = True
    updates: ClassVar = (1,)

    def infer_outputs(self, x, seen):
        return (1,), (1,)

    def forward(self, context, x, seen):
        """Count in training."""
        if context.training:
            seen += len(x)
        return np.array([x.mean() + context.random().random()]), np.array(seen)


def network():
    """One with an assignment, and a function with a state and two outputs that are counted."""
    made = network_that_assigns()
    seen = made.add(Parameter.make("seen", (1,), value=np.zeros(1), learning_rate_multiplier=0.0))
    both = made.add(Node("counted", op_of(Counted), [made["h"], seen], Counted()))
    output = core_op("OutputMultiplexer")
    for index, name in enumerate(("drawn", "counts")):
        made.add(Node(name, output, [both], output.attributes(index)))
    made.infer()
    return made


def begin(communicator, name, made=None):
    given = {"evaluations": ["errs", "drawn", "counts"], "seed": 3}
    return trainer(made or network(), learner(Smoothed()), parallel=parallel(communicator, name), **given)


def everything(made):
    totals = {name: one.total for name, one in made.read_totals().items()}
    state = made._stepper.store.state
    return (
        values(made.model.network),
        {name: slot.copy() for name, slot in made.model.store.slots.items()},
        totals,
        state,
    )


def test_a_learner_in_python_makes_the_steps_of_one_rank():
    """To the byte: its gradients are summed as the parts of a minibatch are."""

    def work(communicator):
        made = trainer(make_network(), learner(Smoothed()), parallel=parallel(communicator, "DataParallelSGD"))
        for one in minibatches()[:5]:
            made.train_minibatch({name: np.split(array, 2)[communicator.rank] for name, array in one.items()})
        return values(made.model.network)

    alone = trainer(make_network(), learner(Smoothed()), parts=2)
    for one in minibatches()[:5]:
        alone.train_minibatch(one)
    for found in on_ranks(work):
        assert_same(found, values(alone.model.network))


@pytest.mark.parametrize("name", STRATEGIES)
def test_ranks_end_an_epoch_with_what_rank_0_has_kept(name):
    def work(communicator):
        made = begin(communicator, name)
        train(made, communicator.rank)
        inside = {name: made.model.network[name].value.copy() for name in ("kept", "seen")}
        made.end_epoch()
        return inside, values(made.model.network)

    (first, found), (second, other) = on_ranks(work)
    assert not np.array_equal(first["kept"], second["kept"])  # each has seen its own share
    assert (first["seen"], second["seen"]) == (22, 21)
    assert_same(other, found)
    for kept, value in first.items():
        np.testing.assert_array_equal(found[kept], value)


@pytest.mark.parametrize("name", STRATEGIES)
def test_ranks_go_on_to_the_byte(tmp_path, name):
    """Inside an epoch where a strategy can be saved there, else behind one."""
    inside = name in ("DataParallelSGD", "one bit", "buffered")

    def begun(communicator):
        made = begin(communicator, name)
        train(made, communicator.rank, last=3)
        if not inside:
            made.end_epoch()
        return made

    def finish(made, rank):
        if name != "DataParallelASGD":  # whose steps depend on who is faster
            train(made, rank, first=3, epoch=made.epoch)
        before = values(made.model.network)
        made.end_epoch()
        return before, *everything(made)

    def straight(communicator):
        return finish(begun(communicator), communicator.rank)

    def stopped(communicator):
        begun(communicator).save(tmp_path / "net")

    def resumed(communicator):
        made = begin(communicator, name)
        made.restore(tmp_path / "net")
        return finish(made, communicator.rank)

    expected = on_ranks(straight)
    on_ranks(stopped)
    for found, wanted in zip(on_ranks(resumed), expected, strict=True):
        for ours, theirs in zip(found[:3], wanted[:3], strict=True):  # inside, behind the epoch, and slots
            assert_same(ours, theirs)
        assert found[3] == pytest.approx(wanted[3], rel=1e-12)  # sums of sums
        assert found[4] == wanted[4]  # the learner's numbers


def test_a_reduction_over_the_batch_is_that_of_a_ranks_share():
    """So a criterion of it is the sum over the ranks, and its gradients, too."""

    def made(**given):
        found = make_network()
        mean = found.add(Node("mean", core_op("ReduceElements"), [found["h"]], ReduceAttributes("Mean", -3)))
        total = found.add(Node("total", core_op("ReduceElements"), [mean], ReduceAttributes("Sum")))
        found.add(Node("square", core_op("ElementTimes"), [total, total]))
        found.infer()
        given = {"engine": ReferenceEngine(), "plugins": plugins(), "evaluations": [], **given}
        return Trainer(found, "square", learner("sgd"), **given)

    def work(communicator):
        one = made(parallel=parallel(communicator, "DataParallelSGD"))
        result = one.train_minibatch(share(minibatches()[0], communicator.rank))
        return result.criteria["square"].total, values(one.model.network)

    (total, first), (other, second) = on_ranks(work)
    parts = [made().test_minibatch(share(minibatches()[0], rank))["square"].total for rank in range(2)]
    assert total == other == pytest.approx(sum(parts), rel=1e-12)
    assert_same(second, first)
    whole = made()
    whole.train_minibatch(minibatches()[0])
    assert not np.allclose(values(whole.model.network)["W0"], first["W0"], rtol=1e-3)


@pytest.mark.parametrize("name", ["DataParallelSGD", "BlockMomentumSGD"])
def test_what_ranks_learn_together_is_not_assigned(name):
    made = network_that_assigns()
    made["kept"].learning_rate_multiplier = 1.0
    made["Wh"].inputs[1] = made.add(Node("sum", core_op("Plus"), [made["h"], made["kept"]]))
    made.infer()
    trainer(made, learner(Smoothed()))  # one rank may

    def work(communicator):
        with pytest.raises(TrainingError) as error:
            trainer(made, learner(Smoothed()), parallel=parallel(communicator, name))
        return str(error.value)

    for found in on_ranks(work):
        assert found == (
            "Assign 'assign' changes 'kept', which several ranks learn together\n"
            "    Do not learn 'kept' (learningRateMultiplier = 0), or train with one rank."
        )
