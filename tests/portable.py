"""A plugin of pytest that hides the libraries without which everything has to work: ``pytest -p tests.portable``.

They are hidden in the process of the tests, and so from all that looks for them there: llvmlite, by which loops are
compiled, cffi, by which oneDNN is called, and what decodes JPEG quickly.
"""

from __future__ import annotations

import sys

import pytest

HIDDEN = ("cffi", "llvmlite", "numba", "simplejpeg")


def hide() -> None:
    """Let all further imports of these libraries fail, in this process."""
    for name in HIDDEN:
        sys.modules[name] = None  # type: ignore[assignment] # as Python's documentation says


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Hide them before anything of the tests is imported."""
    hide()
