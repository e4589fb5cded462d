"""Networks as people look at them: blocks as single nodes, in pictures and in text."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from layer_networks import add, names, placeholder, two_layers

from cntk_core.network.blocks import Block
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_kit_builders.blocks import as_block
from cntk_kit_builders.collapse import collapse, find, outline
from cntk_kit_builders.dot import to_dot
from cntk_kit_builders.draw import to_svg
from cntk_kit_builders.dump import dump


@pytest.fixture
def nested() -> Network:
    """Two layers, and a block around them."""
    network = two_layers()
    both = dict.fromkeys(node for block in network.blocks for node in block.nodes)
    network.add_block(Block("net", "Net", both, [network["two.out"]], {"x": [(network["one.times"], 1)]}))
    return network


def test_each_block_is_a_node() -> None:
    network = two_layers()
    view = collapse(network)
    assert [node.describe() for node in view] == [
        "x = InputValue () : [4 x *]",
        "y = InputValue () : [4 x *]",
        "one.W = LearnableParameter () : [3 x 4]",
        "one.b = LearnableParameter () : [3]",
        "one = Dense (x, one.W, one.b) : [3 x *]",
        "two.W = LearnableParameter () : [3 x 3]",
        "two.b = LearnableParameter () : [3]",
        "two.out = Dense (one, two.W, two.b) : [3 x *]",  # a root keeps its name
    ]
    assert view.roots["output"] == [view["two.out"]]
    assert view.roots["feature"] == [view["x"]]
    assert len(network) == 12  # and that stays as it was


def test_blocks_are_open_to_a_depth(nested: Network) -> None:
    counts = [len(collapse(nested, depth)) for depth in (0, 1, 2, -1)]
    assert counts == [7, 8, 12, 12]
    assert collapse(nested, 2) is collapse(nested, -1) is nested
    assert names(collapse(nested)["two.out"].inputs) == ["x", "one.W", "one.b", "two.W", "two.b"]


def test_a_name_that_a_node_has_gets_a_number() -> None:
    network = two_layers()
    add(network, "ONE", "Tanh", network["x"])
    assert names(collapse(network))[-5:] == ["one2", "two.W", "two.b", "two.out", "ONE"]


def test_a_loop_inside_a_block_is_not_seen() -> None:
    network = Network()
    x = network.add(Input.make("x", (3,)))
    inside, later = placeholder(network, "p"), placeholder(network, "later")
    h = add(network, "h", "Plus", inside, add(network, "before", "PastValue", later))
    network.replace_placeholders({later: h})
    as_block(network, [h], {inside: x}, "Recurrence", "r")
    network.infer()
    assert [node.describe() for node in collapse(network)] == [
        "x = InputValue () : [3 x *]",
        "r = Recurrence (x) : [3 x *]",
    ]


def test_a_block_whose_delay_the_loop_needs_is_open() -> None:
    """``h = Tanh (b)``, ``b = Delayed (h)``: as one node each they would be a cycle without a delay."""
    network = Network()
    x = network.add(Input.make("x", (3,)))
    inside, later = placeholder(network, "p"), placeholder(network, "later")
    delayed = as_block(network, [add(network, "before", "PastValue", inside)], {inside: later}, "Delayed", "b")
    h = add(network, "h", "Plus", x, delayed.outputs[0])
    q = placeholder(network, "q")
    top = as_block(network, [add(network, "top", "Tanh", q)], {q: h}, "Top", "t")
    network.replace_placeholders({later: h})
    network.mark(top.outputs[0], "output")
    network.infer()
    assert names(collapse(network)) == ["x", "before", "h", "top"]
    assert collapse(network)["top"].op.name == "Top"
    assert to_svg(network).count("<g>") == 4


def test_a_block_that_reads_what_is_made_of_its_own_values_is_open() -> None:
    """No loop at all, but as one node the block would read itself."""
    network = Network()
    x = network.add(Input.make("x", (3,)))
    first = add(network, "first", "Tanh", x)
    between = add(network, "between", "Exp", first)
    second = add(network, "second", "Abs", between)
    nodes: dict[Node, None] = {first: None, second: None}
    network.add_block(Block("b", "Odd", nodes, [first, second], {"x": [(first, 0)], "y": [(second, 0)]}))
    network.infer()
    assert collapse(network) is network
    assert list(outline(network)) == [
        "x = InputValue () : [3 x *]",
        "b = Odd (x, between) : [3 x *], [3 x *]",
        "  first = Tanh (x) : [3 x *]",
        "  second = Abs (between) : [3 x *]",
        "between = Exp (first) : [3 x *]",
    ]


def test_the_inside_of_blocks_is_indented(nested: Network) -> None:
    lines = list(outline(nested, 1, lambda node: " !" if node.name == "two.sum" else ""))
    assert lines == [
        "x = InputValue () : [4 x *]",
        "y = InputValue () : [4 x *]",
        "one.W = LearnableParameter () : [3 x 4]",
        "one.b = LearnableParameter () : [3]",
        "net = Net (x) : [3 x *]",
        "  one = Dense (x, one.W, one.b) : [3 x *]",
        "  two.out = Dense (one, two.W, two.b) : [3 x *] !",  # what is said of a node inside
        "two.W = LearnableParameter () : [3 x 3]",
        "two.b = LearnableParameter () : [3]",
    ]
    assert [line for line in outline(nested, -1) if line.startswith("    ")] == [
        "    one.times = Times (one.W, x) : [3 x *]",
        "    one.sum = Plus (one.times, one.b) : [3 x *]",
        "    one.out = Sigmoid (one.sum) : [3 x *]",
        "    two.times = Times (two.W, one.out) : [3 x *]",
        "    two.sum = Plus (two.times, two.b) : [3 x *]",
        "    two.out = Sigmoid (two.sum) : [3 x *]",
    ]


def test_nodes_and_blocks_are_found(nested: Network) -> None:
    one, two, net = nested.blocks
    assert find(nested, depth=0) == [
        *(nested[name] for name in ("x", "y", "one.W", "one.b")),
        net,
        nested["two.W"],
        nested["two.b"],
    ]
    assert find(nested, kind="dense") == [one, two]
    assert find(nested, kind="Dense", depth=0) == []
    assert find(nested, kind="Dense", depth=1) == [one, two]
    assert find(nested, "*.sum") == [nested["one.sum"], nested["two.sum"]]
    assert find(nested, "*.sum", depth=1) == []
    assert find(nested, "T*", kind="times") == [nested["two.times"]]
    assert find(nested, "net") == [net]
    assert find(nested, "one*", depth=1) == [nested["one.W"], nested["one.b"], one]


def test_a_picture_has_a_box_for_each_block(nested: Network) -> None:
    def boxes(depth: int) -> list[str]:
        document = ET.fromstring(to_svg(nested, depth))
        return [(title.text or "").partition(" = ")[2] for title in document.iter("{http://www.w3.org/2000/svg}title")]

    assert boxes(0)[1:] == ["InputValue()", "InputValue()", "Net(x, one.W, one.b, two.W, two.b)"]
    assert "Dense(one, two.W, two.b)" in boxes(1)
    assert len(boxes(-1)) == 9
    assert ">block<" in to_svg(two_layers())  # the legend
    assert nested._repr_svg_() == to_svg(nested, 0)


def test_dot_text_is_as_it_was_unless_blocks_are_asked_for(nested: Network) -> None:
    whole = to_dot(nested)
    assert '"two.sum" [ label' in whole
    nested.blocks = []
    assert to_dot(nested) == whole


def test_dot_text_of_blocks(nested: Network) -> None:
    assert ' "two.out" [ label = "two.out [3 x *]\\nNet" ] ;' in to_dot(nested, 0)
    assert ' "one" [ label = "one [3 x *]\\nDense" ] ;' in to_dot(nested, 1)


def test_a_dump_of_what_is_shown(nested: Network) -> None:
    lines = "".join(dump(collapse(nested), values=False)).splitlines()
    assert "two.out=Net ( x , one.W , one.b , two.W , two.b )" in [line.strip() for line in lines]


def test_names_that_no_one_would_give() -> None:
    network = Network()
    x = network.add(Input.make('a "b" <c> \\', (2,)))
    p = placeholder(network, "p")
    as_block(network, [add(network, "é é", "Tanh", p)], {p: x}, "<Kind & so on>", 'x "y" {z}')
    network.infer()
    ET.fromstring(to_svg(network))
    assert '"x \\"y\\" {z}" [ label' in to_dot(network, 0)
    assert list(outline(network))[1] == 'x "y" {z} = <Kind & so on> (a "b" <c> \\) : [2 x *]'


def test_what_is_not_inferred_is_shown_too() -> None:
    network = Network()
    p, q = placeholder(network, "p"), placeholder(network, "q")
    weights = network.add(Parameter.make("W", (0, 2)))
    as_block(network, [add(network, "out", "Times", weights, p)], {p: q}, "Linear", "f")
    assert list(outline(network)) == ["q = Placeholder ()", "W = LearnableParameter () : [2 x 0]", "f = Linear (q, W)"]
    assert ">placeholder<" in to_svg(network)


def test_very_many_blocks_inside_each_other() -> None:
    network = two_layers()
    nodes: dict[Node, None] = {network["one.out"]: None}
    network.blocks = [Block(f"b{number}", "B", nodes, [*nodes]) for number in range(3000)]
    lines = list(outline(network, -1))
    assert lines[6:8] == ["b2999 = B () : [3 x *]", "  b2998 = B () : [3 x *]"]
    assert len(lines) == 3012
    assert len(collapse(network)) == 12
