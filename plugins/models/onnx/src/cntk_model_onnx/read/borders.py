"""Operations that put elements at borders, order them, and move them between channels and places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onnx import NodeProto

from cntk_model_onnx.read.folding import attributes_of
from cntk_model_onnx.read.shapes import cntk_axis, length_of, picked, reshaped, tensor, turned
from cntk_model_onnx.read.table import reads
from cntk_model_onnx.read.values import Tensor, Unreadable, Value, numbers, operand, whole
from cntk_model_onnx.sizes import are_free

if TYPE_CHECKING:
    from cntk_model_onnx.read.importer import Importer


_MODES = ("constant", "reflect", "edge", "wrap")


@reads("Pad")
def _pad(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value, given = tensor(inputs[0]), attributes_of(node)
    widths = whole(inputs[1], "widths") if len(inputs) > 1 else list(given.get("pads", given.get("paddings", [])))
    fill = given.get("value", 0.0)
    if (filling := operand(inputs, 2)) is not None:
        fill = float(numbers(filling, "value").reshape(-1)[0])
    along = operand(inputs, 3)
    axes = list(range(len(widths) // 2)) if along is None else whole(along, "axes")
    if len(widths) != 2 * len(axes) or given.get("mode", "constant") not in _MODES:
        raise Unreadable("it pads in a way that is not known")
    both = zip(widths[: len(axes)], widths[len(axes) :], strict=True)
    pairs = {axis % value.rank: pair for axis, pair in zip(axes, both, strict=True)}
    if pairs.pop(value.batch, (0, 0)) != (0, 0):
        raise Unreadable("it works along the samples of a minibatch")
    if given.get("mode") in ("edge", "wrap"):
        for axis, (head, foot) in pairs.items():
            size = length_of(value, axis)
            wanted = range(-head, size + foot)
            inside = [min(max(place, 0), size - 1) if given["mode"] == "edge" else place % size for place in wanted]
            value = picked(reader, value, axis, inside) if head or foot else value
        return value
    places = {value.place(axis): pair for axis, pair in pairs.items()}
    return padded(reader, value, places, given.get("mode", "constant"), fill)


def padded(
    reader: Importer, value: Tensor, widths: dict[int, tuple[int, int]], mode: str = "constant", fill: float = 0.0
) -> Tensor:
    """Return a tensor with more (or fewer) elements at its borders, by axis of a sample."""
    rank, node = len(value.shape), value.node
    for place, (head, foot) in widths.items():
        if head < 0 or foot < 0:
            size = value.shape[place]
            if are_free([size]):
                raise Unreadable("it cuts an axis whose length is known only with the data")
            cut: dict[str, Any] = {
                "begin": (max(-head, 0),),
                "end": (int(size) - max(-foot, 0),),
                "axis": (rank - place,),
            }
            node = reader.add("Slice", [node], **cut)
    both = [tuple(max(0, width) for width in widths.get(place, (0, 0))) for place in reversed(range(rank))]
    if any(any(pair) for pair in both):
        heads, feet = zip(*both, strict=True)
        node = reader.add("Pad", [node], head=heads, foot=feet, mode=mode, value=fill)
    return Tensor(node, value.batch, value.fold)


@reads("TopK")
def _top(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Sequence[Value]:
    value, given = tensor(inputs[0]), attributes_of(node)
    count = whole(inputs[1], "number")[0] if len(inputs) > 1 else given["k"]
    axis = cntk_axis(value, given.get("axis", -1))
    largest = given.get("largest", 1)
    source = value.node if largest else reader.add("Negate", [value.node])
    found = [reader.add("TopK", [source], k=count, axis=axis, output=kind) for kind in ("values", "indices")]
    if not largest:
        found[0] = reader.add("Negate", [found[0]])
    return [Tensor(each, value.batch, value.fold) for each in found]


@reads("DepthToSpace", "SpaceToDepth")
def _blocks(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value, given = tensor(inputs[0]), attributes_of(node)
    if value.batch or len(value.shape) != 3 or value.fold != 1:
        raise Unreadable("its input has not samples, channels and two places, in this order")
    if given.get("mode", "DCR") != "DCR":  # of DepthToSpace alone
        return _by_columns(reader, value, given["blocksize"])
    return Tensor(reader.add(node.op_type, [value.node], block_size=given["blocksize"]))


def _by_columns(reader: Importer, value: Tensor, block: int) -> Tensor:
    """Blocks whose places stand behind the channels, not before them."""
    samples, channels, rows, columns = value.sizes(reader.samples)
    apart = [samples, channels // (block * block), block, block, rows, columns]
    target = [samples, apart[1], rows * block, columns * block]
    return reshaped(reader, turned(reader, reshaped(reader, value, apart), [0, 1, 4, 2, 5, 3]), target)


@reads("OneHot")
def _one_hot(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value = tensor(inputs[0])
    (count,), ends = whole(inputs[1], "depth"), numbers(inputs[2], "values").reshape(-1).tolist()
    if ends != [0, 1] or attributes_of(node).get("axis", -1) not in (-1, value.rank):
        raise Unreadable("it has other values than 0 and 1, or another axis than the last")
    return Tensor(reader.add("OneHot", [value.node], num_class=count, axis=0), value.batch, value.fold)
