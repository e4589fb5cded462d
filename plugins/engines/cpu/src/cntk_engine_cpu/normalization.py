"""Binds BatchNormalization to kernels over rows and channels.

Where an element-wise step alone reads the result, that step does the normalization too: the statistics are all that is
computed here (:class:`Affine`).
"""

from __future__ import annotations

import attrs
import numpy as np

from cntk_core.api import (
    GradientStep,
    Node,
    Statistics,
    Step,
    settle_statistics,
    statistics_used,
    symbol,
)
from cntk_engine_cpu import elementwise
from cntk_engine_cpu.site import Affine, Array, Call, Site, elements_of
from cntk_engine_cpu.source import Result
from cntk_engine_cpu.straight import straight_line

NEAR = 16
"""Rows whose mean the sums of a minibatch are taken about."""


@attrs.frozen(eq=False)
class _View:
    """Data whose means go over its rows.

    Attributes:
        data: the value, in one piece.
        rows, columns: of the data; each column has a mean.
        spatial: the columns are the channels of images.
    """

    data: Array
    rows: int
    columns: int
    spatial: bool

    @property
    def matrix(self) -> Array:
        """The data as ``(rows, columns)``."""
        return self.data.reshape(self.rows, self.columns)


def _view(site: Site, node: Node, calls: list[Call]) -> _View | None:
    """See the input of a node in rows; None if the kernels cannot, or there are no samples."""
    data, scale = node.inputs[:2]
    columns = statistics_used(data.known_shape, scale.known_shape, node.attributes)
    if not data.framed or not site.rows(node) or columns != elements_of(scale):
        return None
    spatial = columns != elements_of(data)
    if spatial and (site.images is None or columns != data.known_shape[0]):
        return None
    if not spatial:
        array = site.values[data]
        return _View(array, site.rows(node), columns, False) if array.flags.c_contiguous else None
    assert site.images is not None
    array = site.images.value(site, data, calls)
    return _View(array, array.size // columns, columns, True)


def bind_forward(site: Site, step: Step) -> list[Call] | None:
    """Return the calls that compute a batch normalization, None if the kernels cannot."""
    (node,) = step.nodes
    calls: list[Call] = []
    after: list[Call] = []
    view = _view(site, node, calls)
    if view is None or not (view.spatial or site.values[node].flags.c_contiguous):
        return None
    site.interpreted.add(node)  # whether it trains, and how many samples came before, is known when it runs
    axes = 1 if view.spatial else len(node.known_shape)
    affine = Affine(view.data, axes, view.spatial, *(np.zeros(view.columns, site.dtype) for _ in range(3)))
    calls += _statistics(site, node, view, affine)
    if _leave_to_reader(site, step, affine):
        return calls
    out = site.values[node]
    if view.spatial and site.images is not None:
        out = site.images.value_out(site, node, after)
    tree, arrays = affine.tree("v")
    whole = [Result(tree, "full")]
    return [*calls, *elementwise.kernel_calls(site, view.rows, view.columns, arrays, whole, [out]), *after]


def _leave_to_reader(site: Site, step: Step, affine: Affine) -> bool:
    """Leave the normalization to the one element-wise step that looks at the result, if that is so and it can."""
    (node,) = step.nodes
    plan = site.plan
    reader = site.only_reader(step)
    if reader is None or not elementwise.is_elementwise(reader):
        return False
    buffer = plan.value_buffer.get(node.inputs[0])
    begin, end = plan.steps.index(step) + 1, plan.steps.index(reader)
    between = [written for other in plan.steps[begin:end] for written in other.writes]
    if buffer is not None and any(plan.value_buffer.get(written) == buffer for written in between):
        return False  # the data are gone by then
    site.affine[node] = affine
    space = elementwise.space_of(site, reader)
    if space is None or space.columns != affine.factor.size or space.kinds[node] != "full":
        del site.affine[node]
        return False
    return True


def _statistics(site: Site, node: Node, view: _View, affine: Affine) -> list[Call]:
    """The calls that find mean and deviation and make the normalization's numbers of them."""
    sums = np.zeros(view.columns, site.dtype), np.zeros(view.columns, site.dtype)
    near = np.zeros(view.columns, site.dtype)
    centred = symbol("x") - symbol("n")
    arrays = {"x": (view.data, "full"), "n": (near, "row")}
    results = [Result(centred, "row"), Result(centred * centred, "row")]
    # Sums of squares lose digits far from the mean: a few rows tell about where it is.
    find_near = Call(_mean, (view.matrix[:NEAR], near))
    find_sums = elementwise.kernel_calls(site, view.rows, view.columns, arrays, results, sums)
    run = straight_line([find_near, *find_sums], site.ports)
    context = site.contexts[node]

    def moments() -> tuple[Array, Array]:
        run()
        mean = sums[0] / view.rows
        return near + mean, np.maximum(sums[1] / view.rows - mean * mean, 0)

    def settle() -> None:
        inputs = [site.values[parent] for parent in node.inputs]
        found = settle_statistics(moments, inputs, node.attributes, context, view.rows)
        context.saved["statistics"] = found
        np.copyto(affine.centre, found.used_mean)
        np.multiply(found.inverse, inputs[1].reshape(-1), out=affine.factor)
        np.copyto(affine.shift, inputs[2].reshape(-1))

    return [Call(settle)]


def _mean(rows: Array, out: Array) -> None:
    np.mean(rows, axis=0, out=out)


def bind_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls that compute the gradients of a batch normalization whose forward part has kernels."""
    (node,) = step.step.nodes
    data, scale, bias = node.inputs[:3]
    before: list[Call] = []
    after: list[Call] = []
    view = _view(site, node, before)
    wanted = {target.node: target for target in step.targets}
    if view is None or before or len({data, scale, bias}) < 3 or not wanted.keys() <= {data, scale, bias}:
        return None
    images = site.images if view.spatial else None
    incoming = images.gradient(site, node, before) if images is not None else site.gradients[node]
    if not incoming.flags.c_contiguous:
        return None
    rows = {name: np.zeros(view.columns, site.dtype) for name in ("used", "mean", "factor", "slope", "shift")}
    sums = np.zeros(view.columns, site.dtype), np.zeros(view.columns, site.dtype)
    context = site.contexts[node]
    gradient, value = symbol("g"), symbol("x")
    both = {"g": (incoming, "full"), "x": (view.data, "full")}

    def begin() -> None:
        found: Statistics = context.saved["statistics"]
        np.copyto(rows["used"], found.used_mean)

    def end() -> None:
        found: Statistics = context.saved["statistics"]
        to_bias, to_scale = sums[0], sums[1] * found.inverse
        for parent, change in ((scale, to_scale), (bias, to_bias)):
            if parent in wanted:
                _give(site.gradients[parent], change, accumulate=wanted[parent].accumulate)
        slopes = found.slopes(site.values[scale].reshape(-1), to_scale, to_bias, view.rows)
        np.copyto(rows["mean"], found.mean)
        for name, values in zip(("factor", "slope", "shift"), slopes, strict=True):
            np.copyto(rows[name], values)

    results = [Result(gradient, "row"), Result(gradient * (value - symbol("used")), "row")]
    arrays = both | {"used": (rows["used"], "row")}
    find_sums = elementwise.kernel_calls(site, view.rows, view.columns, arrays, results, sums)
    calls = [*before, Call(begin), *find_sums, Call(end)]
    if data in wanted:
        out, accumulate = site.gradients[data], wanted[data].accumulate
        if images is not None:
            out, accumulate = images.gradient_out(site, data, after, accumulate=accumulate)
        elif not out.flags.c_contiguous:
            return None
        tree = gradient * symbol("factor") - (value - symbol("mean")) * symbol("slope") - symbol("shift")
        arrays = both | {name: (rows[name], "row") for name in ("factor", "mean", "slope", "shift")}
        whole = [Result(tree, "full", accumulate)]
        calls += elementwise.kernel_calls(site, view.rows, view.columns, arrays, whole, [out])
    return [*calls, *after]


def _give(gradient: Array, change: Array, *, accumulate: bool) -> None:
    shaped = change.reshape(gradient.shape)
    if accumulate:
        gradient += shaped
    else:
        gradient[...] = shaped
