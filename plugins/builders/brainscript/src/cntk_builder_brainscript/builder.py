"""BrainScriptNetworkBuilder: finds the text of the description and builds its network (cntk-inventory 2.7)."""

from __future__ import annotations

from cntk_builder_brainscript.evaluate import Evaluator
from cntk_builder_brainscript.host import NETWORK, NetworkRuntime
from cntk_builder_brainscript.parser import parse_expression
from cntk_builder_brainscript.syntax import Expression, New, RecordLiteral
from cntk_builder_brainscript.texts import Finder, library, read_text
from cntk_builder_brainscript.values import Record
from cntk_core.api import BuildContext, BuildError, Location, Network, NetworkBuilder, SourceText, Value

OPENING = ("(", "{", "[")


class BrainScriptNetworkBuilder(NetworkBuilder):
    """Builds networks from BrainScript.

    The value is a record (``{ ... }`` or ``[ ... ]``), an expression in parentheses that gives a network, the same as a
    text in quotation marks, or the name of a file with the members of the record.
    """

    requires_api = "1.0"

    def build(self, block: Value, context: BuildContext) -> Network:
        """Return the network of a ``BrainScriptNetworkBuilder`` value.

        Raises:
            BuildError, NetworkError, UnsupportedError, Problems: everything that is wrong with it.
        """
        return evaluate_network(_parse(block, context), context, block.where)

    def check(self, block: Value, context: BuildContext) -> None:
        """Raise the mistakes in the text that can be seen without evaluating it.

        Raises:
            BuildError, Problems: everything that the parser finds.
        """
        _parse(block, context)


def _parse(block: Value, context: BuildContext) -> Expression:
    source = block.full().strip(" \t\n")
    finder = Finder.beside(context.directory, [place.file for place in (*source.places, block.where)])
    if not source.text.startswith(OPENING):
        source = _file(source, block, context)
    return parse_expression(source, finder)


def evaluate_network(expression: Expression, context: BuildContext, where: Location) -> Network:
    """Return the network that an expression gives; a record is the description of one.

    Raises:
        BuildError: the value is no network.
        CntkError, Problems: what goes wrong in the evaluation.
    """
    if isinstance(expression, RecordLiteral):
        expression = New(expression.source, expression.offset, NETWORK, expression)
    runtime = NetworkRuntime(context)
    evaluator = Evaluator(runtime)
    runtime.use(evaluator.call)
    value = evaluator.value(expression, _surroundings(evaluator, context), (None, "network"))
    network = runtime.network_of(value)
    if network is None:
        raise BuildError(
            f"the expression must give a network, not {runtime.describe(value)}",
            where=where,
            hint="Write new ComputationNetwork { ... }, BS.Network.Load (...) or BS.Network.Edit (...).",
        )
    return network


def _surroundings(evaluator: Evaluator, context: BuildContext) -> Record:
    """Return the record around a description: the library, and what the original told it about the run."""
    scope = evaluator.record(library())
    scope.members |= {
        "deviceId": -1.0,
        "traceLevel": 0.0,
        "precision": "double" if context.dtype.itemsize == 8 else "float",
    }
    return scope


def _file(source: SourceText, block: Value, context: BuildContext) -> SourceText:
    """Return the description in a file as a record."""
    path = context.directory / source.text
    if not source.text or "\n" in source.text or not path.is_file():
        raise BuildError(
            f"{block.short_name} must be a record in braces, an expression in parentheses or the name of a file",
            where=block.where,
            hint="Write { ... }, or ( expression ).",
        )
    text = read_text(path, block.where)
    if text.text.lstrip().startswith(OPENING):
        return text
    return SourceText.join([SourceText.of("{\n", str(path)), text, SourceText.of("\n}", str(path))])
