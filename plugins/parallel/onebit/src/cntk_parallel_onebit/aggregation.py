"""The aggregation: quantized gradients go to the owners of stripes, and quantized sums come back.

What a rank's words do not say of its gradients stays in its residual and is added to its next gradients; what an
owner's words do not say of a sum stays in the residual of its stripe. So every gradient is used, some of it later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Cache, Communicator, GradientAggregation, ParameterStore, Schedule, option, options
from cntk_parallel_onebit.format import Cut, Matrix, Words, matrices_of, parts_of, stripe_size, word_type
from cntk_parallel_onebit.homes import HOST, Home, home_of
from cntk_parallel_onebit.kernels import prepare

Array = NDArray[Any]

LOCAL, STRIPE = "local", "stripe"


@options
class OneBitOptions:
    """Options that stand in the block of the strategy (``DataParallelSGD=[ ... ]``)."""

    gradient_bits: Schedule[int] | None = option(
        default=None, doc="bits of a value on the wire, by epoch: 1, 2, 4, 8 or 16; the default is 1"
    )
    use_zero_threshold_for_1_bit_quantization: bool = option(
        default=True,
        key="useZeroThresholdFor1BitQuantization",
        doc="with 1 bit: tell values apart by their sign; false: by the mean of their column",
    )
    reset_residual_per_epoch: bool = option(
        default=True, doc="forget at the start of an epoch what has not been sent yet, as the original does"
    )
    shortest_column: int = option(
        default=1, doc="join the axes of a parameter until a column, which has a range of its own, has so many values"
    )

    def __attrs_post_init__(self) -> None:
        if self.shortest_column < 1:
            raise ValueError("shortestColumn must be at least 1")

    def bits(self, epoch: int) -> int:
        """Bits of a value in an epoch."""
        return 1 if self.gradient_bits is None else self.gradient_bits[epoch]


@lru_cache(maxsize=4)
def _cuts(
    matrices: tuple[Matrix, ...], ranks: int, bits: int, width: int
) -> tuple[Cut, tuple[int, ...], tuple[Cut, ...]]:
    """Return the columns of all ranks together, where each one's begin, and those of each rank.

    They are the same on all ranks; of many ranks in one process each would spend long on them.
    """
    cuts = tuple(Cut.of(parts_of(matrices, one, ranks), bits, width) for one in range(ranks))
    starts = (0, *np.cumsum([cut.words for cut in cuts]).tolist())
    every = Cut.of((part for one in range(ranks) for part in parts_of(matrices, one, ranks)), bits, width)
    return every, starts, cuts


@attrs.frozen(eq=False)
class _Layout:
    """Where records lie with some number of bits, on one rank.

    Attributes:
        all: the columns of all ranks, a rank's behind those of the rank before.
        starts: where the records of each rank begin in these words, and where the last ones end.
        own: the columns that this rank adds up.
        others: for each rank its columns, with words counted from its own first one.
        words: for the records of all columns.
        own_words: for those of this rank.
    """

    all: Cut
    starts: tuple[int, ...]
    own: Cut
    others: tuple[Cut, ...]
    words: Words
    own_words: Words

    @classmethod
    def of(cls, matrices: Sequence[Matrix], rank: int, ranks: int, bits: int, dtype: Any, home: Home) -> _Layout:
        word = word_type(dtype)
        width = 8 * word.itemsize
        every, starts, cuts = _cuts(tuple(matrices), ranks, bits, width)
        own = Cut.of(parts_of(matrices, rank, ranks), bits, width, compact=True)
        return cls(every, starts, own, cuts, home.zeros(every.words, word), home.zeros(own.words, word))

    def of_rank(self, rank: int) -> Words:
        """The words of the columns that a rank adds up."""
        return self.words[self.starts[rank] : self.starts[rank + 1]]


class OneBit(GradientAggregation):
    """Adds up gradients that are sent with few bits, and keeps what these do not say for the next step.

    In a step a rank sends about ``bits`` for each value and the two ends of the range of each column, once to those
    who add up and, for the columns that it adds up itself, once to all others. Numbers that are not finite make their
    column not a number on all ranks.

    Gradients on a GPU (arrays with ``__cuda_array_interface__``) are quantized there, to the same bits.
    """

    requires_api = "1.0"
    options = OneBitOptions
    settings: OneBitOptions

    @classmethod
    def caches(cls) -> Sequence[Cache]:
        """Return the folder of compiled kernels."""
        from cntk_core.api.engines import can_compile, kernel_cache

        return (kernel_cache(),) if can_compile() else ()

    def begin(self, store: ParameterStore, communicator: Communicator) -> None:
        """Begin without residuals."""
        super().begin(store, communicator)
        self._matrices = matrices_of(store, self.settings.shortest_column)
        self._local = np.zeros(store.learned_size, store.dtype)
        self._stripe = np.zeros(stripe_size(self._matrices, communicator.rank, communicator.size), store.dtype)
        self._home = HOST
        self._layouts: dict[int, _Layout] = {}
        self._bits = self.settings.bits(0)
        prepare(store.dtype)

    def begin_epoch(self, epoch: int) -> None:
        """Take the number of bits of the epoch; forget the residuals if that is asked for."""
        self._bits = self.settings.bits(epoch)
        if self.settings.reset_residual_per_epoch:
            self.restore({})

    def works_on_device(self, communicator: Communicator) -> bool:
        """Quantizes there; what is sent goes by way of the processor where the communicator needs that."""
        return True

    def aggregate(self, gradients: Array, header: Array, communicator: Communicator) -> None:
        """Sum both in place: gradients about, with what was left out before; the header exactly."""
        gradients = self._settle(gradients)
        with self._home.current():
            if communicator.size == 1 or self._bits >= 8 * self.store.dtype.itemsize:
                self._send_rest(gradients)
                self._home.allreduce(gradients, communicator)
                communicator.allreduce(header)
            else:
                self._aggregate_few_bits(gradients, header, communicator)
            self._home.finish()

    def _aggregate_few_bits(self, gradients: Array, header: Array, communicator: Communicator) -> None:
        home, run, by_sign = self._home, self._home.kernels, self.settings.use_zero_threshold_for_1_bit_quantization
        bits, dtype, layout = self._bits, self.store.dtype, self._layout()
        run.quantize(gradients, self._local, layout.words, layout.words.view(dtype), layout.all.blocks, bits, by_sign)
        received = home.alltoall([layout.of_rank(rank) for rank in range(communicator.size)], communicator)
        mine = layout.others[communicator.rank].blocks
        for rank, words in enumerate(received):
            run.unquantize(words, words.view(dtype), gradients, mine, bits, rank > 0)
        words = layout.own_words
        run.quantize(gradients, self._stripe, words, words.view(dtype), layout.own.blocks, bits, by_sign)
        found = home.allgather(words, header, communicator)
        for rank, (cut, (sums, part)) in enumerate(zip(layout.others, found, strict=True)):
            run.unquantize(sums, sums.view(dtype), gradients, cut.blocks, bits, False)
            header[...] = part if rank == 0 else header + part

    def _settle(self, gradients: Any) -> Array:
        """Bring the residuals to where the gradients lie; return the gradients as an array to calculate with."""
        home = home_of(gradients)
        if home is not self._home:
            residuals = self.state()
            self._home, self._layouts = home, {}
            with home.current():
                self._local, self._stripe = home.put(residuals[LOCAL]), home.put(residuals[STRIPE])
        with home.current():
            return home.view(gradients)

    def _layout(self) -> _Layout:
        if self._bits not in self._layouts:
            rank, ranks = self.communicator.rank, self.communicator.size
            self._layouts[self._bits] = _Layout.of(
                self._matrices, rank, ranks, self._bits, self.store.dtype, self._home
            )
        return self._layouts[self._bits]

    def _send_rest(self, gradients: Array) -> None:
        """Add the residuals to gradients that are not quantized. Without any, nothing changes."""
        if self._local.any() or self._stripe.any():
            gradients += self._local
            _add_stripe(gradients, self._stripe, self._matrices, self.communicator.rank, self.communicator.size)
            self._local[...] = 0.0
            self._stripe[...] = 0.0

    def state(self) -> Mapping[str, Array]:
        """The residuals of this rank: of its gradients, and of the sums of its stripes."""
        with self._home.current():
            return {LOCAL: self._home.get(self._local), STRIPE: self._home.get(self._stripe)}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Take the residuals back."""
        with self._home.current():
            for residual, name in ((self._local, LOCAL), (self._stripe, STRIPE)):
                residual[...] = self._home.put(state[name]) if name in state else 0.0

    def adopt(self, states: Sequence[Mapping[str, Array]]) -> str:
        """Cut the residuals of the sums into stripes anew; rank r takes those of the gradients of r, r + ranks, ..."""
        if not any(states):
            return ""
        rank, ranks = self.communicator.rank, self.communicator.size
        local, sums = np.zeros(self._local.size, self.store.dtype), np.zeros(self._local.size, self.store.dtype)
        for state in states[rank::ranks]:
            local += state[LOCAL]
        for one, state in enumerate(states):
            _add_stripe(sums, state[STRIPE], self._matrices, one, len(states))
        self.restore({LOCAL: local, STRIPE: _stripe_of(sums, self._matrices, rank, ranks)})
        return f"what {len(states)} ranks had not sent of their gradients is divided among {ranks}"


def _stripe_of(values: Array, matrices: Sequence[Matrix], rank: int, ranks: int) -> Array:
    """The values that a rank adds up, one behind the other."""
    found = [values[:0]]
    for matrix, first, end in parts_of(matrices, rank, ranks):
        found.append(values[matrix.offset + first * matrix.rows : matrix.offset + end * matrix.rows])
    return np.concatenate(found)


def _add_stripe(values: Array, stripe: Array, matrices: Sequence[Matrix], rank: int, ranks: int) -> None:
    """Add what :func:`_stripe_of` took for a rank."""
    at = 0
    for matrix, first, end in parts_of(matrices, rank, ranks):
        count = (end - first) * matrix.rows
        values[matrix.offset + first * matrix.rows : matrix.offset + end * matrix.rows] += stripe[at : at + count]
        at += count
