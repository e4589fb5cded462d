"""The sections of a recipe that is BrainScript as a whole, as actions read them.

Rules of the original: docs/original-rules.md#the-command-line.

A member becomes a key of its section, and its value is evaluated when an action asks for it: numbers, texts and truth
values, arrays of them, and records, which are sections. Functions are no keys. Where a name is written with capitals in
two ways, which keys cannot tell apart, the one with a small first letter is the key.
"""

from __future__ import annotations

from collections.abc import Iterator

from cntk_builder_brainscript.evaluate import Evaluator
from cntk_builder_brainscript.functions import show
from cntk_builder_brainscript.recipe import NetworkInRecipe, Recipe, Step, record_of
from cntk_builder_brainscript.recipe_objects import ACTIONS, RecipeRuntime
from cntk_builder_brainscript.syntax import ArrayLiteral, Call, Expression, Function, Index, Infix, Member
from cntk_builder_brainscript.values import Array, RecipeObject, Record, TensorShape, Thunk, flatten, number_text
from cntk_core.api import BuildContext, BuildError, Config, Location
from cntk_core.api.builders import Content, Document, EvaluatedEntry

ACTION_LISTS = ("actions", "command")
"""Members that list what a recipe does, the original's name first."""

OTHER_KEYS = {"optimizer": "SGD", "createNetwork": "BrainScriptNetworkBuilder"}
"""Members that a recipe of this kind may call otherwise than one of the other kind."""

DESCRIPTIONS = ("createNetwork", "BrainScriptNetworkBuilder", "ExperimentalNetworkBuilder")
"""Members that describe a network in this language."""

Entries = dict[str, EvaluatedEntry]
Steps = tuple[Step, ...]


def read_recipe(document: Document, context: BuildContext) -> Config:
    """Return the top level of a recipe.

    Raises:
        BuildError, Problems: the text is wrong, or its list of actions is.
    """
    recipe = Recipe.read(document, context)
    return Config(_Sections(recipe, context).top_level(), where=recipe.where)


class _Sections:
    """Makes sections of records."""

    def __init__(self, recipe: Recipe, context: BuildContext) -> None:
        self.recipe = recipe
        self.evaluator: Evaluator
        self.runtime: RecipeRuntime
        self.top: Record
        self.evaluator, self.runtime, self.top = recipe.evaluate(context)

    # -- the top level -------------------------------------------------------------------------------------

    def top_level(self) -> Entries:
        """Return the entries of the top level; ``command`` has the names of the actions."""
        entries = self.entries(self.top, ())
        member = next((name for name in ACTION_LISTS if name in self.top.members), None)
        if member is None:
            raise BuildError(
                "the recipe has no list of actions",
                where=self.recipe.where,
                hint="Write, for instance, actions = train ; train = new TrainAction [ ... ].",
            )
        for name in ACTION_LISTS:
            entries.pop(name, None)
        where = self._place(self.top, member)
        value = self.evaluator.run(lambda: self.top.own(member))
        names: list[str] = []
        for index, item in enumerate(flatten(value, where)):
            names += self._action(item, index, member, entries)
        listed = Content.of_array(tuple(Content.of_text(name, where) for name in names), where)
        entries["command"] = EvaluatedEntry("command", where, lambda: listed)
        return entries

    def _action(self, item: object, index: int, member: str, entries: Entries) -> Iterator[str]:
        """Yield the names of an item of the list of actions, and see to it that the entries have its section."""
        where = self._place(self.top, member)
        if isinstance(item, str):
            yield from filter(None, (name.strip() for name in item.split(":")))
            return
        if record_of(item) is None:
            raise BuildError(
                f"'{member}' must list actions, not {self.runtime.describe(item)}",
                where=where,
                hint=f"Accepted: new {', '.join(ACTIONS)}; records with a member 'action'; names of such members.",
            )
        name = self._name_of(item)
        if name is not None:
            entries[name.lower()] = self._entry(self.top, name, name, ())
        else:
            name = f"{member}[{index}]"
            content = self._content(item, where, (member, index))
            entries[name] = EvaluatedEntry(name, content.text.where, lambda: content)
        yield name

    def _name_of(self, item: object) -> str | None:
        """Return the name of the member that is this very object."""
        for name, value in self.top.members.items():
            if name not in ACTION_LISTS and type(value) is Thunk and value.value is item:
                return name
        return None

    # -- sections ------------------------------------------------------------------------------------------

    def entries(self, record: Record, steps: Steps) -> Entries:
        """Return the entries of a record; the steps lead to it."""
        found: Entries = {}
        for name, value in record.members.items():
            describes = name in DESCRIPTIONS
            if type(value) is Thunk and isinstance(value.expression, Function) and not describes:
                continue
            key = OTHER_KEYS.get(name, name)
            if key != name and key in record.members:
                raise BuildError(
                    f"'{name}' and '{key}' mean the same, and both are given",
                    where=self._place(record, key),
                    hint=f"'{name}' is given at {self._place(record, name)}.",
                )
            if key.lower() in found and not name[:1].islower():
                continue
            if describes:
                found[key.lower()] = self._network(record, name, key, steps)
            else:
                found[key.lower()] = self._entry(record, name, key, steps)
        return found

    def _entry(self, record: Record, name: str, key: str, steps: Steps) -> EvaluatedEntry:
        def find() -> Content:
            value = self.evaluator.run(lambda: record.own(name))
            return self._content(value, self._value_place(record, name), (*steps, name))

        return EvaluatedEntry(key, self._place(record, name), find)

    def _network(self, record: Record, name: str, key: str, steps: Steps) -> EvaluatedEntry:
        content = Content.of_network(NetworkInRecipe(self.recipe, steps, name), self._value_place(record, name))
        return EvaluatedEntry(key, self._place(record, name), lambda: content)

    def _place(self, record: Record, name: str) -> Location:
        """Return the place where a member is defined."""
        member = record.texts.get(name)
        value = record.members[name]
        if member is not None and (type(value) is not Thunk or value.expression is member.value):
            return member.where
        return record.where_of(name) or self.recipe.where

    def _value_place(self, record: Record, name: str) -> Location:
        """Return the place where the value of a member begins."""
        value = record.members[name]
        return _begin(value.expression) if type(value) is Thunk else record.where_of(name) or self.recipe.where

    # -- values --------------------------------------------------------------------------------------------

    def _content(self, value: object, where: Location, steps: Steps) -> Content:
        record = record_of(value)
        if record is not None:
            return self._section(value, record, where, steps)
        match value:
            case bool():
                return Content.of_text("true" if value else "false", where)
            case float():
                return Content.of_text(number_text(value), where)
            case str():
                return Content.of_text(value, where)
            case TensorShape():
                return Content.of_array(tuple(Content.of_text(str(dim), where) for dim in value.dims), where)
            case Array():
                items = enumerate(self.evaluator.run(lambda: flatten(value, where)))
                return Content.of_array(tuple(self._content(item, where, (*steps, i)) for i, item in items), where)
            case _:
                return Content.of_other(self.runtime.describe(value), where)

    def _section(self, value: object, record: Record, where: Location, steps: Steps) -> Content:
        entries = self.entries(record, steps)
        if isinstance(value, RecipeObject):
            where = value.where
            if value.kind in ACTIONS:
                named = Content.of_text(ACTIONS[value.kind], where)
                entries.setdefault("action", EvaluatedEntry("action", where, lambda: named))
            if value.kind in ("PrintAction", "FailAction") and "what" in record.members:
                entries["what"] = self._message(record)
        return Content.of_section(entries, where)

    def _message(self, record: Record) -> EvaluatedEntry:
        def find() -> Content:
            text = self.evaluator.run(lambda: show(self.evaluator, record.own("what")))
            return Content.of_text(text, self._value_place(record, "what"))

        return EvaluatedEntry("what", self._place(record, "what"), find)


def _begin(e: Expression) -> Location:
    """Return the place of an expression's first character; that of an operator is in its middle."""
    while True:
        match e:
            case Infix():
                e = e.left
            case Member():
                e = e.record
            case Call():
                e = e.function
            case Index():
                e = e.array
            case ArrayLiteral() if e.joins and e.items:
                e = e.items[0]
            case _:
                return e.where
