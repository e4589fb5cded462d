"""The settings of a source, and the block of a recipe that they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cntk.io._streams import DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS, INFINITELY_REPEAT
from cntk.logging import TraceLevel

_THREADED = ("ImageDeserializer", "Base64ImageDeserializer")


class _Switch:
    """A truth value that may be set, or left to a default."""

    def __init__(self, default: bool) -> None:
        self.value = default

    def set(self, value: bool) -> None:
        """Set it."""
        self.value = bool(value)


class MinibatchSourceConfig:
    """The settings of a :class:`~cntk.io.MinibatchSource`.

    Args:
        deserializers: what is read.
        randomize: in random order.
    """

    def __init__(self, deserializers: Sequence[Any] = (), randomize: bool = True) -> None:
        self.deserializers = list(deserializers)
        self.max_samples = self.max_sweeps = INFINITELY_REPEAT
        self.randomization_window_in_chunks = DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS if randomize else 0
        self.randomization_window_in_samples = 0
        self.randomization_seed = 0
        self.trace_level = TraceLevel.Warning.value
        self.is_frame_mode_enabled = False
        self.truncation_length = 0
        self.max_errors = 0
        self.is_multithreaded = _Switch(any(each.get("type") in _THREADED for each in self.deserializers))

    def add_deserializer(self, deserializer: Any) -> MinibatchSourceConfig:
        """Read something more. Returns this."""
        self.deserializers.append(deserializer)
        return self

    def to_dictionary(self) -> dict[str, Any]:
        """Return the block of a recipe.

        Raises:
            ValueError: settings exclude each other.
        """
        self._check()
        samples = self.randomization_window_in_samples
        random = bool(samples or self.randomization_window_in_chunks)
        made: dict[str, Any] = {
            "deserializers": list(self.deserializers),
            "randomize": random,
            "multiThreadedDeserialization": self.is_multithreaded.value,
            "traceLevel": self.trace_level,
            "frameMode": self.is_frame_mode_enabled,
        }
        if random:
            made["randomizationWindow"] = samples or self.randomization_window_in_chunks
            made["sampleBasedRandomizationWindow"] = bool(samples)
            made["randomizationSeed"] = self.randomization_seed
        if self.truncation_length:
            made.update(truncated=True, truncationLength=self.truncation_length)
        if self.max_errors:
            made["maxErrors"] = self.max_errors
        return made

    def _check(self) -> None:
        if INFINITELY_REPEAT not in (self.max_samples, self.max_sweeps):
            raise ValueError("max_samples and max_sweeps exclude each other")
        if self.randomization_window_in_chunks and self.randomization_window_in_samples:
            raise ValueError("a window of a random order counts chunks or samples, not both")
        if self.is_frame_mode_enabled and self.truncation_length:
            raise ValueError("frames alone cannot be cut: frame_mode and truncation_length exclude each other")


def to_dictionary(config: MinibatchSourceConfig) -> dict[str, Any]:
    """Return the settings as the block of a recipe. Raises ValueError: they exclude each other."""
    return config.to_dictionary()
