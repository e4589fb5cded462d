"""A trained model in Python: load it, give it sequences, get the values of its nodes.

``Model.load("net.dnn").evaluate({"words": [[3, 1, 4], [1, 5]]})["z"]`` is a list of two arrays, of 3 and 2 rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from cntk_core.config import parse_text
from cntk_core.contract.engine import ExecutionEngine, Program
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import DataError, NetworkError
from cntk_core.network.network import Network
from cntk_core.network.node import Node
from cntk_core.ops.language.layouts import slot_layout
from cntk_core.plan.arrays import OneHot, Taken, one_hot, take_arrays
from cntk_core.plan.make import make_plan
from cntk_core.plugins.manager import AUTO, PluginManager
from cntk_core.plugins.model_formats import ModelFiles
from cntk_core.records.layout import SequenceLayout

__all__ = ["Model", "OneHot", "Stream", "one_hot"]

Values = Mapping[str, Any] | Sequence[Any] | NDArray[Any]
"""For each input by name what it takes, or for the only input: see :mod:`cntk_core.plan.arrays`."""

EMPTY: Mapping[str, Any] = MappingProxyType({})


class Model:
    """A network with its values, ready to be evaluated.

    Args:
        network: with shapes and values.
        engine: name of the engine; ``auto`` is the best one here. An engine is taken as it is.
        settings: keys of the engine, as a recipe has them: ``numCPUThreads=1``.
        plugins: the plugin manager, if there is one already.

    Attributes:
        network, engine, plugins: what it was made of.
        store: the parameters; those of a network that is being trained are the trainer's.
    """

    def __init__(
        self,
        network: Network,
        *,
        engine: str | ExecutionEngine = AUTO,
        settings: str = "",
        plugins: PluginManager | None = None,
    ) -> None:
        self.network = network
        self._given = engine, settings
        self.plugins = plugins or PluginManager()
        if isinstance(engine, str):
            engine_class = self.plugins.engine(engine)
            engine = engine_class(engine_class.settings_from(parse_text(settings), f"engine '{engine}'"))
            engine.kernels = self.plugins.registry.kernels.of(engine_class)
        self.engine = engine
        self.store = ParameterStore.of(network.parameters, network.dtype)
        self._programs: dict[tuple[Node, ...], Program] = {}
        self._streams: dict[tuple[Node, ...], Program] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_again, (type(self), self.network, *self._given)

    @classmethod
    def load(cls, path: str | Path, *, engine: str = AUTO, settings: str = "") -> Model:
        """Read a model file of any format that is installed.

        Raises:
            ModelFormatError: it is missing or damaged.
            PluginError: there is no such engine.
        """
        plugins = PluginManager()
        network = ModelFiles(plugins.registry).load(path)
        return cls(network, engine=engine, settings=settings, plugins=plugins)

    def evaluate(self, data: Values = EMPTY, outputs: Sequence[str] = ()) -> dict[str, Any]:
        """Return values of nodes, for each a list with one array ``(frames, *shape)`` for each sequence.

        What has no sequences, or gets one array of samples, is one array ``(samples, *shape)``; what has no dynamic
        axis is one of its shape.

        Args:
            data: the inputs that the outputs need.
            outputs: names of nodes; by default the network's outputs.

        Raises:
            DataError: an input is missing or does not fit.
            NetworkError: there is no such node.
        """
        nodes = self._nodes(outputs)
        program = self._program(nodes, self._programs)
        program.begin_epoch(0)
        return _run(program, nodes, take_arrays(program.plan, data))

    def stream(self, outputs: Sequence[str] = ()) -> Stream:
        """Return what evaluates sequences piece by piece, as they come in. One stream at a time.

        Args:
            outputs: as of :meth:`evaluate`; they may not look ahead.

        Raises:
            NetworkError: there is no such node, or one looks ahead or at whole sequences.
        """
        nodes = self._nodes(outputs)
        for node in self.network.order(nodes):
            if node.op.traits.delay < 0 or node.op.new_axis:
                raise NetworkError(
                    f"'{node.name}' ({node.op.name}) needs whole sequences; the model cannot be evaluated as a stream",
                    where=node.where,
                )
        return Stream(self._program(nodes, self._streams), nodes)  # evaluations in between leave its state alone

    def _nodes(self, names: Sequence[str]) -> tuple[Node, ...]:
        if isinstance(names, str):
            names = (names,)
        nodes = tuple(self.network[name] for name in names) or tuple(self.network.roots["output"])
        if not nodes:
            raise NetworkError("the network marks no output", hint="Name the nodes whose values you want.")
        return nodes

    def _program(self, nodes: tuple[Node, ...], made: dict[tuple[Node, ...], Program]) -> Program:
        if nodes not in made:
            made[nodes] = self.engine.compile(make_plan(self.network, nodes), self.store)
        return made[nodes]


def _made_again(kind: type[Model], network: Network, engine: str | ExecutionEngine, settings: str) -> Model:
    return kind(network, engine=engine, settings=settings)


class Stream:
    """Evaluates sequences piece by piece; the state goes from piece to piece. Made by :meth:`Model.stream`."""

    def __init__(self, program: Program, nodes: tuple[Node, ...]) -> None:
        self._program = program
        self._nodes = nodes
        self._count = 0
        self._begun = False
        self.restart()

    def restart(self) -> None:
        """Forget the state: what comes next begins new sequences."""
        self._count = 0
        self._begun = False
        self._program.begin_epoch(0)

    def feed(self, data: Values) -> dict[str, Any]:
        """Take the next frames of each sequence, and return the outputs at them.

        Raises:
            DataError: an input is missing or does not fit, or there are other sequences than before.
        """

        def layout(lengths: Sequence[int]) -> SequenceLayout:
            count = len(lengths)
            if self._count not in (0, count):
                raise DataError(f"the stream has {self._count} sequences; now there are {count}")
            begun = [self._begun] * count
            self._count = count
            return slot_layout([[length] for length in lengths], continued=begun, continues=[True] * count)

        given = take_arrays(self._program.plan, data, make_layout=layout)
        self._begun = True
        return _run(self._program, self._nodes, given)


def _run(program: Program, nodes: Iterable[Node], given: Taken) -> dict[str, Any]:
    program.evaluate(given.minibatch)
    return {
        node.name: given.value(node, program.value(node.name), program.layout(node.name) if node.framed else None)
        for node in nodes
    }
