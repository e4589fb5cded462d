"""oneDNN's primitives: convolution and pooling, made once for each shape.

Arrays are described by their logical dimensions ``(samples, channels, *space)`` and the elements from one place to the
next along each of them, so that any order of axes in memory can be told. Weights are ``(maps, channels, *kernel)``; a
convolution reads them in an order of its own choice (``any``), into which they are brought at every call. Those in
groups are ``(groups, maps of each, channels of each, *kernel)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs

from cntk_engine_cpu.binder import MOVING, Array, Binder, Run
from cntk_engine_cpu.inputs import Ports
from cntk_engine_cpu.onednn_objects import (
    AVERAGE_ALL,
    AVERAGE_INSIDE,
    BIAS,
    DIFF_DST,
    DIFF_SRC,
    DIFF_WEIGHTS,
    DIRECT,
    DST,
    MAX,
    SRC,
    TRAINING,
    WEIGHTS,
    WORKSPACE,
    Form,
    Primitive,
)

SLOW_DATA_GRADIENTS = ("brgconv_strided:avx512_core", "brg_fwd:avx512_core+brgconv:avx512_core")
"""Implementations that the library prefers to faster ones: the first takes up to twice the time where there are few
channels, and about the same where there are many; the second takes 2 to 30 % more up to :data:`FEW_CHANNELS`."""

FEW_CHANNELS = 16
"""Channels in one vector."""


@attrs.frozen
class Windows:
    """A convolution's or pooling's geometry along the spatial axes; ``dilation`` is 1 where places stand together."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    dilation: tuple[int, ...] = attrs.field(
        default=attrs.Factory(lambda self: (1,) * len(self.kernel), takes_self=True)
    )

    @property
    def between(self) -> tuple[int, ...]:
        """Elements between two places of the kernel, which is what the library calls dilation."""
        return tuple(apart - 1 for apart in self.dilation)


@attrs.frozen
class ConvolutionShape:
    """A convolution: forms of its input, output and weights (as stored), and its windows.

    Weights in groups have the groups as first axis.
    """

    src: Form
    dst: Form
    weights: Form
    windows: Windows

    @property
    def work(self) -> float:
        """Multiply-adds."""
        return math.prod(self.weights.dims) * self.dst.dims[0] * math.prod(self.dst.dims[2:])


class Primitives(Binder):
    """Makes primitives of convolution and pooling, and binds them."""

    # Convolution

    def convolution_forward(
        self,
        shape: ConvolutionShape,
        src: Array,
        weights: Array,
        dst: Array,
        ports: Ports,
        *,
        bias: Array | None = None,
        relu: bool = False,
    ) -> Run:
        """Bind ``dst = conv(src, weights) [+ bias]``, with ReLU after it if asked for.

        Raises:
            PrimitiveError: there is no fast implementation.
        """
        key = ("forward", shape, bias is not None, relu)
        primitive = self._primitive(
            key, shape.work, lambda: self._forward_descriptor(shape, bias=bias is not None, relu=relu)
        )
        own, bring = self._own_weights(primitive, WEIGHTS, weights)
        arguments = {SRC: src, WEIGHTS: own, DST: dst} | ({} if bias is None else {BIAS: bias})
        return self._bind(primitive, arguments, ports, before=bring)

    def convolution_backward_data(
        self, shape: ConvolutionShape, diff_src: Array, weights: Array, diff_dst: Array, ports: Ports
    ) -> Run:
        """Bind ``diff_src = `` the gradient by the input.

        Raises:
            PrimitiveError: there is no fast implementation.
        """

        def make() -> Any:
            return self._objects.create(
                "dnnl_convolution_backward_data_primitive_desc_create",
                self._objects.engine,
                DIRECT,
                *self._data_and_windows(shape),
                self._hint(shape),
                self._objects.attributes(),
            )

        passed_over = SLOW_DATA_GRADIENTS if shape.src.dims[1] <= FEW_CHANNELS else SLOW_DATA_GRADIENTS[:1]
        primitive = self._primitive(("data", shape), shape.work, make, passed_over)
        own, bring = self._own_weights(primitive, WEIGHTS, weights)
        arguments = {DIFF_SRC: diff_src, WEIGHTS: own, DIFF_DST: diff_dst}
        return self._bind(primitive, arguments, ports, before=bring)

    def convolution_backward_weights(
        self,
        shape: ConvolutionShape,
        src: Array,
        diff_weights: Array,
        diff_dst: Array,
        ports: Ports,
        *,
        accumulate: bool = False,
    ) -> Run:
        """Bind ``diff_weights = `` (or ``+=``) the gradient by the weights.

        Raises:
            PrimitiveError: there is no fast implementation.
        """

        def make() -> Any:
            src_desc, weights_desc, dst_desc, *windows = self._data_and_windows(shape)
            return self._objects.create(
                "dnnl_convolution_backward_weights_primitive_desc_create",
                self._objects.engine,
                DIRECT,
                src_desc,
                weights_desc,
                self._objects.ffi.NULL,
                dst_desc,
                *windows,
                self._hint(shape),
                self._objects.attributes(),
            )

        primitive = self._primitive(("weights", shape), shape.work, make)
        wanted = self._objects.wanted(primitive, DIFF_WEIGHTS)
        stored = self._objects.describe(Form.of(diff_weights))
        if not accumulate and self._objects.same(wanted, stored):
            return self._bind(primitive, {SRC: src, DIFF_WEIGHTS: diff_weights, DIFF_DST: diff_dst}, ports)
        own = self._storage(wanted)
        give = self._reorder(wanted, own, stored, diff_weights, Ports({}), accumulate=accumulate)
        return self._bind(primitive, {SRC: src, DIFF_WEIGHTS: own, DIFF_DST: diff_dst}, ports, after=give)

    # Pooling

    def pooling(
        self, windows: Windows, src: Array, dst: Array, ports: Ports, *, average: bool, include_pad: bool
    ) -> tuple[Run, Array | None]:
        """Bind a pooling; also return what max pooling keeps for its gradient.

        Raises:
            PrimitiveError: there is no fast implementation.
        """
        primitive = self._pooling_forward(
            windows, Form.channels_last(src), Form.channels_last(dst), _kind(average, include_pad)
        )
        arguments = {SRC: src, DST: dst}
        kept = None
        if not average:
            kept = arguments[WORKSPACE] = self._storage(self._objects.wanted(primitive, WORKSPACE))
        return self._bind(primitive, arguments, ports), kept

    def pooling_backward(
        self,
        windows: Windows,
        diff_src: Array,
        diff_dst: Array,
        kept: Array | None,
        ports: Ports,
        *,
        average: bool,
        include_pad: bool,
    ) -> Run:
        """Bind the gradient of a pooling.

        Raises:
            PrimitiveError: there is no fast implementation.
        """
        kind = _kind(average, include_pad)
        forms = Form.channels_last(diff_src), Form.channels_last(diff_dst)

        def make() -> Any:
            return self._objects.create(
                "dnnl_pooling_backward_primitive_desc_create",
                self._objects.engine,
                kind,
                *(self._objects.describe(form) for form in forms),
                *self._pooling_windows(windows),
                self._pooling_forward(windows, *forms, kind).descriptor,
                self._objects.attributes(),
            )

        primitive = self._primitive(("pooling gradient", windows, forms, kind), _moved(forms[0]), make)
        arguments = {DIFF_SRC: diff_src, DIFF_DST: diff_dst} | ({} if kept is None else {WORKSPACE: kept})
        return self._bind(primitive, arguments, ports)

    def _pooling_forward(self, windows: Windows, src: Form, dst: Form, kind: int) -> Primitive:
        def make() -> Any:
            return self._objects.create(
                "dnnl_pooling_forward_primitive_desc_create",
                self._objects.engine,
                TRAINING,
                kind,
                self._objects.describe(src),
                self._objects.describe(dst),
                *self._pooling_windows(windows),
                self._objects.attributes(),
            )

        return self._primitive(("pooling", windows, src, dst, kind), _moved(src), make)

    @staticmethod
    def _pooling_windows(windows: Windows) -> Sequence[Sequence[int]]:
        return windows.strides, windows.kernel, windows.between, windows.lower, windows.upper

    # Making

    def _forward_descriptor(self, shape: ConvolutionShape, *, bias: bool, relu: bool) -> Any:
        src, weights, dst, *windows = self._data_and_windows(shape)
        bias_desc = self._objects.describe(Form((shape.dst.dims[1],), (1,))) if bias else self._objects.ffi.NULL
        return self._objects.create(
            "dnnl_convolution_forward_primitive_desc_create",
            self._objects.engine,
            TRAINING,
            DIRECT,
            src,
            weights,
            bias_desc,
            dst,
            *windows,
            self._objects.attributes(relu=relu),
        )

    def _hint(self, shape: ConvolutionShape) -> Any:
        key = ("forward", shape, False, False)
        return self._primitive(
            key, shape.work, lambda: self._forward_descriptor(shape, bias=False, relu=False)
        ).descriptor

    def _data_and_windows(self, shape: ConvolutionShape) -> list[Any]:
        """Input, weights, output; strides, dilation and padding."""
        weights = self._objects.describe_any(shape.weights.dims)
        windows = shape.windows
        data = [self._objects.describe(shape.src), weights, self._objects.describe(shape.dst)]
        return [*data, windows.strides, windows.between, windows.lower, windows.upper]

    def _own_weights(self, primitive: Primitive, argument: int, weights: Array) -> tuple[Array, Run | None]:
        """Weights in the order that a primitive wants, and what brings them there."""
        wanted = self._objects.wanted(primitive, argument)
        stored = self._objects.describe(Form.of(weights))
        if self._objects.same(wanted, stored):
            return weights, None
        own = self._storage(wanted)
        return own, self._reorder(stored, weights, wanted, own, Ports({}), accumulate=False)


def _moved(form: Form) -> float:
    return MOVING * math.prod(form.dims)


def _kind(average: bool, include_pad: bool) -> int:
    if not average:
        return MAX
    return AVERAGE_ALL if include_pad else AVERAGE_INSIDE
