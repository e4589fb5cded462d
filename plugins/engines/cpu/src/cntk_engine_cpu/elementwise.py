"""Binds fused element-wise steps to kernels over rows and columns.

The columns are a whole sample; or its last axes, where an operand without frames has no others (a bias of one number
for each channel of an image that lies channels last) or has only the others (the same bias where channels come first).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import attrs

from cntk_core.api import Node
from cntk_core.api.engines import Names, Step, Tree, forward_trees
from cntk_engine_cpu import shared_calls
from cntk_engine_cpu.folding import Outer, repeated, rows_as_one
from cntk_engine_cpu.site import Array, Call, Site
from cntk_engine_cpu.source import Result, spec_of

Dims = tuple[int, ...]


@attrs.frozen(eq=False)
class Space:
    """How a step sees its values.

    Attributes:
        channels_last: images are taken with their channels last.
        rows, columns: of a full operand.
        kinds: of the operands and results, as the kernels call them; ``outer`` for one that is the same along all
            columns and in all samples.
    """

    channels_last: bool
    rows: int
    columns: int
    kinds: Mapping[Node, str]


def space_of(site: Site, step: Step, others: Sequence[Node] = ()) -> Space | None:
    """Return how a step sees what it reads and writes and ``others``; None if a broadcast fits no kernel."""
    like = step.nodes[-1]
    nodes = dict.fromkeys([*step.reads, *step.nodes, *others])
    channels_last = site.images is not None and any(node in site.images.nodes for node in nodes)
    whole = _dims(like, like, channels_last=channels_last)
    assert whole is not None
    kinds: dict[Node, str] = {}
    shared: set[int] = set()
    for node in nodes:
        dims = _dims(node, like, channels_last=channels_last)
        if dims is None:
            return None
        kind, axes = _kind(node, like, dims, whole)
        if kind is None:
            return None
        kinds[node] = kind
        if node in site.affine:
            if site.affine[node].channels_last != channels_last:
                return None
            shared.add(site.affine[node].axes)
        elif kind in ("row", "col", "outer"):
            shared.add(axes)
    if len(shared) > 1:
        return None
    columns = math.prod(whole[len(whole) - shared.pop() :]) if shared else math.prod(whole)
    total = math.prod(whole) * site.rows(like)
    rows = total // columns if columns else site.rows(like)
    return Space(channels_last, rows, columns, kinds)


def _dims(node: Node, like: Node, *, channels_last: bool) -> Dims | None:
    """Sample shape in the order of memory, with as many axes as that of ``like``; None if there is no such order."""
    shape, rank = node.known_shape, len(like.known_shape)
    while shape and shape[0] == 1 and len(shape) > rank:
        shape = shape[1:]
    if len(shape) > rank:
        return None
    shape = (1,) * (rank - len(shape)) + shape
    if not channels_last:
        return shape
    channels, *space = shape
    if not node.framed and channels != 1 and math.prod(space) != 1:
        return None  # a parameter lies channels first
    return (*space, channels)


def _kind(node: Node, like: Node, dims: Dims, whole: Dims) -> tuple[str | None, int]:
    """The kind of an operand, and for a row or column how many axes the columns are."""
    if dims == whole:
        if bool(node.framed) == bool(like.framed):
            return "full", 0
        return ("row", len(whole)) if like.framed else (None, 0)
    if math.prod(dims) == 1:
        return ("col", len(whole)) if node.framed else ("scalar", 0)
    ones = next(axis for axis, size in enumerate(dims) if size != 1)
    if not node.framed and dims[ones:] == whole[ones:]:
        return "row", len(whole) - ones
    lead = max(axis for axis, size in enumerate(dims) if size != 1) + 1
    if not node.framed and like.framed and dims[:lead] == whole[:lead]:
        return "outer", len(whole) - lead
    return None, 0


def operand_kind(node: Node, like: Node) -> str | None:
    """How a value meets one of the shape of ``like`` whose columns are whole samples; None if no kind fits."""
    dims, whole = _dims(node, like, channels_last=False), _dims(like, like, channels_last=False)
    if dims is None or whole is None:
        return None
    kind, axes = _kind(node, like, dims, whole)
    return None if kind == "outer" or (kind in ("row", "col") and axes != len(whole)) else kind


def bind_forward(site: Site, step: Step) -> list[Call] | None:
    """Return the calls that compute a step, None if a broadcast pattern does not fit the kernels."""
    space = space_of(site, step)
    if space is None:
        return None
    names = Names(site.numbers)
    calls: list[Call] = []
    after: list[Call] = []
    arrays: dict[str, tuple[Array, str]] = {}
    given: dict[Node, Tree] = {}
    for node in step.reads:
        if node in site.affine:
            given[node], operands = site.affine[node].tree(names.value(node))
            arrays |= operands
        else:
            arrays[names.value(node)] = (value_of(site, space, node, calls), space.kinds[node])
    trees = forward_trees(step, names, given)
    results = [Result(trees[node], "full") for node in step.writes]
    outputs = [_value_out(site, space, node, after) for node in step.writes]
    return [*calls, *step_calls(site, space, arrays, results, outputs), *after]


def value_of(site: Site, space: Space, node: Node, calls: list[Call]) -> Array:
    """The value of a node as a step sees it; ``calls`` gets a conversion if one is needed."""
    if not (space.channels_last and space.kinds[node] == "full" and node.framed):
        return site.values[node]
    assert site.images is not None
    return site.images.value(site, node, calls)


def _value_out(site: Site, space: Space, node: Node, after: list[Call]) -> Array:
    if not space.channels_last:
        return site.values[node]
    assert site.images is not None
    return site.images.value_out(site, node, after)


def step_calls(
    site: Site,
    space: Space,
    arrays: Mapping[str, tuple[Array, str]],
    results: Sequence[Result],
    outputs: Sequence[Array],
) -> list[Call]:
    """Return the calls of a kernel over what a step sees; operands and results may be ``outer``, too."""
    outer = Outer()
    arrays = {name: outer.operand(space.rows, array, kind) for name, (array, kind) in arrays.items()}
    made = [outer.result(space.rows, *pair) for pair in zip(results, outputs, strict=True)]
    results, outputs = [result for result, _ in made], [output for _, output in made]
    return [*outer.before, *kernel_calls(site, space.rows, space.columns, arrays, results, outputs), *outer.after]


def kernel_calls(
    site: Site,
    rows: int,
    columns: int,
    arrays: Mapping[str, tuple[Array, str]],
    results: Sequence[Result],
    outputs: Sequence[Array],
) -> list[Call]:
    """Return the calls of the kernel with some results over named arrays and their kinds.

    A result may lie where an operand lies.
    """
    lying = {array.ctypes.data: name for name, (array, kind) in arrays.items() if kind == "full"}
    results = [
        attrs.evolve(result, into=lying.get(output.ctypes.data, "")) if result.kind == "full" else result
        for result, output in zip(results, outputs, strict=True)
    ]
    times = rows_as_one(site, rows, columns, [*(kind for _, kind in arrays.values()), *(each.kind for each in results)])
    before: list[Call] = []
    if times > 1:
        arrays = repeated(site, times, columns, arrays, before)
        rows, columns = rows // times, columns * times
    spec, order = spec_of({name: kind for name, (_, kind) in arrays.items()}, (), results)
    operands = [_seen(*arrays[name], rows, columns) for name in order]
    targets = [_seen(outputs[index], results[index].kind, rows, columns) for index in spec.outputs]
    return [*before, *shared_calls.kernel_calls(site, spec, rows, columns, [*operands, *targets], times)]


def _seen(array: Array, kind: str, rows: int, columns: int) -> Array:
    shape = {"full": (rows, columns), "row": (-1,), "col": (rows,), "scalar": (1,)}[kind]
    return array.reshape(shape)
