"""Making the node of ``new ComputationNode [ operation = ... ; inputs = ... ]``."""

from __future__ import annotations

from collections.abc import Sequence

from cntk_builder_brainscript.attributes import read_attributes
from cntk_builder_brainscript.graph import Graph
from cntk_builder_brainscript.leaves import make_input, make_parameter
from cntk_builder_brainscript.settings import Settings
from cntk_builder_brainscript.values import Record
from cntk_core.api import BuildContext, BuildError, Location, Node, Op, Parameter, Shape, ShapeError, did_you_mean
from cntk_core.api.builders import FixedValue

LANGUAGES = ("brainscript", "model")
"""Where the name of an operation is looked up; the old names in model files are accepted too."""


class NodeMaker:
    """Makes nodes and notes them in a graph."""

    def __init__(self, context: BuildContext, graph: Graph) -> None:
        self._context = context
        self._graph = graph

    def make(self, arguments: Record, name: str, where: Location) -> Node:
        """Return the node of a record with ``operation``, ``inputs``, ``tag`` and the operation's settings.

        An operation that nothing knows gives a node without a shape; the graph has the error.

        Raises:
            BuildError: a setting is missing or of the wrong kind, an input is no node.
        """
        word = Settings(arguments, "a node", where).text("operation")
        op = self.find_op(word)
        settings = Settings(arguments, f"{op.name if op else word} '{name}'", where)
        if op is None:
            self._graph.unknown.append(self._no_operation(word, where))
            node = Node(name, _stand_in(word), where=where)
            return self._graph.add(node, late=lambda: settings.nodes("inputs"))
        tag = settings.text("tag", "")
        if op.role == "parameter":
            return self._graph.add(make_parameter(settings, name, self._context), tag)
        if op.role == "input":
            return self._graph.add(make_input(settings, name, sparse=op.name.startswith("Sparse")), tag)
        if op.traits.delay:  # its inputs may depend on itself: they are evaluated when the network is put together
            node = Node(name, op, attributes=read_attributes(op, settings), where=where)
            return self._graph.add(node, tag, lambda: settings.nodes("inputs"))
        inputs = settings.nodes("inputs")
        if op.name == "CosDistanceWithNegativeSamples":
            return self._graph.add(_make_cosines(op, inputs, settings, name), tag)
        return self._graph.add(Node(name, op, inputs, read_attributes(op, settings), where), tag)

    def combine(self, operation: str, inputs: list[Node], name: str, where: Location) -> Node:
        """Return the node of an operator: an operation with its default settings."""
        op = self.find_op(operation)
        if op is None:
            raise self._no_operation(operation, where)
        return self._graph.add(Node(name, op, inputs, op.attributes(), where))

    def find_op(self, word: str) -> Op | None:
        """Return the op of a name, None if nothing knows it."""
        for language in LANGUAGES:
            op = self._context.find_op(language, word)
            if op is not None:
                return op
        return None

    def _no_operation(self, word: str, where: Location) -> BuildError:
        known = self._context.op_names("brainscript")
        return BuildError(f"there is no operation '{word}'{did_you_mean(word, known)}", where=where)


def _make_cosines(op: Op, inputs: list[Node], settings: Settings, name: str) -> Node:
    """The shift and the number of negative samples are inputs in BrainScript, and settings of our op as well."""
    if len(inputs) != 4:
        raise BuildError(f"{settings.owner} takes 4 inputs, not {len(inputs)}", where=settings.where)
    shift, negatives = (_constant(node, settings) for node in inputs[2:])
    return Node(name, op, inputs, op.attributes(shift=shift, negatives=negatives), settings.where)


def _constant(node: Node, settings: Settings) -> int:
    first = node.initializer if isinstance(node, Parameter) else None
    if not isinstance(first, FixedValue) or first.value != int(first.value):
        raise BuildError(
            f"the shift and the number of negative samples of {settings.owner} must be whole numbers, "
            f"not the node '{node.name}'",
            where=settings.where,
        )
    return int(first.value)


def _stand_in(word: str) -> Op:
    return Op(word, (0, None), _no_shape)


def _no_shape(shapes: Sequence[Shape], attributes: object) -> Shape:
    raise ShapeError("the shape of an unknown operation cannot be inferred")
