"""Binds fused element-wise steps to generated kernels, whatever is broadcast, and sums to kernels of sums."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.api import Node
from cntk_core.api.engines import Expr, GradientStep, Names, Step, forward_trees, gradient_trees
from cntk_engine_cuda.gpu import THREADS, Array, Call, Gpu
from cntk_engine_cuda.site import Site
from cntk_engine_cuda.source import Flags, Result, Tree, spec_of

LIMIT = 1 << 31
"""Elements from which indices need 64 bits."""


@attrs.frozen(eq=False)
class Operand:
    """An array in one piece, and along which axes of a space it varies."""

    array: Array
    flags: Flags


@attrs.frozen
class Space:
    """The elements of a step, axis by axis.

    Attributes:
        sizes: of the axes, the frames first where there are any.
        known: whether the size of the first axis is part of the kernel's text.
    """

    sizes: tuple[int, ...]
    known: bool

    @classmethod
    def of(cls, site: Site, node: Node) -> Space:
        """The space of a node's value."""
        shape = node.known_shape
        return cls((site.rows(node), *shape), known=False) if node.framed else cls(shape or (1,), known=True)

    def flags(self, node: Node) -> Flags:
        """Along which axes a node's value varies."""
        framed_space = not self.known
        rank = len(self.sizes) - framed_space
        shape = tuple(node.known_shape)
        shape = (1,) * (rank - len(shape)) + shape[max(0, len(shape) - rank) :]
        sample = tuple(
            size != 1 or whole == 1 for size, whole in zip(shape, self.sizes[int(framed_space) :], strict=True)
        )
        return (bool(node.framed), *sample) if framed_space else sample

    def gathered(
        self, operands: Mapping[str, Operand], kept: Flags
    ) -> tuple[tuple[int, ...], dict[str, Operand], Flags]:
        """The space with adjacent axes that all treat alike as one: sizes (0 for what only a launch knows)."""
        patterns = [*(operand.flags for operand in operands.values()), kept]
        groups: list[list[int]] = []
        for axis, size in enumerate(self.sizes):
            if size == 1 and (axis or self.known):
                continue
            if groups and all(pattern[groups[-1][-1]] == pattern[axis] for pattern in patterns):
                groups[-1].append(axis)
            else:
                groups.append([axis])
        if not groups:
            groups = [[0]]
        sizes = [math.prod(self.sizes[axis] for axis in group) for group in groups]
        if not self.known and groups[0][0] == 0:
            sizes[0] = 0

        def chosen(flags: Flags) -> Flags:
            return tuple(flags[group[0]] for group in groups)

        changed = {name: Operand(operand.array, chosen(operand.flags)) for name, operand in operands.items()}
        return tuple(sizes), changed, chosen(kept)


# -- one result for each element ----------------------------------------------------------------------------


@attrs.frozen(eq=False)
class Numbers:
    """Numbers that trees use by name: ``array`` has them in this order, in double precision, on the device."""

    names: tuple[str, ...]
    array: Array


def map_calls(
    gpu: Gpu,
    space: Space,
    operands: Mapping[str, Operand],
    results: Sequence[Result],
    outputs: Sequence[Array],
    numbers: Numbers | None = None,
) -> list[Call]:
    """The calls of the kernel that writes some results for each element of a space."""
    count = math.prod(space.sizes)
    if not count or not results:
        return []
    used = set().union(*(_symbols(result.tree) for result in results))
    operands = {name: operand for name, operand in operands.items() if name in used}
    sizes, operands, kept = space.gathered(operands, (True,) * len(space.sizes))
    dtype = outputs[0].dtype
    lanes = 16 // dtype.itemsize
    run = count if len(sizes) == 1 else sizes[-1]
    arrays = [*(operand.array for operand in operands.values()), *outputs]
    packed = run % lanes == 0 and all(array.data.ptr % 16 == 0 for array in arrays)
    spec, order = spec_of(
        sizes, {name: operand.flags for name, operand in operands.items()}, results, kept,
        packed=packed, wide=count >= LIMIT, numbers=numbers.names if numbers is not None else (),
    )  # fmt: skip
    items = count // lanes if packed else count
    arguments = (*(operands[name].array for name in order), *_given(numbers), *outputs, np.int64(items))
    return [gpu.launch(gpu.kernel(spec, dtype), gpu.grid(items), (THREADS,), arguments)]


def _given(numbers: Numbers | None) -> tuple[Array, ...]:
    return (numbers.array,) if numbers is not None and numbers.names else ()


def _symbols(tree: Tree) -> frozenset[str]:
    return tree.symbols() if isinstance(tree, Expr) else frozenset()


# -- sums ---------------------------------------------------------------------------------------------------


def sum_calls(
    gpu: Gpu,
    space: Space,
    operands: Mapping[str, Operand],
    results: Sequence[Result],
    outputs: Sequence[Array],
    kept: Flags,
    parts: Any,
    numbers: Numbers | None = None,
) -> list[Call]:
    """The calls that write sums over some axes of a space.

    Args:
        gpu: the device.
        space: all elements.
        operands: by the names of the trees.
        results, outputs: what is summed, and where the sums go.
        kept: the axes that the sums do not run over.
        parts: ``elements -> flat array``, storage for parts of sums.
        numbers: what the trees (but not what is made of the sums) may use beside the operands.
    """
    flat = [output.reshape(-1) for output in outputs]
    left = flat[0].size
    if not left:
        return []
    used = set().union(*(_symbols(result.tree) for result in results))
    operands = {name: operand for name, operand in operands.items() if name in used}
    total = math.prod(space.sizes)
    sizes, operands, kept = space.gathered(operands, kept)
    if all(kept):  # the axes that are summed over have one element each
        sizes, kept = (*sizes, 1), (*kept, False)
        operands = {name: Operand(operand.array, (*operand.flags, False)) for name, operand in operands.items()}
    summed = total // left
    block = _block(left, summed, across_last=not kept[-1])
    splits = _splits(gpu, left, summed, block)
    whole = splits == 1
    spec, order = spec_of(
        sizes, {name: operand.flags for name, operand in operands.items()}, results if whole else _parts_of(results),
        kept, wide=max(total, left * splits) >= LIMIT, block=block,
        numbers=numbers.names if numbers is not None else (),
    )  # fmt: skip
    targets = flat if whole else list(parts(left * splits * len(flat)).reshape(len(flat), left * splits))
    chunk = -(-summed // splits)
    arguments = (*(operands[name].array for name in order), *_given(numbers), *targets)
    counts = (np.int64(left), np.int64(summed), np.int64(chunk))
    grid = (-(-left // block[0]), splits)
    calls = [gpu.launch(gpu.kernel(spec, flat[0].dtype), grid, block, (*arguments, *counts))]
    return calls if whole else [*calls, *_finish(gpu, results, targets, flat, splits)]


def _parts_of(results: Sequence[Result]) -> list[Result]:
    return [Result(result.tree, fold=result.fold) for result in results]


def _finish(
    gpu: Gpu, results: Sequence[Result], parts: Sequence[Array], outputs: Sequence[Array], splits: int
) -> list[Call]:
    """Add the parts of each sum."""
    left = outputs[0].size
    block = _block(left, splits, across_last=True)
    operands: dict[str, Flags] = {f"p{index}": (True, True) for index in range(len(parts))}
    added = [attrs.evolve(result, tree=Expr("symbol", (name,))) for name, result in zip(operands, results, strict=True)]
    spec, order = spec_of((0, splits), operands, added, (True, False), wide=left * splits >= LIMIT, block=block)
    by_name = dict(zip(operands, parts, strict=True))
    counts = (np.int64(left), np.int64(splits), np.int64(splits))
    arguments = (*(by_name[name] for name in order), *outputs, *counts)
    return [gpu.launch(gpu.kernel(spec, outputs[0].dtype), (-(-left // block[0]), 1), block, arguments)]


def _power(number: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << max(0, number - 1).bit_length()


def _block(left: int, summed: int, *, across_last: bool) -> tuple[int, int]:
    """Threads along results and along what is summed: neighbours read neighbours."""
    if across_last:
        across = min(THREADS, _power(summed)) if summed > 8 else 1
        return min(_power(left), THREADS // across), across
    along = min(32, _power(left))
    return along, min(THREADS // along, _power(max(1, summed)))


def _splits(gpu: Gpu, left: int, summed: int, block: tuple[int, int]) -> int:
    """Blocks that share a sum, so that all processors have something to do; a power of two."""
    blocks = -(-left // block[0])
    wanted = max(1, 2 * gpu.processors // blocks)
    most = max(1, summed // (block[1] * 16))
    return min(256, 1 << (min(wanted, most).bit_length() - 1))


# -- steps --------------------------------------------------------------------------------------------------


def bind_forward(site: Site, step: Step) -> list[Call]:
    """Return the calls that compute a step."""
    like = step.nodes[-1]
    space, names = Space.of(site, like), Names(site.numbers)
    operands = {names.value(node): Operand(site.values[node], space.flags(node)) for node in step.reads}
    trees = forward_trees(step, names)
    results = [Result(trees[node]) for node in step.writes]
    return map_calls(site.gpu, space, operands, results, site.outputs(step))


def bind_gradient(site: Site, step: GradientStep) -> list[Call]:
    """Return the calls that compute all gradients of a step: sums first, as the others may lie where it reads."""
    like = step.step.nodes[-1]
    space, names = Space.of(site, like), Names(site.numbers)
    operands = {names.value(node): Operand(site.values[node], space.flags(node)) for node in step.reads}
    operands |= {
        names.gradient(node): Operand(site.gradients[node], (True,) * len(space.sizes)) for node in step.sources
    }
    trees = gradient_trees(step, names, site.path)
    full: list[tuple[Result, Array]] = []
    sums: dict[Flags, list[tuple[Result, Array]]] = {}
    for target in step.targets:
        flags = space.flags(target.node)
        out = site.gradients[target.node]
        tree = trees.get(target.node, 0.0)
        if len(flags) and all(flags):
            if target.accumulate or not _is_there(tree, out, operands):
                full.append((Result(tree, target.accumulate), out))
        else:
            sums.setdefault(flags, []).append((Result(tree, target.accumulate), out))
    calls: list[Call] = []
    after: list[Call] = []
    reading = [operand.array for operand in operands.values()]
    for flags, pairs in sums.items():
        outputs = [_apart(site, out, reading, after) for _, out in pairs]
        calls += sum_calls(site.gpu, space, operands, [result for result, _ in pairs], outputs, flags, site.workspace)
    results, places = [result for result, _ in full], [out for _, out in full]
    return [*calls, *map_calls(site.gpu, space, operands, results, places), *after]


def _apart(site: Site, out: Array, reading: Iterable[Array], after: list[Call]) -> Array:
    """Where a sum goes: not over something that another kernel of the step still reads."""
    if not any(overlap(out, other) for other in reading):
        return out
    made = site.gpu.cupy.empty_like(out)
    after += site.gpu.copy(out, made)
    return made


def overlap(first: Array, second: Array) -> bool:
    """Whether two arrays, each in one piece, lie on some byte together."""
    begin, other = int(first.data.ptr), int(second.data.ptr)
    return begin < other + int(second.nbytes) and other < begin + int(first.nbytes)


def _is_there(tree: Tree, output: Array, operands: Mapping[str, Operand]) -> bool:
    """Whether a gradient that is passed on unchanged lies where it should already."""
    if not isinstance(tree, Expr) or tree.operation != "symbol":
        return False
    operand = operands[str(tree.args[0])]
    return all(operand.flags) and bool(operand.array.data.ptr == output.data.ptr)
