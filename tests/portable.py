"""A plugin of pytest that hides the libraries without which everything has to work: ``pytest -p tests.portable``.

They are hidden in the process of the tests, and so from all that looks for them there: llvmlite, by which loops are
compiled, cffi, by which oneDNN is called, and what decodes JPEG quickly.
"""

from __future__ import annotations

import sys

HIDDEN = ("cffi", "llvmlite", "numba", "simplejpeg")

for _name in HIDDEN:
    sys.modules[_name] = None  # type: ignore[assignment] # as Python's documentation says
