"""What Linux says about the processor, for which LLVM need not be imported."""

from __future__ import annotations

import hashlib
import platform
import sys
from functools import cache
from pathlib import Path

import attrs

_DECIDES = ("vendor_id", "cpu family", "model", "stepping", "flags")
_NAMES = {"bmi1": "bmi", "abm": "lzcnt"}
"""Features that LLVM calls otherwise."""


@attrs.frozen
class Processor:
    """An x86-64 processor.

    Attributes:
        identity: all that code may depend on, in one line.
        features: which ones it has, by LLVM's names.
    """

    identity: str
    features: frozenset[str]


@cache
def processor() -> Processor | None:
    """The processor of this machine; None where Linux does not say it, or it is no x86-64."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    try:
        return described(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def described(text: str) -> Processor | None:
    """Return the first processor of a text like that of ``/proc/cpuinfo``; None if it lacks something.

    Args:
        text: lines of keys and values; processors are divided by empty lines.
    """
    lines = text.split("\n\n", 1)[0].splitlines()
    found = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    if not all(found.get(key) for key in _DECIDES):
        return None
    flags = sorted(found["flags"].split())
    digest = hashlib.sha256(" ".join(flags).encode()).hexdigest()
    identity = " ".join((*(found[key] for key in _DECIDES[:-1]), digest))
    return Processor(identity, frozenset(_NAMES.get(flag, flag) for flag in flags))
