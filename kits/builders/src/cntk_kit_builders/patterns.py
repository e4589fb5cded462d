"""Patterns of node names: ``L3.*``, ``*.W``, ``L1.*.FF.*``; a ``*`` stands for any text, case does not count."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from cntk_core.errors import NetworkError, did_you_mean
from cntk_core.network.network import Network
from cntk_core.network.node import Node


@attrs.frozen
class NamePattern:
    """A node name in which a ``*`` stands for any text, also for none.

    The original has one ``*`` in a pattern; here there may be several, each as short as the rest allows, the last one
    as long as it must be.

    Attributes:
        text: the pattern as it is written.
    """

    text: str
    _parts: tuple[str, ...] = attrs.field(init=False, repr=False, eq=False)

    @_parts.default
    def _split(self) -> tuple[str, ...]:
        return tuple(self.text.lower().split("*"))

    @property
    def stars(self) -> int:
        """How many ``*`` there are; a plain name has none."""
        return len(self._parts) - 1

    def match(self, name: str) -> tuple[str, ...] | None:
        """Return what each ``*`` stands for in a name, None if the name does not fit."""
        first, *rest = self._parts
        lower = name.lower()
        if not rest:
            return () if lower == first else None
        last = rest.pop()
        end = len(lower) - len(last)
        if not lower.startswith(first) or not lower.endswith(last) or len(first) > end:
            return None
        found: list[str] = []
        position = len(first)
        for part in rest:
            start = lower.find(part, position, end)
            if start < 0:
                return None
            found.append(name[position:start])
            position = start + len(part)
        return (*found, name[position:end])

    def fill(self, parts: Sequence[str]) -> str:
        """Return the name with each ``*`` replaced by a text."""
        first, *rest = self.text.split("*")
        return first + "".join(part + fixed for part, fixed in zip(parts, rest, strict=True))


def find_nodes(network: Network, pattern: str) -> list[Node]:
    """Return the nodes whose names fit a name or pattern, in the network's order.

    Raises:
        NetworkError: there are none; names the nearest.
    """
    wanted = NamePattern(pattern)
    if not wanted.stars:
        return [network[pattern]]
    found = [node for node in network if wanted.match(node.name) is not None]
    if not found:
        fixed = max(pattern.split("*"), key=len)
        names = {part: node.name for node in network for part in _parts(node.name)}
        near = did_you_mean(fixed.strip("."), names)
        raise NetworkError(f"the network has no node that fits '{pattern}'{near}")
    return found


def _parts(name: str) -> tuple[str, ...]:
    return (name, *name.split("."))


def paired_names(network: Network, source: str, target: str) -> list[tuple[Node, str]]:
    """Return the nodes that fit a pattern, each with the name that another pattern with as many ``*`` gives it.

    Raises:
        NetworkError: no node fits, or the patterns have not the same number of ``*``.
    """
    old, new = NamePattern(source), NamePattern(target)
    if old.stars != new.stars:
        raise NetworkError(
            f"'{source}' and '{target}' do not go together: the one has {old.stars} '*', the other {new.stars}",
            hint="What a '*' stands for in the first name is put in place of the '*' in the second one.",
        )
    pairs: list[tuple[Node, str]] = []
    for node in find_nodes(network, source):
        parts = old.match(node.name)
        assert parts is not None
        pairs.append((node, new.fill(parts)))
    return pairs
