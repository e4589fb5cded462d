"""Variables in which launchers tell a process that it is one of several ranks, as communicators name them.

A wheel names them in its entry points (group ``cntk.rank_variables``), so that nothing is loaded in a process that no
launcher has started, and that those of our wheels are known where these are not installed: their ranks must not train
alone, all into the same files. A plugin file, or a program that registers its communicator, has the same texts in the
class: :attr:`~cntk_core.contract.parallel.Communicator.rank_variables`.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import attrs

from cntk_core.errors import BrokenPluginError
from cntk_core.plugins.discovery import SWITCH, Discovery
from cntk_core.plugins.known import known
from cntk_core.plugins.precedence import Rank
from cntk_core.plugins.registering import registered

if TYPE_CHECKING:
    from cntk_core.contract.parallel import Communicator
    from cntk_core.plugins.registry import Registry

# The interfaces are not loaded: errors of the command line ask, too, whether there are other ranks.
COMMUNICATOR, COMMUNICATORS = "communicator", "cntk.communicators"
"""The kind, and its group of entry points."""

GROUP = "cntk.rank_variables"
"""Entry points whose names are such variables."""

FALLBACK, LAST = "fallback", "last"
"""Third parts of a name: batch systems set theirs around other launchers, too; and a communicator that takes those
which are another one's, where that is not installed."""

_PLACES = {"": 0, FALLBACK: 1, LAST: 2}


@attrs.frozen
class RankVariables:
    """Two variables that belong together. In order: those come first that count first.

    Attributes:
        rank, size: their names: which rank a process is, from 0, and how many there are.
        communicator: how such ranks find each other.
        place: 0; 1 if they count only where no other launcher's are set; 2 if another communicator comes before.
        standing: of who says so.
    """

    rank: str
    size: str
    communicator: str
    place: int = 0
    standing: Rank = Rank.OTHER

    @classmethod
    def parse(cls, text: str, communicator: str, standing: Rank = Rank.OTHER) -> RankVariables | None:
        """Return what ``RANK.SIZE``, ``RANK.SIZE.fallback`` or ``RANK.SIZE.last`` names; None for another text."""
        rank, size, *rest = [*text.split("."), ""]
        if not rank or not size or rest not in ([""], [FALLBACK, ""], [LAST, ""]):
            return None
        return cls(rank, size, communicator, _PLACES[rest[0]], standing)

    @property
    def title(self) -> str:
        """Who sets them, for messages."""
        return f"a launcher that sets {self.rank} and {self.size}"

    def found(self, environment: Mapping[str, str]) -> tuple[int, int] | None:
        """Return the rank and the number of ranks that an environment has; None if they make no sense."""
        rank, size = environment.get(self.rank, ""), environment.get(self.size, "")
        if rank.isdecimal() and size.isdecimal() and int(rank) < int(size):
            return int(rank), int(size)
        return None


_of_files: list[RankVariables] = []


def take_from(registry: Registry | None) -> None:
    """From now on, know the variables that communicators of plugin files name; without a registry, of none.

    Raises:
        BrokenPluginError: they are no names of two variables.
    """
    _of_files.clear()
    for offer in registry.communicators.offers() if registry is not None else ():
        component = None if offer.source.is_wheel else offer.outcome()
        if registry is not None and isinstance(component, type):
            _of_files.extend(_of_class(component, offer.name, registry.preferences.rank(offer.source)))


def all_rank_variables() -> list[RankVariables]:
    """Return all that are known, those first that count first."""
    own = (each for name, kind in registered(COMMUNICATOR).items() for each in _of_class(kind, name, Rank.PROGRAM))
    found = [*own, *_of_files, *_of_wheels(tuple(sys.path), os.environ.get(SWITCH, ""))]
    return sorted(found, key=lambda each: (each.standing, each.place, each.rank))


def _of_class(kind: type[Communicator], name: str, standing: Rank) -> Iterator[RankVariables]:
    for text in kind.rank_variables:
        found = RankVariables.parse(text, name, standing)
        if found is None:
            raise BrokenPluginError(
                f"the communicator '{name}' has rank_variables with {text!r}",
                hint='It is written "MY_RANK.MY_SIZE", with ".fallback" behind where other launchers count first.',
            )
        yield found


@functools.lru_cache(maxsize=1)
def _of_wheels(path: tuple[str, ...], switch: str) -> tuple[RankVariables, ...]:
    """Those of our wheels, installed or not, and of other wheels that are installed.

    ``path`` and ``switch`` are what it depends on: where modules are looked for, and which wheels may be looked at.
    """
    texts: dict[str, RankVariables | None] = {}
    ours = known(COMMUNICATORS).values()
    for text, wheel in known(GROUP).values():
        name = next((spelt for spelt, owner in ours if owner == wheel), "")
        texts[text] = RankVariables.parse(text, name, Rank.FIRST_PARTY)
    discovery = Discovery()
    names = {point.value: name for name, point, _ in discovery.entries(COMMUNICATORS)}
    for text, point, _ in discovery.entries(GROUP):
        texts.setdefault(text, RankVariables.parse(text, names.get(point.value, "")))
    return tuple(_sound(texts.values()))


def _sound(found: Iterable[RankVariables | None]) -> Iterator[RankVariables]:
    """Leave out what names no variables, or no communicator: a wheel that is wrong is no matter of other runs."""
    return (each for each in found if each is not None and each.communicator)
