"""What components are that override nothing, and what contexts give where nothing was said."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from cntk_core.contract.builder import BuildContext, Document, NetworkBuilder, SeedNumbers, installed_initializer
from cntk_core.contract.engine import ExecutionEngine, Program, no_gradients
from cntk_core.contract.initializer import InitializerSettings, ParameterInitializer
from cntk_core.contract.learner import Learner, UpdateContext
from cntk_core.contract.local_rank import local_rank
from cntk_core.contract.model_format import ModelFormat
from cntk_core.contract.parallel import Communicator, GradientAggregation, Parallelizer, Pending, StepCounts
from cntk_core.contract.reader import DataReader
from cntk_core.contract.schedule import EpochSchedule
from cntk_core.contract.user_learner import ParameterUpdate, UserLearner, context_of
from cntk_core.contract.writer import DataWriter
from cntk_core.errors import BuildError, Location, UnsupportedError, UsageError
from cntk_core.network.network import Network
from cntk_core.training.loop.alone import OneRank

WHERE = Location("r.cntk", 3, 5)


class Builder(NetworkBuilder):
    """Builds an empty network."""

    requires_api = "1.0"

    def build(self, block, context):
        return Network()


def context() -> BuildContext:
    return BuildContext(lambda language, name: None, lambda language: [])


def test_a_context_gives_and_takes_no_models():
    made = context()
    with pytest.raises(BuildError) as caught:
        made.load_model("m.dnn", WHERE)
    assert str(caught.value) == "r.cntk:3:5: the model 'm.dnn' cannot be loaded here: this context gives no models"
    with pytest.raises(BuildError) as caught:
        made.save_model(Network(), "m.dnn", WHERE)
    assert str(caught.value) == "r.cntk:3:5: the model 'm.dnn' cannot be saved here: this context takes no models"


def test_numbers_of_random_parameters_count_on_for_each_kind():
    numbers = SeedNumbers()
    assert [numbers.take(kind) for kind in ("ndl", "ndl", "brainscript", "ndl")] == [1, 2, 1, 3]


def test_a_word_that_is_no_initializer():
    with pytest.raises(BuildError) as caught:
        installed_initializer("unifrom", InitializerSettings(where=WHERE))
    first, _, hint = str(caught.value).partition("\n")
    assert first == "r.cntk:3:5: there is no initializer 'unifrom'; did you mean 'uniform'?"
    assert hint.startswith("    Initializers: ")
    assert "uniform, " in hint


def test_a_builder_checks_nothing_and_reads_no_recipes():
    builder = Builder()
    builder.check(None, context())
    for files, where in (((), ""), ((("r.cntk", WHERE),), "r.cntk:3:5: ")):
        with pytest.raises(UnsupportedError) as caught:
            builder.read_recipe(Document(files), context())
        assert str(caught.value) == f"{where}Builder reads no whole recipes"


def test_programs_and_communicators_that_offer_less():
    class Program:
        pass

    assert no_gradients(Program()).message == "Program computes the gradients of training alone"
    with pytest.raises(UnsupportedError, match=r"^the communicator OneRank simulates nothing$"):
        OneRank.simulation(None)


class Rule(ParameterInitializer):
    """A rule that gives its seed."""

    def values(self, shape, dtype, seed):
        return np.full(shape, seed, dtype)


def test_an_initializer_counts_fans_as_its_description_says():
    assert Rule(InitializerSettings(filter_rank=1, output_rank=-1)).fans((7, 5, 3)) == (15, 21)
    assert Rule(InitializerSettings()).fans((5, 3)) == (5, 3)


def test_an_initializer_is_made_with_seed_offset_and_word():
    made = Rule.make("mine", InitializerSettings(seed=5, seed_offset=7))
    assert (made.name, made.seed, made.seed_offset, made.takes_seed) == ("mine", 5, 7, True)
    assert made((2,), np.dtype("f4"), 3).tolist() == [3, 3]


def test_words_of_initializers_are_made_as_asked_for():
    made = installed_initializer("fixedValue", InitializerSettings(value=2.5))
    assert made((2,), np.dtype("f4"), 3).tolist() == [2.5, 2.5]


def test_seeds_count_from_the_recipes_for_each_language_and_precision():
    made = attrs.evolve(context(), random_seed=100)
    double = attrs.evolve(made, dtype=np.dtype(np.float64))
    assert [made.next_seed("ndl"), made.next_seed("ndl"), made.next_seed("bs"), double.next_seed("ndl")] == [
        101,
        102,
        101,
        101,
    ]


@attrs.frozen
class Options:
    """Of the components below."""

    size: int = 3


def complete(base: type, **members: object) -> type:
    """A class that defines nothing but what it has to."""
    return type("Mine", (base,), dict.fromkeys(base.__abstractmethods__) | {"options": Options} | members)


@pytest.mark.parametrize("base", [ExecutionEngine, Learner, GradientAggregation, Parallelizer])
def test_components_keep_their_options_and_have_some_without(base):
    kind = complete(base)
    assert kind(Options(7)).settings == Options(7)
    assert kind().settings == Options(3)


def test_a_schedule_and_a_reader_keep_their_options():
    assert complete(EpochSchedule)(Options(7)).settings == Options(7)
    reader = complete(DataReader)(Options(7), "a context")
    assert (reader.settings, reader.context) == (Options(7), "a context")
    assert reader.minibatch_factor(3) == 1
    assert list(reader.check()) == []
    assert type(reader).general_from(None, "x") is None
    assert type(reader).composed(None, None) is type(reader)


def test_a_program_counts_steps_from_epoch_and_minibatch():
    program = complete(Program)()
    program.begin_epoch(3, {"a": 1}, minibatches_done=5)
    assert (program.step, program.settings) == (3 * 2**32 + 5, {"a": 1})
    program.begin_epoch(0)
    assert (program.step, program.settings) == (0, {"a": 1})
    assert (program.state(), program.memory(), tuple(program.remarks())) == (None, 0, ())


def test_a_step_is_gradients_and_then_the_update():
    told = []
    program = complete(
        Program,
        compute_gradients=lambda self, minibatch: told.append(minibatch),
        update=lambda self, scalars: told.append(scalars),
    )()
    program.train_step("minibatch", "scalars")
    assert told == ["minibatch", "scalars"]


def test_a_strategy_that_does_nothing():
    strategy, counts = complete(Parallelizer)(), StepCounts(4, {"ce": 1.0})
    assert strategy.reduce(None, counts) is counts
    assert (strategy.group, strategy.has_met, strategy.show_every, strategy.aggregations) == (None, False, 0, {})
    assert (strategy.needs(None), strategy.describe(0), strategy.state()) == ((), "", {})
    assert [strategy.adopt(states) for states in ([], [{}], [{}, {"a": 1}])] == [
        "",
        "",
        "the state of parallel training begins anew",
    ]
    assert complete(Parallelizer)(None, {"sum": 1}).aggregations == {"sum": 1}


def test_an_aggregation_that_keeps_nothing():
    made = complete(GradientAggregation)()
    made.begin("store", "communicator")
    assert (made.store, made.communicator) == ("store", "communicator")
    assert (made.works_on_device("communicator"), made.state()) == (False, {})
    assert [made.adopt(states) for states in ([], [{}], [{"a": 1}])] == ["", "", "the aggregation begins anew"]


def test_counts_of_a_step_travel_as_one_array():
    counts = StepCounts(4, {"ce": 1.5, "err": 2.0}, counted=3, read=5, flags=(1.0, 0.0), learning_rate=0.5)
    assert counts.header().tolist() == [4, 3, 5, 1, 0, 1.5, 2]
    assert counts.summed(2 * counts.header()) == attrs.evolve(
        counts, samples=8, counted=6, read=10, flags=(2.0, 0.0), criteria={"ce": 3.0, "err": 4.0}
    )
    assert [
        attrs.evolve(counts, samples=n, pending=late).is_end for n, late in ((0, False), (0, True), (1, False))
    ] == [
        True,
        False,
        False,
    ]


def test_work_that_is_done_already():
    assert (Pending(7).is_done, Pending(7).wait()) == (True, 7)
    with pytest.raises(ValueError, match="no"):
        Pending(error=ValueError("no")).wait()


def test_arrays_are_summed_one_by_one_where_nobody_knows_better():
    told = []
    one = complete(Communicator, allreduce=lambda self, array: told.append(array))()
    one.allreduce_all(["a", "b"])
    assert told == ["a", "b"]
    assert (one.rank, one.size, one.bytes_sent, one.is_elastic, one.takes_device_arrays) == (0, 1, 0, False, False)


def test_a_learner_by_default():
    made = complete(Learner)()
    told = UpdateContext(4, 0.5, 0.9, state={"n": 1.0})
    assert (made.uses_momentum, made.everywhere, made.steady) == (True, False, False)
    assert made.advance(told) == {"n": 1.0}
    assert made.means(None, None, None, {}, {}) == {}


def test_a_learner_in_python():
    made = complete(UserLearner)()
    told = UpdateContext(4, 0.5, 0.9, 7, 2, {"n": 1.0}, "float32")
    assert made.everywhere
    assert context_of(made.scalars(told), "float32") == told
    values = np.zeros(2)
    one = ParameterUpdate("W", values, np.ones(2), {}, told)
    one.value = np.array([3.0, 4.0])
    assert values.tolist() == [3, 4]
    one.value -= one.gradient
    assert values.tolist() == [2, 3]
    assert one.value is values


def test_a_communicator_waits_ten_minutes_on_its_own_watch():
    one, other = complete(Communicator)(), complete(Communicator)()
    assert (one.watch.deadline, one.watch.report_after, one.watch.doing) == (600.0, 30.0, "")
    assert one.watch is not other.watch


def test_a_writer_that_cannot_go_on_closes():
    told = []
    writer = complete(DataWriter, close=lambda self: told.append("closed"))(Options(7), "a context")
    assert (writer.settings, writer.context) == (Options(7), "a context")
    writer.discard()
    assert told == ["closed"]


def test_a_format_without_settings_checks_and_writing():
    made = complete(ModelFormat, save=ModelFormat.save)()
    made.take_settings({})
    with pytest.raises(UsageError, match=r"^Mine has no setting 'precision'$"):
        made.take_settings({"precision": "half"})
    with pytest.raises(UnsupportedError, match=r"^nothing checks models in the format of Mine$"):
        made.check(Network(), None)
    with pytest.raises(UnsupportedError, match=r"^models in the format of Mine are read, not written$"):
        made.save(Network(), None)


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, None),
        ({"LOCAL_RANK": "3"}, 3),
        ({"SLURM_LOCALID": "0"}, 0),
        ({"LOCAL_RANK": "", "MPI_LOCALRANKID": "2"}, 2),
        ({"LOCAL_RANK": "x"}, None),
        ({"LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "5"}, 1),
    ],
)
def test_the_place_of_a_process_on_its_machine(environment, found):
    assert local_rank(environment) == found
