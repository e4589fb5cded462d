"""The functions that make inputs, parameters and constants."""

from __future__ import annotations

import attrs
import numpy as np

from cntk_builder_ndl.making import Made, Make
from cntk_builder_ndl.reading import Reader
from cntk_core.api import InitializerSettings, Input, Op, Parameter, Shape, from_cntk
from cntk_core.api.builders import BATCH, FixedValue, FromFile, numbered

LAYOUTS = ("HWC", "legacy", "CHW", "cudnn")
"""Words for the two layouts of images; the first two mean the same, as the last two do."""


def is_legacy(reader: Reader, default: str) -> bool:
    """Whether the call's ``imageLayout`` is HWC. Raises BuildError: there is no such layout."""
    return reader.option_choice("imageLayout", default, LAYOUTS) in ("hwc", "legacy")


def image_shape(reader: Reader, dims: list[int]) -> Shape:
    """Return the memory shape of ``[..., width, height, channels]``; the last three follow ``imageLayout``."""
    *others, width, height, channels = dims
    legacy = is_legacy(reader, "HWC")
    return (*((height, width, channels) if legacy else (channels, height, width)), *reversed(others))


def make_input(*, sparse: bool, image: bool) -> Make:
    """Return the function behind ``Input``, ``ImageInput`` and their sparse forms."""

    def make(reader: Reader, op: Op) -> Made:
        if image:
            reader.expect(3, 4)  # the fourth was the number of images; it means nothing since
            shape = image_shape(reader, reader.dims(0, 3))
        else:
            reader.expect(1, 100)
            shape = tuple(reversed(reader.dims()))
        axis = reader.option_text("dynamicAxis", "")
        if axis.lower() == "batchaxis":  # the word of BrainScript
            axis = BATCH
        return Made(Input.make(reader.node_name, shape, sparse=sparse, where=reader.where, axis=axis))

    return make


def make_parameter(*, image: bool) -> Make:
    """Return the function behind ``Parameter`` and ``ImageParameter``."""

    def make(reader: Reader, op: Op) -> Made:
        reader.expect(3 if image else 1, 100)
        dims = reader.wholes("a dimension")
        shape = image_shape(reader, dims) if image else from_cntk(dims)
        rate = reader.option_number("learningRateMultiplier", 1.0)
        gradient = [reader.option_flag(key, True) for key in ("needGradient", "needsGradient", "computeGradient")]
        reader.option_flag("initOnCPUOnly", False)  # says where the original draws; there is one stream here
        kernel = (reader.option_whole("kernelWidth", 0), reader.option_whole("kernelHeight", 0))
        seed = reader.option_whole("randomSeed", -1)
        kind = reader.option_text("init", "uniform")
        settings = InitializerSettings(
            scale=reader.option_number("initValueScale", 1.0),
            value=reader.option_number("value", 0.0),
            path=reader.option_path("initFromFilePath"),
            kernel=kernel if all(kernel) else None,
            seed=seed if seed >= 0 else None,
            seed_offset=reader.seed_offset,
            where=reader.option_where("init"),
        )
        if kind.lower() == "zero":  # as in BrainScript; the original's own page about NDL has it
            kind, settings = "fixedValue", attrs.evolve(settings, value=0.0)
        first = numbered(reader.context.make_initializer(kind, settings), reader.next_seed)
        if isinstance(first, FromFile) and 0 in shape:
            shape = first.complete(shape)
        multiplier = rate if all(gradient) else 0.0
        parameter = Parameter.make(
            reader.node_name, shape, first, learning_rate_multiplier=multiplier, where=reader.where
        )
        return Made(parameter)

    return make


def make_constant(reader: Reader, op: Op) -> Made:
    """Make the node of ``Constant``."""
    reader.expect(1)
    value = reader.number(0, "the value of a constant")
    shape = (reader.option_whole("cols", 1), reader.option_whole("rows", 1))
    return Made(fixed(reader, reader.node_name, shape, value))


def fixed(reader: Reader, name: str, shape: Shape, value: float) -> Parameter:
    """Return a parameter that is never learned."""
    with np.errstate(over="ignore"):  # too great a number is infinite
        values = np.full(shape, value, reader.context.dtype)
    return Parameter.make(
        name,
        shape,
        FixedValue(value),
        value=values,
        learning_rate_multiplier=0.0,
        where=reader.where,
    )
