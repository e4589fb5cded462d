"""A network in the DOT language, the text that CNTK's plot action has always written.

The original puts a blank in front of each piece of text; tools compare these files, so ours have the same bytes. The
first value of a loop is cut: an arc from a delay starts at a dummy box with the delay's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cntk_core.network.network import Network
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.language.shapes import show
from cntk_kit_builders.collapse import collapse

_PARAMETERS = 'node [ shape = box     , color = gray , style = "filled, rounded"  ]; '
_FEATURES = "node [ shape = ellipse , color = red  , fillcolor = white ]; "
_LABELS = "node [ shape = diamond, color = brown, style = bold ] ;  "
_CRITERIA = "node [ shape = doublecircle , color =  red , fillcolor = white  ]; "
_PRECOMPUTED = 'node [ shape = box    , color = black, style = "dashed, filled",  fillcolor= limegreen ] ;'
_PAST = 'node [ shape = box3d  , color = lightgray, style = "filled" , fillcolor = white ] '
_FUTURE = 'node [ shape = box3d  , color = red, style = "filled" , fillcolor = white ] '
_OTHERS = "node [ shape = ellipse, color = blue, fillcolor = white, style = solid ]; "

_COLORS = {1: "lightgray", -1: "red"}
"""Of values from the past and the future."""

Arc = tuple[Node, Node]
"""A node and one of its inputs."""


def to_dot(network: Network, depth: int = -1) -> str:
    """Return the network as a DOT graph; shapes must have been inferred.

    Args:
        network: what is drawn.
        depth: how far blocks are open, as in :func:`~cntk_kit_builders.collapse.collapse`; by default all the way.
    """
    return "".join(f" {piece}" for piece in _pieces(collapse(network, depth)))


def _pieces(network: Network) -> Iterator[str]:
    nodes = sorted(network, key=lambda node: node.name.lower())
    roots = network.roots
    yield "strict digraph {\n"
    yield "rankdir = BT ;  \n"
    yield "// special nodes \n"
    yield _styled(_PARAMETERS, (node for node in nodes if isinstance(node, Parameter)))
    yield _styled(_FEATURES, roots["feature"])
    yield _styled(_LABELS, roots["label"])
    yield _styled(_CRITERIA, roots["criterion"])
    yield _styled(_PRECOMPUTED, (node for node in nodes if node.op.role == "precompute"))
    yield _styled(_PAST, (node for node in nodes if node.op.traits.delay > 0))
    yield _styled(_FUTURE, (node for node in nodes if node.op.traits.delay < 0))
    yield _OTHERS
    yield "\n"
    yield "\n// add labels and operation name\n"
    for node in nodes:
        yield f' {_quoted(node.name)} [ label = "{_escaped(node.name)} [{_shape(node)}]\\n{node.op.name}" ] ;\n'
    yield "subgraph {\n"
    yield "\t\t rank=source ; "
    yield _names(roots["feature"])
    yield "\n}\n"
    yield "subgraph {\n"
    yield "\t\t rank=sink ; "
    yield _names([*roots["criterion"], *roots["output"], *roots["evaluation"]])
    yield "\n}\n"
    for node, child in arcs(network):
        yield _arc(node, child)
    yield "\n}\n"


def _styled(style: str, nodes: Iterable[Node]) -> str:
    names = _names(nodes)
    return f"{style}{names}; \n" if names else ""


def _names(nodes: Iterable[Node]) -> str:
    return "".join(f"{_quoted(node.name)} " for node in nodes)


def _quoted(name: str) -> str:
    return f'"{_escaped(name)}"'


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"') if '"' in name or "\\" in name else name


def _shape(node: Node) -> str:
    return "?" if node.shape is None else show(node.shape, framed=bool(node.framed))[1:-1]


def arcs(network: Network) -> list[Arc]:
    """Return the arcs of everything that the groups of roots need, in the order in which the original finds them.

    Depth first from each root of each group; of a node's inputs the last is looked at first.
    """
    found: list[Arc] = []
    visited: set[Node] = set()
    for group in network.roots.values():
        for root in group:
            waiting = [root]
            while waiting:
                node = waiting.pop()
                if node in visited:
                    continue
                visited.add(node)
                found += [(node, child) for child in node.inputs]
                waiting += [child for child in node.inputs if child not in visited]
    return found


def _arc(node: Node, child: Node) -> str:
    color = _COLORS.get(child.op.traits.delay)
    if color is None:
        return f"{_quoted(child.name)} -> {_quoted(node.name)} ; \n"
    dummy = _quoted(f"{child.name}.dummy")
    label = f"{_escaped(child.name)}\\n({child.op.name})"
    box = f'node [ shape = box3d  , color = {color}, style = "filled" , label = "{label}" ] ; {dummy}\n'
    return f"{box}{dummy} -> {_quoted(node.name)} ; \n"
