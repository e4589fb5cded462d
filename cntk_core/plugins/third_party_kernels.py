"""The kernels of ops: those that were added, and those of installed wheels, an engine's own wheel included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import attrs

from cntk_core.errors import PluginError
from cntk_core.ops.kernel import Kernel
from cntk_core.plugins.listening import warn
from cntk_core.plugins.offer import Offer, Source

if TYPE_CHECKING:
    from cntk_core.contract.engine import ExecutionEngine
    from cntk_core.plugins.precedence import Switch
    from cntk_core.plugins.registry import Registry, Scan


@attrs.define(eq=False)
class KernelsOffer(Offer[tuple[Kernel, ...]]):
    """An offer of one kernel, or of a module or list of them. Its name is the engine's: ``xla`` or ``xla.anything``."""

    @property
    def engine(self) -> str:
        """The engine that it is for."""
        return self.name.partition(".")[0].casefold()

    def examine(self, value: Any) -> tuple[Kernel, ...] | PluginError:
        """Return the kernels of what was loaded."""
        found = tuple(dict.fromkeys(_kernels_in(value)))
        if not found:
            what = f"the module {value.__name__}" if isinstance(value, ModuleType) else f"a {type(value).__name__}"
            return self.broken(
                f"has no kernels: {self.target} is {what}",
                hint="The entry point must name what kernel(engine, op) made, or a module or list of such.",
            )
        strange = next((each for each in found if each.engine != self.engine), None)
        if strange is not None:
            return self.broken(
                f"has a kernel for the engine '{strange.engine}', that of {strange.op.name}",
                hint=f"Name the entry point of the kernels for an engine after it: {strange.engine} = ...",
            )
        return found


def kernels_of(module: ModuleType) -> tuple[Kernel, ...]:
    """Return the kernels that are variables of a module, or stand in lists that are."""
    return tuple(dict.fromkeys(_kernels_in(module)))


def _kernels_in(value: Any) -> Iterator[Kernel]:
    if isinstance(value, Kernel):
        yield value
    elif isinstance(value, ModuleType):
        for each in vars(value).values():
            if isinstance(each, Kernel | list | tuple):
                yield from _kernels_in(each)
    elif isinstance(value, list | tuple):
        yield from (each for each in value if isinstance(each, Kernel))


class Kernels:
    """All kernels, by engine. A wheel is loaded only when kernels for its engine are asked for."""

    def __init__(self, registry: Registry, scans: list[Scan]) -> None:
        self._registry = registry
        self._added: list[tuple[Source, Kernel]] = []
        self._scans = scans
        self._offers: list[KernelsOffer] = []

    def add(self, kernel: Kernel, source: Source | None = None) -> Kernel:
        """Add a kernel and return it. It is asked before those of wheels, and the one added last before the others."""
        self._added.insert(0, (source or self._registry.source, kernel))
        return kernel

    def offers(self) -> tuple[KernelsOffer, ...]:
        """What wheels offer, in the order of names. Nothing is loaded."""
        while self._scans:
            for name, entry, source in self._scans.pop(0)():
                self._offers.append(KernelsOffer("kernels", name, source, entry.value, entry.load))
        return tuple(sorted(self._offers, key=lambda offer: (offer.name.casefold(), offer.source.name)))

    def off(self, offer: KernelsOffer) -> Switch | None:
        """Return what switches an offer off, None if it is on."""
        return self._registry.preferences.off(offer.word, offer.name, offer.source)

    def added(self) -> tuple[tuple[Source, Kernel], ...]:
        """The kernels that were added, with who has them."""
        return tuple(self._added)

    def of(self, engine: type[ExecutionEngine], report: Callable[[str], None] = warn) -> tuple[Kernel, ...]:
        """Return the kernels for an engine, in the order in which they are asked.

        Args:
            engine: a class that the registry has found by its name.
            report: is told, once, of kernels of a wheel that cannot be used; they are left out.
        """
        names = {
            offer.name.casefold()
            for offer in self._registry.engines.offers()
            if offer.loaded and offer.outcome() is engine
        }
        found = [kernel for _, kernel in self._added if kernel.engine in names]
        for offer in self.offers():
            if offer.engine not in names or self.off(offer) is not None:
                continue
            first, outcome = not offer.loaded, offer.outcome()
            if not isinstance(outcome, PluginError):
                found += outcome
            elif first:
                report(f"{outcome}\n    They are left out.")
        return tuple(found)
