"""An offer: a name that some wheel or file claims, loaded when it is asked for. Trouble with it is a value."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import attrs

from cntk_core.contract.component import API_VERSION, Available, Component, Unavailable
from cntk_core.errors import BrokenPluginError, Location, PluginError
from cntk_core.plugins.places import (
    CORE,
    HERE,
    Source,
    Taken,
    last_line,
    normal_name,
    reason_of,
    remedy_for,
    same_wheel,
    short_place,
)
from cntk_core.plugins.requirements import unmet_requirement, wrong_interface, wrong_module

__all__ = [
    "CORE",
    "HERE",
    "ComponentOffer",
    "HooksOffer",
    "Kind",
    "Offer",
    "Source",
    "at",
    "import_failure",
    "last_line",
    "normal_name",
    "reason_of",
    "remedy_for",
    "same_wheel",
    "short_place",
]

T = TypeVar("T")
C = TypeVar("C", bound=Component)


@attrs.frozen
class Kind:
    """One of the kinds of components: its word in messages, its entry-point group, its abstract base."""

    word: str
    group: str
    base: type

    @property
    def key(self) -> str:
        """``model_format`` of the group ``cntk.model_formats``: by it wheels of ours are known."""
        return self.group.removeprefix("cntk.").removesuffix("s")


@attrs.define(eq=False)
class Offer(ABC, Generic[T]):
    """A name, who offers it, and how to get the thing behind it.

    Attributes:
        word: kind of thing, for messages (``reader``, ``ops``, ``hooks``).
        name: as the entry point spells it.
        source: the wheel or file.
        target: what the entry point names (``cntk_reader_htk:HTKMLFReader``).
        fetch: imports and returns it.
        taken: how long that took.
    """

    word: str
    name: str
    source: Source
    target: str
    fetch: Callable[[], Any]
    taken: Taken = attrs.field(factory=Taken, init=False)
    _outcome: T | PluginError | None = attrs.field(default=None, init=False)

    @property
    def title(self) -> str:
        """``reader 'htk' from cntk-reader-htk 0.1.0``."""
        return f"{self.word} '{self.name}' from {self.source}"

    def outcome(self) -> T | PluginError:
        """Load it once, and return it or what is wrong with it. Never raises."""
        if self._outcome is None:
            self._outcome = unmet_requirement(self.title, self.source) or self._load()
        return self._outcome

    @property
    def loaded(self) -> bool:
        """Whether :meth:`outcome` was asked for."""
        return self._outcome is not None

    def get(self, where: Location | None = None) -> T:
        """Return it.

        Raises:
            BrokenPluginError, IncompatiblePluginError: with the place ``where`` it was asked for.
        """
        outcome = self.outcome()
        if isinstance(outcome, PluginError):
            raise at(outcome, where)
        return outcome

    def _load(self) -> T | PluginError:
        from cntk_core.plugins.importing import importing

        try:
            with importing(self.source, module=self.target.partition(":")[0].strip()) as self.taken:
                return self.examine(self.fetch())
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit and panics of native extensions are no Exception
            return import_failure(self, error)

    @abstractmethod
    def examine(self, value: Any) -> T | PluginError:
        """Return the loaded value if it is what the interface asks for, otherwise what is wrong with it."""

    def broken(self, message: str, hint: str | None = None) -> BrokenPluginError:
        """Make an error that begins with the title of this offer."""
        return BrokenPluginError(f"{self.title} {message}", hint=hint)


def at(error: PluginError, where: Location | None) -> PluginError:
    """Return the same error at another place, with the same cause."""
    copy = type(error)(error.message, where=where or error.where, hint=error.hint)
    copy.__cause__ = error.__cause__
    return copy


def import_failure(offer: Offer[Any], error: BaseException) -> BrokenPluginError:
    """Describe an import that failed, with the line of the plugin where it did."""
    source = offer.source
    if source.is_wheel and not _TARGET.fullmatch(offer.target):
        return offer.broken(
            f"has a malformed entry point: {offer.target!r}", hint="It is written module:Class, or module alone."
        )
    remedy = f"Mend it, or remove it: pip uninstall {source.name}" if source.is_wheel else "Mend the file."
    if isinstance(error, ModuleNotFoundError) and error.name:
        remedy = f"Install what it needs (pip install {error.name.partition('.')[0]})" + (
            f", or remove it: pip uninstall {source.name}" if source.is_wheel else "."
        )
    place = last_line(error)
    broken = offer.broken(
        f"could not be imported: {reason_of(error)}",
        hint=(f"raised by {place}: {type(error).__name__}" if place else f"its entry point is {offer.target}")
        + f"\n{remedy}",
    )
    broken.__cause__ = error
    return broken


_TARGET = re.compile(r"\s*[\w.]+\s*(:\s*[\w.]+\s*)?(\[.*\]\s*)?")
"""What an entry point may look like: a module, an attribute of it, and extras."""


@attrs.define(eq=False)
class ComponentOffer(Offer[type[C]]):
    """An offer of a component class of one kind."""

    kind: Kind = attrs.field(kw_only=True)
    _answer: Available | Unavailable | PluginError | None = attrs.field(default=None, init=False)

    def examine(self, value: Any) -> type[C] | PluginError:
        """Check that it is a complete class of its kind for this interface version."""
        base = self.kind.base
        if not (isinstance(value, type) and issubclass(value, base)):
            found = f"a {type(value).__name__}" if not isinstance(value, type) else f"the class {value.__name__}"
            return self.broken(
                f"is not {_article(base.__name__)} {base.__name__}: {self.target} is {found}",
                hint=f"The entry point must name a subclass of cntk_core.api.{base.__name__}.",
            )
        component = cast("type[C]", value)
        missing = sorted(getattr(component, "__abstractmethods__", ()))
        if missing:
            return self.broken(f"is not complete: {component.__name__} does not define {', '.join(missing)}")
        if not attrs.has(component.options):
            return self.broken(
                f"has no usable options: {component.options!r} is not an attrs class",
                hint="Decorate it with @attrs.frozen or @options.",
            )
        return self._check_version(component)

    def _check_version(self, component: type[C]) -> type[C] | PluginError:
        wanted = getattr(component, "requires_api", API_VERSION if not self.source.is_wheel else None)
        place = f"the class {component.__name__}"
        return wrong_interface(self.title, wanted, self.source, where_to_say=place) or component

    def availability(self) -> Available | Unavailable | PluginError:
        """Say whether it can run here, or what is wrong with it. Loads the class and asks it once; never raises."""
        self._answer = self._answer or self._ask()
        return self._answer

    def _ask(self) -> Available | Unavailable | PluginError:
        component = self.outcome()
        if isinstance(component, PluginError):
            return component
        try:
            answer: object = component.availability()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            place = last_line(error)
            broken = self.broken(
                f"failed when asked whether it can run here: {reason_of(error)}",
                (f"raised by {place}\n" if place else "") + remedy_for(self.source),
            )
            broken.__cause__ = error
            return broken
        if isinstance(answer, Available | Unavailable):
            return answer
        return self.broken(f"did not say whether it can run here: availability() returned {answer!r}")


def _article(word: str) -> str:
    return "an" if word[0] in "AEIOU" else "a"


@attrs.define(eq=False)
class HooksOffer(Offer[Any]):
    """An offer of hooks: a module, an object, or a class that is made without arguments."""

    def examine(self, value: Any) -> Any:
        """Make the object if a class is named. Its hooks are checked when it is registered."""
        if value is None:
            return self.broken(f"has no hooks: {self.target} is None")
        wrong = wrong_module(self.title, value, self.target, self.source)
        if wrong is not None:
            return wrong
        return value() if inspect.isclass(value) else value
