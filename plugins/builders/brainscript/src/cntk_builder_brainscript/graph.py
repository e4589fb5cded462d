"""The nodes that an evaluation makes: their tags, inputs that come later, the order of their making."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from cntk_core.api import CntkError, Location, Network, NetworkError, Node, did_you_mean, raise_problems
from cntk_core.api.builders import Block, carry_blocks, copy_blocks, sub_tree

GROUPS = ("feature", "label", "criterion", "evaluation", "output")
OLD_TAGS = {"criteria": "criterion", "eval": "evaluation"}
"""Tags of the first versions, which are still understood."""


@attrs.define
class Graph:
    """What an evaluation has made so far.

    Attributes:
        unknown: an error for every node whose operation nothing knows.
    """

    unknown: list[CntkError] = attrs.field(factory=list)
    _tags: dict[Node, dict[str, None]] = attrs.field(factory=dict)
    _late: dict[Node, Callable[[], list[Node]]] = attrs.field(factory=dict)
    _order: dict[Node, int] = attrs.field(factory=dict)
    _blocks: list[Block] = attrs.field(factory=list)

    def add(self, node: Node, tag: str = "", late: Callable[[], list[Node]] | None = None) -> Node:
        """Take note of a new node, of its tag and of inputs that are evaluated when the network is put together.

        Raises:
            NetworkError: there is no such tag.
        """
        self._order[node] = len(self._order)
        if tag:
            self.tag(node, tag, node.where)
        if late is not None:
            self._late[node] = late
        return node

    def tag(self, node: Node, tag: str, where: Location | None) -> None:
        """Give a node a tag. Raises NetworkError if there is no such group."""
        role = OLD_TAGS.get(tag, tag)
        if role not in GROUPS:
            raise NetworkError(
                f"there is no tag '{tag}' for nodes{did_you_mean(tag, GROUPS)}",
                where=where,
                hint=f"Tags: {', '.join(GROUPS)}",
            )
        self._tags.setdefault(node, {})[role] = None

    def adopt(self, network: Network) -> None:
        """Take note of the nodes and blocks of a network that was loaded."""
        self._blocks += network.blocks
        for node in network:
            self.add(node)
        for role, nodes in network.roots.items():
            for node in nodes:
                self.tag(node, role, node.where)

    def copied(self, copies: Mapping[Node, Node]) -> None:
        """Take note of copies: old node to new node; what is known already is left."""
        for old, new in copies.items():
            if new not in self._order:
                self.add(new)
                self._tags[new] = dict(self._tags.get(old, {}))

    def cloned(self, copies: Mapping[Node, Node], rename: Callable[[str], str]) -> None:
        """Take note of the blocks of copies that stand beside their originals, and that have other names."""
        self._blocks += copy_blocks(self._blocks, copies, rename).values()

    def attach(self, node: Node) -> None:
        """Evaluate the inputs of a delay, if that has not been done."""
        late = self._late.pop(node, None)
        if late is not None:
            node.inputs = late()

    def attach_all(self, roots: Iterable[Node]) -> None:
        """Evaluate the inputs of all delays that the roots depend on."""
        roots = list(roots)
        while late := [node for node in sub_tree(roots) if node in self._late]:
            for node in late:
                self.attach(node)

    def network(self, roots: Sequence[Node], dtype: object, replacements: Mapping[Node, Node] | None = None) -> Network:
        """Put together the network of some roots: breadth first, evaluating the inputs of delays on the way.

        With ``replacements`` every link to a key is turned to its value.

        Raises:
            NetworkError, Problems: two nodes with one name, an operation that nothing knows.
        """
        found = self._collect(roots, replacements or {})
        raise_problems(self.unknown)
        network = Network(dtype)
        for node in sorted(found, key=self._order.__getitem__):
            network.add(node)
        for node in found:
            for tag in self._tags.get(node, ()):
                network.mark(node, tag)
        self._carry_blocks(network, replacements or {})
        return network

    def _carry_blocks(self, network: Network, replacements: Mapping[Node, Node]) -> None:
        """Give a network the blocks of the networks and copies that its nodes come from."""
        members = set(network) if self._blocks else set()
        named = {node: replacements.get(node, node) for block in self._blocks for node in block.nodes}
        carry_blocks(self._blocks, {old: new for old, new in named.items() if new in members}, network)
        self._blocks += network.blocks

    def _collect(self, roots: Sequence[Node], replacements: Mapping[Node, Node]) -> list[Node]:
        """Return the nodes that the roots depend on, with names that are unique."""
        work = deque(replacements.get(root, root) for root in roots)
        found: dict[Node, None] = {}
        names = _Names()
        while work:
            node = work.popleft()
            if node in found:
                continue
            names.give(node)
            found[node] = None
            self.attach(node)
            if replacements:
                node.inputs = [replacements.get(child, child) for child in node.inputs]
            work.extend(node.inputs)
        raise_problems(names.problems)
        return list(found)


class _Names:
    """Names that are taken; case does not count.

    Nodes inside of records and calls that get the same name are told apart by underscores in front. Two that the
    recipe names itself, which differ in case alone, are a mistake.
    """

    def __init__(self) -> None:
        self.problems: list[CntkError] = []
        self._taken: dict[str, Node] = {}

    def give(self, node: Node) -> None:
        """Make the name of a node unique, or note the problem."""
        other = self._taken.get(node.name.lower())
        while other is not None:
            if node.name != other.name and not any(character in node.name for character in ".[]"):
                self.problems.append(_same_name(node, other))
                return
            node.name = "_" + node.name
            other = self._taken.get(node.name.lower())
        self._taken[node.name.lower()] = node


def _same_name(node: Node, other: Node) -> NetworkError:
    return NetworkError(
        f"the names '{other.name}' ({other.where}) and '{node.name}' differ only in case",
        where=node.where,
        hint="The names of nodes ignore case; rename one of the two.",
    )


def parents_of(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """Return for each node those that have it as an input."""
    parents: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in parents:
        for child in node.inputs:
            parents.setdefault(child, []).append(node)
    return parents
