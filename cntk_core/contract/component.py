"""What every plugin class has in common: its options, its interface version, whether it can run here."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

import attrs

API_VERSION = "1.0"
"""Version of the plugin interface. A plugin's major must be equal and its minor not newer."""


@attrs.frozen
class Available:
    """The component can run on this machine. ``detail`` is one line for people (threads, libraries)."""

    detail: str = ""


@attrs.frozen
class Unavailable:
    """The component cannot run here: why, and the one line that mends it."""

    reason: str
    hint: str = ""


@attrs.frozen
class NoOptions:
    """Options of a component that has none."""


class Component(ABC):
    """Base of every plugin class.

    ``options`` is an attrs class; the configuration block is checked against its fields. ``requires_api`` is the
    interface version that the plugin was written for, such as ``"1.0"``.
    """

    options: ClassVar[type] = NoOptions
    requires_api: ClassVar[str]

    @classmethod
    def configure(cls, block: Any, what: str) -> Any:
        """Make the options from a configuration block (a ``Config``); ``what`` names the component in errors.

        A component whose block has sub-blocks of free names (a reader's streams) overrides this.
        """
        return block.bind(cls.options, what=what)

    @classmethod
    def availability(cls) -> Available | Unavailable:
        """Say whether this component can run on this machine. Must not raise and must be quick."""
        return Available()
