"""A section of a recipe: look-up by key, through its parents, with variables filled in."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar, overload

import attrs

from cntk_core.config.evaluated import EvaluatedEntry, shown_entry
from cntk_core.config.parser import Entry, parse_entries
from cntk_core.config.schedule import Schedule
from cntk_core.config.source import SourceText
from cntk_core.config.unread import UnreadKeys
from cntk_core.config.values import Value
from cntk_core.config.variables import substitute
from cntk_core.errors import CntkError, ConfigError, Location, MissingKeyError, did_you_mean, raise_problems

T = TypeVar("T")
N = TypeVar("N", bound=float)

_MAX_DEPTH = 50
_NOT_GIVEN = "default"


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""The default of a key that must be given."""

_Trail = tuple[tuple[int, str, str], ...]


@attrs.frozen(eq=False, repr=False)
class Config:
    """A section, read-only. Keys compare without case; a key that is not here is looked for in the parents.

    Attributes:
        name: The path from the top level, ``Train:SGD``; empty at the top level.
        where: The place of the section's key; of the top level, its first file.
        parent: The section around this one, or ``None``.
        current_directory: What ``currentDirectory=`` asked for (top level only; nothing is changed by reading it).
        warnings: What was odd but legal while the text was read.
        taken: Keys that :meth:`without` has left out; one that nobody knows may be meant for one of them.
        unread: Keys of a recipe that is run which nothing reads (top level only); ``None``: they are errors.
    """

    _entries: Mapping[str, Entry | EvaluatedEntry]
    name: str = ""
    where: Location = attrs.field(factory=Location)
    parent: Config | None = None
    current_directory: Path | None = None
    warnings: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    unread: UnreadKeys | None = None
    _resolved: dict[str, SourceText] = attrs.field(factory=dict, init=False)

    @classmethod
    def from_source(
        cls, source: SourceText, *, name: str = "", where: Location | None = None, parent: Config | None = None
    ) -> Config:
        """Parse the text of a block, with or without its outer braces. Raises ConfigError."""
        expand = None if parent is None else parent.resolve
        warnings: list[str] = []
        entries = parse_entries(source, expand, warnings)
        return cls(entries, name, where or Location(source.where.file), parent, warnings=tuple(warnings))

    def __repr__(self) -> str:
        return f"<Config {self.name or 'top level'} ({self.where}): {', '.join(self.keys())}>"

    # -- what is there ------------------------------------------------------------------------------------

    def __contains__(self, key: str) -> bool:
        """Tell whether a key is given here or in a parent; the value ``default`` means that it is not."""
        return self._find((key,)) is not None

    def keys(self) -> tuple[str, ...]:
        """Return this section's own keys in the order in which they appear first, as they are spelled."""
        return tuple(entry.key for entry in self._entries.values())

    def block_names(self) -> list[str]:
        """Return this section's own keys whose values are blocks, in the order in which they appear first."""
        return [key for key in self.keys() if (value := self.own(key)) is not None and value.is_block]

    def own(self, key: str) -> Value | None:
        """Return the value of a key of this section itself, ``None`` if it is not given here."""
        entry = self._entries.get(key.lower())
        return None if entry is None or entry.value.text == _NOT_GIVEN else self._value(self, entry)

    def get(self, *keys: str) -> Value | None:
        """Return the value of a key, here or in the nearest parent that has it, or ``None``.

        Several keys are other names of the same thing: the innermost section that has one of them decides.
        """
        found = self._find(keys)
        return None if found is None else self._value(*found)

    def raw(self, key: str) -> str | None:
        """Return the text of a key as it was written, without filling in variables."""
        found = self._find((key,))
        return None if found is None else found[1].value.text

    def location(self, key: str) -> Location:
        """Return the place of a key (of this section if it is not given)."""
        for config in self.chain():
            entry = config._entries.get(key.lower())
            if entry is not None:
                return entry.where
        return self.where

    def chain(self) -> Iterator[Config]:
        """Yield this section, its parent, and so on to the top level."""
        config: Config | None = self
        while config is not None:
            yield config
            config = config.parent

    @property
    def top(self) -> Config:
        """The top level."""
        *_, top = self.chain()
        return top

    # -- values of a type ---------------------------------------------------------------------------------

    def require(self, *keys: str) -> Value:
        """Return the value of a key, or raise MissingKeyError if it is missing or empty."""
        value = self.get(*keys)
        if value is None or value.is_empty:
            raise self.missing(keys[0])
        return value

    def missing(self, key: str) -> MissingKeyError:
        """Return the error that says that a required key is not given."""
        path = f"{self.name}:{key}" if self.name else key
        others = {other.lower(): other for other in reversed(self.known_keys()) if other.lower() != key.lower()}
        # Stricter than for unknown names: a key that is given mostly means what it says.
        guesses = difflib.get_close_matches(key.lower(), others, n=1, cutoff=0.75)
        if guesses:
            guess = others[guesses[0]]
            hint = f"Is '{guess}' ({self.location(guess)}) meant for it?"
        else:
            hint = f"Add {key}=... to {f'the section {self.name}' if self.name else 'the recipe'}."
        return MissingKeyError(f"required parameter missing: {path}", where=self.where, hint=hint)

    def known_keys(self) -> list[str]:
        """Return the keys of this section and of its parents, the innermost first."""
        return [entry.key for config in self.chain() for entry in config._entries.values()]

    @overload
    def string(self, key: str) -> str: ...
    @overload
    def string(self, key: str, default: T) -> str | T: ...
    def string(self, key: str, default: object = MISSING) -> object:
        """Return a text."""
        value = self._asked(key, default)
        return default if value is None else value.string()

    @overload
    def boolean(self, key: str) -> bool: ...
    @overload
    def boolean(self, key: str, default: T) -> bool | T: ...
    def boolean(self, key: str, default: object = MISSING) -> object:
        """Return a truth value."""
        value = self._asked(key, default)
        return default if value is None else value.boolean()

    @overload
    def integer(self, key: str) -> int: ...
    @overload
    def integer(self, key: str, default: T) -> int | T: ...
    def integer(self, key: str, default: object = MISSING) -> object:
        """Return a whole number."""
        value = self._asked(key, default)
        return default if value is None else value.integer()

    @overload
    def real(self, key: str) -> float: ...
    @overload
    def real(self, key: str, default: T) -> float | T: ...
    def real(self, key: str, default: object = MISSING) -> object:
        """Return a number."""
        value = self._asked(key, default)
        return default if value is None else value.real()

    @overload
    def array(self, key: str) -> tuple[Value, ...]: ...
    @overload
    def array(self, key: str, default: T) -> tuple[Value, ...] | T: ...
    def array(self, key: str, default: object = MISSING) -> object:
        """Return the elements of an array ``a:b*2:c``."""
        value = self._asked(key, default)
        return default if value is None else value.array()

    @overload
    def strings(self, key: str) -> tuple[str, ...]: ...
    @overload
    def strings(self, key: str, default: T) -> tuple[str, ...] | T: ...
    def strings(self, key: str, default: object = MISSING) -> object:
        """Return the elements of an array as texts."""
        value = self._asked(key, default)
        return default if value is None else tuple(element.string() for element in value.array())

    def schedule(
        self, key: str, kind: type[N], default: Schedule[N] | Sequence[N] | N | _Missing = MISSING
    ) -> Schedule[N]:
        """Return an array of ``float``, ``int`` or ``bool`` by epoch; the default may be one value or several."""
        value = self._asked(key, default)
        if value is not None:
            return value.schedule(kind)
        if isinstance(default, Schedule):
            return default
        if isinstance(default, Sequence):
            return Schedule.of(default)
        assert not isinstance(default, _Missing)
        return Schedule.constant(default)

    def _asked(self, key: str, default: object) -> Value | None:
        return self.require(key) if default is MISSING else self.get(key)

    # -- sections -----------------------------------------------------------------------------------------

    def section(self, key: str) -> Config:
        """Return the section of a key, found here or in a parent; its parent is this section.

        Raises MissingKeyError, or ConfigError if the value is not a block.
        """
        return self.require(key).config()

    def sections(self, leave_out: Collection[str] = ()) -> tuple[Config, ...]:
        """Return this section's own entries that are blocks, in the order of the text.

        ``leave_out`` are keys, in lower case, of blocks that are not written in this language.
        """
        own = (self._value(self, entry) for key, entry in self._entries.items() if key not in leave_out)
        return tuple(value.config() for value in own if _is_section(value))

    def child(self, text: str, *, name: str = "child", file: str = "<text>") -> Config:
        """Return a section made of a text, whose parent is this section."""
        return Config.from_source(SourceText.of(text, file), name=self._path(name), parent=self)

    def with_entries(self, text: str | SourceText) -> Config:
        """Return this section with the entries of a text in place of its own ones of the same key."""
        source = text if isinstance(text, SourceText) else SourceText.of(text)
        added = Config.from_source(source, name=self._path("child"), parent=self)._entries
        entries = {**self._entries, **added}
        return attrs.evolve(self, entries=entries)

    def with_parent(self, parent: Config | None) -> Config:
        """Return this section's own entries under another parent."""
        return attrs.evolve(self, parent=parent)

    def without(self, keys: Iterable[str], *, unless: type | None = None) -> Config:
        """Return this section without its own entries of some keys: they belong to somebody else, who has read them.

        Args:
            keys: what is left out.
            unless: a class of options; what it has stays.
        """
        from cntk_core.config.schema import option_keys

        kept = frozenset() if unless is None else option_keys(unless)
        taken = tuple(key for key in keys if key.lower() not in kept)
        lower = {key.lower() for key in taken}
        entries = {name: entry for name, entry in self._entries.items() if name not in lower}
        return attrs.evolve(self, entries=entries, taken=(*self.taken, *taken))

    def only(self, keys: Iterable[str]) -> Config:
        """Return this section with its own entries of some keys alone."""
        lower = {key.lower() for key in keys}
        entries = {name: entry for name, entry in self._entries.items() if name in lower}
        return attrs.evolve(self, entries=entries)

    def bind(self, options_class: type[T], *, ignore: Collection[str] = (), what: str = "the section") -> T:
        """Read this section into a class of options: see :func:`cntk_core.config.schema.bind`."""
        from cntk_core.config.schema import bind

        return bind(self, options_class, ignore=ignore, what=what)

    def section_of(self, value: Value) -> Config:
        """Return the block of a value as a child of this section."""
        if value.content is not None and value.content.entries is not None:
            return Config(value.content.entries, value.name, value.key_where or value.where, self)
        raw = value.raw if value.raw.text[:1] in ("[", "{") else value.full()
        return Config.from_source(raw, name=value.name, where=value.key_where or value.where, parent=self)

    # -- variables ----------------------------------------------------------------------------------------

    def resolve(self, source: SourceText, *, inner_first: bool = False) -> SourceText:
        """Return a text with its variables filled in as seen from this section.

        A variable is looked for at the top level, then here, then in the parents. With ``inner_first``, as in files
        with network descriptions, the top level comes last.
        """
        return self._substitute(source, (), inner_first)

    def check_variables(self) -> None:
        """Raise all errors of the variables that this section and its blocks use."""
        errors: list[CntkError] = []
        for entry in self._entries.values():
            if isinstance(entry, EvaluatedEntry):
                continue
            try:
                self._resolve_entry(entry)
            except ConfigError as error:
                errors.append(error)
        raise_problems(errors)

    def _resolve_entry(self, entry: Entry | EvaluatedEntry, trail: _Trail = ()) -> SourceText:
        if isinstance(entry, EvaluatedEntry):
            return entry.value
        name = entry.key.lower()
        known = self._resolved.get(name)
        if known is None:
            known = self._substitute(entry.value, (*trail, (id(self), name, entry.key)), False)
            self._resolved[name] = known
        return known

    def _substitute(self, source: SourceText, trail: _Trail, inner_first: bool) -> SourceText:
        def find(name: str, where: Location) -> SourceText:
            owner, entry = self._find_variable(name, where, inner_first)
            step = (id(owner), entry.key.lower())
            seen = [link[:2] for link in trail]
            if step in seen:
                names = [f"${link[2]}$" for link in trail[seen.index(step) :]] + [f"${name}$"]
                raise ConfigError(
                    f"variables that need each other: {' -> '.join(names)}",
                    where=where,
                    hint="Give one of them a value without these variables.",
                )
            if len(trail) >= _MAX_DEPTH:
                raise ConfigError(
                    f"${name}$ is more than {_MAX_DEPTH} variables deep",
                    where=where,
                    hint="Use fewer variables inside the values of variables.",
                )
            return owner._resolve_entry(entry, trail)

        return substitute(source, find)

    def _find_variable(self, name: str, where: Location, inner_first: bool) -> tuple[Config, Entry | EvaluatedEntry]:
        chain = list(self.chain())
        # The original fills in a whole command section when it enters it, so the top level wins.
        order = chain if inner_first else [chain[-1], *chain[:-1]]
        for config in order:
            entry = config._entries.get(name.lower())
            if entry is not None and entry.value.text != _NOT_GIVEN:
                return config, entry
        raise ConfigError(
            f"unknown variable ${name}${did_you_mean(name, self.known_keys())}",
            where=where,
            hint=f"Set it at the top level of the recipe or on the command line: {name}=...",
        )

    # -- printing -----------------------------------------------------------------------------------------

    def dump(self, resolved: bool) -> str:
        """Return the entries as the original logs them, one ``configparameters:`` line each, in the order of names.

        Raises ConfigError if ``resolved`` and a variable is unknown.
        """
        title = ":".join(part for part in (Path(self.where.file).name, self.name) if part)
        lines = []
        for _, entry in sorted(self._entries.items()):
            is_plain = resolved and not isinstance(entry, EvaluatedEntry)
            text = self._resolve_entry(entry).text if is_plain else shown_entry(entry)
            lines.append(f"configparameters: {title}:{entry.key}={text}\n")
        return "".join(lines)

    # -- inner parts --------------------------------------------------------------------------------------

    def _find(self, keys: Iterable[str]) -> tuple[Config, Entry | EvaluatedEntry] | None:
        names = [key.lower() for key in keys]
        for config in self.chain():
            for name in names:
                entry = config._entries.get(name)
                if entry is not None:
                    return None if entry.value.text == _NOT_GIVEN else (config, entry)
        return None

    def _value(self, owner: Config, entry: Entry | EvaluatedEntry) -> Value:
        name = owner._path(entry.key)
        where = entry.value.where
        return Value(entry.value, name, where, self, entry.where, lambda: owner._resolve_entry(entry), entry.content)

    def _path(self, key: str) -> str:
        return f"{self.name}:{key}" if self.name else key


def _is_section(value: Value) -> bool:
    return value.is_block if value.content is not None else value.raw.text[:1] in ("[", "{")
