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
    """``(x - mean) / (deviation + epsilon) * scale + bias``: mean and deviation of all elements of each sample.

    After J. L. Ba, J. R. Kiros and G. E. Hinton, arXiv:1607.06450; scale and bias are two learned numbers. With
    ``epsilon=0`` it is BrainScript's ``LayerNormalizationLayer``.

    Args:
        initial_scale, initial_bias: how they start.
        epsilon: added to the standard deviation.
        name: stem of ``name.scale`` and ``name.bias``.
    """

    stem = "layer_normalization"

    def __init__(
        self,
        initial_scale: float = 1.0,
        initial_bias: float = 0.0,
        *,
        epsilon: float = 1e-5,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.initial_scale = initial_scale
        self.initial_bias = initial_bias
        self.epsilon = epsilon

    @layer
    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        scale = self._own(x, "scale", (1,), init=self.initial_scale)
        bias = self._own(x, "bias", (1,), init=self.initial_bias)
        centred = x - _mean(x)
        deviation = sqrt(_mean(centred * centred))
        if self.epsilon:
            deviation = deviation + self.epsilon
        return centred / deviation * scale + bias


def _mean(x: Term) -> Term:
    return x.graph.apply("ReduceElements", x, reduction_op="Mean")
