"""A trained model in Python: load it, give it sequences, get the values of its nodes.

``Model.load("net.dnn").evaluate({"words": [[3, 1, 4], [1, 5]]})["z"]`` is a list of two arrays, of 3 and 2 rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.config import parse_text
from cntk_core.contract.engine import Program
from cntk_core.contract.host_program import compile_plan
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import DataError, NetworkError
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.layouts import sequence_layout, slot_layout
from cntk_core.ops.language.reader_order import pack, unpack
from cntk_core.ops.language.shapes import elements, show
from cntk_core.plan.make import make_plan
from cntk_core.plugins.manager import AUTO, PluginManager
from cntk_core.plugins.model_formats import ModelFiles
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch, StreamData

Values = Mapping[str, Sequence[Any]]
"""For each input by name, its sequences: arrays ``(frames, *shape)``, or whole numbers, which mean one-hot vectors."""


class Model:
    """A network with its values, ready to be evaluated.

    Args:
        network: with shapes and values.
        engine: name of the engine; ``auto`` is the best one here.
        settings: keys of the engine, as a recipe has them: ``numCPUThreads=1``.
        plugins: the plugin manager, if there is one already.
    """

    def __init__(
        self, network: Network, *, engine: str = AUTO, settings: str = "", plugins: PluginManager | None = None
    ) -> None:
        self.network = network
        plugins = plugins or PluginManager()
        engine_class = plugins.engine(engine)
        self._engine = engine_class(engine_class.settings_from(parse_text(settings), f"engine '{engine}'"))
        self._engine.kernels = plugins.registry.kernels.of(engine_class)
        self._store = ParameterStore(network.parameters, network.dtype)
        self._programs: dict[tuple[Node, ...], Program] = {}
        self._streams: dict[tuple[Node, ...], Program] = {}

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

    def evaluate(self, data: Values, outputs: Sequence[str] = ()) -> dict[str, list[NDArray[Any]]]:
        """Return values of nodes, for each a list with one array ``(frames, *shape)`` for each sequence.

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
        return _run(program, nodes, _sequences(program, data), sequence_layout)

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
        for node in nodes:
            if isinstance(node, Input | Parameter) or not node.framed:
                raise NetworkError(f"'{node.name}' has no value for each frame that could be evaluated")
        if not nodes:
            raise NetworkError("the network marks no output", hint="Name the nodes whose values you want.")
        return nodes

    def _program(self, nodes: tuple[Node, ...], made: dict[tuple[Node, ...], Program]) -> Program:
        if nodes not in made:
            made[nodes] = compile_plan(self._engine, make_plan(self.network, nodes), self._store)
        return made[nodes]


class Stream:
    """Evaluates sequences piece by piece; the state goes from piece to piece. Made by :meth:`Model.stream`."""

    def __init__(self, program: Program, nodes: tuple[Node, ...]) -> None:
        self._program = program
        self._nodes = nodes
        self._count = 0
        self.restart()

    def restart(self) -> None:
        """Forget the state: what comes next begins new sequences."""
        self._count = 0
        self._program.begin_epoch(0)

    def feed(self, data: Values) -> dict[str, list[NDArray[Any]]]:
        """Take the next frames of each sequence, and return the outputs at them.

        Raises:
            DataError: an input is missing or does not fit, or there are other sequences than before.
        """
        sequences = _sequences(self._program, data)
        count = max(map(len, sequences.values()))
        if self._count and count != self._count:
            raise DataError(f"the stream has {self._count} sequences; now there are {count}")
        begun = [self._count > 0] * count
        self._count = count

        def layout(lengths: Sequence[int]) -> SequenceLayout:
            return slot_layout([[length] for length in lengths], continued=begun, continues=[True] * count)

        return _run(self._program, self._nodes, sequences, layout)


def _run(
    program: Program,
    nodes: Iterable[Node],
    sequences: Mapping[Input, Sequence[Any]],
    make_layout: Callable[[Sequence[int]], SequenceLayout],
) -> dict[str, list[NDArray[Any]]]:
    layouts: dict[str, SequenceLayout] = {}
    streams = {}
    for node, frames in sequences.items():
        layout = layouts.setdefault(node.axis, make_layout([one.shape[0] for one in frames]))
        streams[node.name] = StreamData(pack(frames, layout), layout)
    program.evaluate(Minibatch(streams, max(layout.frames for layout in layouts.values())))
    return {node.name: unpack(program.value(node.name), program.layout(node.name)) for node in nodes}


def _sequences(program: Program, data: Values) -> dict[Input, list[Any]]:
    """The sequences of each input that a program needs.

    Raises:
        DataError: an input is missing or does not fit; inputs of one dynamic axis have other lengths.
    """
    given = {name.lower(): sequences for name, sequences in data.items()}
    found: dict[Input, list[Any]] = {}
    of_axis: dict[str, Input] = {}
    for node in program.plan.inputs:
        if node.name.lower() not in given:
            hint = f"Given: {', '.join(data) or 'nothing'}"
            raise DataError(f"there are no sequences for the input '{node.name}'", hint=hint)
        found[node] = [_frames(node, one, program.plan.network.dtype) for one in given[node.name.lower()]]
        other = of_axis.setdefault(node.axis, node)
        lengths, others = ([one.shape[0] for one in found[each]] for each in (node, other))
        if lengths != others:
            raise DataError(
                f"the sequences of '{other.name}' and '{node.name}' have different lengths: {others} and {lengths}"
            )
    return found


def _frames(node: Input, sequence: Any, dtype: np.dtype[Any]) -> Any:
    """The frames of a sequence as a network takes them, from an array or from numbers of one-hot elements."""
    from scipy.sparse import csr_array, issparse

    width = elements(node.known_shape)
    values: Any = sequence if issparse(sequence) else np.asarray(sequence)
    if values.ndim == 1 and (values.dtype.kind in "iu" or not values.shape[0]):
        values = _one_hot(node, values.astype(np.int64), width, dtype)
    elif values.ndim == 0 or elements(values.shape[1:]) != width or (values.ndim == 1 and width > 1):
        raise DataError(
            f"a sequence of the input '{node.name}' has the shape {values.shape}",
            hint=f"Frames are {show(node.known_shape)}, in memory {node.known_shape}, or numbers of one-hot elements.",
        )
    is_sparse = bool(issparse(values))
    if node.sparse:
        return csr_array(values if is_sparse else values.reshape(len(values), width), dtype=dtype)
    rows = values.toarray() if is_sparse else values
    return rows.astype(dtype).reshape(len(rows), *node.known_shape)


def _one_hot(node: Input, words: NDArray[np.int64], width: int, dtype: np.dtype[Any]) -> Any:
    from scipy.sparse import csr_array

    if words.size and not 0 <= words.min() <= words.max() < width:
        raise DataError(
            f"the input '{node.name}' has elements 0 to {width - 1}; given are {words.min()} to {words.max()}"
        )
    return csr_array((np.ones(words.size, dtype), words, np.arange(words.size + 1)), shape=(words.size, width))
