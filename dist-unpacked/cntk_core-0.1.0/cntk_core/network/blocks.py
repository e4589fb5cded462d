"""Blocks: parts of a network that have a name and are one function of their arguments, such as layers.

They are records beside the nodes, so that whatever computes, saves or edits nodes need not know of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from cntk_core.errors import NetworkError
from cntk_core.network.node import Node

Place = tuple[Node, int]
"""A node and the index of one of its inputs."""


@attrs.define(eq=False)
class Block:
    """One use of a named function. Two blocks are apart, or one is inside the other.

    Attributes:
        name: need not be unique: a layer that is applied twice makes two blocks of its name.
        kind: what it is: ``Dense``, ``LSTM``.
        nodes: what it computes, in the order of their making; the values mean nothing.
        outputs: those of its nodes that are its results.
        arguments: for each argument, in their order, the places at which it is read.
    """

    name: str
    kind: str
    nodes: dict[Node, None]
    outputs: list[Node]
    arguments: dict[str, list[Place]] = attrs.field(factory=dict)

    def __repr__(self) -> str:
        return f"<block {self.kind} {self.name}>"

    def places(self, argument: str) -> list[Place]:
        """Return where an argument is read now; edits may have removed places, or linked them to something else."""
        given = [(node, index) for node, index in self.arguments[argument] if node in self.nodes]
        places = [(node, index) for node, index in given if index < len(node.inputs)]
        return [(node, index) for node, index in places if node.inputs[index] is places[0][0].inputs[places[0][1]]]

    @property
    def operands(self) -> dict[str, Node]:
        """What it is applied to, by argument; an argument that no node reads any more is none."""
        places = {argument: self.places(argument) for argument in self.arguments}
        return {argument: found[0][0].inputs[found[0][1]] for argument, found in places.items() if found}

    def remove(self, node: Node) -> None:
        """Forget a node. A block that has no output left is no block any more."""
        self.nodes.pop(node, None)
        self.outputs = [output for output in self.outputs if output is not node]

    def as_entry(self) -> dict[str, Any]:
        """Return it as a model file has it: nodes by name."""
        return {
            "name": self.name,
            "kind": self.kind,
            "nodes": [node.name for node in self.nodes],
            "outputs": [node.name for node in self.outputs],
            "arguments": [
                [argument, [[node.name, index] for node, index in places]]
                for argument in self.arguments
                if (places := self.places(argument))
            ],
        }

    @classmethod
    def of_entry(cls, entry: Any, find: Callable[[Any], Node]) -> Block:
        """Return the block of an entry of a model file, whose nodes ``find`` returns by name.

        Raises:
            NetworkError: it makes no sense.
        """
        nodes = dict.fromkeys(find(name) for name in entry["nodes"])
        outputs = [find(name) for name in entry["outputs"]]
        arguments = {str(name): [(find(node), index) for node, index in places] for name, places in entry["arguments"]}
        block = cls(str(entry["name"]), str(entry["kind"]), nodes, outputs, arguments)
        places = [place for some in arguments.values() for place in some]
        sound = all(type(index) is int and 0 <= index < len(node.inputs) and node in nodes for node, index in places)
        if not (sound and outputs and nodes.keys() >= set(outputs)) or len(set(places)) < len(places):
            raise NetworkError(f"the block '{block.name[:100]}' makes no sense")
        return block


def nest(blocks: Iterable[Block]) -> dict[Block, Block | None]:
    """Return for each block the one that it is directly inside, None for the outermost; inner blocks come first.

    Of two blocks with the same nodes the first is the inner one.

    Raises:
        NetworkError: two blocks have some nodes together, and each has others.
    """
    outside: dict[Block, Block | None] = {}
    outermost: dict[Node, Block] = {}
    for block in sorted(blocks, key=lambda block: len(block.nodes)):
        shared: dict[Block, int] = {}
        for node in block.nodes:
            inner = outermost.get(node)
            if inner is not None:
                shared[inner] = shared.get(inner, 0) + 1
        for inner, count in shared.items():
            if count < len(inner.nodes):
                names = " and ".join(f"'{one.name}' ({one.kind})" for one in (inner, block))
                raise NetworkError(
                    f"the blocks {names} overlap: each has nodes of its own, and some belong to both",
                    hint="Blocks are apart, or one is inside the other.",
                )
            outside[inner] = block
        outermost.update(dict.fromkeys(block.nodes, block))
        outside[block] = None
    return outside
