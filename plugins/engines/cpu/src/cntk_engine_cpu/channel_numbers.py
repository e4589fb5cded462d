"""What a batch normalization does with one number for each channel, as one small kernel forward and one backward.

There are few channels, but many formulas: one call of NumPy for each operation takes longer than the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.api import Node, OpContext
from cntk_core.api.engines import (
    Statistics,
    Target,
    TraceMath,
    Tree,
    blend_share,
    settle_statistics,
    symbol,
    update_share,
)
from cntk_engine_cpu.kernels import BoundNumbers
from cntk_engine_cpu.site import Affine, Array, Site
from cntk_engine_cpu.source import Result, spec_of

_MATH = TraceMath()

_TRAINED_BY = ("share", "blend", "fraction", "correction")
"""Numbers of the kernel forward: how far the running statistics move, their part in what is used, and by what sums and
the variance are multiplied for a mean and for what one expects of more samples."""

Outputs = Mapping[str, tuple[Tree, Array]]


@attrs.frozen(eq=False)
class ChannelNumbers:
    """A normalization, and the statistics of the minibatch, which are written to the same arrays each time.

    Attributes:
        affine: the normalization.
        mean, variance, inverse, own_inverse: as in :class:`~cntk_core.api.Statistics`; the mean that is used is the
            normalization's centre.
    """

    affine: Affine
    mean: Array
    variance: Array
    inverse: Array
    own_inverse: Array

    @classmethod
    def of(cls, affine: Affine) -> ChannelNumbers:
        """Room for the statistics of a normalization."""
        return cls(affine, *(np.zeros_like(affine.centre) for _ in range(4)))

    def take(self, running: Statistics) -> None:
        """Let gradients see the running statistics, in which the minibatch has no part."""
        for mine, given in (
            (self.mean, running.mean),
            (self.inverse, running.inverse),
            (self.own_inverse, running.own_inverse),
        ):
            np.copyto(mine, given)

    def statistics(self, blend: float) -> Statistics:
        """The statistics as a record."""
        return Statistics(self.mean, self.variance, self.affine.centre, self.inverse, self.own_inverse, blend)


def settle(
    site: Site, node: Node, numbers: ChannelNumbers, sums: tuple[Array, Array], near: Array, size: int
) -> Callable[[Callable[[], None]], None]:
    """Return what settles the statistics of a minibatch, as :func:`~cntk_core.api.settle_statistics` does.

    It is called with what takes the sums of ``x - near`` and of its square, each over ``size`` numbers.
    """
    context, affine = site.contexts[node], numbers.affine
    inputs = [site.values[parent] for parent in node.inputs]
    train = _training_kernel(site, numbers, sums, near, inputs, node.attributes.epsilon)
    # They are no part of the kernel's text, which then is the same for all sizes of minibatches and images.
    fraction, correction = 1.0 / size, size / (size - 1) if size > 1 else 0.0

    def run(take_sums: Callable[[], None]) -> None:
        if not context.training:
            _use_running(node, context, affine, inputs, size)
            if site.plan.by:
                numbers.take(context.saved["statistics"])
            return
        take_sums()
        count = float(inputs[5].item()) if len(inputs) > 5 else None
        share = update_share(node.attributes, context.frames, count)
        blend = blend_share(node.attributes, context.frames, count)
        train(share, blend, fraction, correction)
        if count is not None and (share != 0.0 or blend != 1.0):
            inputs[5][...] += context.frames
        context.saved["statistics"] = numbers.statistics(blend)

    return run


def _use_running(node: Node, context: OpContext, affine: Affine, inputs: Sequence[Array], size: int) -> None:
    def no_moments() -> tuple[Array, Array]:
        raise AssertionError("only training looks at the minibatch")

    found = settle_statistics(no_moments, inputs, node.attributes, context, size)
    context.saved["statistics"] = found
    np.copyto(affine.centre, found.used_mean)
    np.multiply(found.inverse, inputs[1].reshape(-1), out=affine.factor)
    np.copyto(affine.shift, inputs[2].reshape(-1))


def _training_kernel(
    site: Site,
    numbers: ChannelNumbers,
    sums: tuple[Array, Array],
    near: Array,
    inputs: Sequence[Array],
    epsilon: float,
) -> Callable[..., None]:
    affine = numbers.affine
    operands = {
        "total": sums[0],
        "squares": sums[1],
        "near": near,
        "scale": inputs[1],
        "bias": inputs[2],
        "run_mean": inputs[3],
        "run_variance": inputs[4],
    }
    total, squares, middle, scale, bias, run_mean, run_variance = map(symbol, operands)
    share, blend, fraction, correction = map(symbol, _TRAINED_BY)
    offset = total * fraction
    mean = middle + offset
    variance = _MATH.maximum(squares * fraction - offset * offset, 0.0)
    own_inverse = 1.0 / _MATH.sqrt(variance + epsilon)
    is_blended = _MATH.greater(blend, 0.0)
    blended_inverse = blend / _MATH.sqrt(run_variance + epsilon) + (1.0 - blend) * own_inverse
    inverse = _MATH.where(is_blended, blended_inverse, own_inverse)
    unbiased = variance * correction
    outputs: Outputs = {
        "mean": (mean, numbers.mean),
        "variance": (variance, numbers.variance),
        "own_inverse": (own_inverse, numbers.own_inverse),
        "inverse": (inverse, numbers.inverse),
        "centre": (_MATH.where(is_blended, blend * run_mean + (1.0 - blend) * mean, mean), affine.centre),
        "factor": (inverse * scale, affine.factor),
        "shift": (bias, affine.shift),
        "new_mean": (share * mean + (1.0 - share) * run_mean, inputs[3]),
        "new_variance": (share * unbiased + (1.0 - share) * run_variance, inputs[4]),
    }
    return _kernel(site, operands, _TRAINED_BY, outputs)


def settle_gradient(
    site: Site, node: Node, numbers: ChannelNumbers, sums: tuple[Array, Array], wanted: Mapping[Node, Target], size: int
) -> tuple[Callable[[], None], dict[str, tuple[Array, str]]]:
    """Return what makes gradients of the sums, and the numbers of the data's gradient.

    Those are the operands ``mean``, ``slopefactor``, ``slope`` and ``slopeshift`` of a kernel: the gradient by x is
    ``g * slopefactor - (x - mean) * slope - slopeshift``, as :meth:`~cntk_core.api.Statistics.slopes` has it.

    Args:
        site, node: where and what.
        numbers: of the forward part.
        sums: over the gradient ``g`` that comes in, and over ``g * (x - centre)``.
        wanted: whose gradients go out.
        size: how many numbers each mean is taken of.
    """
    _, scale_node, bias_node = node.inputs[:3]
    context = site.contexts[node]
    operands = {
        "total": sums[0],
        "moments": sums[1],
        "inverse": numbers.inverse,
        "own": numbers.own_inverse,
        "scale": site.values[scale_node],
    }
    total, moments, inverse, own, scale = map(symbol, operands)
    share = symbol("share")
    to_scale, factor = moments * inverse, inverse * scale
    slope = share * scale * to_scale * (own * own * own) / inverse
    made = {name: np.zeros_like(numbers.mean) for name in ("slopefactor", "slope", "slopeshift")}
    outputs: dict[str, tuple[Tree, Array]] = {
        "slopefactor": (factor, made["slopefactor"]),
        "slope": (slope, made["slope"]),
        "slopeshift": (share * factor * total, made["slopeshift"]),
    }
    accumulated = set()
    for parent, tree in ((scale_node, to_scale), (bias_node, total)):
        if parent in wanted:
            outputs[parent.name] = (tree, site.gradients[parent])
            accumulated |= {parent.name} if wanted[parent].accumulate else set()
    kernel = _kernel(site, operands, ("share",), outputs, accumulated)

    def run() -> None:
        # Through the mean and through the variance of the minibatch.
        kernel((1.0 - context.saved["statistics"].blend) / size)

    return run, {name: (array, "row") for name, array in (made | {"mean": numbers.mean}).items()}


def _kernel(
    site: Site, operands: Mapping[str, Array], names: Sequence[str], outputs: Outputs, accumulated: Any = ()
) -> Callable[..., None]:
    """A kernel over the channels, called with its numbers; an output may be an operand."""
    lying = {array.ctypes.data: name for name, array in operands.items()}
    results = [
        Result(tree, "full", name in accumulated, lying.get(array.ctypes.data, ""))
        for name, (tree, array) in outputs.items()
    ]
    spec, order = spec_of(dict.fromkeys(operands, "full"), names, results)
    # Tests for overlaps of so many arrays take four times as long to compile as the formulas, which are short work.
    spec = attrs.evolve(spec, vectors=False)
    columns = next(iter(operands.values())).size
    given = [operands[name].reshape(1, columns) for name in order]
    places = [array.reshape(1, columns) for _, array in outputs.values()]
    targets = [places[index] for index in spec.outputs]
    bound = BoundNumbers(site.kernels.get(spec, site.dtype), [1, columns, *given], len(names), targets)
    return lambda *numbers: bound.run(numbers)
