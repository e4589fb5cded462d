"""What the compiled text of a loop does in a time step: no copy of a slice, no product that could have been added.

The numbers are compared elsewhere; they are the same if more is done.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from cntk_engine_cpu import few_rows, loop_kernels, loop_source
from cntk_engine_cpu.libraries import load_onednn
from cntk_engine_cpu.loop_source import LoopText
from cpu_networks import compile_on, engine
from recurrent_networks import minibatches, recurrent_plan

NEEDED = load_onednn() is not None and bool(load_onednn().openmp) and find_spec("llvmlite") is not None

WAYS = {
    "few rows": ([[2, 1]], "compiled+onednn", 1),
    "many rows": ([[25] * 13], "compiled+onednn", 1),
    "BLAS": ([[2, 1]], "compiled+blas", 1),
    "threads": ([[25] * 13], "compiled+onednn", 3),
}
"""Sequences, backend and threads. With few rows, products are the loop's own; with many rows and steps they are the
library's, and weights are transposed once; with threads, these share the kernels."""

DONE: dict[tuple[str, str], list[tuple[int, int, int]]] = {
    ("elman", "few rows"): [(122, 4, 1), (115, 6, 1)],
    ("elman", "many rows"): [(25, 4, 1), (27, 6, 1)],
    ("elman", "BLAS"): [(29, 4, 1), (31, 6, 1)],
    ("elman", "threads"): [(20, 4, 1), (20, 5, 1)],
    ("elman back", "few rows"): [(122, 4, 1), (115, 6, 1)],
    ("elman 3 steps", "few rows"): [(122, 4, 1), (115, 6, 1)],
    ("lstm", "few rows"): [(143, 14, 1), (157, 16, 1)],
    ("lstm", "many rows"): [(55, 14, 1), (69, 16, 1)],
    ("lstm", "BLAS"): [(59, 14, 1), (73, 16, 1)],
    ("lstm", "threads"): [(25, 6, 1), (25, 7, 1)],
    ("gru", "few rows"): [(163, 13, 1), (241, 18, 1)],
    ("gru", "many rows"): [(52, 13, 1), (58, 18, 1)],
    ("gru", "BLAS"): [(64, 13, 1), (70, 18, 1)],
    ("gru", "threads"): [(28, 9, 1), (28, 11, 1)],
    ("both ways", "few rows"): [(122, 4, 1), (143, 14, 1), (157, 16, 1), (115, 6, 1)],
    ("stacked", "few rows"): [(143, 14, 1), (163, 13, 1), (241, 18, 1), (157, 15, 1)],
    ("stack inside", "few rows"): [(138, 7, 1), (122, 7, 1)],
    ("stack inside", "many rows"): [(41, 7, 1), (34, 7, 1)],
    ("stack inside", "BLAS"): [(45, 7, 1), (38, 7, 1)],
    ("stack inside", "threads"): [(32, 6, 1), (26, 7, 1)],
    ("learned state", "few rows"): [(122, 4, 1), (115, 6, 1)],
    ("state of a sequence", "few rows"): [(122, 4, 1), (115, 6, 1)],
    ("state of a sequence, back", "few rows"): [(122, 4, 1), (115, 6, 1)],
    ("gathered", "few rows"): [(122, 4, 1), (122, 4, 1), (115, 6, 1), (115, 6, 1)],
    ("two readers", "few rows"): [(137, 7, 2), (129, 9, 2)],
    ("two readers", "many rows"): [(33, 7, 2), (34, 9, 2)],
    ("two readers", "BLAS"): [(41, 7, 2), (42, 9, 2)],
    ("two readers", "threads"): [(26, 7, 2), (26, 8, 2)],
    ("shared weights", "few rows"): [(139, 6, 1), (135, 9, 1)],
    ("shared weights", "many rows"): [(35, 6, 1), (40, 10, 1)],
    ("shared weights", "BLAS"): [(43, 6, 1), (48, 9, 1)],
    ("shared weights", "threads"): [(27, 6, 1), (27, 9, 1)],
    ("diagonal", "few rows"): [(34, 4, 1), (36, 6, 1)],
    ("diagonal", "many rows"): [(34, 4, 1), (36, 6, 1)],
    ("diagonal", "BLAS"): [(34, 4, 1), (36, 6, 1)],
    ("diagonal", "threads"): [(25, 3, 1), (25, 4, 1)],
}
"""Of the loops of a network in the order in which they are first run, forward ones first: lines, arrays and shifts."""


def texts_of(monkeypatch: pytest.MonkeyPatch, name: str, way: str) -> list[tuple[int, int, int]]:
    """Bind a network's loops; nothing of them runs."""
    found = []

    def bind(site: Any, loop: Any, text: LoopText, direction: int) -> Any:
        found.append((len(text.source().splitlines()), len(text.arrays), len(text.shifts)))
        return lambda: None

    monkeypatch.setattr(loop_kernels, "_bind", bind)
    monkeypatch.setattr(few_rows, "pays", lambda weights, transposed: True)
    monkeypatch.setattr(loop_source, "CELL_WORK", 1)
    lengths, backend, threads = WAYS[way]
    _, program = compile_on(engine(backend, threads), recurrent_plan(name, np.float32), None, np.float32)
    program.compute_gradients(minibatches(lengths, np.float32)[0])
    return found


@pytest.mark.skipif(not NEEDED, reason="needs llvmlite, oneDNN and OpenMP")
@pytest.mark.parametrize(("name", "way"), DONE)
def test_what_a_time_step_does(monkeypatch: pytest.MonkeyPatch, name: str, way: str) -> None:
    assert texts_of(monkeypatch, name, way) == DONE[name, way]
