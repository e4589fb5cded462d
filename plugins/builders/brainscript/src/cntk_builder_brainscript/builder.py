"""BrainScriptNetworkBuilder: finds the text of the description and builds its network.

Rules of the original: docs/original-rules.md#brainscriptnetworkbuilder.
"""

from __future__ import annotations

from cntk_builder_brainscript.document import read_recipe
from cntk_builder_brainscript.evaluate import Evaluator
from cntk_builder_brainscript.host import NETWORK, NetworkRuntime
from cntk_builder_brainscript.parser import parse_expression
from cntk_builder_brainscript.recipe import NetworkInRecipe
from cntk_builder_brainscript.surroundings import surroundings
from cntk_builder_brainscript.syntax import Expression, New, RecordLiteral
from cntk_builder_brainscript.texts import Finder, read_text
from cntk_core.api import BuildContext, BuildError, Config, Location, Network, NetworkBuilder, Value
from cntk_core.api.builders import Document, SourceText

OPENING = ("(", "{", "[")


class BrainScriptNetworkBuilder(NetworkBuilder):
    """Builds networks from BrainScript.

    The value is a record (``{ ... }`` or ``[ ... ]``), an expression in parentheses that gives a network, the same as a
    text in quotation marks, or the name of a file with the members of the record.
    """

    requires_api = "1.0"
    priority = 10
    recipe_suffixes = (".bs", "")

    def build(self, block: Value, context: BuildContext) -> Network:
        """Return the network of a ``BrainScriptNetworkBuilder`` value.

        Raises:
            BuildError, NetworkError, UnsupportedError, Problems: everything that is wrong with it.
        """
        described = _in_recipe(block)
        if described is not None:
            return described.build(context, block.where)
        return evaluate_network(_parse(block, context), context, block.where)

    def check(self, block: Value, context: BuildContext) -> None:
        """Raise the mistakes in the text that can be seen without evaluating it.

        Raises:
            BuildError, Problems: everything that the parser finds.
        """
        if _in_recipe(block) is None:
            _parse(block, context)

    def read_recipe(self, document: Document, context: BuildContext) -> Config:
        """Return the top level of a recipe that is BrainScript as a whole.

        Raises:
            BuildError, Problems: the text is wrong, or its list of actions is.
        """
        return read_recipe(document, context)


class CreateNetwork(BrainScriptNetworkBuilder):
    """The same under the word ``createNetwork``, which CNTK looks for before all others."""

    priority = 40


def _in_recipe(block: Value) -> NetworkInRecipe | None:
    """Return what :meth:`read_recipe` said of a network; ``None`` for a value of an ordinary recipe."""
    described = None if block.content is None else block.content.description
    return described if isinstance(described, NetworkInRecipe) else None


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
    value = evaluator.value(expression, surroundings(evaluator, context), (None, "network"))
    network = runtime.network_of(value)
    if network is None:
        raise BuildError(
            f"the expression must give a network, not {runtime.describe(value)}",
            where=where,
            hint="Write new ComputationNetwork { ... }, BS.Network.Load (...) or BS.Network.Edit (...).",
        )
    return network


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
