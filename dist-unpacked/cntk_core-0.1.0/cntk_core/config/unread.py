"""Keys of a recipe that nothing reads: old programs' keys, or slips of the pen that look like no other key."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from cntk_core.errors import Location, OptionError, raise_problems

STRICT = "strict"
"""Key of the top level, or of the command line: each key that nothing reads is an error."""


@attrs.frozen
class UnreadKey:
    """A key that nothing reads: how it is spelled, whose block it stands in, where."""

    key: str
    what: str
    where: Location

    def __str__(self) -> str:
        return f"'{self.key}' of {self.what} ({self.where})"


@attrs.frozen(eq=False)
class UnreadKeys:
    """What the blocks of one recipe had that nothing reads, and all options that they could have had.

    The top level of a recipe that is run has one; without it each such key is an error at once.
    """

    _options: dict[str, dict[str, None]] = attrs.field(factory=dict, init=False)
    _found: dict[UnreadKey, None] = attrs.field(factory=dict, init=False)
    _told: set[UnreadKey] = attrs.field(factory=set, init=False)

    def offer(self, what: str, keys: Iterable[str]) -> None:
        """Note the options of a block, so that one in the wrong block is known."""
        for key in keys:
            self._options.setdefault(key.lower(), {})[what] = None

    def owner(self, key: str, what: str) -> str:
        """Return whose option a key is, if not that of the block where it stands; otherwise an empty text."""
        return next((owner for owner in self._options.get(key.lower(), ()) if owner != what), "")

    def add(self, key: str, what: str, where: Location) -> None:
        """Note a key that nothing reads; the same one may be found any number of times."""
        self._found[UnreadKey(key, what, where)] = None

    def take(self) -> str:
        """Return a line about all keys that were found since the last call; empty if there are none.

        Raises:
            OptionError, Problems: a block that was read later has such an option, so it stands in the wrong place.
        """
        found = [unread for unread in self._found if unread not in self._told]
        self._told.update(found)
        errors = [
            misplaced(unread.key, unread.what, unread.where, owner)
            for unread in found
            if (owner := self.owner(unread.key, unread.what))
        ]
        raise_problems(errors)
        listed = ", ".join(map(str, found))
        return f"Note: nothing reads these keys (with {STRICT}=true they are errors): {listed}" if found else ""


def misplaced(key: str, what: str, where: Location, owner: str) -> OptionError:
    """Return the error that a key stands in the wrong block."""
    return OptionError(
        f"{what} has no option '{key}', but {owner} has", where=where, hint="Move it there, or remove it."
    )
