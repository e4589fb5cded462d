"""How network descriptions find initializers by their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cntk_core.contract.initializer import InitializerSettings
from cntk_core.errors import BuildError, MissingPluginError, did_you_mean
from cntk_core.network.initializers import Initializer

if TYPE_CHECKING:
    from cntk_core.plugins.registry import Registry


def make_initializer(registry: Registry, kind: str, settings: InitializerSettings) -> Initializer:
    """Return what a parameter is declared with.

    Args:
        registry: has the initializers.
        kind: the word in the description; case does not count.
        settings: what stands beside it.

    Raises:
        BuildError: there is no such initializer, or what it needs is not given.
        PluginError: it is broken, or two plugins offer it.
    """
    table = registry.initializers
    try:
        found = table.get(kind, where=settings.where)
    except MissingPluginError as error:
        names = table.names()
        install = [line for line in (error.hint or "").splitlines() if line.startswith("pip install ")]
        raise BuildError(
            f"there is no initializer '{kind}'{did_you_mean(kind, names)}",
            where=settings.where,
            hint="\n".join([*install, f"Initializers: {', '.join(names)}"]),
        ) from None
    return found.make(kind, settings)
