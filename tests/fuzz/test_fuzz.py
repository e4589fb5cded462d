"""The fuzzers find nothing in a small number of inputs, and would find something; more is for `make fuzz`."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from cntk_core.api import DataError

TOOLS = Path(__file__).resolve().parents[2] / "tools"
READS_MOST = ("binary", "cntk2", "ctf", "htk", "idx", "kaldi", "kaldi_models", "uci")
PARSERS = ("brainscript", "config", "mel", "ndl", *READS_MOST)


@pytest.fixture(scope="module")
def engine() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        from fuzzing import engine

        yield engine


def fuzz(*arguments: str) -> str:
    command = [sys.executable, str(TOOLS / "fuzz.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=550)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_made_inputs() -> None:
    told = fuzz(*PARSERS, "--inputs", "15")
    for name in PARSERS:
        assert f"{name}: 15 inputs in" in told


@pytest.mark.slow
def test_most_networks_are_trained(thorough: bool) -> None:
    drawn = 40 if thorough else 4
    told = fuzz("networks", "--inputs", str(50 * drawn))
    trained = int(told.partition(f" of {drawn} trained")[0].split()[-1])
    assert trained >= 0.6 * drawn


@pytest.mark.parametrize("name", READS_MOST)
def test_inputs_are_not_all_refused(engine: ModuleType, name: str) -> None:
    from fuzzing import formats

    fuzzer = formats.fuzzer(name)
    verdicts = [fuzzer.judge(fuzzer.input(number, seed=3)).kind for number in range(60)]
    assert set(verdicts) == {engine.READ, engine.REFUSED}
    assert verdicts.count(engine.READ) >= 12
    assert fuzzer.input(7, seed=3) == fuzzer.input(7, seed=3) != fuzzer.input(8, seed=3)


def check_nothing(data: bytes) -> None:
    if b"!" in data and b"?" in data:
        raise AssertionError("both")
    if not data:
        raise DataError("empty")


def test_a_finding_is_made_small(engine: ModuleType) -> None:
    fuzzer = engine.Fuzzer("x", random.Random.randbytes, check_nothing)
    data = b"abc!" * 50 + b"def?" * 50
    verdict = fuzzer.judge(data)
    assert verdict.kind == "AssertionError"
    assert verdict.is_finding
    assert engine.smaller(fuzzer, data, verdict.kind) == b"!?"
    assert not fuzzer.judge(b"").is_finding


def test_what_is_a_finding(engine: ModuleType) -> None:
    import warnings

    def slow(data: bytes) -> None:
        while True:
            time.process_time()

    def differs(data: bytes) -> None:
        engine.same("numbers", [1], [2])

    def warns(data: bytes) -> None:
        warnings.warn("raw", UserWarning, stacklevel=1)

    assert engine.judge(slow, b"", seconds=0.1).kind == "too slow"
    assert engine.judge(differs, b"").kind == "differs: numbers"
    assert engine.judge(warns, b"").kind == "UserWarning"
    assert engine.judge(lambda data: None, b"").kind == engine.READ


@pytest.mark.slow
def test_a_value_that_is_stacked_and_subtracted(engine: ModuleType) -> None:
    from fuzzing import formats

    data = (TOOLS.parent / "tests/fuzz/corpus/networks/value-stacked-and-subtracted.txt").read_bytes()
    assert formats.fuzzer("networks").judge(data).kind == engine.READ
