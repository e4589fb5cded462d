"""The formats that are fuzzed, by name. Each is imported when it is wanted."""

from __future__ import annotations

from importlib import import_module

from fuzzing.engine import Fuzzer

_SHARES = {"binary": 100, "ctf": 100, "htk": 100, "idx": 100, "uci": 100}
"""Inputs of each format, of 100 that are asked for."""
NAMES = tuple(_SHARES)


def fuzzer(name: str) -> Fuzzer:
    """Return the fuzzer of a format."""
    module = import_module(f"fuzzing.{name}")
    return Fuzzer(name, module.make, module.check, _SHARES[name])
