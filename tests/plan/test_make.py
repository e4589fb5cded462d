"""The plan of small networks, against what it must be; and its laws on random networks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.errors import Location, NetworkError
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.op import Elementwise, Op
from cntk_core.ops.language.shapes import broadcast
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import Plan
from cntk_kit_engines.explain import explain
from cntk_testing.examples import examples


def elementwise(name, forward, gradient):
    return Op(name, (1, None), lambda shapes, _: broadcast(shapes), elementwise=Elementwise(forward, gradient))


PLUS = elementwise("Plus", lambda m, a, x, y: x + y, lambda m, a, g, y, p, q: (g, g))
MUL = elementwise("ElementTimes", lambda m, a, x, y: x * y, lambda m, a, g, y, p, q: (g * q, g * p))
SIGMOID = elementwise("Sigmoid", lambda m, a, x: m.sigmoid(x), lambda m, a, g, y, x: (g * y * (1.0 - y),))


def never(*args):
    raise AssertionError("a plan computes nothing")


TIMES = Op("Times", (2, 2), lambda shapes, _: (*shapes[1][:-1], shapes[0][-1]), forward=never, reads_output=False)
LOSS = Op(
    "Loss",
    (2, 2),
    lambda shapes, _: (1,),
    forward=never,
    reduces_frames=True,
    differentiable=(False, True),
    role="criterion",
)


def net(**shapes: int) -> Network:
    network = Network()
    for name, size in shapes.items():
        network.add(Input.make(name, (size,)))
    return network


def add(network: Network, name: str, op: Op, *inputs: str) -> Node:
    return network.add(Node(name, op, [network[item] for item in inputs]))


def parameter(network: Network, name: str, *shape: int, rate: float = 1.0) -> Parameter:
    node = Parameter.make(name, shape, value=np.zeros(shape), learning_rate_multiplier=rate)
    network.add(node)
    return node


def mlp() -> tuple[Network, Plan]:
    network = net(x=7, l=3)
    for name, shape in {"W0": (7, 5), "b0": (5,), "W1": (5, 3), "b1": (3,)}.items():
        parameter(network, name, *shape)
    add(network, "t", TIMES, "W0", "x")
    add(network, "p", PLUS, "t", "b0")
    add(network, "h", SIGMOID, "p")
    add(network, "t1", TIMES, "W1", "h")
    add(network, "z", PLUS, "t1", "b1")
    loss = add(network, "loss", LOSS, "l", "z")
    network.infer()
    return network, make_plan(network, [loss], loss)


def names(nodes) -> list[str]:
    return [node.name for node in nodes]


def test_steps_are_in_order_and_fused():
    _, plan = mlp()
    assert [names(step.nodes) for step in plan.steps] == [["t"], ["p", "h"], ["t1"], ["z"], ["loss"]]
    assert names(plan.steps[1].reads) == ["t", "b0"]
    assert names(plan.steps[1].writes) == ["h"]
    assert names(plan.trained) == ["W1", "W0", "b0", "b1"] or set(names(plan.trained)) == {"W0", "b0", "W1", "b1"}


def test_gradients_run_backwards_and_skip_what_needs_none():
    _, plan = mlp()
    assert [(names(g.sources), [t.node.name for t in g.targets]) for g in plan.gradients] == [
        (["loss"], ["z"]),
        (["z"], ["t1", "b1"]),
        (["t1"], ["W1", "h"]),
        (["h"], ["t", "b0"]),
        (["t"], ["W0"]),
    ]


def test_the_chain_runs_in_place():
    network, plan = mlp()
    assert plan.value_buffer[network["t"]] == plan.value_buffer[network["h"]]
    assert plan.gradient_buffer[network["z"]] == plan.gradient_buffer[network["t1"]]


def test_without_fusion_every_node_is_a_step():
    network, _ = mlp()
    plan = make_plan(network, [network["loss"]], network["loss"], fuse=False)
    assert [names(step.nodes) for step in plan.steps] == [["t"], ["p"], ["h"], ["t1"], ["z"], ["loss"]]


def test_a_shared_parameter_is_not_folded_and_its_second_gradient_accumulates():
    network = net(x=4, l=4)
    parameter(network, "W", 4, 4)
    add(network, "a", TIMES, "W", "x")
    add(network, "b", TIMES, "W", "a")
    loss = add(network, "loss", LOSS, "l", "b")
    network.infer()
    plan = make_plan(network, [loss], loss)
    weights = [target for step in plan.gradients for target in step.targets if target.node.name == "W"]
    assert [(target.accumulate, target.last) for target in weights] == [(False, False), (True, True)]
    assert not plan.sole_writer(network["W"])


def test_a_frozen_parameter_gets_no_gradient():
    network = net(x=4, l=4)
    parameter(network, "V", 4, 4, rate=0)
    parameter(network, "W", 4, 4)
    add(network, "a", TIMES, "V", "x")
    add(network, "b", TIMES, "W", "a")
    loss = add(network, "loss", LOSS, "l", "b")
    network.infer()
    plan = make_plan(network, [loss], loss)
    assert names(plan.trained) == ["W"]
    assert [[t.node.name for t in step.targets] for step in plan.gradients] == [["b"], ["W"]]


def test_a_node_between_two_elementwise_ones_keeps_them_apart():
    network = net(x=4)
    parameter(network, "W", 4, 4)
    add(network, "s", SIGMOID, "x")
    add(network, "t", TIMES, "W", "s")
    add(network, "p", PLUS, "s", "t")
    network.infer()
    plan = make_plan(network, [network["p"]])
    assert [names(step.nodes) for step in plan.steps] == [["s"], ["t"], ["p"]]


def test_a_criterion_without_learned_parameters_is_refused():
    network = net(x=4, l=4)
    loss = add(network, "loss", LOSS, "l", "x")
    network.infer()
    with pytest.raises(NetworkError) as error:
        make_plan(network, [loss], loss)
    assert str(error.value) == "the criterion 'loss' depends on no learned parameter"


def test_a_criterion_that_no_gradient_flows_from_trains_nothing():
    network = net(x=4, l=4)
    parameter(network, "W", 4, 4)
    add(network, "a", TIMES, "W", "x")
    loss = add(network, "loss", LOSS, "a", "l")
    network.infer()
    plan = make_plan(network, [loss], loss)
    assert plan.training
    assert (plan.trained, plan.gradients) == ((), ())


def test_a_criterion_that_is_no_scalar_is_refused():
    network, _ = mlp()
    with pytest.raises(NetworkError) as error:
        make_plan(network, [], network["z"])
    assert str(error.value) == "the criterion 'z' is [3], not a scalar"


def test_what_only_another_root_reads_gets_no_gradient():
    network, plan = mlp()
    parameter(network, "W2", 5, 2)
    other = add(network, "other", TIMES, "W2", "h")
    network.infer()
    both = make_plan(network, [other, network["loss"]], network["loss"])
    assert set(names(both.trained)) == {"W0", "b0", "W1", "b1"}
    assert [[target.node.name for target in step.targets] for step in both.gradients] == [
        [target.node.name for target in step.targets] for step in plan.gradients
    ]


def test_what_only_feeds_a_node_with_a_value_is_left_out():
    network = net(x=3, y=3)
    mean = add(network, "mean", SIGMOID, "y")
    mean.value = np.zeros(3)
    root = add(network, "root", PLUS, "x", "mean")
    network.infer()
    plan = make_plan(network, [root])
    assert names(plan.inputs) == ["x"]
    assert [names(step.nodes) for step in plan.steps] == [["root"]]


def test_members_of_a_group_without_gradients_of_their_own():
    """The gradient by ``p`` reads what was computed before it in the same step, from inputs alone."""
    network = net(x=3, y=3, l=3)
    parameter(network, "p", 3)
    add(network, "sum", PLUS, "x", "y")
    add(network, "scaled", MUL, "sum", "p")
    loss = add(network, "loss", LOSS, "l", "scaled")
    network.infer()
    plan = make_plan(network, [loss], loss)
    assert [names(step.nodes) for step in plan.steps] == [["sum", "scaled"], ["loss"]]
    assert names(plan.gradients[-1].reads) == ["sum"]


def test_precomputed_nodes_have_to_be_computed():
    network = net(x=3)
    op = Op("Mean", (1, 1), lambda shapes, _: shapes[0], forward=never, reduces_frames=True, role="precompute")
    mean = add(network, "mean", op, "x")
    mean.where = Location("net.ndl", 3, 5)
    network.infer()
    with pytest.raises(NetworkError) as error:
        make_plan(network, [mean])
    assert str(error.value) == "net.ndl:3:5: the node 'mean' (Mean) is not computed yet"
    mean.value = np.zeros(3)
    assert not make_plan(network, [mean]).steps


def test_gradients_by_nodes_of_which_the_roots_know_nothing():
    network = net(x=3, y=3)
    network.add(Input.make("s", (3,), sparse=True))
    first = add(network, "first", SIGMOID, "x")
    second = add(network, "second", PLUS, "x", "s")
    network["y"].where = Location("net.ndl", 2, 1)
    network.infer()
    with pytest.raises(NetworkError) as error:
        make_plan(network, [first], by=[network["y"]])
    assert str(error.value) == "net.ndl:2:1: there is no gradient by 'y': 'first' does not depend on it"
    with pytest.raises(NetworkError) as error:
        make_plan(network, [first, second], by=[network["y"]])
    assert str(error.value) == "net.ndl:2:1: there is no gradient by 'y': 'first', 'second' do not depend on it"
    with pytest.raises(NetworkError) as error:
        make_plan(network, [second], by=[network["s"]])
    assert str(error.value) == (
        "there is no gradient by 's': it is a sparse input\n"
        "    Declare the input dense, or ask for the gradient by a node that reads it."
    )


def test_gradients_by_inputs():
    network = net(x=3, y=3)
    add(network, "inner", SIGMOID, "x")
    first = add(network, "first", PLUS, "inner", "y")
    second = add(network, "second", SIGMOID, "y")
    network.infer()
    plan = make_plan(network, [first, second], by=[network["x"]])
    assert names(plan.seeded) == ["first"]
    assert plan.criterion is None
    assert [(names(step.sources), [target.node.name for target in step.targets]) for step in plan.gradients] == [
        (["first"], ["x"])
    ]


def test_a_root_by_itself_has_its_seed():
    network = net(x=3)
    parameter(network, "W", 3, 3)
    first = add(network, "first", TIMES, "W", "x")
    second = add(network, "second", SIGMOID, "first")
    network.infer()
    assert make_plan(network, [second], by=[second]).gradients == ()
    (step,) = make_plan(network, [second], by=[first, second]).gradients
    assert (names(step.sources), [target.node.name for target in step.targets]) == (["second"], ["first"])
    plan = make_plan(network, [first, second], by=[first])
    (step,) = plan.gradients
    assert [(target.node.name, target.accumulate) for target in step.targets] == [("first", True)]
    assert names(plan.seeded) == ["first", "second"]


def test_explain_names_steps_and_bytes():
    _, plan = mlp()
    text = explain(plan, frames=10)
    assert "fused: Plus p + Sigmoid h [5 x *] -> h in b0" in text
    assert "W0 [5 x 7]: one product, the update may be folded into it" in text
    # Two products and two sums of 5 and 3 elements for each of ten frames, their gradients, and the criterion; all of
    # four bytes. At most 13 elements of a frame are alive together.
    alone, shared = 4 * (2 * 10 * (5 + 5 + 3 + 3) + 1), 4 * (10 * 13 + 1)
    assert text.splitlines()[-1] == (
        f"Buffers for 10 frames: 9 values share 4 buffers, {shared} bytes instead of {alone} ({alone - shared} saved)"
    )


@st.composite
def random_networks(draw) -> Network:
    """Element-wise nodes and products over one width, in any wiring."""
    network = net(x=3, l=3)
    parameter(network, "W", 3, 3)
    parameter(network, "b", 3)
    known = ["x", "W", "b"]
    framed = ["x"]
    for index in range(draw(st.integers(1, 12))):
        name = f"n{index}"
        kind = draw(st.sampled_from([PLUS, MUL, SIGMOID, TIMES]))
        first = draw(st.sampled_from(framed))
        if kind is TIMES:
            add(network, name, TIMES, "W", first)
        elif kind is SIGMOID:
            add(network, name, SIGMOID, first)
        else:
            add(network, name, kind, first, draw(st.sampled_from([item for item in known if item != "W"])))
        known.append(name)
        framed.append(name)
    add(network, "last", TIMES, "W", framed[-1])
    add(network, "loss", LOSS, "l", "last")
    network.infer()
    return network


@examples(200)
@given(random_networks(), st.booleans(), st.data())
def test_no_buffer_is_overwritten_while_it_is_needed(network: Network, fuse: bool, data: st.DataObject):
    computed = [node for node in network if node.op.role == "operation"]
    kept = data.draw(st.lists(st.sampled_from(computed), max_size=3))
    plan = make_plan(network, [network["loss"], *kept], network["loss"], fuse=fuse)
    _replay(plan)


def _replay(plan: Plan) -> None:
    """Run the plan on names instead of numbers: every read must find what was written for it."""
    held: dict[int, tuple[str, Node]] = {}

    def check(kind: str, node: Node) -> None:
        places = plan.value_buffer if kind == "value" else plan.gradient_buffer
        if node in places:
            assert held[places[node]] == (kind, node)

    for step in plan.steps:
        for node in step.reads:
            check("value", node)
        for node in step.writes:
            held[plan.value_buffer[node]] = ("value", node)
    written: set[Node] = set()
    for gradient in plan.gradients:
        for node in gradient.reads:
            check("value", node)
        for node in gradient.sources:
            if node is not plan.criterion:
                check("gradient", node)
        for target in gradient.targets:
            assert target.accumulate == (target.node in written)
            if target.accumulate:
                check("gradient", target.node)
            written.add(target.node)
            if target.node in plan.gradient_buffer:
                held[plan.gradient_buffer[target.node]] = ("gradient", target.node)
    for root in plan.roots:
        check("value", root)


@examples(100)
@given(random_networks())
def test_each_step_comes_after_what_it_reads(network: Network):
    plan = make_plan(network, [network["loss"]], network["loss"])
    done = {*plan.inputs, *plan.parameters}
    for step in plan.steps:
        assert set(step.reads) <= done
        done.update(step.nodes)
