"""Layers: dense, embedding, normalization, dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from cntk._inherited import inherit
from cntk.default_options import default_override_or, get_default_override, is_default_override
from cntk.initializer import SentinelValueForAutoSelectRandomSeed, glorot_uniform
from cntk.layers._options import as_tuple, first_values, optional
from cntk.layers.blocks import identity
from cntk.ops import alias, batch_normalization, dropout, reduce_mean, sqrt, times
from cntk.ops.functions import BlockFunction, Function
from cntk.variables import INFERRED, Constant, Parameter

_INFERRED = (INFERRED,)


@optional
def Dense(
    shape: Any,
    activation: Any = default_override_or(identity),  # noqa: B008
    init: Any = default_override_or(glorot_uniform()),  # noqa: B008
    input_rank: int | None = None,
    map_rank: int | None = None,
    bias: Any = default_override_or(True),  # noqa: B008
    init_bias: Any = default_override_or(0),  # noqa: B008
    name: str = "",
) -> Function:
    """A layer ``activation(x W + b)``.

    Args:
        shape: of the output.
        activation: applied to it.
        init: how W starts.
        input_rank: sum over so many of the last axes only.
        map_rank: or keep so many of the first axes.
        bias: whether b is added.
        init_bias: how it starts.
        name: of the user.

    Raises:
        ValueError: both ranks are given, or no first values.
    """
    output = as_tuple(shape)
    if input_rank is not None and map_rank is not None:
        raise ValueError("Dense: input_rank and map_rank cannot be specified at the same time.")
    inputs = _INFERRED * (1 if input_rank is None else input_rank)
    kept = -1 if input_rank is not None else map_rank or 0
    W = Parameter(inputs + output, init=first_values(init, output_rank=len(output)), name="W")
    b = Parameter(output, init=init_bias, name="b") if bias else None

    def dense(x: Any) -> Any:
        y = times(x, W, output_rank=len(output), infer_input_rank_to_map=kept)
        if b is not None:
            y = y + b
        return y if activation is None or activation is identity else activation(y)

    return BlockFunction("Dense", name)(dense)


def Embedding(
    shape: Any = None,
    init: Any = default_override_or(glorot_uniform()),  # noqa: B008
    weights: Any = None,
    name: str = "",
) -> Function:
    """Vectors of one-hot words.

    Args:
        shape: of a vector.
        init: how they start.
        weights: or given vectors, which are not learned.
        name: of the user.

    Raises:
        ValueError: there are neither a shape nor weights, or both; or weights and how they start.
    """
    if weights is not None:
        if shape is not None:
            raise ValueError("Embedding: output shape must not be specified when weights are given")
        if not is_default_override(init):
            raise ValueError("Embedding: init and weights options are mutually exclusive")
        E: Any = Constant(np.asarray(weights, np.float32), name="E")
        output = E.shape[1:]
    else:
        if shape is None:
            raise ValueError("Embedding: output shape must be specified")
        output = as_tuple(shape)
        begun = get_default_override(Embedding, init=init)
        E = Parameter(_INFERRED + output, init=first_values(begun, output_rank=len(output)), name="E")
    return BlockFunction("Embedding", name)(lambda x: times(x, E, output_rank=len(output)))


def Dropout(
    dropout_rate: float | None = None,
    keep_prob: float | None = None,
    seed: int = SentinelValueForAutoSelectRandomSeed,
    name: str = "",
) -> Function:
    """In training, set elements to 0 with a probability.

    Args:
        dropout_rate: the probability.
        keep_prob: or the probability to stay.
        seed: of the random numbers.
        name: of the user.

    Raises:
        ValueError: not exactly one probability is given, or it is none.
    """
    if (dropout_rate is None) == (keep_prob is None):
        which = "either dropout_rate or keep_prob must be specified" if dropout_rate is None else (
            "dropout_rate and keep_prob cannot be specified at the same time")  # fmt: skip
        raise ValueError(f"Dropout: {which}.")
    if keep_prob is not None:
        if not 0.0 <= keep_prob < 1.0:
            raise ValueError("Dropout: keep_prob must be in the interval [0,1)")
        dropout_rate = 1 - keep_prob
    assert dropout_rate is not None
    rate = dropout_rate
    return BlockFunction("Dropout", name)(lambda x: dropout(x, dropout_rate=rate, seed=seed))


@optional
def Activation(activation: Any = default_override_or(identity), name: str = "") -> Function:  # noqa: B008
    """An activation as a layer."""
    return BlockFunction("Activation", name)(lambda x: activation(x))


@optional
def BatchNormalization(
    map_rank: Any = default_override_or(None),  # noqa: B008
    init_scale: float = 1,
    normalization_time_constant: Any = default_override_or(5000),  # noqa: B008
    blend_time_constant: float = 0,
    epsilon: Any = default_override_or(0.00001),  # noqa: B008
    use_cntk_engine: Any = default_override_or(False),  # noqa: B008
    disable_regularization: Any = default_override_or(False),  # noqa: B008
    name: str = "",
) -> Function:
    """Batch normalization with learned scale and bias.

    Args:
        map_rank: 1 has one mean for each channel of an image, None for each element.
        init_scale: how the scale starts.
        normalization_time_constant: over how many samples the running mean and variance are taken.
        blend_time_constant: how much these count in training.
        epsilon: is added to the variance.
        use_cntk_engine: is taken for compatibility.
        disable_regularization: scale and bias are not regularized.
        name: of the user.

    Raises:
        NotImplementedError: there is another rank.
    """
    if map_rank not in (None, 1):
        raise NotImplementedError("BatchNormalization: map_rank can only be 1 or None")
    dtype = get_default_override(None, dtype=default_override_or(np.float32))
    scale = Parameter(_INFERRED, init=init_scale, dtype=dtype, name="scale")
    bias = Parameter(_INFERRED, init=0, dtype=dtype, name="bias")
    mean = Constant(0, shape=_INFERRED, dtype=dtype, name="aggregate_mean")
    variance = Constant(0, shape=_INFERRED, dtype=dtype, name="aggregate_variance")
    count = Constant(0, shape=(), dtype=dtype, name="aggregate_count")

    def batch_normalize(x: Any) -> Function:
        return batch_normalization(
            x, scale, bias, mean, variance, running_count=count, spatial=map_rank == 1,
            normalization_time_constant=normalization_time_constant, blend_time_constant=blend_time_constant,
            epsilon=epsilon, use_cudnn_engine=not use_cntk_engine, disable_regularization=disable_regularization,
        )  # fmt: skip

    return BlockFunction("BatchNormalization", name)(batch_normalize)


@optional
def LayerNormalization(
    initial_scale: float = 1,
    initial_bias: float = 0,
    epsilon: Any = default_override_or(0.00001),  # noqa: B008
    name: str = "",
) -> Function:
    """``(x - mean) / (deviation + epsilon) * scale + bias`` over the elements of each sample (Ba et al. 2016).

    Args:
        initial_scale, initial_bias: how scale and bias start.
        epsilon: is added to the deviation.
        name: of the user.
    """
    scale = Parameter(_INFERRED, init=initial_scale, name="scale")
    bias = Parameter(_INFERRED, init=initial_bias, name="bias")

    def layer_normalize(x: Any) -> Any:
        centred = x - reduce_mean(x)
        deviation = sqrt(reduce_mean(centred * centred))
        return centred / (deviation + epsilon if epsilon else deviation) * scale + bias

    return BlockFunction("LayerNormalization", name)(layer_normalize)


def Label(name: str) -> Function:
    """A layer that gives its input a name, by which it is found."""
    return Function(lambda x: alias(x, name=name))  # type: ignore[no-any-return]


inherit(__name__)
