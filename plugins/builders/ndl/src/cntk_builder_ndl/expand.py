"""Macros are expanded: every call of a macro gets a copy of its statements, with names of their own.

Calls without a name are called ``unnamed7``, with the numbers of the original, so that scripts which use them go on
working: numbers are given in the order of the text to calls, numbers and arrays, once more for each copy of a macro.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import attrs

from cntk_builder_ndl.files import is_of_library
from cntk_builder_ndl.functions import BY_NAME
from cntk_builder_ndl.scope import ArrayOf, FunctionCall, Given, MacroCall, Operand, Reference, Scope, Symbol, tell_call
from cntk_builder_ndl.syntax import Array, Assignment, Call, Expression, MacroDefinition, Name, Number, Statement, Text
from cntk_core.api import BuildError, CntkError, Network, did_you_mean

GROUPS = {
    "featurenodes": "feature",
    "labelnodes": "label",
    "criterionnodes": "criterion",
    "evalnodes": "evaluation",
    "outputnodes": "output",
    "criterianodes": "criterion",
}
"""Names of the description that put nodes into a group, in the order in which the original reads them."""

_MAX_CALLS = 50_000
_MAX_DEPTH = 100
_MAX_HINTS = 50


@attrs.frozen(eq=False)
class _Macro:
    """A macro; its statements' names, also of those without one; whether its own text has mistakes."""

    definition: MacroDefinition
    names: tuple[str, ...]
    broken: bool = False


class Expander:
    """Expands statements into one scope; macros outlive it (``ndlMacros``).

    Args:
        is_function: whether a name is a function (case does not count).
        function_names: all functions, for hints.
        network: what the statements add to, if they do not make a network of their own.
    """

    def __init__(
        self,
        is_function: Callable[[str], bool],
        function_names: Callable[[], tuple[str, ...]],
        network: Network | None = None,
    ) -> None:
        self.script = Scope(network=network)
        self.problems: list[CntkError] = []
        self._is_function = is_function
        self._function_names = function_names
        self._macros: dict[str, _Macro] = {}
        self._unnamed = _last_number(network)
        self._calls = 0
        self._hints = 0
        self._later: dict[str, MacroDefinition] = {}

    def macros_only(self, statements: tuple[Statement, ...]) -> None:
        """Take the macro definitions of a macro file; its other statements define nothing."""
        kept, self.script = self.script, Scope()
        self.add(statements)
        self.script = kept

    def has_macro(self, name: str) -> bool:
        """Tell whether a macro of that name is defined."""
        return name.lower() in self._macros

    def add(self, statements: tuple[Statement, ...]) -> None:
        """Expand statements into the description, in order."""
        self._later |= {s.name.lower(): s for s in statements if isinstance(s, MacroDefinition)}
        for statement in statements:
            try:
                if isinstance(statement, MacroDefinition):
                    self._define(statement)
                    continue
                wrong = self._unknown(statement.value)
                self.problems += wrong
                if wrong:
                    self._mark_broken(statement)
                else:
                    self._assign(statement, self.script)
            except CntkError as error:
                self.problems.append(error)
                self._mark_broken(statement)

    def _mark_broken(self, statement: Statement) -> None:
        """Define the name all the same, so that its uses are no further problems."""
        if isinstance(statement, MacroDefinition):
            self._macros.setdefault(statement.name.lower(), _Macro(statement, (), broken=True))
            return
        broken = FunctionCall(statement.name, "", statement.where, self.script)
        self.script.symbols.setdefault(statement.name.lower(), Symbol(statement.name, broken, statement.where))

    # -- macros ---------------------------------------------------------------------------------------------

    def _define(self, definition: MacroDefinition) -> None:
        name = definition.name
        old = self._macros.get(name.lower())
        if old is not None and not (is_of_library(old.definition.where) and not is_of_library(definition.where)):
            raise BuildError(f"the macro '{name}' is already defined at {old.definition.where}", where=definition.where)
        if name.lower() in BY_NAME:
            raise BuildError(f"a macro cannot be called '{name}', which is a function", where=definition.where)
        for parameter in definition.parameters:
            if parameter.text.lower() in BY_NAME:
                raise BuildError(
                    f"a parameter of the macro '{name}' cannot be called '{parameter.text}', which is a function",
                    where=parameter.where,
                )
        wrong: list[CntkError] = []
        for statement in definition.body:
            if isinstance(statement, MacroDefinition):
                self._define(statement)
            else:
                wrong += self._unknown(statement.value, name)
        names = tuple(self._number_body(statement) for statement in definition.body)
        self._macros[name.lower()] = _Macro(definition, names, broken=bool(wrong))
        self.problems += wrong

    def _unknown(self, expression: Expression, macro: str = "") -> list[CntkError]:
        """Return an error for each call of what is not defined yet, the macro itself included."""
        found: list[CntkError] = []
        if isinstance(expression, Call):
            if macro and expression.function.lower() == macro.lower():
                found.append(BuildError(f"the macro '{macro}' calls itself", where=expression.where))
            elif not self._is_known(expression.function):
                found.append(self._not_known(expression))
            parts = (*expression.arguments, *(option.value for option in expression.options))
        else:
            parts = expression.items if isinstance(expression, Array) else ()
        for part in parts:
            found += self._unknown(part, macro)
        return found

    def _is_known(self, name: str) -> bool:
        return name.lower() in self._macros or self._is_function(name)

    def _number_body(self, statement: Statement) -> str:
        """Count what the original counts when it reads a macro; return the name of the statement."""
        if isinstance(statement, MacroDefinition):
            return ""
        before = self._unnamed
        self._unnamed += _anonymous(statement.value)
        return statement.name or f"unnamed{before + 1}"

    # -- statements and expressions -------------------------------------------------------------------------

    def _assign(self, statement: Assignment, scope: Scope, unnamed: str = "") -> None:
        name = statement.name or unnamed
        if statement.name.lower() in BY_NAME:
            message = f"'{statement.name}' is reserved, the name of a function, and cannot be assigned"
            raise BuildError(message, where=statement.where)
        copied = scope.owner is not None
        if isinstance(statement.value, Call):
            self._unnamed += not copied
            called = self._call(statement.value, scope, name)
            scope.define(name, called, statement.where)
            scope.calls.append(called)
            scope.last = name
            return
        before = self._unnamed
        value = self._operand(statement.value, scope)
        if copied:
            self._unnamed = before
        scope.define(name, value, statement.where)
        scope.last = name
        if isinstance(value, Reference):
            _rename(value, name)

    def _operand(self, expression: Expression, scope: Scope) -> Operand:
        if isinstance(expression, Name):
            return Reference(expression.text, expression.where, scope)
        if isinstance(expression, Text):
            return expression
        self._unnamed += 1
        if isinstance(expression, Call):
            return self._call(expression, scope, f"unnamed{self._unnamed}")
        if isinstance(expression, Number):
            return expression
        return ArrayOf(tuple(self._operand(item, scope) for item in expression.items), expression.where)

    def _call(self, call: Call, scope: Scope, name: str) -> FunctionCall | MacroCall:
        self._calls += 1
        if self._calls > _MAX_CALLS:
            raise BuildError(f"the macros expand to more than {_MAX_CALLS} calls", where=call.where)
        macro = self._macros.get(call.function.lower())
        if macro is not None and macro.broken:
            return FunctionCall(name, "", call.where, scope)
        if macro is not None:
            return self._macro_call(macro, call, scope, name)
        made = FunctionCall(name, call.function, call.where, scope)
        made.arguments = tuple(self._operand(argument, scope) for argument in call.arguments)
        made.options = self._options(call, scope)
        return made

    def _macro_call(self, macro: _Macro, call: Call, scope: Scope, name: str) -> MacroCall:
        definition = macro.definition
        if len(call.arguments) != len(definition.parameters):
            named = ", ".join(parameter.text for parameter in definition.parameters)
            raise BuildError(
                f"the macro '{definition.name}' takes {len(definition.parameters)} arguments ({named}), "
                f"not {len(call.arguments)}",
                where=call.where,
                hint=f"It is defined at {definition.where}.",
            )
        inner = Scope(self.script)
        made = MacroCall(name, definition.name, call.where, scope, inner)
        inner.owner = made
        if len(inner.full_name("").split(".")) > _MAX_DEPTH:
            raise BuildError(f"macros are nested more than {_MAX_DEPTH} deep", where=call.where)
        for parameter in definition.parameters:
            # The arguments come after the copy, as their numbers do; till then nobody looks a parameter up.
            inner.define(parameter.text, Number(0, "0", parameter.where), parameter.where)
        for statement, unnamed in zip(definition.body, macro.names, strict=True):
            if isinstance(statement, Assignment):
                try:
                    self._assign(statement, inner, unnamed)
                except CntkError as error:
                    tell_call(error, made)
                    raise
        made.arguments = tuple(self._operand(argument, scope) for argument in call.arguments)
        made.options = self._options(call, scope)
        _bind(definition, made)
        return made

    def _not_known(self, call: Call) -> BuildError:
        name = call.function
        later = self._later.get(name.lower())
        if later is not None:
            return BuildError(
                f"the macro '{name}' is used before it is defined",
                where=call.where,
                hint=f"Its definition is at {later.where}; move it up.",
            )
        known = [*(macro.definition.name for macro in self._macros.values()), *self._function_names()]
        self._hints += 1
        hint = did_you_mean(name, known) if self._hints <= _MAX_HINTS else ""
        return BuildError(f"there is no function or macro '{name}'{hint}", where=call.where)

    def _options(self, call: Call, scope: Scope) -> dict[str, Given]:
        given: dict[str, Given] = {}
        for option in call.options:
            key = option.name.lower()
            if key in given:
                raise BuildError(f"'{option.name}' is given twice", where=option.where)
            before = self._unnamed
            value = self._operand(option.value, scope)
            if not isinstance(option.value, Call):
                self._unnamed = before  # the original reads the values of options as text
            given[key] = Given(option.name, value, option.where)
        return given


def _bind(definition: MacroDefinition, call: MacroCall) -> None:
    """Give the parameters of a copy their arguments; further options become names in it."""
    symbols = call.inner.symbols
    for parameter, argument in zip(definition.parameters, call.arguments, strict=True):
        symbols[parameter.text.lower()] = attrs.evolve(symbols[parameter.text.lower()], value=argument)
    for given in call.options.values():
        if given.name.lower() not in symbols and given.name.lower() != "tag":
            call.inner.define(given.name, given.value, given.where)


def _rename(alias: Reference, name: str) -> None:
    """``b = a`` names the node of a call ``a`` anew, as in the original: tools ask for it as ``b``."""
    symbol = alias.scope.symbols.get(alias.text.lower())
    if symbol is None or not isinstance(symbol.value, FunctionCall | MacroCall):
        return
    if symbol.value.scope is alias.scope and not _is_made(symbol.value):
        symbol.value.name = name


def _is_made(call: FunctionCall | MacroCall) -> bool:
    """Tell whether the nodes of a call are in a network already."""
    if isinstance(call, FunctionCall):
        return call.node is not None
    return any(_is_made(inner) for inner in call.inner.calls)


_UNNAMED = re.compile(r"(?:.*\.)?unnamed(\d{1,9})", re.IGNORECASE)


def _last_number(network: Network | None) -> int:
    """Return the greatest number of an unnamed node, so that no new one gets the name of an old one."""
    found = [_UNNAMED.fullmatch(node.name) for node in network or ()]
    return max((int(match.group(1)) for match in found if match), default=0)


def _anonymous(expression: Expression) -> int:
    """How many things without a name of their own the original makes when it reads an expression."""
    if isinstance(expression, Call):
        return 1 + sum(_anonymous(argument) for argument in expression.arguments)
    if isinstance(expression, Array):
        return 1 + sum(_anonymous(item) for item in expression.items)
    return int(isinstance(expression, Number))
