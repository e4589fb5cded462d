"""Recipes that are BrainScript as a whole: their text, and the networks that it describes.

Rules of the original: docs/original-rules.md#the-command-line.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from cntk_builder_brainscript.definitions import with_definitions
from cntk_builder_brainscript.evaluate import Evaluator
from cntk_builder_brainscript.host import NETWORK
from cntk_builder_brainscript.parser import parse
from cntk_builder_brainscript.recipe_objects import RecipeRuntime
from cntk_builder_brainscript.surroundings import surroundings
from cntk_builder_brainscript.syntax import New, RecordLiteral
from cntk_builder_brainscript.texts import Finder, read_text
from cntk_builder_brainscript.values import Lambda, RecipeObject, Record, Thunk, flatten
from cntk_core.api import BuildContext, BuildError, Location, Network
from cntk_core.api.builders import Document, SourceText

Step = str | int
"""One step from a value to one in it: the name of a member, or the index of an element."""


@attrs.frozen(eq=False)
class Recipe:
    """The text of a recipe.

    Attributes:
        text: its definitions.
        where: its first file.
    """

    text: RecordLiteral
    where: Location

    @classmethod
    def read(cls, document: Document, context: BuildContext) -> Recipe:
        """Read the files of a document. Raises BuildError, Problems for what is wrong with the texts."""
        folders = tuple(context.directory / folder for folder in document.folders)
        finder = Finder(context.directory, folders)
        files = [read_text(context.directory / path, where) for path, where in document.files]
        text = parse(SourceText.join(files, "\n"), finder)
        for definitions, where in document.definitions:
            text = with_definitions(text, definitions, where, finder)
        return cls(text, Location(str(context.directory / document.files[0][0])))

    def evaluate(self, context: BuildContext) -> tuple[Evaluator, RecipeRuntime, Record]:
        """Return an evaluator with its runtime, and the record of the recipe, in which nothing is evaluated yet."""
        runtime = RecipeRuntime(context)
        evaluator = Evaluator(runtime)
        runtime.use(evaluator.call)
        return evaluator, runtime, evaluator.record(self.text, surroundings(evaluator, context))


@attrs.frozen(eq=False)
class NetworkInRecipe:
    """What the builder is told of a network in a recipe: where its description stands.

    The recipe is evaluated anew for each network that is built, so that two networks never share a node.

    Attributes:
        recipe: the text.
        steps: what leads from the top to the section.
        name: the member of the section.
    """

    recipe: Recipe
    steps: tuple[Step, ...]
    name: str

    def build(self, context: BuildContext, where: Location) -> Network:
        """Return the network.

        Raises:
            BuildError: the value is no network.
            CntkError, Problems: what goes wrong in the evaluation.
        """
        evaluator, runtime, top = self.recipe.evaluate(context)
        value = evaluator.run(lambda: self._value(evaluator, runtime, top))
        network = runtime.network_of(value)
        if network is None:
            raise BuildError(
                f"'{self.name}' must give a network, not {runtime.describe(value)}",
                where=where,
                hint="Write { ... } with the members of a network, or BS.Network.Load (...), BS.Network.Edit (...).",
            )
        return network

    def _value(self, evaluator: Evaluator, runtime: RecipeRuntime, top: Record) -> object:
        section = record_of(_follow(top, self.steps))
        assert section is not None
        member = section.members[self.name]
        path = (None, "network")
        if type(member) is Thunk and isinstance(member.expression, RecordLiteral):
            literal = member.expression
            return evaluator.evaluate(New(literal.source, literal.offset, NETWORK, literal), member.scope, path)
        where = section.where_of(self.name) or self.recipe.where
        value = section.own(self.name)
        if isinstance(value, Lambda) and not value.parameters:
            value = evaluator.call(value, [], path)
        return runtime.make(NETWORK, value, "network", where) if isinstance(value, Record) else value


def record_of(value: object) -> Record | None:
    """Return the record that a value is or is made of, ``None`` if it is something else."""
    found = value.arguments if isinstance(value, RecipeObject) else value
    return found if isinstance(found, Record) else None


def _follow(value: object, steps: Sequence[Step]) -> object:
    for step in steps:
        if isinstance(step, int):
            value = flatten(value)[step]
        else:
            record = record_of(value)
            assert record is not None
            value = record.own(step)
    return value
