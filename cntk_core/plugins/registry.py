"""The registry: one table of names for each kind of component, and the operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from cntk_core.contract.action import Action
from cntk_core.contract.builder import NetworkBuilder
from cntk_core.contract.component import Component, Unavailable
from cntk_core.contract.dataset import Dataset
from cntk_core.contract.engine import ExecutionEngine
from cntk_core.contract.initializer import ParameterInitializer
from cntk_core.contract.learner import Learner
from cntk_core.contract.model_format import ModelFormat
from cntk_core.contract.parallel import Communicator, GradientAggregation, Parallelizer, RankLauncher
from cntk_core.contract.reader import DataReader
from cntk_core.contract.schedule import EpochSchedule
from cntk_core.contract.verb import Verb
from cntk_core.contract.writer import DataWriter
from cntk_core.errors import (
    AmbiguousPluginError,
    BrokenPluginError,
    Location,
    MissingPluginError,
    PluginError,
    PluginUnavailableError,
    nearest,
)
from cntk_core.plugins.discovery import VERBS_GROUP
from cntk_core.plugins.known import known
from cntk_core.plugins.offer import HERE, ComponentOffer, Kind, Source, at
from cntk_core.plugins.precedence import Preferences, Switch
from cntk_core.plugins.took_part import Asked

if TYPE_CHECKING:
    from cntk_core.plugins.third_party_kernels import Kernels
    from cntk_core.plugins.third_party_ops import Operations

C = TypeVar("C", bound=Component)

ENGINE = Kind("engine", "cntk.engines", ExecutionEngine)
BUILDER = Kind("builder", "cntk.builders", NetworkBuilder)
READER = Kind("reader", "cntk.readers", DataReader)
WRITER = Kind("writer", "cntk.writers", DataWriter)
LEARNER = Kind("learner", "cntk.learners", Learner)
PARALLELIZER = Kind("parallelizer", "cntk.parallelizers", Parallelizer)
AGGREGATION = Kind("aggregation", "cntk.aggregations", GradientAggregation)
COMMUNICATOR = Kind("communicator", "cntk.communicators", Communicator)
ACTION = Kind("action", "cntk.actions", Action)
VERB = Kind("verb", VERBS_GROUP, Verb)
MODEL_FORMAT = Kind("model format", "cntk.model_formats", ModelFormat)
INITIALIZER = Kind("initializer", "cntk.initializers", ParameterInitializer)
SCHEDULE = Kind("schedule", "cntk.schedules", EpochSchedule)
DATASET = Kind("data set", "cntk.datasets", Dataset)
LAUNCHER = Kind("launcher", "cntk.launchers", RankLauncher)
KINDS = tuple(value for value in list(vars().values()) if isinstance(value, Kind))


class Lazy(Protocol):
    """Something that loads a class when asked, such as ``importlib.metadata.EntryPoint``."""

    @property
    def value(self) -> str:
        """``module:attribute``."""

    def load(self) -> Any:
        """Import and return it."""


Scan = Callable[[], Iterable[tuple[str, Lazy, Source]]]


class ComponentTable(Generic[C]):
    """The components of one kind, by the word that a recipe writes. Case does not count; CNTK's spelling is kept.

    Of several sources that offer one name, the one is taken that the command line, the recipe or else this project
    stands for (:class:`~cntk_core.plugins.precedence.Rank`); two equal ones are an error when the name is asked for.
    ``wheel-name:component`` says which one is meant.
    """

    def __init__(self, kind: Kind, registry: Registry) -> None:
        self.kind = kind
        self._registry = registry
        self._offers: list[ComponentOffer[C]] = []
        self._scans: list[Scan] = []

    def add(self, name: str, component: type[C] | Lazy, source: Source | None = None) -> None:
        """Offer a class, or something that loads one, under a name."""
        if isinstance(component, type):
            target, fetch = f"{component.__module__}:{component.__qualname__}", lambda: component
        else:
            target, fetch = component.value, component.load
        offer: ComponentOffer[C] = ComponentOffer(
            self.kind.word, name, source or self._registry.source, target, fetch, kind=self.kind
        )
        if not any(_same(offer, known) for known in self._offers):
            self._offers.append(offer)

    def add_scan(self, scan: Scan) -> None:
        """Offer names that are looked up when the table is first asked for anything."""
        self._scans.append(scan)

    def offers(self) -> tuple[ComponentOffer[C], ...]:
        """Everything that is offered and not switched off, in the order of names. Nothing is loaded."""
        return tuple(offer for offer in self.all_offers() if self.off(offer) is None)

    def all_offers(self) -> tuple[ComponentOffer[C], ...]:
        """Everything that is offered, also what is switched off, in the order of names. Nothing is loaded."""
        while self._scans:
            for name, entry, source in self._scans.pop(0)():
                self.add(name, entry, source)
        return tuple(sorted(self._offers, key=lambda offer: (offer.name.casefold(), offer.source.name)))

    def off(self, offer: ComponentOffer[C]) -> Switch | None:
        """Return what switches an offer off, None if it is on."""
        return self._registry.preferences.off(self.kind.word, offer.name, offer.source)

    def names(self) -> tuple[str, ...]:
        """The names that are offered, each once. Nothing is loaded."""
        return tuple({offer.name.casefold(): offer.name for offer in reversed(self.offers())}.values())[::-1]

    def __contains__(self, name: str) -> bool:
        return bool(self._matching(name))

    def find(self, name: str, where: Location | None = None) -> ComponentOffer[C]:
        """Return the one offer of a name, without loading it.

        Raises:
            MissingPluginError: nothing installed offers it.
            AmbiguousPluginError: two do, and none of them comes before the other.
        """
        found = self._matching(name)
        if not found:
            raise self._missing(name, where)
        rank = self._registry.preferences.rank
        least = min(rank(offer.source) for offer in found)
        first = [offer for offer in found if rank(offer.source) == least]
        if len(first) > 1:
            raise _ambiguous(first, where)
        return first[0]

    def get(self, name: str, where: Location | None = None) -> type[C]:
        """Return the class of a name, checked: right kind, right interface version, able to run here.

        Args:
            name: as the recipe writes it, or ``wheel-name:component``.
            where: the place in the recipe, for messages.

        Raises:
            MissingPluginError, AmbiguousPluginError, BrokenPluginError, IncompatiblePluginError,
            PluginUnavailableError: each says how to mend it.
        """
        return self._usable(self.find(name, where), where)

    def _usable(self, offer: ComponentOffer[C], where: Location | None) -> type[C]:
        component = offer.get(where)
        answer = offer.availability()
        if isinstance(answer, PluginError):
            raise at(answer, where)
        if isinstance(answer, Unavailable):
            raise PluginUnavailableError(
                f"{offer.word} '{offer.name}' is installed but cannot run here: {answer.reason}",
                where=where,
                hint=answer.hint or None,
            )
        self._registry.asked.note(offer)
        return component

    def usable(self) -> tuple[str, ...]:
        """Names of the components that load and can run here. Loads all of them; the others are left out."""
        sound: list[str] = []
        for name in self.names():
            try:
                offer = self.find(name)
            except PluginError:  # two equal ones
                continue
            if not isinstance(offer.availability(), PluginError | Unavailable):
                sound.append(offer.name)
        return tuple(sound)

    def _matching(self, name: str) -> list[ComponentOffer[C]]:
        return [offer for offer in self._named(name) if self.off(offer) is None]

    def _named(self, name: str) -> list[ComponentOffer[C]]:
        qualifier, _, word = name.rpartition(":")
        return [
            offer
            for offer in self.all_offers()
            if offer.name.casefold() == word.casefold() and (not qualifier or offer.source.answers_to(qualifier))
        ]

    def _missing(self, name: str, where: Location | None) -> MissingPluginError:
        word = self.kind.word
        of_ours = known(self.kind.group)
        installed = self.names()
        guess = nearest(name, installed)
        wheel_name = name.casefold() if name.casefold() in of_ours else None
        off = self._off_line(name)
        if off:
            return MissingPluginError(f"{word} '{name}' is switched off", where=where, hint=off)
        message = f"no {word} named '{name}'"
        lines: list[str] = []
        if wheel_name is None and guess is not None:
            message += f"; did you mean '{guess}'?"
        elif wheel_name is None and (near := nearest(name, [spelt for spelt, _ in of_ours.values()])) is not None:
            message += f"; did you mean '{near}'?"
            wheel_name = near.casefold()
        requirement = ""
        if wheel_name is not None:
            wheel = of_ours[wheel_name][1]
            message += (
                f"{'' if message.endswith('?') else '.'} It lives in {wheel.name}:"
                if wheel.released
                else f"{'' if message.endswith('?') else '.'} It will live in {wheel.name}, which is not released yet."
            )
            lines += [wheel.pip_line] if wheel.released else []
            requirement = wheel.requirement if wheel.released else ""
        lines.append(self._installed_line())
        lines += self._registry.notes
        return MissingPluginError(message, where=where, hint="\n".join(lines), requirement=requirement)

    def nothing(self, where: Location | None = None, group: str = "") -> MissingPluginError:
        """Return the error that says that nothing of this kind is there, and which wheels of ours have it.

        Args:
            where: the place in the recipe.
            group: only those wheels that offer something in this group of entry points, too.
        """
        found = {wheel for _, wheel in known(group or self.kind.group).values() if wheel.released}
        wheels = sorted(found, key=lambda wheel: (bool(wheel.extra), wheel.name))  # those first that need least
        message = f"no {self.kind.word} that could be taken is installed" + (": install one of ours" if wheels else "")
        lines = [*(wheel.pip_line for wheel in wheels), self._installed_line(), *self._registry.notes]
        first = wheels[0].requirement if wheels else ""
        return MissingPluginError(message, where=where, hint="\n".join(lines), requirement=first)

    def _off_line(self, name: str) -> str:
        """Say who offers a name and is switched off; empty if nobody is."""
        found = [(offer, switch) for offer in self._named(name) if (switch := self.off(offer)) is not None]
        return "\n".join(f"{offer.source} has it; {switch.by} leaves it out" for offer, switch in found)

    def _installed_line(self) -> str:
        by_source: dict[Source, list[str]] = {}
        for offer in self.offers():
            by_source.setdefault(offer.source, []).append(offer.name)
        if not by_source:
            return f"no {self.kind.word} is installed"
        listed = ", ".join(f"{', '.join(names)} ({source})" for source, names in by_source.items())
        return f"installed {self.kind.word}s: {listed}"


def _same(left: ComponentOffer[Any], right: ComponentOffer[Any]) -> bool:
    return (left.name, left.source, left.target) == (right.name, right.source, right.target)


def _ambiguous(offers: list[ComponentOffer[Any]], where: Location | None) -> PluginError:
    first = offers[0]
    sources = list(dict.fromkeys(offer.source for offer in offers))
    if len(sources) == 1:
        targets = " and ".join(offer.target for offer in offers)
        return BrokenPluginError(f"{first.title} is offered twice, as {targets}", where=where)
    wheels = " and ".join(str(source) for source in sources)
    choices = " or ".join(f"'{source.qualifier}:{first.name}'" for source in sources)
    return AmbiguousPluginError(
        f"{first.word} '{first.name}' is offered by {wheels}",
        where=where,
        hint=f"Write which one you mean: {choices}, or leave the other out: --no-plugin {sources[-1].qualifier}",
    )


class Registry:
    """What plugins add to and everybody else reads from.

    Attributes:
        engines, builders, readers, writers, learners, parallelizers, aggregations, communicators, actions, verbs,
            model_formats, initializers, schedules, datasets, launchers: the components by name.
        preferences: who comes before whom, and what is switched off.
        notes: lines that every message about a missing name ends with (why discovery is limited).
        source: who is registering at the moment.
        asked: what the job that runs has asked for.
    """

    def __init__(self) -> None:
        self.source = HERE
        self.preferences = Preferences()
        self.asked = Asked()
        self.notes: list[str] = []
        self.engines: ComponentTable[ExecutionEngine] = ComponentTable(ENGINE, self)
        self.builders: ComponentTable[NetworkBuilder] = ComponentTable(BUILDER, self)
        self.readers: ComponentTable[DataReader] = ComponentTable(READER, self)
        self.writers: ComponentTable[DataWriter] = ComponentTable(WRITER, self)
        self.learners: ComponentTable[Learner] = ComponentTable(LEARNER, self)
        self.parallelizers: ComponentTable[Parallelizer] = ComponentTable(PARALLELIZER, self)
        self.aggregations: ComponentTable[GradientAggregation] = ComponentTable(AGGREGATION, self)
        self.communicators: ComponentTable[Communicator] = ComponentTable(COMMUNICATOR, self)
        self.actions: ComponentTable[Action] = ComponentTable(ACTION, self)
        self.verbs: ComponentTable[Verb] = ComponentTable(VERB, self)
        self.model_formats: ComponentTable[ModelFormat] = ComponentTable(MODEL_FORMAT, self)
        self.initializers: ComponentTable[ParameterInitializer] = ComponentTable(INITIALIZER, self)
        self.schedules: ComponentTable[EpochSchedule] = ComponentTable(SCHEDULE, self)
        self.datasets: ComponentTable[Dataset] = ComponentTable(DATASET, self)
        self.launchers: ComponentTable[RankLauncher] = ComponentTable(LAUNCHER, self)
        self._operations: Operations | None = None
        self._op_scans: list[Scan] = []
        self._kernels: Kernels | None = None
        self._kernel_scans: list[Scan] = []

    @property
    def tables(self) -> tuple[ComponentTable[Any], ...]:
        """All component tables."""
        return tuple(value for value in vars(self).values() if isinstance(value, ComponentTable))

    def table(self, word: str) -> ComponentTable[Any]:
        """Return the table of a kind (``reader``)."""
        return next(table for table in self.tables if table.kind.word == word)

    @property
    def ops(self) -> Operations:
        """The operations: the core's, those that were added, and those of installed wheels."""
        if self._operations is None:
            from cntk_core.plugins.third_party_ops import Operations

            self._operations = Operations(self, self._op_scans)
        return self._operations

    def add_op_scan(self, scan: Scan) -> None:
        """Offer ops that are looked up when one is asked for; the op table is not made before that."""
        self._op_scans.append(scan)

    @property
    def kernels(self) -> Kernels:
        """The kernels of ops, by engine: those that were added, and those of installed wheels."""
        if self._kernels is None:
            from cntk_core.plugins.third_party_kernels import Kernels

            self._kernels = Kernels(self, self._kernel_scans)
        return self._kernels

    def add_kernel_scan(self, scan: Scan) -> None:
        """Offer kernels that are looked up when an engine wants some."""
        self._kernel_scans.append(scan)

    @contextmanager
    def provided_by(self, source: Source) -> Iterator[None]:
        """Within, what is added without a source comes from this one."""
        before, self.source = self.source, source
        try:
            yield
        finally:
            self.source = before
