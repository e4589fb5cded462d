"""The operations: those of the core, those that were added, and those of installed wheels."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import attrs

from cntk_core.errors import AmbiguousPluginError, PluginError
from cntk_core.ops.language.op import Op
from cntk_core.ops.table import OpTable, core_ops
from cntk_core.plugins.offer import Offer, Source
from cntk_core.plugins.requirements import wrong_module

if TYPE_CHECKING:
    from cntk_core.plugins.precedence import Preferences
    from cntk_core.plugins.registry import Registry, Scan


@attrs.define(eq=False)
class OpsOffer(Offer[tuple[Op, ...]]):
    """An offer of one op, or of a module or list of them."""

    def examine(self, value: Any) -> tuple[Op, ...] | PluginError:
        """Return the ops of what was loaded."""
        wrong = wrong_module(self.title, value, self.target, self.source)
        if wrong is not None:
            return wrong
        listed = list(value) if isinstance(value, list | tuple) else [value]
        found = [op for one in listed if (op := op_behind(one)) is not None]
        if found and len(found) == len(listed):
            return tuple(found)
        if isinstance(value, ModuleType):
            ops = ops_of(value)
            return ops or self.broken(
                f"has no ops: the module {value.__name__} has none",
                hint="Make them with @elementwise_op or @define_op.",
            )
        return self.broken(
            f"is not an Op: {self.target} is a {type(value).__name__}",
            hint="The entry point must name an op of @elementwise_op or @define_op, or a module or list of them.",
        )


def op_behind(value: object) -> Op | None:
    """Return the op that a value is, or that of a class which is one: what its ``as_op()`` gives."""
    if inspect.isclass(value) and hasattr(value, "as_op") and not inspect.isabstract(value):
        value = value.as_op()
    return value if isinstance(value, Op) else None


def ops_of(module: ModuleType) -> tuple[Op, ...]:
    """Return the ops that are variables of a module, without those of the core."""
    core = {id(op) for op in core_ops()}
    values = {id(op): op for value in vars(module).values() if (op := op_behind(value)) is not None}
    return tuple(op for key, op in values.items() if key not in core)


class Operations:
    """All ops by name. Wheels are loaded only when a name is none of the core's and none that was added.

    The core's names cannot be taken. Two wheels may have the same op; that is an error only when it is asked for, and
    ``wheel-name:op`` says which one is meant.
    """

    def __init__(self, registry: Registry, scans: list[Scan]) -> None:
        self._registry = registry
        self._core = core_ops()
        self._added: dict[Source, OpTable] = {}
        self._scans = scans
        self._offers: list[OpsOffer] = []
        self._waiting: list[OpsOffer] = []
        self._refused: dict[OpsOffer, PluginError] = {}

    @property
    def preferences(self) -> Preferences:
        """Who comes before whom, and what is switched off."""
        return self._registry.preferences

    def add(self, op: Op, source: Source | None = None) -> Op:
        """Add an op and return it.

        Raises:
            PluginError: one of its names already means an op of the core or of the same source.
        """
        for language, name in _names(op):
            taken = self._core.find(language, name)
            if taken is not None:
                raise PluginError(
                    f"the name '{name}' of the op '{op.name}' already means '{taken.name}' of the core",
                    hint="Give the op another name.",
                )
        return self._added.setdefault(source or self._registry.source, OpTable()).add(op)

    def find(self, language: str, name: str) -> Op | None:
        """Return the op of a name in a language, None if there is none. Case does not count.

        Raises:
            AmbiguousPluginError: two wheels have it.
            BrokenPluginError: a wheel says that it has it, but cannot be loaded.
        """
        op = self._core.find(language, name)
        if op is None:
            op = self._find_added(language, name)
        if op is None and self._load():
            op = self._find_added(language, name)
        if op is None:
            self._raise_if_broken(name)
        return op

    def names(self, language: str) -> tuple[str, ...]:
        """All names that a language knows, sorted without regard to case. Loads the wheels."""
        self._load()
        names = {*self._core.names(language)}
        for source, table in self._added.items():
            names |= {name for name in table.names(language) if self._is_on(source, table.find(language, name))}
        return tuple(sorted(names, key=str.casefold))

    def __iter__(self) -> Iterator[Op]:
        yield from self._core
        for table in self._added.values():
            yield from table

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def offers(self) -> tuple[OpsOffer, ...]:
        """What wheels offer, in the order of names. Nothing is loaded."""
        while self._scans:
            for name, entry, source in self._scans.pop(0)():
                offer = OpsOffer("ops", name, source, entry.value, entry.load)
                self._offers.append(offer)
                self._waiting.append(offer)
        return tuple(sorted(self._offers, key=lambda offer: (offer.name.casefold(), offer.source.name)))

    def added(self) -> tuple[tuple[Source, Op], ...]:
        """The ops that were added or loaded so far, with who has them."""
        return tuple((source, op) for source, table in self._added.items() for op in table)

    def problem(self, offer: OpsOffer) -> PluginError | None:
        """Return what is wrong with an offer, None if nothing is. Loads it."""
        self._load()
        outcome = offer.outcome()
        return outcome if isinstance(outcome, PluginError) else self._refused.get(offer)

    def _find_added(self, language: str, name: str) -> Op | None:
        qualifier, _, word = name.rpartition(":")
        found = [
            (source, op)
            for source, table in self._added.items()
            if not qualifier or source.answers_to(qualifier)
            if (op := table.find(language, word)) is not None and self._is_on(source, op)
        ]
        rank = self._registry.preferences.rank
        least = min((rank(source) for source, _ in found), default=0)
        found = [(source, op) for source, op in found if rank(source) == least]
        if len(found) > 1:
            sources = " and ".join(str(source) for source, _ in found)
            choices = " or ".join(f"'{source.qualifier}:{word}'" for source, _ in found)
            raise AmbiguousPluginError(
                f"op '{word}' is offered by {sources}",
                hint=f"Write which one you mean: {choices}, or leave the other out: "
                f"--no-plugin {found[-1][0].qualifier}",
            )
        return found[0][1] if found else None

    def _is_on(self, source: Source, op: Op | None) -> bool:
        return op is not None and self._registry.preferences.off("ops", op.name, source) is None

    def _load(self) -> bool:
        """Load all wheels that were not loaded yet. Return whether there were any. Never raises."""
        self.offers()
        waiting, self._waiting = self._waiting, []
        off = self._registry.preferences.off
        waiting = [offer for offer in waiting if off("ops", offer.name, offer.source) is None]
        for offer in waiting:
            ops = offer.outcome()
            try:
                for op in () if isinstance(ops, PluginError) else ops:
                    self.add(op, offer.source)
            except PluginError as error:
                self._refused[offer] = offer.broken(f"cannot be used: {error.message}", error.hint)
        return bool(waiting)

    def _raise_if_broken(self, name: str) -> None:
        for offer in self._offers:
            if offer.name.casefold() == name.rpartition(":")[2].casefold():
                problem = self.problem(offer)
                if problem is not None:
                    raise problem


def _names(op: Op) -> Iterator[tuple[str, str]]:
    yield "", op.name
    for language, aliases in op.aliases.items():
        if language in ("", "ndl", "brainscript", "model"):
            yield from ((language, alias) for alias in (op.name, *aliases))
