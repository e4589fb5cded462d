"""Layers that bring values to mean 0 and variance 1."""

from __future__ import annotations

from typing import Any

from cntk_builder_python.blocks import layer
from cntk_builder_python.functions import sqrt
from cntk_builder_python.graph import Term, caller
from cntk_builder_python.layers import Layer
from cntk_core.api import BuildError


class BatchNormalization(Layer):
    """To the mean and variance of the minibatch in training, to running ones otherwise.

    S. Ioffe and C. Szegedy, ICML 2015: ``(x - mean) / sqrt(variance + epsilon) * scale + bias``. The running mean, the
    running variance and the number of samples that they were made of are parameters that are counted, not learned.

    Args:
        map_rank: 1 has one mean for each channel (the first axis), None one for each element.
        init_scale: how ``scale`` starts; ``bias`` starts at 0.
        normalization_time_constant: samples after which the running statistics have forgotten 63 percent; infinity
            freezes them, 0 keeps only the last minibatch, less than 0 is the mean over all.
        blend_time_constant: weight of the running statistics in training, counted in samples.
        epsilon: added to the variance.
        name: stem of ``name.scale``, ``name.bias``, ``name.runMean``, ``name.runVariance`` and ``name.runCount``.

    Raises:
        BuildError: ``map_rank`` is neither 1 nor None.
    """

    stem = "batch_normalization"

    def __init__(
        self,
        map_rank: int | None = None,
        *,
        init_scale: float = 1.0,
        normalization_time_constant: float = 5000.0,
        blend_time_constant: float = 0.0,
        epsilon: float = 1e-5,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if map_rank not in (None, 1):
            raise BuildError(f"map_rank is 1 (one mean for each channel) or None, not {map_rank}", where=caller())
        self.init_scale = init_scale
        self.settings: dict[str, Any] = {
            "spatial": map_rank == 1,
            "normalization_time_constant": float(normalization_time_constant),
            "blend_time_constant": float(blend_time_constant),
            "epsilon": epsilon,
            "use_cntk_engine": False,
        }

    @layer
    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        learned = [
            self._own(x, "scale", (0,), init=self.init_scale),
            self._own(x, "bias", (0,), init=0.0),
        ]
        running = [
            self._own(x, key, shape, init=0.0, learning_rate_multiplier=0.0)
            for key, shape in (("runMean", (0,)), ("runVariance", (0,)), ("runCount", (1,)))
        ]
        return x.graph.apply("BatchNormalization", x, *learned, *running, **self.settings)


class LayerNormalization(Layer):
    """``(x - mean) / deviation * scale + bias``: each sample by its own mean and deviation.

    After J. L. Ba, J. R. Kiros and G. E. Hinton, arXiv:1607.06450. As CNTK has it, mean and deviation are those of all
    elements of a sample, scale and bias are two learned numbers, and ``epsilon`` is added to the deviation; with
    ``epsilon=0`` it is BrainScript's ``LayerNormalizationLayer``. With ``axes`` it is the layer of today: scale and
    bias have a number for each element of the normalized axes, and ``epsilon`` is added to the variance.

    Args:
        initial_scale, initial_bias: how they start.
        axes: how many of the last axes are normalized together; None is CNTK's layer.
        epsilon: added to the standard deviation, or to the variance.
        name: stem of ``name.scale`` and ``name.bias``.

    Raises:
        BuildError: there are no such axes.
    """

    stem = "layer_normalization"

    def __init__(
        self,
        initial_scale: float = 1.0,
        initial_bias: float = 0.0,
        *,
        axes: int | None = None,
        epsilon: float = 1e-5,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if axes is not None and axes < 1:
            raise BuildError(f"axes is how many of the last axes are normalized, not {axes}", where=caller())
        self.initial_scale = initial_scale
        self.initial_bias = initial_bias
        self.axes = axes
        self.epsilon = epsilon

    @layer
    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        shape = (1,) if self.axes is None else (0,) * self.axes
        scale = self._own(x, "scale", shape, init=self.initial_scale)
        bias = self._own(x, "bias", shape, init=self.initial_bias)
        if self.axes is not None:
            return x.graph.apply("LayerNormalization", x, scale, bias, axes=self.axes, epsilon=self.epsilon)
        return _standardized(x, self.epsilon) * scale + bias


class GroupNormalization(Layer):
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias``: a mean and a variance for each group of channels.

    Y. Wu and K. He, arXiv:1803.08494. Samples are ``(channels, *space)``; scale and bias are those of channels.

    Args:
        groups: how many parts of the channels; 1 is the whole sample.
        spatial_rank: how many axes follow the channels.
        initial_scale, initial_bias: how they start.
        epsilon: added to the variance.
        name: stem of ``name.scale`` and ``name.bias``.
    """

    stem = "group_normalization"

    def __init__(
        self,
        groups: int,
        *,
        spatial_rank: int = 2,
        initial_scale: float = 1.0,
        initial_bias: float = 0.0,
        epsilon: float = 1e-5,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.groups = groups
        self.spatial_rank = spatial_rank
        self.initial_scale = initial_scale
        self.initial_bias = initial_bias
        self.epsilon = epsilon

    @layer
    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        shape = (0, *(1,) * self.spatial_rank)
        scale = self._own(x, "scale", shape, init=self.initial_scale)
        bias = self._own(x, "bias", shape, init=self.initial_bias)
        return self._normalized(x) * scale + bias

    def _normalized(self, x: Term) -> Term:
        channels = self.spatial_rank + 1
        parted = x.graph.apply("Reshape", x, dims=(0, self.groups), begin_axis=channels, end_axis=channels + 1)
        found = x.graph.apply("LayerNormalization", parted, axes=channels, epsilon=self.epsilon)
        return x.graph.apply("Reshape", found, dims=0, begin_axis=channels, end_axis=channels + 2)


class InstanceNormalization(GroupNormalization):
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias``: a mean and a variance for each channel of each sample.

    D. Ulyanov, A. Vedaldi and V. Lempitsky, arXiv:1607.08022.

    Args:
        spatial_rank: how many axes follow the channels.
        initial_scale, initial_bias: how they start.
        epsilon: added to the variance.
        name: stem of ``name.scale`` and ``name.bias``.
    """

    stem = "instance_normalization"

    def __init__(
        self,
        *,
        spatial_rank: int = 2,
        initial_scale: float = 1.0,
        initial_bias: float = 0.0,
        epsilon: float = 1e-5,
        name: str | None = None,
    ) -> None:
        super().__init__(
            0,
            spatial_rank=spatial_rank,
            initial_scale=initial_scale,
            initial_bias=initial_bias,
            epsilon=epsilon,
            name=name,
        )

    def _normalized(self, x: Term) -> Term:
        return x.graph.apply("LayerNormalization", x, axes=self.spatial_rank, epsilon=self.epsilon)


def _standardized(x: Term, epsilon: float) -> Term:
    centred = x - _mean(x)
    deviation = sqrt(_mean(centred * centred))
    return centred / (deviation + epsilon if epsilon else deviation)


def _mean(x: Term) -> Term:
    return x.graph.apply("ReduceElements", x, reduction_op="Mean")
