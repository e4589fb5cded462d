"""Who of several that offer one name is meant, and who is switched off."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from enum import IntEnum

import attrs

from cntk_core.plugins.known import wheel_names
from cntk_core.plugins.offer import HERE, Source, normal_name

USED, DISABLED = "plugins", "disabledPlugins"
"""Keys at the top of a recipe: files and wheels that come before others, and what is switched off."""


class Rank(IntEnum):
    """How much a source counts; the least number is taken."""

    PROGRAM = 0
    """A program or a notebook cell has registered it."""
    COMMAND_LINE = 1
    """``--plugin`` names it."""
    RECIPE = 2
    """The recipe's ``plugins`` name it."""
    FIRST_PARTY = 3
    """It is a wheel of this project."""
    OTHER = 4


@functools.cache
def _ours() -> frozenset[str]:
    return frozenset(map(normal_name, wheel_names()))


def is_first_party(wheel: str) -> bool:
    """Whether a wheel is one of this project."""
    name = normal_name(wheel)
    return name == "cntk-core" or name in _ours()


@attrs.frozen
class Switch:
    """Something that is switched off.

    Attributes:
        text: a wheel, a file, ``wheel:name`` or ``kind:name``.
        by: who says so, for messages: ``--no-plugin x``.
    """

    text: str
    by: str

    def covers(self, word: str, name: str, source: Source) -> bool:
        """Whether it means what a source offers under a name.

        Args:
            word: the kind of thing (``learner``, ``ops``, ``hooks``).
            name: what it is offered as.
            source: who offers it.
        """
        if source.answers_to(self.text):
            return True
        owner, colon, wanted = self.text.rpartition(":")
        if not colon or wanted.casefold() != name.casefold():
            return False
        return source.answers_to(owner) or owner.casefold().removesuffix("s") == word.casefold().removesuffix("s")


class Preferences:
    """What the command line and the recipe say of plugins.

    Attributes:
        switches: what is switched off.
    """

    def __init__(self) -> None:
        self.switches: list[Switch] = []
        self._named: list[tuple[str, Rank]] = []

    def switch_off(self, texts: Iterable[str], by: str) -> None:
        """Switch something off.

        Args:
            texts: a wheel, a file, ``wheel:name`` or ``kind:name`` each.
            by: what says so; the text follows it in messages.
        """
        self.switches += [Switch(text, f"{by}{text}") for text in texts]

    def prefer(self, name: str, rank: Rank) -> None:
        """Let a wheel or a file count as much as a rank says."""
        self._named.append((name, rank))

    def rank(self, source: Source) -> Rank:
        """How much a source counts."""
        if source == HERE:
            return Rank.PROGRAM
        named = [rank for name, rank in self._named if source.answers_to(name)]
        if named:
            return min(named)
        return Rank.FIRST_PARTY if source.is_wheel and is_first_party(source.name) else Rank.OTHER

    def off(self, word: str, name: str, source: Source) -> Switch | None:
        """Return what switches something off, None if it is on."""
        return next((switch for switch in self.switches if switch.covers(word, name, source)), None)
