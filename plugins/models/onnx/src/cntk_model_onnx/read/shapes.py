"""Operations that reduce, reshape, take, join and repeat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from onnx import NodeProto

from cntk_core.api import Node
from cntk_model_onnx.read.elementwise import chosen, without_samples
from cntk_model_onnx.read.folding import attributes_of, axes_of
from cntk_model_onnx.read.table import reads
from cntk_model_onnx.read.values import (
    WHOLE,
    Constant,
    Multiple,
    Tensor,
    Unreadable,
    Value,
    numbers,
    operand,
    whole,
)
from cntk_model_onnx.sizes import are_free

if TYPE_CHECKING:
    from cntk_model_onnx.read.importer import Importer

_MOST_PARTS = 1024


def tensor(value: Value | None) -> Tensor:
    """Return what depends on the data.

    Raises:
        Unreadable: it does not.
    """
    if not isinstance(value, Tensor):
        raise Unreadable("its first input is constant")
    return value


def cntk_axis(value: Tensor, axis: int) -> int:
    """Return the number that an axis of a tensor has in the attributes of operations."""
    return len(value.shape) - value.place(axis)


def sizes(reader: Importer, node: NodeProto, value: Tensor) -> Constant:
    """Return the sizes of a tensor."""
    given = attributes_of(node)
    found = value.sizes(reader.samples)[given.get("start", 0) : given.get("end")]
    array = np.empty(len(found), object)
    array[:] = found
    plain = all(type(each) is int for each in found)
    return Constant(array.astype(np.int64) if plain else array)


# -- reshaping --------------------------------------------------------------------------------------------


@attrs.frozen
class _Match:
    """Where the samples' axis stands in a target: before it ``before``, and behind its factor ``after``."""

    place: int
    fold: int
    before: tuple[int, ...]
    after: tuple[int, ...]


def _resolved(dims: Sequence[Any], total: int) -> tuple[int, ...] | None:
    """Put in what is left for -1; None if the sizes do not have so many elements."""
    known = math.prod(int(dim) for dim in dims if dim != -1)
    if -1 in dims and known and total % known == 0:
        dims = [total // known if dim == -1 else dim for dim in dims]
    return tuple(dims) if math.prod(int(dim) for dim in dims) == total else None


def _matches(before: Sequence[int], after: Sequence[int], target: Sequence[Any], samples: int) -> _Match | None:
    first, rest = math.prod(before), math.prod(after)
    for place, dim in enumerate(target):
        behind = list(target[place + 1 :])
        if any(isinstance(each, Multiple) for each in [*target[:place], *behind]):
            continue
        left = _resolved(target[:place], first)
        around = first // math.prod(target[:place]) if left is None and 0 < math.prod(target[:place]) <= first else 1
        left = left or _resolved(target[:place], first // around)
        known = math.prod(int(each) for each in behind if each != -1)
        if isinstance(dim, Multiple):
            times = dim.factor
        elif dim == -1:
            times = around * (rest // known if known else 0)
        elif samples and dim > 0 and dim % samples == 0:
            times = dim // samples
        else:
            continue
        within = times // around
        if within < 0:  # a free dimension
            raise Unreadable("it makes one axis of the samples and of an axis whose length is known only with the data")
        right = _resolved(behind, rest // within) if within and rest % within == 0 else None
        if left is not None and right is not None and times == around * within and 1 in (around, within):
            return _Match(place, within if around == 1 else -around, left, right)
    return None


def reshaped(reader: Importer, value: Tensor, target: Sequence[Any]) -> Tensor:
    """Return a tensor with other sizes.

    Raises:
        Unreadable: it mixes samples.
    """
    if value.batch == WHOLE:
        return _whole_reshaped(reader, value, target)
    match = _matches(*value.around(), target, reader.samples)
    if match is None:
        shown = ", ".join("samples" if isinstance(dim, Multiple) else str(dim) for dim in target)
        raise Unreadable(f"it mixes samples, or does not fit: a sample {value.shape} as ({shown})")
    shape = (*match.before, *((abs(match.fold),) if match.fold != 1 else ()), *match.after)
    return Tensor(with_shape(reader, value.node, shape), match.place, match.fold)


def _whole_reshaped(reader: Importer, value: Tensor, target: Sequence[Any]) -> Tensor:
    found = tuple(target) if are_free(value.shape) else _resolved(target, math.prod(value.shape))
    if found is None:
        raise Unreadable(f"its new shape does not fit: {value.shape} as ({', '.join(map(str, target))})")
    if not found:
        return Tensor(reader.add("Squeeze", [with_shape(reader, value.node, (1,))]), WHOLE)
    return Tensor(with_shape(reader, value.node, found), WHOLE)


def with_shape(reader: Importer, node: Node, shape: Sequence[int]) -> Node:
    """Return a node with another sample shape; one dimension may be open."""
    if tuple(node.known_shape) == tuple(shape):
        return node
    dims = [0 if are_free([dim]) else int(dim) for dim in reversed(shape)]
    if dims.count(0) > 1:
        raise Unreadable("several dimensions are known only with the data")
    return reader.add("Reshape", [node], dims=tuple(dims or [1]))


@reads("Reshape")
def _reshape(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value = tensor(inputs[0])
    target = numbers(inputs[1], "new shape").reshape(-1).tolist()
    own = value.sizes(reader.samples)
    if not attributes_of(node).get("allowzero", 0):
        target = [own[place] if each == 0 and place < len(own) else each for place, each in enumerate(target)]
    return reshaped(reader, value, target)


@reads("Flatten")
def _flatten(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value = tensor(inputs[0])
    own, axis = value.sizes(reader.samples), attributes_of(node).get("axis", 1)
    first: Any = 1
    for size in own[: axis if axis >= 0 else value.rank + axis]:
        first = size * first if isinstance(size, Multiple) else first * size
    return reshaped(reader, value, [first, -1])


@reads("Unsqueeze")
def _unsqueeze(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    given = [None, numbers(inputs[1], "axes")] if len(inputs) > 1 else []
    return unsqueezed(reader, tensor(inputs[0]), *(axes_of(node, given) or []))


def unsqueezed(reader: Importer, value: Tensor, *axes: int) -> Tensor:
    """Return a tensor with new axes of length 1."""
    rank = value.rank + len(axes)
    own = iter(value.sizes(reader.samples))
    wanted = {axis % rank for axis in axes}
    return _moved(reader, value, [1 if place in wanted else next(own) for place in range(rank)], wanted)


def _moved(reader: Importer, value: Tensor, target: Sequence[Any], ones: set[int]) -> Tensor:
    """A tensor with new axes of length 1."""
    if value.batch == WHOLE:
        return _whole_reshaped(reader, value, target)
    batch = next(place for place in range(len(target)) if place not in ones and _before(place, ones) == value.batch)
    dims = [dim for place, dim in enumerate(target) if place != batch]
    if value.fold != 1:
        dims.insert(batch, abs(value.fold))
    return Tensor(with_shape(reader, value.node, dims), batch, value.fold)


def _before(place: int, ones: set[int]) -> int:
    """How many axes that were there stand before a place."""
    return sum(each not in ones for each in range(place))


@reads("Squeeze")
def _squeeze(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value = tensor(inputs[0])
    given = [None, numbers(inputs[1], "axes")] if len(inputs) > 1 else []
    axes = axes_of(node, given)
    own = value.sizes(0)
    gone = {axis % value.rank for axis in axes} if axes is not None else {p for p, size in enumerate(own) if size == 1}
    if value.batch in gone or any(own[place] != 1 for place in gone):
        raise Unreadable("it takes an axis away that is longer than 1")
    dims = [size for place, size in enumerate(own) if place not in gone and place != value.batch]
    if value.batch == WHOLE:
        return _whole_reshaped(reader, value, dims)
    batch = _before(value.batch, gone)
    if value.fold != 1:
        dims.insert(batch, abs(value.fold))
    return Tensor(with_shape(reader, value.node, dims), batch, value.fold)


@reads("Transpose")
def _transpose(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value = tensor(inputs[0])
    order = list(attributes_of(node).get("perm", range(value.rank)[::-1]))
    if sorted(order) != list(range(value.rank)):
        raise Unreadable("its order of axes makes no sense")
    return turned(reader, value, order)


def turned(reader: Importer, value: Tensor, order: Sequence[int]) -> Tensor:
    """Return a tensor with its axes in another order."""
    batch = WHOLE if value.batch == WHOLE else list(order).index(value.batch)
    axes: list[int] = []
    for axis in order:
        if axis == value.batch:
            axes += [value.batch] if value.fold != 1 else []
        else:
            axes.append(value.place(axis))
    rank = len(axes)
    if axes == list(range(rank)):
        return Tensor(value.node, batch, value.fold)
    permutation = tuple(rank - axes[rank - 1 - place] for place in range(rank))
    return Tensor(reader.add("TransposeDimensions", [value.node], permutation=permutation), batch, value.fold)


def squeezed(reader: Importer, value: Tensor, axes: Sequence[int]) -> Tensor:
    """Return a tensor without some of its axes, which have length 1."""
    gone = {axis % value.rank for axis in axes}
    places = {value.place(axis) for axis in gone}
    dims = [size for place, size in enumerate(value.shape) if place not in places]
    batch = value.batch if value.batch == WHOLE else _before(value.batch, gone)
    return Tensor(with_shape(reader, value.node, dims or [1]), batch, value.fold) if dims else _scalar(reader, value)


def _scalar(reader: Importer, value: Tensor) -> Tensor:
    """One number for each sample: a sample without axes."""
    return Tensor(reader.add("Squeeze", [value.node]), WHOLE if value.batch == WHOLE else 0)


# -- parts ------------------------------------------------------------------------------------------------


def part(reader: Importer, value: Tensor, axis: int, begin: int, end: int) -> Tensor:
    """Return a range of an axis."""
    number = cntk_axis(value, axis)
    if (begin, end) == (0, value.shape[-number]):
        return value
    if begin >= end:
        raise Unreadable("it takes no elements")
    found = reader.add("Slice", [value.node], begin=(begin,), end=(end,), axis=(number,))
    return Tensor(found, value.batch, value.fold)


def length_of(value: Value | None, axis: int) -> int:
    """Return how long an axis is.

    Raises:
        Unreadable: that is known only with the data, or the axis is that of the samples.
    """
    if isinstance(value, Constant):
        return int(value.array.shape[axis])
    return size_of(tensor(value), axis)


def size_of(value: Tensor, axis: int) -> int:
    """Return how long an axis of a tensor is.

    Raises:
        Unreadable: that is known only with the data, or the axis is that of the samples.
    """
    size = value.shape[value.place(axis)]
    if are_free([size]):
        raise Unreadable("it counts along an axis whose length is known only with the data")
    return int(size)


@reads("Slice")
def _slice(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    found, given = tensor(inputs[0]), attributes_of(node)
    if len(inputs) > 2:
        starts, ends = whole(inputs[1], "starts"), whole(inputs[2], "ends")
        along, by = operand(inputs, 3), operand(inputs, 4)
        axes = list(range(len(starts))) if along is None else whole(along, "axes")
        steps = [1] * len(starts) if by is None else whole(by, "steps")
    else:
        starts, ends = list(given["starts"]), list(given["ends"])
        axes, steps = list(given.get("axes", range(len(starts)))), [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise Unreadable("it has not as many starts as ends and axes")
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if axis % found.rank == found.batch and start == 0 and end >= 2**31 - 1 and step == 1:
            continue
        chosen = range(size_of(found, axis))[start:end:step]
        if step == 1:
            found = part(reader, found, axis, chosen.start, max(chosen.stop, chosen.start))
        else:
            found = picked(reader, found, axis, list(chosen))
    return found


def picked(reader: Importer, value: Tensor, axis: int, places: Sequence[int]) -> Tensor:
    """Return some elements of an axis, in an order."""
    if not places or len(places) > _MOST_PARTS:
        raise Unreadable(f"it picks {len(places)} elements")
    parts: list[Tensor] = []
    begin = 0
    for index in range(1, len(places) + 1):
        if index == len(places) or places[index] != places[index - 1] + 1:
            parts.append(part(reader, value, axis, places[begin], places[index - 1] + 1))
            begin = index
    return joined(reader, parts, axis)


def joined(reader: Importer, parts: Sequence[Tensor], axis: int) -> Tensor:
    """Return tensors one after the other along an axis."""
    first = parts[0]
    if len(parts) == 1:
        return first
    found = reader.add("RowStack", [each.node for each in parts], axis=cntk_axis(first, axis))
    return Tensor(found, first.batch, first.fold)


@reads("Concat")
def _concat(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    axis = attributes_of(node)["axis"]
    like = next((each for each in inputs if isinstance(each, Tensor)), None)
    if like is None:
        raise Unreadable("none of its inputs depends on the data")
    nodes: list[Node] = []
    for each in inputs:
        if isinstance(each, Constant):
            if each.rank == like.rank and not each.array.shape[axis]:
                continue
            nodes.append(reader.parameter(each, without_samples(each.array, like.rank, like.batch, like.fold)))
        elif isinstance(each, Tensor) and (each.batch, each.fold, each.rank) == (like.batch, like.fold, like.rank):
            nodes.append(each.node)
        else:
            raise Unreadable("the samples of its inputs do not stand along the same axis")
    return Tensor(reader.add("RowStack", nodes, axis=cntk_axis(like, axis)), like.batch, like.fold)


@reads("Split")
def _split(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Sequence[Value]:
    value, given = tensor(inputs[0]), attributes_of(node)
    axis = given.get("axis", 0)
    size = size_of(value, axis)
    if (listed := operand(inputs, 1)) is not None:
        lengths = whole(listed, "lengths")
    else:
        count = given.get("num_outputs", len(node.output))
        lengths = list(given.get("split", [])) or [-(-size // count)] * (count - 1)
        lengths += [size - sum(lengths)] if "split" not in given else []
    found, begin = [], 0
    for length in lengths:
        found.append(part(reader, value, axis, begin, begin + length))
        begin += length
    return found


@reads("Gather")
def _gather(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    data, places = inputs
    axis = attributes_of(node).get("axis", 0)
    if isinstance(data, Constant) and isinstance(places, Tensor):
        if axis % max(data.rank, 1):
            raise Unreadable("it picks of a table along another axis than the first")
        table = reader.parameter(data, data.array)
        return Tensor(reader.add("Gather", [places.node, table]), places.batch, places.fold)
    value, chosen = tensor(data), numbers(places, "indices")
    size = size_of(value, axis)
    wanted = [int(each) + (size if each < 0 else 0) for each in chosen.reshape(-1).tolist()]
    if chosen.ndim > 1 or any(not 0 <= each < size for each in wanted):
        raise Unreadable("it picks elements that are not there, or in several axes")
    found = picked(reader, value, axis, wanted)
    return found if chosen.ndim else squeezed(reader, found, [axis])


@reads("Expand")
def _expand(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value = tensor(inputs[0])
    target = numbers(inputs[1], "new shape").reshape(-1).tolist()
    own: list[Any] = value.sizes(reader.samples)
    rank = max(len(target), len(own))
    target, own = [1] * (rank - len(target)) + target, [1] * (rank - len(own)) + own
    wide = [1 if isinstance(dim, Multiple) or dim == size else dim for dim, size in zip(target, own, strict=True)]
    if rank == value.rank and all(dim == 1 for dim in wide):
        return value
    place = value.batch_of(rank)
    if place != WHOLE and wide[place] != 1:
        raise Unreadable("it repeats samples")
    if are_free(wide):
        raise Unreadable("it repeats elements along an axis whose length is known only with the data")
    if math.prod(wide) > _MOST_PARTS << 10:
        raise Unreadable("it repeats its input too often")
    ones = Constant(np.ones([int(dim) for dim in wide]))
    factor = reader.parameter(ones, without_samples(ones.array, rank, place, value.fold))
    return Tensor(reader.add("ElementTimes", [value.node, factor]), place, value.fold)


def repeated(reader: Importer, value: Tensor, axis: int, times: int) -> Tensor:
    """Return a tensor with each element of an axis several times, one beside the other."""
    place = value.place(axis)
    shape = value.shape
    if are_free([shape[place]]) or not 1 <= times <= _MOST_PARTS:
        raise Unreadable("it repeats elements along an axis whose length is known only with the data")
    wide = with_shape(reader, value.node, (*shape[: place + 1], 1, *shape[place + 1 :]))
    ones = np.ones((times, *[1] * (len(shape) - 1 - place)))
    spread = reader.add("ElementTimes", [wide, reader.parameter(Constant(ones), ones)])
    found = with_shape(reader, spread, (*shape[:place], shape[place] * times, *shape[place + 1 :]))
    return Tensor(found, value.batch, value.fold)


@reads("Trilu")
def _triangle(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value = tensor(inputs[0])
    shift = operand(inputs, 1)
    diagonal = 0 if shift is None else whole(shift, "diagonal")[0]
    sizes = size_of(value, -2), size_of(value, -1)
    upper = attributes_of(node).get("upper", 1)
    mask = np.triu(np.ones(sizes), diagonal) if upper else np.tril(np.ones(sizes), diagonal)
    return chosen(reader, Constant(mask), value, Constant(np.zeros(1)))


@reads("Tile")
def _tile(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    found = tensor(inputs[0])
    for axis, count in enumerate(whole(inputs[1], "repetitions")):
        if not 1 <= count <= _MOST_PARTS:
            raise Unreadable(f"it repeats its input {count} times")
        if count > 1:
            found = joined(reader, [found] * count, axis)
    return found
