"""oneDNN's C interface: its objects, made and let go of, and the primitives of a process by what they do."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import attrs
from numpy.typing import NDArray

from cntk_engine_cpu.libraries import OneDnn

Array = NDArray[Any]

# Names and numbers of oneDNN's C interface, version 3.
_CPU, _IN_ORDER, _FLOAT32, _ANY = 1, 1, 3, 1
_UNDEFINED = 0
"""The type of what is added to is that of the result: named, reorders refuse it."""
TRAINING, DIRECT, _RELU = 64, 1, 0x20
_USER_SCRATCHPAD = 1
_IMPLEMENTATION = 8
MAX, AVERAGE_ALL, AVERAGE_INSIDE = 0x1FF, 0x2FF, 0x3FF
SRC, DST, WEIGHTS, BIAS, WORKSPACE, SCRATCHPAD = 1, 17, 33, 41, 64, 80
DIFF_SRC, DIFF_DST, DIFF_WEIGHTS = 129, 145, 161
QUERIES = {
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


@attrs.frozen(eq=False)
class Primitive:
    """A compiled primitive with the formats that it wants its arguments in, for a number of threads."""

    handle: Any
    descriptor: Any
    implementation: str
    threads: int


class Objects:
    """Makes the library's objects. One for a process: primitives are kept by what they do.

    Args:
        onednn: the library.

    Raises:
        PrimitiveError: the library does not work here.
    """

    def __init__(self, onednn: OneDnn) -> None:
        self.ffi = onednn.ffi
        self.library: Any = onednn.library
        self.engine = self.create("dnnl_engine_create", _CPU, 0)
        self._onednn = onednn
        self._made: dict[Any, Primitive] = {}

    def stream(self) -> Any:
        """Return a stream, on which primitives run in the order of the calls."""
        return self.create("dnnl_stream_create", self.engine, _IN_ORDER)

    def create(self, function: str, *arguments: Any) -> Any:
        """Return a new object of the library, which goes when nobody holds it any more.

        Raises:
            PrimitiveError: the library refuses.
        """
        made = self.ffi.new("void **")
        self._check(function, made, *arguments)
        destroy = next((name for kind, name in _DESTROYED_BY.items() if kind in function), None)
        return made[0] if destroy is None else self.ffi.gc(made[0], getattr(self.library, destroy))

    def _check(self, function: str, *arguments: Any) -> None:
        status = getattr(self.library, function)(*arguments)
        if status:
            raise PrimitiveError(f"{function} gave status {status}")

    def primitive(
        self, key: tuple[Any, ...], threads: int, describe: Callable[[], Any], passed_over: Collection[str] = ()
    ) -> Primitive:
        """Return the primitive for a key, made by a descriptor when it is wanted for the first time.

        ``passed_over`` names implementations whose next one is better, if it uses vectors as long.

        Raises:
            PrimitiveError: the library has none, or only its slow reference.
        """
        found = self._made.get((threads, *key))
        if found is None:
            # A primitive divides its work for the number of threads at the time when it is made.
            self._onednn.set_threads(threads)
            descriptor = self.chosen(describe, passed_over)
            name = self.implementation(descriptor)
            if name.startswith("ref"):
                raise PrimitiveError(f"oneDNN would compute {key[0]} with {name}")
            found = Primitive(self.create("dnnl_primitive_create", descriptor), descriptor, name, threads)
            self._made[threads, *key] = found
        return found

    def chosen(self, describe: Callable[[], Any], passed_over: Collection[str]) -> Any:
        """Return a descriptor whose implementation is not passed over, if the next one uses vectors as long."""
        descriptor = describe()
        if self.implementation(descriptor) not in passed_over:
            return descriptor
        # The library goes through a descriptor's implementations in place.
        moved = self.library.dnnl_primitive_desc_next_impl(descriptor) == 0
        return descriptor if moved and "avx512" in self.implementation(descriptor) else describe()

    def implementation(self, descriptor: Any) -> str:
        """Return the name of the implementation that the library has chosen."""
        result = self.ffi.new("char **")
        self.library.dnnl_primitive_desc_query(descriptor, _IMPLEMENTATION, 0, result)
        return str(self.ffi.string(result[0]).decode())

    def attributes(self, *, relu: bool = False, sum_up: bool = False) -> Any:
        """Return what a primitive does beside its work: ReLU on the result, or adding it to what is there."""
        attributes = self.create("dnnl_primitive_attr_create")
        self._check("dnnl_primitive_attr_set_scratchpad_mode", attributes, _USER_SCRATCHPAD)
        if relu or sum_up:
            after = self.create("dnnl_post_ops_create")
            if relu:
                self._check("dnnl_post_ops_append_eltwise", after, _RELU, 0.0, 0.0)
            if sum_up:
                self._check("dnnl_post_ops_append_sum", after, 1.0, 0, _UNDEFINED)
            self._check("dnnl_primitive_attr_set_post_ops", attributes, after)
        return attributes

    def describe(self, form: Form) -> Any:
        """Return the description of an array."""
        rank = len(form.dims)
        return self.create("dnnl_memory_desc_create_with_strides", rank, form.dims, _FLOAT32, form.strides)

    def describe_any(self, dims: tuple[int, ...]) -> Any:
        """Return the description of an array whose order of axes the primitive chooses."""
        return self.create("dnnl_memory_desc_create_with_tag", len(dims), dims, _FLOAT32, _ANY)

    def wanted(self, primitive: Primitive, argument: int) -> Any:
        """Return the description of an argument as the primitive wants it."""
        return self.library.dnnl_primitive_desc_query_md(primitive.descriptor, QUERIES[argument], 0)

    def size(self, desc: Any) -> int:
        """Return the bytes of what is described."""
        return int(self.library.dnnl_memory_desc_get_size(desc))

    def same(self, first: Any, second: Any) -> bool:
        """Whether two descriptions are equal."""
        return bool(self.library.dnnl_memory_desc_equal(first, second))


@cache
def objects_of(onednn: OneDnn) -> Objects:
    """Return the objects of a library, the same for all programs of a process."""
    return Objects(onednn)
