"""Which plugins took part in a job: those that were asked for, the ops of its network, and hooks that may change it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cntk_core.plugins.discovery import OWN_WHEELS
from cntk_core.records.origin import Origin

if TYPE_CHECKING:
    from cntk_core.network.network import Network
    from cntk_core.plugins.manager import PluginManager
    from cntk_core.plugins.offer import ComponentOffer, Source

CHANGING = (
    *("cntk_register", "cntk_configure", "cntk_choose_engine", "cntk_network_built", "cntk_learning_rate"),
    *("cntk_minibatch_read", "cntk_before_update", "cntk_should_stop"),
)
"""Hooks by which a plugin may change what comes out. Files do not name who only watches: whether TensorBoard is
installed makes no other model."""

PASSING = ("action", "verb", "model format", "communicator")
"""Kinds that do not make the model what it is: sums are the same to the last bit whatever carries them."""


class Asked:
    """The components that a job has asked for."""

    def __init__(self) -> None:
        self._offers: list[ComponentOffer[Any]] = []

    def note(self, offer: ComponentOffer[Any]) -> None:
        """A component is going to be used. Of engines, the last one counts: the others were only looked at."""
        self._offers = [one for one in self._offers if one is not offer and not one.word == offer.word == "engine"]
        self._offers.append(offer)

    def begin(self) -> None:
        """A job begins."""
        self._offers = []

    def origins(self) -> Iterator[Origin]:
        """Yield where they came from."""
        for offer in self._offers:
            if offer.word not in PASSING:
                yield from _origin(offer.word, offer.name, offer.source)


def origins_of(plugins: PluginManager, network: Network) -> tuple[Origin, ...]:
    """Return the plugins that took part in a job so far, without what is of the core's own wheel."""
    found = {*plugins.registry.asked.origins(), *op_origins(plugins, network), *_hook_origins(plugins)}
    return tuple(sorted(found))


def op_origins(plugins: PluginManager, network: Network) -> Iterator[Origin]:
    """Yield the ops of plugins that a network has."""
    used = {id(node.op) for node in network}
    for source, op in plugins.registry.ops.added():
        if id(op) in used:
            yield from _origin("op", op.name, source)


def _hook_origins(plugins: PluginManager) -> Iterator[Origin]:
    callers = [caller for name in CHANGING if (caller := getattr(plugins.hook, name, None)) is not None]
    changing = {id(one.plugin) for caller in callers for one in caller.get_hookimpls()}
    for offer in plugins.hooks_offers:
        if offer.loaded and plugins.hooks_problem(offer) is None and id(offer.outcome()) in changing:
            yield from _origin("hooks", offer.name, offer.source)
    for plugin, source in plugins.hooks_of_files:
        if id(plugin) in changing:
            yield from _origin("hooks", Path(source.name).stem, source)


def _origin(kind: str, name: str, source: Source) -> Iterator[Origin]:
    if source.name not in OWN_WHEELS and (source.is_wheel or source.name.endswith(".py")):
        yield Origin(kind, name, source.qualifier, source.version)
