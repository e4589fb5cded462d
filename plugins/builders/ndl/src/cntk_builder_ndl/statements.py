"""NDL statements that add to a network which is there already: in-line NDL of MEL, and its snippets."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cntk_builder_ndl.assemble import Assembler
from cntk_builder_ndl.expand import GROUPS, Expander
from cntk_builder_ndl.functions import function_names
from cntk_builder_ndl.parser import parse
from cntk_builder_ndl.scope import ArrayOf, FunctionCall, MacroCall, Reference, Symbol, result
from cntk_builder_ndl.syntax import MacroDefinition, Statement
from cntk_core.api import BuildContext, BuildError, CntkError, Location, Network, Node, raise_problems
from cntk_core.api.builders import SourceText


def make_expander(context: BuildContext, network: Network | None = None) -> Expander:
    """Return an expander that knows the functions of a context."""
    names = function_names(context)
    known = {name.lower() for name in names}
    return Expander(lambda name: name.lower() in known, lambda: names, network)


def read_statements(source: SourceText) -> tuple[Statement, ...]:
    """Return the statements of a text. Raises BuildError or Problems: all that is wrong with the text."""
    statements, problems = parse(source)
    raise_problems(problems)
    return statements


def unique(problems: Iterable[CntkError]) -> list[CntkError]:
    """Return problems without repetitions: a macro that is called twice has each of them twice."""
    found: dict[tuple[str, str], CntkError] = {}
    for problem in problems:
        found.setdefault((str(problem.where), problem.message), problem)
    return list(found.values())


class Statements:
    """Adds statements to a network, some at a time; names of earlier ones stay known.

    A name means what an earlier statement defined, or else the node of that name in the network.

    Args:
        network: gets the new nodes.
        context: functions, directory and precision.
        macros: texts with macros (``ndlMacros``); their other statements define nothing.

    Raises:
        BuildError, Problems: the macros are wrong.
    """

    def __init__(self, network: Network, context: BuildContext, macros: Iterable[SourceText] = ()) -> None:
        self.network = network
        self._context = context
        self._expander = make_expander(context, network)
        for source in macros:
            self._expander.macros_only(read_statements(source))
        raise_problems(unique(self._expander.problems))

    def add_macros(self, source: SourceText, without: Collection[str] = ()) -> None:
        """Take the macros of a text that are new here, but for some names; its other statements define nothing.

        Raises:
            BuildError, Problems: the macros are wrong.
        """
        left_out = {name.lower() for name in without}
        for statement in read_statements(source):
            new = isinstance(statement, MacroDefinition) and not self._expander.has_macro(statement.name)
            if new and statement.name.lower() not in left_out:
                self._expander.macros_only((statement,))
        problems = unique(self._expander.problems)
        self._expander.problems.clear()
        raise_problems(problems)

    def node_of(self, name: str) -> Node | None:
        """Return the node that a name of earlier statements means (a macro call means its value), or None."""
        script = self._expander.script
        self._forget_what_is_gone()
        if script.find(name.partition(".")[0]) is None:
            return None
        try:
            found = result(Reference(name, Location(), script))
        except BuildError:
            return None
        return found.node if isinstance(found, FunctionCall) and self._is_here(found) else None

    def add(self, *sources: SourceText) -> list[Node]:
        """Add the nodes of the statements in some texts, which may use each other's names, and return them in order.

        Group statements and tags put nodes into the network's groups. Shapes are not inferred.

        Raises:
            BuildError, NetworkError, UnsupportedError, Problems: all that is wrong; the network then has none of the
                new nodes.
        """
        before = set(self.network)
        script = self._expander.script
        self._forget_what_is_gone()
        assembler = Assembler(self._context, 0, self.network)
        problems: list[CntkError] = []
        try:
            for source in sources:
                statements, wrong = parse(source)
                problems += wrong
                if not wrong:
                    self._expander.add(statements)
            assembler.assemble(script)
            problems += [*self._expander.problems, *assembler.problems]
        finally:
            script.calls.clear()
            self._expander.problems.clear()
        new = [node for node in self.network if node not in before]
        if problems:
            for node in new:
                self.network.remove(node)
            self._forget_what_is_gone()
            raise_problems(unique(problems))
        return new

    def _forget_what_is_gone(self) -> None:
        """Drop names whose nodes were removed, renamed or never made, and the groups of earlier statements."""
        symbols = self._expander.script.symbols
        for key, symbol in list(symbols.items()):
            if key in GROUPS or self._is_gone(symbol):
                del symbols[key]

    def _is_gone(self, symbol: Symbol) -> bool:
        if isinstance(symbol.value, FunctionCall):
            return not self._is_here(symbol.value)
        if isinstance(symbol.value, MacroCall):
            return not any(self._is_here(call) for call in _functions_of(symbol.value))
        return isinstance(symbol.value, ArrayOf)

    def _is_here(self, call: FunctionCall) -> bool:
        node = call.node
        if node is None or self.network is None or node.name not in self.network:
            return False
        return self.network[node.name] is node and node.name.lower() == call.scope.full_name(call.name).lower()


def _functions_of(macro: MacroCall) -> Iterable[FunctionCall]:
    for call in macro.inner.calls:
        if isinstance(call, FunctionCall):
            yield call
        else:
            yield from _functions_of(call)


def add_statements(
    source: SourceText, network: Network, context: BuildContext, macros: Iterable[SourceText] = ()
) -> list[Node]:
    """Add the nodes of some statements to a network and return them in order; see :class:`Statements`.

    Raises:
        BuildError, NetworkError, UnsupportedError, Problems: all that is wrong; the network is then as it was.
    """
    return Statements(network, context, macros).add(source)
