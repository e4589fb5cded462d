"""The action train (also trainRNN): a network, a reader and the SGD block become a trained model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cntk_core.config import Config, Value
from cntk_core.contract.action import Action
from cntk_core.contract.events import Job
from cntk_core.contract.learner import Learner
from cntk_core.contract.reader import DataReader
from cntk_core.errors import CntkError, ConfigError, UnsupportedError, collect, raise_problems
from cntk_core.network.network import Network
from cntk_core.network.node import Input
from cntk_core.plugins.addresses import local_family
from cntk_core.plugins.core_format import CoreFormat
from cntk_core.plugins.listening import gathered
from cntk_core.plugins.model_formats import ModelFiles
from cntk_core.records.origin import Origin, merged
from cntk_core.training.loop.alone import Alone
from cntk_core.training.loop.ranks import NoExchange, Ranks
from cntk_core.training.settings import SGDSettings
from cntk_kit_recipes.block.data_parallel import ADVICE
from cntk_kit_recipes.block.early_stopping import read_early_stopping
from cntk_kit_recipes.block.named_schedules import with_schedules
from cntk_kit_recipes.block.parallel_block import read_parallel
from cntk_kit_recipes.block.sgd_block import idle_momentum, learner_name, make_learner, read_settings
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.node_traces import read_traces
from cntk_kit_recipes.recipe.resume import resumption
from cntk_kit_recipes.recipe.test import inputs_of
from cntk_kit_recipes.session.generations import ModelPaths
from cntk_kit_recipes.session.minibatch_factors import for_factors
from cntk_kit_recipes.session.sequence_criteria import (
    SEQUENCE_KEYS,
    compute_here,
    give_lattices,
    lattice_criteria,
    sequence_keys_of,
)
from cntk_kit_recipes.session.session import TrainingSession
from cntk_kit_recipes.session.stop_request import StopRequest
from cntk_kit_recipes.session.stop_signals import listening

_READERS = ("reader", "cvReader")


class TrainAction(Action):
    """Trains a network."""

    requires_api = "1.0"
    name = "train"
    writes = ("modelPath",)
    needs_engine = True
    on_all_ranks = True
    announces_itself = True

    def check(self, context: ActionContext, section: Config) -> None:
        """Raise what is wrong with the section before anything runs; all of it together."""
        problems: list[CntkError] = []
        for step in (_check_keys, _check_builder, check_readers, _check_sgd):
            collect(partial(step, context, section), problems)
        raise_problems(problems)

    def run(self, context: ActionContext, section: Config) -> None:
        """Train, or go on with a training that was stopped."""
        train(context, section, _sgd(section), _network(context, section))


def _check_keys(context: ActionContext, section: Config) -> None:
    _check_model_path(context, section.require("modelPath"))
    resumption(section)
    if section.get("optimizer") is not None:
        raise UnsupportedError(
            "optimizer=... belongs to recipes that are BrainScript as a whole (cntk -f)",
            where=section.location("optimizer"),
            hint="Call the block SGD.",
        )


def _check_model_path(context: ActionContext, value: Value) -> None:
    path = Path(value.string())
    if path.is_dir():
        raise ConfigError(
            f"modelPath '{path}' is a folder",
            where=value.where,
            hint=f"Give the name of a file, such as {path / 'net.dnn'}.",
        )
    # The files of a training hold more than others can: only our own format can be gone on with.
    if path.suffix and not isinstance(ModelFiles(context.plugins.registry).writer(path), CoreFormat):
        own = path.with_suffix(".dnn")
        raise ConfigError(
            f"modelPath '{path}' is called like a file of another format, but a training writes our own",
            where=value.where,
            hint=f"Name it {own}, and afterwards: cntk convert {own} -o {path}",
        )


def _check_builder(context: ActionContext, section: Config) -> None:
    value = context.builder_value(section)
    if value is None:
        raise context.no_builder(section)
    context.plugins.registry.builders.get(value.short_name, where=value.key_where)


def check_readers(context: ActionContext, section: Config) -> None:
    """Raise what is wrong with the readers of a section that trains."""
    for key in _READERS:
        if key == "reader" or section.get(key) is not None:
            context.reader_class(section, key)
    truncated = section.section("reader").own("truncated")
    if truncated is not None and section.top.own("truncated") is None and _sgd(section).own("truncated") is None:
        raise ConfigError(
            "DisableLegacyUsage: setting Truncated only in reader section are not allowed. Please move "
            "Truncated=true/false to the top level section.",
            where=truncated.key_where or truncated.where,
        )


def _check_sgd(context: ActionContext, section: Config) -> None:
    settings_of(context, _sgd(section))
    sequence_keys_of(section, _sgd(section))
    read_early_stopping(_sgd(section))
    ranks_of(context, _sgd(section))


def _sgd(section: Config) -> Config:
    return section.section("SGD")


def settings_of(
    context: ActionContext,
    block: Config,
    note: Callable[[str], None] | None = None,
    *,
    used: Collection[str] = (),
) -> tuple[SGDSettings, Learner]:
    """Read an SGD block and make the learner that it asks for.

    ``note`` is told what has no effect; keys that others obey are ``used``.
    """
    value = block.get("gradUpdateType")
    name = learner_name(block)
    learner_class = context.plugins.registry.learners.get(name, where=None if value is None else value.where)
    keys = {*gathered(context.hooks.listeners("cntk_sgd_keys"))}
    keys |= {*gathered(context.hooks.listeners("cntk_section_keys"), section="SGD"), *used}
    block = with_schedules(block, context.plugins.registry.schedules)
    settings = read_settings(block, learner_class.options, note=note, listener_keys=keys, ranks=context.ranks)
    learner = make_learner(block, learner_class)
    idle = idle_momentum(block, learner)
    if idle and note is not None:
        note(idle)
    return settings, learner


def ranks_of(context: ActionContext, block: Config) -> Ranks:
    """Return the ranks that train together, with the strategy of an SGD block."""
    if context.communicator is None:
        return Alone()
    registry = context.plugins.registry
    asked = read_parallel(block, registry.parallelizers, registry.aggregations)
    strategy = asked.parallelizer or NoExchange()
    strategy.say = context.log.line
    return Ranks(context.communicator, strategy, asked.name, asked.settings)


def _network(context: ActionContext, section: Config) -> Network:
    """Build the network; where that fails and an earlier run left a model, training goes on from it anyway."""
    try:
        return context.describe_network(section)
    except CntkError as error:
        begun = _begun_model(section)
        if begun is None:
            raise
        context.log.line(f"Warning: the description of the network is not used, '{begun}' is: {error}")
        return context.load_model(str(begun))


def _begun_model(section: Config) -> Path | None:
    """Return the newest model that an earlier run, or another action, left for this training."""
    if not resumption(section).make_mode:
        return None
    local_family(section.string("modelPath"), section.location("modelPath"))
    paths = ModelPaths(Path(section.string("modelPath")), _sgd(section).integer("maxEpochs"))
    if paths.final.is_file():
        return paths.final
    numbers = [epoch for epoch in [*paths.existing(), 0] if epoch < paths.epochs]
    return next((paths.model(epoch) for epoch in sorted(numbers, reverse=True) if paths.model(epoch).is_file()), None)


def train(
    context: ActionContext,
    section: Config,
    sgd: Config,
    network: Network,
    *,
    action: str = "train",
    change: Callable[[DataReader], DataReader] | None = None,
) -> None:
    """Train a network with the reader of a section.

    Args:
        context: of the run.
        section: the command section.
        sgd: its SGD block.
        network: what is trained; it may have values already.
        action: what listeners are told.
        change: makes another reader of the one for training; it is told the first one and closes it.
    """
    sequences = SEQUENCE_KEYS if lattice_criteria(network) else ()
    settings, learner = settings_of(context, sgd, note=context.log.line, used=sequences)
    lattices, computed = sequence_keys_of(section, sgd)
    prepare = compute_here if computed else give_lattices
    if computed:
        context.log.line("SequenceWithSoftmax of the network computes what CNTK's reader did for DummyCriterion.")
    prepare(network, lattices)
    ranks = ranks_of(context, sgd)
    if context.communicator is not None and not ranks.exchange:
        context.log.line(
            f"Warning: there are {ranks.size} ranks, but the SGD block names no parallelizationMethod: "
            f"each of them trains on all the data. To share it, {ADVICE}."
        )
    if settings.truncated and ranks.size > 1 and ranks.exchange and settings.momentum_per_mb is not None:
        context.log.line(
            "Warning: with truncated=true, momentumPerMB is that of the sequences side by side, which differ from rank "
            "to rank: the ranks' models drift apart. momentumAsTimeConstant keeps them together."
        )
    model, going_on = section.string("modelPath"), resumption(section)
    local_family(model, section.location("modelPath"))
    readers = _open_readers(context, section, network)
    if change is not None:
        readers[0] = change(readers[0])
    log, stop = context.run_log(section), StopRequest()
    try:
        engine = context.make_engine(section)
        context.note_plugins(network)
        session = TrainingSession(
            network,
            engine,
            readers[0],
            learner,
            for_factors(settings, readers[0].minibatch_factor),
            model,
            load_model=_loading(context, network.origins, partial(prepare, keys=lattices)),
            cv_reader=readers[1] if len(readers) > 1 else None,
            hooks=context.hooks,
            log=log,
            make_mode=going_on.make_mode or context.loss.begun,
            resume=going_on.beyond,
            must_resume=going_on.must,
            ranks=ranks,
            stop=stop,
            after_loss=context.loss.said,
            begun=context.begun,
            early_stopping=read_early_stopping(sgd),
            traces=read_traces(sgd, log.line),
            newcomers=context.newcomers,
            job=_job(context, section, action, sgd, settings.max_epochs),
        )
        with listening(stop):
            session.run()
    finally:
        for reader in readers:
            reader.close()


def _loading(
    context: ActionContext, origins: tuple[Origin, ...], prepare: Callable[[Network], Network]
) -> Callable[[Path, Any], Network]:
    """Return what loads the models of earlier epochs: the plugins of this run have a part in them from now on."""
    files = ModelFiles(context.plugins.registry)

    def load(path: Path, dtype: Any) -> Network:
        network = files.load(path, dtype)
        network.origins = merged(network.origins, origins)
        return prepare(network)

    return load


def _job(context: ActionContext, section: Config, action: str, sgd: Config, epochs: int) -> Job:
    """Return what listeners are told of a training; the session adds the network."""
    return Job(
        section.name,
        action,
        context.engine_name(section),
        model_path=Path(section.string("modelPath")),
        epochs=epochs,
        rank=context.rank,
        ranks=context.ranks,
        block=sgd,
    )


def _open_readers(context: ActionContext, section: Config, network: Network) -> list[DataReader]:
    keys = [key for key in _READERS if section.get(key) is not None]
    inputs = _needed_inputs(network)
    return [context.make_reader(section, inputs, key=key) for key in keys]


def _needed_inputs(network: Network) -> Sequence[Input]:
    """Inputs of the criteria, evaluation nodes and values computed beforehand; others need not be in the data."""
    roots = [*network.roots["criterion"], *network.roots["evaluation"]]
    roots += [node for node in network if node.op.role == "precompute"]
    return inputs_of(network, roots)
