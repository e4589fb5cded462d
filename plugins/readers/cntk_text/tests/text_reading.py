"""Texts, and what is read of them."""

from __future__ import annotations

import pytest
from cntk_reader_cntk_text import StreamOptions

from cntk_core.api import CntkError, EpochSpec, Minibatch

A = StreamOptions(name="a", dim=2, format="dense")
L = StreamOptions(name="l", dim=3, format="sparse")
LINES = "".join(f"|a {i} {i}.5 |l {i % 3}:1\n" for i in range(10))
SEQUENCES = "".join(f"{s} |a {s} {t} |l {t % 3}:1\n" for s, n in enumerate([3, 1, 4, 2, 5]) for t in range(n))


def arrays(minibatch: Minibatch) -> dict[str, list]:
    return {
        name: (stream.data.toarray() if stream.sparse else stream.data).tolist()
        for name, stream in minibatch.streams.items()
    }


def read(reader, **spec: int) -> list[dict[str, list]]:
    return [arrays(minibatch) for minibatch in reader.minibatches(EpochSpec(**spec))]


def error_of(call) -> str:
    with pytest.raises(CntkError) as caught:
        call()
    return str(caught.value)
