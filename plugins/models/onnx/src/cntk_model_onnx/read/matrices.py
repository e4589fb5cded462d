"""What is a product with a constant matrix along an axis: images resized, sums that run along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto

from cntk_model_onnx.read.elementwise import of_two
from cntk_model_onnx.read.folding import attributes_of
from cntk_model_onnx.read.products import times
from cntk_model_onnx.read.reductions import reduced
from cntk_model_onnx.read.shapes import joined, length_of, part, repeated, tensor, turned
from cntk_model_onnx.read.table import reads
from cntk_model_onnx.read.values import Array, Constant, Tensor, Unreadable, Value, numbers, operand, whole

if TYPE_CHECKING:
    from cntk_model_onnx.read.importer import Importer

_MOST = 1 << 24
"""Most elements of a matrix."""


def along(reader: Importer, value: Tensor, axis: int, matrix: Array) -> Tensor:
    """Return a tensor whose axis was multiplied by a matrix ``(old length, new length)``."""
    axis %= value.rank
    if axis == value.batch:
        raise Unreadable("it works along the samples of a minibatch")
    last = value.rank - 1
    order = [*(place for place in range(value.rank) if place != axis), axis]
    back = [*range(axis), last, *range(axis, last)]
    return turned(reader, times(reader, turned(reader, value, order), Constant(matrix), matrix), back)


@reads("CumSum")
def _cumulated(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value, given = tensor(inputs[0]), attributes_of(node)
    (axis,) = whole(inputs[1], "axis")
    size = length_of(value, axis)
    if size * size > _MOST:
        raise Unreadable(f"it adds {size} elements up")
    matrix = np.triu(np.ones((size, size), np.float32), int(given.get("exclusive", 0)))
    return along(reader, value, axis, matrix[::-1, ::-1].copy() if given.get("reverse", 0) else matrix)


@reads("CumProd")
def _multiplied(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value, given = tensor(inputs[0]), attributes_of(node)
    (axis,) = whole(inputs[1], "axis")
    size = length_of(value, axis)
    if size > 256:
        raise Unreadable(f"it multiplies {size} elements")
    places = list(range(size))[:: -1 if given.get("reverse", 0) else 1]
    parts = [part(reader, value, axis, place, place + 1) for place in places]
    ones = of_two(reader, "Equal", parts[0], parts[0])
    found = [ones if given.get("exclusive", 0) else parts[0]]
    for index in range(1, size):
        found.append(of_two(reader, "ElementTimes", found[-1], parts[index - int(given.get("exclusive", 0))]))
    return joined(reader, found[:: -1 if given.get("reverse", 0) else 1], axis)


@reads("LpNormalization")
def _normalized(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value, given = tensor(inputs[0]), attributes_of(node)
    kind = {1: "L1", 2: "L2"}.get(given.get("p", 2))
    if kind is None:
        raise Unreadable("its norm is neither the first nor the second")
    size = reduced(reader, value, kind, [given.get("axis", -1)])
    inverse = Tensor(reader.add("Reciprocal", [size.node]), size.batch, size.fold)  # of 0 it is 0, as it has to be
    return of_two(reader, "ElementTimes", value, inverse)


# -- resizing: "Resize" of ONNX's operators ---------------------------------------------------------------


@reads("Resize", "Upsample")
def _resize(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value, given = tensor(inputs[0]), attributes_of(node)
    scales, sizes = _scales(node, value, inputs, reader)
    old = reader.opset < _WITH_REGION  # Upsample ends before
    if old:
        given |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    crop = numbers(inputs[1], "region").reshape(-1) if _given(inputs, 1) and not old else None
    for axis, (scale, size) in enumerate(zip(scales, sizes, strict=True)):
        if axis == value.batch or (scale == 1.0 and given.get("coordinate_transformation_mode") != _CROP):
            if scale != 1.0:
                raise Unreadable("it works along the samples of a minibatch")
            continue
        length = length_of(value, axis)
        if scale == int(scale) and _repeats(given):
            value = repeated(reader, value, axis, int(scale))
            continue
        if length * size > _MOST:
            raise Unreadable(f"it makes {size} of {length} elements")
        region = None if crop is None else (float(crop[axis]), float(crop[axis + len(crop) // 2]))
        value = along(reader, value, axis, _Filter(given, length, size, scale, region).matrix())
    return value


_CROP = "tf_crop_and_resize"
_WITH_REGION = 11
"""Since this version of the operators a region stands before the scales, and there are ways to find places."""


def _given(inputs: Sequence[Value | None], place: int) -> bool:
    value = operand(inputs, place)
    return value is not None and not (isinstance(value, Constant) and not value.array.size)


def _repeats(given: dict[str, Any]) -> bool:
    """Whether elements are repeated, if there will be a whole number of times as many."""
    how = given.get("coordinate_transformation_mode", "half_pixel")
    rounding = given.get("nearest_mode", "round_prefer_floor")
    if given.get("mode", "nearest") != "nearest":
        return False
    if rounding.startswith("round"):
        return how in ("half_pixel", "pytorch_half_pixel")
    return (how, rounding) == ("asymmetric", "floor")


def _scales(
    node: NodeProto, value: Tensor, inputs: Sequence[Value | None], reader: Importer
) -> tuple[list[float], list[int]]:
    """How many times longer each axis becomes, and how long."""
    given = attributes_of(node)
    old = [int(size) if isinstance(size, int | np.integer) else 0 for size in value.sizes(reader.samples)]
    axes = [axis % value.rank for axis in given.get("axes", range(value.rank))]
    place = 1 if reader.opset < _WITH_REGION else 2
    if _given(inputs, 3):
        wanted = dict(zip(axes, numbers(inputs[3], "sizes").reshape(-1).tolist(), strict=True))
        wanted.pop(value.batch, None)
        return _of_sizes(old, {axis: int(each) for axis, each in wanted.items()}, given)
    listed = numbers(inputs[place], "scales").reshape(-1).tolist() if _given(inputs, place) else given["scales"]
    scales = [1.0] * value.rank
    for axis, each in zip(axes, listed, strict=True):
        scales[axis] = float(each)
    if not all(0 < scale < 1e6 for scale in scales):
        raise Unreadable("its scales make no sense")
    return scales, [int(size * scale) for size, scale in zip(old, scales, strict=True)]


def _of_sizes(old: Sequence[int], wanted: dict[int, int], given: dict[str, Any]) -> tuple[list[float], list[int]]:
    policy = given.get("keep_aspect_ratio_policy", "stretch")
    if min([*(old[axis] for axis in wanted), *wanted.values()], default=1) < 1:
        raise Unreadable("it resizes an axis whose length is known only with the data")
    scales = {axis: size / old[axis] for axis, size in wanted.items()}
    if policy != "stretch":
        one = (min if policy == "not_larger" else max)(scales.values())
        scales = dict.fromkeys(scales, one)
        wanted = {axis: int(one * old[axis] + 0.5) for axis in wanted}
    return [scales.get(axis, 1.0) for axis in range(len(old))], [
        wanted.get(axis, old[axis]) for axis in range(len(old))
    ]


class _Filter:
    """How the elements of an axis are made of others.

    Args:
        given: the attributes of the node.
        old: length of the axis.
        new: its length then.
        scale: how many times longer it becomes.
        region: where the part begins and ends that is resized, in parts of the axis.
    """

    def __init__(
        self, given: dict[str, Any], old: int, new: int, scale: float, region: tuple[float, float] | None
    ) -> None:
        self._given, self._old, self._new, self._scale, self._region = given, old, new, scale, region

    def matrix(self) -> Array:
        """Return the weights ``(old, new)``."""
        mode = self._given.get("mode", "nearest")
        places = self._places()
        if mode == "nearest":
            found = np.zeros((self._old, self._new))
            found[np.clip(self._nearest(places), 0, self._old - 1), np.arange(self._new)] = 1.0
        else:
            found = self._weighted(
                places, _cubic(self._given.get("cubic_coeff_a", -0.75)) if mode == "cubic" else _tent
            )
        if self._given.get("coordinate_transformation_mode") == _CROP:
            outside = (places < 0) | (places > self._old - 1)
            if outside.any() and self._given.get("extrapolation_value", 0.0):
                raise Unreadable("it puts another number than 0 around its input")
            found[:, outside] = 0.0
        return found.astype(np.float32)

    def _places(self) -> Array:
        """Where the new elements stand among the old ones."""
        how = self._given.get("coordinate_transformation_mode", "half_pixel")
        old, new, scale = self._old, self._new, self._scale
        index = np.arange(new)
        if how == "align_corners":
            return index * (old - 1) / (scale * old - 1) if scale * old > 1 else np.zeros(new)
        if how == "asymmetric":
            return index / scale
        if how == "half_pixel_symmetric":
            return old / 2 * (1 - new / (scale * old)) + (index + 0.5) / scale - 0.5
        if how == "pytorch_half_pixel" and new == 1:
            return np.zeros(1)
        if how == _CROP:
            begin, end = self._region or (0.0, 1.0)
            middle = 0.5 * (begin + end) * (old - 1)
            return begin * (old - 1) + index * (end - begin) * (old - 1) / (new - 1) if new > 1 else np.full(1, middle)
        if how not in ("half_pixel", "pytorch_half_pixel"):
            raise Unreadable(f"its way to find places is '{str(how)[:40]}'")
        return (index + 0.5) / scale - 0.5

    def _nearest(self, places: Array) -> Any:
        how = self._given.get("nearest_mode", "round_prefer_floor")
        rounded = {
            "round_prefer_floor": np.ceil(places - 0.5),
            "round_prefer_ceil": np.floor(places + 0.5),
            "floor": np.floor(places),
            "ceil": np.ceil(places),
        }
        if how not in rounded:
            raise Unreadable(f"it rounds in the way '{str(how)[:40]}'")
        return rounded[how].astype(np.int64)

    def _weighted(self, places: Array, kernel: Any) -> Array:
        """Weights of a kernel around the places; where it shrinks without aliases the kernel is wider."""
        narrow = min(self._scale, 1.0) if self._given.get("antialias", 0) else 1.0
        reach = int(np.ceil(2 / narrow)) + 1
        found = np.zeros((self._old, self._new))
        for step in range(-reach, reach + 1):
            taken = np.floor(places).astype(np.int64) + step
            weights = kernel((taken - places) * narrow)
            inside = (taken >= 0) & (taken < self._old)
            if self._given.get("exclude_outside", 0):
                weights = np.where(inside, weights, 0.0)
            np.add.at(found, (np.clip(taken, 0, self._old - 1), np.arange(self._new)), weights)
        return np.asarray(found / found.sum(0))


def _tent(distance: Array) -> Array:
    return np.maximum(1.0 - np.abs(distance), 0.0)


def _cubic(a: float) -> Any:
    """Keys' kernel (R. Keys, "Cubic convolution interpolation for digital image processing", 1981)."""

    def kernel(distance: Array) -> Array:
        x = np.abs(distance)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0.0))

    return kernel
