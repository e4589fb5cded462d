"""Values of BrainScript, how they are delayed, and how they get their names.

A value is one of

* ``float`` (every number is a double), ``str``, ``bool``,
* :class:`Record`, :class:`Array`, :class:`Lambda`,
* :class:`TensorShape`, :class:`BoolVector`,
* anything that the :class:`~cntk_builder_brainscript.runtime.Runtime` makes: a node, a network, an axis.

**Thunks.** Members of a record, elements of an array and arguments of a call are :class:`Thunk` until somebody needs
them; then they are evaluated once and keep the result. A thunk that needs itself is an error that shows the cycle.
Whoever wants a loop through a delay (PastValue) makes the object first and reads the ``inputs`` of its arguments
later: reading is what evaluates. ``Record.find``, ``Record.get`` and its typed kin, ``Array.at`` and ``Array.values``
give values, never thunks.

**Names.** Every value is evaluated under a *path*, the way that leads to it from the record that counts as root:
``z``, ``z.W``, ``L[1].b``, ``z.PlusArgs[0]``. A record adds the member's name, a call adds the parameter's name to
its arguments and nothing to its body, infix operators add ``<Word>Args[i]``, arrays add ``[i]``. A path is kept as a
chain of segments and is written out (:func:`path_text`) only for an object that needs a name. What is not evaluated
under a member of the root record gets the path that its evaluation was started with; the original used ``$`` there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import attrs

from cntk_builder_brainscript.delayed import Machine, Path, Thunk, bounded_path_text, force, path_text
from cntk_builder_brainscript.syntax import Expression, RecordLiteral, RecordMember
from cntk_core.api import BuildError, CntkError, Location, did_you_mean

__all__ = [
    "FREE_DIMENSION",
    "MAX_ELEMENTS",
    "Array",
    "BoolVector",
    "CallSite",
    "Joining",
    "Lambda",
    "Machine",
    "Path",
    "RecipeObject",
    "Record",
    "TensorShape",
    "Thunk",
    "bounded_path_text",
    "describe",
    "flatten",
    "force",
    "number_text",
    "path_text",
]

FREE_DIMENSION = -3
"""What ``FreeDimension`` is as a number, as it is in CNTK 2."""


@attrs.frozen(eq=False)
class CallSite:
    """A call that is under way: which function, its arguments by position, where it was called, in whose scope."""

    function: Lambda
    arguments: Sequence[object]
    site: Expression | None
    caller: Record | None


class Record:
    """Named values, and the scope of the expressions in it: what is not found here is looked for in ``parent``.

    Attributes:
        members: name to value or thunk, in the order of definition.
        parent: the enclosing scope.
        literal: the text that the members come from; ``None`` for arguments of a call and for records of a runtime.
        path: the path of the record itself.
        call: set on the record of arguments of a call.
        texts: where members are written: in ``literal``, or, where ``with`` has replaced them, elsewhere.
    """

    __slots__ = ("call", "literal", "members", "parent", "path", "texts")

    def __init__(
        self,
        members: dict[str, object],
        parent: Record | None = None,
        *,
        literal: RecordLiteral | None = None,
        path: Path = None,
        call: CallSite | None = None,
        texts: Mapping[str, RecordMember] | None = None,
    ) -> None:
        self.members = members
        self.parent = parent
        self.literal = literal
        self.path = path
        self.call = call
        written = literal.members if literal is not None else {}
        self.texts: Mapping[str, RecordMember] = written if texts is None else texts

    def find(self, name: str) -> object:
        """Return a member of this record or of a scope around it, ``None`` if there is none."""
        scope: Record | None = self
        while scope is not None:
            value = scope.members.get(name)
            if value is not None:
                return value.force() if type(value) is Thunk else value
            scope = scope.parent
        return None

    def own(self, name: str) -> object:
        """Return a member of this record alone, ``None`` if there is none."""
        return force(self.members.get(name))

    def names(self) -> tuple[str, ...]:
        """The names of this record's own members, in the order of definition."""
        return tuple(self.members)

    def visible(self) -> Iterator[str]:
        """Yield the names that an expression in this record can use, innermost first."""
        scope: Record | None = self
        while scope is not None:
            yield from scope.members
            scope = scope.parent

    def where_of(self, name: str) -> Location | None:
        """Return the place that gives the value of a name that :meth:`find` finds."""
        scope: Record | None = self
        while scope is not None:
            value = scope.members.get(name)
            if value is not None:
                if type(value) is Thunk:
                    return value.expression.where
                member = scope.texts.get(name)
                return member.value.where if member is not None else scope.where
            scope = scope.parent
        return None

    @property
    def where(self) -> Location | None:
        """The place of the record's text, or of the call whose arguments it holds."""
        if self.literal is not None:
            return self.literal.where
        if self.call is not None and self.call.site is not None:
            return self.call.site.where
        return None

    def get(self, name: str) -> object:
        """Return what :meth:`find` finds.

        Raises BuildError if there is no such name.
        """
        value = self.find(name)
        if value is None:
            known = dict.fromkeys(self.visible())
            raise BuildError(f"'{name}' is missing here{did_you_mean(name, known)}", where=self.where)
        return value

    def number(self, name: str) -> float:
        """Return a number. Raises BuildError if the value is of another kind."""
        value = self.get(name)
        if type(value) is not float:
            raise self.wrong(name, "a number", value)
        return value

    def integer(self, name: str) -> int:
        """Return a whole number. Raises BuildError if the value is something else."""
        value = self.get(name)
        if type(value) is not float or not value.is_integer():
            raise self.wrong(name, "a whole number", value)
        return int(value)

    def text(self, name: str) -> str:
        """Return a text. Raises BuildError if the value is of another kind."""
        value = self.get(name)
        if type(value) is not str:
            raise self.wrong(name, "a text", value)
        return value

    def boolean(self, name: str) -> bool:
        """Return a truth value. Raises BuildError if the value is of another kind."""
        value = self.get(name)
        if type(value) is not bool:
            raise self.wrong(name, "true or false", value)
        return value

    def flat(self, name: str) -> list[object]:
        """Return the elements of an array, those of arrays in it among them; any other value is the one element."""
        return flatten(self.get(name), self.where_of(name))

    def integers(self, name: str) -> tuple[int, ...]:
        """Return whole numbers, given as one number or as an array.

        Raises BuildError if an element is something else.
        """
        value = self.get(name)
        if type(value) is TensorShape:
            return value.dims
        numbers = []
        for element in flatten(value, self.where_of(name)):
            if type(element) is not float or not element.is_integer():
                raise self.wrong(name, "whole numbers", element)
            numbers.append(int(element))
        return tuple(numbers)

    def booleans(self, name: str) -> tuple[bool, ...]:
        """Return truth values, given as one or as an array. Raises BuildError if an element is something else."""
        value = self.get(name)
        if type(value) is BoolVector:
            return value.items
        items = []
        for element in flatten(value, self.where_of(name)):
            if type(element) is not bool:
                raise self.wrong(name, "true or false", element)
            items.append(element)
        return tuple(items)

    def wrong(self, name: str, wanted: str, value: object) -> BuildError:
        """Return the error for a value that is not what is wanted."""
        return BuildError(f"'{name}' must be {wanted}, not {describe(value)}", where=self.where_of(name))


class Joining(Protocol):
    """What an array asks when it puts elements in place of an array."""

    def add(self, count: int, total: int) -> None:
        """Elements are going to be added, which makes a total. Raises BuildError if that is too much."""

    def circular(self) -> CntkError:
        """Return the error for an array that is an element of itself."""


class Array:
    """Values by index, from ``first`` on.

    With ``joins``, an element that turns out to be an array is replaced by its elements; elements are evaluated from
    the left as far as an index requires it.
    """

    __slots__ = ("_busy", "_joins", "_pending", "_ready", "_start", "first")

    def __init__(self, items: Sequence[object], first: int = 0, *, joins: Joining | None = None) -> None:
        self.first = first
        self._joins = joins
        self._ready: list[object] = [] if joins else list(items)
        self._pending: list[object] = list(reversed(items)) if joins else []
        self._start = 0
        self._busy = False

    def _join(self, wanted: int) -> None:
        ready, pending = self._ready, self._pending
        while pending and len(ready) <= wanted:
            # The element stays pending while it is evaluated: that may fail, or look at this array.
            element = pending[-1]
            value = element.force() if type(element) is Thunk else element
            added = self._elements_of(value) if type(value) is Array else [value]
            if not pending or pending[-1] is not element:
                continue
            if self._joins is not None:
                self._joins.add(len(added), len(ready) + len(added))
            pending.pop()
            ready.extend(added)

    def _elements_of(self, inner: Array) -> list[object]:
        if self._busy and self._joins is not None:
            raise self._joins.circular()
        self._busy = True
        try:
            return inner.raw()
        finally:
            self._busy = False

    def raw(self) -> list[object]:
        """Return all elements without evaluating more than is needed to tell how many they are."""
        self._join(1 << 62)
        return self._ready[self._start :] if self._start else self._ready

    def size(self) -> int:
        """Return the number of elements.

        While something is evaluated this has to be called rather than ``len``: evaluation nests deeply, and what
        goes through an operator of Python takes room on the machine's stack.
        """
        self._join(1 << 62)
        return len(self._ready) - self._start

    def __len__(self) -> int:
        return self.size()

    @property
    def last(self) -> int:
        """The index of the last element; ``first - 1`` in an empty array."""
        return self.first + self.size() - 1

    def at(self, index: int) -> object:
        """Return an element.

        Raises IndexError if there is none of that index.
        """
        position = index - self.first + self._start
        if self._pending:
            self._join(position)
        if not self._start <= position < len(self._ready):
            raise IndexError(index)
        value = self._ready[position]
        return value.force() if type(value) is Thunk else value

    def values(self) -> list[object]:
        """Return all elements."""
        return [force(value) for value in self.raw()]

    def without(self, count: int) -> Array:
        """Return the array without its first elements; it shares the others."""
        length = self.size()
        rest = Array((), self.first)
        rest._ready = self._ready
        rest._start = self._start + min(count, length)
        return rest


class Lambda:
    """A function.

    Attributes:
        parameters: names of the positional parameters; they name the arguments, too.
        optional: name to default value or thunk, evaluated where the function was defined.
        derived: names of optional parameters whose defaults depend on the arguments of a call, and these defaults.
        body: the expression of the function, ``None`` with ``native``.
        scope: where the function was defined.
        name: what messages call it.
        native: what runs instead of a body: ``(arguments, named arguments, path) -> value``; arguments may be thunks
            (:func:`force` gives their value).
    """

    __slots__ = ("body", "derived", "name", "native", "optional", "parameters", "scope")

    def __init__(
        self,
        parameters: Sequence[str],
        optional: Mapping[str, object],
        *,
        body: Expression | None = None,
        scope: Record | None = None,
        name: str = "",
        native: Callable[[list[object], dict[str, object], Path], object] | None = None,
        derived: tuple[tuple[str, Expression], ...] = (),
    ) -> None:
        self.parameters = tuple(parameters)
        self.optional = optional
        self.derived = derived
        self.body = body
        self.scope = scope
        self.name = name
        self.native = native

    @property
    def signature(self) -> str:
        """The parameters as they are written, such as ``(x, y, tag=)``."""
        return f"({', '.join([*self.parameters, *(f'{name}=' for name in self.optional)])})"


@attrs.frozen(eq=False)
class RecipeObject:
    """``new TrainAction [...]`` and the like; it does nothing by itself.

    Attributes:
        kind: the word after ``new``.
        arguments: the record.
        where: the place of ``new``.
    """

    kind: str
    arguments: Record
    where: Location


@attrs.frozen
class TensorShape:
    """Dimensions in CNTK's order, as ``new TensorShape [ dims = 3:4 ]`` gives them."""

    dims: tuple[int, ...]


@attrs.frozen
class BoolVector:
    """Truth values, as ``new BoolVector [ items = true:false ]`` gives them."""

    items: tuple[bool, ...]


MAX_ELEMENTS = 100_000
"""Elements of an array, at most."""


def flatten(value: object, where: Location | None = None) -> list[object]:
    """Return the elements of an array and of the arrays in it; any other value is the one element.

    Raises BuildError at ``where`` if they are too many.
    """
    found: list[object] = []
    pending: list[object] = [value]
    seen = 0
    while pending:
        seen += 1
        if seen > 2 * MAX_ELEMENTS or len(pending) > MAX_ELEMENTS + seen:
            raise BuildError(f"an array has at most {MAX_ELEMENTS} elements", where=where)
        element = force(pending.pop())
        if type(element) is Array:
            pending.extend(reversed(element.raw()))
        else:
            found.append(element)
    return found


_SHOWN = 40


def describe(value: object) -> str:
    """Return kind and text of a value for a message, shortened: ``the number 3``, ``the text 'abc'``."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return f"the number {number_text(value)}"
        case str():
            return f"the text '{value}'" if len(value) <= _SHOWN else f"the text '{value[: _SHOWN - 3]}...'"
        case Record():
            names = ", ".join(value.names()[:4]) + (", ..." if len(value.members) > 4 else "")
            return f"a record [{names}]"
        case Array():
            return "an array"
        case Lambda():
            return f"the function {value.name}{value.signature}" if value.name else "a function"
        case TensorShape():
            return f"the shape {' x '.join(map(str, value.dims))}"
        case _:
            text = str(value)
            return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def number_text(value: float) -> str:
    """Write a number as short as it can be: ``3`` for 3.0, ``0.1``."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e16 else repr(value)
