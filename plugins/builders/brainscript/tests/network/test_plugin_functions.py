"""Operations of plugins as functions of the language."""

from __future__ import annotations

import attrs
import pytest
from cntk_builder_brainscript import BrainScriptNetworkBuilder

from cntk_core.api import BuildContext, CntkError, OptionError, Registry, define_op, elementwise_op
from cntk_core.api.builders import parse_text


@attrs.frozen
class SlopeAttributes:
    """How steep it is where the input is negative."""

    negative_slope: float = 0.25
    cut: float = float("inf")
    kinds: tuple[int, ...] = (1, 2)
    label: str = "it's"
    limit: int | None = None
    clipped: bool = False


@elementwise_op("Slope", attributes=SlopeAttributes, aliases={"brainscript": ("LeakySlope",)})
def slope(m, a, x):
    """Leaky."""
    return m.where(m.less(x, 0.0), a.negative_slope * x, x)


@attrs.frozen
class PowerAttributes:
    exponent: float = attrs.field()

    @exponent.validator
    def _check(self, attribute, value):
        if value < 0:
            raise OptionError("exponent must not be negative")


@elementwise_op("Mix")
def mix(m, a, x, y):
    """Two inputs."""
    return x + y


@elementwise_op("Power", attributes=PowerAttributes)
def power(m, a, x):
    """A required attribute."""
    return x


@define_op("Join", inputs=(1, None), infer=lambda shapes, attributes: shapes[0])
def join(xp, inputs, attributes, context):
    """Any number of inputs."""
    return inputs[0]


def build(text):
    registry = Registry()
    for op in (slope, mix, power, join):
        registry.ops.add(op)
    block = parse_text(f"BrainScriptNetworkBuilder={text}", file="r.cntk").own("BrainScriptNetworkBuilder")
    context = BuildContext(find_op=registry.ops.find, op_names=registry.ops.names)
    network = BrainScriptNetworkBuilder().build(block, context)
    network.infer()
    return network


def test_inputs_by_position_attributes_by_name():
    network = build(
        "{ x = Input {2}\n a = Slope (x)\n b = Slope (a, negativeSlope = 0.5, kinds = (3:4:5), limit = 7,"
        " clipped = true, label = 'other')\n z = Mix (LeakySlope (b), 3, tag = 'output') }"
    )
    assert network["a"].attributes == SlopeAttributes()
    assert network["b"].attributes == SlopeAttributes(0.5, kinds=(3, 4, 5), label="other", limit=7, clipped=True)
    assert [node.op.name for node in network["z"].inputs] == ["Slope", "LearnableParameter"]
    assert network.roots["output"] == [network["z"]]
    assert str(network["b"].where) == "r.cntk:3:6"


def test_any_number_of_inputs():
    network = build("{ x = Input {2} ; y = Input {2} ; z = Join ((x : y : x)) ; w = Join (x, tag = 'output') }")
    assert [node.name for node in network["z"].inputs] == ["x", "y", "x"]
    assert [node.name for node in network["w"].inputs] == ["x"]


def test_it_is_a_value_like_any_function():
    network = build("{ x = Input {2} ; f = Slope ; g (f, x) = f (f (x)) ; z = g (f, x) }")
    assert network["z"].op is slope
    assert network["z"].inputs[0].op is slope


def test_names_of_the_recipe_go_before_it():
    assert build("{ x = Input {2} ; Slope (x) = x + 1 ; z = Slope (x) }")["z"].op.name == "Plus"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("z = Slop (x)", "r.cntk:1:49: unknown identifier 'Slop'; did you mean 'Slope'?"),
        ("z = slope (x)", "r.cntk:1:49: unknown identifier 'slope'; did you mean 'Slope'?"),
        ("z = Power (x)", "r.cntk:1:49: Power 'z' needs 'exponent'"),
        ("z = Power (x, exponent = -1)", "r.cntk:1:49: exponent must not be negative"),
        ("z = Mix (x)", "r.cntk:1:49: 'Mix' takes 2 arguments (input1, input2), not 1"),
        (
            "z = Slope (x, slope = 1)",
            "r.cntk:1:49: 'Slope' has no optional parameter 'slope'",
        ),
    ],
)
def test_mistakes(text, message):
    with pytest.raises(CntkError) as caught:
        build(f"{{ x = Input {{2}} ; {text} }}")
    assert str(caught.value).splitlines()[0] == message
