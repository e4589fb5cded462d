"""Criteria over whole sequences: edit distance, connectionist temporal classification (CTC), lattices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.ops.families.criteria import infer_criterion
from cntk_core.ops.families.ctc import Rows, align_paths, phone_path, sequences_of
from cntk_core.ops.families.lattice_free import LATTICE_FREE_MMI
from cntk_core.ops.families.reshaping import ints
from cntk_core.ops.families.sequence_training import SEQUENCE_WITH_SOFTMAX
from cntk_core.ops.families.softmax import log_softmax
from cntk_core.ops.language.define import define_op, first_shape, guess_first
from cntk_core.ops.language.framing import samples, scalar
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.traits import BY_ROWS


@attrs.frozen
class EditDistanceAttributes:
    """Attributes of EditDistanceError.

    Attributes:
        substitution_penalty, deletion_penalty, insertion_penalty: costs of the edits.
        squash_inputs: equal neighbours count once.
        tokens_to_ignore: classes that are taken out first.
    """

    substitution_penalty: float = 1.0
    deletion_penalty: float = 1.0
    insertion_penalty: float = 1.0
    squash_inputs: bool = False
    tokens_to_ignore: tuple[int, ...] = attrs.field(default=(), converter=ints)


def _tokens(values: Array, rows: Rows, attributes: EditDistanceAttributes) -> list[int]:
    """The best classes of a sequence, squashed and without what is to be ignored."""
    best = np.argmax(values[rows], axis=1)
    if attributes.squash_inputs:
        best = best[np.flatnonzero(np.diff(best, prepend=-1))]
    return [token for token in best.tolist() if token not in attributes.tokens_to_ignore]


def count_edits(first: Sequence[int], second: Sequence[int], attributes: EditDistanceAttributes) -> int:
    """Return how many substitutions, deletions and insertions the cheapest way from one to the other has."""
    by_sub, by_del, by_ins = (
        attributes.substitution_penalty,
        attributes.deletion_penalty,
        attributes.insertion_penalty,
    )
    # Cost and number of edits up to each token of the second sequence.
    row = [(by_ins * index, index) for index in range(len(second) + 1)]
    for place, token in enumerate(first, start=1):
        corner, row[0] = row[0], (by_del * place, place)
        for index, other in enumerate(second, start=1):
            above = row[index]
            if token != other:
                deleted, inserted = above[0] + by_del, row[index - 1][0] + by_ins
                substituted = corner[0] + by_sub
                if substituted <= deleted and substituted <= inserted:
                    row[index] = (substituted, corner[1] + 1)
                elif deleted < inserted:
                    row[index] = (deleted, above[1] + 1)
                else:
                    row[index] = (inserted, row[index - 1][1] + 1)
            else:
                row[index] = corner
            corner = above
    return row[-1][1]


@define_op(
    "EditDistanceError",
    inputs=2,
    infer=infer_criterion,
    reduces_frames=True,
    role="criterion",
    attributes=EditDistanceAttributes,
    along_sequences=frozenset({0}),
)
def EDIT_DISTANCE_ERROR(
    xp: Any, inputs: Sequence[Array], attributes: EditDistanceAttributes, context: OpContext
) -> Array:
    """Edits between the best classes of two sequences, by the share of the first's frames that count as tokens."""
    values = [samples(value, framed) for value, framed in zip(inputs, context.framed, strict=True)]
    edits = tokens = 0
    for rows in sequences_of(context):
        first, second = (_tokens(value, rows, attributes) for value in values)
        edits += count_edits(first, second, attributes)
        tokens += len(first)
    # Without any token of the first sequence each edit counts once.
    return scalar(xp, edits * len(values[0]) / tokens if tokens else float(edits), inputs[0])


@define_op("LabelsToGraph", infer=first_shape, guess=guess_first, traits=attrs.evolve(BY_ROWS, passes_through=True))
def LABELS_TO_GRAPH(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Labels (1 inside a phone, 2 at its first frame) made ready for ForwardBackward."""
    return inputs[0]


@attrs.frozen
class ForwardBackwardAttributes:
    """Attributes of ForwardBackward: the class of the blank (-1: the last), how late a label may come (-1: any)."""

    blank_token_id: int = -1
    delay_constraint: int = -1


def _forward_backward_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: ForwardBackwardAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    logs, posterior = context.saved["logs"], context.saved["posterior"]
    to_graph = (-gradient * logs).reshape(inputs[0].shape) if needs[0] else None
    to_scores = gradient * (xp.exp(logs) - xp.asarray(posterior, dtype=logs.dtype))
    return to_graph, to_scores.reshape(inputs[1].shape)


@define_op(
    "ForwardBackward",
    inputs=2,
    infer=infer_criterion,
    gradient=_forward_backward_gradient,
    reduces_frames=True,
    role="criterion",
    reads_output=False,
    attributes=ForwardBackwardAttributes,
    along_sequences=frozenset({1}),
)
def FORWARD_BACKWARD(
    xp: Any, inputs: Sequence[Array], attributes: ForwardBackwardAttributes, context: OpContext
) -> Array:
    """CTC: -log of the chance of the labels over all alignments; inputs: LabelsToGraph, scores before Softmax."""
    labels, scores = (samples(value, framed) for value, framed in zip(inputs, context.framed, strict=True))
    logs = log_softmax(xp, scores)
    exact = np.asarray(logs, np.float64)
    blank = attributes.blank_token_id if attributes.blank_token_id >= 0 else logs.shape[1] - 1
    posterior = np.zeros_like(exact)
    sequences = sequences_of(context)
    paths = [phone_path(np.asarray(labels)[rows], blank) for rows in sequences]
    found = align_paths([exact[rows] for rows in sequences], paths, attributes.delay_constraint)
    for rows, alignment in zip(sequences, found, strict=True):
        posterior[rows] = alignment.posterior
    total = sum(alignment.log_chance for alignment in found)
    context.saved.update(logs=logs, posterior=posterior)
    return scalar(xp, -total, scores)


OPS = (EDIT_DISTANCE_ERROR, LABELS_TO_GRAPH, FORWARD_BACKWARD, SEQUENCE_WITH_SOFTMAX, LATTICE_FREE_MMI)
