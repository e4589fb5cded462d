"""Shapes while the network is still being described, for ``x.dim``: as far as they are known by then."""

from __future__ import annotations

from cntk_core.api import CntkError, Network, Node, Shape, is_delay


def shape_of(node: Node) -> Shape | None:
    """Return the shape of a node (memory order) where what it depends on tells it, else None.

    Nothing is changed: the shapes of parameters that are found here are found again when the network is complete.
    """
    found: dict[Node, Shape] = {}
    for item in Network().order([node]):
        shape = _shape(item, found)
        if shape is not None:
            found[item] = shape
    shape = found.get(node)
    return None if shape is None or 0 in shape else shape


def _shape(node: Node, found: dict[Node, Shape]) -> Shape | None:
    if node.shape is not None:
        return node.shape
    if is_delay(node):
        return _declared(node)
    if any(child not in found for child in node.inputs):
        return None
    shapes = [found[child] for child in node.inputs]
    try:
        if any(0 in shape for shape in shapes):
            shapes = list(node.op.complete(shapes, node.attributes)) if node.op.complete is not None else shapes
        if any(0 in shape for shape in shapes):
            return None  # operations would take it for a dimension
        return tuple(node.op.infer(shapes, node.attributes))
    except CntkError:
        return None  # the mistake is reported with all others, when the network is complete


def _declared(node: Node) -> Shape | None:
    dims = getattr(node.attributes, "dims", None)
    return tuple(reversed(dims)) if dims and 0 not in dims else None
