"""Which blocks of a network are written as functions, and in what order their parts are.

A function of the original that is a block has all of its results as outputs, and is there when all that it reads is. So
a block is left out of which something else is read, or that something outside stands between: it is written as what is
inside it, as are all blocks if nobody asks for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import attrs

from cntk_core.api import Input, Network, Node, Parameter
from cntk_core.api.builders import Block

_UNNAMED = re.compile(r"Block\d+")
"""The original's uid of a block without name."""


@attrs.frozen(eq=False)
class Part:
    """A block that is written.

    Attributes:
        block: ours.
        nodes: those of its nodes that are computed.
        outputs: its results.
    """

    block: Block
    nodes: dict[Node, None]
    outputs: list[Node]

    def name(self, roots: Sequence[Node]) -> str:
        """Return its name there: its only result gets it, so that an output of the network has to keep its own."""
        if len(self.outputs) == 1 and self.outputs[0] in roots:
            return self.outputs[0].name
        return "" if _UNNAMED.fullmatch(self.block.name) else self.block.name


Unit = Node | Part
"""What is written in its turn: a node, or a block with all that is inside it."""


def is_leaf(node: Node) -> bool:
    """Whether a node is no function there: an input, a parameter, a value."""
    return isinstance(node, Input | Parameter) or node.value is not None


class BlockPlan:
    """The blocks of a network that are written.

    Args:
        network: the network.
        nodes: what is written of it, each after what it needs.
        roots: its outputs.
        wanted: whether blocks are written at all.
    """

    def __init__(self, network: Network, nodes: Sequence[Node], roots: Sequence[Node], *, wanted: bool) -> None:
        self.nodes = [node for node in nodes if not is_leaf(node)]
        self.roots = roots
        self.readers: dict[Node, list[Node]] = {}
        for node in self.nodes:
            for child in node.inputs:
                self.readers.setdefault(child, []).append(node)
        parts = [part for block in network.blocks if wanted and (part := self._part(block)) is not None]
        self.parts = sorted(parts, key=lambda part: len(part.nodes), reverse=True)
        self.chains: Mapping[Node, list[Part]] = {}
        self.orders: dict[Part | None, list[Unit]] = {}
        while not self._arrange():
            pass

    def _part(self, block: Block) -> Part | None:
        nodes = dict.fromkeys(node for node in self.nodes if node in block.nodes)
        outputs = [node for node in dict.fromkeys(block.outputs) if node in nodes]
        read = {
            node
            for node in nodes
            if node in self.roots or any(reader not in nodes for reader in self.readers.get(node, ()))
        }
        return Part(block, nodes, outputs) if outputs and read <= set(outputs) else None

    def _arrange(self) -> bool:
        """Find an order for each block; drop one that has none, and return whether there was no such."""
        self.chains = {node: [part for part in self.parts if node in part.nodes] for node in self.nodes}
        for scope in (None, *self.parts):
            self.orders[scope] = []
            blocked = self._order(scope)
            if blocked is not None:
                self.parts.remove(blocked)
                return False
        return True

    def unit(self, node: Node, scope: Part | None) -> Unit | None:
        """Return what a node is a part of in a block, or in the network; None if it is outside or a leaf."""
        chain = self.chains.get(node)
        if chain is None or (scope is not None and scope not in chain):
            return None
        depth = 0 if scope is None else chain.index(scope) + 1
        return chain[depth] if depth < len(chain) else node

    def _order(self, scope: Part | None) -> Part | None:
        """Put the units of a scope in an order, each after what it needs; return a block in a circle, if there is one.

        Links of delays do not count.
        """
        done, order = set[Unit](), self.orders[scope]
        for node in self.nodes if scope is None else scope.nodes:
            first = self.unit(node, scope)
            assert first is not None
            stack: dict[Unit, Iterator[Unit]] = {} if first in done else {first: self._needed(first, scope)}
            while stack:
                unit, rest = next(reversed(stack.items()))
                following = next((each for each in rest if each not in done), None)
                if following is None:
                    del stack[unit]
                    done.add(unit)
                    order.append(unit)
                elif following in stack:
                    circle = list(stack)[list(stack).index(following) :]
                    return next(each for each in circle if isinstance(each, Part))
                else:
                    stack[following] = self._needed(following, scope)
        return None

    def _needed(self, unit: Unit, scope: Part | None) -> Iterator[Unit]:
        """Yield the units that have to be there before one: a delay does not wait for its input."""
        for node in unit.nodes if isinstance(unit, Part) else (unit,):
            for child in node.inputs[1:] if node.op.traits.delay else node.inputs:
                found = self.unit(child, scope)
                if found is not None and found is not unit:
                    yield found

    def operands(self, part: Part) -> dict[Node, str]:
        """Return what a block reads from outside that is no parameter, each with the name of its argument."""
        names: dict[Node, str] = {}
        for argument, operand in part.block.operands.items():
            names.setdefault(operand, argument)
        outside = (child for node in part.nodes for child in node.inputs if child not in part.nodes)
        return {node: names.get(node, "") for node in outside if isinstance(node, Input) or not is_leaf(node)}
