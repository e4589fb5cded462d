"""Ops that work row by row and whose own description runs on ``jax.numpy`` as it is."""

from __future__ import annotations

from collections.abc import Sequence

from cntk_core.api import Node
from cntk_core.api.engines import run_forward, run_gradient
from cntk_engine_xla.lowering import Array, Lowering, Trace

AS_THEY_ARE = (
    "CosDistance", "DiagTimes", "Diagonal", "GMMLogLikelihood", "Hardmax", "KhatriRaoProduct", "LabelsToGraph",
    "LegacyReshape", "LocalResponseNormalization", "LogSoftmax", "OneHot", "OutputMultiplexer", "ReduceElements",
    "Reshape", "RowRepeat", "RowStack", "Softmax", "SumColumnElements", "TransposeDimensions",
)  # fmt: skip
"""Ops whose value and gradients are computed by their own functions."""

DIFFERENTIATED = ("Crop", "Slice")
"""Ops whose value is computed by their own function, and whose gradient is found by JAX: their own writes in place."""


def forward(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    """Compute a value by the op's own description."""
    import jax.numpy as jnp

    return run_forward(node.op, jnp, inputs, node.attributes, trace.context(node))


def gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    """Compute gradients by the op's own description."""
    import jax.numpy as jnp

    context = trace.context(node)
    output = trace.value(node)
    return run_gradient(node.op, jnp, arriving, output, inputs, node.attributes, context, needs)


def differentiated(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    """Compute gradients by JAX's differentiation of the op's own description."""
    import jax

    places = [index for index, needed in enumerate(needs) if needed]

    def compute(*chosen: Array) -> Array:
        values = list(inputs)
        for index, value in zip(places, chosen, strict=True):
            values[index] = value
        return forward(trace, node, values)

    _, pull = jax.vjp(compute, *(inputs[index] for index in places))
    found = dict(zip(places, pull(arriving), strict=True))
    return [found.get(index) for index in range(len(inputs))]


PLAIN = Lowering(forward, gradient)
LOWERINGS = {
    **dict.fromkeys(AS_THEY_ARE, PLAIN),
    **dict.fromkeys(DIFFERENTIATED, Lowering(forward, differentiated)),
}
