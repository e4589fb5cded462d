"""Inputs on which the operations of later networks are checked; part of :mod:`~cntk_testing.op_examples`."""

from __future__ import annotations

from cntk_core.ops.families.activations import (
    GeluAttributes,
    HardSigmoidAttributes,
    LeakyReLUAttributes,
    SELUAttributes,
    SoftPlusAttributes,
)
from cntk_core.ops.families.filling import CastAttributes, FillAttributes
from cntk_core.ops.families.layer_normalization import LayerNormalizationAttributes
from cntk_core.ops.families.ordering import TopKAttributes
from cntk_core.ops.families.padding import MODES, PadAttributes
from cntk_core.ops.families.rearranging import BlockAttributes, ExpandDimsAttributes, SqueezeAttributes
from cntk_testing.op_cases import OpExample

UNARY = (OpExample(((4,),)), OpExample(((2, 3),)))
SMALL = (OpExample(((4,),), kinds=("chance",)), OpExample(((2, 3),), kinds=("chance",)))
BINARY = (OpExample(((4,), (4,))), OpExample(((3, 1), (2, 1, 4))), OpExample(((1,), (2, 3))))
ON_A_SAMPLE = (True, False, False)

LATER: dict[str, tuple[OpExample, ...]] = {
    "Tan": UNARY,
    "Asin": SMALL,
    "Acos": SMALL,
    "Atan": UNARY,
    "Sinh": UNARY,
    "Cosh": UNARY,
    "Asinh": UNARY,
    "Acosh": (OpExample(((4,),), values={0: [1.2, 1.5, 2.0, 7.0]}),),
    "Atanh": SMALL,
    "Erf": UNARY,
    "Gelu": (*UNARY, OpExample(((4,),), GeluAttributes("tanh"))),
    "SoftPlus": (*UNARY, OpExample(((4,),), SoftPlusAttributes(3.0))),
    "SoftSign": UNARY,
    "HardSigmoid": (*UNARY, OpExample(((4,),), HardSigmoidAttributes(0.7, 0.3))),
    "LeakyReLU": (*UNARY, OpExample(((4,),), LeakyReLUAttributes(0.3))),
    # A slope shows where x is negative alone.
    "PReLU": tuple(OpExample(example.shapes, nan=(1,)) for example in BINARY),
    "SELU": (*UNARY, OpExample(((4,),), SELUAttributes(0.5, 2.0))),
    # The gradient is not that of the value.
    "StraightThrough": tuple(OpExample(example.shapes, gradient=False) for example in UNARY),
    "ConstantOp": (*UNARY, OpExample(((4,),), FillAttributes(2.5))),
    "EyeLikeOp": (OpExample(((3, 3),)), OpExample(((2, 4),))),
    "Cast": (
        OpExample(((4,),), CastAttributes("double")),
        *(OpExample(((2, 3),), CastAttributes(name), gradient=False) for name in ("float", "float16")),
    ),
    "Squeeze": (OpExample(((1, 3, 1),)), OpExample(((1, 3, 1),), SqueezeAttributes(3)), OpExample(((4,),))),
    "ExpandDims": (OpExample(((2, 3),)), OpExample(((2, 3),), ExpandDimsAttributes(3))),
    "DepthToSpace": (OpExample(((8, 2, 3),), BlockAttributes(2)),),
    "SpaceToDepth": (OpExample(((2, 4, 6),), BlockAttributes(2)),),
    "Pad": (
        *(OpExample(((3, 4),), PadAttributes((2, 1), (3, 2), mode)) for mode in MODES),
        OpExample(((2, 3),), PadAttributes(1, 0, value=0.5)),
    ),
    "TopK": (
        OpExample(((5,),), TopKAttributes(2), nan=()),
        OpExample(((4, 3),), TopKAttributes(3, 2), nan=()),
        OpExample(((5,),), TopKAttributes(2, 1, "indices"), nan=()),
    ),
    "LayerNormalization": (
        OpExample(((4,), (4,), (4,)), framed=ON_A_SAMPLE),
        OpExample(((2, 3),)),
        OpExample(((2, 3), (2, 1)), LayerNormalizationAttributes(1, 0.1), framed=ON_A_SAMPLE[:2]),
        OpExample(((2, 3, 4), (1,), (3, 1)), LayerNormalizationAttributes(2), framed=(False, False, False)),
    ),
}
"""Op name to examples."""
