"""What actions share: the recipe, precision, plugins, and how readers, networks and engines are made from a section."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, cast

import attrs
import numpy as np

from cntk_core.config import Config, Value
from cntk_core.contract.builder import BuildContext, SeedNumbers
from cntk_core.contract.events import Job, MinibatchSource
from cntk_core.contract.reader import DataReader, ReaderContext
from cntk_core.contract.writer import DataWriter, WriterContext
from cntk_core.errors import CntkError, ConfigError, DataError, Location, WrongResult, did_you_mean, shown
from cntk_core.network.initializers import initialize_parameters, use_one_seed
from cntk_core.network.network import Network
from cntk_core.network.node import Input
from cntk_core.plugins.addresses import local_path
from cntk_core.plugins.listening import gathered, passed_on
from cntk_core.plugins.model_formats import ModelFiles
from cntk_core.plugins.took_part import op_origins, origins_of
from cntk_core.records.origin import merged, summary
from cntk_core.training.loop.alone import Alone
from cntk_core.training.loop.ranks import ParallelSettings, Ranks
from cntk_core.trust import ask_to_write
from cntk_kit_recipes.recipe.changed_data import with_changes
from cntk_kit_recipes.recipe.checked_reader import checked
from cntk_kit_recipes.recipe.core_blocks import offer_core_blocks
from cntk_kit_recipes.recipe.descriptions import network_value, network_words, own_name
from cntk_kit_recipes.recipe.initializers import make_initializer
from cntk_kit_recipes.recipe.log import Log
from cntk_kit_recipes.recipe.lost_ranks import Loss
from cntk_kit_recipes.recipe.run_plugins import make_plugins, recipe_plugins
from cntk_kit_recipes.session.remarks import remarks
from cntk_kit_recipes.session.run_log import RunLog

if TYPE_CHECKING:
    from cntk_core.contract.engine import ExecutionEngine
    from cntk_core.contract.parallel import Communicator
    from cntk_core.plugins.manager import Device, PluginManager

DEFAULT = "default"
"""The word of the reader that reads blocks which name none."""

_COMPOSING = {"readers": ("SideBySide", "readers"), "deserializers": ("Composite", "Composite")}
"""Keys of blocks that compose a reader of others: the reader that does, and what messages call it."""


@attrs.frozen(eq=False)
class ActionContext:
    """What an action is given beside its section.

    Attributes:
        config: the top level of the recipe.
        log: where lines go.
        plugins: the plugin manager of this run.
        dtype: precision of values and parameters.
        progress: whether a progress bar is shown on the console.
        communicator: of the ranks that run this recipe together; None in a serial run.
        loss: what is known of ranks that were lost.
        begun: set when the job has saved something.
        seeds: numbers the random parameters of all networks of this run.
        job: what listeners are told of the action that runs; None for one that tells them itself.
        alone: what connects a rank that is left alone, and so trains as a serial run does, with those who come to it.
    """

    config: Config
    log: Log
    plugins: PluginManager
    dtype: np.dtype[Any]
    progress: bool = False
    communicator: Communicator | None = None
    loss: Loss = attrs.field(factory=Loss)
    begun: Event = attrs.field(factory=Event)
    seeds: SeedNumbers = attrs.field(factory=SeedNumbers)
    job: Job | None = None
    alone: Communicator | None = None

    @classmethod
    def create(
        cls,
        config: Config,
        log: Log,
        *,
        plugin_files: Sequence[str] = (),
        listeners: Sequence[object] = (),
        plugins: PluginManager | None = None,
        progress: bool = False,
        communicator: Communicator | None = None,
    ) -> ActionContext:
        """Return the context of a run.

        ``plugin_files`` are loaded and ``listeners`` get its events, unless there are ``plugins`` already.
        """
        if plugins is None:
            plugins = make_plugins(log, plugin_files, listeners, recipe=recipe_plugins(config))
        if config.unread is not None:
            offer_core_blocks(config.unread)
        for listener in plugins.listeners("cntk_configure"):
            listener(config=config)
        return cls(config, log, plugins, precision_of(config), progress, communicator)

    @property
    def rank(self) -> int:
        """This rank, from 0."""
        return self.communicator.rank if self.communicator is not None else 0

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.communicator.size if self.communicator is not None else 1

    def newcomers(self) -> bool:
        """Whether other ranks wait to be taken in; all ranks ask, and get the same answer."""
        communicator = self.communicator or self.alone
        if communicator is None or not communicator.is_elastic:
            return False
        found = np.array([communicator.newcomers if communicator.rank == 0 else 0])
        communicator.broadcast(found)
        return bool(found[0])

    def evaluating_ranks(self, section: Config) -> Ranks:
        """Return the ranks that evaluate together what a section asks for."""
        if self.communicator is None:
            return Alone()
        shared = section.boolean("distributedMBReading", True)
        return Ranks(self.communicator, settings=ParallelSettings(distributed_reading=shared))

    @property
    def trace(self) -> int:
        """``traceLevel`` of the top level."""
        return self.config.integer("traceLevel", 0)

    @property
    def hooks(self) -> PluginManager:
        """Who listens to events."""
        return self.plugins

    def run_log(self, section: Config) -> RunLog:
        """Return what writes the log lines of training and evaluation, at the trace level of a section."""
        return RunLog(self.log, trace_level=section.integer("traceLevel", 0), bar=self.progress)

    # -- readers ------------------------------------------------------------------------------------------

    def reader_class(self, section: Config, key: str = "reader") -> tuple[type[DataReader], Config, str]:
        """Return the class of the reader that a section asks for, the reader's block, and the name in the recipe.

        Raises:
            MissingKeyError, PluginError, UnsupportedError: there is no block, or nothing can read it.
        """
        block = section.section(key)
        readers = self.plugins.registry.readers
        for composing, (name, title) in _COMPOSING.items():
            value = block.own(composing)
            if value is not None:
                return readers.get(name, where=value.key_where).composed(readers.get, self.reader_name), block, title
        name, where = self.reader_name(block)
        return readers.get(name, where=where), block, name

    def reader_name(self, block: Config) -> tuple[str, Location]:
        """Return the name of the reader that a block asks for, and where it stands; without one the default one's."""
        value = block.own("readerType")
        if value is not None:
            return value.string(), value.where
        return own_name(self.plugins.registry.readers, DEFAULT), block.where

    def make_reader(
        self,
        section: Config,
        inputs: Iterable[Input] = (),
        *,
        key: str = "reader",
        for_writing: bool = False,
        in_order: bool = False,
    ) -> DataReader:
        """Make the reader of a section for the inputs of a network, and check that it has them all.

        Args:
            section: the command section.
            inputs: the inputs that the network needs; none when only the data is looked at.
            key: the block of the reader: ``reader`` or ``cvReader``.
            for_writing: the write action wants file order whatever the recipe says.
            in_order: file order unless the block says something else.

        Raises:
            CntkError: the block is wrong, a file is missing, a stream is missing.
        """
        reader_class, block, name = self.reader_class(section, key)
        if for_writing or (in_order and block.own("randomize") is None):
            block = block.with_entries("randomize=false")
        wanted = list(inputs)
        what = f"reader '{name}'"
        block = self.without_hook_keys(block, key)
        options = reader_class.settings_from(block, what)
        context = ReaderContext(
            dtype=self.dtype,
            inputs={node.name: node.known_shape for node in wanted},
            for_writing=for_writing,
            trace=self.log.line,
            general=reader_class.general_from(block, what),
        )
        reader = reader_class(options, context)
        try:
            sound = self._checked(reader, name)
            _check_streams(sound, wanted, block)
        except CntkError:
            reader.close()
            raise
        if not wanted:
            self.say_unread()
            return reader
        source = MinibatchSource(section.name, key, 0, 0, self.rank)
        return with_changes(sound, self.plugins.listeners("cntk_minibatch_read"), source)

    def _checked(self, reader: DataReader, name: str) -> DataReader:
        """Return a reader that gives what a reader called so gives, checked if it is somebody else's."""
        readers = self.plugins.registry.readers
        return checked(reader, readers.find(name).source) if name in readers else reader

    # -- writers ------------------------------------------------------------------------------------------

    def writer_class(self, section: Config) -> tuple[type[DataWriter], Config, str]:
        """Return the class of the writer that a section asks for, the writer's block, and the name in the recipe.

        Raises:
            MissingKeyError, PluginError: there is no block, it names no writer, or nothing installed offers it.
        """
        block = section.section("writer")
        value = block.own("writerType")
        if value is None:
            raise block.missing("writerType")
        name = value.string()
        return self.plugins.registry.writers.get(name, where=value.where), block, name

    def make_writer(self, section: Config, outputs: Mapping[str, int]) -> DataWriter:
        """Make the writer of a section for output nodes with so many elements.

        Raises:
            CntkError: the block is wrong, or does not fit the nodes.
        """
        writer_class, block, name = self.writer_class(section)
        options = writer_class.settings_from(self.without_hook_keys(block, "writer"), f"writer '{name}'")
        return writer_class(options, WriterContext(outputs, self.log.line))

    def without_hook_keys(self, block: Config, section: str) -> Config:
        """Return a block without the keys that plugins with hooks look up in blocks called so."""
        keys = gathered(self.plugins.listeners("cntk_section_keys"), section=section)
        return block.without(keys) if keys else block

    # -- networks -----------------------------------------------------------------------------------------

    def builder_value(self, section: Config) -> Value | None:
        """Return the value that describes a network, found here or in a parent, or None."""
        return network_value(self.plugins.registry, section)

    def no_builder(self, section: Config) -> ConfigError:
        """Return the error that says that a section describes no network."""
        words = network_words(self.plugins.registry)
        near = {key: guess for key in section.keys() if (guess := did_you_mean(key, words))}  # noqa: SIM118 - no dict
        key = next(iter(near), None)
        return ConfigError(
            f"No network builder found in the section {section.name}"
            + ("" if key is None else f": there is none called '{key}'{near[key]}"),
            where=section.where if key is None else section.location(key),
            hint=f"one of these must be specified: {', '.join(words)}",
        )

    def describe_network(self, section: Config, build: BuildContext | None = None) -> Network:
        """Build the network that a section describes; shapes and values are still to come.

        ``build`` replaces what builders are told otherwise.

        Raises:
            ConfigError: no builder is named.
            CntkError: the description is wrong, or its builder is not installed.
        """
        value = self.builder_value(section)
        if value is None:
            raise self.no_builder(section)
        registry = self.plugins.registry
        builder = registry.builders.get(value.short_name, where=value.key_where)()
        network = builder.build(value, build or self.build_context())
        if not isinstance(network, Network):
            raise WrongResult(builder.build, f"returned {shown(network)}, not a network")
        if self.config.boolean("forceConstantRandomSeed", False):
            use_one_seed(network)
        listeners = self.plugins.listeners("cntk_network_built")
        return cast(Network, passed_on(listeners, "network", network=network, config=section))

    def build_context(self) -> BuildContext:
        """Return what builders are told beside their block."""
        ops = self.plugins.registry.ops
        return BuildContext(
            find_op=ops.find,
            op_names=ops.names,
            dtype=self.dtype,
            directory=Path(),
            load_model=self.load_model,
            save_model=self.save_model,
            trace=self.log.line,
            seeds=self.seeds,
            make_initializer=partial(make_initializer, self.plugins.registry),
        )

    def build_network(self, section: Config) -> Network:
        """Build the network that a section describes, with shapes and the first values of the parameters."""
        network = self.describe_network(section)
        network.infer()
        initialize_parameters(network)
        return network

    def load_model(self, path: str, where: Location | None = None, *, as_saved: bool = False) -> Network:
        """Load a model file in the precision of this run, or with ``as_saved`` in its own.

        Raises:
            DataError: there is no such file.
            ModelFormatError: it is not a model.
        """
        path = local_path(path, where, again=True)
        if not Path(path).exists():
            raise DataError(
                f"the model '{path}' does not exist", where=where, hint="Train it first, or mend modelPath."
            )
        return ModelFiles(self.plugins.registry).load(path, None if as_saved else self.dtype)

    def save_model(self, network: Network, path: str, where: Location | None = None) -> None:
        """Write a model file in the format that its suffix says, else in our own; missing folders are made.

        Raises:
            DataError: the file cannot be written.
            CntkError: the format cannot hold this network.
            Locked: another process writes it.
        """
        from cntk_kit_recipes.locks.lock import Lock

        path = local_path(path, where)
        ask_to_write(path, where=where)
        network.origins = merged(network.origins, op_origins(self.plugins, network))
        try:
            with Lock(Path(path), f"the model '{path}'", self.log.line).held():
                ModelFiles(self.plugins.registry).save(network, path)
        except OSError as error:
            raise DataError(f"the model '{path}' cannot be written: {error.strerror}", where=where) from None

    def network_of(self, section: Config) -> Network:
        """Return the network of a test or write section: described in the section, else loaded from ``modelPath``."""
        if self.builder_value(section) is not None:
            network = self.build_network(section)
        else:
            value = section.require("modelPath")
            network = self.load_model(value.string(), value.where)
        for line in remarks(network):
            self.log.line(line)
        return network

    def note_plugins(self, network: Network) -> None:
        """Log the plugins that take part in the job, and let the network say it: it is saved with models.

        To be called when the reader, the engine and whatever else the job needs are made. Keys of the recipe that
        nothing has read until then are logged, too.

        Raises:
            OptionError, Problems: one of these keys is an option of another block.
        """
        self.say_unread()
        network.origins = merged(network.origins, now := origins_of(self.plugins, network))
        if now:
            self.log.line(f"Plugins: {summary(now)}")

    def say_unread(self) -> None:
        """Log the keys of the recipe's blocks that nothing has read, those that were not logged before, in one line.

        Raises:
            OptionError, Problems: one of them is an option of another block.
        """
        if self.config.unread is not None and (line := self.config.unread.take()):
            self.log.line(line)

    # -- engines ------------------------------------------------------------------------------------------

    def make_engine(self, section: Config) -> ExecutionEngine:
        """Make the engine: ``engine=`` names it, by default the best that can run here; ``deviceId`` may ask for a GPU.

        Raises:
            PluginError: it is not installed, cannot run here, or has no such device.
        """
        name, engine_class = self.engine_class(section)
        engine = engine_class(engine_class.settings_from(section.child("", name="engine"), f"engine '{name}'"))
        engine.kernels = self.plugins.registry.kernels.of(engine_class)
        return engine

    def engine_name(self, section: Config) -> str:
        """Return the name of the engine that :meth:`make_engine` makes, also where the recipe asks for ``auto``.

        Raises:
            PluginError: it is not installed, cannot run here, or has no such device.
        """
        name, engine_class = self.engine_class(section)
        return self.plugins.name_of_engine(engine_class) or name

    def check_device(self) -> None:
        """Make sure that there is an engine for the device that the recipe asks for.

        Raises:
            PluginError: there is none.
        """
        if isinstance(device_of(self.config), int):
            self.engine_class(self.config)

    def engine_class(self, section: Config) -> tuple[str, type[ExecutionEngine]]:
        """Return the name and the class of the engine that :meth:`make_engine` makes.

        Raises:
            PluginError: it is not installed, cannot run here, or has no such device.
        """
        value, device = section.get("engine"), section.get("deviceId")
        name = "auto" if value is None else value.string()
        place = device if device is not None else value
        where = value.where if value is not None else None
        chosen = device_of(section)
        return name, self.plugins.engine(
            name, where=where, device=chosen, device_where=None if place is None else place.where
        )


def _check_streams(reader: DataReader, inputs: Sequence[Input], block: Config) -> None:
    offered = [stream.name for stream in reader.streams]
    known = {name.lower() for name in offered}
    for node in inputs:
        if node.name.lower() not in known:
            raise DataError(
                f"Could not map input '{node.name}' to the reader. Reader outputs only: {', '.join(sorted(offered))}",
                where=block.where,
                hint=f"Add a stream {node.name}=[ dim=... ; format=... ] to the input of the reader.",
            )


def precision_of(config: Config) -> np.dtype[Any]:
    """Return the precision that the recipe asks for.

    Raises:
        ConfigError: it is neither float nor double.
    """
    name = config.string("precision", "float")
    if name not in ("float", "double"):
        raise ConfigError(
            f'Invalid precision string: "{name}", must be "float" or "double"', where=config.location("precision")
        )
    return np.dtype(np.float32 if name == "float" else np.float64)


def device_of(config: Config) -> Device:
    """Return what ``deviceId`` asks for: ``auto``, ``cpu`` (or -1), or the number of a device such as a GPU.

    Raises:
        ConfigError: it is no device.
    """
    value = config.get("deviceId")
    text = "auto" if value is None else value.string().lower()
    if text == "auto":
        return "auto"
    if text == "cpu":
        return "cpu"
    assert value is not None
    number = _device_number(value)
    return number if number >= 0 else "cpu"


def _device_number(value: Value) -> int:
    try:
        return value.integer()
    except ConfigError:
        raise value.error("a device", "Accepted: auto, cpu, -1 (CPU), or the number of a GPU.") from None
