"""Binding oneDNN's primitives to the arrays of one program; reordering of arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_engine_cpu.gemm import THREADED_WORK
from cntk_engine_cpu.inputs import Ports, address_of
from cntk_engine_cpu.libraries import OneDnn
from cntk_engine_cpu.onednn_objects import DST, QUERIES, SCRATCHPAD, SRC, Form, Primitive, objects_of

Array = NDArray[Any]
Run = Callable[[], None]

MOVING = 16
"""Multiply-adds that take about as long as moving one number."""


class Binder:
    """Binds primitives to the arrays of one program. Programs of several threads may run at once.

    Args:
        onednn: the library.
        threads: of every primitive.

    Raises:
        PrimitiveError: the library does not work here.
    """

    def __init__(self, onednn: OneDnn, threads: int) -> None:
        self._objects = objects_of(onednn)
        self._onednn = onednn
        self._threads = threads
        self._stream = self._objects.stream()
        self._scratchpad = np.empty(0, np.uint8)

    # Reordering

    def reorder(self, source: Array, target: Array, ports: Ports, *, accumulate: bool = False) -> Run:
        """Bind ``target = source`` (or ``+=``) for arrays of one shape in different orders."""
        forms = Form.of(source), Form.of(target)
        return self._reorder(
            self._objects.describe(forms[0]),
            source,
            self._objects.describe(forms[1]),
            target,
            ports,
            accumulate=accumulate,
        )

    def _reorder(
        self, source_desc: Any, source: Array, target_desc: Any, target: Array, ports: Ports, *, accumulate: bool
    ) -> Run:
        threads = self._threads if MOVING * target.size >= THREADED_WORK else 1
        self._onednn.set_threads(threads)
        attributes = self._objects.attributes(sum_up=accumulate)
        descriptor = self._objects.create(
            "dnnl_reorder_primitive_desc_create",
            source_desc,
            self._objects.engine,
            target_desc,
            self._objects.engine,
            attributes,
        )
        primitive = Primitive(self._objects.create("dnnl_primitive_create", descriptor), descriptor, "reorder", threads)
        memory = {SRC: self._memory(source_desc, source, ports), DST: self._memory(target_desc, target, ports)}
        return self._execution(primitive, memory, (source, target))

    # Making and binding

    def _primitive(
        self, key: tuple[Any, ...], work: float, describe: Callable[[], Any], passed_over: Collection[str] = ()
    ) -> Primitive:
        # A second thread costs more than it saves where there is little to do.
        return self._objects.primitive(key, self._threads if work >= THREADED_WORK else 1, describe, passed_over)

    def _storage(self, desc: Any) -> Array:
        size = self._objects.size(desc)
        raw = np.zeros(size + 64, np.uint8)
        skip = -address_of(raw) % 64
        return raw[skip : skip + size]

    def _memory(self, desc: Any, array: Array, ports: Ports) -> Any:
        memory = self._objects.create("dnnl_memory_create", desc, self._objects.engine, address_of(array))
        set_handle = self._objects.library.dnnl_memory_set_data_handle
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
            known = argument in QUERIES
            desc = self._objects.wanted(primitive, argument) if known else self._objects.describe(Form.of(array))
            memory[argument] = self._memory(desc, array, ports)
        desc = self._objects.wanted(primitive, SCRATCHPAD)
        size = self._objects.size(desc)
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
        arguments = self._objects.ffi.new(
            "dnnl_exec_arg_t[]", [{"arg": argument, "memory": each} for argument, each in memory.items()]
        )
        execute, set_threads = self._objects.library.dnnl_primitive_execute, self._onednn.set_threads
        handle, stream, threads = primitive.handle, self._stream, primitive.threads

        def run(_keep: Any = (keep, memory, primitive)) -> None:
            set_threads(threads)
            execute(handle, stream, count, arguments)

        return run
