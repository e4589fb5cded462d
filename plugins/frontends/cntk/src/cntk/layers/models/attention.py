"""Models: attention."""

from __future__ import annotations

from typing import Any

from cntk._inherited import inherit
from cntk.default_options import default_override_or
from cntk.initializer import glorot_uniform
from cntk.layers._options import optional
from cntk.layers.blocks import Stabilizer, inject_name
from cntk.layers.layers import Dense, Label
from cntk.layers.sequence import PastValueWindow
from cntk.ops import element_select, element_times, reduce_sum, reshape, sequence, softmax, tanh
from cntk.ops.functions import Function

_NO = default_override_or(False)

_LOWEST = -1e30
"""Score of a step that is not there."""

_FAR_BELOW = 50
"""By how much the score of a step that is not there is less, in a window."""


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
        attention_span: so many of the encoder's last steps are seen, as in CNTK 2.0; None: all are.
        attention_axis: of these steps; it counts from the end.
        init: how weights start.
        go_backwards: the encoder's first steps are seen, not its last.
        enable_self_stabilization: a :func:`Stabilizer` before each product, and behind the last.
        name: of the user.

    Raises:
        ValueError: a span without an axis, or an axis without a span; the span is not positive.
    """
    if (attention_span is None) != (attention_axis is None):
        missing = "attention_span" if attention_span is None else "attention_axis"
        raise ValueError(f"attention_span and attention_axis come together: {missing} is missing")
    if attention_span is not None and attention_span <= 0:
        raise ValueError(f"attention_span is a positive number, not {attention_span}")

    def projection(width: int) -> Any:
        stable = Stabilizer(enable_self_stabilization=enable_self_stabilization)
        dense = Dense(width, init=init, bias=False, input_rank=1)
        return lambda x: dense(stable(x))

    by_encoder, by_decoder, together = projection(attention_dim), projection(attention_dim), projection(1)
    last = Stabilizer(enable_self_stabilization=enable_self_stabilization)

    def windowed(h_enc: Any, h_dec: Any) -> Any:
        assert attention_span is not None
        window = PastValueWindow(attention_span, axis=attention_axis, go_backwards=go_backwards)(h_enc)
        steps, there = window.outputs
        keys = sequence.broadcast_as(by_encoder(steps), h_dec)
        known = sequence.broadcast_as(there, h_dec)
        scores = together(tanh(by_decoder(h_dec) + keys)) + (known - 1) * _FAR_BELOW
        shares = Label("attention_weights")(softmax(scores, axis=attention_axis))
        return last(reduce_sum(element_times(sequence.broadcast_as(steps, h_dec), shares), axis=attention_axis))

    def whole(encoder_hidden_state: Any, decoder_hidden_state: Any) -> Any:
        steps, there = sequence.unpack(encoder_hidden_state, padding_value=0).outputs
        keys = sequence.broadcast_as(by_encoder(steps), decoder_hidden_state)
        known = sequence.broadcast_as(reshape(there, (1,), 1), decoder_hidden_state)
        scores = together(tanh(by_decoder(decoder_hidden_state) + keys))
        shares = Label("attention_weights")(softmax(element_select(known, scores, _LOWEST), axis=0))
        seen = reduce_sum(shares * sequence.broadcast_as(steps, shares), axis=0)
        return last(reshape(seen, (), 0, 1))

    return inject_name(Function(whole if attention_span is None else windowed), name)  # type: ignore[no-any-return]


inherit(__name__)
