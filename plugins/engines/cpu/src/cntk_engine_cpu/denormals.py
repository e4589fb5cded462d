"""Numbers too small for a full mantissa (denormals) count as zero while a program computes in single precision.

A processor takes a hundred times as long for an operation with a denormal, and the gradients and slots of a network
that has converged or saturated are full of them. JAX and GPUs flush them, too. The mode is a few bits of the thread's
floating-point environment, which the C library reads and sets (C99, ``fegetenv`` and ``fesetenv``), so that no compiler
is needed.

The environment is laid out as the C library likes (``fenv_t``). Setting it is therefore tried out before it is
believed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import platform
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, cast

import attrs
import numpy as np

from cntk_engine_cpu.blas_workers import BlasWorkers, scipy_openblas

Environment = ctypes.Array[ctypes.c_uint32]
"""An ``fenv_t`` as 32-bit words, with room to spare: none is longer than 64 bytes."""

_Environment = ctypes.c_uint32 * 16

_X86 = 0x8040
"""Bits of MXCSR: results are flushed to zero (15), operands that are denormal count as zero (6)."""

_ARM = 1 << 24
"""Bit of FPCR: both."""

_PLACES = {
    ("linux", "x86_64"): (7, _X86),  # glibc and musl: 28 bytes of the x87 unit, then MXCSR
    ("linux", "aarch64"): (0, _ARM),  # FPCR, FPSR
    ("darwin", "x86_64"): (1, _X86),  # control and status of the x87 unit, then MXCSR
    ("darwin", "arm64"): (2, _ARM),  # FPSR, FPCR, of 64 bits each
}
"""By system and machine: the word of the environment, and its bits that flush denormals."""


@attrs.frozen(eq=False)
class FloatControl:
    """Reads and sets the calling thread's floating-point environment.

    Attributes:
        get, set: ``fegetenv`` and ``fesetenv``; they take the environment's address.
        word, bits: which word holds the mode, and its bits that flush.
    """

    get: Any
    set: Any
    word: int
    bits: int

    def current(self) -> Environment:
        """Return the calling thread's environment."""
        found = _Environment()
        self.get(ctypes.addressof(found))
        return found

    def changed(self, environment: Environment, *, flush: bool) -> Environment:
        """Return an environment like another one, but for the mode."""
        made = _Environment.from_buffer_copy(environment)
        made[self.word] = made[self.word] | self.bits if flush else made[self.word] & ~self.bits
        return made

    def enter(self, *, flush: bool) -> Environment:
        """Set the calling thread's mode; return its environment as it was, for :meth:`leave`."""
        before = self.current()
        wanted = self.changed(before, flush=flush)  # has to live until it is set: its address alone keeps nothing
        self.set(ctypes.addressof(wanted))
        return before

    def leave(self, before: Environment) -> None:
        """Give the calling thread back the environment that it had."""
        self.set(ctypes.addressof(before))


@functools.cache
def float_control() -> FloatControl | None:
    """Return the control of this machine's mode; None where there is none, or where it does not do what it should."""
    place = _PLACES.get((sys.platform, platform.machine().lower()))
    if place is None:
        return None
    try:
        library = ctypes.PyDLL(None)
        get, set_ = library.fegetenv, library.fesetenv
    except (OSError, AttributeError):
        return None
    for function in (get, set_):
        function.argtypes = (ctypes.c_void_p,)
    found = FloatControl(get, set_, *place)
    for dtype in (np.float32, np.float64):
        np.finfo(dtype)  # NumPy remembers what it finds, and would warn if it first looked while denormals are flushed
    return found if works(found) else None


def works(control: FloatControl) -> bool:
    """Try a control out: denormals as operands and as results, with the mode set, and afterwards again."""
    before = control.enter(flush=True)
    try:
        flushed = _small_numbers()
    finally:
        control.leave(before)
    return not any(flushed) and all(_small_numbers())


def _small_numbers() -> list[float]:
    """A denormal result of normal operands, and one of a denormal operand; powers of two, so that both are exact."""
    operands = np.array([2.0**-126, 1.0], np.float32)
    operands.view(np.uint32)[1] = 1 << 10
    return [float(operands[0] * np.float32(0.5)) * 2.0**100, float(operands[1] * np.float32(2.0**60))]


class FloatMode(Protocol):
    """How a program's threads treat denormals."""

    def enter(self) -> Environment | None:
        """Begin to compute; return what :meth:`leave` wants."""

    def leave(self, before: Environment | None) -> None:
        """End what ``enter`` has begun, on the same thread."""


class AsItIs:
    """The thread's mode stays: for double precision, and where the mode cannot be set."""

    def enter(self) -> Environment | None:
        """Do nothing."""
        return None

    def leave(self, before: Environment | None) -> None:
        """Do nothing."""


class Workers:
    """The threads that OpenMP keeps for each thread that calls it: they compute oneDNN's products.

    A worker has the mode that its caller had when it was made. So they are told when they should have another, which
    takes too long for every step.

    Args:
        control: of the mode.
        openmp: the library, None if nothing calls it.
    """

    def __init__(self, control: FloatControl, openmp: Any) -> None:
        self._control = control
        self._openmp = openmp
        self._told = threading.local()

    def follow(self, environment: Environment, threads: int, *, flush: bool) -> None:
        """Let the calling thread's workers have an environment that flushes or not, unless they were told so before."""
        told = self._told
        known = getattr(told, "threads", 0)
        as_told = getattr(told, "flush", False) is flush and (threads <= known or not known)
        if as_told or self._openmp is None:
            return
        told.threads, told.flush = max(threads, known), flush
        # The function of a parallel region is called as fesetenv is: with one pointer.
        self._openmp.GOMP_parallel(self._control.set, ctypes.addressof(environment), told.threads, 0)


@functools.cache
def openmp_workers() -> Workers | None:
    """Return the workers of this process; None where the mode cannot be set."""
    control = float_control()
    if control is None:
        return None
    try:
        openmp: Any = ctypes.CDLL("libgomp.so.1")
        openmp.GOMP_parallel.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    except (OSError, AttributeError):
        openmp = None
    return Workers(control, openmp)


class SetMode:
    """Denormals are flushed, or not, in the calling thread and in its workers.

    Args:
        control: of the mode.
        workers: told as well, if several threads compute products.
        threads: of products.
        flush: what is wanted. The calling thread's own mode stays where it is not to flush.
    """

    def __init__(self, control: FloatControl, workers: Workers | None, threads: int, *, flush: bool) -> None:
        self._control = control
        self._workers = workers if threads > 1 else None
        self._threads = threads
        self._flush = flush
        self._known: tuple[bytes, Environment] | None = None

    def enter(self) -> Environment | None:
        """Set the mode."""
        control = self._control
        before = control.current()
        wanted = self._flushing(before) if self._flush else before
        if self._workers is not None:
            self._workers.follow(wanted, self._threads, flush=self._flush)
        if self._flush:
            control.set(ctypes.addressof(wanted))
        return before

    def _flushing(self, before: Environment) -> Environment:
        """Return an environment like another one that flushes: mostly that of the last time, which nobody changes."""
        given, known = bytes(before), self._known
        if known is None or known[0] != given:
            known = self._known = given, self._control.changed(before, flush=True)
        return known[1]

    def leave(self, before: Environment | None) -> None:
        """Give the thread its mode back."""
        if before is not None and self._flush:
            self._control.leave(before)


def mode_for(dtype: np.dtype[Any], threads: int, *, flush: bool, openmp: bool) -> FloatMode:
    """Return the mode of a program.

    Args:
        dtype: its precision; double precision keeps its denormals.
        threads: of its products.
        flush: what the recipe asks for.
        openmp: whether OpenMP's threads compute them.
    """
    control = float_control()
    if control is None:
        return AsItIs()
    single = bool(dtype == np.float32)
    if threads > 1 and not (single and openmp):
        _tell_blas(control, flush=single and flush)
    return SetMode(control, openmp_workers() if openmp else None, threads, flush=flush) if single else AsItIs()


@functools.cache
def _blas_workers() -> BlasWorkers:
    return BlasWorkers(scipy_openblas())


def _tell_blas(control: FloatControl, *, flush: bool) -> None:
    """Have the threads that compute SciPy's products follow, where that can be done."""
    before = control.enter(flush=flush)
    try:
        _blas_workers().follow(flush=flush)
    finally:
        control.leave(before)


class _Computes(Protocol):
    floats: FloatMode


Method = TypeVar("Method", bound=Callable[..., Any])


def computing(method: Method) -> Method:
    """Decorate a method of a program: it runs in the program's mode (``floats``); the caller gets his own back."""

    def compute(self: _Computes, *arguments: Any, **named: Any) -> Any:
        floats = self.floats
        before = floats.enter()
        try:
            return method(self, *arguments, **named)
        finally:
            floats.leave(before)

    return cast("Method", functools.update_wrapper(compute, method))


@contextlib.contextmanager
def denormals_kept() -> Iterator[None]:
    """Let denormals be numbers meanwhile: for imports and compilers that run in the middle of a step."""
    control = float_control()
    if control is None:
        yield
        return
    before = control.enter(flush=False)
    try:
        yield
    finally:
        control.leave(before)
