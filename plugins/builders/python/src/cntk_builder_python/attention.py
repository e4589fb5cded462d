"""Attention: sequences that look at other sequences, or at themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cntk_builder_python import sequence
from cntk_builder_python.blocks import block, layer
from cntk_builder_python.functions import log, sin, softmax, tanh
from cntk_builder_python.graph import Init, Term, caller
from cntk_builder_python.layers import Dense, Layer, StabilizedLayer
from cntk_core.api import BuildError

Context = Callable[[Term], Term]
"""From a term whose steps look, such as a decoder's state, to what each of them sees."""


class _Memory(NamedTuple):
    """Whole sequences as others look at them.

    Attributes:
        keys: what is compared, ``(longest, units)`` for each sequence.
        values: what is seen, ``(longest, *shape)``.
        there: which of the steps there are, ``(longest, 1)``.
    """

    keys: Term
    values: Term
    there: Term

    @classmethod
    def of(cls, keys: Term, values: Term) -> _Memory:
        """Unpack sequences of keys and values."""
        unpacked, there = sequence.unpack(values)
        return cls(unpacked if keys is values else keys.graph.apply("UnpackSequence", keys), unpacked, there)

    def seen(self, weights: Term) -> Term:
        """Sum up the values with weights."""
        return weights.graph.apply("AttentionSum", self.values, weights)


class Attention(StabilizedLayer):
    """``sum_j a_j e_j`` over the steps e of an encoder, with ``a = softmax_j(v . tanh(e_j W + h U))``.

    Bahdanau, Cho and Bengio, "Neural machine translation by jointly learning to align and translate", ICLR 2015.
    ``context = Attention(128)(encoded, decoder_input)`` does what does not depend on the decoder's state at all of
    its steps at once, and gives a function of that state; a decoder's step is then
    ``lambda h, c, x: lstm(h, c, x, context(h))``. The function takes a sequence outside loops, too.

    Args:
        units: width in which encoder and decoder are compared.
        span: how many of the encoder's last steps are seen, as in CNTK; None are all.
        init, scale: how the weights start; see :meth:`Graph.parameter`.
        enable_self_stabilization: a stabilizer before each product.
        name: stem of the parameter names ``name.W`` (encoder), ``name.U`` (decoder) and ``name.v``.
    """

    stem = "attention"

    def __init__(
        self,
        units: int,
        span: int | None = None,
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

    def __call__(self, encoded: Term, decoder: Term) -> Context:
        """Return the function from the decoder's state of the step before to what it attends to.

        Args:
            encoded: the encoder's output.
            decoder: any term with the decoder's dynamic axis, such as its input.
        """
        return self._to_all(encoded) if self.span is None else self._to_last(encoded, decoder, self.span)

    def _to_all(self, encoded: Term) -> Context:
        weights = self._own(encoded, "W", (0, self.units), **self.how)
        memory = _Memory.of(self._stabilized(encoded, "Sw") @ weights, encoded)

        @block("Attention", self.name)
        def context(h: Term) -> Term:
            state = self._state(h)
            v = self._stabilized(self._own(h, "v", (self.units, 1), **self.how), "Sv")
            return memory.seen(h.graph.apply("AdditiveAttentionWeights", memory.keys, state, v, memory.there))

        return context

    def _to_last(self, encoded: Term, decoder: Term, span: int) -> Context:
        value, projected, absent = self._window(encoded, decoder, span)

        @block("Attention", self.name)
        def context(h: Term) -> Term:
            compared = self._stabilized(tanh(projected + self._state(h)), "Sv")
            scores = compared @ self._own(h, "v", (self.units, 1), **self.how) + absent  # (span, 1)
            shares = softmax(scores)
            ones = h.graph.constant(np.ones(span), name=f"{self.name}.ones")
            return h.graph.apply("Times", value * shares, ones)

        return context

    @layer
    def _window(self, encoded: Term, decoder: Term, span: int) -> tuple[Term, Term, Term]:
        """What is attended to, how it is compared, and a large negative number where the encoder has no such step."""
        value, valid = (sequence.broadcast_as(x, decoder) for x in sequence.past_value_window(encoded, span))
        weights = self._own(encoded, "W", (0, self.units), **self.how)
        return value, self._stabilized(value, "Sw") @ weights, log(valid)  # the second is (span, units)

    def _state(self, h: Term) -> Term:
        return self._stabilized(h, "Su") @ self._own(h, "U", (0, self.units), **self.how)


class LuongAttention(Layer):
    """``sum_j a_j e_j`` over the steps e of an encoder, with ``a = softmax_j(e_j . h W)``, or without W.

    Luong, Pham and Manning, "Effective approaches to attention-based neural machine translation", EMNLP 2015.
    ``context = LuongAttention(128)(encoded)`` is a function of the decoder's states: of those of all steps, after the
    loop as in that paper, or of those of one, in the loop.

    Args:
        units: width of the encoder's steps, to which the decoder's states are brought (``general``). None: they are as
            wide, and compared as they are (``dot``).
        init, scale: how the weights start; see :meth:`Graph.parameter`.
        name: stem of the parameter name ``name.W``.
    """

    stem = "attention"

    def __init__(
        self, units: int | None = None, *, init: Init = "glorotUniform", scale: float = 1.0, name: str | None = None
    ) -> None:
        super().__init__(name)
        self.units = units
        self.how = {"init": init, "scale": scale}

    def __call__(self, encoded: Term) -> Context:
        """Return the function from the decoder's state to what it attends to."""
        memory = _Memory.of(encoded, encoded)

        @block("LuongAttention", self.name)
        def context(h: Term) -> Term:
            state = h if self.units is None else h @ self._own(h, "W", (0, self.units), **self.how)
            return memory.seen(h.graph.apply("AttentionWeights", memory.keys, state, memory.there))

        return context


class MultiHeadAttention(Layer):
    """Several parts of each step look at whole sequences, each by itself; what they see is put together by a product.

    Vaswani et al., "Attention is all you need", NIPS 2017: for each head
    ``softmax(x Q (y K)' / sqrt(units / heads)) y V``. Sequences are as long as they are: there is no padding to mask.

    Args:
        units: width of queries, keys, values and of the result.
        heads: parts, of ``units / heads`` elements each.
        causal: a step sees itself and those before it, none after it.
        init, scale: how the weights start; see :meth:`Graph.parameter`.
        name: stem of the layers ``name.query``, ``name.key``, ``name.value`` and ``name.out``.

    Raises:
        BuildError: the units cannot be parted among the heads.
    """

    stem = "heads"

    def __init__(
        self,
        units: int,
        heads: int,
        *,
        causal: bool = False,
        init: Init = "glorotUniform",
        scale: float = 1.0,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if heads < 1 or units % heads:
            raise BuildError(f"{units} units cannot be parted among {heads} heads", where=caller())
        self.units = units
        self.settings: dict[str, Any] = {"heads": heads, "scale": 1.0 / math.sqrt(units / heads), "causal": causal}
        self.how: dict[str, Any] = {"init": init, "scale": scale}
        self._parts: dict[str, Dense] = {}

    @layer
    def __call__(self, x: Term, encoded: Term | None = None) -> Term:
        """Apply the layer: the steps of ``x`` look at those of ``encoded``, by default at each other."""
        seen = x if encoded is None else encoded
        memory = _Memory.of(self._part("key", seen), self._part("value", seen))
        query = self._part("query", x)
        weights = x.graph.apply("AttentionWeights", memory.keys, query, memory.there, **self.settings)
        return self._part("out", memory.seen(weights))

    def _part(self, key: str, x: Term) -> Term:
        name = f"{self._enter(x)}.{key}"
        if key not in self._parts or self._parts[key].given != name:
            self._parts[key] = Dense(self.units, name=name, **self.how)
        return self._parts[key](x)


def positional_encoding(x: Term, units: int, *, longest: float = 10000.0) -> Term:
    """Return waves by which steps of a sequence can tell where they are: ``units`` numbers for each step of ``x``.

    ``sin(t / longest ** (2 i / units))`` and ``cos`` of the same, one after the other, for step t, from 0 (Vaswani et
    al., 2017). Add them to an embedding of that width.

    Raises:
        BuildError: ``units`` is odd.
    """
    if units % 2:
        raise BuildError(f"positions are told by pairs of waves, not by {units} numbers", where=caller())
    frequency = longest ** (-np.arange(0, units, 2) / units)
    phase = np.repeat([0.0, np.pi / 2], units // 2)  # cos t = sin(t + pi / 2)
    return sin(sequence.position(x) * np.tile(frequency, 2) + phase)
