"""What is fuzzed, by name. Each is imported when it is wanted."""

from __future__ import annotations

from importlib import import_module

from fuzzing.engine import Fuzzer

_LANGUAGES = ("brainscript", "config", "mel", "ndl")
_SHARES = {"binary": 100, "cntk2": 100, "ctf": 100, "htk": 100, "idx": 100, "kaldi": 100, "kaldi_models": 100,
           "networks": 1, "uci": 100}  # fmt: skip
"""Inputs of each format, of 100 that are asked for."""
NAMES = tuple(sorted((*_LANGUAGES, *_SHARES)))


def fuzzer(name: str) -> Fuzzer:
    """Return the fuzzer of a format or language."""
    if name in _LANGUAGES:
        from fuzzing.languages import fuzzer as of_language

        return of_language(name)
    module = import_module(f"fuzzing.{name}")
    seconds = getattr(module, "SECONDS", None)
    return Fuzzer(name, module.make, module.check, _SHARES[name], seconds, getattr(module, "summary", None))
