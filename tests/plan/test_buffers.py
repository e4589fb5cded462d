"""Which buffers a plan's values and gradients share: nothing that is still read is written over."""

from __future__ import annotations

import pytest
from recurrent import Maker

from cntk_core.network.node import Node
from cntk_core.plan.plan import GradientStep, Plan, Step


def place_of(node: Node, gradient: bool, plan: Plan) -> int | None:
    return (plan.gradient_buffer if gradient else plan.value_buffer).get(node)


def repeating(operation: str, *shape: int) -> Plan:
    """A computed value without samples, repeated for all of them; its gradient is a sum over them."""
    make = Maker()
    for name, size in {"W": (4, 3), "M": (*shape, *shape), "p": shape}.items():
        make.parameter(name, *size)
    make("row", "Times", "M", "p")
    make("Wx", "Times", "W", "x")
    make("met", operation, "Wx", "row")
    make.classify("met")
    return make.plan()


def several_readers() -> Plan:
    """The network of a value that is stacked and subtracted."""
    make = Maker()
    for name, size in {"W": (4, 3), "b": (3,), "U": (7, 3), "c": (3,)}.items():
        make.parameter(name, *size)
    make("Wx", "Times", "W", "x")
    make("a", "Plus", "Wx", "b")
    make("stacked", "RowStack", "a", "x")
    make("Us", "Times", "U", "stacked")
    make("s", "Plus", "Us", "c")
    make("left", "Minus", "a", "s")
    make.classify("left")
    return make.plan()


PLANS = {
    "several readers": several_readers,
    "repeated vector": lambda: repeating("ElementTimes", 3),
    "repeated number": lambda: repeating("ElementTimes", 1),
}


@pytest.mark.parametrize("build", PLANS.values(), ids=PLANS)
def test_all_that_a_step_reads_is_there(build):
    """Follow what every buffer holds, step by step."""
    plan = build()
    holds: dict[int, tuple[Node, bool]] = {}
    for step in (*plan.steps, *plan.gradients):
        assert isinstance(step, Step | GradientStep)
        back = isinstance(step, GradientStep)
        reading = [(node, False) for node in step.reads]
        reading += [(node, True) for node in step.sources] if back else []
        adding = [(target.node, True) for target in step.targets if target.accumulate] if back else []
        for node, gradient in [*reading, *adding]:
            place = place_of(node, gradient, plan)
            assert place is None or holds[place] == (node, gradient), node.name
        writing = [(target.node, True) for target in step.targets] if back else [(node, False) for node in step.writes]
        places = [place for item in writing if (place := place_of(*item, plan)) is not None]
        assert len(set(places)) == len(places)
        holds |= {place: item for item in writing if (place := place_of(*item, plan)) is not None}


@pytest.mark.parametrize("shape", [(3,), (1,)])
def test_a_sum_over_the_samples_lies_apart_from_what_its_step_reads(shape):
    plan = repeating("ElementTimes", *shape)
    (step,) = [step for step in plan.gradients if step.step.nodes[-1].name == "met"]
    read = {place_of(node, False, plan) for node in step.reads} | {plan.gradient_buffer[node] for node in step.sources}
    place = {target.node.name: plan.gradient_buffer[target.node] for target in step.targets}
    assert place["row"] not in read
    assert place["Wx"] in read


def test_gradients_of_one_step_may_go_over_the_one_that_came_in():
    """What an engine has to cope with: the opposite of a gradient is written over it, and it is passed on as well."""
    plan = several_readers()
    (step,) = [step for step in plan.gradients if step.step.nodes[-1].name == "left"]
    place = {target.node.name: plan.gradient_buffer.get(target.node) for target in step.targets}
    assert plan.gradient_buffer[step.sources[0]] in place.values()
    assert place["Us"] != place["a"]
