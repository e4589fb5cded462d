"""Loops over bytes, compiled for readers: native functions whose arithmetic is Python's, to the last bit."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from cntk_kit_engines import native
from cntk_kit_engines.machine_code import load_function
from cntk_kit_engines.native_types import FAST, parse_signature


@functools.cache
def byte_loop(source: str, function: str, signature: str, *libraries: str) -> native.Native:
    """Return a compiled function of a file.

    Args:
        source: the file.
        function: its name.
        signature: its types, as :func:`cntk_kit_engines.native.native_function` has them.
        libraries: other files, whose functions it calls.

    Raises:
        NotNative: the function is not written in the part of Python that can be compiled.
    """
    texts = [Path(name).read_text("utf-8") for name in (source, *libraries)]
    result, parameters = parse_signature(signature)
    identity = "\n".join([native._compiler(), "as it is written", function, signature, *texts])
    symbol = f"cntk_{hashlib.sha256(identity.encode()).hexdigest()[:32]}"

    def write() -> str:
        from cntk_kit_engines.native_functions import NativeModule

        # Sums may be put into another order, and quotients replaced by products, only where nobody minds the last bit.
        return NativeModule(*texts).write(function, symbol, result, parameters).replace(f" {FAST}", "")

    return native.Native(load_function(symbol, identity, write), result, parameters)
