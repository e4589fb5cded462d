"""``traceNodeNamesReal``, ``...Category`` and ``...Sparse``: values of nodes in the log, minibatch by minibatch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from cntk_core.config import Config
from cntk_core.network.network import Network
from cntk_core.network.node import Node
from cntk_core.ops.language.shapes import show
from cntk_kit_recipes.block.sgd_block import TRACES
from cntk_kit_recipes.recipe.formatting import Formatter, Kind, WriteFormat
from cntk_kit_recipes.recipe.sequences_begun import sequences_of

if TYPE_CHECKING:
    from cntk_core.contract.engine import Program

_KINDS: tuple[Kind, ...] = ("real", "category", "sparse")
KINDS: Mapping[str, Kind] = dict(zip(TRACES, _KINDS, strict=True))
"""What the keys print: numbers, the largest element, the elements that are not zero."""


class NodeTraces:
    """Prints values of nodes, a block of lines for each: a line for each element, with its steps beside each other.

    Args:
        kinds: how they are printed, by name.
        say: called with text that may have several lines.
    """

    def __init__(self, kinds: Mapping[str, Kind], say: Callable[[str], None]) -> None:
        self._kinds = kinds
        self._say = say
        self._formatters: dict[Node, Formatter] = {}

    def nodes(self, network: Network, roots: Sequence[Node]) -> list[Node]:
        """Return those of the nodes that are computed for some roots, in their order; names of no node are said."""
        wanted = {}
        for name, kind in self._kinds.items():
            if name in network:
                wanted[network[name]] = kind
            else:
                self._say(f"EnableNodeTracing: No node named '{name}'; skipping")
        found = [node for node in network.order(roots) if node in wanted]
        self._formatters = {node: _formatter(node, wanted[node]) for node in found}
        return found

    def show(self, program: Program) -> None:
        """Print the values of the last minibatch of a program."""
        for node, formatter in self._formatters.items():
            layout = program.layout(node.name) if node.framed else None
            text = formatter.text(sequences_of(node, program.value(node.name), layout), 0)
            self._say(f"Trace --> {_prototype(node)}\n{text}".rstrip("\n"))


def read_traces(section: Config, say: Callable[[str], None]) -> NodeTraces | None:
    """Return what the keys of a section ask for; None if they name no node. Of several keys the last one counts."""
    kinds = {name: kind for key, kind in KINDS.items() for name in section.strings(key, ())}
    return NodeTraces(kinds, say) if kinds else None


def _formatter(node: Node, kind: Kind) -> Formatter:
    form = WriteFormat(
        type=kind,
        transpose=False,
        sequence_prologue="  ",
        sample_separator="\n  ",
        precision_format="13.10",
    )
    return Formatter(form, node.name, node.known_shape, real=True)


def _prototype(node: Node) -> str:
    inputs = ", ".join(child.name for child in node.inputs)
    shapes = ", ".join(show(child.known_shape, framed=bool(child.framed)) for child in node.inputs)
    operation = f"{node.op.name} ({inputs}) : {shapes}" if node.inputs else f"{node.op.name}() : "
    return f"{node.name} = {operation} -> {show(node.known_shape, framed=bool(node.framed))}"
