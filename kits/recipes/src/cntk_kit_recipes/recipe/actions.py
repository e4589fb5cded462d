"""The actions of a recipe, as the plugins of a run offer them."""

from __future__ import annotations

from cntk_core.config import Value
from cntk_core.contract.action import Action
from cntk_core.errors import ConfigError, MissingPluginError
from cntk_core.plugins.offer import ComponentOffer
from cntk_core.plugins.registry import Registry

TRAIN = "train"
"""The action whose epochs CNTK's progress lines count."""


def find(action: Value, command: str, registry: Registry) -> Action:
    """Return the action that a command section names.

    Raises:
        ConfigError: there is no such action.
        PluginError: it is broken, cannot run here, or two plugins offer it.
    """
    name = action.string()
    try:
        return registry.actions.get(name, where=action.where)()
    except MissingPluginError as error:
        raise _unknown(name, command, registry, error) from None


def _unknown(name: str, command: str, registry: Registry, error: MissingPluginError) -> ConfigError:
    """Return what is said of an action that nobody offers, in the original's words."""
    more = error.message.removeprefix(f"no action named '{name}'")
    listed = f"Actions: {', '.join(registry.actions.names())}"
    lines = [listed if line.startswith("installed actions: ") else line for line in (error.hint or "").splitlines()]
    return ConfigError(
        f"unknown action: {name}  in command set: {command}{more}", where=error.where, hint="\n".join(lines)
    )


def same_action(name: str, registry: Registry) -> tuple[str, ...]:
    """Return all names of an action, that which was given first: ``train`` and ``trainRNN``. Nothing is loaded."""
    offers = registry.actions.offers()
    asked: list[ComponentOffer[Action]] = [offer for offer in offers if offer.name.casefold() == name.casefold()]
    targets = {(offer.source, offer.target) for offer in asked}
    return (name, *(offer.name for offer in offers if (offer.source, offer.target) in targets and offer not in asked))
