"""What ``new`` makes in a recipe that is BrainScript as a whole: actions and their parts.

Rules of the original: docs/original-rules.md#brainscript-objects.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cntk_builder_brainscript.host import KINDS, NetworkRuntime
from cntk_builder_brainscript.values import RecipeObject, Record
from cntk_core.api import Location

ACTIONS: Mapping[str, str] = {"TrainAction": "train", "PrintAction": "PrintAction", "FailAction": "FailAction"}
"""Kinds of actions, and what ``action=`` calls them."""

PARTS = ("SGDOptimizer", "DataReaderPlugin")
"""Kinds that are no more than the record after ``new``."""


class RecipeRuntime(NetworkRuntime):
    """The runtime of whole recipes: nodes and networks, and also actions."""

    @property
    def kinds(self) -> Collection[str]:
        """The kinds that ``new`` accepts here."""
        return (*KINDS, *ACTIONS, *PARTS)

    def names_from_root(self, kind: str) -> bool:
        """Whether what is inside of ``new kind [...]`` is named without the path to it."""
        return kind in KINDS and super().names_from_root(kind)

    def make(self, kind: str, arguments: Record, path: str, where: Location) -> object:
        """Return the object of ``new kind arguments``. Raises CntkError, Problems: its arguments are wrong."""
        if kind in KINDS:
            return super().make(kind, arguments, path, where)
        return RecipeObject(kind, arguments, where) if kind in ACTIONS else arguments

    def member(self, value: object, name: str) -> object:
        """Return a member of an object, a network or a node, ``None`` if there is no such member."""
        return value.arguments.find(name) if isinstance(value, RecipeObject) else super().member(value, name)

    def members(self, value: object) -> Collection[str]:
        """The names of the members of an object, a network or a node."""
        return value.arguments.names() if isinstance(value, RecipeObject) else super().members(value)

    def describe(self, value: object) -> str:
        """Return a few words for a value, for messages."""
        return f"new {value.kind} [...]" if isinstance(value, RecipeObject) else super().describe(value)
