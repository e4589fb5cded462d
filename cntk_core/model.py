"""A trained model in Python: load it, give it sequences, get the values of its nodes.

``Model.load("net.dnn").evaluate({"words": [[3, 1, 4], [1, 5]]})["z"]`` is a list of two arrays, of 3 and 2 rows.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any
from weakref import finalize

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.config import parse_text
from cntk_core.contract.engine import ExecutionEngine, Program
from cntk_core.contract.host_program import compile_plan
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import DataError, NetworkError
from cntk_core.network.network import Network
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.families.normalization import BatchNormalizationAttributes
from cntk_core.ops.language.layouts import slot_layout
from cntk_core.plan.arrays import OneHot, Taken, one_hot, take_arrays
from cntk_core.plan.make import make_plan
from cntk_core.plugins.addresses import deliver, local_path
from cntk_core.plugins.manager import AUTO, PluginManager
from cntk_core.plugins.model_formats import ModelFiles
from cntk_core.records.layout import SequenceLayout
from cntk_core.training.chosen_nodes import find_node

__all__ = ["Differentiable", "Model", "OneHot", "Stream", "gradients", "one_hot"]

Names = str | Node | Sequence[str | Node]
"""A node or its name, or several."""

Seeds = Mapping[str, Any] | None

Values = Mapping[str, Any] | Sequence[Any] | NDArray[Any]
"""For each input by name what it takes, or for the only input: see :mod:`cntk_core.plan.arrays`."""

EMPTY: Mapping[str, Any] = MappingProxyType({})


class Model:
    """A network with its values, ready to be evaluated.

    Threads may share it to :meth:`evaluate`: they take turns. Derivatives and streams are for one thread at a time.

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
        engine, settings = self._given
        return partial(type(self), engine=engine, settings=settings), (self.network,)

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

    def evaluate(self, data: Values = EMPTY, outputs: Names = ()) -> dict[str, Any]:
        """Return values of nodes, for each a list with one array ``(frames, *shape)`` for each sequence.

        What has no sequences, or gets one array of samples, is one array ``(samples, *shape)``; what has no dynamic
        axis is one of its shape.

        Args:
            data: the inputs that the outputs need.
            outputs: nodes, or their names; by default the network's outputs.

        Raises:
            DataError: an input is missing or does not fit.
            NetworkError: there is no such node.
        """
        nodes = self._nodes(outputs)
        with self.store.turn:
            program = self._program(nodes, self._programs)
            program.begin_epoch(0)
            return _run(program, nodes, take_arrays(program.plan, data))

    def stream(self, outputs: Names = ()) -> Stream:
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

    def differentiable(self, by: Names, roots: Names = (), *, settings: Mapping[str, float] = EMPTY) -> Differentiable:
        """Return what evaluates nodes and lets gradients flow back from them, any number of times.

        Args:
            by: the nodes by which gradients are wanted: inputs that are not sparse, parameters, inner nodes. Without
                any, values alone are computed, as in :meth:`evaluate`, but random numbers go on from one to the next.
            roots: the nodes to begin from, of any shape; by default the network's outputs.
            settings: numbers that operations ask for in training, such as ``dropoutRate``.

        Raises:
            NetworkError: there is no such node, or the roots do not depend on one of those.
        """
        nodes, sources = self._nodes(roots), self._nodes(by) if by else ()
        plan = make_plan(self.network, nodes, by=sources)

        def make() -> Program:
            program = compile_plan(self.engine, plan, self.store)
            program.begin_epoch(0, settings)
            return program

        return Differentiable(make)

    def gradients(self, data: Values, by: Names, roots: Names = (), seeds: Seeds = None) -> dict[str, Any]:
        """Return the gradients of nodes by others, by name, each as :meth:`evaluate` gives values.

        Nothing is dropped, and statistics are those that were learned. For several minibatches
        :meth:`differentiable` compiles once; arguments and what is raised are as there and in :class:`Differentiable`.
        """
        found = self.differentiable(by, roots)
        found.forward(data)
        return found.backward(seeds)

    def clone(self, upto: Names = (), *, freeze: bool | Names = False) -> Model:
        """Return a model with a copy of the network, or of a part of it: what a fine-tuning begins with.

        Args:
            upto: the outputs of the copy, which has only what they need; by default it has everything.
            freeze: nodes; what they need stays as it is in training, statistics too. True is everything.

        Raises:
            NetworkError: there is no such node.
        """
        network = copy.deepcopy(self.network)
        if upto:
            roots = [network[node.name] for node in self._nodes(upto)]
            kept = set(network.order(roots))
            for node in [node for node in network if node not in kept]:
                network.remove(node)
            network.roots["output"] = roots
        frozen = network if freeze is True else [network[node.name] for node in self._nodes(freeze)] if freeze else []
        for node in network.order(frozen):
            if isinstance(node, Parameter):
                node.learning_rate_multiplier = 0.0
            elif isinstance(node.attributes, BatchNormalizationAttributes):
                forever = {"normalization_time_constant": math.inf, "blend_time_constant": math.inf}
                node.attributes = attrs.evolve(node.attributes, **forever)  # type: ignore[arg-type]
                variance, *count = (np.asarray(child.value) for child in node.inputs[4:])
                if variance.any() and count and not count[0].any():
                    node.inputs[5].value = np.ones_like(count[0])  # at 0 a first minibatch would take its place
        return type(self)(network, engine=self._given[0], settings=self._given[1], plugins=self.plugins)

    def save(self, path: str | Path, form: str = "", *, check: bool = False, **settings: Any) -> str:
        """Write the network with its values, as ``cntk convert`` does.

        Args:
            path: the file; its suffix says the format, unless ``form`` names one.
            form: name of the format, whose ``settings`` follow.
            check: return what another program makes of the file.

        Raises:
            CntkError: there is no such format or setting, it cannot hold this network, or the check fails.
            OSError: the file cannot be written; what was there is untouched.
        """
        writer = ModelFiles(self.plugins.registry).writer(path, form)
        writer.take_settings({name: str(value) for name, value in settings.items()})
        file = Path(local_path(path))
        writer.save(self.network, file)
        deliver()
        return writer.check(self.network, file) if check else ""

    def onnx(self, path: str | Path, **settings: Any) -> str:
        """Write a graph of ONNX, as :meth:`save` writes any format; ``check=True`` has onnxruntime run it."""
        return self.save(path, "ONNX", **settings)

    def __repr__(self) -> str:
        sides = (", ".join(node.name for node in some) for some in (self.network.inputs, self.network.roots["output"]))
        return f"<{type(self).__name__} {' -> '.join(sides)}, {len(self.network)} nodes>"

    def _repr_html_(self) -> str:
        """Show notebooks inputs, outputs and parameters, and a picture where something has come that can draw."""
        network = self.network
        shown = "\n".join(node.describe() for node in (*network.inputs, *network.roots["output"], *network.parameters))
        return f'<div style="overflow: auto"><pre>{escape(shown)}</pre>{network._repr_svg_() or ""}</div>'

    def _nodes(self, names: Names) -> tuple[Node, ...]:
        several = names if isinstance(names, Sequence) and not isinstance(names, str) else (names,)
        nodes = tuple(find_node(self.network, name) for name in several) or tuple(self.network.roots["output"])
        if not nodes:
            raise NetworkError("the network marks no output", hint="Name the nodes whose values you want.")
        return nodes

    def _program(self, nodes: tuple[Node, ...], made: dict[tuple[Node, ...], Program]) -> Program:
        if nodes not in made:
            made[nodes] = compile_plan(self.engine, make_plan(self.network, nodes), self.store)
        return made[nodes]


class Differentiable:
    """Values of nodes, and gradients of these by other nodes. Made by :meth:`Model.differentiable`.

    Args:
        make: makes a program.

    Attributes:
        program: what computes them; after :meth:`backward`, the gradients by parameters are in its store.
        values: what the last :meth:`forward` has returned.
    """

    def __init__(self, make: Callable[[], Program]) -> None:
        self.program = make()
        self._make = make
        self._free: list[Program] = []
        self._given: Taken | None = None
        self.values: dict[str, Any] = {}

    def forward(self, data: Values = EMPTY, *, training: bool = False) -> dict[str, Any]:
        """Compute the roots, and keep what gradients need; return their values as :meth:`Model.evaluate` does.

        Args:
            data: the inputs that the roots need.
            training: as in training, elements are dropped, and statistics are those of the minibatch.

        Raises:
            DataError: an input is missing or does not fit.
        """
        self._given, taken = None, take_arrays(self.program.plan, data)
        # Who gives an array may write into it before the gradients are asked for.
        streams = {name: attrs.evolve(one, data=one.data.copy()) for name, one in taken.minibatch.streams.items()}
        self._given = given = attrs.evolve(taken, minibatch=attrs.evolve(taken.minibatch, streams=streams))
        program = self.program
        if program.plan.by:
            program.forward(given.minibatch, training=training)
        else:
            program.evaluate(given.minibatch)
            program.step += 1  # so that each draws random numbers of its own
        self.values = {node.name: self._value(given, node, program.value(node.name)) for node in program.plan.roots}
        return self.values

    def keep(self, data: Values = EMPTY, *, training: bool = False) -> Differentiable:
        """Compute the roots as :meth:`forward` does, and return what keeps their values while others are computed.

        It has buffers of its own, which serve again when it is not there any more.

        Raises:
            DataError: an input is missing or does not fit.
        """
        own = Differentiable(self._free.pop if self._free else self._make)
        own.program.step = self.program.step  # so that each draws random numbers of its own
        own.forward(data, training=training)
        finalize(own, self._free.append, own.program)
        self.program.step = own.program.step
        return own

    def backward(self, seeds: Seeds = None) -> dict[str, Any]:
        """Let gradients flow back through the last :meth:`forward`; any number of times, while parameters stay.

        Args:
            seeds: by root, the gradient of what is sought by the root's value: laid out as the value was given, or one
                number for all elements. Roots that are not named get none; None are ones for all roots, which gives
                gradients of the sum of their elements.

        Returns:
            For each node by which gradients are wanted what :meth:`Model.evaluate` would give of its value.

        Raises:
            DataError: a seed does not fit.
            NetworkError: there is no such root, or nothing was computed yet.
        """
        given, program = self._given, self.program
        if given is None:
            raise NetworkError("there is nothing to go back through", hint="Call forward first.")
        roots = {node.name.lower(): node for node in program.plan.roots}
        if seeds is not None:
            seeds = {name: self._seed(given, roots.get(name.lower()), seed) for name, seed in seeds.items()}
        program.backward(seeds)
        return {node.name: self._value(given, node, program.gradient(node.name)) for node in program.plan.by}

    def _value(self, given: Taken, node: Node, value: NDArray[Any]) -> Any:
        return given.value(node, value, self.program.layout(node.name) if node.framed else None)

    def _seed(self, given: Taken, node: Node | None, seed: Any) -> Any:
        return seed if node is None or not node.framed else given.packed(node, seed, self.program.layout(node.name))


def gradients(
    network: Network,
    roots: Names,
    by: Names,
    data: Values,
    seeds: Seeds = None,
    *,
    engine: str = AUTO,
) -> dict[str, Any]:
    """Return gradients of a network's nodes by others, as :meth:`Model.gradients` does."""
    return Model(network, engine=engine).gradients(data, by, roots, seeds)


class Stream:
    """Evaluates sequences piece by piece; the state goes from piece to piece. Made by :meth:`Model.stream`."""

    def __init__(self, program: Program, nodes: tuple[Node, ...]) -> None:
        self._program = program
        self._nodes = nodes
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
