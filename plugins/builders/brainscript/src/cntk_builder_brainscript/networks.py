"""Networks as values: described by a record, loaded from a file, edited; and functions made of a part of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from cntk_builder_brainscript.graph import GROUPS, OLD_TAGS, Graph, parents_of
from cntk_builder_brainscript.settings import Settings
from cntk_builder_brainscript.values import Lambda, Path, Record, describe, flatten, force, path_text
from cntk_core.api import (
    BuildContext,
    BuildError,
    CntkError,
    Location,
    Network,
    NetworkError,
    Node,
    did_you_mean,
    raise_problems,
)
from cntk_core.api.builders import PARAMETER_USES, clone_nodes, duplicate, nodes_to_clone

LISTS = {f"{tag}Nodes": tag for tag in (*GROUPS, *OLD_TAGS)}
"""Members of a network's record that list the nodes of a group, and the tag that they give."""

CallFunction = Callable[[Lambda, Sequence[object], Path], object]
"""Calls a function of the recipe: function, arguments, path of the result."""


@attrs.define
class NetworkValue:
    """A network as a value of the language: a record of its nodes."""

    network: Network

    def member(self, name: str) -> Node | None:
        """Return the node of a name, in which underscores may stand for dots."""
        if name in self.network:
            return self.network[name]
        return next((node for node in self.network if node.name.replace(".", "_") == name), None)

    def members(self) -> list[str]:
        """The names that can be written after the network and a dot."""
        names = (node.name.replace(".", "_") for node in self.network)
        return [name for name in names if "$" not in name and "[" not in name]


@attrs.frozen
class NetworkMaker:
    """Makes networks of records.

    Attributes:
        call: calls functions of the recipe.
    """

    context: BuildContext
    graph: Graph
    call: CallFunction

    # -- described ----------------------------------------------------------------------------------------------

    def describe(self, arguments: Record) -> NetworkValue:
        """Return the network of a record: every member that is a node is a root and has the member's name.

        Raises:
            CntkError, Problems: the mistakes of all members.
        """
        problems: dict[tuple[str, Location | None], CntkError] = {}

        def attempt(name: str) -> object:
            try:
                return arguments.own(name)
            except CntkError as error:
                # A member that others use has its mistake once.
                problems.setdefault((error.message, error.where), error)
                return None

        names = sorted(arguments.names())
        roots: list[Node] = []
        for name in names:
            if name in LISTS:
                roots += self._listed(name, attempt(name), arguments.where_of(name))
        for name in names:
            value = attempt(name)
            if isinstance(value, Node):
                if name not in LISTS:
                    value.name = name
                roots.append(value)
        raise_problems([*problems.values()])
        return NetworkValue(self.graph.network(roots, self.context.dtype))

    def _listed(self, name: str, value: object, where: Location | None) -> list[Node]:
        nodes = []
        for item in flatten(value) if value is not None else ():
            if not isinstance(item, Node):
                raise BuildError(f"'{name}' must list nodes, not {describe(item)}", where=where)
            self.graph.tag(item, LISTS[name], where)
            nodes.append(item)
        return nodes

    # -- loaded -------------------------------------------------------------------------------------------------

    def load(self, arguments: Record, where: Location) -> NetworkValue:
        """Return the network of a model file (``pathName``). Raises CntkError if it cannot be loaded."""
        path = Settings(arguments, "Network.Load", where).text("pathName")
        network = self.context.load_model(path, arguments.where_of("pathName") or where)
        self.graph.adopt(network)
        return NetworkValue(network)

    # -- edited -------------------------------------------------------------------------------------------------

    def edit(self, arguments: Record, where: Location) -> NetworkValue:
        """Return a network (``inputModel``) in which nodes are replaced by what ``editFunctions`` make of them.

        The nodes that use a replaced one are copied, the others are shared. ``additionalRoots`` are added.

        Raises:
            BuildError: an argument is of the wrong kind.
            NetworkError: a replacement depends on the node that it replaces.
        """
        model = arguments.get("inputModel")
        if not isinstance(model, NetworkValue):
            raise arguments.wrong("inputModel", "a network", model)
        functions = []
        for function in arguments.flat("editFunctions"):
            if not isinstance(function, Lambda):
                raise arguments.wrong("editFunctions", "a function or an array of them", function)
            functions.append(function)
        additional = Settings(arguments, "Network.Edit", where).nodes("additionalRoots")
        for name in arguments.names():
            if name in LISTS:
                additional += self._listed(name, arguments.own(name), arguments.where_of(name))
        nodes = sorted(model.network, key=lambda node: node.name.lower())
        replacements = self._replacements(nodes, functions, where)
        parents = parents_of(nodes)
        self._copy_users(replacements, parents)
        _follow_chains(replacements, where)
        roots = [*(node for node in nodes if not parents[node]), *additional]
        network = self.graph.network(roots, self.context.dtype, replacements)
        _check_cycles(network, where)
        return NetworkValue(network)

    def _replacements(self, nodes: Iterable[Node], functions: Sequence[Lambda], where: Location) -> dict[Node, Node]:
        found: dict[Node, Node] = {}
        for node in nodes:
            for function in functions:
                new = self.call(function, [node], (None, node.name))
                if not isinstance(new, Node):
                    raise BuildError(
                        f"an edit function must return a node, not {describe(new)} (for '{node.name}')", where=where
                    )
                if new is not node:
                    found[node] = new
                    break
        return found

    def _copy_users(self, replacements: dict[Node, Node], parents: dict[Node, list[Node]]) -> None:
        """Add copies of all nodes that use a replaced one, directly or not."""
        pending = list(replacements)
        copies: dict[Node, Node] = {}
        while pending:
            for parent in parents[pending.pop(0)]:
                if parent not in replacements:
                    replacements[parent] = copies[parent] = duplicate(parent)
                    pending.append(parent)
        self.graph.copied(copies)

    # -- cloned -------------------------------------------------------------------------------------------------

    def clone_function(self, arguments: Record, where: Location) -> Lambda:
        """Return the function that copies the nodes between ``inputNodes`` and ``outputNodes``.

        ``parameters`` says what becomes of parameters: ``learnable``, ``constant`` or ``shared``.

        Raises:
            BuildError: an argument is of the wrong kind.
            NetworkError, Problems: the outputs do not depend on an input.
        """
        settings = Settings(arguments, "Network.CloneFunction", where)
        inputs = settings.nodes("inputNodes")
        outputs = _outputs(arguments)
        use = settings.text("parameters", "learnable")
        if use not in PARAMETER_USES:
            raise BuildError(
                f"'parameters' of Network.CloneFunction cannot be '{use}'{did_you_mean(use, PARAMETER_USES)}",
                where=arguments.where_of("parameters") or where,
                hint=f"Accepted: {', '.join(PARAMETER_USES)}",
            )
        self.graph.attach_all(outputs.values())
        members = nodes_to_clone(inputs, outputs.values(), use)

        def apply(values: list[object], named: dict[str, object], path: Path) -> object:
            given = [force(value) for value in values]
            for value in given:
                if not isinstance(value, Node):
                    raise BuildError(f"a cloned function takes nodes, not {describe(value)}", where=where)
            links = {old: new for old, new in zip(inputs, given, strict=True) if isinstance(new, Node)}
            prefix = path_text(path)

            def rename(name: str) -> str:
                return f"{prefix}.{name}"

            copies = clone_nodes(members, links, rename, frozen=use == "constant")
            made = {old: new for old, new in copies.items() if old not in links}
            self.graph.copied(made)
            self.graph.cloned(made, rename)
            results: dict[str, object] = {name: copies.get(node, node) for name, node in outputs.items()}
            return results[""] if "" in results else Record(results, path=path)

        return Lambda([f"input_{index}" for index in range(len(inputs))], {}, name="CloneFunction", native=apply)


def _outputs(arguments: Record) -> dict[str, Node]:
    """The outputs by name; the one output has no name."""
    value = arguments.get("outputNodes")
    if isinstance(value, Node):
        return {"": value}
    if not isinstance(value, Record) or not value.names():
        raise arguments.wrong("outputNodes", "a node or a record of nodes", value)
    found: dict[str, Node] = {}
    for name in value.names():
        node = value.own(name)
        if not isinstance(node, Node):
            raise value.wrong(name, "a node", node)
        found[name] = node
    return found


def _follow_chains(replacements: dict[Node, Node], where: Location) -> None:
    """Let no replacement be a node that is replaced itself. Raises NetworkError if two replace each other."""
    for old, new in replacements.items():
        passed = [old]
        while new in replacements:
            passed.append(new)
            new = replacements[new]
            if new in passed:
                names = " -> ".join(node.name for node in [*passed, new])
                raise NetworkError(f"Network.Edit replaces nodes by each other: {names}", where=where)
        replacements[old] = new


def _check_cycles(network: Network, where: Location) -> None:
    try:
        network.order(network)
    except NetworkError as error:
        raise NetworkError(
            f"Network.Edit: a replacement depends on the node that it replaces: {error.message}", where=where
        ) from None
