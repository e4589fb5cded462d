"""Several slices of one value in one kernel: the gates of recurrent cells are parts of one product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.api import Node
from cntk_core.api.engines import GradientStep, Loop, LoopGradient, Step, elements_of, reaches_open
from cntk_engine_cuda.gpu import THREADS, Array, Call
from cntk_engine_cuda.site import Site

MOST = 4
"""Slices that a kernel knows."""

Group = tuple[Any, ...]
"""Steps that follow each other and are bound together."""


@attrs.frozen
class _Columns:
    """A slice as columns of a value seen as ``(rows, elements)``."""

    first: int
    count: int


def _columns(node: Node) -> _Columns | None:
    """The columns of a node, None if it is no slice along the outermost axis of its sample alone."""
    part_of = node.op.traits.part
    if part_of is None:
        return None
    shape = node.inputs[0].known_shape
    ranges = part_of(shape, node.attributes)
    if set(ranges) != {0} or not elements_of(node):
        return None
    inner = elements_of(node.inputs[0]) // shape[0]
    begin, end = ranges[0]
    return _Columns(begin * inner, (end - begin) * inner)


def grouped(steps: Sequence[Step | Loop]) -> list[Group]:
    """Forward steps with those together that slice the same value."""
    groups: list[Group] = []
    for step in steps:
        before = groups[-1][-1] if groups else None
        if before is not None and _slices_alike(step, before) and len(groups[-1]) < MOST:
            groups[-1] = (*groups[-1], step)
        else:
            groups.append((step,))
    return groups


def _slices_alike(step: Step | Loop, other: Step | Loop) -> bool:
    both = (step, other)
    if any(isinstance(each, Loop) or reaches_open(each) or _columns(each.nodes[0]) is None for each in both):
        return False
    return step.nodes[0].inputs[0] is other.nodes[0].inputs[0]


def grouped_gradients(steps: Sequence[GradientStep | LoopGradient]) -> list[Group]:
    """Gradient steps with those together that send gradients of slices to columns of their own of the same value."""
    groups: list[Group] = []
    for step in steps:
        if groups and len(groups[-1]) < MOST and _goes_with(step, groups[-1]):
            groups[-1] = (*groups[-1], step)
        else:
            groups.append((step,))
    return groups


def _goes_with(step: GradientStep | LoopGradient, group: Group) -> bool:
    if isinstance(step, LoopGradient) or isinstance(group[0], LoopGradient):
        return False
    if not _slices_alike(step.step, group[0].step):
        return False
    own = _columns(step.step.nodes[0])
    taken = [_columns(each.step.nodes[0]) for each in group]
    return own is not None and all(
        other is not None and (own.first + own.count <= other.first or other.first + other.count <= own.first)
        for other in taken
    )


def bind_forward(site: Site, group: Group) -> list[Call] | None:
    """Return the calls of several slices of one value; None if it is sparse."""
    nodes = [step.nodes[0] for step in group]
    given = nodes[0].inputs[0]
    if given in site.sparse:
        return None
    outputs = [site.values[node] for node in nodes]
    rows = site.rows(given)
    arguments = (site.values[given], *_four(outputs), np.int64(rows), np.int64(elements_of(given)), *_numbers(nodes))
    return _launch(site, "split_columns", rows * sum(elements_of(node) for node in nodes), arguments)


def bind_gradient(site: Site, group: Group) -> list[Call]:
    """Return the calls of the gradients of several slices of one value."""
    nodes = [step.step.nodes[0] for step in group]
    (target,) = group[0].targets
    rows, width = site.rows(target.node), elements_of(target.node)
    sources = _four([site.gradients[node] for node in nodes])
    sizes = np.int64(rows), np.int64(width), *_numbers(nodes)
    arguments = (*sources, site.gradients[target.node], *sizes, np.int64(target.accumulate))
    return _launch(site, "join_columns", rows * width, arguments)


def _four(arrays: Sequence[Array]) -> list[Array]:
    return [*arrays, *[arrays[0]] * (MOST - len(arrays))]


def _numbers(nodes: Sequence[Node]) -> list[np.int64]:
    """First columns and numbers of columns of four slices; those that are not there have none."""
    known = [each for each in map(_columns, nodes) if each is not None]
    missing = [0] * (MOST - len(known))
    numbers = [*(each.first for each in known), *missing, *(each.count for each in known), *missing]
    return [np.int64(number) for number in numbers]


def _launch(site: Site, name: str, count: int, arguments: tuple[Any, ...]) -> list[Call]:
    if not count:
        return []
    kernel = site.gpu.named("moves", name, site.dtype)
    return [site.gpu.launch(kernel, site.gpu.grid(count), (THREADS,), arguments)]
