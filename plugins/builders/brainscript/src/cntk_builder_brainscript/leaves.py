"""The leaves of a network: parameters with their first values, inputs, constants.

Rules of the original: docs/original-rules.md#brainscript-inputs-parameters-constants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cntk_builder_brainscript.settings import MAX_DIMENSION, Settings
from cntk_builder_brainscript.values import FREE_DIMENSION, Array
from cntk_core.api import (
    BuildContext,
    BuildError,
    Initializer,
    InitializerSettings,
    Input,
    Location,
    Node,
    Parameter,
    Shape,
    from_cntk,
    to_cntk,
)
from cntk_core.api.builders import FREE, FixedValue, FromFile, FromLiteral, numbered

OLD_GRADIENT_WORDS = ("needsGradient", "needGradient", "computeGradient")
LAYOUTS = {"chw": True, "cudnn": True, "hwc": False, "legacy": False}
"""The words for the order of an image's axes, in lower case: whether the channels come last in CNTK's order."""


def make_constant(value: float, name: str, where: Location) -> Parameter:
    """Return the parameter that stands for a number in an expression: one value that is not learned."""
    return Parameter.make(name, (1,), FixedValue(value), learning_rate_multiplier=0.0, where=where)


def make_parameter(settings: Settings, name: str, context: BuildContext) -> Parameter:
    """Return the node of ``operation = 'LearnableParameter'``.

    Raises:
        BuildError: a member has the wrong kind, or what the initializer needs is missing.
        DataError: dimensions are to come from a file or a text that has no matrix.
    """
    for word in OLD_GRADIENT_WORDS:
        if settings.has(word) and not settings.has("learningRateMultiplier"):
            raise BuildError(
                f"'{word}' is not a setting of a parameter in BrainScript",
                where=settings.where,
                hint="Use learningRateMultiplier = 0 for a parameter that is not learned.",
            )
    shape = from_cntk(settings.dims("shape"))
    rate = settings.number("learningRateMultiplier", 1.0)
    if rate < 0:
        raise BuildError(f"learningRateMultiplier of {settings.owner} is negative: {rate:g}", where=settings.where)
    first = _first_values(settings, shape, context)
    if isinstance(first, FromFile | FromLiteral) and 0 in shape:
        shape = first.complete(shape)
    return Parameter.make(name, shape, first, learning_rate_multiplier=rate, where=settings.where)


def _first_values(settings: Settings, shape: Shape, context: BuildContext) -> Initializer:
    kind = settings.text("init", "") or _implied_kind(settings)
    literal = settings.text("initFromLiteral", "")
    if literal and kind.lower() != "fromliteral":
        used = kind if kind == "initValue" else f"init='{kind}'"
        context.trace(
            f"{settings.where}: Warning: initFromLiteral has no effect, {settings.owner} is initialized by {used}; "
            "write init='fromLiteral' as well"
        )
    if kind == "initValue":
        if isinstance(settings.record.find("initValue"), Array):
            return _written_out(settings.numbers("initValue"), to_cntk(shape), settings)
        return FixedValue(settings.number("initValue"))
    if kind == "zero":
        return FixedValue(0.0)
    path = settings.text("initFromFilePath", "")
    dims = to_cntk(shape)
    seed = settings.whole("randomSeed", -1)
    given = InitializerSettings(
        scale=settings.number("initValueScale", 1.0),
        value=settings.number("value", 0.0) if kind == "fixedValue" else 0.0,
        path=context.directory / path if path else None,
        literal=literal or None,
        kernel=(dims[0], dims[1]) if kind == "bilinear" and len(dims) > 1 else None,
        filter_rank=settings.whole("initFilterRank", 0),
        output_rank=settings.whole("initOutputRank", 1),
        seed=seed if seed >= 0 else None,
        where=settings.where,
    )
    return numbered(context.make_initializer(kind, given), lambda: context.next_seed("brainscript"))


def _implied_kind(settings: Settings) -> str:
    """Return the initializer that is meant where ``init`` is empty: what else is given decides.

    ``initFromLiteral`` alone does not: the original draws random numbers then.
    """
    if settings.text("initFromFilePath", ""):
        return "fromFile"
    value = settings.record.find("initValue")
    if value is None or value == "":
        return "uniform"
    return "initValue"


def _written_out(values: Sequence[float], dims: Shape, settings: Settings) -> FromLiteral:
    """Return the elements of an array as the values of a parameter, the first axis of its shape first.

    Raises:
        BuildError: they do not fill the shape.
    """
    rows = dims[0] if dims and dims[0] else len(values)
    if not values or len(values) % rows or (0 not in dims and len(values) != math.prod(dims)):
        size = " x ".join(map(str, dims))
        raise BuildError(
            f"initValue of {settings.owner} has {len(values)} elements, and its shape is [{size}]",
            where=settings.record.where_of("initValue"),
            hint="Write as many as the shape has; those of its first axis stand side by side.",
        )
    lines = (" ".join(map(repr, values[row::rows])) for row in range(rows))
    return FromLiteral("\n".join(lines), settings.where)


def make_input(settings: Settings, name: str, *, sparse: bool) -> Input:
    """Return the node of ``operation = 'InputValue'`` or ``'SparseInputValue'``.

    Raises:
        BuildError: a member has the wrong kind, a dimension is 0.
    """
    axis = settings.record.find("dynamicAxis")
    axis_name = axis.name if isinstance(axis, Node) else settings.text("dynamicAxis", "")
    given = image_dims(settings) if settings.flag("isImage", False) else settings.wholes("shape")
    dims = tuple(FREE if dim == FREE_DIMENSION else dim for dim in given)
    if not dims or any(dim is not FREE and not 0 < dim <= MAX_DIMENSION for dim in dims):
        hint = "FreeDimension is one whose size each minibatch brings."
        raise BuildError(f"{settings.owner} needs all its dimensions", where=settings.where, hint=hint)
    return Input.make(name, dims[::-1], sparse=sparse, where=settings.where, axis=axis_name)


def image_dims(settings: Settings) -> tuple[int, int, int]:
    """Return ``imageWidth``, ``imageHeight`` and ``imageChannels`` in CNTK's order for ``imageLayout``."""
    width, height, channels = (settings.whole(f"image{side}") for side in ("Width", "Height", "Channels"))
    return (width, height, channels) if channels_last(settings) else (channels, width, height)


def channels_last(settings: Settings, default: str = "CHW") -> bool:
    """Return whether ``imageLayout`` is CHW, where the channels are the last of CNTK's axes."""
    layout = settings.text("imageLayout", default)
    if layout.lower() not in LAYOUTS:
        raise BuildError(
            f"there is no imageLayout '{layout}'", where=settings.where, hint="Accepted: CHW (cudnn), HWC (legacy)."
        )
    return LAYOUTS[layout.lower()]
