"""Binds Pooling, MaxPooling and AveragePooling to oneDNN's primitives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs

from cntk_core.api import Kernel, Node
from cntk_core.api.engines import GradientStep, Step, is_legacy, kernels, pooling_geometry
from cntk_engine_cpu.convolution import sum_into, takes
from cntk_engine_cpu.images import first_channels
from cntk_engine_cpu.onednn_objects import PrimitiveError
from cntk_engine_cpu.primitives import Windows
from cntk_engine_cpu.site import Call, Site


@attrs.frozen
class PoolingForm:
    """A pooling as the primitives see it.

    Attributes:
        windows: along the spatial axes, in the order of memory.
        average: the mean of a window, else the largest element.
        include_pad: padding counts in a mean.
    """

    windows: Windows
    average: bool
    include_pad: bool


FormOf = Callable[[Node], PoolingForm | None]
"""The form of a node, None if the primitives cannot do it."""


def _images_alone(form_of: FormOf) -> FormOf:
    def found(node: Node) -> PoolingForm | None:
        (data,) = node.inputs
        if not data.framed or 0 in data.known_shape or len(data.known_shape) < 2:
            return None
        return form_of(node)

    return found


def _general(node: Node) -> PoolingForm | None:
    attributes = node.attributes
    geometry = pooling_geometry(node.inputs[0].known_shape, attributes)
    order = slice(-2, None, -1)
    windows = Windows(*(tuple(of[order]) for of in (geometry.kernel, geometry.stride, geometry.lower, geometry.upper)))
    if geometry.kernel[-1] != 1 or geometry.counts[-1] != geometry.input[-1] or not takes(windows):
        return None
    windows = attrs.evolve(windows, upper=tuple(max(0, pad) for pad in windows.upper))
    pads = zip(windows.kernel, windows.lower, windows.upper, strict=True)
    if any(max(lower, upper) >= size for size, lower, upper in pads):
        return None  # a window that is padding alone
    return PoolingForm(windows, attributes.pool_kind.lower() == "average", attributes.include_pad)


def _image(node: Node, *, average: bool) -> PoolingForm | None:
    attributes = node.attributes
    if is_legacy(attributes.image_layout):
        return None  # its windows are no rectangles of an image
    kernel = (attributes.window_height, attributes.window_width)
    stride = (attributes.vertical_subsample, attributes.horizontal_subsample)
    return PoolingForm(Windows(kernel, stride, (0, 0), (0, 0)), average, include_pad=False)


def bind_forward(form_of: FormOf, site: Site, step: Step) -> list[Call] | None:
    """Return the calls that compute a pooling, None if there is no primitive for it."""
    (node,) = step.nodes
    images = site.images
    form = form_of(node) if images is not None and site.rows(node) else None
    if images is None or form is None:
        return None
    calls: list[Call] = []
    after: list[Call] = []
    data = node.inputs[0]
    source = first_channels(images.value(site, data, calls))
    out = first_channels(images.value_out(site, node, after))
    try:
        run, kept = images.primitives.pooling(
            form.windows, source, out, site.ports, average=form.average, include_pad=form.include_pad
        )
    except PrimitiveError:
        return None
    images.kept[node] = kept
    return [*calls, Call(run), *after]


def bind_gradient(form_of: FormOf, site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls that compute the gradient of a pooling whose forward part is a primitive."""
    (node,) = step.step.nodes
    images = site.images
    if images is None or node not in images.kept:
        return None
    form = form_of(node)
    assert form is not None
    (target,) = step.targets
    calls: list[Call] = []
    after: list[Call] = []
    incoming = first_channels(images.gradient(site, node, calls))
    stored, accumulate = images.gradient_out(site, target.node, after, accumulate=target.accumulate)
    out = first_channels(stored)
    made = sum_into(site, step, target.node, out, after) if accumulate else out
    try:
        run = images.primitives.pooling_backward(
            form.windows,
            made,
            incoming,
            images.kept[node],
            site.ports,
            average=form.average,
            include_pad=form.include_pad,
        )
    except PrimitiveError:
        site.passing.addends.pop(target.node, None)
        return None
    return [*calls, Call(run), *after]


def _kernels(name: str, form_of: FormOf) -> tuple[Kernel, ...]:
    form_of = _images_alone(form_of)

    def follows(node: Node) -> bool:
        return form_of(node) is not None

    forward, gradient = partial(bind_forward, form_of), partial(bind_gradient, form_of)
    return kernels("cpu", [name], forward, gradient, channels_last=True, follows=follows)


KERNELS = (
    *_kernels("Pooling", _general),
    *_kernels("MaxPooling", partial(_image, average=False)),
    *_kernels("AveragePooling", partial(_image, average=True)),
)
