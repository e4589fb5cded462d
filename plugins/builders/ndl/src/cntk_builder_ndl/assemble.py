"""From the expanded description to a network: nodes, then their inputs, then the groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from cntk_builder_ndl.expand import GROUPS
from cntk_builder_ndl.functions import BY_NAME, make_node
from cntk_builder_ndl.reading import Reader, roles_of
from cntk_builder_ndl.scope import ArrayOf, FunctionCall, MacroCall, Operand, Reference, Scope, result, tell_calls
from cntk_builder_ndl.syntax import Number
from cntk_core.api import BuildContext, BuildError, CntkError, Network, Node, Problems

_C = TypeVar("_C", bound=FunctionCall | MacroCall)


class Assembler:
    """Makes the network of one description; ``problems`` holds everything that is wrong.

    Args:
        seed_offset: the builder's ``randomSeedOffset``.
        network: what the description adds to; a new one if it is not given.
    """

    def __init__(self, context: BuildContext, seed_offset: int, network: Network | None = None) -> None:
        self.network = Network(context.dtype) if network is None else network
        self.problems: list[CntkError] = []
        self._context = context
        self._seed_offset = seed_offset
        self._scopes: dict[Node, Scope] = {}
        self._notes: set[str] = set()

    def assemble(self, script: Scope) -> Network:
        """Make all nodes that are not made yet, give them their inputs and tags, then read the group statements."""
        calls = [call for call in _calls_of(script) if isinstance(call, MacroCall) or call.node is None]
        for call in calls:
            if isinstance(call, FunctionCall) and call.function:
                self._attempt(self._make, call)
        script.network = self.network  # from here on, nodes are known by their full names too
        for call in calls:
            self._attempt(self._link, call)
        for name, role in GROUPS.items():
            symbol = script.symbols.get(name)
            if symbol is not None:
                self._mark_all(symbol.value, role, symbol.name)
        return self.network

    def infer(self) -> None:
        """Infer the shapes of the network; an error inside of macros shows where they are called.

        Raises:
            CntkError: as ``Network.infer``.
        """
        try:
            self.network.infer()
        except CntkError as error:
            for problem in error.errors if isinstance(error, Problems) else (error,):
                for node, scope in self._scopes.items():
                    if node.where == problem.where and f"'{node.name}'" in problem.message:
                        tell_calls(problem, scope)
            raise

    def _attempt(self, work: Callable[[_C], None], call: _C) -> None:
        try:
            work(call)
        except CntkError as error:
            self._report(error, call)

    def _report(self, error: CntkError, call: FunctionCall | MacroCall) -> None:
        tell_calls(error, call.scope)
        self.problems.append(error)

    def _make(self, call: FunctionCall) -> None:
        function = BY_NAME.get(call.function.lower())
        name = function.name if function else call.function
        usage = function.usage if function else ""
        reader = Reader(call, name, usage, self._context, self._seed_offset)
        made = make_node(reader, function)
        for given in reader.finish():
            note = f"{given.where}: {name} has no optional argument '{given.name}'; it has no effect"
            if note not in self._notes:
                self._notes.add(note)
                self._context.trace(note)
        call.node = self.network.add(made.node)
        self._scopes[made.node] = call.scope
        call.inputs = made.inputs
        call.more = tuple(self.network.add(parameter) for parameter in made.more)

    def _link(self, call: FunctionCall | MacroCall) -> None:
        if isinstance(call, FunctionCall) and call.node is None:
            return
        node = self._node_of(call, call)
        for role in roles_of(call):
            if node is not None:
                self.network.mark(node, role)
        if isinstance(call, FunctionCall) and node is not None:
            inputs = [self._input(operand, call) for operand in call.inputs]
            node.inputs = [*(child for child in inputs if child is not None), *call.more]

    def _input(self, operand: Operand, call: FunctionCall) -> Node | None:
        try:
            return self._node_of(operand, call)
        except CntkError as error:
            self._report(error, call)
            return None

    def _node_of(self, operand: Operand, user: FunctionCall | MacroCall) -> Node | None:
        """Return the node that an operand means, None if it could not be made.

        Raises:
            BuildError: it is not a node.
        """
        found = result(operand)
        if isinstance(found, FunctionCall):
            return found.node
        what = f"'{operand.text}'" if isinstance(operand, Reference) else "this"
        kind = "a number" if isinstance(found, Number) else "an array" if isinstance(found, ArrayOf) else "a text"
        asker = user.function if isinstance(user, FunctionCall) else user.macro
        hint = f"Write Constant({found.text})." if isinstance(found, Number) else None
        raise BuildError(f"an input of {asker} must be a node; {what} is {kind}", where=operand.where, hint=hint)

    # -- groups ---------------------------------------------------------------------------------------------

    def _mark_all(self, group: Operand, role: str, name: str) -> None:
        members = list(group.items) if isinstance(group, ArrayOf) else [group]
        for member in members:
            try:
                found = result(member)
                if not isinstance(found, FunctionCall):
                    raise BuildError(f"a member of {name} is not a node", where=member.where)
            except CntkError as error:
                self.problems.append(error)
                continue
            if found.node is not None:
                self.network.mark(found.node, role)


def _calls_of(scope: Scope) -> Iterator[FunctionCall | MacroCall]:
    """Yield all calls of a scope, those inside of others too, in the order in which the original makes nodes.

    A call comes before the calls among its own arguments; the arguments of a macro call come before what is in it.
    """
    for call in scope.calls:
        yield from _with_arguments(call)
    for symbol in scope.symbols.values():
        if isinstance(symbol.value, ArrayOf):
            yield from _in_operands(symbol.value.items)


def _with_arguments(call: FunctionCall | MacroCall) -> Iterator[FunctionCall | MacroCall]:
    yield call
    yield from _in_operands(call.arguments)
    if isinstance(call, MacroCall):
        yield from _calls_of(call.inner)


def _in_operands(operands: tuple[Operand, ...]) -> Iterator[FunctionCall | MacroCall]:
    for operand in operands:
        if isinstance(operand, FunctionCall | MacroCall):
            yield from _with_arguments(operand)
        elif isinstance(operand, ArrayOf):
            yield from _in_operands(operand.items)
