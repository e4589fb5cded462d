"""Evaluation of BrainScript: lazy, with lexical scope, every value under the path that leads to it.

Rules of the original: docs/original-rules.md#brainscript-evaluation-and-names.

Which step adds what to a path is the original's: see :mod:`~cntk_builder_brainscript.values`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from cntk_builder_brainscript import infix
from cntk_builder_brainscript.defaults import depend_on_call
from cntk_builder_brainscript.depth import deep_stack
from cntk_builder_brainscript.functions import KINDS
from cntk_builder_brainscript.runtime import Runtime
from cntk_builder_brainscript.syntax import (
    ArrayLiteral,
    ArrayRange,
    Call,
    Conditional,
    Element,
    Expression,
    Function,
    Identifier,
    Index,
    Infix,
    Literal,
    Member,
    New,
    RecordLiteral,
    Unary,
)
from cntk_builder_brainscript.trace import explain, failure, in_library, no_option, users_place, wrong_count
from cntk_builder_brainscript.values import (
    MAX_ELEMENTS,
    Array,
    CallSite,
    Lambda,
    Path,
    Record,
    Thunk,
    bounded_path_text,
    describe,
    number_text,
    path_text,
)
from cntk_core.api import BuildError, CntkError, did_you_mean

T = TypeVar("T")

MAX_DEPTH = 50_000
MAX_STEPS = 20_000_000
MAX_SEGMENTS = 2000

_LANGUAGE_VALUES = (float, str, bool, Record, Array, Lambda)


class Evaluator:
    """Evaluates expressions.

    Parameters
    ----------
    runtime
        What makes nodes and networks.
    max_steps
        Expressions that are evaluated at most before a description counts as endless.
    max_depth
        Expressions that are being evaluated at the same time at most.
    """

    def __init__(self, runtime: Runtime, *, max_steps: int = MAX_STEPS, max_depth: int = MAX_DEPTH) -> None:
        self.runtime = runtime
        self.active: list[Thunk] = []
        self._steps = self._max_steps = max_steps
        self._depth = 0
        self._max_depth = max_depth
        self._explained: CntkError | None = None
        self._handlers: Mapping[type[Expression], Callable[..., object]] = {
            Literal: self._literal,
            Identifier: self._identifier,
            Member: self._member,
            Index: self._index,
            Unary: self._unary,
            Infix: self._infix,
            Conditional: self._conditional,
            New: self._new,
            Function: self._function,
            Call: self._call,
            RecordLiteral: self.record,
            ArrayLiteral: self._array,
            ArrayRange: self._range,
            Element: self._element,
        }

    # Ways in

    def run(self, work: Callable[[], T]) -> T:
        """Return ``work()``, with the room that deep networks need. Everything that evaluates runs in here.

        Raises:
            BuildError: what is wrong with the description.
        """
        depth, active = self._depth, len(self.active)
        with deep_stack():
            try:
                return work()
            except RecursionError:
                # Only code of a runtime that uses many frames per level gets here before the limit on depth does.
                raise BuildError("the description is nested too deeply") from None
            finally:
                self._depth = depth
                del self.active[active:]

    def value(self, expression: Expression, scope: Record | None = None, path: Path = None) -> object:
        """Return the value of an expression."""
        return self.run(lambda: self.evaluate(expression, scope, path))

    def call(
        self,
        function: Lambda,
        arguments: Sequence[object],
        path: Path = None,
        named: Mapping[str, object] | None = None,
    ) -> object:
        """Return the result of a function for values, as a runtime calls it."""
        return self.run(lambda: self.apply(function, list(arguments), dict(named or {}), path, None, None))

    # The machine

    def evaluate(self, expression: Expression, scope: Record | None, path: Path) -> object:
        """Return the value of an expression; only to be called inside of :meth:`run`."""
        self._depth += 1
        self._steps -= 1
        if self._depth > self._max_depth or self._steps < 0:
            raise self._endless(expression, scope)
        value = self._handlers[type(expression)](expression, scope, path)
        self._depth -= 1
        return value

    def spend(self, steps: int, e: Expression | None = None, scope: Record | None = None) -> None:
        """Count work that is not evaluation, such as the copying of a text, among the steps.

        Raises BuildError if that is too much.
        """
        self._steps -= steps
        if self._steps < 0:
            if e is None:
                raise BuildError(self._too_many_steps())
            raise self._endless(e, scope)

    def _too_many_steps(self) -> str:
        return f"this takes more than {self._max_steps} steps: does it ever end?"

    def _endless(self, expression: Expression, scope: Record | None) -> BuildError:
        if self._steps < 0:
            return self.fail(self._too_many_steps(), expression, scope)
        message = f"calls and expressions are nested more than {self._max_depth} deep: does the recursion end?"
        return self.fail(message, expression, scope)

    def circular(self, thunk: Thunk) -> BuildError:
        """Return the error for a value that needs itself; the hint shows the cycle."""
        start = next(i for i, running in enumerate(self.active) if running is thunk)
        names: list[str] = []
        cycle = self.active[start:]
        for step in [step for step in cycle if not in_library(step.expression.where)] or cycle:
            name = path_text(step.path) or "(a value)"
            if not names or names[-1] != name:
                names.append(name)
        if len(names) > 1 and names[-1] == names[0]:
            names.pop()
        shown = names if len(names) <= 10 else [*names[:8], f"... {len(names) - 9} more ...", names[-1]]
        message = f"circular reference: '{names[0]}' needs its own value"
        return self.fail(message, thunk.expression, thunk.scope, " -> ".join([*shown, names[0]]))

    def fail(self, message: str, expression: Expression, scope: Record | None, hint: str | None = None) -> BuildError:
        """Return an error about an expression, with the chain of calls that led to it."""
        error = failure(message, expression, scope, hint)
        self._explained = error
        return error

    def _explain(self, error: CntkError, expression: Expression, scope: Record | None) -> None:
        if error is not self._explained:
            explain(error, expression, scope)
            self._explained = error

    def describe(self, value: object) -> str:
        """Return a few words about a value for a message."""
        if value is None or isinstance(value, _LANGUAGE_VALUES):
            return describe(value)
        return self.runtime.describe(value)

    # Leaves, look-up

    def _literal(self, e: Literal, scope: Record | None, path: Path) -> object:
        return e.value

    def _identifier(self, e: Identifier, scope: Record | None, path: Path) -> object:
        name = e.name
        inner = scope
        while inner is not None:
            value = inner.members.get(name)
            if value is not None:
                return value.force() if type(value) is Thunk else value
            inner = inner.parent
        value = self._further(name, scope)
        if value is not None:
            return value
        known = [*(scope.visible() if scope is not None else ()), *self.runtime.further_names()]
        raise self.fail(f"unknown identifier '{name}'{did_you_mean(name, known)}", e, scope)

    def _further(self, name: str, scope: Record | None) -> object:
        """Return what the runtime defines, and keep it in the outermost scope; ``None`` for an unknown name."""
        definition = self.runtime.definition(name)
        if definition is None:
            return None
        outermost = scope
        while outermost is not None and outermost.parent is not None:
            outermost = outermost.parent
        value = self.record(definition, outermost).own(name)
        if outermost is not None:
            outermost.members[name] = value
        return value

    def _member(self, e: Member, scope: Record | None, path: Path) -> object:
        record = self.evaluate(e.record, scope, path)
        # What a record does not have is looked for around it, as in the original: recipes reach the parameters of
        # the function that made the record.
        names: Sequence[str]
        if type(record) is Record:
            value, names = record.find(e.name), record.names()
        elif isinstance(record, _LANGUAGE_VALUES):
            raise self.fail(f"'.{e.name}' needs a record, not {describe(record)}", e, scope)
        else:
            value, names = self._member_of_object(e, record, scope)
        if value is None:
            hint = f"Members: {', '.join(list(names)[:20])}{', ...' if len(names) > 20 else ''}" if names else None
            message = f"{self.describe(record)} has no member '{e.name}'{did_you_mean(e.name, names)}"
            raise self.fail(message, e, scope, hint)
        return value

    def _member_of_object(self, e: Member, value: object, scope: Record | None) -> tuple[object, Sequence[str]]:
        try:
            member = self.runtime.member(value, e.name)
            return member, () if member is not None else tuple(self.runtime.members(value))
        except CntkError as error:
            self._explain(error, e, scope)
            raise

    def _index(self, e: Index, scope: Record | None, path: Path) -> object:
        array = self.evaluate(e.array, scope, (path, "_vector"))
        if type(array) is not Array:
            raise self.fail(f"'[ ]' needs an array, not {self.describe(array)}", e, scope)
        index = self._whole(e.index, scope, (path, "_index"), "an index")
        try:
            return array.at(index)
        except IndexError:
            hint = f"It has the indices {array.first} to {array.last}." if len(array) else "It is empty."
            raise self.fail(f"the array has no element {index}", e.index, scope, hint) from None

    def _whole(self, e: Expression, scope: Record | None, path: Path, what: str) -> int:
        value = self.evaluate(e, scope, path)
        if type(value) is not float or not value.is_integer():
            raise self.fail(f"{what} must be a whole number, not {self.describe(value)}", e, scope)
        return int(value)

    # Operators

    def _infix(self, e: Infix, scope: Record | None, path: Path) -> object:
        return infix.infix(self, e, scope, path)

    def _unary(self, e: Unary, scope: Record | None, path: Path) -> object:
        return infix.unary(self, e, scope, path)

    def operate(
        self, operator: str, operands: Sequence[object], e: Expression, scope: Record | None, path: Path
    ) -> object:
        """Return the node of an operator."""
        where = users_place(e.where, scope)
        assert where is not None
        try:
            return self.runtime.operate(operator, operands, self._name(path, e, scope), where)
        except CntkError as error:
            self._explain(error, e, scope)
            raise

    def _conditional(self, e: Conditional, scope: Record | None, path: Path) -> object:
        condition = self.evaluate(e.condition, scope, (path, "if"))
        if condition is True:
            return self.evaluate(e.positive, scope, path)
        if condition is False:
            return self.evaluate(e.negative, scope, path)
        if not self.runtime.is_node(condition):
            message = f"the condition must be true or false, not {self.describe(condition)}"
            raise self.fail(message, e.condition, scope)
        positive = self.evaluate(e.positive, scope, (path, "then"))
        negative = self.evaluate(e.negative, scope, (path, "else"))
        return self.operate("if", [condition, positive, negative], e, scope, path)

    # Objects

    def _new(self, e: New, scope: Record | None, path: Path) -> object:
        kind = e.kind
        own = KINDS.get(kind)
        runtime = self.runtime
        if own is not None and kind in runtime.kinds and not in_library(e.where):
            own = None
        if own is None and kind not in runtime.kinds:
            known = [*KINDS, *runtime.kinds]
            hint = f"Kinds: {', '.join(sorted(known))}."
            raise self.fail(f"unknown kind of object '{kind}'{did_you_mean(kind, known)}", e, scope, hint)
        from_root = own is None and runtime.names_from_root(kind)
        arguments = self.evaluate(e.record, scope, None if from_root else path)
        if type(arguments) is not Record:
            raise self.fail(f"new {kind} needs a record, not {self.describe(arguments)}", e, scope)
        try:
            if own is not None:
                return own(self, arguments)
            where = users_place(e.where, scope)
            assert where is not None
            return runtime.make(kind, arguments, self._name(path, e, scope), where)
        except CntkError as error:
            self._explain(error, e, scope)
            raise

    def _name(self, path: Path, e: Expression, scope: Record | None) -> str:
        # Writing names out takes time that grows with their length, so an endless network has to be found early.
        try:
            return bounded_path_text(path, MAX_SEGMENTS)
        except OverflowError as error:
            message = f"the name of this object has more than {MAX_SEGMENTS} parts: does the recursion end?"
            raise self.fail(message, e, scope, str(error)) from None

    # Functions

    def _delayed(self, e: Expression, scope: Record | None, path: Path, segment: str) -> object:
        return e.value if type(e) is Literal else Thunk(self, e, scope, (path, segment))

    def _function(self, e: Function, scope: Record | None, path: Path) -> Lambda:
        # Default values are shared by all calls of this function; they are evaluated where it was defined.
        optional = {name: self._delayed(o.value, scope, path, name) for name, o in e.optional.items()}
        derived = depend_on_call(e, scope) if optional else ()
        return Lambda(e.parameters, optional, body=e.body, scope=scope, name=e.name, derived=derived)

    def _call(self, e: Call, scope: Record | None, path: Path) -> object:
        function = self.evaluate(e.function, scope, path)
        if type(function) is not Lambda:
            raise self.fail(f"only functions can be called, not {self.describe(function)}", e, scope)
        if len(e.arguments) != len(function.parameters):
            raise self._bad_call(wrong_count(function, len(e.arguments), tuple(e.named)), e, scope)
        arguments = [
            self._delayed(argument, scope, path, name)
            for name, argument in zip(function.parameters, e.arguments, strict=True)
        ]
        named: dict[str, object] = {}
        for name, given in e.named.items():
            if name not in function.optional:
                raise self._bad_call(no_option(function, name), e, scope)
            named[name] = self._delayed(given.value, scope, path, name)
        return self._enter(function, arguments, named, path, e, scope)

    def apply(
        self,
        function: Lambda,
        arguments: list[object],
        named: dict[str, object],
        path: Path,
        site: Expression | None,
        caller: Record | None,
    ) -> object:
        """Return the result of a function for values or thunks; ``site`` is where the call is written."""
        if len(arguments) != len(function.parameters):
            raise self._bad_call(wrong_count(function, len(arguments), ()), site, caller)
        for name in named:
            if name not in function.optional:
                raise self._bad_call(no_option(function, name), site, caller)
        return self._enter(function, arguments, named, path, site, caller)

    def _enter(
        self,
        function: Lambda,
        arguments: list[object],
        named: dict[str, object],
        path: Path,
        site: Expression | None,
        caller: Record | None,
    ) -> object:
        if function.body is None:
            assert function.native is not None
            try:
                return function.native(arguments, named, path)
            except CntkError as error:
                if site is not None:
                    self._explain(error, site, caller)
                raise
        members: dict[str, object] = dict(zip(function.parameters, arguments, strict=True))
        members.update(function.optional)
        members.update(named)
        scope = Record(members, function.scope, call=CallSite(function, arguments, site, caller))
        for name, default in function.derived:
            if name not in named:
                members[name] = Thunk(self, default, scope, (path, name))
        return self.evaluate(function.body, scope, path)

    def _bad_call(self, texts: tuple[str, str | None], site: Expression | None, scope: Record | None) -> BuildError:
        message, hint = texts
        return BuildError(message, hint=hint) if site is None else self.fail(message, site, scope, hint)

    # Records and arrays

    def record(self, e: RecordLiteral, scope: Record | None = None, path: Path = None) -> Record:
        """Return the record of a literal, or of a whole text, in a scope; its members are not evaluated."""
        members: dict[str, object] = {}
        record = Record(members, scope, literal=e, path=path)
        for name, member in e.members.items():
            value = member.value
            members[name] = value.value if type(value) is Literal else Thunk(self, value, record, (path, name))
        return record

    def _array(self, e: ArrayLiteral, scope: Record | None, path: Path) -> Array:
        items = [self._delayed(item, scope, path, f"[{index}]") for index, item in enumerate(e.items)]
        return Array(items, joins=_Joining(self, e, scope) if e.joins else None)

    def _range(self, e: ArrayRange, scope: Record | None, path: Path) -> Array:
        first = self._whole(e.first, scope, (path, "array_first"), "the first index")
        last = self._whole(e.last, scope, (path, "array_last"), "the last index")
        count = max(last - first + 1, 0)
        _Joining(self, e, scope).add(count, count)
        function = e.function
        items = [
            Thunk(
                self,
                Element(function.source, function.offset, function, float(index)),
                scope,
                None if path is None else (path, f"[{index}]"),
            )
            for index in range(first, last + 1)
        ]
        return Array(items, first)

    def _element(self, e: Element, scope: Record | None, path: Path) -> object:
        function = self.evaluate(e.function, scope, (None, "_lambda"))
        if type(function) is not Lambda:
            message = f"the elements of an array come from a function, not {self.describe(function)}"
            raise self.fail(message, e, scope)
        return self.apply(function, [e.index], {}, path, e, scope)


class _Joining:
    """Limits for the elements of an array that an expression makes."""

    __slots__ = ("_expression", "_machine", "_scope")

    def __init__(self, machine: Evaluator, expression: Expression, scope: Record | None) -> None:
        self._machine = machine
        self._expression = expression
        self._scope = scope

    def add(self, count: int, total: int) -> None:
        if total > MAX_ELEMENTS:
            message = f"an array has at most {MAX_ELEMENTS} elements, not {number_text(float(total))}"
            raise self._machine.fail(message, self._expression, self._scope)
        self._machine.spend(count, self._expression, self._scope)

    def circular(self) -> CntkError:
        message = "this array is an element of itself"
        return self._machine.fail(message, self._expression, self._scope)
