"""Inputs on which the operations of derivatives are checked; part of :mod:`~cntk_testing.op_examples`."""

from __future__ import annotations

from cntk_core.ops.families.adjoints import MomentsAttributes
from cntk_core.ops.families.convolution import ConvolutionAttributes
from cntk_core.ops.families.pooling import POOLING, PoolingAttributes
from cntk_testing.op_cases import OpExample

_POOLINGS = (
    PoolingAttributes((3, 2), "max", (2,), include_pad=True),
    PoolingAttributes((2, 2), "max", (2,), (False,)),
    PoolingAttributes((3, 2), "average", (2,), ceil_out_dim=True),
)
_UNPOOLINGS = (PoolingAttributes((2, 2), stride=(2,), auto_padding=(False,)), PoolingAttributes((3, 3), stride=(2,)))

ADJOINTS: dict[str, tuple[OpExample, ...]] = {
    "PoolingTangent": tuple(
        OpExample(((2, 5, 6), (2, 5, 6)), attributes, framed=framed, nan=())
        for attributes in _POOLINGS
        for framed in ((True, True), (False, False), (True, False))
    ),
    "PoolingGradient": tuple(
        OpExample(((2, 5, 6), POOLING.infer([(2, 5, 6)], attributes)), attributes, framed=framed, nan=())
        for attributes in _POOLINGS
        for framed in ((True, True), (False, False), (True, False))
    ),
    "MaxUnpoolingGradient": tuple(
        OpExample(((2, 4, 5), (2, 4, 5)), attributes, framed=framed, nan=())
        for attributes in _UNPOOLINGS
        for framed in ((True, True), (False, False), (True, False))
    ),
    "ConvolutionData": tuple(
        OpExample(shapes, attributes, framed=framed, nan=())
        for framed in ((False, True, True), (False, False, False))
        for shapes, attributes in (
            (((6, 2, 3, 2), (4, 5, 4), (6, 5, 4)), ConvolutionAttributes((2, 3), (6,), groups=2)),
            (((12, 3), (4, 5, 2), (1, 4, 3)), ConvolutionAttributes.image(2, 3, 3, 1, 2)),
        )
    ),
    "BatchMoments": tuple(
        OpExample(shapes, MomentsAttributes(spatial), framed=(framed, False, False), nan=())
        for framed in (True, False)
        for shapes, spatial in ((((4,), (4,), (4,)), False), (((2, 3, 2), (2,), (2,)), True))
    ),
}
"""Op name to examples."""
