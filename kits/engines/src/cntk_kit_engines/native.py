"""Functions of numbers and arrays, written in Python, that are compiled for this machine and kept on disk.

What numba does for such functions, but a kernel costs 20 ms instead of 150 to compile, and starts in one where it has
been compiled before. The language is small: see :mod:`cntk_kit_engines.native_functions`.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_kit_engines.machine_code import load_function
from cntk_kit_engines.native_types import DTYPES, Parameter, parse_signature

Block = NDArray[np.int64]

_COMPILER = ("native_expressions.py", "native_functions.py", "native_numbers.py", "native_types.py")
_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_size_t)


class Native:
    """A compiled function ``void f(const int64 *block)``, called with numbers and arrays.

    A block has 8 bytes for each number (integers as such, real ones in double precision), for each array its address
    and its sizes, and a last place for the result. The GIL is released during a call.

    Args:
        address: of the function.
        result: type of the result.
        parameters: its parameters.

    Attributes:
        places: where each argument begins in a block.
        size: places of a block.
    """

    def __init__(self, address: int, result: str, parameters: Sequence[Parameter]) -> None:
        self.address = address
        self.parameters = tuple(parameters)
        self.run: Callable[[int], None] = _TYPE(address)
        self._result = result
        self.places: list[int] = []
        size = 0
        for parameter in self.parameters:
            self.places.append(size)
            size += parameter.slots
        self.size = size + 1

    def block(self, *arguments: Any) -> Block:
        """Return a block of some arguments, which has to be kept, with the arrays, as long as it is used.

        Raises:
            TypeError: an argument has another type, or does not lie in one piece.
        """
        if len(arguments) != len(self.parameters):
            raise TypeError(f"{len(self.parameters)} arguments are needed, not {len(arguments)}")
        block = np.zeros(self.size, np.int64)
        for index, argument in enumerate(arguments):
            self.put(block, index, argument)
        return block

    def put(self, block: Block, index: int, argument: Any) -> None:
        """Write an argument into a block.

        Raises:
            TypeError: it has another type, or does not lie in one piece.
        """
        parameter, place = self.parameters[index], self.places[index]
        if not parameter.axes:
            if parameter.item in ("float", "double"):
                block[place : place + 1].view(np.float64)[0] = argument
            else:
                block[place] = argument
            return
        wanted = DTYPES[parameter.item]
        if argument.dtype != wanted or argument.ndim != parameter.axes or not argument.flags.c_contiguous:
            raise TypeError(
                f"argument {index} must be an array of {wanted} with {parameter.axes} axes in one piece, "
                f"not of {argument.dtype} with shape {argument.shape} and strides {argument.strides}"
            )
        block[place] = argument.__array_interface__["data"][0]
        block[place + 1 : place + 1 + parameter.axes] = argument.shape

    def __call__(self, *arguments: Any) -> Any:
        """Call the function with some arguments."""
        block = self.block(*arguments)
        self.run(block.__array_interface__["data"][0])
        return self.result(block)

    def result(self, block: Block) -> Any:
        """Return the result that is in a block."""
        if self._result == "void":
            return None
        if self._result in ("float", "double"):
            return float(block[-1:].view(DTYPES[self._result])[0])
        return int(block[-1:].view(DTYPES[self._result])[0])


@functools.cache
def native_function(text: str, function: str, signature: str, library: tuple[str, ...] = ()) -> Native:
    """Compile a function of a module's text for arguments of given types, or take it from the disk.

    Args:
        text: of the module.
        function: its name.
        signature: as numba has it: ``void(float32[:, ::1], int64[::1], float64, boolean)``.
        library: texts of other modules whose functions it calls.

    Raises:
        NotNative: the function has something that the language has not.
    """
    result, parameters = parse_signature(signature)
    identity = "\n".join([_compiler(), function, signature, text, *library])
    symbol = f"cntk_{hashlib.sha256(identity.encode()).hexdigest()[:32]}"

    def write() -> str:
        from cntk_kit_engines.native_functions import NativeModule

        return NativeModule(text, *library).write(function, symbol, result, parameters)

    return Native(load_function(symbol, identity, write), result, parameters)


@functools.cache
def _compiler() -> str:
    """SHA-256 of the files that decide what becomes of a text."""
    folder = Path(__file__).parent
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in _COMPILER)).hexdigest()
