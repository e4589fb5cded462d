"""Names: what is defined where, and what a name means there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import attrs

from cntk_builder_ndl.syntax import Number, Text
from cntk_core.api import BuildError, CntkError, Location, Network, Node, did_you_mean


@attrs.frozen(eq=False)
class Reference:
    """A name as seen from a scope."""

    text: str
    where: Location
    scope: Scope


@attrs.frozen(eq=False)
class ArrayOf:
    """An array whose names know their scope."""

    items: tuple[Operand, ...]
    where: Location


@attrs.define(eq=False)
class FunctionCall:
    """A function call of the expanded description: one node of the network.

    Attributes:
        name: without the names of the macro calls around it.
        function: as the recipe spells it; empty for what could not be read.
        options: by lower-case name.
        node: set when the node is made; None if that failed.
        inputs: the operands that become the node's inputs.
        more: further inputs, which were made along with the node.
    """

    name: str
    function: str
    where: Location
    scope: Scope
    arguments: tuple[Operand, ...] = ()
    options: dict[str, Given] = attrs.field(factory=dict)
    node: Node | None = None
    inputs: tuple[Operand, ...] = ()
    more: tuple[Node, ...] = ()


@attrs.define(eq=False)
class MacroCall:
    """A macro call with a copy of the macro's statements of its own.

    Attributes:
        name: without the names of the macro calls around it.
        macro: the macro's name.
        inner: the scope of the copy; its parameters are bound to the arguments.
    """

    name: str
    macro: str
    where: Location
    scope: Scope
    inner: Scope
    arguments: tuple[Operand, ...] = ()
    options: dict[str, Given] = attrs.field(factory=dict)


Operand = Number | Text | Reference | ArrayOf | FunctionCall | MacroCall


@attrs.frozen(eq=False)
class Given:
    """An optional argument: its name as it is spelt, and its value."""

    name: str
    value: Operand
    where: Location


@attrs.frozen(eq=False)
class Symbol:
    """A defined name."""

    name: str
    value: Operand
    where: Location


_MAX_HINTS = 50
"""For how many unknown names of a description the nearest known one is looked for."""


@attrs.define(eq=False)
class Scope:
    """The names of the description itself or of one macro call, and its calls in their order.

    A name that a macro does not define is looked for in the description (``parent``), then in the ``network`` to
    which the description adds. ``last`` is the name that the last statement defines.
    """

    parent: Scope | None = None
    owner: MacroCall | None = None
    symbols: dict[str, Symbol] = attrs.field(factory=dict)
    calls: list[FunctionCall | MacroCall] = attrs.field(factory=list)
    last: str = ""
    network: Network | None = None
    _hints: int = 0

    def define(self, name: str, value: Operand, where: Location) -> None:
        """Give a name its meaning.

        Raises:
            BuildError: the name has one already; names both places.
        """
        old = self.symbols.get(name.lower())
        if old is not None:
            case = "" if old.name == name else f", where it is spelt '{old.name}': names ignore case"
            raise BuildError(f"the name '{name}' is already defined at {old.where}{case}", where=where)
        self.symbols[name.lower()] = Symbol(name, value, where)

    def full_name(self, name: str) -> str:
        """Return the name that a node of this scope has in the network: ``L1.FF.T``."""
        parts = [name]
        owner = self.owner
        while owner is not None:
            parts.append(owner.name)
            owner = owner.scope.owner
        return ".".join(reversed(parts))

    def find(self, name: str) -> Symbol | None:
        """Return what a name without dots means here."""
        return self.symbols.get(name.lower()) or (self.parent.find(name) if self.parent else None)

    def known(self) -> Iterator[str]:
        """Yield all names that can be used here, for hints."""
        yield from (symbol.name for symbol in self.symbols.values())
        if self.parent is not None:
            yield from self.parent.known()
        if self.network is not None:
            yield from (node.name for node in self.network)

    def node(self, name: str) -> Node | None:
        """Return the node of that full name in the network to which the description adds, if there is one."""
        network = self.root.network
        return network[name] if network is not None and name in network else None

    def hint(self, name: str) -> str:
        """Return which name may be meant by an unknown one; only for the first ones, as it takes a while."""
        root = self.root
        root._hints += 1
        return did_you_mean(name, self.known()) if root._hints <= _MAX_HINTS else ""

    @property
    def root(self) -> Scope:
        """The scope of the description itself."""
        return self if self.parent is None else self.parent.root


_MAX_CALLS_SHOWN = 6


def tell_call(error: CntkError, call: MacroCall) -> None:
    """Add to an error inside of a macro where the macro is called."""
    lines = error.hint.splitlines() if error.hint else []
    if sum(line.startswith("In the macro ") for line in lines) < _MAX_CALLS_SHOWN:
        error.hint = "\n".join([*lines, f"In the macro '{call.macro}', called at {call.where}."])


def tell_calls(error: CntkError, scope: Scope) -> None:
    """Add to an error inside of macros where they are called, the innermost first."""
    owner = scope.owner
    while owner is not None:
        tell_call(error, owner)
        owner = owner.scope.owner


_MAX_STEPS = 100
"""How many names may lead through members of each other (``a=b.c``, ``b=d.e``, ...)."""


def resolve(operand: Operand, depth: int = 0) -> Operand:
    """Follow names until something that is not a name; ``depth`` counts the names of which this one is a part.

    Raises:
        BuildError: a name is not defined, or leads back to itself.
    """
    seen: set[tuple[int, str]] = set()
    while isinstance(operand, Reference):
        step = (id(operand.scope), operand.text.lower())
        if step in seen or depth > _MAX_STEPS:
            raise BuildError(f"the name '{operand.text}' stands for itself", where=operand.where)
        seen.add(step)
        operand = _look_up(operand, depth + 1)
    return operand


def _look_up(reference: Reference, depth: int) -> Operand:
    symbol, path, members = _begin(reference)
    if symbol is None or (members and not isinstance(symbol.value, MacroCall | Reference)):
        node = _existing(reference)
        if node is not None:
            return node
    if symbol is None:
        name = reference.text if reference.scope.root.network is not None else path
        raise BuildError(f"the name '{name}' is not defined{reference.scope.hint(name)}", where=reference.where)
    found = symbol.value
    for member in members:
        call = resolve(found, depth)
        if isinstance(call, FunctionCall) and not call.function:
            return call
        if not isinstance(call, MacroCall):
            raise BuildError(
                f"'{path}' is not a macro call, so '{reference.text}' means nothing", where=reference.where
            )
        inner = call.inner.symbols.get(member.lower())
        if inner is None:
            return _existing(reference) or _no_member(call, path, member, reference)
        found = inner.value
        path += f".{member}"
    return found


def _begin(reference: Reference) -> tuple[Symbol | None, str, list[str]]:
    """Return what a name begins with, and the members that follow; names with dots may themselves be defined."""
    parts = reference.text.split(".")
    for length in range(len(parts) if len(parts) < _MAX_STEPS else 1, 0, -1):
        path = ".".join(parts[:length])
        symbol = reference.scope.find(path)
        if symbol is not None:
            return symbol, path, parts[length:]
    return None, parts[0], parts[1:]


def _existing(reference: Reference) -> FunctionCall | None:
    """Return the node that has this name in full, as something to refer to."""
    node = reference.scope.node(reference.text)
    if node is None:
        return None
    return FunctionCall(node.name, node.op.name, node.where or reference.where, reference.scope, node=node)


def _no_member(call: MacroCall, path: str, member: str, reference: Reference) -> NoReturn:
    names = [symbol.name for symbol in call.inner.symbols.values()]
    raise BuildError(
        f"'{path}' has no member '{member}'{did_you_mean(member, names)}",
        where=reference.where,
        hint=f"Members of the macro '{call.macro}': {', '.join(names)}",
    )


def result(operand: Operand) -> Operand:
    """Follow names and macro calls: a macro's value is the name like its own, otherwise its last statement.

    Raises:
        BuildError: as :func:`resolve`, or a macro has no value.
    """
    seen: set[int] = set()
    found = resolve(operand)
    while isinstance(found, MacroCall):
        if id(found) in seen:
            raise BuildError(f"the value of the macro '{found.macro}' is itself", where=found.where)
        seen.add(id(found))
        found = resolve(_value_of(found))
    return found


def _value_of(call: MacroCall) -> Operand:
    named = call.inner.symbols.get(call.macro.lower())
    if named is not None:
        return named.value
    if call.inner.calls:
        return call.inner.calls[-1]
    if call.inner.last:
        return call.inner.symbols[call.inner.last.lower()].value
    raise BuildError(f"the macro '{call.macro}' is empty and has no value", where=call.where)
