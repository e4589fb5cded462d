"""Batch normalization as generated kernels: sums by channel, and what is done to each element."""

from __future__ import annotations

from typing import Any, cast

import attrs
import numpy as np

from cntk_core.api import Node
from cntk_core.api.engines import (
    Expr,
    GradientStep,
    Step,
    TraceMath,
    blend_share,
    check_statistics,
    statistics_used,
    symbol,
    update_share,
)
from cntk_engine_cuda.elementwise import Operand, Space, map_calls, sum_calls
from cntk_engine_cuda.gpu import Array, Call
from cntk_engine_cuda.site import Site
from cntk_engine_cuda.source import TOTAL, Result, Tree

_M = TraceMath()

ALL = (True, True, True)
CHANNEL = (False, True, False)
"""Along which axes of (frames, channels, elements) a number of each channel varies."""

KEPT = ("mean", "used_mean", "inverse", "own_inverse", "blend", "factor", "slope", "shift", "to_scale", "to_bias")
"""Numbers by channel that are kept from forward to gradient, or while the gradient is computed."""


@attrs.frozen(eq=False)
class _Channels:
    """A normalization at a site: data ``(frames, channels, elements)``, and numbers by channel."""

    site: Site
    node: Node
    count: int
    numbers: dict[str, Array]

    @classmethod
    def of(cls, site: Site, node: Node) -> _Channels:
        data, scale = node.inputs[:2]
        count = statistics_used(data.known_shape, scale.known_shape, node.attributes)
        storage = site.fixed(node, "statistics", count * len(KEPT))
        numbers = {name: storage[index * count : (index + 1) * count] for index, name in enumerate(KEPT)}
        return cls(site, node, count, numbers)

    @property
    def size(self) -> int:
        """Numbers of which each mean is taken."""
        return int(np.prod(self.site.shape(self.node.inputs[0]))) // self.count

    @property
    def space(self) -> Space:
        """All elements."""
        rows = self.site.rows(self.node.inputs[0])
        return Space((rows, self.count, self.size // rows if rows else 0), known=False)

    def parameter(self, index: int) -> Array:
        """The numbers of an input that are used."""
        return self.site.values[self.node.inputs[index]].reshape(-1)[: self.count]

    def wide(self, **arrays: Array) -> dict[str, Operand]:
        """Operands of the size of the data."""
        return {name: Operand(array.reshape(-1), ALL) for name, array in arrays.items()}

    def narrow(self, *names: str, **arrays: Array) -> dict[str, Operand]:
        """Operands with a number for each channel."""
        found = {name: self.numbers[name] for name in names} | arrays
        return {name: Operand(array, CHANNEL) for name, array in found.items()}

    def each(self, results: dict[str, tuple[Tree, Array]], operands: dict[str, Array]) -> list[Call]:
        """The calls of a kernel over channels; an operand of one number is the same for all."""
        given = {name: Operand(array, (array.size > 1 or self.count == 1,)) for name, array in operands.items()}
        trees = [Result(tree) for tree, _ in results.values()]
        outputs = [array for _, array in results.values()]
        return map_calls(self.site.gpu, Space((self.count,), known=False), given, trees, outputs)

    def sums(self, operands: dict[str, Operand], results: dict[str, Result]) -> list[Call]:
        """The calls that write sums by channel."""
        outputs = [self.numbers[name] for name in results]
        return sum_calls(
            self.site.gpu, self.space, operands, list(results.values()), outputs, CHANNEL, self.site.workspace
        )

    def whole(self, operands: dict[str, Operand], result: Result, out: Array) -> list[Call]:
        """The calls of a kernel over all elements."""
        return map_calls(self.site.gpu, self.space, operands, [result], [out.reshape(-1)])


def bind_forward(site: Site, step: Step) -> list[Call] | None:
    """Return the calls that compute a batch normalization; in training they update the running statistics."""
    (node,) = step.nodes
    if not node.inputs[0].framed:
        return None
    channels = _Channels.of(site, node)
    if not channels.size:
        return []
    training = site.contexts[node].training
    calls = _train(channels) if training else _use_running(channels)
    operands = channels.wide(x=site.values[node.inputs[0]])
    operands |= channels.narrow("used_mean", "inverse", scale=channels.parameter(1), bias=channels.parameter(2))
    x, mean, inverse, scale, bias = map(symbol, ("x", "used_mean", "inverse", "scale", "bias"))
    result = Result((x - mean) * (inverse * scale) + bias)
    return [*calls, *channels.whole(operands, result, site.values[node])]


def _use_running(channels: _Channels) -> list[Call]:
    """The numbers of the running statistics."""
    node = channels.node
    variance = channels.parameter(4)
    if len(node.inputs) > 5:
        check_statistics(channels.site.values[node.inputs[5]].get().item(), variance.get())
    inverse = 1.0 / _M.sqrt(symbol("variance") + node.attributes.epsilon)
    results: dict[str, tuple[Tree, Array]] = {
        "used_mean": (symbol("mean"), channels.numbers["used_mean"]),
        "inverse": (inverse, channels.numbers["inverse"]),
    }
    if channels.site.plan.by:  # gradients of what is evaluated: the minibatch has no part in the statistics
        results |= {
            "mean": (symbol("mean"), channels.numbers["mean"]),
            "own_inverse": (inverse, channels.numbers["own_inverse"]),
            "blend": (symbol("mean") * 0.0 + 1.0, channels.numbers["blend"]),
        }
    return channels.each(results, {"mean": channels.parameter(3), "variance": variance})


def _shares(node: Node, frames: int) -> tuple[Tree, Tree, Tree]:
    """With which share a minibatch enters the running statistics, with which they take part, and what is counted."""
    attributes = node.attributes
    if len(node.inputs) <= 5:
        return update_share(attributes, frames, None), blend_share(attributes, frames, None), 0.0
    count = symbol("count")
    begun = _M.equal(count, 0.0)
    blend = blend_share(attributes, frames, 1.0)
    if attributes.normalization_time_constant < 0:
        return frames / (count + frames), _M.where(begun, 0.0, blend), count + frames
    share = update_share(attributes, frames, 1.0)
    counted = count + frames if share != 0.0 or blend != 1.0 else count + frames * begun
    return _M.where(begun, 1.0, share), _M.where(begun, 0.0, blend), counted


def _train(channels: _Channels) -> list[Call]:
    """Means and variances of the minibatch, and what becomes of the running ones."""
    site, node, size = channels.site, channels.node, channels.size
    numbers, epsilon = channels.numbers, node.attributes.epsilon
    total: Tree = Expr("div", (symbol(TOTAL), float(size)))
    data = channels.wide(x=site.values[node.inputs[0]])
    calls = channels.sums(data, {"mean": Result(symbol("x"), finish=total)})
    away = symbol("x") - symbol("mean")
    calls += channels.sums(data | channels.narrow("mean"), {"own_inverse": Result(away * away, finish=total)})
    share, blend, counted = _shares(node, site.contexts[node].frames)
    mean, variance, run_mean, run_variance = map(symbol, ("mean", "variance", "run_mean", "run_variance"))
    own = 1.0 / _M.sqrt(variance + epsilon)
    unbiased = variance * (size / (size - 1)) if size > 1 else variance * 0.0
    results: dict[str, tuple[Tree, Array]] = {
        "used_mean": (_mixed(blend, run_mean, mean), numbers["used_mean"]),
        "inverse": (_mixed(blend, 1.0 / _M.sqrt(run_variance + epsilon), own), numbers["inverse"]),
        "own_inverse": (own, numbers["own_inverse"]),
        "blend": (mean * 0.0 + blend, numbers["blend"]),
        "run_mean": (_mixed(share, mean, run_mean), channels.parameter(3)),
        "run_variance": (_mixed(share, unbiased, run_variance), channels.parameter(4)),
    }
    operands = {
        "mean": numbers["mean"],
        "variance": numbers["own_inverse"],
        "run_mean": channels.parameter(3),
        "run_variance": channels.parameter(4),
    }
    if len(node.inputs) <= 5:
        return [*calls, *channels.each(results, operands)]
    count = site.values[node.inputs[5]].reshape(-1)
    calls += channels.each(results, operands | {"count": count})
    own_space = Space((1,), known=True)
    return [*calls, *map_calls(site.gpu, own_space, {"count": Operand(count, (True,))}, [Result(counted)], [count])]


def _mixed(share: Any, one: Any, other: Any) -> Tree:
    """``share * one + (1 - share) * other``; a share of 0 takes nothing, whatever the one is."""
    if not isinstance(share, float | int):
        mixed = _M.where(share, share * one + (1.0 - share) * other, other)
    elif share in (0.0, 1.0):
        mixed = one if share else other
    else:
        mixed = share * one + (1.0 - share) * other
    return cast("Tree", mixed)


def bind_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls that compute the gradients by data, scale and bias."""
    (node,) = step.step.nodes
    data, scale, bias = node.inputs[:3]
    if not data.framed or scale is bias:
        return None
    channels = _Channels.of(site, node)
    targets = {target.node: target for target in step.targets}
    calls: list[Call] = []
    if not channels.size:
        emptied = [target for target in step.targets if not target.accumulate]
        return [call for target in emptied for call in site.gpu.fill(site.gradients[target.node], 0.0)]
    operands = channels.wide(x=site.values[data], g=site.gradients[node])
    operands |= channels.narrow("used_mean", "inverse")
    x, g, mean, inverse = map(symbol, ("x", "g", "used_mean", "inverse"))
    sums = {"to_scale": Result(g * (x - mean) * inverse), "to_bias": Result(g)}
    calls += channels.sums(operands, sums)
    for parameter, name in ((scale, "to_scale"), (bias, "to_bias")):
        if parameter in targets:
            calls += _to_parameter(channels, parameter, name, accumulate=targets[parameter].accumulate)
    if data in targets:
        calls += _to_data(channels, accumulate=targets[data].accumulate)
    return calls


def _to_parameter(channels: _Channels, parameter: Node, name: str, *, accumulate: bool) -> list[Call]:
    out = channels.site.gradients[parameter].reshape(-1)
    before = [] if accumulate or out.size == channels.count else channels.site.gpu.fill(out, 0.0)
    space = Space((channels.count,), known=False)
    operands = {"s": Operand(channels.numbers[name], (True,))}
    results = [Result(symbol("s"), accumulate)]
    return [*before, *map_calls(channels.site.gpu, space, operands, results, [out[: channels.count]])]


def _to_data(channels: _Channels, *, accumulate: bool) -> list[Call]:
    """Through the data themselves, and through mean and variance of the minibatch."""
    site, node, numbers = channels.site, channels.node, channels.numbers
    names = ("inverse", "own_inverse", "blend", "to_scale", "to_bias")
    inverse, own, blend, to_scale, to_bias = map(symbol, names)
    scale = symbol("scale")
    share = (1.0 - blend) / float(channels.size)
    factor = inverse * scale
    results: dict[str, tuple[Tree, Array]] = {
        "factor": (factor, numbers["factor"]),
        "slope": (share * scale * to_scale * (own * own * own) / inverse, numbers["slope"]),
        "shift": (share * factor * to_bias, numbers["shift"]),
    }
    calls = channels.each(results, {name: numbers[name] for name in names} | {"scale": channels.parameter(1)})
    operands = channels.wide(x=site.values[node.inputs[0]], g=site.gradients[node])
    operands |= channels.narrow("factor", "slope", "shift", "mean")
    x, g, slope, shift, mean = map(symbol, ("x", "g", "slope", "shift", "mean"))
    tree = g * symbol("factor") - ((x - mean) * slope + shift)
    return [*calls, *channels.whole(operands, Result(tree, accumulate), site.gradients[node.inputs[0]])]
