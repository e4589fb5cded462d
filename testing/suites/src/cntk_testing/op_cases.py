"""Examples of an op: inputs, with values, on which it is checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.ops.language.framing import run_forward
from cntk_core.ops.language.op import Op, OpContext
from cntk_core.ops.language.random import random_stream
from cntk_core.ops.language.shapes import Shape
from cntk_testing.gradients import make_context

Array = NDArray[Any]

KINDS = ("smooth", "positive", "chance", "shares", "one_hot", "binary", "index")
"""Kinds of example values: any number away from 0; a positive one; a number between 0 and 1; numbers between 0 and 1
that sum to 1 in each sample; a 1 among zeros; 0 or 1; a small whole number."""


@attrs.frozen
class OpExample:
    """Inputs on which an op is checked.

    Attributes:
        shapes: sample shape of each input, memory order.
        attributes: the op's settings; None are the defaults.
        kinds: for each input one of :data:`KINDS`; by default ``smooth``.
        framed: which inputs have the dynamic axis; None tries all mixes.
        values: constant values in place of random ones, by index of the input.
        gradient: compare the gradients with differences.
        nan: inputs whose NaN must show in the output; None are those to which a gradient flows.
        settings: numbers that training sets (``dropoutRate``).
    """

    shapes: tuple[Shape, ...]
    attributes: Any = None
    kinds: tuple[str, ...] = ()
    framed: tuple[bool, ...] | None = None
    values: Mapping[int, Any] = attrs.field(factory=dict)
    gradient: bool = True
    nan: tuple[int, ...] | None = None
    settings: Mapping[str, float] = attrs.field(factory=dict)

    def given(self, index: int, shape: tuple[int, ...]) -> Array:
        """Return the constant values of an input in a shape; rows for fewer or more frames are repeated or cut."""
        value = np.asarray(self.values[index], dtype=np.float64)
        if value.ndim == len(shape) and value.shape[1:] == shape[1:]:
            return np.resize(value, shape)
        return np.broadcast_to(value, shape).copy()

    def mixes(self) -> Iterator[tuple[bool, ...]]:
        """The mixes of inputs with and without dynamic axis that are tried."""
        if self.framed is not None:
            yield self.framed
        else:
            yield from product((True, False), repeat=len(self.shapes))


@attrs.define
class ExampleCase:
    """An example with values, for one mix of framed inputs."""

    op: Op
    example: OpExample
    framed: tuple[bool, ...]
    inputs: list[Array]
    attributes: Any

    def context(self) -> OpContext:
        """Return a context of training; each has the same random numbers."""
        return make_context(
            self.inputs,
            self.framed,
            training=True,
            settings=self.example.settings,
            random=lambda: random_stream(1, 2, 3),
        )

    def forward(self, inputs: Sequence[Array] | None = None) -> Array:
        """Return the op's value of these or the example's inputs."""
        values = self.inputs if inputs is None else inputs
        return np.array(run_forward(self.op, np, values, self.attributes, self.context()))

    def needs(self) -> list[bool]:
        """To which inputs a gradient flows."""
        return [self.op.flows_to(index) for index in range(len(self.inputs))]


FRAMES = 3


def random_values(rng: np.random.Generator, kind: str, shape: tuple[int, ...], *, framed: bool) -> Array:
    """Return values of one of :data:`KINDS`."""
    if kind == "one_hot":
        rows = shape[0] if framed else 1
        size = int(np.prod(shape[int(framed) :]))
        return np.asarray(np.eye(size)[rng.integers(size, size=rows)].reshape(shape))
    if kind in ("binary", "index"):
        return rng.integers(2 if kind == "binary" else 4, size=shape).astype(np.float64)
    if kind == "chance":
        return rng.uniform(0.1, 0.9, size=shape)
    if kind == "shares":
        chances = rng.uniform(0.1, 0.9, size=shape)
        return chances / chances.sum(axis=tuple(range(int(framed), len(shape))), keepdims=True)
    values = rng.normal(size=shape)
    magnitude = np.abs(values) + 0.2
    return magnitude if kind == "positive" else np.sign(values) * magnitude


def example_cases(op: Op, examples: Sequence[OpExample], seed: int = 0) -> Iterator[ExampleCase]:
    """Yield each example with values, for every mix of framed inputs that it tries."""
    for example in examples:
        for framed in example.mixes():
            rng = np.random.default_rng(seed)
            inputs = []
            for index, (shape, has) in enumerate(zip(example.shapes, framed, strict=True)):
                full = (FRAMES, *shape) if has else tuple(shape)
                kind = example.kinds[index] if example.kinds else "smooth"
                inputs.append(
                    example.given(index, full)
                    if index in example.values
                    else random_values(rng, kind, full, framed=has)
                )
            attributes = op.attributes() if example.attributes is None else example.attributes
            yield ExampleCase(op.form_of(attributes), example, framed, inputs, attributes)
