"""The models that a script works on, and what a name of a script means in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from cntk_builder_ndl.mel.syntax import Argument
from cntk_builder_ndl.statements import Statements, read_statements
from cntk_builder_ndl.syntax import MacroDefinition
from cntk_core.api import BuildContext, BuildError, Location, Network, NetworkError, Node, did_you_mean
from cntk_core.api.builders import NamePattern, SourceText, complete_network, find_nodes

DEFAULT = "default"
"""The name of a model that is made or loaded without a name."""

MAX_COPIES = 50_000
"""Most nodes that a script may copy."""


@attrs.define(eq=False)
class Model:
    """A network with a name, and the in-line NDL that adds to it."""

    name: str
    network: Network
    statements: Statements

    def complete(self) -> None:
        """Check links, infer shapes and give new parameters their values. Raises what is wrong with the network."""
        complete_network(self.network)


@attrs.frozen
class Selection:
    """What a name of a script means: nodes of a model, by name or pattern."""

    model: Model
    pattern: str

    @property
    def stars(self) -> int:
        """How many ``*`` the pattern has; a plain name has none."""
        return self.pattern.count("*")

    @property
    def is_pattern(self) -> bool:
        """Whether it may mean several nodes."""
        return self.stars > 0

    def nodes(self) -> list[Node]:
        """Return the nodes, at least one; a name of in-line NDL may mean the node that it stands for.

        Raises:
            NetworkError: there is none.
        """
        if not self.is_pattern and self.pattern not in self.model.network:
            found = self.model.statements.node_of(self.pattern)
            if found is not None:
                return [found]
        return find_nodes(self.model.network, self.pattern)

    def is_there(self) -> bool:
        """Tell whether there are such nodes."""
        network = self.model.network
        if self.is_pattern:
            pattern = NamePattern(self.pattern)
            return any(pattern.match(node.name) is not None for node in network)
        return self.pattern in network or self.model.statements.node_of(self.pattern) is not None


class Models:
    """The models by name, one of which is the default.

    Args:
        context: what the builder was given.
        macros: texts with macros for in-line NDL.
    """

    def __init__(self, context: BuildContext, macros: Iterable[SourceText] = ()) -> None:
        self._context = context
        self._macros = list(macros)
        self._snippets: list[SourceText] = []
        self._models: dict[str, Model] = {}
        self.default: Model | None = None

    @property
    def names(self) -> list[str]:
        """The names of all models."""
        return [model.name for model in self._models.values()]

    def add(self, name: str, network: Network) -> Model:
        """Take a model under a name; it becomes the default if there is none. One of the same name is dropped."""
        old = self._models.get(name.lower())
        if old is not None:
            self._context.trace(f"WARNING: the model {old.name} is replaced by a new one of the same name")
            if self.default is old:
                self.default = None
        model = Model(name, network, Statements(network, self._context, self._macros))
        for source in self._snippets:
            model.statements.add_macros(source)
        self._models[name.lower()] = model
        self.default = self.default or model
        return model

    def add_described(self, name: str, sources: Sequence[SourceText]) -> Model:
        """Make a model from texts in NDL; all other models can then use their macros.

        Raises:
            BuildError, NetworkError, Problems: the description is wrong.
        """
        network = Network(self._context.dtype)
        statements = Statements(network, self._context, self._macros)
        own = [s.name for source in sources for s in read_statements(source) if isinstance(s, MacroDefinition)]
        for source in self._snippets:
            statements.add_macros(source, without=own)
        statements.add(*sources)
        for source in sources:
            for model in self._models.values():
                model.statements.add_macros(source)
        model = self.add(name, network)
        model.statements = statements
        self._snippets += sources
        return model

    def drop(self, name: str) -> bool:
        """Forget a model; return whether there was one."""
        model = self._models.pop(name.lower(), None)
        if model is not None and model is self.default:
            self.default = None
        return model is not None

    def find(self, name: Argument) -> Model:
        """Return the model of a name (``m`` or ``m.*``).

        Raises:
            BuildError: there is none.
        """
        model = self._models.get(name.text.removesuffix(".*").lower())
        if model is None:
            raise self._missing(name.text, name.where)
        return model

    def _missing(self, name: str, where: Location) -> BuildError:
        listed = ", ".join(self.names)
        return BuildError(
            f"there is no model '{name}'{did_you_mean(name, self.names)}",
            where=where,
            hint=f"Models here: {listed}" if listed else "Load one first: m=LoadModel(file).",
        )

    def required_default(self, where: Location) -> Model:
        """Return the default model.

        Raises:
            BuildError: there is none.
        """
        if self.default is None:
            raise BuildError(
                "there is no default model",
                where=where,
                hint=f"Call SetDefaultModel({self.names[0]}) first." if self.names else "Load one: m=LoadModel(file).",
            )
        return self.default

    # -- names of nodes -------------------------------------------------------------------------------------

    def target(self, name: Argument) -> Selection:
        """Return what a name or pattern means that need not be there yet: ``m.name`` or ``name``."""
        return self._in_model(name.text) or Selection(self.required_default(name.where), name.text)

    def selection(self, name: Argument) -> Selection:
        """Return what a name or pattern of nodes means; a node called like a model counts if the model has none."""
        found = self._in_model(name.text)
        if self.default is not None:
            plain = Selection(self.default, name.text)
            if found is None or (not found.is_there() and plain.is_there()):
                return plain
        return found or Selection(self.required_default(name.where), name.text)

    def _in_model(self, text: str) -> Selection | None:
        first, dot, rest = text.partition(".")
        model = self._models.get(first.lower())
        if model is None:
            return None
        return Selection(model, rest if dot and rest else "*")

    def nodes(self, name: Argument) -> list[Node]:
        """Return the nodes that a name or pattern means, at least one.

        Raises:
            NetworkError: there is none; names the nearest.
        """
        return self._located(self.selection(name).nodes, name)

    def node(self, name: Argument, what: str) -> Node:
        """Return the one node that a name means.

        Raises:
            NetworkError, BuildError: there is none, or several.
        """
        found = self.nodes(name)
        if len(found) > 1:
            raise BuildError(
                f"{what} must be one node, and '{name.text}' means {len(found)}: "
                f"{', '.join(node.name for node in found[:3])}{', ...' if len(found) > 3 else ''}",
                where=name.where,
            )
        return found[0]

    def _located(self, work: Callable[[], list[Node]], name: Argument) -> list[Node]:
        try:
            return work()
        except NetworkError as error:
            error.where = error.where or name.where
            raise
