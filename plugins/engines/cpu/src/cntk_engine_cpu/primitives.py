"""oneDNN's primitives: convolution, pooling and reordering of arrays, made once for each shape.

Arrays are described by their logical dimensions ``(samples, channels, *space)`` and the elements from one place to the
next along each of them, so that any order of axes in memory can be told. Weights are ``(maps, channels, *kernel)``; a
convolution reads them in an order of its own choice (``any``), into which they are brought at every call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_engine_cpu.inputs import Ports, address_of
from cntk_engine_cpu.libraries import OneDnn

Array = NDArray[Any]
Run = Callable[[], None]

_DECLARATIONS = """
typedef struct { int arg; void *memory; } dnnl_exec_arg_t;
int dnnl_engine_create(void **engine, int kind, size_t index);
int dnnl_stream_destroy(void *stream);
int dnnl_stream_create(void **stream, void *engine, unsigned flags);
int dnnl_memory_desc_create_with_strides(void **desc, int rank, const int64_t *dims, int type, const int64_t *strides);
int dnnl_memory_desc_create_with_tag(void **desc, int rank, const int64_t *dims, int type, int tag);
size_t dnnl_memory_desc_get_size(void *desc);
int dnnl_memory_desc_equal(void *first, void *second);
int dnnl_memory_create(void **memory, void *desc, void *engine, uintptr_t handle);
int dnnl_memory_set_data_handle(void *memory, uintptr_t handle);
int dnnl_primitive_attr_create(void **attr);
int dnnl_primitive_attr_set_scratchpad_mode(void *attr, int mode);
int dnnl_primitive_attr_set_post_ops(void *attr, void *post_ops);
int dnnl_post_ops_create(void **post_ops);
int dnnl_post_ops_append_eltwise(void *post_ops, int algorithm, float alpha, float beta);
int dnnl_post_ops_append_sum(void *post_ops, float scale, int32_t zero_point, int type);
int dnnl_convolution_forward_primitive_desc_create(void **pd, void *engine, int kind, int algorithm, void *src,
    void *weights, void *bias, void *dst, const int64_t *strides, const int64_t *dilates, const int64_t *lower,
    const int64_t *upper, void *attr);
int dnnl_convolution_backward_data_primitive_desc_create(void **pd, void *engine, int algorithm, void *src,
    void *weights, void *dst, const int64_t *strides, const int64_t *dilates, const int64_t *lower,
    const int64_t *upper, void *hint, void *attr);
int dnnl_convolution_backward_weights_primitive_desc_create(void **pd, void *engine, int algorithm, void *src,
    void *weights, void *bias, void *dst, const int64_t *strides, const int64_t *dilates, const int64_t *lower,
    const int64_t *upper, void *hint, void *attr);
int dnnl_pooling_forward_primitive_desc_create(void **pd, void *engine, int kind, int algorithm, void *src, void *dst,
    const int64_t *strides, const int64_t *kernel, const int64_t *dilates, const int64_t *lower, const int64_t *upper,
    void *attr);
int dnnl_pooling_backward_primitive_desc_create(void **pd, void *engine, int algorithm, void *src, void *dst,
    const int64_t *strides, const int64_t *kernel, const int64_t *dilates, const int64_t *lower, const int64_t *upper,
    void *hint, void *attr);
int dnnl_reorder_primitive_desc_create(void **pd, void *src, void *src_engine, void *dst, void *dst_engine, void *attr);
int dnnl_primitive_create(void **primitive, void *pd);
int dnnl_memory_desc_destroy(void *desc);
int dnnl_memory_destroy(void *memory);
int dnnl_primitive_attr_destroy(void *attr);
int dnnl_post_ops_destroy(void *post_ops);
int dnnl_primitive_desc_destroy(void *pd);
int dnnl_primitive_destroy(void *primitive);
int dnnl_primitive_execute(void *primitive, void *stream, int count, const dnnl_exec_arg_t *arguments);
int dnnl_primitive_desc_query(void *pd, int what, int index, void *result);
void *dnnl_primitive_desc_query_md(void *pd, int what, int index);
"""

# Names and numbers of oneDNN's C interface, version 3.
_CPU, _IN_ORDER, _FLOAT32, _ANY = 1, 1, 3, 1
_TRAINING, _DIRECT, _RELU = 64, 1, 0x20
_USER_SCRATCHPAD = 1
_IMPLEMENTATION = 8
_MAX, _AVERAGE_ALL, _AVERAGE_INSIDE = 0x1FF, 0x2FF, 0x3FF
SRC, DST, WEIGHTS, BIAS, WORKSPACE, SCRATCHPAD = 1, 17, 33, 41, 64, 80
DIFF_SRC, DIFF_DST, DIFF_WEIGHTS = 129, 145, 161
_QUERIES = {
    SRC: 129,
    DIFF_SRC: 130,
    WEIGHTS: 131,
    DIFF_WEIGHTS: 132,
    DST: 133,
    DIFF_DST: 134,
    WORKSPACE: 135,
    SCRATCHPAD: 136,
}


_DESTROYED_BY = {
    "_primitive_desc_create": "dnnl_primitive_desc_destroy",
    "_memory_desc_create": "dnnl_memory_desc_destroy",
    "dnnl_memory_create": "dnnl_memory_destroy",
    "dnnl_stream_create": "dnnl_stream_destroy",
    "_attr_create": "dnnl_primitive_attr_destroy",
    "_post_ops_create": "dnnl_post_ops_destroy",
    "dnnl_primitive_create": "dnnl_primitive_destroy",
}
"""By what is in the name of the function that makes an object."""


class PrimitiveError(Exception):
    """oneDNN has no fast implementation for a shape; the caller takes another way."""


@attrs.frozen
class Form:
    """Dimensions of an array, and the elements from one place to the next along each."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, array: Array) -> Form:
        """The form of an array as it lies in memory."""
        return cls(array.shape, tuple(stride // array.itemsize for stride in array.strides))

    @classmethod
    def channels_last(cls, array: Array) -> Form:
        """The form of ``(samples, channels, *space)`` that lies channels last; axes of length 1 like any other."""
        _, channels, *space = array.shape
        strides = [channels]
        for size in reversed(space[1:]):
            strides.insert(0, strides[0] * size)
        return cls(array.shape, (strides[0] * space[0], 1, *strides))


@attrs.frozen
class Windows:
    """A convolution's or pooling's geometry along the spatial axes."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]


@attrs.frozen
class ConvolutionShape:
    """A convolution: forms of its input, output and weights (as stored), and its windows."""

    src: Form
    dst: Form
    weights: Form
    windows: Windows


@attrs.frozen(eq=False)
class Primitive:
    """A compiled primitive with the formats that it wants its arguments in."""

    handle: Any
    descriptor: Any
    implementation: str


@attrs.frozen(eq=False)
class _Shared:
    """What all programs of a process share: the library, its engine, and the primitives by what they do."""

    ffi: Any
    library: Any
    engine: Any
    made: dict[Any, Primitive]


@cache
def _shared(onednn: OneDnn) -> _Shared:
    ffi = type(onednn.ffi)()
    ffi.cdef(_DECLARATIONS)
    library: Any = ffi.dlopen(str(onednn.path))
    engine = ffi.new("void **")
    if library.dnnl_engine_create(engine, _CPU, 0):
        raise PrimitiveError("oneDNN has no engine for this processor")
    return _Shared(ffi, library, engine[0], {})


class Primitives:
    """Makes primitives and binds them to the arrays of one program. Programs of several threads may run at once.

    Args:
        onednn: the library.
        threads: of every primitive.

    Raises:
        PrimitiveError: the library does not work here.
    """

    def __init__(self, onednn: OneDnn, threads: int) -> None:
        shared = _shared(onednn)
        self._onednn = onednn
        self._threads = threads
        self._ffi, self._library, self._engine, self._made = shared.ffi, shared.library, shared.engine, shared.made
        self._stream = self._create("dnnl_stream_create", self._engine, _IN_ORDER)
        self._scratchpad = np.empty(0, np.uint8)

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
        primitive = self._primitive(key, lambda: self._forward_descriptor(shape, bias=bias is not None, relu=relu))
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
            return self._create(
                "dnnl_convolution_backward_data_primitive_desc_create",
                self._engine,
                _DIRECT,
                *self._data_and_windows(shape),
                self._hint(shape),
                self._attributes(),
            )

        primitive = self._primitive(("data", shape), make)
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
            return self._create(
                "dnnl_convolution_backward_weights_primitive_desc_create",
                self._engine,
                _DIRECT,
                src_desc,
                weights_desc,
                self._ffi.NULL,
                dst_desc,
                *windows,
                self._hint(shape),
                self._attributes(),
            )

        primitive = self._primitive(("weights", shape), make)
        wanted = self._wanted(primitive, DIFF_WEIGHTS)
        stored = self._describe(Form.of(diff_weights))
        if not accumulate and self._library.dnnl_memory_desc_equal(wanted, stored):
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
            kept = arguments[WORKSPACE] = self._storage(self._wanted(primitive, WORKSPACE))
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
            return self._create(
                "dnnl_pooling_backward_primitive_desc_create",
                self._engine,
                kind,
                *(self._describe(form) for form in forms),
                *self._pooling_windows(windows),
                self._pooling_forward(windows, *forms, kind).descriptor,
                self._attributes(),
            )

        primitive = self._primitive(("pooling gradient", windows, forms, kind), make)
        arguments = {DIFF_SRC: diff_src, DIFF_DST: diff_dst} | ({} if kept is None else {WORKSPACE: kept})
        return self._bind(primitive, arguments, ports)

    def _pooling_forward(self, windows: Windows, src: Form, dst: Form, kind: int) -> Primitive:
        def make() -> Any:
            return self._create(
                "dnnl_pooling_forward_primitive_desc_create",
                self._engine,
                _TRAINING,
                kind,
                self._describe(src),
                self._describe(dst),
                *self._pooling_windows(windows),
                self._attributes(),
            )

        return self._primitive(("pooling", windows, src, dst, kind), make)

    @staticmethod
    def _pooling_windows(windows: Windows) -> Sequence[Sequence[int]]:
        none = [0] * len(windows.kernel)
        return windows.strides, windows.kernel, none, windows.lower, windows.upper

    # Reordering

    def reorder(self, source: Array, target: Array, ports: Ports, *, accumulate: bool = False) -> Run:
        """Bind ``target = source`` (or ``+=``) for arrays of one shape in different orders."""
        forms = Form.of(source), Form.of(target)
        return self._reorder(
            self._describe(forms[0]), source, self._describe(forms[1]), target, ports, accumulate=accumulate
        )

    def _reorder(
        self, source_desc: Any, source: Array, target_desc: Any, target: Array, ports: Ports, *, accumulate: bool
    ) -> Run:
        attributes = self._attributes(sum_up=accumulate)
        descriptor = self._create(
            "dnnl_reorder_primitive_desc_create", source_desc, self._engine, target_desc, self._engine, attributes
        )
        primitive = Primitive(self._create("dnnl_primitive_create", descriptor), descriptor, "reorder")
        memory = {SRC: self._memory(source_desc, source, ports), DST: self._memory(target_desc, target, ports)}
        return self._execution(primitive, memory, (source, target))

    # Making

    def _forward_descriptor(self, shape: ConvolutionShape, *, bias: bool, relu: bool) -> Any:
        src, weights, dst, *windows = self._data_and_windows(shape)
        bias_desc = self._describe(Form((shape.dst.dims[1],), (1,))) if bias else self._ffi.NULL
        return self._create(
            "dnnl_convolution_forward_primitive_desc_create",
            self._engine,
            _TRAINING,
            _DIRECT,
            src,
            weights,
            bias_desc,
            dst,
            *windows,
            self._attributes(relu=relu),
        )

    def _hint(self, shape: ConvolutionShape) -> Any:
        key = ("forward", shape, False, False)
        return self._primitive(key, lambda: self._forward_descriptor(shape, bias=False, relu=False)).descriptor

    def _data_and_windows(self, shape: ConvolutionShape) -> list[Any]:
        """Input, weights, output; strides, dilation and padding."""
        dims = shape.weights.dims
        weights = self._create("dnnl_memory_desc_create_with_tag", len(dims), dims, _FLOAT32, _ANY)
        windows = shape.windows
        none = [0] * len(windows.kernel)
        data = [self._describe(shape.src), weights, self._describe(shape.dst)]
        return [*data, windows.strides, none, windows.lower, windows.upper]

    def _primitive(self, key: tuple[Any, ...], describe: Callable[[], Any]) -> Primitive:
        key = self._threads, *key
        found = self._made.get(key)
        if found is None:
            # A primitive divides its work for the number of threads at the time when it is made.
            self._onednn.set_threads(self._threads)
            descriptor = describe()
            name = self._implementation(descriptor)
            if name.startswith("ref"):
                raise PrimitiveError(f"oneDNN would compute {key[1]} with {name}")
            found = Primitive(self._create("dnnl_primitive_create", descriptor), descriptor, name)
            self._made[key] = found
        return found

    def _implementation(self, descriptor: Any) -> str:
        result = self._ffi.new("char **")
        self._library.dnnl_primitive_desc_query(descriptor, _IMPLEMENTATION, 0, result)
        return str(self._ffi.string(result[0]).decode())

    def _attributes(self, *, relu: bool = False, sum_up: bool = False) -> Any:
        attributes = self._create("dnnl_primitive_attr_create")
        self._check("dnnl_primitive_attr_set_scratchpad_mode", attributes, _USER_SCRATCHPAD)
        if relu or sum_up:
            after = self._create("dnnl_post_ops_create")
            if relu:
                self._check("dnnl_post_ops_append_eltwise", after, _RELU, 0.0, 0.0)
            if sum_up:
                self._check("dnnl_post_ops_append_sum", after, 1.0, 0, _FLOAT32)
            self._check("dnnl_primitive_attr_set_post_ops", attributes, after)
        return attributes

    def _describe(self, form: Form) -> Any:
        rank = len(form.dims)
        return self._create("dnnl_memory_desc_create_with_strides", rank, form.dims, _FLOAT32, form.strides)

    def _create(self, function: str, *arguments: Any) -> Any:
        """Return a new object of the library, which goes when nobody holds it any more."""
        made = self._ffi.new("void **")
        self._check(function, made, *arguments)
        destroy = next((name for kind, name in _DESTROYED_BY.items() if kind in function), None)
        return made[0] if destroy is None else self._ffi.gc(made[0], getattr(self._library, destroy))

    def _check(self, function: str, *arguments: Any) -> None:
        status = getattr(self._library, function)(*arguments)
        if status:
            raise PrimitiveError(f"{function} gave status {status}")

    # Binding

    def _wanted(self, primitive: Primitive, argument: int) -> Any:
        return self._library.dnnl_primitive_desc_query_md(primitive.descriptor, _QUERIES[argument], 0)

    def _storage(self, desc: Any) -> Array:
        size = self._library.dnnl_memory_desc_get_size(desc)
        raw = np.zeros(size + 64, np.uint8)
        skip = -address_of(raw) % 64
        return raw[skip : skip + size]

    def _own_weights(self, primitive: Primitive, argument: int, weights: Array) -> tuple[Array, Run | None]:
        """Weights in the order that a primitive wants, and what brings them there."""
        wanted = self._wanted(primitive, argument)
        stored = self._describe(Form.of(weights))
        if self._library.dnnl_memory_desc_equal(wanted, stored):
            return weights, None
        own = self._storage(wanted)
        return own, self._reorder(stored, weights, wanted, own, Ports({}), accumulate=False)

    def _memory(self, desc: Any, array: Array, ports: Ports) -> Any:
        memory = self._create("dnnl_memory_create", desc, self._engine, address_of(array))
        set_handle = self._library.dnnl_memory_set_data_handle
        ports.follow(array, lambda _array, address, offset: set_handle(memory, address + offset))
        return memory

    def _bind(
        self,
        primitive: Primitive,
        arguments: Mapping[int, Array],
        ports: Ports,
        *,
        before: Run | None = None,
        after: Run | None = None,
    ) -> Run:
        memory = {}
        for argument, array in arguments.items():
            known = argument in _QUERIES
            desc = self._wanted(primitive, argument) if known else self._describe(Form.of(array))
            memory[argument] = self._memory(desc, array, ports)
        desc = self._wanted(primitive, SCRATCHPAD)
        size = self._library.dnnl_memory_desc_get_size(desc)
        if size > self._scratchpad.nbytes:
            self._scratchpad = np.empty(size + 64, np.uint8)
        if size:
            memory[SCRATCHPAD] = self._memory(desc, self._scratchpad, Ports({}))
        run = self._execution(primitive, memory, (*arguments.values(), self._scratchpad))
        if before is None and after is None:
            return run
        parts = [part for part in (before, run, after) if part is not None]

        def whole() -> None:
            for part in parts:
                part()

        return whole

    def _execution(self, primitive: Primitive, memory: Mapping[int, Any], keep: tuple[Any, ...]) -> Run:
        count = len(memory)
        arguments = self._ffi.new(
            "dnnl_exec_arg_t[]", [{"arg": argument, "memory": each} for argument, each in memory.items()]
        )
        execute, set_threads = self._library.dnnl_primitive_execute, self._onednn.set_threads
        handle, stream, threads = primitive.handle, self._stream, self._threads

        def run(_keep: Any = (keep, memory, primitive)) -> None:
            set_threads(threads)
            execute(handle, stream, count, arguments)

        return run


def _kind(average: bool, include_pad: bool) -> int:
    if not average:
        return _MAX
    return _AVERAGE_ALL if include_pad else _AVERAGE_INSIDE
