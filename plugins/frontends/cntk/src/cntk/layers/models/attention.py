"""Models: attention."""

from __future__ import annotations

from typing import Any

from cntk._inherited import inherit
from cntk.default_options import default_override_or
from cntk.initializer import glorot_uniform
from cntk.layers._options import first_values, optional
from cntk.layers.blocks import Stabilizer, identity
from cntk.ops import alias, element_select, reduce_sum, sequence, softmax, tanh, times
from cntk.ops.functions import BlockFunction, Function
from cntk.variables import INFERRED, Parameter

_NO = default_override_or(False)


@optional
def AttentionModel(
    attention_dim: int,
    attention_span: int | None = None,
    attention_axis: Any = None,
    init: Any = default_override_or(glorot_uniform()),  # noqa: B008
    go_backwards: Any = _NO,
    enable_self_stabilization: Any = default_override_or(True),  # noqa: B008
    name: str = "",
) -> Function:
    """Additive attention (Bahdanau et al., ICLR 2015): a function of an encoder's steps and a decoder's state.

    Args:
        attention_dim: width in which both are compared.
        attention_span, attention_axis: are taken for compatibility; all steps are seen.
        init: how weights start.
        go_backwards: is taken for compatibility.
        enable_self_stabilization: a :func:`Stabilizer` before each product.
        name: of the user.
    """
    start = first_values(init)
    by_encoder = Parameter((INFERRED, attention_dim), init=start, name="W_enc")
    by_decoder = Parameter((INFERRED, attention_dim), init=start, name="W_dec")
    projected = Parameter((attention_dim, 1), init=start, name="v")
    stable = [Stabilizer(enable_self_stabilization=enable_self_stabilization) for _ in range(3)]

    def stabilized(number: int, x: Any) -> Any:
        return x if stable[number] is identity else stable[number](x)

    def attention(encoder_hidden_state: Any, decoder_hidden_state: Any) -> Function:
        keys = times(stabilized(0, encoder_hidden_state), by_encoder)
        unpacked, there = sequence.unpack(keys, 0).outputs
        values = sequence.unpack(encoder_hidden_state, 0, no_mask_output=True)
        known = sequence.broadcast_as(unpacked, decoder_hidden_state)
        mask = sequence.broadcast_as(there, decoder_hidden_state)
        seen = sequence.broadcast_as(values, decoder_hidden_state)
        compared = stabilized(2, tanh(known + times(stabilized(1, decoder_hidden_state), by_decoder)))
        scores = reduce_sum(times(compared, projected), -1, keepdims=False)
        shares = softmax(element_select(mask, scores, -1e30), axis=-1)
        return alias(times(shares, seen), name="attended")

    return BlockFunction("AttentionModel", name)(attention)


inherit(__name__)
