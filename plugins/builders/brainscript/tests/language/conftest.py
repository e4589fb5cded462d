"""A stand-in for the network side, and texts evaluated with it."""

from __future__ import annotations

import attrs
import pytest
from cntk_builder_brainscript.evaluate import Evaluator
from cntk_builder_brainscript.parser import parse
from cntk_builder_brainscript.values import Array, Record

from cntk_core.api import BuildError, CntkError
from cntk_core.api.builders import SourceText

LIBRARY = """
Op (x, tag='') = new Node [ kind = 'Op' ; inputs = x ]
Two (left, right) = new Node [ kind = 'Two' ; inputs = left : right ]
Parameter {size} = new Node [ kind = 'Parameter' ; inputs = [| |] ; dim = size ]
Delay (x) = new Node [ kind = 'Delay' ; inputs = x ]
Layer {size, bias = true} = {
    W = Parameter {size}
    b = Parameter {size}
    apply (x) = if bias then W * x + b else W * x
}.apply
Length (x) = new NumericFunction [ what = 'Length' ; arg = x ]
Format (value, format) = new StringFunction [ what = 'Format' ; arg = value ; how = format ]
Print (value) = new PrintAction [ what = value ]
Fail (what) = new FailAction [ /*what*/ ]
IsSame (a, b) = new CompareFunction [ what = 'IsSameObject' ; args = [| a ; b |] ]
BS = [ None = [| |] ; Ops = [ Neg (x) = -x ] ]
"""


@attrs.define(eq=False, repr=False)
class Node:
    kind: str
    name: str
    inputs: list
    arguments: Record | None = None

    def __str__(self):
        inputs = [i.name if isinstance(i, Node) else str(i) for i in self.inputs]
        return f"{self.name} = {self.kind}({', '.join(inputs)})"


@attrs.define
class StandIn:
    """Makes nodes of any kind; a Delay gets its inputs when the whole text is there."""

    made: list = attrs.field(factory=list)
    said: list = attrs.field(factory=list)
    places: dict = attrs.field(factory=dict)
    kinds = ("Node", "Broken")

    def names_from_root(self, kind):
        return True

    def make(self, kind, arguments, path, where):
        if kind == "Broken":
            raise BuildError("this never works")
        kind = arguments.text("kind")
        self.places[path] = where
        node = Node(kind, path, [] if kind == "Delay" else arguments.flat("inputs"), arguments)
        self.made.append(node)
        return node

    def attach(self):
        for node in self.made:
            if node.kind == "Delay":
                node.inputs = node.arguments.flat("inputs")

    def definition(self, name):
        return None

    def further_names(self):
        return ()

    def is_node(self, value):
        return isinstance(value, Node)

    def operate(self, operator, operands, path, where):
        if operator == "**":
            raise BuildError("nodes have no powers", where=where)
        if any(isinstance(operand, str) for operand in operands):
            raise BuildError(f"'{operator}' of a node and a text", where=where)
        node = Node(operator, path, list(operands))
        self.made.append(node)
        return node

    def member(self, value, name):
        if isinstance(value, Node) and name == "dim":
            if value.arguments is None:
                raise BuildError("the dimension is not known yet")
            return value.arguments.get("dim")
        return value.name if isinstance(value, Node) and name == "name" else None

    def members(self, value):
        return ("name", "dim")

    def describe(self, value):
        return f"the node '{value.name}'"

    def say(self, text):
        self.said.append(text)


class Script:
    """A text and the stand-in that it was evaluated with."""

    def __init__(self, text, include=None, **limits):
        self.runtime = StandIn()
        self.evaluator = Evaluator(self.runtime, **limits)
        library = self.evaluator.record(parse(SourceText.of(LIBRARY, "<library>/toy.bs")))
        self.record = self.evaluator.record(parse(SourceText.of(text, "r"), include), library)

    def get(self, name="z"):
        value = self.evaluator.run(lambda: plain(self.record.get(name)))
        self.evaluator.run(self.runtime.attach)
        return value

    @property
    def nodes(self):
        return [str(node) for node in self.runtime.made]


def plain(value):
    """Arrays as lists, records as dictionaries, all of it evaluated."""
    if isinstance(value, Array):
        return [plain(element) for element in value.values()]
    if isinstance(value, Record):
        return {name: plain(value.own(name)) for name in value.names()}
    return value


@pytest.fixture
def script():
    return Script


@pytest.fixture
def value():
    """The value of ``z`` in a text."""
    return lambda text, **limits: Script(text, **limits).get()


@pytest.fixture
def problem():
    """The text of the error that evaluating ``z`` in a text gives."""

    def find(text, **limits):
        with pytest.raises(CntkError) as caught:
            Script(text, **limits).get()
        return str(caught.value)

    return find
