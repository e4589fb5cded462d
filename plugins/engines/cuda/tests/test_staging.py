"""What is waited for while arrays are sent: on a GPU a copy that nobody waited for has yesterday's numbers."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
from cntk_engine_cuda.inputs import ROUNDS, Staging


class Recorder:
    """A GPU on the host that notes the calls which put work in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.events = 0
        self.stream, self.transfer = _Stream("stream", self.calls), _Stream("transfer", self.calls)

    def event(self) -> Any:
        self.events += 1
        return _Event(self.events, self.calls)

    def pinned(self, size: int, dtype: Any) -> Any:
        self.calls.append(f"pinned {size}")
        return np.zeros(size, dtype)

    def empty(self, size: int, dtype: Any) -> Any:
        return np.zeros(size, dtype).view(_Device)

    def current(self) -> Any:
        return nullcontext()


class _Device(np.ndarray):
    def set(self, values: Any, stream: Any) -> None:
        self[...] = values


class _Stream:
    def __init__(self, name: str, calls: list[str]) -> None:
        self.name, self._calls = name, calls

    def wait_event(self, event: Any) -> None:
        self._calls.append(f"{self.name} waits {event.number}")


class _Event:
    def __init__(self, number: int, calls: list[str]) -> None:
        self.number, self._calls = number, calls

    def record(self, stream: Any) -> None:
        self._calls.append(f"{stream.name} records {self.number}")

    def synchronize(self) -> None:
        self._calls.append(f"host waits {self.number}")


def test_storage_is_used_again_when_what_it_held_has_arrived() -> None:
    gpu = Recorder()
    staging, target = Staging(gpu, np.dtype(np.float64)), np.zeros(3000)
    for number in range(ROUNDS):
        staging.send(np.full(3, number, float), target)
        first = 2 * number + 1
        assert gpu.calls == [
            "pinned 1024",
            f"transfer records {first}",
            f"stream waits {first}",
            f"stream records {first + 1}",
        ]
        gpu.calls.clear()
    staging.send(np.full(3, 7.0), target)
    assert gpu.calls == [
        "host waits 1",  # the pinned memory is free only then
        "transfer waits 2",  # and that on the device
        "transfer records 1",
        "stream waits 1",
        "stream records 2",
    ]
    assert target[:4].tolist() == [7.0, 7.0, 7.0, 0.0]


def test_larger_storage_waits_until_the_device_has_taken_what_was_there() -> None:
    gpu = Recorder()
    staging, target = Staging(gpu, np.dtype(np.float64)), np.zeros(3000)
    for _ in range(ROUNDS):
        staging.send(np.ones(3), target)
    gpu.calls.clear()
    staging.send(np.ones(2000), target)
    assert gpu.calls[:4] == ["host waits 1", "host waits 2", "pinned 2000", "transfer waits 2"]
    assert target.sum() == 2000.0


def test_nothing_is_sent_of_nothing() -> None:
    gpu = Recorder()
    staging = Staging(gpu, np.dtype(np.float64))
    staging.send(np.empty(0), np.zeros(3))
    assert gpu.calls == ["pinned 1024"]
