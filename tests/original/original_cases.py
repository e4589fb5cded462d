"""Random inputs for operations that CNTK 2 and we both have; the same for every run and every version of NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from zlib import crc32

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.ops.families.activations import (
    HardSigmoidAttributes,
    LeakyReLUAttributes,
    SELUAttributes,
)
from cntk_core.ops.families.convolution import ConvolutionAttributes
from cntk_core.ops.families.normalization import LocalResponseNormalizationAttributes
from cntk_core.ops.families.ordering import TopKAttributes
from cntk_core.ops.families.padding import MODES, PadAttributes
from cntk_core.ops.families.pooling import PoolingAttributes
from cntk_core.ops.families.rearranging import BlockAttributes
from cntk_core.ops.families.reductions import ReduceAttributes
from cntk_core.ops.families.slicing import SliceAttributes, StackAttributes
from cntk_core.ops.families.unary import ELUAttributes
from cntk_core.ops.language.op import Op, OpContext
from cntk_core.ops.table import core_ops

Array = NDArray[Any]
COUNT = 50
"""Cases of each operation."""

FRAMES = 2
TABLE = core_ops()


@attrs.frozen
class Case:
    """An operation on some inputs.

    Attributes:
        op: ours.
        inputs: values; those that are framed begin with the frames.
        framed: which are.
        attributes: of our operation.
        settings: what the original's function is given, by name.
        weights: what the value is multiplied by before its elements are summed, which is the gradient that comes in;
            then the same for the gradient of each input.
        wanted: to which inputs there is a gradient.
    """

    op: Op
    inputs: list[Array]
    framed: tuple[bool, ...]
    attributes: Any
    settings: Mapping[str, Any]
    weights: list[Array]
    wanted: tuple[bool, ...]

    def context(self) -> OpContext:
        """Return a context for our operation."""
        return OpContext(framed=self.framed, frames=FRAMES, training=True)


@attrs.frozen
class Draft:
    """What a maker says of a case: sample shapes, and how values lie."""

    shapes: tuple[tuple[int, ...], ...]
    attributes: Any = None
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    kinds: tuple[str, ...] = ()
    framed: tuple[bool, ...] = ()
    gradient: bool = True


Random = np.random.RandomState
Make = Callable[[Random], Draft]


def draw(random: Random, kind: str, shape: tuple[int, ...]) -> Array:
    """Numbers that are exact in single precision, and not too near to the corners of functions."""
    drawn = random.uniform(0.1, 0.9, shape)
    if kind == "any":
        drawn = (drawn * 2.0) * np.where(random.uniform(size=shape) < 0.5, -1.0, 1.0)
    elif kind == "positive":
        drawn = drawn * 2.0
    elif kind == "negative":
        drawn = -drawn
    elif kind == "distinct":
        size = int(np.prod(shape))
        drawn = ((random.permutation(size) - size / 2 + 0.25) / size).reshape(shape) * 4.0
    elif kind == "binary":
        drawn = np.round(drawn)
    return drawn.astype(np.float32).astype(np.float64)


def cases(name: str) -> Iterator[Case]:
    """Yield the cases of an operation, by its name in :data:`MAKERS`."""
    for number in range(COUNT):
        random = Random(crc32(f"{name} {number}".encode()))
        draft = MAKERS[name](random)
        op = TABLE.find("", name.partition(" ")[0])
        assert op is not None
        framed = draft.framed or (True,) * len(draft.shapes)
        kinds = draft.kinds or ("any",) * len(draft.shapes)
        inputs = [
            draw(random, kind, (FRAMES, *shape) if has else shape)
            for shape, kind, has in zip(draft.shapes, kinds, framed, strict=True)
        ]
        attributes = op.attributes() if draft.attributes is None else draft.attributes
        sample = op.infer(list(draft.shapes), attributes)
        sizes = [(FRAMES, *sample), *(value.shape for value in inputs)]
        weights = [draw(random, "any", size) for size in sizes]
        wanted = tuple(draft.gradient and op.flows_to(index) for index in range(len(inputs)))
        yield Case(op, inputs, framed, attributes, draft.settings, weights, wanted)


def shape_of(random: Random, least: int = 1, most: int = 3, largest: int = 4) -> tuple[int, ...]:
    return tuple(int(size) for size in random.randint(1, largest + 1, size=random.randint(least, most + 1)))


def _unary(kind: str = "any", attributes: Any = None, **settings: Any) -> Make:
    return lambda random: Draft((shape_of(random),), attributes, settings, (kind,))


def _binary(kind: str = "any", other: str = "any") -> Make:
    def make(random: Random) -> Draft:
        shape = shape_of(random)
        # Axes of length 1 are repeated.
        second = tuple(1 if random.uniform() < 0.3 else size for size in shape)
        return Draft((shape, second), kinds=(kind, other))

    return make


def _select(random: Random) -> Draft:
    shape = shape_of(random)
    return Draft((shape,) * 3, kinds=("binary", "any", "any"))


def _clip(random: Random) -> Draft:
    return Draft(((1,), (1,), shape_of(random)), kinds=("negative", "positive", "any"))


def _reduce(operation: str) -> Make:
    def make(random: Random) -> Draft:
        shape = shape_of(random)
        axis = int(random.randint(1, len(shape) + 1))
        attributes, flows = ReduceAttributes(operation, axis), not operation.startswith("Arg")
        return Draft((shape,), attributes, {"axis": -axis}, ("distinct",), gradient=flows)

    return make


def _times(random: Random) -> Draft:
    inner, outer = (int(size) for size in random.randint(1, 6, size=2))
    return Draft(((inner, outer), (inner,)), framed=(False, True))


def _convolution(random: Random, *, transpose: bool = False) -> Draft:
    groups = 1 if transpose else int(random.randint(1, 3))
    each = int(random.randint(1, 3))
    channels, maps = groups * each, groups * int(random.randint(1, 3))
    height, width = (int(size) for size in random.randint(4, 7, size=2))  # the original takes no kernel as large
    kernel = tuple(int(size) for size in random.randint(1, 4, size=2))
    if groups > 1:  # the original takes kernels of odd sizes alone
        kernel = (3, 3)
    strides = tuple(int(step) for step in random.randint(1, 3, size=2))
    pad = bool(random.randint(2))
    if transpose:
        shapes = ((channels, maps, *kernel), (channels, height, width))
    else:
        shapes = ((maps, channels // groups, *kernel), (channels, height, width))
    settings = {"strides": strides, "auto_padding": [False, pad, pad], "groups": groups}
    attributes = ConvolutionAttributes(
        (*kernel[::-1], maps) if transpose else (*kernel[::-1], channels // groups),
        (channels if transpose else maps,),
        strides[::-1],
        auto_padding=(pad, pad, False),
        groups=groups,
        transpose=transpose,
    )
    return Draft(shapes, attributes, settings, framed=(False, True))


def _pooling(kind: str) -> Make:
    def make(random: Random) -> Draft:
        shape = (int(random.randint(1, 3)), *(int(size) for size in random.randint(3, 7, size=2)))
        window = tuple(int(size) for size in random.randint(1, 4, size=2))
        strides = tuple(int(step) for step in random.randint(1, 3, size=2))
        pad = bool(random.randint(2))
        settings = {"window": window, "strides": strides, "pad": pad}
        attributes = PoolingAttributes((*window[::-1], 1), kind, (*strides[::-1], 1), (pad, pad, False))
        return Draft((shape,), attributes, settings, ("distinct",))

    return make


def _pad(random: Random) -> Draft:
    shape = shape_of(random, 1, 3, 4)
    mode = MODES[random.randint(3)]
    most = [{"constant": 2, "reflect": size - 1, "symmetric": size}[mode] for size in shape]
    widths = [[int(random.randint(0, limit + 1)) for _ in range(2)] for limit in most]
    heads, feet = zip(*reversed(widths), strict=True)
    value = 0.5 if mode == "constant" else 0.0
    settings = {"pattern": widths, "mode": MODES.index(mode), "value": value}
    return Draft((shape,), PadAttributes(heads, feet, mode, value), settings)


def _top(random: Random) -> Draft:
    shape = shape_of(random, 1, 2, 5)
    k = int(random.randint(1, shape[-1] + 1))
    return Draft((shape,), TopKAttributes(k), {"k": k}, ("distinct",))


def _slice(random: Random) -> Draft:
    shape = shape_of(random, 1, 3, 5)
    axis = int(random.randint(1, len(shape) + 1))
    begin = int(random.randint(0, shape[-axis]))
    end = int(random.randint(begin + 1, shape[-axis] + 1))
    settings = {"axis": len(shape) - axis, "begin": begin, "end": end}
    return Draft((shape,), SliceAttributes(begin, end, axis), settings)


def _splice(random: Random) -> Draft:
    shape = shape_of(random, 1, 3, 4)
    axis = int(random.randint(1, len(shape) + 1))
    other = list(shape)
    other[-axis] = int(random.randint(1, 5))
    return Draft((shape, tuple(other)), StackAttributes(axis), {"axis": -axis})


def _squeeze(random: Random) -> Draft:
    shape = tuple(int(size) for size in random.randint(1, 3, size=3))
    return Draft(((*shape, 3),))


def _blocks(to_space: bool) -> Make:
    def make(random: Random) -> Draft:
        block = int(random.randint(1, 4))
        channels, height, width = (int(size) for size in random.randint(1, 3, size=3))
        shape = (channels * block * block, height, width) if to_space else (channels, height * block, width * block)
        return Draft((shape,), BlockAttributes(block), {"block": block})

    return make


def _response(random: Random) -> Draft:
    radius = int(random.randint(1, 3))  # the original wants as many channels as it looks at
    shape = (int(random.randint(2 * radius + 1, 8)), *(int(size) for size in random.randint(1, 4, size=2)))
    # The original's function divides alpha by the number of neighbours.
    attributes = LocalResponseNormalizationAttributes(radius, 2.0, 0.5 / (2 * radius + 1), 0.75)
    return Draft((shape,), attributes, {"radius": radius})


_LEAKY = LeakyReLUAttributes(0.25)
_HARD = HardSigmoidAttributes(0.5, 0.5)

MAKERS: dict[str, Make] = {
    **{
        name: _unary()
        for name in (
            "Abs",
            "Atan",
            "Asinh",
            "Cosh",
            "Cosine",
            "Exp",
            "Floor",
            "Negate",
            "Reciprocal",
            "RectifiedLinear",
        )
    },
    **{name: _unary() for name in ("Sigmoid", "Sin", "Sinh", "SoftSign", "StraightThrough", "Tanh", "SoftPlus")},
    # The original takes the derivative at tan(x) instead of x.
    "Tan": lambda random: Draft((shape_of(random),), gradient=False),
    **{name: _unary("small") for name in ("Acos", "Asin", "Atanh", "Log", "Sqrt")},
    "ConstantOp": _unary(),
    "ExponentialLinearUnit": _unary(attributes=ELUAttributes(0.5), alpha=0.5),
    "HardSigmoid": _unary(attributes=_HARD, alpha=0.5, beta=0.5),
    "LeakyReLU": _unary(attributes=_LEAKY, alpha=0.25),
    "SELU": _unary(attributes=SELUAttributes(0.5, 2.0), alpha=0.5, scale=2.0),
    "PReLU": lambda random: Draft((shape_of(random),) * 2),
    **{name: _binary() for name in ("Plus", "Minus", "ElementTimes", "LogPlus")},
    **{name: _binary() for name in ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")},
    "Pow": _binary("positive"),
    "If": _select,
    "Clip": _clip,
    **{f"ReduceElements {name}": _reduce(name) for name in ("Sum", "Mean", "Max", "Min", "LogSum", "Prod", "Argmax")},
    "Softmax": lambda random: Draft((shape_of(random, 1, 1, 6),)),
    "LogSoftmax": lambda random: Draft((shape_of(random, 1, 1, 6),)),
    "Hardmax": lambda random: Draft((shape_of(random, 1, 1, 6),), kinds=("distinct",)),
    "Times": _times,
    "CosDistance": lambda random: Draft((shape_of(random, 1, 1, 6),) * 2),
    "Convolution": _convolution,
    "Convolution transposed": lambda random: _convolution(random, transpose=True),
    "Pooling max": _pooling("max"),
    "Pooling average": _pooling("average"),
    "LocalResponseNormalization": _response,
    "Pad": _pad,
    "TopK": _top,
    "Slice": _slice,
    "RowStack": _splice,
    # The original's counting of new axes is another one, but for the first.
    "ExpandDims": lambda random: Draft((shape_of(random),)),
    "Squeeze": _squeeze,
    "DepthToSpace": _blocks(True),
    "SpaceToDepth": _blocks(False),
    "TransposeDimensions": lambda random: Draft((shape_of(random, 2, 2, 5),)),
}
"""By name, which may say more than our operation's after a space, what makes a case."""
