"""Starts ranks as actors of Ray: ``python -m cntk_launcher_ray.job N [--elastic] COMMAND...``."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from cntk_launcher_ray.rank import CODE, ERROR, OUT, REPORTS, WORD, Event, Place, Rank

CPUS, GPUS = "CNTK_RAY_CPUS", "CNTK_RAY_GPUS"
"""Variables with what Ray sets aside for each rank: processors (1) and GPUs (0)."""

GRACE, LAST = 2.5, 30.0
"""Seconds that others have to end after one has failed; where losses are tolerated, after one has come to the end."""

LOST = 128 + 9
"""Exit code of a rank whose actor is gone."""

NOT_OURS = ("CUDA_VISIBLE_DEVICES", "RAY_")
"""Begins of variables that Ray sets for each actor."""


class JobError(Exception):
    """The ranks cannot be started; the text says why and what to do."""


class RayJob:
    """The actors of the ranks, and what they have told."""

    def __init__(self, ray: Any, ranks: int, *, elastic: bool) -> None:
        self._ray = ray
        self._elastic = elastic
        resources = {"num_cpus": _number(CPUS, 1.0), "num_gpus": _number(GPUS, 0.0)}
        _check(ray, ranks, resources)
        made = ray.remote(Rank).options(max_concurrency=2, max_restarts=0, scheduling_strategy="SPREAD", **resources)
        self._actors = [made.remote() for _ in range(ranks)]
        self._codes: dict[int, int] = {}
        self._told: list[int] = []

    def run(self, command: Sequence[str]) -> int:
        """Run the command on all actors; return the exit code of the first that fails, 0 if none does.

        Where losses are tolerated it is 0 if one comes to the end.
        """
        places = self._ray.get([actor.place.remote() for actor in self._actors])
        here = self._ray.get_runtime_context().get_node_id()
        streams = {}
        for rank, (actor, variables) in enumerate(zip(self._actors, variables_of(places), strict=True)):
            given = {**_passed_on(os.environ, is_here=places[rank].node == here), **variables}
            method = actor.run.options(num_returns="streaming")
            streams[method.remote(list(command), given, os.getcwd())] = rank
        end = float("inf")
        while streams:
            self._pass_signals_on()
            ready, _ = self._ray.wait(list(streams), timeout=0.1)
            for stream in ready:
                rank = streams[stream]
                if not self._take(stream, rank):
                    del streams[stream]
            if end == float("inf") and self._is_over():
                end = time.monotonic() + (LAST if self._elastic else GRACE)
            if time.monotonic() > end:
                for rank in streams.values():
                    self._ray.kill(self._actors[rank])
                end = float("inf") if not streams else time.monotonic() + LAST
        return self._outcome()

    def note_signal(self, number: int, frame: FrameType | None) -> None:
        """Remember to tell the ranks."""
        self._told.append(number)

    def _pass_signals_on(self) -> None:
        while self._told:
            number = self._told.pop(0)
            for actor in self._actors:
                actor.tell.remote(number)

    def _take(self, stream: Any, rank: int) -> bool:
        """Take what a rank has told; False if that was the last of it."""
        try:
            event: Event = self._ray.get(next(stream))
        except StopIteration:
            return False
        except self._ray.exceptions.RayError:
            self._codes.setdefault(rank, LOST)
            return False
        if event.kind == CODE:
            self._codes[rank] = int(event.text)
        else:
            _tell(event)
        return True

    def _is_over(self) -> bool:
        """Whether those that still run are waited for no more."""
        codes = self._codes.values()
        return any(code == 0 for code in codes) if self._elastic else any(codes)

    def _outcome(self) -> int:
        codes = list(self._codes.values())
        if self._elastic and 0 in codes:
            return 0
        return next((code for code in codes if code), 0)


def variables_of(places: Sequence[Place]) -> Iterator[dict[str, str]]:
    """Yield the variables by which each rank finds the others, as ``torchrun`` sets them."""
    seen: dict[str, int] = {}
    for rank, place in enumerate(places):
        local = seen[place.node] = seen.get(place.node, -1) + 1
        yield {
            "RANK": str(rank),
            "WORLD_SIZE": str(len(places)),
            "LOCAL_RANK": str(local),
            "LOCAL_WORLD_SIZE": str(sum(other.node == place.node for other in places)),
            "MASTER_ADDR": places[0].address,
            "MASTER_PORT": str(places[0].port),
        }


def _passed_on(environment: Mapping[str, str], *, is_here: bool) -> dict[str, str]:
    """Return the variables that a rank gets: all on this machine; those of ours on another one.

    The folder for reports is on this machine alone.
    """
    return {
        name: text
        for name, text in environment.items()
        if not name.startswith(NOT_OURS) and (is_here or (name.startswith("CNTK_") and name != REPORTS))
    }


def _tell(event: Event) -> None:
    if event.kind == WORD:
        Path(os.environ[REPORTS], event.name).write_text(event.text, encoding="utf-8")
    elif event.kind in (OUT, ERROR):
        print(event.text, file=sys.stdout if event.kind == OUT else sys.stderr, flush=True)


def _number(name: str, default: float) -> float:
    text = os.environ.get(name)
    if text is None:
        return default
    try:
        return float(text)
    except ValueError:
        raise JobError(f"{name}={text!r} in the environment makes no sense: it is a number") from None


def _check(ray: Any, ranks: int, resources: Mapping[str, float]) -> None:
    """See that the cluster could ever run so many ranks: Ray would wait for machines that join it, without end."""
    there = ray.cluster_resources()
    for word, name, variable in (("CPU", "num_cpus", CPUS), ("GPU", "num_gpus", GPUS)):
        needed = ranks * resources[name]
        if needed > there.get(word, 0.0):
            raise JobError(
                f"{ranks} ranks need {needed:g} {word}s, and the Ray cluster has {there.get(word, 0.0):g}\n"
                f"    Start fewer ranks (-n), add machines (ray start), or set {variable} to what each rank takes."
            )


def connect(ranks: int) -> Any:
    """Join the cluster that there is, or start one on this machine; return the module ``ray``."""
    import logging

    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        ray.init(address="auto", **quiet)
    except ConnectionError:
        if os.environ.get("RAY_ADDRESS"):
            raise JobError(f"there is no Ray cluster at RAY_ADDRESS={os.environ['RAY_ADDRESS']}") from None
        processors = max(ranks * _number(CPUS, 1.0), os.cpu_count() or 1)
        ray.init(address="local", num_cpus=int(processors), include_dashboard=False, **quiet)
    return ray


def main(words: Sequence[str]) -> int:
    """Run the command line: how many ranks, whether others go on, and what they run."""
    ranks, elastic = int(words[0]), words[1] == "--elastic"
    try:
        ray = connect(ranks)
        try:
            job = RayJob(ray, ranks, elastic=elastic)
            for name in ("SIGTERM", "SIGHUP", "SIGUSR1"):
                if hasattr(signal, name):
                    signal.signal(getattr(signal, name), job.note_signal)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # cntk has it, too
            return job.run(words[2 if elastic else 1 :])
        finally:
            ray.shutdown()
    except JobError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
