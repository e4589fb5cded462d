"""Time quantizing and unquantizing of gradients beside NumPy and a plain copy, interleaved in one run, in one thread.

    python benchmarks/quantize.py [--bits 1 2 4 8 16] [--rows 2048] [--values 2500000] [--rounds 15] [--json F]

What is timed is what a rank does with the gradients of a step: add the residual, pack the bits, keep the new residual
(quantize), then turn the words into values again (unquantize). A table row for each number of bits: the minimum CPU
milliseconds of both; the bytes that this reads and writes per second (gradients and residual are read, residual and
gradients written), as they are and as a fraction of those of a copy; and the time of NumPy over ours, for the plug-in's
own portable kernels, which give the same bits. Loops that do as much with the memory and nothing else (an addition in
place, and filling the result) are the floor.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cntk_parallel_onebit import portable
from cntk_parallel_onebit.format import Cut, Matrix, record_words, word_type
from cntk_parallel_onebit.kernels import kernels, prepare

STREAMS, COPY_STREAMS = 4, 2


def best(rounds: int, works: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Return the minimum CPU seconds of each work; they take turns."""
    found = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            start = time.thread_time()
            work()
            found[name] = min(found[name], time.thread_time() - start)
    return found


def measure(values: int, rows: int, bits: int, rounds: int) -> dict[str, Any]:
    """Run the comparison for a number of bits; return the record that ``--json`` writes."""
    columns = max(1, values // rows)
    size = rows * columns
    gradients = np.random.default_rng(1).normal(size=size).astype(np.float32)
    source, residual = gradients.copy(), np.zeros_like(gradients)
    cut = Cut.of(iter([(Matrix(0, rows, columns), 0, columns)]), bits, 32)
    words = np.zeros(cut.words, word_type(np.float32))
    scales = words.view(np.float32)

    def turn(run: Any) -> tuple[Callable[[], None], Callable[[], None]]:
        return (
            lambda: run.quantize(gradients, residual, words, scales, cut.blocks, bits, True),
            lambda: run.unquantize(words, scales, gradients, cut.blocks, bits, False),
        )

    quantize, unquantize = turn(kernels())
    slow_quantize, slow_unquantize = turn(portable)
    works = {
        "copy": lambda: np.copyto(gradients, source),
        "quantize": quantize,
        "unquantize": unquantize,
        "addition": lambda: np.add(residual, source, out=residual),
        "fill": lambda: gradients.fill(1.0),
    }
    found = best(rounds, works)
    slow = best(max(2, rounds // 5), {"quantize": slow_quantize, "unquantize": slow_unquantize})
    ours, numpy = found["quantize"] + found["unquantize"], slow["quantize"] + slow["unquantize"]
    rate, copy_rate = STREAMS * 4 * size / ours, COPY_STREAMS * 4 * size / found["copy"]
    return {
        "figure": "minimum cpu seconds",
        "values": size,
        "rows": rows,
        "bits": bits,
        "kernels": kernels().__name__.rpartition(".")[2],  # type: ignore[attr-defined]
        "quantize_s": found["quantize"],
        "unquantize_s": found["unquantize"],
        "copy_s": found["copy"],
        "floor_s": found["addition"] + found["fill"],
        "bytes_per_s": rate,
        "fraction_of_copy_bandwidth": rate / copy_rate,
        "numpy_s": numpy,
        "ratio_numpy": numpy / ours,
        "share_of_full_precision": 4 * columns * record_words(rows, bits, 32) / (4 * size),
    }


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="Time quantizing and unquantizing of gradients.")
    parser.add_argument("--bits", type=int, nargs="+", choices=[1, 2, 4, 8, 16], default=[1, 2, 4, 8, 16])
    parser.add_argument("--rows", type=int, default=2048, help="values in a column")
    parser.add_argument("--values", type=int, default=2_500_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, help="write the records here")
    arguments = parser.parse_args()
    prepare(np.float32)
    print(
        f"  {'bits':>4} {'quantize':>9} {'unquantize':>11} {'ms':>7} {'floor':>7} {'GB/s':>6} {'of copy':>8} "
        f"{'numpy ms':>9} {'numpy/ours':>10} {'on the wire':>12}"
    )
    records = []
    for bits in arguments.bits:
        record = measure(arguments.values, arguments.rows, bits, arguments.rounds)
        records.append(record)
        both = record["quantize_s"] + record["unquantize_s"]
        print(
            f"  {bits:4d} {1e3 * record['quantize_s']:9.2f} {1e3 * record['unquantize_s']:11.2f} {1e3 * both:7.2f} "
            f"{1e3 * record['floor_s']:7.2f} {1e-9 * record['bytes_per_s']:6.1f} "
            f"{record['fraction_of_copy_bandwidth']:8.2f} {1e3 * record['numpy_s']:9.1f} {record['ratio_numpy']:10.1f} "
            f"{'1/%.1f' % (1 / record['share_of_full_precision']):>12}",
            flush=True,
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
