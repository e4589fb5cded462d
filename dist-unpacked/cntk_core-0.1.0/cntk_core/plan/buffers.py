"""Storage by liveness: values that are never needed at the same time share a buffer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from cntk_core.network.node import Node, Parameter
from cntk_core.ops.language.shapes import elements
from cntk_core.plan.plan import Buffer, GradientStep, Loop, LoopGradient, Step, is_open
from cntk_core.plan.sharing import same_gradients, same_values

_Space = tuple[bool, str, tuple[int, ...]]
"""Whether there are elements for each frame, of which dynamic axis, and the shape without leading ones: values of equal
spaces are laid out alike.
"""


@attrs.define(eq=False)
class _Item:
    """A value or gradient: when it is born and when it was used last (positions on the time line).

    ``others`` are nodes whose values (or gradients) lie in the same place all the time.
    """

    node: Node
    gradient: bool
    born: int
    last: int
    others: tuple[Node, ...] = ()

    @property
    def place(self) -> tuple[bool, str]:
        """Values share only among framed ones of the same dynamic axis, or among those without frames."""
        return bool(self.node.framed), self.node.axis

    @property
    def space(self) -> _Space:
        """The elements of the node."""
        return _space_of(self.node)


@attrs.define(eq=False)
class _Slot:
    """A buffer in the making, and the item that holds it now."""

    index: int
    place: tuple[bool, str]
    size: int
    holder: _Item


def assign_buffers(
    steps: Sequence[Step | Loop],
    gradients: Sequence[GradientStep | LoopGradient],
    roots: Sequence[Node],
    *,
    seeded: Sequence[Node] = (),
    by: Sequence[Node] = (),
) -> tuple[dict[Node, int], dict[Node, int], tuple[Buffer, ...]]:
    """Give every computed value and gradient a buffer; return both assignments and the buffers.

    An element-wise step may write over a value of the same layout whose last reader it is, and so may the gradient of
    batch normalization, once it has taken its sums; any other step gets buffers that hold nothing it reads. What such
    a step sums up (the gradient of a value that it repeats for all samples or elements) is complete only when the step
    has read everything, so that it lies apart, too. Inside loops, :mod:`sharing` tells what lies in one place. Nodes
    with a dimension that every minibatch has its own of get none.

    If gradients are asked for ``by`` nodes, these stay, and so do all values that gradients look at. The gradients of
    ``seeded`` nodes are there before the first gradient step.
    """
    items = [item for item in _life_times(steps, gradients, set(roots), seeded, by) if not is_open(item.node)]
    spaces = [_space(step) for step in (*steps, *gradients)]
    slots: list[_Slot] = []
    values: dict[Node, int] = {}
    grads: dict[Node, int] = {}
    for item in sorted(items, key=lambda item: item.born):
        slot = _find(slots, item, in_place=bool(spaces) and item.space == spaces[item.born])
        if slot is None:
            slot = _Slot(len(slots), item.place, 0, item)
            slots.append(slot)
        slot.holder = item
        slot.size = max(slot.size, elements(item.node.known_shape))
        (grads if item.gradient else values).update(dict.fromkeys((item.node, *item.others), slot.index))
    return values, grads, tuple(_freeze(slot) for slot in slots)


def _space(step: Step | Loop | GradientStep | LoopGradient) -> _Space | None:
    """The elements that a step goes through one by one, each read before it is written; None if it does not."""
    if isinstance(step, GradientStep):
        by_element = all(node.op.traits.ends_by_element for node in step.step.nodes)
        return _space_of(step.step.nodes[-1]) if by_element else None
    if isinstance(step, Step) and all(node.op.elementwise is not None for node in step.nodes):
        return _space_of(step.nodes[-1])
    return None


def _space_of(node: Node) -> _Space:
    shape = node.known_shape
    while shape and shape[0] == 1:
        shape = shape[1:]
    return bool(node.framed), node.axis, shape


def _freeze(slot: _Slot) -> Buffer:
    framed, axis = slot.place
    return Buffer(slot.index, slot.size if framed else 0, 0 if framed else slot.size, axis)


def _find(slots: Sequence[_Slot], item: _Item, *, in_place: bool) -> _Slot | None:
    """The best free slot: the smallest that is large enough, else the largest (it grows)."""
    need = elements(item.node.known_shape)
    free = [slot for slot in slots if slot.place == item.place and _is_free(slot, item, in_place)]
    large = [slot for slot in free if slot.size >= need]
    if large:
        # Among equals take the one that ends here, so that element-wise chains run in place.
        return min(large, key=lambda slot: (slot.size, -slot.holder.last))
    return max(free, key=lambda slot: slot.size, default=None)


def _is_free(slot: _Slot, item: _Item, in_place: bool) -> bool:
    holder = slot.holder
    if holder.last < item.born:
        return True
    # Two results of one step are born together and never share.
    return in_place and holder.last == item.born and holder.born < item.born and holder.space == item.space


def _life_times(
    steps: Sequence[Step | Loop],
    gradients: Sequence[GradientStep | LoopGradient],
    roots: set[Node],
    seeded: Sequence[Node],
    by: Sequence[Node],
) -> Iterator[_Item]:
    end = len(steps) + len(gradients)
    values: dict[Node, _Item] = {}
    for position, step in enumerate(steps):
        for node in step.reads:
            if node in values:
                values[node].last = max(values[node].last, position)
        for node in step.writes:
            values[node] = _Item(node, False, position, end if node in roots else position)
    # Seeds come when the forward part is done.
    before = len(steps) - 1
    grads = {node: _Item(node, True, before, before) for node in seeded if not isinstance(node, Parameter)}
    for position, step_back in enumerate(gradients, start=len(steps)):
        for node in step_back.reads:
            if node in values:
                values[node].last = end if by else max(values[node].last, position)
        for node in step_back.sources:
            if node in grads:
                grads[node].last = position
        for target in step_back.targets:
            if not isinstance(target.node, Parameter):
                item = grads.setdefault(target.node, _Item(target.node, True, position, position))
                item.last = max(item.last, position)
    for node in by:
        if node in grads:
            grads[node].last = end
    yield from _joined(values, same_values(steps, gradients, roots))
    yield from _joined(grads, same_gradients(gradients, seeded))


def _joined(items: Mapping[Node, _Item], same: Mapping[Node, Node]) -> Iterator[_Item]:
    """The items, those that are the same as one."""
    for node, item in items.items():
        first = same.get(node)
        if first is not None:
            whole = items[first]
            whole.born, whole.last = min(whole.born, item.born), max(whole.last, item.last)
            whole.others += (node,)
    for node, item in items.items():
        if node not in same:
            yield item
