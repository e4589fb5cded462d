"""Random networks for operations that see sequences, batches or several shapes; the same for every run and NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from zlib import crc32

import attrs
import network_makers
import network_samples
import numpy as np
from cntk_builder_python import Graph, Term
from network_inputs import PARAMETER, Stream, values_of
from original_cases import COUNT, Random

MAKERS = {**network_makers.MAKERS, **network_samples.MAKERS}


@attrs.frozen
class NetworkCase:
    """A network of one operation or few, and what it is given.

    Attributes:
        name: of the operation.
        streams: its inputs, called ``x0``, ``x1``, ...
        values: of each, an array, or one of each sequence.
        settings: what our function and the original's are told.
        total: our value is the sum over the minibatch, and the original's has to be summed.
        seeded: gradients begin with weights, not with ones.
    """

    name: str
    streams: tuple[Stream, ...]
    values: list[Any]
    settings: Mapping[str, Any]
    total: bool
    seeded: bool

    def build(self, graph: Graph) -> list[Term]:
        """Make the network, and return its outputs."""
        terms = []
        for index, (stream, value) in enumerate(zip(self.streams, self.values, strict=True)):
            if stream.axis is PARAMETER:
                terms.append(graph.parameter(stream.shape, init=np.asarray(value), name=f"x{index}"))
            else:
                terms.append(graph.input(f"x{index}", stream.shape, axis=stream.axis, sparse=stream.sparse))
        made = MAKERS[self.name][1](self.settings, *terms)
        return list(made) if isinstance(made, tuple) else [made]

    def data(self) -> dict[str, Any]:
        """What the inputs are given, by name."""
        given = enumerate(zip(self.streams, self.values, strict=True))
        return {f"x{index}": value for index, (stream, value) in given if stream.axis is not PARAMETER}

    def wanted(self) -> list[str]:
        """The inputs by which there are gradients."""
        return [f"x{index}" for index, stream in enumerate(self.streams) if stream.wanted]


def network_cases(name: str) -> Iterator[NetworkCase]:
    """Yield the cases of a name in :data:`MAKERS`."""
    for number in range(COUNT):
        random = Random(crc32(f"{name} {number}".encode()))
        sketch = MAKERS[name][0](random)
        yield NetworkCase(name, sketch.streams, values_of(random, sketch), sketch.settings, sketch.total, sketch.seeded)
