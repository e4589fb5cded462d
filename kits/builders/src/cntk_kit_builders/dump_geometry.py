"""What dumpNodes says of the windows of convolution and pooling, in the original's words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cntk_core.network.node import Node
from cntk_core.ops.families.convolution import convolution_setup
from cntk_core.ops.families.geometry import Geometry, ImageDims, Window, extended, window_of
from cntk_core.ops.families.pooling import image_pooling_geometry, pooling_geometry
from cntk_core.ops.language.shapes import elements, is_free, to_cntk

_POOL_KINDS = {"max": 1, "average": 2}
_IMAGE_POOLING = ("MaxPooling", "AveragePooling")


def geometry_pieces(node: Node, metadata: bool) -> Iterator[str]:
    """Yield the pieces of text for a node with windows; nothing for any other, nor where sizes are free.

    Args:
        node: of a network whose shapes are inferred.
        metadata: whether metadata are printed. The original prints the geometry of the newer operations in any case.
    """
    name, attributes = node.op.name, node.attributes
    if any(is_free(child.known_shape) for child in node.inputs):
        return
    if name in _IMAGE_POOLING:
        if metadata:
            yield from _image_pooling(node)
        return
    shapes = [child.known_shape for child in node.inputs] if name in ("Convolution", "Pooling", "MaxUnpooling") else []
    if name == "Convolution":
        setup = convolution_setup(shapes[0], shapes[1], attributes)
        kernel = elements(setup.window.kernel)
        maps = attributes.map_count if elements(attributes.map_count) else (elements(shapes[0]) // kernel,)
        yield from _geometry(setup.geometry, setup.window, maps, attributes.sharing, 0)
    elif name in ("Pooling", "MaxUnpooling"):
        data = shapes[0] if name == "Pooling" else shapes[1]
        window = window_of(to_cntk(data), attributes, reduces=False)
        yield from _geometry(
            pooling_geometry(data, attributes), window, (1,), (True,), _POOL_KINDS[attributes.pool_kind.lower()]
        )


def _geometry(
    geometry: Geometry, window: Window, maps: Sequence[int], sharing: Sequence[bool], kind: int
) -> Iterator[str]:
    rank = len(geometry.input)
    shared = extended(tuple(sharing), rank, rank, True)
    yield "Geometry: "
    yield (
        f"Input: {_dims(geometry.input)}, Output: {_dims(geometry.output)}, Kernel: {_dims(window.kernel)}, "
        f"Map: {_dims(maps)}, Stride: {_dims(window.stride)}, Sharing: {_flags(shared)}, "
        f"AutoPad: {_flags(window.auto)}, LowerPad: {_dims(window.lower)}, UpperPad: {_dims(window.upper)}"
    )
    yield "\n"
    yield "PoolKind: "
    yield str(kind)
    yield "\n"


def _dims(dims: Sequence[int]) -> str:
    return " x ".join(map(str, dims))


def _flags(flags: Sequence[bool]) -> str:
    return f"({', '.join(str(int(flag)) for flag in flags)})"


def _image_pooling(node: Node) -> Iterator[str]:
    attributes, data = node.attributes, node.inputs[0].known_shape
    layout = attributes.image_layout
    before = ImageDims.of(to_cntk(data), layout)
    after = ImageDims.of(image_pooling_geometry(data, attributes).output, layout)
    yield f"Input[Width:{before.width}, Height:{before.height}, Channels:{before.channels}]  \n"
    yield (
        f"PoolingWindow[Width:{attributes.window_width}, Height:{attributes.window_height}]  "
        f"SubSampling[Horizontal:{attributes.horizontal_subsample}, Vertical:{attributes.vertical_subsample}]\n"
    )
    yield f"Output[Width:{after.width}, Height:{after.height}, Channels:{after.channels}]  \n"
    yield f"TotalSizePerSample[Input:{elements(data)}, Output:{elements(node.known_shape)}]  \n"
