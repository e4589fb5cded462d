"""What ``cntk bench`` measures, and the file in which it leaves it for ``cntk simulate``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from cntk_core.api import DataError
from cntk_core.api.parallel import NetworkModel

FORMAT = 1
"""Version of the file."""

KEYS = ("bandwidth", "latency", "overhead")
"""What a file says of a network."""


@attrs.frozen
class ComputeTimes:
    """How long a rank computes with a minibatch, update included.

    Attributes:
        points: samples of a minibatch and seconds, by samples. Between two points it goes along a straight line, before
            the first and behind the last one in proportion.
    """

    points: tuple[tuple[float, float], ...]

    @classmethod
    def proportional(cls, seconds_per_sample: float) -> ComputeTimes:
        """Return times that are proportional to the samples."""
        return cls(((1.0, seconds_per_sample),))

    def seconds(self, samples: float) -> float:
        """Return the seconds for a minibatch of so many samples."""
        sizes, times = zip(*self.points, strict=True)
        if samples >= sizes[-1]:
            return float(times[-1] * samples / sizes[-1])
        if samples <= sizes[0]:
            return float(times[0] * samples / sizes[0])
        return float(np.interp(samples, sizes, times))


@attrs.frozen
class Measurements:
    """What was measured on a machine.

    Attributes:
        recipe: whose network; empty for the default one.
        parameters: learned values of the network.
        compute: how long minibatches take.
        aggregations: by name: seconds for each value of a gradient that a processor is busy in a step.
        sum_rate: bytes of arrays that are added up per second.
        network: of a communicator; None if none was measured.
        machine: in words.
    """

    recipe: str = ""
    parameters: int = 0
    compute: ComputeTimes | None = None
    aggregations: Mapping[str, float] = attrs.field(factory=dict)
    sum_rate: float = math.inf
    network: NetworkModel | None = None
    machine: str = ""


def write_measurements(found: Measurements, path: Path) -> None:
    """Write a file.

    Raises:
        DataError: it cannot be written.
    """
    told: dict[str, Any] = {
        "format": FORMAT,
        "machine": found.machine,
        "recipe": found.recipe,
        "parameters": found.parameters,
        "compute": [{"samples": samples, "seconds": time} for samples, time in found.compute.points]
        if found.compute
        else [],
        "aggregations": {name: {"secondsPerValue": time} for name, time in found.aggregations.items()},
    }
    if math.isfinite(found.sum_rate):
        told["sumBytesPerSecond"] = found.sum_rate
    if found.network is not None:
        told["network"] = {"title": found.network.title, **{key: getattr(found.network, key) for key in KEYS}}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise DataError(f"the file '{path}' cannot be written: {error.strerror}") from None


def read_measurements(path: Path) -> Measurements:
    """Read a file.

    Raises:
        DataError: it cannot be read, or is no such file.
    """
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["format"] != FORMAT:
            raise DataError(f"'{path}' has the format {told['format']}; this program reads {FORMAT}")
        points = sorted((float(one["samples"]), float(one["seconds"])) for one in told["compute"])
        return Measurements(
            str(told["recipe"]),
            int(told["parameters"]),
            ComputeTimes(tuple(points)) if points else None,
            {name: float(one["secondsPerValue"]) for name, one in told["aggregations"].items()},
            float(told.get("sumBytesPerSecond", math.inf)),
            _network(told["network"]) if "network" in told else None,
            str(told["machine"]),
        )
    except OSError as error:
        raise DataError(f"the file '{path}' cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise DataError(f"'{path}' is not a file that cntk bench has written") from None


def _network(told: Mapping[str, Any]) -> NetworkModel:
    bandwidth, latency, overhead = (float(told[key]) for key in KEYS)
    return NetworkModel(bandwidth, latency, overhead, title=str(told["title"]))
