"""Binds Convolution, in both directions, to oneDNN's primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import numpy as np

from cntk_core.api import Node
from cntk_core.api.engines import GradientStep, Step, Target, TraceMath, convolution_geometry, is_legacy, symbol
from cntk_engine_cpu import elementwise
from cntk_engine_cpu.elementwise_gradient import adds_up
from cntk_engine_cpu.images import first_channels, last_channels
from cntk_engine_cpu.onednn_objects import Form, PrimitiveError
from cntk_engine_cpu.primitives import ConvolutionShape, Windows
from cntk_engine_cpu.site import Array, Call, Site

MOST_SPACE = 3
"""Spatial axes that the primitives take."""


@attrs.frozen
class ConvolutionForm:
    """A convolution as the primitives see it.

    Attributes:
        windows: along the spatial axes, in the order of memory.
        maps, channels: of the weights; of each group if there are several.
        groups: how many.
        transpose: input and output change places.
        legacy: images lie channels last already, and weights with their maps fastest.
    """

    windows: Windows
    maps: int
    channels: int
    groups: int
    transpose: bool
    legacy: bool

    def weights(self, value: Array) -> Array:
        """Weights as ``(maps, channels, *kernel)``, with the groups in front if there are several."""
        if not self.legacy:
            groups = (self.groups,) if self.groups > 1 else ()
            return value.reshape(*groups, self.maps, self.channels, *self.windows.kernel)
        return np.moveaxis(value.reshape(self.channels, *self.windows.kernel, self.maps), -1, 0)


def convolution_form(node: Node) -> ConvolutionForm | None:
    """Return the form of a node, None if the primitives cannot do it."""
    weights, data = node.inputs
    attributes = node.attributes
    if weights.framed or not data.framed or 0 in (*data.known_shape, *weights.known_shape):
        return None
    geometry = convolution_geometry(weights.known_shape, data.known_shape, attributes)
    legacy = is_legacy(attributes.image_layout)
    if legacy and attributes.transpose:
        return None
    order = slice(0, -1) if legacy else slice(-2, None, -1)
    fields = (geometry.kernel, geometry.stride, geometry.lower, geometry.upper, geometry.dilation)
    windows = Windows(*(tuple(of[order]) for of in fields))
    whole = geometry.counts[-1] == 1 and geometry.kernel[-1] == geometry.input[-1] and geometry.lower[-1] == 0
    plain_maps = all(count == 1 for count in geometry.maps[:-1])
    if not (whole and plain_maps and all(attributes.sharing) and takes(windows)):
        return None
    windows = attrs.evolve(windows, upper=tuple(max(0, pad) for pad in windows.upper))
    groups = attributes.groups
    maps, channels = geometry.maps[-1] // groups, geometry.kernel[-1] // groups
    return ConvolutionForm(windows, maps, channels, groups, attributes.transpose, legacy)


def writes_channels_last(node: Node) -> bool:
    """Whether the primitive of a node gives images that lie channels last."""
    form = convolution_form(node)
    return form is not None and not form.legacy


def takes(windows: Windows) -> bool:
    """Whether the primitives can place windows so: they cannot leave out the first elements."""
    return 0 < len(windows.kernel) <= MOST_SPACE and all(
        low >= 0 and high > -step for low, high, step in zip(windows.lower, windows.upper, windows.strides, strict=True)
    )


def _value(site: Site, form: ConvolutionForm, node: Node, calls: list[Call]) -> Array:
    """A value as ``(frames, channels, *space)`` whose channels lie last."""
    assert site.images is not None
    if form.legacy:
        plain = site.images.plain_value(site, node, calls)
        return legacy_view(plain)
    return first_channels(site.images.value(site, node, calls))


def legacy_view(array: Array) -> Array:
    """A legacy image: width, height and channels, whatever its shape says of the first two."""
    frames, height, width, channels = array.shape
    return first_channels(array.reshape(frames, width, height, channels))


def _gradient_in(site: Site, form: ConvolutionForm, node: Node, calls: list[Call]) -> Array:
    assert site.images is not None
    if form.legacy:
        return legacy_view(site.gradients[node])
    return first_channels(site.images.gradient(site, node, calls))


def bind_forward(site: Site, step: Step) -> list[Call] | None:
    """Return the calls that compute a convolution, None if there is no primitive for it."""
    (node,) = step.nodes
    form = _form_at(site, node)
    if form is None or site.images is None:
        return None
    weights, data = node.inputs
    calls: list[Call] = []
    after: list[Call] = []
    source = _value(site, form, data, calls)
    tail = None if form.legacy or form.transpose else _tail_of(site, step, source)
    if form.legacy:
        out = legacy_view(site.values[node])
    elif tail is not None:
        out = tail.out
    else:
        out = first_channels(site.images.value_out(site, node, after))
    try:
        run = _forward(site, form, source, form.weights(site.values[weights]), out, tail)
    except PrimitiveError:
        return None
    if tail is not None:
        site.absorbed.add(tail.step)
    return [*calls, Call(run), *after]


def _forward(
    site: Site, form: ConvolutionForm, source: Array, weights: Array, out: Array, tail: _Tail | None
) -> Callable[[], None]:
    assert site.images is not None
    primitives = site.images.primitives
    if form.transpose:
        shape = ConvolutionShape(Form.channels_last(out), Form.channels_last(source), Form.of(weights), form.windows)
        return primitives.convolution_backward_data(shape, out, weights, source, site.ports)
    shape = ConvolutionShape(Form.channels_last(source), Form.channels_last(out), Form.of(weights), form.windows)
    bias, relu = (tail.bias, tail.relu) if tail is not None else (None, False)
    return primitives.convolution_forward(shape, source, weights, out, site.ports, bias=bias, relu=relu)


@attrs.frozen(eq=False)
class _Tail:
    """What follows a convolution and is done with it: a bias for each map, ReLU, or both.

    Attributes:
        step: the element-wise step.
        out: its value, ``(frames, maps, *space)``.
        bias: ``(maps,)``, if there is one.
        relu: whether there is a ReLU.
    """

    step: Step
    out: Array
    bias: Array | None
    relu: bool


def _tail_of(site: Site, step: Step, source: Array) -> _Tail | None:
    """Find the tail of a convolution, if nobody else looks at its value and the tail's can be written already."""
    (node,) = step.nodes
    reader = site.only_reader(step)
    if reader is None or site.images is None or site.plan.steps.index(reader) != site.plan.steps.index(step) + 1:
        return None
    sums = [member.op.traits.sums for member in reader.nodes]
    relu = _rectifies(reader.nodes[-1])
    if sums not in ([True], [False], [True, False]) or relu is sums[-1] or len(reader.writes) > 1:
        return None
    biases = [read for read in reader.reads if read is not node]
    if len(biases) != sums.count(True):
        return None
    last = reader.nodes[-1]
    out = site.values[last]
    space = elementwise.space_of(site, reader)
    whole = last_channels(out).flags.c_contiguous and not np.may_share_memory(out, source)
    if not whole or space is None or any(space.kinds[bias] != "row" for bias in biases):
        return None
    if biases and (space.columns != out.shape[1] or not space.channels_last):
        return None
    return _Tail(reader, out, site.values[biases[0]].reshape(-1) if biases else None, relu)


_X = symbol("x")
_RECTIFIED = TraceMath().maximum(_X, 0.0)


def _rectifies(node: Node) -> bool:
    """Whether the value of a node is its input, or 0 where that is negative."""
    form = node.op.elementwise
    return form is not None and len(node.inputs) == 1 and form.forward(TraceMath(), node.attributes, _X) == _RECTIFIED


def bind_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls that compute the gradients of a convolution, None if there is no primitive for one."""
    (node,) = step.step.nodes
    form = _form_at(site, node)
    if form is None or site.images is None or node.inputs[0] is node.inputs[1]:
        return None
    calls: list[Call] = []
    incoming = _gradient_in(site, form, node, calls)
    try:
        for target in step.targets:
            if target.node is node.inputs[0]:
                calls.append(_weights_gradient(site, form, node, target, incoming))
            else:
                calls += _data_gradient(site, form, step, target, incoming)
    except PrimitiveError:
        for target in step.targets:
            site.passing.addends.pop(target.node, None)
        return None
    return calls


def _weights_gradient(site: Site, form: ConvolutionForm, node: Node, target: Target, incoming: Array) -> Call:
    assert site.images is not None
    calls: list[Call] = []
    data = _value(site, form, node.inputs[1], calls)
    assert not calls, "the forward part has made the copy"
    gradient = form.weights(site.gradients[target.node])
    source, result = (incoming, data) if form.transpose else (data, incoming)
    shape = ConvolutionShape(Form.channels_last(source), Form.channels_last(result), Form.of(gradient), form.windows)
    run = site.images.primitives.convolution_backward_weights(
        shape, source, gradient, result, site.ports, accumulate=target.accumulate
    )
    return Call(run)


def _data_gradient(
    site: Site, form: ConvolutionForm, step: GradientStep, target: Target, incoming: Array
) -> Sequence[Call]:
    assert site.images is not None
    (node,) = step.step.nodes
    after: list[Call] = []
    accumulate = target.accumulate
    if form.legacy:
        whole = site.gradients[target.node]
        if not whole.flags.c_contiguous:
            raise PrimitiveError("a legacy image lies channels first")
        out = legacy_view(whole)
    else:
        stored, accumulate = site.images.gradient_out(site, target.node, after, accumulate=accumulate)
        out = first_channels(stored)
    made = sum_into(site, step, target.node, out, after) if accumulate else out
    weights = form.weights(site.values[node.inputs[0]])
    primitives = site.images.primitives
    if form.transpose:
        shape = ConvolutionShape(Form.channels_last(incoming), Form.channels_last(made), Form.of(weights), form.windows)
        run = primitives.convolution_forward(shape, incoming, weights, made, site.ports)
    else:
        shape = ConvolutionShape(Form.channels_last(made), Form.channels_last(incoming), Form.of(weights), form.windows)
        run = primitives.convolution_backward_data(shape, made, weights, incoming, site.ports)
    return [Call(run), *after]


def sum_into(site: Site, step: GradientStep, node: Node, out: Array, after: list[Call]) -> Array:
    """Room for a gradient ``(frames, channels, *space)`` of a node, which is added to ``out`` when it is there.

    The next step does that, if it can.
    """
    lying = last_channels(out)
    made = site.workspace(out.size).reshape(lying.shape)
    if adds_up(site, site.next_gradient(step), node):
        site.passing.addends[node] = made
    else:
        after.insert(0, Call(np.add, (lying, made, lying)))
    return first_channels(made)


def _form_at(site: Site, node: Node) -> ConvolutionForm | None:
    """The form of a node at a site; without samples there is nothing to do for a primitive."""
    if site.images is None or not site.rows(node):
        return None
    return convolution_form(node)
