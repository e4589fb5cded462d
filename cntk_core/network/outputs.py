"""Where an output lies in the value of an op that has several, worked out with the shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cntk_core.errors import NetworkError
from cntk_core.network.node import Node
from cntk_core.ops.families.outputs import MultiplexerAttributes
from cntk_core.ops.language.outputs import ranges_of, shapes_of
from cntk_core.ops.language.shapes import Shape


class _Shaped(Protocol):
    @property
    def shape(self) -> Shape | None: ...


def _itself(node: Node) -> Node:
    return node


def locate_output(node: Node, known: Callable[[Node], _Shaped] = _itself) -> None:
    """Let an OutputMultiplexer know its part of its input, as soon as the shapes of that one's inputs are known.

    Args:
        node: any node.
        known: gives what is known of a node, by default itself; in a loop that is a guess.

    Raises:
        NetworkError: its input has no such output.
    """
    attributes = node.attributes
    if not isinstance(attributes, MultiplexerAttributes):
        return
    source, index = node.inputs[0], attributes.output_index
    count = max(1, len(source.op.outputs))
    if not 0 <= index < count:
        names = ", ".join(f"{number} '{name}'" for number, name in enumerate(source.op.outputs)) or "0"
        raise NetworkError(
            f"OutputMultiplexer '{node.name}': {source.op.name} '{source.name}' has no output {index}",
            where=node.where,
            hint=f"Outputs: {names}.",
        )
    if not source.op.outputs:
        node.attributes = MultiplexerAttributes(index)
        return
    shapes = [known(child).shape for child in source.inputs]
    given = [shape for shape in shapes if shape is not None]
    if len(given) == len(shapes):
        found = shapes_of(source.op.outputs, given, source.attributes)
        begin, end = ranges_of(found)[index]
        node.attributes = MultiplexerAttributes(index, begin, end, found[index])
