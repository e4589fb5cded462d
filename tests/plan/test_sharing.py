"""What lies in one place inside loops."""

from __future__ import annotations

from recurrent import Maker, elman

from cntk_core.plan.make import make_plan


def gated(second: str = "Wx", *, also_read: bool = False) -> Maker:
    """h = sigmoid(p[0:3]) * tanh(p[3:6]) + U x with p = R past(h) + W x; somebody else may read W x, too."""
    make = Maker()
    for name, shape in {"W": (4, 6), "R": (3, 6), "U": (4, 3)}.items():
        make.parameter(name, *shape)
    make.delay("past")
    make("Wx", "Times", "W", "x")
    make("Rh", "Times", "R", "past")
    make("p", "Plus", "Rh", second)
    make("low", "Slice", "p", begin=0, end=3, axis=1)
    make("high", "Slice", "p", begin=3, end=6, axis=1)
    make("gate", "Sigmoid", "low")
    make("content", "Tanh", "high")
    make("gated", "ElementTimes", "gate", "content")
    make("Ux", "Times", "U", "x")
    make("h", "Plus", "gated", "Ux")
    make.close("past", "h")
    if also_read:
        make("part", "Slice", "Wx", begin=0, end=3, axis=1)
        make("out", "Plus", "h", "part")
    make.classify("out" if also_read else "h")
    return make


def test_a_sum_in_a_loop_lies_where_its_first_term_lay():
    plan = gated().plan()
    value = {node.name: index for node, index in plan.value_buffer.items()}
    assert value["p"] == value["Wx"]
    assert value["Rh"] != value["p"]


def test_not_if_somebody_else_reads_the_term():
    value = {node.name: index for node, index in gated(also_read=True).plan().value_buffer.items()}
    assert value["p"] != value["Wx"]


def test_not_over_a_root():
    make = gated()
    make.network.infer()
    plan = make_plan(make.network, [make.network["z"], make.network["Wx"]], make.network["ce"])
    value = {node.name: index for node, index in plan.value_buffer.items()}
    assert value["p"] != value["Wx"]


def test_gradients_that_a_sum_passes_on_lie_in_one_place():
    gradient = {node.name: index for node, index in gated().plan().gradient_buffer.items()}
    assert gradient["p"] == gradient["Wx"] == gradient["Rh"]
    assert gradient["h"] != gradient["p"]


def test_not_the_gradient_of_a_term_that_counts_twice():
    gradient = {node.name: index for node, index in gated("Rh").plan().gradient_buffer.items()}
    assert gradient["Rh"] != gradient["p"]


def test_a_place_lives_as_long_as_all_that_is_in_it():
    """The gradients of W and R read the place after the loop: nothing else is written there before."""
    plan = gated().plan()
    place = next(index for node, index in plan.gradient_buffer.items() if node.name == "Rh")
    readers = [
        index for index, step in enumerate(plan.gradients) if {node.name for node in step.sources} & {"Wx", "Rh"}
    ]
    writers = {
        index
        for index, step in enumerate(plan.gradients)
        for target in step.targets
        if plan.gradient_buffer.get(target.node) == place
    }
    assert len(readers) == 2
    assert min(writers) < readers[0]
    assert not writers & set(range(readers[0], readers[-1]))


def test_not_a_gradient_that_a_step_changes():
    gradient = {node.name: index for node, index in elman().plan(fuse=False).gradient_buffer.items()}
    assert gradient["Rh"] == gradient["Wx"] == gradient["sum"] == gradient["biased"]
    assert gradient["biased"] != gradient["h"]


def test_not_a_value_that_is_laid_out_otherwise():
    """One number for each frame is added to three: the sum lies neither over that number nor over a bias."""
    make = Maker()
    make.parameter("w", 4, 1)
    make.parameter("b", 3)
    make.delay("past")
    make("number", "Times", "w", "x")
    make("bias", "Exp", "b")
    make("wide", "Plus", "number", "past")
    make("h", "Plus", "wide", "bias")
    make.close("past", "h")
    make.classify("h")
    value = {node.name: index for node, index in make.plan(fuse=False).value_buffer.items()}
    assert len({value["wide"], value["number"], value["h"], value["bias"]}) == 4


def test_not_two_values_of_one_step_over_one_term():
    make = Maker()
    for name, shape in {"W": (4, 3), "R": (3, 3)}.items():
        make.parameter(name, *shape)
    make.delay("past")
    make("Wx", "Times", "W", "x")
    make("Rh", "Times", "R", "past")
    make("sum", "Plus", "Rh", "Wx")
    make("h", "Tanh", "sum")
    make.close("past", "h")
    make("both", "Plus", "h", "sum")
    make.classify("both")
    value = {node.name: index for node, index in make.plan().value_buffer.items()}
    assert "sum" in value
    assert value["sum"] != value["h"]
    assert value["Wx"] in (value["sum"], value["h"])
