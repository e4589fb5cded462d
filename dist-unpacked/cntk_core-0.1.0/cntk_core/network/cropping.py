"""Where the part that Crop takes begins, worked out from the network.

Both inputs go back to a common node, or to two that the recipe calls equivalent. Along the ways there every operation
says how places of its output lie on its input; one way forth and the other back give the offset.
"""

from __future__ import annotations

from fractions import Fraction

import attrs

from cntk_core.errors import NetworkError
from cntk_core.network.node import Node
from cntk_core.ops.families.cropping import CropAttributes
from cntk_core.ops.language.placement import Placement

_HINT = "Give xOffset and yOffset."


def locate_crop(node: Node) -> None:
    """Give a Crop without offsets those that follow from the network.

    Raises:
        NetworkError: there is no such way, the image would be scaled, or the part begins outside of it.
    """
    attributes = node.attributes
    if not isinstance(attributes, CropAttributes) or None not in (attributes.x_offset, attributes.y_offset):
        return
    x, y = _offsets(node)
    node.attributes = attrs.evolve(attributes, x_offset=x, y_offset=y)


def _offsets(node: Node) -> tuple[int, int]:
    image, like, *pair = node.inputs
    blocked: list[Node] = []
    from_image, from_like = (_ways(start, blocked, node) for start in (image, like))
    ends = [(pair[0], pair[1])] if pair else []
    ends += [(member, member) for member in from_like]
    for first, second in ends:
        if first in from_image and second in from_like:
            total = from_like[second].after(from_image[first].inverse())
            break
    else:
        stopped = f"; {blocked[0].op.name} '{blocked[0].name}' does not keep places" if blocked else ""
        raise NetworkError(
            f"Crop '{node.name}': nothing connects its inputs '{image.name}' and '{like.name}'{stopped}",
            where=node.where,
            hint="Give xOffset and yOffset, or two nodes whose places correspond.",
        )
    if total.x.scale != 1 or total.y.scale != 1:
        raise NetworkError(
            f"Crop '{node.name}': one element of '{like.name}' is {_text(1 / total.x.scale)} x "
            f"{_text(1 / total.y.scale)} elements of '{image.name}'",
            where=node.where,
            hint="Bring both to the same scale first.",
        )
    if total.x.shift > 0 or total.y.shift > 0:
        raise NetworkError(
            f"Crop '{node.name}': '{like.name}' begins outside of '{image.name}', at {_text(-total.x.shift)}, "
            f"{_text(-total.y.shift)}",
            where=node.where,
            hint=_HINT,
        )
    return int(-total.x.shift), int(-total.y.shift)


def _ways(start: Node, blocked: list[Node], crop: Node) -> dict[Node, Placement]:
    """How places of each node before ``start`` lie on it; nodes that say nothing of places go to ``blocked``.

    Raises:
        NetworkError: two ways give two answers.
    """
    found = {start: Placement()}
    waiting = [start]
    while waiting:
        node = waiting.pop()
        for index, child in enumerate(node.inputs):
            step = _step(node, index)
            if step is None:
                if node.op.placement is None:
                    blocked.append(node)
                continue
            way = found[node].after(step)
            if child not in found:
                found[child] = way
                waiting.append(child)
            elif found[child] != way:
                raise NetworkError(
                    f"Crop '{crop.name}': two ways from '{child.name}' to '{start.name}' shift it differently",
                    where=crop.where,
                    hint=_HINT,
                )
    return found


def _step(node: Node, index: int) -> Placement | None:
    if node.op.placement is not None:
        return node.op.placement([child.known_shape for child in node.inputs], node.attributes, index)
    return Placement() if node.op.elementwise is not None else None


def _text(number: Fraction) -> str:
    return f"{float(number):g}"
