"""What every plugin class has in common: its options, its interface version, whether it can run here."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any, ClassVar, final

import attrs

from cntk_core.contract.cache import Cache

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

    ``core_keys`` are keys of a block that the core itself reads, such as the one that names the component; no option
    may have one of these names. ``general_keys`` are keys that every component of the kind may be given: those that
    its ``options`` do not have never reach it.
    """

    core_keys: ClassVar[tuple[str, ...]] = ()
    general_keys: ClassVar[tuple[str, ...]] = ()

    options: ClassVar[type] = NoOptions
    requires_api: ClassVar[str]

    @classmethod
    def configure(cls, block: Any, what: str) -> Any:
        """Make the options from a configuration block (a ``Config``); ``what`` names the component in errors.

        A component whose block has sub-blocks of free names (a reader's streams) overrides this. Whoever has a block
        calls :meth:`settings_from` instead.

        Raises:
            CntkError: everything that is wrong with the block, together.
        """
        return block.bind(cls.options, what=what)

    @final
    @classmethod
    def settings_from(cls, block: Any, what: str) -> Any:
        """Take out of a block the keys that are the core's, and let :meth:`configure` make the options of the rest.

        Args:
            block: a ``Config``, as it stands in the recipe.
            what: names the component in errors.

        Raises:
            CntkError: everything that is wrong with the block, together.
        """
        rest = block.without(cls.core_keys).without(cls.general_keys, unless=cls.options)
        return cls.configure(rest, what)

    @classmethod
    def availability(cls) -> Available | Unavailable:
        """Say whether this component can run on this machine. Must not raise and must be quick."""
        return Available()

    @classmethod
    def caches(cls) -> Sequence[Cache]:
        """Return what it keeps on disk of what it has compiled: ``cntk doctor`` shows and clears it. Must not raise."""
        return ()
