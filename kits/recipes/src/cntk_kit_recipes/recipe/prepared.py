"""A recipe's training for tools that measure it: ready to learn minibatches, and nothing is written."""

from __future__ import annotations

import attrs

from cntk_core.config import Config
from cntk_core.contract.events import Job
from cntk_core.contract.host_program import compile_plan
from cntk_core.contract.reader import DataReader, EpochSpec
from cntk_core.contract.store import ParameterStore
from cntk_core.network.network import Network
from cntk_core.plan.make import make_plan
from cntk_core.training.loop.update import compose_update
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.test import inputs_of
from cntk_kit_recipes.recipe.train import settings_of
from cntk_kit_recipes.session.epoch import EpochLoop
from cntk_kit_recipes.session.minibatch_factors import for_factors
from cntk_kit_recipes.session.precompute import precompute
from cntk_kit_recipes.session.trained_nodes import choose_criteria


@attrs.frozen(eq=False)
class PreparedTraining:
    """A network that is ready to learn minibatches.

    Attributes:
        loop: learns them.
        reader: gives them.
        minibatch_size: that of the recipe's first epoch.
        rate: of its first epoch.
    """

    loop: EpochLoop
    reader: DataReader
    minibatch_size: int
    rate: float


def prepare_training(context: ActionContext, section: Config) -> PreparedTraining:
    """Build and compile what a section trains, without writing anything.

    Raises:
        CntkError: something is wrong with the recipe or the data.
    """
    network: Network = context.build_network(section)
    settings, learner = settings_of(context, section.section("SGD"))
    criterion, evaluations = choose_criteria(network, settings)
    nodes = (criterion, *evaluations)
    needed = [*nodes, *(node for node in network if node.op.role == "precompute")]
    reader = context.make_reader(section, inputs_of(network, needed))
    try:
        settings = for_factors(settings, reader.minibatch_factor)
        store, engine = ParameterStore(network.parameters, network.dtype), context.make_engine(section)
        run_log = context.run_log(section)
        spec = EpochSpec(epoch_size=settings.epoch_size, minibatch_size=settings.minibatch_size[0])
        precompute(network, engine, store, reader, spec, run_log)
        rule = compose_update(learner, settings)
        store.add_slots(rule.slots)
        program = compile_plan(engine, make_plan(network, nodes, criterion), store, rule)
        program.begin_epoch(0, settings.program_settings(0))
        loop = EpochLoop(program, store, learner, settings, nodes, run_log, Job(section.name, "train"))
    except BaseException:
        reader.close()
        raise
    rate = settings.rate(0) if settings.has_rate(0) and settings.given_rates else 1e-6
    return PreparedTraining(loop, reader, settings.minibatch_size[0], rate)
