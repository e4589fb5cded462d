"""The action write: values of nodes, minibatch by minibatch, to text files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.config import Config
from cntk_core.contract.action import Action
from cntk_core.contract.reader import EpochSpec
from cntk_core.contract.store import ParameterStore
from cntk_core.contract.writer import SequenceOutput
from cntk_core.errors import ConfigError, NetworkError, TrainingError, UnsupportedError
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.shapes import Free, Longest, show
from cntk_core.plan.make import make_plan
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch
from cntk_core.training.loop.minibatch_sizes import MinibatchSizes
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.formatting import Formatter, SequenceValue, WriteFormat, read_format, read_labels
from cntk_kit_recipes.recipe.sequences_begun import sequences_of

if TYPE_CHECKING:
    from cntk_core.contract.engine import Program

_STDOUT = "-"


class WriteAction(Action):
    """Writes values of nodes, minibatch by minibatch."""

    requires_api = "1.0"
    name = "write"
    writes = ("outputPath",)
    needs_engine = True

    def check(self, context: ActionContext, section: Config) -> None:
        """Raise what is wrong with the section before anything runs."""
        context.reader_class(section)
        if context.builder_value(section) is None:
            section.require("modelPath")
        if section.get("writer") is not None:
            writer, block, name = context.writer_class(section)
            writer.settings_from(context.without_hook_keys(block, "writer"), f"writer '{name}'")
        elif section.get("outputPath") is None:
            raise ConfigError(
                "write command: You must specify either 'writer' or 'outputPath'",
                where=section.where,
                hint="Add outputPath=..., the beginning of the names of the files, or - for standard output.",
            )
        if section.boolean("nodeUnitTest", False):
            raise UnsupportedError(
                "nodeUnitTest, a test that the original ran of its own nodes, is not there",
                where=section.location("nodeUnitTest"),
                hint="Leave it out. gradientcheck=true of an SGD block compares gradients with differences.",
            )
        read_format(section)

    def run(self, context: ActionContext, section: Config) -> None:
        """Evaluate the network on the data and write the values of its output nodes."""
        network = context.network_of(section)
        nodes = _nodes(context, network, section)
        needed = [node for node in network.order(nodes, stop_at_constants=True) if isinstance(node, Input)]
        _check_sizes(section, nodes, most=0 if section.get("writer") is not None else 1)
        reader = context.make_reader(section, needed, for_writing=True)
        try:
            minibatches = reader.minibatches(_epoch(section))
            if section.get("writer") is not None:
                _write_with(context, section, network, nodes, minibatches)
            else:
                _write(context, section, network, nodes, minibatches)
        finally:
            reader.close()


def _epoch(section: Config) -> EpochSpec:
    return EpochSpec(
        epoch_size=section.integer("epochSize", 0),
        minibatch_size=section.schedule("minibatchSize", int, 2048)[0],
    )


def _nodes(context: ActionContext, network: Network, section: Config) -> list[Node]:
    names = section.strings("outputNodeNames", ())
    nodes = []
    for name in names:
        if name in network:
            nodes.append(network[name])
        else:
            context.log.plain(f"PatchOutputNodes: No node named '{name}'; skipping")
    if not names:
        nodes = network.roots["output"]
    if not nodes:
        listed = ", ".join(node.name for node in network)
        raise NetworkError(
            "none of the outputNodeNames is in the network"
            if names
            else "There is no default output node specified in the network.",
            where=section.location("outputNodeNames") if names else section.where,
            hint=f"Give outputNodeNames=...; the nodes are: {listed}",
        )
    return list(dict.fromkeys(nodes))


def _check_sizes(section: Config, nodes: Sequence[Node], *, most: int) -> None:
    """Make sure that samples have at most so many dimensions that every minibatch has its own of.

    Raises:
        UnsupportedError: names a node that has more.
    """
    for node in nodes:
        if sum(isinstance(dim, Longest | Free) for dim in node.known_shape) > most:
            raise UnsupportedError(
                f"the values of '{node.name}' {show(node.known_shape)} have another size in each minibatch and cannot "
                "be written",
                where=section.location("outputNodeNames") or section.where,
                hint="outputPath=... without a writer writes values with one such dimension as text."
                if most == 0
                else "ToSequence makes frames of such a dimension.",
            )


@attrs.frozen(eq=False)
class NodeValues:
    """Gives the value of any node for a minibatch, also of inputs, parameters and precomputed nodes."""

    network: Network
    program: Program | None

    @classmethod
    def of_nodes(cls, context: ActionContext, section: Config, network: Network, nodes: Sequence[Node]) -> NodeValues:
        """Compile what the nodes need."""
        computed = [node for node in nodes if not isinstance(node, Input | Parameter) and node.value is None]
        if not computed:
            return cls(network, None)
        store = ParameterStore(network.parameters, network.dtype)
        engine = context.make_engine(section)
        context.note_plugins(network)
        return cls(network, engine.compile(make_plan(network, computed), store))

    def evaluate(self, minibatch: Minibatch) -> None:
        """Compute the nodes for a minibatch."""
        if self.program is not None:
            self.program.evaluate(minibatch)

    def of(self, node: Node, minibatch: Minibatch) -> NDArray[Any]:
        """Return ``(frames, *shape)``, or ``shape`` for a node without dynamic axis."""
        if isinstance(node, Input):
            data = minibatch.streams[node.name].data
            dense = data if isinstance(data, np.ndarray) else data.toarray()
            return dense.reshape(len(dense), *node.known_shape)
        if node.value is not None:
            return node.value
        assert self.program is not None
        return self.program.value(node.name)

    def layout(self, node: Node, minibatch: Minibatch) -> SequenceLayout:
        """Return the layout of the node's dynamic axis."""
        same = [child for child in self.network.inputs if child.axis == node.axis and child.name in minibatch.streams]
        if same or self.program is None:
            return minibatch.streams[same[0].name].layout
        return self.program.layout(node.name)

    def sequences(self, node: Node, minibatch: Minibatch) -> list[SequenceValue]:
        """Return the node's values sequence by sequence in the reader's order, ``(frames, elements)`` each."""
        layout = self.layout(node, minibatch) if node.framed else None
        return sequences_of(node, self.of(node, minibatch), layout)


def _write(
    context: ActionContext, section: Config, network: Network, nodes: Sequence[Node], minibatches: Iterator[Minibatch]
) -> None:
    values = NodeValues.of_nodes(context, section, network, nodes)
    form = read_format(section)
    formatters = [_formatter(context, section, form, node) for node in nodes]
    path = section.string("outputPath")
    sizes = MinibatchSizes(network)
    samples = 0
    with ExitStack() as stack:
        files = [_open(path, node, stack) for node in nodes]
        for file in files:
            file.write(form.prologue)
        for number, minibatch in enumerate(minibatches):
            values.evaluate(minibatch)
            for node, formatter, file in zip(nodes, formatters, files, strict=True):
                file.write(formatter.text(values.sequences(node, minibatch), number))
            count = sizes.columns(minibatch)
            samples += count
            context.log.plain(f"Minibatch[{number}]: ActualMBSize = {count}")
            if path == _STDOUT:
                sys.stdout.write("\n")
        for file in files:
            file.write(form.epilogue)
    context.log.plain(f"Written to {path}*")
    context.log.plain(f"Total Samples Evaluated = {samples}")


def _write_with(
    context: ActionContext, section: Config, network: Network, nodes: Sequence[Node], minibatches: Iterator[Minibatch]
) -> None:
    """Write with the writer of the section."""
    values = NodeValues.of_nodes(context, section, network, nodes)
    sizes = MinibatchSizes(network)
    writer = context.make_writer(section, {node.name: int(np.prod(node.known_shape)) for node in nodes})
    samples = 0
    try:
        for number, minibatch in enumerate(minibatches):
            values.evaluate(minibatch)
            found = {node.name: values.sequences(node, minibatch) for node in nodes}
            writer.write({name: [SequenceOutput(one.key, one.values) for one in all_] for name, all_ in found.items()})
            count = sizes.columns(minibatch)
            samples += count
            context.log.plain(f"Minibatch[{number}]: ActualMBSize = {count}")
        writer.close()
    except BaseException:
        writer.discard()
        raise
    context.log.plain(f"Total Samples Evaluated = {samples}")


def _formatter(context: ActionContext, section: Config, form: WriteFormat, node: Node) -> Formatter:
    labels: tuple[str, ...] = ()
    if form.label_mapping_file and form.type != "real":
        labels = read_labels(form.label_mapping_file)
    keys = section.boolean("writeSequenceKey", False)
    return Formatter(form, node.name, node.known_shape, labels, keys=keys, warn=context.log.plain)


def _open(path: str, node: Node, stack: ExitStack) -> TextIO:
    if path == _STDOUT:
        return sys.stdout
    target = Path(f"{path}.{node.name}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return stack.enter_context(target.open("w", encoding="utf-8", newline=""))
    except OSError as error:
        raise TrainingError(f"the output file '{target}' cannot be written: {error.strerror}") from None
