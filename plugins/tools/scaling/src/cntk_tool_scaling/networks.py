"""Networks by name, or by their numbers, as ``cntk simulate --network`` takes them."""

from __future__ import annotations

import math
from typing import Any

import attrs

from cntk_core.api import UsageError, did_you_mean
from cntk_core.api.parallel import NetworkModel

GIGABIT = 1e9 / 8
"""Bytes per second."""

_TCP, _VERBS = 5e-6, 5e-7
"""Seconds that a processor is busy with a message: through the system's network code, and past it."""


def _tcp(gigabits: float, latency: float) -> NetworkModel:
    # Of each 1538 bytes on an Ethernet wire, 1448 are payload of TCP.
    return NetworkModel(gigabits * GIGABIT * 1448 / 1538, latency, _TCP)


def _infiniband(gigabits: float, latency: float) -> NetworkModel:
    return NetworkModel(gigabits * GIGABIT * 0.96, latency, _VERBS)


NETWORKS: dict[str, NetworkModel] = {
    "1GbE": _tcp(1, 50e-6),
    "10GbE": _tcp(10, 20e-6),
    "25GbE": _tcp(25, 15e-6),
    "40GbE": _tcp(40, 15e-6),
    "100GbE": _tcp(100, 10e-6),
    "InfiniBandQDR": _infiniband(32, 1.3e-6),
    "InfiniBandFDR": _infiniband(54.5, 0.9e-6),
    "InfiniBandEDR": _infiniband(100, 0.8e-6),
    "InfiniBandHDR": _infiniband(200, 0.7e-6),
    "InfiniBandNDR": _infiniband(400, 0.7e-6),
    "loopback": NetworkModel(5e9, 10e-6, _TCP),
    "ideal": NetworkModel(),
}
"""Usual networks. Bandwidths are of payload; latencies are typical ones through one switch."""

_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}

LOCAL = NetworkModel(local_bandwidth=10e9, local_latency=1e-6)
"""Between the ranks of a host, unless something else is said."""


def network_of(text: str, *, ranks_per_host: int = 1, local: str = "") -> NetworkModel:
    """Return the network that a text names.

    Args:
        text: a name, ``bandwidth=6GB/s,latency=1us,overhead=0``, or a name followed by such numbers:
            ``10GbE,latency=5us``.
        ranks_per_host: neighbouring ranks that share a link.
        local: the same for what ranks of one host send to each other.

    Raises:
        UsageError: there is no such network, or a number is wrong.
    """
    found = _parse(text)
    inside = _parse(local) if local else NetworkModel(LOCAL.local_bandwidth, LOCAL.local_latency)
    if ranks_per_host < 1:
        raise UsageError(f"--ranks-per-host {ranks_per_host} makes no sense: a host has at least one rank")
    return attrs.evolve(
        found,
        ranks_per_host=ranks_per_host,
        local_bandwidth=inside.bandwidth,
        local_latency=inside.latency,
        title=text,
    )


def _parse(text: str) -> NetworkModel:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    by_name = {name.lower(): model for name, model in NETWORKS.items()}
    found, numbers = NetworkModel(), dict[str, Any]()
    if parts and "=" not in parts[0]:
        name = parts.pop(0)
        if name.lower() not in by_name:
            raise UsageError(
                f"there is no network '{name}'{did_you_mean(name, NETWORKS)}",
                hint=f"Networks: {', '.join(NETWORKS)}; or bandwidth=1.25GB/s,latency=20us",
            )
        found = by_name[name.lower()]
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or key not in _NUMBERS:
            raise UsageError(
                f"'{part}' says nothing of a network{did_you_mean(key, _NUMBERS)}", hint=f"Keys: {', '.join(_NUMBERS)}"
            )
        numbers[key] = _NUMBERS[key](value)
    return NetworkModel(**{**{one: getattr(found, one) for one in _NUMBERS}, **numbers})


def rate(text: str) -> float:
    """Return bytes per second of a text such as ``1.25GB/s``, ``10Gbit/s`` or ``1e9``.

    Raises:
        UsageError: it is none, or not more than 0.
    """
    plain = text.strip().removesuffix("/s")
    bits = plain.lower().endswith(("bit", "bits"))
    plain = plain.lower().removesuffix("bits").removesuffix("bit") if bits else plain.removesuffix("B")
    number, unit = (plain[:-1], plain[-1:].lower()) if plain[-1:].lower() in "kmgt" and plain else (plain, "")
    found = _number(number, text, "a bandwidth such as 1.25GB/s or 10Gbit/s") * _UNITS[unit] / (8 if bits else 1)
    if found <= 0:
        raise UsageError(f"a bandwidth must be more than 0, not '{text}'")
    return found


def seconds(text: str) -> float:
    """Return the seconds of a text such as ``20us`` or ``1e-5``.

    Raises:
        UsageError: it is none, or negative.
    """
    plain = text.strip()
    unit = next((one for one in ("ms", "us", "µs", "ns", "s") if plain.endswith(one)), "")
    found = _number(plain.removesuffix(unit), text, "a time such as 20us") * (_TIMES[unit] if unit else 1.0)
    if found < 0:
        raise UsageError(f"a time must not be negative: '{text}'")
    return found


def _number(text: str, whole: str, what: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if math.isnan(found):
        raise UsageError(f"'{whole}' is not {what}")
    return found


_NUMBERS = {
    "bandwidth": rate,
    "latency": seconds,
    "overhead": seconds,
}
