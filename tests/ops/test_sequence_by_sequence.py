"""Every op on packed sequences equals the op on each sequence alone: values, and gradients of all inputs.

Lengths are random, 0 and 1 among them, with one sequence to a slot and several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.layouts import sequence_layout, slot_layout
from cntk_core.ops.language.op import Op, OpContext
from cntk_core.ops.language.rows import sequence_rows
from cntk_core.ops.table import core_ops
from cntk_core.records.layout import SequenceLayout
from cntk_testing.op_cases import OpExample, random_values
from cntk_testing.op_examples import EXAMPLES

TABLE = core_ops()
WHOLE_MINIBATCHES = {
    "BatchMoments": "mean and variance of the minibatch",
    "BatchNormalization": "statistics of the minibatch; see below for evaluation",
    "CosDistanceWithNegativeSamples": "the negative samples are other frames of the minibatch",
    "EditDistanceError": "the edits of all sequences by the tokens of all",
    "EpochAccumulator": "a mean over all frames",
    "LambdaRank": "the queries of the minibatch are its documents",
    "Logistic": "weights are relative to their mean; see below for those without",
    "MatrixL2Reg": "the root of a sum",
    "QuantizedTimes": "the largest number of the minibatch scales all",
    "NDCG1Eval": "the queries of the minibatch are its documents",
    "Trace": "it logs",
}
"""Ops whose value of a minibatch is not made of values of its sequences, and why."""

LAYOUTS = st.one_of(
    st.lists(st.integers(0, 4), min_size=1, max_size=4).map(sequence_layout),
    st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=3).map(slot_layout),
)


def rows_of_sequences(layout: SequenceLayout) -> list[Any]:
    rows = sequence_rows(layout)
    found = [np.flatnonzero(rows.number == number) for number in np.unique(rows.number)]
    return [own[np.argsort(rows.step[own])] for own in found]


def context_of(example: OpExample, framed: Sequence[bool], layout: SequenceLayout, *, training: bool) -> OpContext:
    return OpContext(
        framed=tuple(framed),
        frames=layout.frames,
        training=training,
        layout=layout,
        layouts=tuple(layout if has else None for has in framed),
        settings=example.settings,
    )


def run(
    op: Op, inputs: Sequence[Any], example: OpExample, framed: Sequence[bool], layout: SequenceLayout, grad: Any
) -> tuple[Any, list[Any]]:
    """The value, and the gradients for one of the value that ``grad`` makes."""
    attributes = op.attributes() if example.attributes is None else example.attributes
    context = context_of(example, framed, layout, training=op.name != "BatchNormalization")
    output = np.array(run_forward(op, np, inputs, attributes, context))
    needs = [op.flows_to(index) for index in range(len(inputs))]
    return output, run_gradient(op, np, grad(output), output, inputs, attributes, context, needs)


def check(op: Op, example: OpExample, framed: Sequence[bool], layout: SequenceLayout) -> None:
    rng = np.random.default_rng(layout.frames)
    inputs = []
    for index, (shape, has) in enumerate(zip(example.shapes, framed, strict=True)):
        full = (layout.frames, *shape) if has else tuple(shape)
        kind = example.kinds[index] if example.kinds else "smooth"
        known = index in example.values and layout.frames > 0
        inputs.append(example.given(index, full) if known else random_values(rng, kind, full, framed=has))
    weights = rng.normal(size=1000)

    def weigh(rows: Any) -> Any:
        """A gradient of the output that is the same for a frame wherever it stands."""

        def make(output: Any) -> Any:
            if op.reduces_frames:
                return np.resize(weights, output.shape)
            inner = output[0].size if len(output) else 0
            return np.array([np.resize(weights[row % 900 :], inner) for row in rows]).reshape(output.shape)

        return make

    value, gradients = run(op, inputs, example, framed, layout, weigh(np.arange(layout.frames)))
    total = np.zeros_like(value)
    sums = [None if gradient is None else np.zeros_like(gradient) for gradient in gradients]
    for rows in rows_of_sequences(layout):
        alone = [value[rows] if has else value for value, has in zip(inputs, framed, strict=True)]
        found, changes = run(op, alone, example, framed, sequence_layout([len(rows)]), weigh(rows))
        if op.reduces_frames:
            total += found
        else:
            total[rows] = found
        for place, (mine, change, has) in enumerate(zip(sums, changes, framed, strict=True)):
            assert (mine is None) == (change is None)
            if mine is not None and has:
                mine[rows] = change
            elif mine is not None:
                sums[place] = mine + change
    np.testing.assert_allclose(value, total, rtol=1e-9, atol=1e-9, err_msg=op.name)
    for index, (together, apart) in enumerate(zip(gradients, sums, strict=True)):
        if together is not None:
            np.testing.assert_allclose(together, apart, rtol=1e-9, atol=1e-9, err_msg=f"gradient {index} of {op.name}")


def cases(name: str) -> list[tuple[OpExample, tuple[bool, ...]]]:
    """Examples with a dynamic axis. That of all inputs is the same."""
    found = EXAMPLES[name]
    if name == "NoiseContrastiveEstimation":  # labels of one number: those of the whole minibatch tell the mode
        found = tuple(example for example in found if example.shapes[0] != (1,))
    mixes = [(example, framed) for example in found for framed in example.mixes() if any(framed)]
    # What DummyCriterion is given is handed on; only with frames is it a sum of theirs.
    return [(example, framed) for example, framed in mixes if name != "DummyCriterion" or all(framed)]


NAMES = [
    op.name
    for op in TABLE
    if op.name in EXAMPLES and not op.random and op.name not in WHOLE_MINIBATCHES and cases(op.name)
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(2)
@given(data=st.data())
@settings(max_examples=6)
def test_packed_is_one_by_one(name: str, data: st.DataObject) -> None:
    op = TABLE.find("", name)
    assert op is not None
    example, framed = data.draw(st.sampled_from(cases(name)))
    check(op, example, framed, data.draw(LAYOUTS))


@pytest.mark.parametrize("name", NAMES)
def test_no_frames_at_all(name: str) -> None:
    op = TABLE.find("", name)
    assert op is not None
    for example, framed in cases(name)[:2]:
        check(op, example, framed, sequence_layout([0, 0]))


@pytest.mark.parametrize("lengths", [[3, 0, 1], [1, 1], [0]])
@pytest.mark.parametrize("name", ["BatchNormalization", "Logistic"])
def test_evaluation_with_given_statistics_and_weights(name: str, lengths: list[int]) -> None:
    op = TABLE.find("", name)
    assert op is not None
    example, framed = cases(name)[0]
    check(op, example, framed, sequence_layout(lengths))


def test_no_op_is_left_out_without_a_reason() -> None:
    framed = {op.name for op in TABLE if op.name in EXAMPLES and cases(op.name)}
    random = {op.name for op in TABLE if op.random}
    assert set(NAMES) == framed - random - set(WHOLE_MINIBATCHES)
    assert set(WHOLE_MINIBATCHES) <= framed
