"""The DOT text of a network, byte by byte."""

from __future__ import annotations

from typing import Literal

from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.op import Op
from cntk_core.ops.language.shapes import Shape
from cntk_core.ops.language.traits import Traits
from cntk_kit_builders.dot import arcs, to_dot


def first(shapes: list[Shape], attributes: object) -> Shape:
    return shapes[0]


def op(name: str, role: str = "operation", delay: Literal[-1, 0, 1] = 0) -> Op:
    return Op(name, (0, None), first, role=role, traits=Traits(delay=delay))


def recurrent_network() -> Network:
    network = Network()
    features = network.add(Input.make("features", (4,)))
    labels = network.add(Input.make("labels", (2,)))
    weights = network.add(Parameter.make("W", (4, 2)))
    mean = network.add(Node("Mean", op("Mean", "precompute"), [features], shape=(4,), framed=False))
    past = network.add(Node("past", op("PastValue", delay=1), shape=(2,), framed=True))
    h = network.add(Node("h", op("Plus"), [weights, past, mean], shape=(2,), framed=True))
    past.inputs = [h]
    ahead = network.add(Node("ahead", op("FutureValue", delay=-1), [h], shape=(2,), framed=True))
    ce = network.add(Node("ce", op("SquareError"), [labels, ahead], shape=(1,), framed=False))
    for node, role in ((features, "feature"), (labels, "label"), (ce, "criterion"), (ahead, "output")):
        network.mark(node, role)
    return network


# The original's text ends many lines with a blank: ~ marks where. » is a tabulator.
EXPECTED = r""" strict digraph {
 rankdir = BT ;  ~
 // special nodes ~
 node [ shape = box     , color = gray , style = "filled, rounded"  ]; "W" ; ~
 node [ shape = ellipse , color = red  , fillcolor = white ]; "features" ; ~
 node [ shape = diamond, color = brown, style = bold ] ;  "labels" ; ~
 node [ shape = doublecircle , color =  red , fillcolor = white  ]; "ce" ; ~
 node [ shape = box    , color = black, style = "dashed, filled",  fillcolor= limegreen ] ;"Mean" ; ~
 node [ shape = box3d  , color = lightgray, style = "filled" , fillcolor = white ] "past" ; ~
 node [ shape = box3d  , color = red, style = "filled" , fillcolor = white ] "ahead" ; ~
 node [ shape = ellipse, color = blue, fillcolor = white, style = solid ];  ~
 ~
// add labels and operation name
  "ahead" [ label = "ahead [2 x *]\nFutureValue" ] ;
  "ce" [ label = "ce [1]\nSquareError" ] ;
  "features" [ label = "features [4 x *]\nInputValue" ] ;
  "h" [ label = "h [2 x *]\nPlus" ] ;
  "labels" [ label = "labels [2 x *]\nInputValue" ] ;
  "Mean" [ label = "Mean [4]\nMean" ] ;
  "past" [ label = "past [2 x *]\nPastValue" ] ;
  "W" [ label = "W [2 x 4]\nLearnableParameter" ] ;
 subgraph {
 »» rank=source ;  "features"  ~
}
 subgraph {
 »» rank=sink ;  "ce" "ahead"  ~
}
 "labels" -> "ce" ; ~
 node [ shape = box3d  , color = red, style = "filled" , label = "ahead\n(FutureValue)" ] ; "ahead.dummy"
"ahead.dummy" -> "ce" ; ~
 "h" -> "ahead" ; ~
 "W" -> "h" ; ~
 node [ shape = box3d  , color = lightgray, style = "filled" , label = "past\n(PastValue)" ] ; "past.dummy"
"past.dummy" -> "h" ; ~
 "Mean" -> "h" ; ~
 "features" -> "Mean" ; ~
 "h" -> "past" ; ~
 ~
}
""".replace("~\n", "\n").replace("»", "\t")


def test_the_whole_text() -> None:
    assert to_dot(recurrent_network()) == EXPECTED


def test_groups_without_members_have_no_style_line() -> None:
    network = Network()
    network.add(Parameter.make("W", (2,)))
    text = to_dot(network)
    assert '"filled, rounded"  ]; "W" ; \n       node [ shape = ellipse, color = blue' in text
    assert "->" not in text


def test_names_with_quotation_marks_are_escaped() -> None:
    network = Network()
    network.add(Input.make('a"b\\', (2,)))
    assert r'"a\"b\\" [ label = "a\"b\\ [2 x *]\nInputValue" ] ;' in to_dot(network)


def test_deep_network() -> None:
    network = Network()
    node: Node = network.add(Input.make("x", (1,)))
    for index in range(20_000):
        node = network.add(Node(f"n{index}", op("Sigmoid"), [node], shape=(1,), framed=True))
    network.mark(node, "output")
    assert len(arcs(network)) == 20_000
