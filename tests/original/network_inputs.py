"""What networks that are compared with the original are given: streams of random values, and weights of results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray
from original_cases import Random, draw

Array = NDArray[Any]

SEQUENCE, OTHER, BATCH, PARAMETER = "", "other", "#", None
"""Where the values of a stream lie: frames of sequences, of sequences of other lengths, one for each sample, one for
all minibatches."""

POOL = np.random.RandomState(7).uniform(0.2, 1.8, 8192).astype(np.float32).astype(np.float64)
"""What elements are multiplied by before they are summed, one after the other, which is the gradient that comes in."""


@attrs.frozen
class Stream:
    """An input: the shape of a sample, where its values lie, of which kind they are, whether it has a gradient."""

    shape: tuple[int, ...]
    axis: str | None = SEQUENCE
    kind: str = "any"
    wanted: bool = True
    sparse: bool = False


@attrs.frozen
class Sketch:
    """What a maker says of a case.

    Attributes:
        streams: the inputs.
        settings: what our function and the original's are told.
        total: our value is the sum over the minibatch, and the original's has to be summed.
        seeded: gradients begin with weights, not with ones.
        values: of inputs that are not drawn, by index.
        lengths: of the sequences, where they are not drawn.
    """

    streams: tuple[Stream, ...]
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    total: bool = False
    seeded: bool = True
    values: Mapping[int, Any] = attrs.field(factory=dict)
    lengths: tuple[int, ...] = ()


def drawn(random: Random, stream: Stream, before: tuple[int, ...]) -> Array:
    """Return values of a kind, with dimensions before the sample's."""
    shape = (*before, *stream.shape)
    if stream.kind == "one_hot":
        return np.eye(stream.shape[-1])[random.randint(stream.shape[-1], size=shape[:-1])]
    if stream.kind == "chance":  # the original squares the labels' sum otherwise
        shares = draw(random, "small", shape)
        return shares / shares.sum(axis=-1, keepdims=True)
    if stream.kind.startswith("below "):
        return random.randint(int(stream.kind[6:]), size=shape).astype(np.float64)
    if stream.kind == "some":  # at least one of each sequence
        found = draw(random, "binary", shape)
        found[0] = 1.0
        return found
    return draw(random, stream.kind, shape)


def values_of(random: Random, sketch: Sketch) -> list[Any]:
    """Return of each stream an array, or one array of each sequence."""
    count = len(sketch.lengths) or int(random.randint(1, 5))
    lengths = {axis: [int(frames) for frames in random.randint(1, 6, size=count)] for axis in (SEQUENCE, OTHER)}
    if sketch.lengths:
        lengths[SEQUENCE] = list(sketch.lengths)
    values: list[Any] = []
    for index, stream in enumerate(sketch.streams):
        if index in sketch.values:
            values.append(sketch.values[index])
        elif stream.axis is PARAMETER or stream.axis == BATCH:
            values.append(drawn(random, stream, (count,) if stream.axis == BATCH else ()))
        else:
            values.append([drawn(random, stream, (frames,)) for frames in lengths[stream.axis]])
    return values


def weighted(value: Any) -> tuple[int, float, float]:
    """Return how many elements an array or the arrays of a list have, their weighted sum, and that of their sizes."""
    flat = np.concatenate([np.zeros(0), *(np.asarray(each, np.float64).ravel() for each in value)])
    products = flat * POOL[: len(flat)]
    return len(flat), float(products.sum()), max(1.0, float(abs(products).sum()))


def seeds(value: Any) -> Any:
    """Return the weights laid out as a value is."""
    if isinstance(value, np.ndarray):
        return POOL[: value.size].reshape(value.shape)
    ends = np.cumsum([0, *(each.size for each in value)]).tolist()
    return [POOL[begin:end].reshape(each.shape) for begin, end, each in zip(ends, ends[1:], value, strict=False)]
