"""Whether a Where finds one step in each sequence: it reads a delay of what is always 0, with 1 beyond the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.table import core_ops
from cntk_kit_builders.single_steps import makes_single_steps


def node(op: str, *inputs: Node, **settings: Any) -> Node:
    found = core_ops().find("", op)
    assert found is not None
    return Node(op.lower(), found, list(inputs), found.attributes(**settings))


def constant(*values: float, learned: float = 0.0) -> Parameter:
    return Parameter.make("c", (len(values),), value=np.asarray(values), learning_rate_multiplier=learned)


def delay(of: Node, *first: Node, op: str = "PastValue", beyond: float = 0.1, **settings: Any) -> Node:
    return node(op, of, *first, default_hidden_activation=beyond, **settings)


X = Input.make("x", (2,))
UNKNOWN = Parameter.make("u", (2,), learning_rate_multiplier=0.0)
ZEROS: dict[str, Callable[[], Node]] = {
    "a number": lambda: constant(0.0),
    "numbers": lambda: constant(0.0, 0.0),
    "for each step": lambda: node("ReconcileDynamicAxis", constant(0.0), X),
    "like something": lambda: node("BroadcastLike", constant(0.0), X),
    "passed on": lambda: node("Pass", node("Pass", constant(0.0))),
    "of a part": lambda: node("ElementTimes", X, constant(0.0)),
    "of a part, the other way": lambda: node("ElementTimes", constant(0.0), X),
    "a sum": lambda: node("SumColumnElements", node("ElementTimes", X, constant(0.0))),
}
OTHERS: dict[str, Callable[[], Node]] = {
    "an input": lambda: X,
    "a one": lambda: constant(0.0, 1.0),
    "learned": lambda: constant(0.0, learned=1.0),
    "not known yet": lambda: UNKNOWN,
    "a sum with 0": lambda: node("Plus", X, constant(0.0)),
    "a product": lambda: node("ElementTimes", X, constant(2.0)),
    "put on the axis of 0": lambda: node("ReconcileDynamicAxis", X, constant(0.0)),
}


@pytest.mark.parametrize("name", ZEROS)
@pytest.mark.parametrize("op", ["PastValue", "FutureValue"])
def test_a_delay_of_zeros_marks_one_step(name: str, op: str) -> None:
    assert makes_single_steps(node("Where", delay(ZEROS[name](), op=op, beyond=1.0)))
    assert makes_single_steps(node("Where", delay(ZEROS[name](), constant(1.0, 1.0), op=op)))


@pytest.mark.parametrize("name", OTHERS)
def test_other_values_may_mark_any_number(name: str) -> None:
    assert not makes_single_steps(node("Where", delay(OTHERS[name](), beyond=1.0)))
    assert not makes_single_steps(node("Where", delay(OTHERS[name](), constant(1.0))))


@pytest.mark.parametrize(
    "marks",
    [
        delay(constant(0.0), beyond=1.0, time_step=2),
        delay(constant(0.0), beyond=0.5),
        delay(constant(0.0), constant(1.0, 0.0)),
        delay(constant(0.0), UNKNOWN),
        delay(constant(0.0), node("Exp", constant(0.0)), beyond=1.0),
        constant(0.0),
        node("Exp", constant(0.0)),
    ],
    ids=["two steps", "no truth beyond", "not everywhere", "not known", "computed", "no delay", "another operation"],
)
def test_other_marks_may_find_any_number(marks: Node) -> None:
    assert not makes_single_steps(node("Where", marks))


def test_marks_that_are_passed_on_are_the_same() -> None:
    marks = delay(constant(0.0), beyond=1.0)
    assert makes_single_steps(node("Where", node("Pass", node("Pass", marks))))
    assert not makes_single_steps(node("Where", node("Exp", marks)))
