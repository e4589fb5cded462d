"""SequenceWithSoftmax: sequence training over lattices (MMI, boosted MMI, sMBR), with frame smoothing.

With the log likelihoods ``l`` of the frames' classes, scaled by ``1/amf``, and the labels' path ``y``::

    MMI   F = log(sum over all paths of the lattice of exp(score)) - sum_t l_t[y_t] / amf
    sMBR  F = frames - mean number of correct frames over all paths, by their posteriors

Both are what is minimised. (The original shows MMI with the other sign, and of sMBR a mixture of both.) The gradient
goes to the scores before the softmax, and none to the log likelihoods, which are the same but for a prior:
``amf * dF/dl``, with MMI the posteriors of the states less the labels. ``h_smoothing_weight`` is the share of it; the
rest is that of cross entropy (H. Su, G. Li, D. Yu, F. Seide, "Error back propagation for sequence training of
context-dependent deep networks", ICASSP 2013, which has frame smoothing and the dropped frames, too).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import DataError, ShapeError
from cntk_core.ops.families.frame_moves import layout_of
from cntk_core.ops.families.lattice_sums import (
    BY_NUMPY,
    Aligned,
    PathSums,
    Sums,
    Weights,
    align_segments,
    sum_paths,
)
from cntk_core.ops.families.lattices import LATTICE_COLUMNS, Lattices, read_lattices
from cntk_core.ops.families.softmax import log_softmax
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import samples, scalar
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape, elements, show
from cntk_core.ops.language.sparse_rows import best_columns, is_sparse
from cntk_core.records.layout import IntArray

Numbers = NDArray[np.float64]
WHO = "SequenceWithSoftmax"


@attrs.frozen
class SequenceTrainingAttributes:
    """Attributes of SequenceWithSoftmax, by the names of CNTK's SGD block.

    Attributes:
        h_smoothing_weight: share of the sequence criterion in the gradient; the rest is cross entropy's.
        frame_drop_thresh: a frame whose label has a smaller posterior in the lattice has no gradient.
        do_reference_align: the labels are the best path through the reference's phones, not those that are given.
        seq_gammar_amf: what acoustic scores are divided by.
        seq_gammar_lmf: factor of the language model's scores.
        seq_gammar_word_pen: added for each arc.
        seq_gammar_bmmi_factor: boosted MMI: taken from a path's score for each correct frame.
        seq_gammar_uses_mbr: minimum Bayes risk of states (sMBR) in place of MMI.
    """

    h_smoothing_weight: float = 0.95
    frame_drop_thresh: float = 1e-10
    do_reference_align: bool = False
    seq_gammar_amf: float = 14.0
    seq_gammar_lmf: float = 14.0
    seq_gammar_word_pen: float = 0.0
    seq_gammar_bmmi_factor: float = 0.0
    seq_gammar_uses_mbr: bool = False

    @property
    def weights(self) -> Weights:
        """How scores are put together."""
        return Weights(self.seq_gammar_amf, self.seq_gammar_lmf, self.seq_gammar_word_pen, self.seq_gammar_bmmi_factor)


def _infer(shapes: Sequence[Shape], attributes: SequenceTrainingAttributes) -> Shape:
    if len({elements(shape) for shape in shapes[:3]}) != 1:
        raise ShapeError(f"the inputs {', '.join(show(shape) for shape in shapes)} must have the same size")
    if len(shapes) == 4 and elements(shapes[3]) != LATTICE_COLUMNS:
        raise ShapeError(
            f"the lattices must be [{LATTICE_COLUMNS}], not {show(shapes[3])}",
            hint="They come from a reader, as a sequence of rows on a dynamic axis of their own.",
        )
    if not attributes.seq_gammar_amf > 0.0:
        raise ShapeError(f"seqGammarAMF must be above 0, not {attributes.seq_gammar_amf:g}")
    if not 0.0 <= attributes.h_smoothing_weight <= 1.0:
        raise ShapeError(f"hSmoothingWeight must be in [0, 1], not {attributes.h_smoothing_weight:g}")
    return (1,)


def _classes(labels: Array, framed: bool) -> IntArray:
    return best_columns(labels if is_sparse(labels) else samples(labels, framed))


def _referenced(lattices: Lattices, aligned: Aligned, labels: IntArray) -> IntArray:
    """Return the labels with those of the reference's phones in their place."""
    reference = lattices.arcs[aligned.segments] < 0
    if not reference.any():
        raise DataError(
            f"{WHO}: doReferenceAlign=true, but the reader gives no phones of the reference",
            hint="Name them in the label file: the fifth column of its lines, as in the file of the HMMs.",
        )
    found = labels.copy()
    found[aligned.rows[reference]] = aligned.classes[reference]
    return found


@attrs.frozen(eq=False)
class _Found:
    """Value and error signal of a minibatch.

    Attributes:
        value: the criterion, summed over the utterances.
        labels: class of each row.
        target: what the lattice gives each class of each row: its posterior, or sMBR's error signal.
        dropped: rows without gradient.
    """

    value: float
    labels: IntArray
    target: Numbers
    dropped: NDArray[np.bool_]


def _matches(lattices: Lattices, aligned: Aligned, labels: IntArray) -> Numbers:
    """Return how many frames of each arc count as correct: those with their label, if the rows do not say."""
    arcs = lattices.arcs[aligned.segments]
    right = (aligned.classes == labels[aligned.rows]) & (arcs >= 0)
    counts = np.bincount(arcs[right], minlength=len(lattices.begins)).astype(np.float64)
    return np.where(lattices.correct > 0, lattices.correct - 1.0, counts)


def _spread(shape: tuple[int, int], aligned: Aligned, arcs: IntArray, amounts: Numbers) -> Numbers:
    """Add an amount for each arc to the classes of its frames; segments of the reference have none."""
    own = arcs >= 0
    places = aligned.rows[own] * shape[1] + aligned.classes[own]
    found: Numbers = np.bincount(places, amounts[arcs[own]], minlength=shape[0] * shape[1]).astype(np.float64)
    return found.reshape(shape)


def _search(
    lattices: Lattices, logs: Numbers, labels: IntArray, attributes: SequenceTrainingAttributes, by: Sums
) -> _Found:
    """Compute what a minibatch has."""
    aligned = align_segments(lattices, logs, by)
    if attributes.do_reference_align:
        labels = _referenced(lattices, aligned, labels)
    own = lattices.arcs >= 0
    acoustic = np.bincount(lattices.arcs[own], aligned.scores[own], len(lattices.begins)).astype(np.float64)
    matches = _matches(lattices, aligned, labels)
    sums = sum_paths(lattices, acoustic, matches, attributes.weights, by)
    arcs = lattices.arcs[aligned.segments]
    posterior = _spread(logs.shape, aligned, arcs, sums.chances)
    at_label = np.arange(len(labels)), labels
    alive = _alive(lattices, sums, aligned, arcs, len(logs))
    dropped = (posterior[at_label] < attributes.frame_drop_thresh) | ~alive
    if attributes.seq_gammar_uses_mbr:
        gain = sums.chances * (sums.through - sums.correct[lattices.owners]) / attributes.seq_gammar_amf
        value = float(alive.sum() - sums.correct.sum())
        return _Found(value, labels, _spread(logs.shape, aligned, arcs, gain), dropped)
    spoken = logs[at_label][alive].sum() / attributes.seq_gammar_amf
    return _Found(float(_possible(sums).sum() - spoken), labels, posterior, dropped)


def _possible(sums: PathSums) -> Numbers:
    """The totals of the utterances that have a path at all."""
    return sums.totals[sums.totals > -1e29]


def _alive(lattices: Lattices, sums: PathSums, aligned: Aligned, arcs: IntArray, rows: int) -> NDArray[np.bool_]:
    """Return which rows belong to an utterance with a path; nothing is learned from others."""
    own = (arcs >= 0) & (sums.totals > -1e29)[lattices.owners[arcs]]
    found = np.zeros(rows, bool)
    found[aligned.rows[own]] = True
    return found


def _gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: SequenceTrainingAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    found: _Found = context.saved["found"]
    share = attributes.h_smoothing_weight
    change = (1.0 - share) * np.exp(context.saved["logs"])
    change += (-share if attributes.seq_gammar_uses_mbr else share) * found.target
    rows = np.arange(len(found.labels))
    change[rows, found.labels] -= 1.0 - share if attributes.seq_gammar_uses_mbr else 1.0
    change[found.dropped] = 0.0
    whole = gradient * xp.asarray(change, dtype=inputs[1].dtype)
    return (None, whole.reshape(inputs[1].shape), *(None,) * (len(inputs) - 2))


@define_op(
    WHO,
    inputs=(3, 4),
    infer=_infer,
    gradient=_gradient,
    reduces_frames=True,
    role="criterion",
    reads_inputs=False,
    reads_output=False,
    differentiable=(False, True, False),
    attributes=SequenceTrainingAttributes,
    axis_of=1,
    along_sequences=frozenset({1, 3}),
    sparse_inputs=frozenset({0}),
    aliases={"ndl": ("SEWithSM",)},
)
def SEQUENCE_WITH_SOFTMAX(
    xp: Any, inputs: Sequence[Array], attributes: SequenceTrainingAttributes, context: OpContext, by: Sums = BY_NUMPY
) -> Array:
    """Sequence training over lattices (MMI, sMBR); inputs: labels, scores, log likelihoods, lattices of the reader."""
    if len(inputs) < 4:
        raise DataError(
            f"{WHO} has no lattices",
            hint="In a recipe the reader gives them, with denlatTocFile=...; in a program they are a fourth input.",
        )
    scores, likelihoods = (samples(inputs[index], context.framed[index]) for index in (1, 2))
    logs = np.asarray(likelihoods, np.float64)
    rows = np.asarray(samples(inputs[3], context.framed[3]), np.float64)
    lattices = read_lattices(rows, layout_of(context, 3), layout_of(context, 1), WHO)
    top = int(lattices.states.max(initial=-1))
    if top >= logs.shape[1]:
        raise DataError(f"{WHO}: the lattices have the class {top}, and there are {logs.shape[1]} scores")
    found = _search(lattices, logs, _classes(inputs[0], context.framed[0]), attributes, by)
    context.saved.update(found=found, logs=log_softmax(np, np.asarray(scores, np.float64)))
    return scalar(xp, found.value, scores)
