"""Attention to memories that are the same for all sequences, such as learned tables: products of all frames at once.

Memories that are made of sequences are as long as the longest of a minibatch; these stay on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cntk_core.api import Kernel, Node
from cntk_core.api.engines import kernels
from cntk_engine_xla.lowering import Array, Trace

ABSENT = -1e30
"""The score of a step that is not looked at."""

Values = Sequence[Array]


def _is_fixed(memories: tuple[int, ...]) -> Callable[[Node], bool]:
    def applies(node: Node) -> bool:
        fixed = not any(node.inputs[index].framed for index in memories if index < len(node.inputs))
        return fixed and bool(node.framed) and not getattr(node.attributes, "causal", False)

    return applies


def _softmax(scores: Array, there: Array | None) -> Array:
    """Weights of scores ``(..., steps)``, 0 for steps that are not there."""
    import jax

    if there is not None:
        import jax.numpy as jnp

        scores = jnp.where(there.reshape(-1) == 0, jnp.asarray(ABSENT, scores.dtype), scores)
    return jax.nn.softmax(scores, axis=-1)


def _weights(node: Node, inputs: Values) -> Array:
    import jax.numpy as jnp

    heads = node.attributes.heads
    memory, frames = (value.reshape(len(value), heads, -1) for value in inputs[:2])
    scores = jnp.einsum("nhs,ths->nht", frames, memory) * node.attributes.scale
    found = _softmax(scores.astype(frames.dtype), inputs[2] if len(inputs) > 2 else None)
    return found[:, 0] if heads == 1 else found


def _additive(node: Node, inputs: Values) -> Array:
    import jax.numpy as jnp

    memory, frames = (value.reshape(len(value), -1) for value in inputs[:2])
    scores = jnp.tanh(memory[None] + frames[:, None]) @ inputs[2].reshape(-1)
    return _softmax(scores, inputs[3] if len(inputs) > 3 else None)


def _sum(node: Node, inputs: Values) -> Array:
    import jax.numpy as jnp

    memory, weights = inputs
    weights = weights.reshape(len(weights), -1, weights.shape[-1])
    parted = memory.reshape(len(memory), weights.shape[1], -1)
    return jnp.einsum("nht,ths->nhs", weights, parted).reshape(len(weights), *memory.shape[1:])


def _kernels(name: str, compute: Callable[[Node, Values], Array], memories: tuple[int, ...]) -> tuple[Kernel, ...]:
    """The kernel of an op: its value, and gradients that JAX finds from it."""

    def forward(trace: Trace, node: Node, inputs: list[Array]) -> Array:
        return compute(node, inputs)

    def gradient(
        trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
    ) -> Sequence[Array | None]:
        import jax

        value, pull = jax.vjp(lambda given: compute(node, given), inputs)
        (found,) = pull(arriving.reshape(value.shape))
        return [each if needed else None for each, needed in zip(found, needs, strict=True)]

    return kernels("xla", [name], forward, gradient, applies=_is_fixed(memories), in_loops=True)


KERNELS = (
    *_kernels("AttentionWeights", _weights, (0, 2)),
    *_kernels("AdditiveAttentionWeights", _additive, (0, 3)),
    *_kernels("AttentionSum", _sum, (0,)),
)
