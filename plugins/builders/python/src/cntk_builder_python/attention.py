"""Attention of a decoder to the last steps of an encoder.

Bahdanau, Cho and Bengio, "Neural machine translation by jointly learning to align and translate", ICLR 2015; over a
window of fixed length, as CNTK has it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cntk_builder_python import sequence
from cntk_builder_python.blocks import block, layer
from cntk_builder_python.functions import log, softmax, tanh
from cntk_builder_python.graph import Init, Term
from cntk_builder_python.layers import StabilizedLayer


class Attention(StabilizedLayer):
    """``sum_j a_j e_j`` over the last ``span`` steps e of an encoder, with ``a = softmax(v . tanh(e W + h U))``.

    ``context = Attention(128, 20)(encoded, decoder_input)`` does what does not depend on the decoder's state at all of
    its steps at once, and gives a function of that state; a decoder's step is then
    ``lambda h, c, x: lstm(h, c, x, context(h))``.

    Args:
        units: width in which encoder and decoder are compared.
        span: how many of the encoder's last steps are seen.
        init, scale: how the weights start; see :meth:`Graph.parameter`.
        enable_self_stabilization: a stabilizer before each product.
        name: stem of the parameter names ``name.W`` (encoder), ``name.U`` (decoder) and ``name.v``.
    """

    stem = "attention"

    def __init__(
        self,
        units: int,
        span: int,
        *,
        init: Init = "glorotUniform",
        scale: float = 1.0,
        enable_self_stabilization: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(enable_self_stabilization, name)
        self.units = units
        self.span = span
        self.how = {"init": init, "scale": scale}

    def __call__(self, encoded: Term, decoder: Term) -> Callable[[Term], Term]:
        """Return the function from the decoder's state of the step before to what it attends to.

        Args:
            encoded: the encoder's output.
            decoder: any term with the decoder's dynamic axis, such as its input.
        """
        value, projected, absent = self._prepare(encoded, decoder)

        @block("Attention", self.name)
        def context(h: Term) -> Term:
            state = self._stabilized(h, "Su") @ self._own(h, "U", (0, self.units), **self.how)
            compared = self._stabilized(tanh(projected + state), "Sv")
            scores = compared @ self._own(h, "v", (self.units, 1), **self.how) + absent  # (span, 1)
            shares = softmax(scores)
            ones = h.graph.constant(np.ones(self.span), name=f"{self.name}.ones")
            return h.graph.apply("Times", value * shares, ones)

        return context

    @layer
    def _prepare(self, encoded: Term, decoder: Term) -> tuple[Term, Term, Term]:
        """What is attended to, how it is compared, and a large negative number where the encoder has no such step."""
        value, valid = (sequence.broadcast_as(x, decoder) for x in sequence.past_value_window(encoded, self.span))
        weights = self._own(encoded, "W", (0, self.units), **self.how)
        return value, self._stabilized(value, "Sw") @ weights, log(valid)  # the second is (span, units)
