"""The runtime of network descriptions: nodes and networks for the evaluator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from cntk_builder_brainscript.dims import shape_of
from cntk_builder_brainscript.graph import Graph
from cntk_builder_brainscript.networks import CallFunction, NetworkMaker, NetworkValue
from cntk_builder_brainscript.nodes import NodeMaker
from cntk_builder_brainscript.operators import Operators
from cntk_builder_brainscript.plugin_functions import definition, names
from cntk_builder_brainscript.syntax import RecordLiteral
from cntk_builder_brainscript.values import Array, Lambda, Path, Record, describe
from cntk_core.api import BuildContext, BuildError, Location, Network, Node, to_cntk

NODE = "ComputationNode"
NETWORK = "ComputationNetwork"
FROM_FILE = "ComputationNetworkFromFile"
WITH_EDITS = "ComputationNetworkWithEdits"
CLONE = "CloneFunctionConfigLambda"
KINDS = (NODE, NETWORK, FROM_FILE, WITH_EDITS, CLONE)


class NetworkRuntime:
    """What ``new``, operators and members mean where a network is described.

    Args:
        context: what the builder is told.
    """

    def __init__(self, context: BuildContext) -> None:
        self._context = context
        self._graph = Graph()
        self._nodes = NodeMaker(context, self._graph)
        self._operators = Operators(self._nodes, self._graph, self.describe)
        self._networks = NetworkMaker(context, self._graph, self._call)
        self._caller: CallFunction | None = None

    def use(self, call: CallFunction) -> None:
        """Take the function by which functions of the recipe are called."""
        self._caller = call

    def _call(self, function: Lambda, arguments: Sequence[object], path: Path) -> object:
        assert self._caller is not None
        return self._caller(function, arguments, path)

    @property
    def kinds(self) -> Collection[str]:
        """The kinds that ``new`` accepts here."""
        return KINDS

    def names_from_root(self, kind: str) -> bool:
        """Whether what is inside of ``new kind [...]`` is named without the path to it."""
        return kind != CLONE

    def make(self, kind: str, arguments: Record, path: str, where: Location) -> object:
        """Return the object of ``new kind arguments``.

        Raises:
            CntkError, Problems: its arguments are wrong.
        """
        if kind == NODE:
            return self._nodes.make(arguments, path, where)
        if kind == NETWORK:
            return self._networks.describe(arguments)
        makers: dict[str, Callable[[Record, Location], object]] = {
            FROM_FILE: self._networks.load,
            WITH_EDITS: self._networks.edit,
            CLONE: self._networks.clone_function,
        }
        return makers[kind](arguments, where)

    def is_node(self, value: object) -> bool:
        """Whether a value is a node."""
        return isinstance(value, Node)

    def operate(self, operator: str, operands: Sequence[object], path: str, where: Location) -> object:
        """Return the node of an operator. Raises BuildError if it does not take these operands."""
        return self._operators.apply(operator, operands, path, where)

    def definition(self, name: str) -> RecordLiteral | None:
        """Return the definition of the function of a plugin's operation, ``None`` if there is none."""
        return definition(name, self._context)

    def further_names(self) -> Collection[str]:
        """The operations of plugins."""
        return names(self._context)

    def member(self, value: object, name: str) -> object:
        """Return a node of a network, or what is known of a node, ``None`` if there is no such member.

        Raises:
            BuildError: the dimensions of a node are not known yet.
        """
        if isinstance(value, NetworkValue):
            return value.member(name)
        if not isinstance(value, Node):
            return None
        if name == "name":
            return value.name
        if name == "operation":
            return value.op.name
        if name in ("inputs", f"{value.op.name}Args"):
            self._graph.attach(value)
            return Array(value.inputs)
        return _dimensions(value, name)

    def members(self, value: object) -> Collection[str]:
        """The names of the members of a node or a network."""
        if isinstance(value, NetworkValue):
            return value.members()
        if isinstance(value, Node):
            return ("name", "operation", "dim", "dims", "inputs", f"{value.op.name}Args")
        return ()

    def describe(self, value: object) -> str:
        """Return a few words for a value, for messages."""
        if isinstance(value, Node):
            return f"the node '{value.name}'" if value.name else f"a node ({value.op.name})"
        if isinstance(value, NetworkValue):
            return f"a network of {len(value.network)} nodes"
        return describe(value)

    def say(self, text: str) -> None:
        """Print a line of the recipe."""
        self._context.trace(text)

    @staticmethod
    def network_of(value: object) -> Network | None:
        """Return the network that a value is, ``None`` if it is something else."""
        return value.network if isinstance(value, NetworkValue) else None


def _dimensions(node: Node, name: str) -> object:
    """``dim``: the number of elements of a sample; ``dims``: the dimensions."""
    if name not in ("dim", "dims"):
        return None
    shape = shape_of(node)
    if shape is None:
        raise BuildError(
            f"the dimensions of '{node.name}' are not known yet",
            where=node.where,
            hint=f"'{name}' can be used where they follow from inputs and given dimensions; pass them as a number.",
        )
    dims = [float(dim) for dim in to_cntk(shape)]
    if name == "dims":
        return Array(dims)
    count = 1.0
    for dim in dims:
        count *= dim
    return count
