"""Feed made inputs to everything that reads what others have written: each gives a value or one of our errors.

    python tools/fuzz.py                        # all formats, 2,000 inputs of each
    python tools/fuzz.py ctf uci --inputs 200000
    python tools/fuzz.py ctf --replay 4711

An input is read by our parser and by a second, simple one: where one accepts what the other refuses, or values
differ, there is a finding; so it is where our parser needs more than two seconds or 768 MB, where a library warns, and
where anything but one of our errors is raised. What is found is made smaller and shown, and with ``--save`` kept. The
same seed gives the same inputs. The exit status is 1 if there was a finding.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from pathlib import Path

from fuzzing import formats
from fuzzing.engine import Fuzzer, judge, limit_memory, smaller

MAX_SHOWN = 5


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="FORMAT", help=f"of {', '.join(formats.NAMES)}; by default all")
    parser.add_argument("--inputs", type=int, default=2_000, help="of each format")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay", type=int, help="show this input and what becomes of it")
    parser.add_argument("--save", type=Path, help="folder for inputs that are findings, made smaller")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in formats.NAMES]
    if unknown:
        parser.error(f"no format is called {', '.join(unknown)}")
    failed = False
    for name in options.names or formats.NAMES:
        fuzzer = formats.fuzzer(name)
        if options.replay is not None:
            data = fuzzer.input(options.replay, options.seed)
            verdict = fuzzer.judge(data)
            print(data, verdict.kind, verdict.details, sep="\n")
            continue
        numbers = range(options.first, options.first + max(options.inputs * fuzzer.share // 100, 1))
        failed |= run(fuzzer, numbers, options.seed, options.save)
    return 1 if failed else 0


def run(fuzzer: Fuzzer, numbers: range, seed: int, save: Path | None) -> bool:
    """Judge inputs, print the totals, and return whether there was a finding."""
    for number in numbers[:20]:
        judge(fuzzer.check, fuzzer.input(number, seed), seconds=60)  # imports and compiling count for nobody
    if fuzzer.seconds is None:  # what takes longer has libraries with memory of their own
        limit_memory()
    totals: Counter[str] = Counter()
    slowest = (0.0, 0)
    began, used = time.perf_counter(), time.process_time()
    for number in numbers:
        data = fuzzer.input(number, seed)
        start = time.process_time()
        verdict = fuzzer.judge(data)
        slowest = max(slowest, (time.process_time() - start, number))
        totals[verdict.kind] += 1
        if verdict.is_finding and totals[verdict.kind] <= MAX_SHOWN:
            least = smaller(fuzzer, data, verdict.kind)
            print(f"{fuzzer.name}: input {number}: {verdict.kind}\n{least!r}", file=sys.stderr)
            print(fuzzer.judge(least).details, file=sys.stderr)
            if save is not None:
                (save / fuzzer.name).mkdir(parents=True, exist_ok=True)
                (save / fuzzer.name / str(number)).write_bytes(least)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    took, used = time.perf_counter() - began, time.process_time() - used
    print(f"{fuzzer.name}: {len(numbers)} inputs in {took:.0f} s ({used:.0f} s of the processor)")
    print("  " + ", ".join(f"{count} {verdict}" for verdict, count in totals.most_common()))
    if fuzzer.summary is not None:
        print(f"  {fuzzer.summary()}")
    print(f"  slowest {slowest[0]:.2f} s (input {slowest[1]}), peak memory {peak:.0f} MB", flush=True)
    return any(kind not in ("read", "refused") for kind in totals)


if __name__ == "__main__":
    sys.exit(main())
