"""Write the CPU engine's declarations of oneDNN in the form that cffi loads without a parser of C.

    python tools/onednn_bindings.py [--check]

Parsing them takes 50 ms of each start. ``--check`` only says whether the file is up to date.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import cffi
from cntk_engine_cpu.onednn_declarations import DECLARATIONS

HERE = Path(__file__).resolve().parents[1] / "plugins/engines/cpu/src/cntk_engine_cpu/onednn_bindings.py"
HEAD = '''"""oneDNN's functions for cffi. Written by ``tools/onednn_bindings.py``."""

# fmt: off
# ruff: noqa
# mypy: ignore-errors

'''


def text() -> str:
    """Return what the file has to be."""
    ffi = cffi.FFI()
    ffi.cdef(DECLARATIONS)
    ffi.set_source("cntk_engine_cpu.onednn_bindings", None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bindings.py"
        ffi.emit_python_code(str(path))
        return HEAD + path.read_text().partition("\n")[2]


def main() -> int:
    """Write the file, or compare it."""
    if "--check" not in sys.argv[1:]:
        HERE.write_text(text())
        return 0
    current = HERE.read_text() == text()
    print(f"{HERE.name} is {'up to date' if current else 'out of date: run python tools/onednn_bindings.py'}")
    return not current


if __name__ == "__main__":
    sys.exit(main())
