"""Whether an epoch did what training is for; what it gave may be finite and still of no use."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from cntk_core.contract.store import ParameterStore

HUGE = 1e10
"""A criterion, per sample, or a parameter beyond this says nothing any more: single precision has 7 digits."""

GROWTH = 1e3
"""A criterion so many times the lowest one of an epoch before has diverged."""

_LOWER = "lower learningRatesPerSample, or set clippingThresholdPerSample"
_SATURATED = (
    "all gradients were 0, or too small to be seen beside the parameters. The network may be saturated: scale the "
    "inputs, begin with smaller values, or raise learningRatesPerSample"
)


class Soundness:
    """Looks at what each epoch of a run gave, and warns.

    Args:
        store: the parameters that are learned.
        say: where lines go.
    """

    def __init__(self, store: ParameterStore, say: Callable[[str], None]) -> None:
        self._store = store
        self._say = say
        self._lowest = np.inf
        self._before = self._fingerprint()

    def look(self, epoch: int, rate: float, criterion: float) -> None:
        """Look at an epoch.

        Args:
            epoch: index, from 0.
            rate: learning rate per sample.
            criterion: the training criterion, the average of a sample.
        """
        now = self._fingerprint()
        if now == self._before and self._store.learned_size:
            why = "the learning rate was 0" if rate == 0 else _SATURATED
            self._say(f"Warning: epoch {epoch + 1} has changed no parameter: {why}.")
        self._before = now
        signs = self._signs_of_divergence(criterion)
        if signs:
            self._say(
                f"Warning: training has diverged in epoch {epoch + 1}: {' and '.join(signs)}. Its model is of no use: "
                f"{_LOWER}, and go on from an earlier model or begin anew."
            )
        self._lowest = min(self._lowest, criterion)

    def _signs_of_divergence(self, criterion: float) -> list[str]:
        signs = []
        if abs(criterion) > HUGE:
            signs.append(f"the training criterion is {criterion:.3g}")
        elif criterion > GROWTH * self._lowest > 0:
            signs.append(f"the training criterion is {criterion:.3g}, after {self._lowest:.3g}")
        values = {
            one.name: np.abs(one.value).max(initial=0.0) for one in self._store.parameters if one.value is not None
        }
        if values:
            name = max(values, key=lambda name: values[name])
            if values[name] > HUGE:
                signs.append(f"the parameter '{name}' has a value of {values[name]:.3g}")
        return signs

    def _fingerprint(self) -> int:
        return zlib.crc32(self._store.values[: self._store.learned_size].view(np.uint8).data)
