"""The picture of a network: a well-formed SVG whose boxes do not overlap."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.op import Op
from cntk_core.ops.language.shapes import Shape
from cntk_core.ops.language.traits import Traits
from cntk_kit_builders.arrange import arrange
from cntk_kit_builders.draw import to_svg

SVG = "{http://www.w3.org/2000/svg}"


def first(shapes: list[Shape], attributes: object) -> Shape:
    return shapes[0]


def op(name: str, role: str = "operation", delay: Literal[-1, 0, 1] = 0) -> Op:
    return Op(name, (0, None), first, role=role, traits=Traits(delay=delay))


def small_network() -> Network:
    network = Network()
    features = network.add(Input.make("features", (4,)))
    labels = network.add(Input.make("labels", (3,)))
    weights = network.add(Parameter.make("W<0>", (4, 3)))
    z = network.add(Node("z", op("Times"), [weights, features], shape=(3,), framed=True))
    ce = network.add(Node("ce", op("CrossEntropyWithSoftmax"), [labels, z], shape=(1,), framed=False))
    for node, role in ((features, "feature"), (labels, "label"), (ce, "criterion"), (z, "output")):
        network.mark(node, role)
    return network


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


def test_boxes_have_name_operation_shape_and_parameters() -> None:
    found = texts(small_network()._repr_svg_())
    assert {"features", "InputValue [4 x *]", "z", "Times [3 x *]", "W<0> [3 x 4]", "ce"} <= set(found)
    assert "training criterion" in found  # the legend
    assert "evaluation" not in found


def test_a_picture_of_another_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes before that of the kit; one that cannot be imported does not."""
    monkeypatch.syspath_prepend(str(tmp_path))
    about = tmp_path / "my_picture-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-picture\nVersion: 1.0\n", encoding="utf-8")
    points = "[cntk.pictures]\nalso = my_missing:draw\nmine = my_picture_of_networks:draw\n"
    (about / "entry_points.txt").write_text(points, encoding="utf-8")
    code = "def draw(network, depth): return f'<svg>{len(network)}</svg>'\n"
    (tmp_path / "my_picture_of_networks.py").write_text(code, encoding="utf-8")
    network = small_network()
    assert network._repr_svg_() == f"<svg>{len(network)}</svg>"


def test_one_arrow_for_each_input_that_is_a_box() -> None:
    assert to_svg(small_network()).count('marker-end="url(#arrow)"') == 3


def test_parameter_that_nobody_uses_is_a_box() -> None:
    network = Network()
    network.add(Parameter.make("alone", (2, 2)))
    assert texts(to_svg(network))[:2] == ["alone", "LearnableParameter [2 x 2]"]


def test_long_names_are_shortened_and_whole_in_the_tooltip() -> None:
    network = Network()
    name = "layer." * 12
    network.add(Input.make(name, (2,)))
    svg = to_svg(network)
    assert "…" in texts(svg)[0]
    assert len(texts(svg)[0]) <= 34
    assert f"<title>{name} = InputValue()</title>" in svg


@pytest.mark.parametrize(
    ("length", "shown"), [(34, "a" * 33 + "b"), (35, "a" * 16 + "…" + "a" * 16 + "b")], ids=["longest", "longer"]
)
def test_how_much_of_a_name_is_shown(length: int, shown: str) -> None:
    network = Network()
    network.add(Input.make("a" * (length - 1) + "b", (2,)))
    assert texts(to_svg(network))[0] == shown


def test_delay_is_drawn_upward_and_dashed() -> None:
    network = Network()
    past = network.add(Node("past", op("PastValue", delay=1), shape=(2,), framed=True))
    sigmoid = network.add(Node("h", op("Sigmoid"), [past], shape=(2,), framed=True))
    past.inputs = [sigmoid]
    svg = to_svg(network)
    assert svg.count("stroke-dasharray") == 1
    assert svg.count('marker-start="url(#arrow)"') == 1


def test_empty_network() -> None:
    assert ET.fromstring(to_svg(Network())).tag == f"{SVG}svg"


def test_everything_lies_inside_the_picture() -> None:
    root = ET.fromstring(to_svg(small_network()))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    group = root.find(f"{SVG}g")
    assert group is not None
    shift = float(re.findall(r"[-\d.]+", group.attrib["transform"])[0])
    for box in group.iter(f"{SVG}rect"):
        x, y, w, h = (float(box.attrib[key]) for key in ("x", "y", "width", "height"))
        assert x + shift >= 0
        assert x + shift + w <= width
        assert y >= 0
        assert y + h <= height


def numbers_of(element: ET.Element, *keys: str) -> list[float]:
    return [float(element.attrib[key]) for key in keys]


def test_where_the_parts_of_one_box_are() -> None:
    """Lines of text with a border of 12 around them, 8 above and below; a margin of 24 around the picture."""
    network = Network()
    network.add(Input.make("x", (2,)))
    root = ET.fromstring(to_svg(network))
    group = root.find(f"{SVG}g")
    assert group is not None
    box, first, second = [*group.iter(f"{SVG}rect"), *group.iter(f"{SVG}text")]
    width, height = 18 * 11 * 0.61 + 24, (13 + 11) * 1.42 + 16  # of "InputValue [2 x *]", and of both lines
    assert numbers_of(box, "x", "y", "width", "height") == pytest.approx([0, 24, width, height], abs=0.06)
    assert numbers_of(first, "x", "y") == pytest.approx([width / 2, 24 + 8 + 13 * 1.05], abs=0.06)
    assert numbers_of(second, "x", "y") == pytest.approx([width / 2, 24 + 8 + 13 * 1.42 + 11 * 1.05], abs=0.06)
    assert group.attrib["transform"] == "translate(24.0 0)"
    assert numbers_of(root, "width", "height") == [round(width + 48), round(24 + height + 24 + 22 + 8)]


def test_the_arrow_goes_from_the_foot_of_a_box_to_the_head_of_the_next() -> None:
    network = Network()
    x = network.add(Input.make("x", (2,)))
    network.add(Node("h", op("Sigmoid"), [x], shape=(2,), framed=True))
    root = ET.fromstring(to_svg(network))
    upper, lower = (numbers_of(box, "x", "y", "width", "height") for box in root.findall(f"{SVG}g/{SVG}g/{SVG}rect"))
    middle, foot, head = upper[0] + upper[2] / 2, upper[1] + upper[3], lower[1]
    assert head - foot == pytest.approx(44, abs=0.1)
    path = root.find(f"{SVG}g/{SVG}path")
    assert path is not None
    half = (foot + head) / 2
    wanted = [middle, foot, middle, half, middle, half, middle, head]
    assert [float(each) for each in re.findall(r"[-\d.]+", path.attrib["d"])] == pytest.approx(wanted, abs=0.1)


def test_the_legend_stands_below_in_rows_as_wide_as_the_picture() -> None:
    network = small_network()
    past = network.add(Node("past", op("PastValue", delay=1), [network["z"]], shape=(3,), framed=True))
    errors = network.add(Node("errors", op("ErrorPrediction"), [network["labels"], past], shape=(1,), framed=False))
    network.add(Node("free", op("Sigmoid"), [past], shape=(3,), framed=True))
    network.add(Node("mean", op("Mean", "precompute"), [network["features"]], shape=(4,), framed=False))
    network.add(Parameter.make("alone", (2, 2)))
    network.mark(errors, "evaluation")
    root = ET.fromstring(to_svg(network))
    (width,) = numbers_of(root, "width")
    squares, labels = root.findall(f"{SVG}rect")[1:], root.findall(f"{SVG}text")
    rows: dict[float, list[tuple[float, str]]] = {}
    for square, label in zip(squares, labels, strict=True):
        x, y = numbers_of(square, "x", "y")
        assert numbers_of(label, "x", "y") == pytest.approx([x + 18, y + 10], abs=0.11)
        rows.setdefault(y, []).append((x, label.text or ""))
    assert [[text for _, text in row] for row in rows.values()] == [
        ["feature", "label", "operation", "parameter", "computed before training", "delay"],
        ["training criterion", "evaluation", "output"],
    ]
    boxes = [numbers_of(box, "y", "height") for box in root.findall(f"{SVG}g/{SVG}g/{SVG}rect")]
    bottom = max(y + height for y, height in boxes)
    assert list(rows) == pytest.approx([bottom + 24 + 22 * number for number in range(2)], abs=0.11)
    for row in rows.values():
        for (x, text), (right, _) in itertools.pairwise(row):
            assert right - x == pytest.approx(len(text) * 6.7 + 36, abs=0.11)
        end = row[-1][0] + len(row[-1][1]) * 6.7 + 20
        assert row[0][0] + end == pytest.approx(width, abs=1)  # in the middle


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[float], list[tuple[int, int]]]:
    count = draw(st.integers(1, 12))
    widths = draw(st.lists(st.floats(10, 200), min_size=count, max_size=count))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda pair: pair[0] < pair[1])
    return widths, draw(st.lists(pairs, unique=True, max_size=20)) if count > 1 else []


@given(graphs())
def test_arrangement(graph: tuple[list[float], list[tuple[int, int]]]) -> None:
    widths, edges = graph
    found = arrange(widths, edges, gap=20, dummy=8)
    boxes = {box.item: box for layer in found.layers for box in layer if box.item is not None}
    assert sorted(boxes) == list(range(len(widths)))
    for layer in found.layers:
        for left, right in itertools.pairwise(layer):
            assert left.x + left.width / 2 + 20 <= right.x - right.width / 2 + 1e-6
    for (upper, lower), route in zip(edges, found.routes, strict=True):
        assert [box.layer for box in route] == list(range(boxes[upper].layer, boxes[lower].layer + 1))
    assert all(box.x - box.width / 2 >= -1e-6 and box.x + box.width / 2 <= found.width + 1e-6 for box in boxes.values())


PLACED = [
    # widths, edges, by layer the boxes and where their middles are; None is where a long edge passes
    ("in a column", [40, 100, 20], [(0, 1), (1, 2)], [{0: 50}, {1: 50}, {2: 50}]),
    ("above its two", [30, 50, 50], [(0, 1), (0, 2)], [{0: 60}, {1: 25, 2: 95}]),
    ("both ways", [30, 50, 50, 80], [(0, 1), (0, 2), (1, 3), (2, 3)], [{0: 60}, {1: 25, 2: 95}, {3: 60}]),
    # The lower ones are as near as they may be, the upper ones 0.88 of that from the middle.
    ("without a crossing", [30, 30, 40, 40], [(0, 3), (1, 2)], [{0: 23.6, 1: 76.4}, {3: 20, 2: 80}]),
    ("a long edge", [30, 60, 30], [(0, 1), (1, 2), (0, 2)], [{0: 64.2}, {1: 30, None: 84}, {2: 64.2}]),
    ("a late source", [30, 30, 30, 30], [(0, 1), (1, 2), (3, 2)], [{0: 20.6}, {1: 15, 3: 65}, {2: 42.6}]),
]


@pytest.mark.parametrize(("widths", "edges", "layers"), [each[1:] for each in PLACED], ids=[each[0] for each in PLACED])
def test_where_boxes_go(
    widths: list[float], edges: list[tuple[int, int]], layers: list[dict[int | None, float]]
) -> None:
    found = arrange(widths, edges, gap=20, dummy=8)
    assert [list(layer) for layer in layers] == [[box.item for box in layer] for layer in found.layers]
    for layer, boxes in zip(layers, found.layers, strict=True):
        assert [box.x for box in boxes] == pytest.approx(list(layer.values()), abs=0.1)
    assert found.width == max(sum(box.width + 20 for box in layer) - 20 for layer in found.layers)


def test_nothing_is_arranged_too() -> None:
    assert arrange([], [], gap=20, dummy=8).width == 0
