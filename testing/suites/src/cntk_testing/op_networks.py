"""Networks of an op's examples, on which engines are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cntk_core.network.node import Node
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.ops.language.op import Op
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_testing.networks import Sample, Sketch
from cntk_testing.op_cases import FRAMES, ExampleCase, OpExample, example_cases


def cases_together(op: Op, examples: Sequence[OpExample]) -> list[list[ExampleCase]]:
    """Return an op's examples with frames; those with equal settings together, for one network."""
    found: dict[tuple[Any, ...], list[ExampleCase]] = {}
    for case in example_cases(op, examples):
        if any(case.framed):
            found.setdefault(tuple(sorted(case.example.settings.items())), []).append(case)
    return list(found.values())


def network_of(cases: Sequence[ExampleCase], dtype: str, *, learned: bool = True) -> tuple[Sample, Minibatch]:
    """Make a network with an op's examples side by side, and its data.

    To each differentiable input a learned zero is added; the criterion is the sum of all values, each element with
    another weight. What belongs to an example has its number in its name.

    Args:
        cases: the examples.
        dtype: of the network.
        learned: otherwise inputs come as they are, and there is no criterion.
    """
    made = Sketch(dtype)
    streams: dict[str, StreamData] = {}
    roots, totals = [], []
    for number, case in enumerate(cases):
        names = [f"{number}.{index}" for index in range(len(case.inputs))]
        inputs = [_add_input(made, case, name, index, streams, learned) for index, name in enumerate(names)]
        root = made.network.add(Node(f"result{number}", case.op, inputs, case.attributes))
        made.network.infer()
        roots.append(root)
        if learned and _is_differentiable(case):
            totals.append(_total_of(made, root, number))
    criterion = totals[0] if totals else None
    for number, total in enumerate(totals[1:]):
        assert criterion is not None
        criterion = made.op("Plus", criterion, total, name=f"sum{number}")
    return made.finish(criterion, *roots, settings=cases[0].example.settings), Minibatch(streams, FRAMES)


def _is_differentiable(case: ExampleCase) -> bool:
    return case.example.gradient and any(case.needs())


def _add_input(
    made: Sketch, case: ExampleCase, name: str, index: int, streams: dict[str, StreamData], learned: bool
) -> Node:
    """Add an input of an example: a parameter, or one with frames and its stream."""
    value = case.inputs[index]
    learned = learned and _is_differentiable(case) and case.needs()[index]
    if not case.framed[index]:
        return made.given(f"p{name}", value, multiplier=1.0 if learned else 0.0)
    node = made.input(f"x{name}", *value.shape[1:])
    streams[node.name] = StreamData(value.astype(made.network.dtype), frame_layout(FRAMES))
    return made.op("Plus", node, made.given(f"zero{name}", np.zeros(value.shape[1:]))) if learned else node


def _total_of(made: Sketch, root: Node, number: int) -> Node:
    """Add the sum of a value with different weights for its elements."""
    shape = root.known_shape
    weights = np.cos(np.arange(int(np.prod(shape)), dtype=np.float64)).reshape(shape) + 1.5
    weighted = made.op("ElementTimes", root, made.given(f"weights{number}", weights, multiplier=0.0))
    return made.op("SumElements", weighted, name=f"total{number}")
