"""One value of a recipe and what can be read from it (docs/original-rules.md#types-of-values)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

import attrs

from cntk_core.config.addresses import as_path, with_paths
from cntk_core.config.evaluated import Content
from cntk_core.config.lexer import block_contents
from cntk_core.config.parser import is_block, parse_elements
from cntk_core.config.schedule import Schedule
from cntk_core.config.source import SourceText
from cntk_core.errors import ConfigError, Location

if TYPE_CHECKING:
    from cntk_core.config.section import Config

T = TypeVar("T", bound=float)

_MAX_ELEMENTS = 1_000_000
_TRUE = ("t", "true", "T", "True", "TRUE", "1")
_FALSE = ("f", "false", "F", "False", "FALSE", "0", "")
_INTEGER = re.compile(r"[ \t]*([+-]?[0-9]{1,20})")
_DECIMAL = re.compile(r"[ \t]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SPECIAL = re.compile(r"[ \t]*[+-]?(inf|infinity|nan)", re.IGNORECASE)
_HEXADECIMAL = re.compile(r"[ \t]*[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)([pP][+-]?[0-9]{1,5})?")
_WINDOWS_INFINITY = re.compile(r"[ \t]*([+-]?)[0-9]*\.?[0-9]*#inf", re.IGNORECASE)


class Scope(Protocol):
    """What a value needs of the section that it was looked up in."""

    def section_of(self, value: Value) -> Config:
        """Return the value's block as a child of this section."""


@attrs.frozen(eq=False)
class Value:
    """The value of a key, or one element of an array.

    Attributes:
        raw: What was written, with braces, without quotation marks; variables are not filled in.
        name: The path of the key, for messages: ``Train:SGD:maxEpochs``, ``layerSizes[1]``.
        where: The place of its first character in the recipe.
        key_where: The place of its key, ``None`` for an element of an array.
        content: The value itself, if it comes from another language; ``raw`` is its text then.
    """

    raw: SourceText
    name: str
    where: Location
    _scope: Scope
    key_where: Location | None = None
    _resolve: Callable[[], SourceText] | None = None
    content: Content | None = None

    def resolved(self) -> SourceText:
        """Return the text that a reader of the value sees: variables filled in, the braces of a block removed.

        Raises ConfigError if a variable is unknown.
        """
        full = self.full()
        contents = block_contents(full) if full.text.startswith(("[", "{")) else None
        return full if contents is None else contents

    def full(self) -> SourceText:
        """Return the text with variables filled in and with the braces of a block.

        Raises ConfigError if a variable is unknown, or if the value is something without a place in a recipe.
        """
        if self.content is not None and self.content.other:
            raise ConfigError(
                f"{self.name} is {self.content.other}, which no key of a recipe takes",
                where=self.where,
                hint="Accepted: numbers, texts, true, false, arrays and records of them.",
            )
        return self.raw if self._resolve is None else self._resolve()

    @property
    def text(self) -> str:
        """The text of :meth:`resolved`: for a block, what stands between its braces, line by line."""
        return self.resolved().text

    @property
    def is_block(self) -> bool:
        """Whether the value is ``[...]`` or ``{...}``."""
        if self.content is not None:
            return self.content.entries is not None
        return is_block(self.raw if self._begins_with_brace else self.full())

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written (an empty block is something)."""
        return not self._begins_with_brace and not self.full().text

    @property
    def _begins_with_brace(self) -> bool:
        # Such a value need not be resolved to see what it is, so an unknown variable deep inside does no harm yet.
        return self.raw.text.startswith(("[", "{"))

    def config(self) -> Config:
        """Return the block as a section whose parent is the section that this value was looked up in.

        Raises ConfigError if the value is not a block.
        """
        full = self.raw if self._begins_with_brace else self.full()
        if not (self.is_block or ("=" in full.text and self.content is None)):
            raise self.error("a section", f"Accepted: a block, {self.short_name}=[ key=value ; ... ]")
        return self._scope.section_of(self)

    def array(self) -> tuple[Value, ...]:
        """Return the elements of ``a:b*3:c``, with the repetitions written out.

        Raises ConfigError if there are more than a million.
        """
        runs = self._runs()
        if sum(count for _, count in runs) > _MAX_ELEMENTS:
            raise ConfigError(
                f"{self.name} has too many elements",
                where=self.where,
                hint=f"An array has at most {_MAX_ELEMENTS} elements.",
            )
        elements = [element for element, count in runs for _ in range(count)]
        return tuple(self._element(raw, content, index) for index, (raw, content) in enumerate(elements))

    def _runs(self) -> list[tuple[tuple[SourceText, Content | None], int]]:
        """Return the elements of an array, each with how many times it stands there."""
        if self.content is None or (self.content.elements is None and self.content.entries is None):
            return [((element.value, None), element.count) for element in parse_elements(with_paths(self.full()))]
        return [((element.text, element), 1) for element in self.content.elements or (self.content,)]

    def _element(self, raw: SourceText, content: Content | None, index: int) -> Value:
        return Value(raw, f"{self.name}[{index}]", raw.where, self._scope, content=content)

    def string(self) -> str:
        """Return the text as it is (a block with its braces); of an address, the path of the copy that is here."""
        return as_path(self.full().text, self.where)

    def boolean(self) -> bool:
        """Return a truth value, written as the original accepts it."""
        text = self.full().text
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        raise self.error("true or false", "Accepted: true, True, TRUE, t, T, 1, false, False, FALSE, f, F, 0.")

    def integer(self) -> int:
        """Return a whole number of at most 64 bits, written in base 10."""
        text = self.full().text
        found = _INTEGER.fullmatch(text)
        if found is None or not -(2**63) <= int(found.group(1)) < 2**64:
            accepted = "Accepted: a whole number of at most 64 bits, written out."
            raise self.error("a whole number", accepted + _whole(text))
        return int(found.group(1))

    def real(self) -> float:
        """Return a number; the old Windows form ``1#INF`` is infinity."""
        text = self.full().text
        infinity = _WINDOWS_INFINITY.match(text)
        if infinity is not None:
            return -math.inf if infinity.group(1) == "-" else math.inf
        if _DECIMAL.fullmatch(text) or _SPECIAL.fullmatch(text):
            return float(text)
        if _HEXADECIMAL.fullmatch(text):
            return _from_hexadecimal(text)
        raise self.error("a number", "Accepted: a number such as 10, 0.5, 1e-3 or inf.")

    def schedule(self, kind: type[T]) -> Schedule[T]:
        """Return ``a*n:b`` as a schedule of ``float``, ``int`` or ``bool``."""
        runs = self._runs()
        if not runs:
            raise self.error("a schedule", "Accepted: values for the epochs, such as 0.8:3.2*14:0.08.")
        read = [(self._element(raw, content, index), count) for index, ((raw, content), count) in enumerate(runs)]
        return Schedule.runs((_convert(element, kind), count) for element, count in read)

    def error(self, wanted: str, accepted: str) -> ConfigError:
        """Return the error that says what the value should be (for builders and options, too)."""
        full = self.full()
        text = full.text if len(full.text) <= 60 else full.text[:57] + "..."
        if full.where != self.where:
            accepted += f"\nThe text comes from {full.where}."
        return ConfigError(f"{self.name} must be {wanted}, not '{text}'", where=self.where, hint=accepted)

    @property
    def short_name(self) -> str:
        """The key without the path of its section."""
        return self.name.rpartition(":")[2]


def _convert(value: Value, kind: type[T]) -> T:
    convert: dict[type[float], Callable[[], float]] = {bool: value.boolean, int: value.integer, float: value.real}
    return kind(convert[kind]())


def _whole(text: str) -> str:
    """Return ``" Write 1000."`` where a number is meant as a whole one, such as ``1e3``."""
    if not _DECIMAL.fullmatch(text):
        return ""
    number = float(text)
    return f" Write {int(number)}." if number.is_integer() and abs(number) < 2**53 else ""


def _from_hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return math.inf
