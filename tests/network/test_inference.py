"""What an operation may read and change, and which axes come out: the mistakes are told with their place."""

from __future__ import annotations

import pytest
from loop_networks import Maker

from cntk_core.errors import CntkError, Location
from cntk_core.network.node import BATCH, Input
from cntk_core.ops.families.normalization import BatchNormalizationAttributes
from cntk_core.ops.language.shapes import Longest


def message(make: Maker) -> str:
    with pytest.raises(CntkError) as error:
        make.network.infer()
    return str(error.value)


def normalized(**others: object) -> Maker:
    """A batch normalization whose inputs are parameters but for those that are given."""
    make = Maker()
    x = make.input("x", 3)
    names = ("scale", "bias", "mean", "variance", "count")
    inputs = [others.get(name) or make.parameter(name, *([3] if name != "count" else [1])) for name in names]
    inputs = [make.network.add(one) if isinstance(one, Input) else one for one in inputs]
    make("y", "BatchNormalization", x, *inputs, attributes=BatchNormalizationAttributes())
    return make


def test_running_statistics_are_kept_in_parameters():
    normalized().network.infer()
    fixed = {"framed": False, "where": Location("n.cntk", 3, 1)}
    for place, name, shape in ((4, "mean", (3,)), (5, "variance", (3,)), (6, "count", (1,))):
        made = normalized(**{name: Input.make(name, shape, **fixed)})
        assert message(made) == (
            f"input {place} of BatchNormalization 'y' is {made.network[name].op.name} '{name}', which cannot keep what "
            "is counted\n    Give a parameter with learningRateMultiplier=0."
        )
    normalized(scale=Input.make("scale", (3,), **fixed)).network.infer()
    assert message(normalized(bias=Input.make("bias", (3,)))) == (
        "input 3 of BatchNormalization 'y', 'bias', has a dynamic axis; it must be a parameter or a constant"
    )


def test_what_is_assigned_has_one_value_and_a_parameter_for_it():
    def assigned(target, source):
        make = Maker()
        make("y", "Assign", target(make), source(make))
        return make

    def parameter(make):
        return make.parameter("p", 3)

    def fixed(make):
        return make.network.add(Input.make("x", (3,), framed=False))

    def framed(make):
        return make.input("f", 3)

    assigned(parameter, fixed).network.infer()
    assert message(assigned(parameter, framed)) == (
        "Assign 'y': 'f' has a value for each frame, and a parameter one\n"
        "    Reduce it first, to its sum or mean over the frames."
    )
    assert message(assigned(fixed, parameter)).startswith("input 1 of Assign 'y' is ")


def test_an_unpacked_axis_is_that_of_the_input():
    make = Maker()
    rows = make("rows", "UnpackBatch", make.network.add(Input.make("x", (3,), axis=BATCH)))
    make.network.infer()
    assert rows.shape == (Longest(BATCH, True), 3)
    assert (rows.framed, rows.axis) == (False, "")
    steps = make("steps", "UnpackSequence", make.input("words", 3, axis="text"))
    plain = make("plain", "UnpackSequence", make.input("frames", 3))
    make.network.infer()
    assert steps.shape == (Longest("text", False), 3)
    assert plain.shape == (Longest("", False), 3)
    assert (steps.axis, plain.axis) == ("steps", "plain")


@pytest.mark.parametrize(
    ("op", "what"), [("UnpackBatch", "makes an axis of samples"), ("UnpackSequence", "looks along sequences")]
)
def test_what_has_no_axis_is_not_unpacked(op, what):
    make = Maker()
    make("rows", op, make.parameter("p", 3))
    assert message(make) == f"{op} 'rows' {what}, but its input 'p' has no dynamic axis"


def test_which_axis_is_found_by_running_is_asked_of_all_that_is_before():
    """Between a Where and what reads it may stand any number of operations, with parameters beside."""
    make = Maker()
    x = make.input("x", 1)
    last = make("last", "GatherPacked", make("index", "PackedIndex", x, make("where", "Where", x)), x)
    node = make("scaled", "ElementTimes", make.parameter("w", 1), last)
    node = make("again", "ElementTimes", make.parameter("v", 1), make("s", "Sigmoid", node))
    both = make("both", "Plus", make.input("y", 1, axis="labels"), node)
    make.network.infer()
    assert both.axis == "labels"
    make("wrong", "Plus", make.network["y"], make("t", "Plus", make.parameter("u", 1), make.network["x"]))
    assert "'y' has the axes [batch, sequence 'labels'], 't' has the axes [batch, sequence]" in message(make)
