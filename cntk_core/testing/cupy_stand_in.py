"""A stand-in for CuPy, for tests of plugins that use it where there is no GPU: see :func:`make_cupy`.

It has what these plugins use and nothing else, and it is strict where a GPU is: arrays do not mix with NumPy's, each
belongs to a device and is used on that, and what a stream was told to do is done later, by a thread, in order. Memory
of the processor is the memory of the devices; kernels run by :mod:`cntk_core.testing.cuda_shim`.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace, TracebackType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cntk_core.testing.cuda_shim import HostCuda, Order

Array = NDArray[Any]


class CudaError(RuntimeError):
    """What a GPU or its runtime would refuse."""


class OutOfMemoryError(MemoryError):
    """A device has no memory left."""


class Stream:
    """Does one thing after the other, in a thread of its own while there is something to do."""

    _numbers = itertools.count(1)
    by_pointer: ClassVar[dict[int, Stream]] = {}

    def __init__(self, null: bool = False, non_blocking: bool = False) -> None:
        self.ptr = 0 if null else next(self._numbers)
        self.by_pointer[self.ptr] = self
        self._works: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._is_running = False
        self._outer: list[Stream] = []

    def submit(self, work: Callable[[], None]) -> None:
        """Do something after all that was submitted before."""
        with self._lock:
            self._works.append(work)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="stream", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._works:
                    self._is_running = False
                    return
                work = self._works.popleft()
            work()

    def record(self, event: Event | None = None) -> Event:
        """Return an event that is done when everything submitted so far is."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """What comes next is done after the event."""
        reached = event.reached
        self.submit(lambda: _wait(reached))

    def synchronize(self) -> None:
        """Wait for everything that was submitted."""
        if self._is_running:
            _wait(self.record().reached)

    def __enter__(self) -> Stream:
        self._outer.append(current_stream())
        _here.stream = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _here.stream = self._outer.pop()


def _wait(reached: threading.Event) -> None:
    if not reached.wait(60.0):
        raise CudaError("a stream has been stuck for a minute")


class Event:
    """A place in a stream."""

    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self.reached = threading.Event()

    def record(self, stream: Stream | None = None) -> None:
        """Take place behind what was submitted to the stream."""
        self.reached = threading.Event()
        (stream or current_stream()).submit(self.reached.set)

    @property
    def done(self) -> bool:
        """Whether the stream has come here."""
        return self.reached.is_set()

    def synchronize(self) -> None:
        """Wait until it has."""
        _wait(self.reached)


class _Here(threading.local):
    device = 0
    stream: Stream | None = None


_here = _Here()
_NULL = Stream(null=True)


def current_stream() -> Stream:
    """The stream of this thread."""
    return _here.stream or _NULL


class DeviceArray:
    """An array on a device; what CuPy's has is written as NumPy has it."""

    __array_priority__ = 100

    def __init__(self, array: Array, device: int) -> None:
        self._array, self._device = array, device

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    def data(self) -> SimpleNamespace:
        """Its memory."""
        return SimpleNamespace(ptr=self._array.ctypes.data)

    @property
    def device(self) -> SimpleNamespace:
        """Where it lies."""
        return SimpleNamespace(id=self._device)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        shape, kind = self._array.shape, self._array.dtype.str
        return {"shape": shape, "typestr": kind, "data": (self._array.ctypes.data, False), "version": 3}

    def __getattr__(self, name: str) -> Any:
        if name in ("dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size"):
            return getattr(self._array, name)
        raise AttributeError(f"the stand-in for CuPy has no array.{name}")

    def __array__(self, *given: Any, **named: Any) -> Array:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __array_ufunc__(self, *given: Any, **named: Any) -> Any:
        raise TypeError("a function of NumPy was given an array of a device")

    def __len__(self) -> int:
        return len(self._array)

    def __bool__(self) -> bool:
        return bool(self._read())

    def _use(self) -> Array:
        """Use it on this thread: its device must be the current one."""
        if _here.device != self._device:
            raise CudaError(f"an array of device {self._device} is used on device {_here.device}")
        return self._array

    def _read(self) -> Array:
        """Use it when everything is done that this thread has begun."""
        current_stream().synchronize()
        return self._use()

    def _other(self, value: Any) -> Any:
        if isinstance(value, DeviceArray):
            return value._use()
        if isinstance(value, np.ndarray):
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        return value

    # -- what can be done with it -------------------------------------------------------------------------

    def get(self) -> Array:
        """Return a copy for the processor."""
        return np.array(self._read())

    def set(self, values: Array) -> None:
        """Overwrite it with an array of the processor."""
        if values.dtype != self._array.dtype or values.shape != self._array.shape:
            raise TypeError(f"{values.dtype}{values.shape} cannot be set to {self.dtype}{self.shape}")
        self._read()[...] = values

    def copy(self) -> DeviceArray:
        """Return a copy on the device."""
        source, found = self._use(), np.empty_like(self._array)
        _later(lambda: found.__setitem__(..., source))
        return DeviceArray(found, self._device)

    def reshape(self, *shape: Any) -> DeviceArray:
        """Return it in another shape."""
        return DeviceArray(self._array.reshape(*shape), self._device)

    def ravel(self) -> DeviceArray:
        """Return it with one axis."""
        return DeviceArray(self._array.ravel(), self._device)

    def view(self, dtype: Any) -> DeviceArray:
        """Return its bytes as another type."""
        return DeviceArray(self._array.view(dtype), self._device)

    def any(self) -> DeviceArray:
        """Whether any element is not zero."""
        return DeviceArray(np.array(self._read().any()), self._device)

    def __getitem__(self, index: Any) -> DeviceArray:
        return DeviceArray(self._array[index], self._device)

    def __setitem__(self, index: Any, value: Any) -> None:
        array, given = self._use(), self._other(value)
        _later(lambda: array.__setitem__(index, given))

    def __iadd__(self, value: Any) -> DeviceArray:
        array, given = self._use(), self._other(value)
        _later(lambda: array.__iadd__(given))
        return self


def _later(work: Callable[[], Any]) -> None:
    """Do something on the stream of this thread; on the default one, now."""
    stream = current_stream()
    if stream.ptr:
        stream.submit(work)
    else:
        work()


class RawModule:
    """Kernels from source.

    Attributes:
        order: in which the threads of a block take turns.
        prepared: programs that are compiled already, by their source; they have every kernel that is asked for.
    """

    order: Order = "forward"
    prepared: ClassVar[dict[str, HostCuda]] = {}

    def __init__(self, *, code: str, options: Sequence[str] = (), name_expressions: Sequence[str] = ()) -> None:
        if "--fmad=false" not in options:
            raise CudaError("the shim rounds products and sums one by one; a GPU does with --fmad=false alone")
        self._program = self.prepared.get(code) or HostCuda(code, name_expressions)

    def get_function(self, name: str) -> Callable[..., None]:
        """Return a kernel that can be launched."""

        def launch(grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared_mem: int = 0) -> None:
            given = [one._read() if isinstance(one, DeviceArray) else one for one in args]
            if not all(isinstance(one, np.ndarray | np.generic) for one in given):
                raise CudaError("kernels take arrays of a device and NumPy's scalars")
            self._program.launch(
                name, grid=grid, block=block, arguments=given, shared_bytes=shared_mem, order=type(self).order
            )

        return launch


class _Device:
    def __init__(self, number: int, count: int) -> None:
        if not 0 <= number < count:
            raise CudaError("cudaErrorInvalidDevice: invalid device ordinal")
        self.id = number
        self._outer: list[int] = []

    def __enter__(self) -> _Device:
        self._outer.append(_here.device)
        _here.device = self.id
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _here.device = self._outer.pop()

    def use(self) -> None:
        """Make it the device of this thread."""
        _here.device = self.id


class StandIn(ModuleType):
    """What ``import cupy`` gives in tests."""

    def __init__(self, **names: Any) -> None:
        super().__init__("cupy stand-in")
        vars(self).update(names)


def _memcpy(to: int, source: int, size: int, kind: int, stream: int) -> None:
    Stream.by_pointer[stream].submit(lambda: _move(to, source, size))


def _move(to: int, source: int, size: int) -> None:
    ctypes.memmove(to, source, size)


def make_cupy(devices: int = 8) -> StandIn:
    """Make a module for the place of ``cupy``: ``monkeypatch.setitem(sys.modules, "cupy", module)``.

    Args:
        devices: how many there are.
    """

    def make(array: Array) -> DeviceArray:
        current_stream().synchronize()
        return DeviceArray(array, _here.device)

    def asarray(value: Any) -> DeviceArray:
        return value if isinstance(value, DeviceArray) else make(np.array(value, order="C"))

    def empty(shape: Any, dtype: Any = float) -> DeviceArray:
        found = np.empty(shape, dtype)
        found.reshape(-1).view(np.uint8)[...] = 0xFF  # nobody takes it for zeros
        return make(found)

    runtime = SimpleNamespace(
        CUDARuntimeError=CudaError,
        getDeviceCount=lambda: devices,
        deviceGetPCIBusId=lambda number: f"0000:{number:02X}:00.0",
        memcpyAsync=_memcpy,
        memcpyHostToDevice=1,
        memcpyDeviceToHost=2,
        memcpyDeviceToDevice=3,
    )
    cuda = SimpleNamespace(
        Device=lambda number=None: _Device(_here.device if number is None else number, devices),
        Event=Event,
        Stream=Stream,
        alloc_pinned_memory=bytearray,
        get_current_stream=current_stream,
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        runtime=runtime,
    )
    return StandIn(
        RawModule=RawModule,
        asarray=asarray,
        cuda=cuda,
        empty=empty,
        ndarray=DeviceArray,
        zeros=lambda shape, dtype=float: make(np.zeros(shape, dtype)),
    )
