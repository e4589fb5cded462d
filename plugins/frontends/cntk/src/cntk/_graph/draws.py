"""Random numbers in the order in which the original draws them on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from cntk_model_cntk2.values import SizeT

from cntk._graph.primitive import Primitive
from cntk_core.api import Node, Parameter
from cntk_core.api.builders import RandomStream, UserFunction, infer_node, op_of

if TYPE_CHECKING:
    from cntk._graph.lower import Maker

OFFSET = "rngOffset"
"""How many words of its stream a function has taken: an attribute, which files keep."""


def draw_as_there(maker: Maker, primitive: Primitive, node: Node) -> None:
    """Let a node of random numbers go on in the stream of its function from one evaluation to the next."""
    if node.inputs:
        kind = _drawer(primitive, None)
    else:
        infer_node(node)
        kind = _drawer(primitive, node.known_shape)
        nothing = Parameter.make(f"{primitive.uid}.none", (1,), value=np.zeros(1, maker.network.dtype),
                                 learning_rate_multiplier=0.0)  # fmt: skip
        node.inputs.append(maker.network.add(nothing))
    node.op, node.attributes = op_of(kind), kind()


def _drawer(primitive: Primitive, shape: tuple[int, ...] | None) -> type[UserFunction]:
    """Return the class of a function that draws; its shape is given, or that of its input."""

    class _Drawn(UserFunction):
        def infer_outputs(self, *shapes: Any) -> Any:
            return shapes[0] if shape is None else shape

        def forward(self, context: Any, like: Any) -> Any:
            return _draw(primitive, like.shape if shape is None else shape)

    _Drawn.__name__ = _Drawn.__qualname__ = primitive.uid
    return _Drawn


def _draw(primitive: Primitive, shape: tuple[int, ...]) -> Any:
    """Return the next numbers of a function."""
    attributes = primitive.attributes
    place = attributes["rngSeed"], attributes.get(OFFSET, 0)
    kept = primitive.programs.get(OFFSET)
    stream = kept if kept is not None and (kept.seed, kept.used) == place else RandomStream(*map(int, place))
    primitive.programs[OFFSET] = stream
    dtype = np.dtype(primitive.outputs[0]._dtype or np.float32)
    kind, arguments = (
        attributes["randomDistributionType"],
        [float(each) for each in attributes["randomDistributionArgs"]],
    )
    count = int(np.prod(shape))
    if kind == "normal":
        found = stream.normal(count, dtype, *arguments)
    elif kind == "uniform":
        found = stream.uniform(count, dtype, *arguments)
    else:
        found = stream.uniform(count, dtype, 0.0, 1.0)
        if kind == "bernoulli":
            found = (found > dtype.type(1 - arguments[0])).astype(dtype)
        else:
            found = dtype.type(arguments[0]) - dtype.type(arguments[1]) * np.log(-np.log1p(-found))
    attributes[OFFSET] = SizeT(stream.used)
    return found.reshape(shape)
