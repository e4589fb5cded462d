"""Binds BatchNormalization to kernels over rows and channels.

Where an element-wise step alone reads the result, that step does the normalization too: the statistics are all that is
computed here (:class:`Affine`).
"""

from __future__ import annotations

import attrs
import numpy as np

from cntk_core.api import Node
from cntk_core.api.engines import GradientStep, Names, Step, elements_of, is_elementwise, statistics_used, symbol
from cntk_engine_cpu import elementwise
from cntk_engine_cpu.channel_numbers import ChannelNumbers, settle, settle_gradient
from cntk_engine_cpu.site import Affine, Array, Call, Formula, Site
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
    if view is None or not (view.spatial or site.values[node].flags.c_contiguous) or len(set(node.inputs[:5])) < 5:
        return None
    site.interpreted.add(node)  # whether it trains, and how many samples came before, is known when it runs
    axes = 1 if view.spatial else len(node.known_shape)
    affine = Affine(view.data, axes, view.spatial, *(np.zeros(view.columns, site.dtype) for _ in range(3)))
    site.normalized[node] = numbers = ChannelNumbers.of(affine)
    calls += _statistics(site, node, view, numbers)
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
    if reader is None or not is_elementwise(reader):
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


def _statistics(site: Site, node: Node, view: _View, numbers: ChannelNumbers) -> list[Call]:
    """The calls that find mean and deviation and make the normalization's numbers of them."""
    sums = np.zeros(view.columns, site.dtype), np.zeros(view.columns, site.dtype)
    near = np.zeros(view.columns, site.dtype)
    centred = symbol("x") - symbol("n")
    arrays = {"x": (view.data, "full"), "n": (near, "row")}
    results = [Result(centred, "row"), Result(centred * centred, "row")]
    # Sums of squares lose digits far from the mean: a few rows tell about where it is.
    find_near = Call(_mean, (view.matrix[:NEAR], near))
    find_sums = elementwise.kernel_calls(site, view.rows, view.columns, arrays, results, sums)
    take_sums = straight_line([find_near, *find_sums], site.ports)
    return [Call(settle(site, node, numbers, sums, near, view.rows), (take_sums,))]


def _mean(rows: Array, out: Array) -> None:
    np.add.reduce(rows, axis=0, out=out)  # np.mean takes twice the time for few numbers
    out /= len(rows)


def bind_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls that compute the gradients of a batch normalization whose forward part has kernels."""
    (node,) = step.step.nodes
    data, scale, bias = node.inputs[:3]
    calls: list[Call] = []
    after: list[Call] = []
    view, numbers = _view(site, node, calls), site.normalized.get(node)
    wanted = {target.node: target for target in step.targets}
    if view is None or calls or numbers is None or not wanted.keys() <= {data, scale, bias}:
        return None
    affine = attrs.evolve(numbers.affine, data=view.data)  # an input has moved meanwhile
    name = Names(site.numbers).value(node)
    _, arrays = affine.tree(name)
    rows, columns = view.rows, view.columns
    gradient = _incoming(site, node, affine, calls)
    if gradient is None:
        return None
    arrays |= gradient.arrays
    sums = site.passing.sums.pop(node, None)
    if sums is None:
        sums = np.zeros_like(affine.centre), np.zeros_like(affine.centre)
        results = [Result(gradient.tree, "row"), Result(affine.centred(name) * gradient.tree, "row")]
        calls += elementwise.kernel_calls(site, rows, columns, arrays, results, sums)
    settled, operands = settle_gradient(site, node, numbers, sums, wanted, rows)
    calls.append(Call(settled))
    if data in wanted:
        out, accumulate = site.gradients[data], wanted[data].accumulate
        if affine.channels_last:
            assert site.images is not None
            out, accumulate = site.images.gradient_out(site, data, after, accumulate=accumulate)
        elif not out.flags.c_contiguous:
            return None
        about = symbol(f"{name}x") - symbol("mean")
        tree = gradient.tree * symbol("slopefactor") - about * symbol("slope") - symbol("slopeshift")
        arrays |= operands
        calls += elementwise.kernel_calls(site, rows, columns, arrays, [Result(tree, "full", accumulate)], [out])
    return [*calls, *after]


def _incoming(site: Site, node: Node, affine: Affine, calls: list[Call]) -> Formula | None:
    """The gradient that comes in; None if it does not lie as the data do."""
    formula = site.passing.formulas.pop(node, None)
    if formula is not None:
        return formula
    array = site.gradients[node]
    if affine.channels_last:
        assert site.images is not None
        array = site.images.gradient(site, node, calls)
    return Formula(symbol("g"), {"g": (array, "full")}) if array.flags.c_contiguous else None
