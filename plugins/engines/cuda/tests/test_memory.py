"""How much memory of the device a program tells that it has, and which plans of cuDNN are kept."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from cntk_engine_cuda import CudaEngine
from cntk_engine_cuda import cudnn as plans
from cntk_engine_cuda.cudnn import Cudnn, Missing
from cntk_engine_cuda.storage import _bytes

from cntk_testing.engine_contract import MOMENTUM, start
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES, sequences_for

RATES = 2 * 8192
"""Bytes of the two places through which rates go; they belong to no program's buffers."""


@pytest.mark.usefixtures("standin")
@pytest.mark.parametrize("name", ["lstm", "opened", "attention"])
def test_a_program_tells_all_that_it_has_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(CudaEngine(), SEQUENCE_SAMPLES[name]("float32"), rule=MOMENTUM)
    gpu = run.program.gpu
    made, taken = gpu.empty, []

    def empty(count: int, dtype: Any) -> Any:
        array = made(count, dtype)
        taken.append((weakref.ref(array), int(array.nbytes)))
        return array

    monkeypatch.setattr(gpu, "empty", empty)
    assert run.program.memory() == 0
    for step, lengths in enumerate(([3, 2], [5, 5, 1], [2])):
        run.program.train_step(sequences_for(run.sample, lengths), run.scalars(MOMENTUM, step))
        alive = sum(size for array, size in taken if array() is not None)
        assert alive - RATES <= run.program.memory() < alive


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1 << 20, "1.0 MiB"),
        ((1 << 30) - 1, "1024.0 MiB"),
        (1 << 30, "1.0 GiB"),
    ],
)
def test_bytes_as_people_read_them(count: int, said: str) -> None:
    assert _bytes(count) == said


def test_the_plan_that_was_used_longest_ago_is_forgotten(cudnn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(plans, "REMEMBERED", 2)
    monkeypatch.setattr(Cudnn, "_make", lambda self, correlation, product: made.append(correlation) or Missing("no"))
    library = Cudnn(SimpleNamespace(ptr=0))
    for name in "abacab":
        library.plan(name, "product")  # type: ignore[arg-type]
    assert "".join(made) == "abcb"
