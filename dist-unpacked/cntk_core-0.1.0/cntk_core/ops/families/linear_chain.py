"""Linear chains: CRF, the criterion of conditional random fields, and SequenceDecoder, their best path.

J. Lafferty, A. McCallum, F. Pereira, "Conditional random fields", ICML 2001, and L. Rabiner, "A tutorial on hidden
Markov models", 1989, equations 18 to 27 (forward and backward) and 32 to 35 (best path), all in the log domain. With
scores ``s`` of the labels at each frame and ``a`` of the transitions, a path ``y`` of a sequence has::

    log P(y) = sum_t (s_t[y_t] + a[y_{t-1}, y_t]) - log sum over all paths of the same

As in the original the state before the first frame is the label of the first frame. (The original leaves this first
transition of the labels out of the value, though not out of the gradient.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import ShapeError
from cntk_core.ops.families.ctc import sequences_of
from cntk_core.ops.families.recurrent_cells import Step, steps_of
from cntk_core.ops.language.define import define_op, guess_first
from cntk_core.ops.language.framing import samples, scalar
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.rows import sequence_rows
from cntk_core.ops.language.shapes import Shape, elements, show
from cntk_core.ops.language.sparse_rows import best_columns
from cntk_core.records.layout import IntArray

Numbers = NDArray[np.float64]


@attrs.frozen(eq=False)
class _Chains:
    """The sequences of a minibatch, packed so that each has a slot of its own.

    Attributes:
        rows: the row of the minibatch for each packed row.
        steps: time steps.
        begins, ends: the packed rows of first and last frames.
    """

    rows: IntArray
    steps: list[Step]
    begins: IntArray
    ends: IntArray


def _chains(context: OpContext) -> _Chains:
    pieces = sequences_of(context)
    layout = sequence_layout([len(piece) for piece in pieces])
    own = sequence_rows(layout)
    first = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])]).astype(np.int64)
    joined = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
    return _Chains(
        joined[first[own.number] + own.step],
        steps_of(layout.start.tolist(), layout.alive.tolist(), backward=False),
        np.flatnonzero(own.step == 0),
        np.flatnonzero(own.step == own.last),
    )


def _log_sum(values: Numbers, axis: int) -> Numbers:
    """log(sum(exp(values))) along an axis, without overflow."""
    top = values.max(axis=axis, keepdims=True)
    found: Numbers = np.log(np.exp(values - top).sum(axis=axis)) + np.squeeze(top, axis)
    return found


def _ahead(chains: _Chains, scores: Numbers, transitions: Numbers, labels: IntArray) -> Numbers:
    """Log sums over all paths from the begin to each label of each frame."""
    sums = scores.copy()
    sums[chains.begins] += transitions[labels[chains.begins]]
    for step in chains.steps:
        sums[step.known] += _log_sum(sums[step.before, :, None] + transitions, 1)
    return sums


def _behind(chains: _Chains, scores: Numbers, transitions: Numbers) -> Numbers:
    """Log sums over all paths from each label of each frame, itself not included, to the end."""
    sums = np.zeros_like(scores)
    for step in reversed(chains.steps):
        sums[step.before] = _log_sum(transitions + (scores[step.known] + sums[step.known])[:, None, :], 2)
    return sums


def _label_transitions(chains: _Chains, labels: IntArray) -> tuple[IntArray, IntArray]:
    """From which label to which each frame goes; a begin goes from its label to itself."""
    before = labels.copy()
    for step in chains.steps:
        before[step.known] = labels[step.before]
    return before, labels


def _transition_gradient(context: OpContext, transitions: Numbers) -> Numbers:
    """Expected less actual number of each transition."""
    chains, scores, labels, ahead, behind, log_mass, posterior = (
        context.saved[name] for name in ("chains", "scores", "labels", "ahead", "behind", "log_mass", "posterior")
    )
    found = np.zeros_like(transitions)
    np.add.at(found, labels[chains.begins], posterior[chains.begins])
    rest = scores + behind - log_mass
    for step in chains.steps:
        pairs = ahead[step.before, :, None] + transitions + rest[step.known][:, None, :]
        found += np.exp(pairs).sum(axis=0)
    np.subtract.at(found, _label_transitions(chains, labels), 1.0)
    return found


def _check(shapes: Sequence[Shape]) -> int:
    labels, scores, transitions = shapes
    size = elements(scores)
    if elements(labels) != size:
        raise ShapeError(f"the labels {show(labels)} and the scores {show(scores)} must have the same size")
    if elements(transitions) != size * size:
        raise ShapeError(f"the transitions must be [{size} x {size}], not {show(transitions)}")
    return size


def _infer_crf(shapes: Sequence[Shape], attributes: Any) -> Shape:
    _check(shapes)
    return (1,)


def _complete(shapes: Sequence[Shape], attributes: Any) -> list[Shape]:
    size = elements(shapes[1])
    return [*shapes[:2], tuple(dim or size for dim in shapes[2])]


def _crf_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    chains, labels, posterior = (context.saved[name] for name in ("chains", "labels", "posterior"))
    to_scores = to_transitions = None
    if needs[1]:
        change = posterior.copy()
        change[np.arange(len(labels)), labels] -= 1.0
        to_scores = xp.zeros_like(inputs[1])
        to_scores.reshape(change.shape)[chains.rows] = gradient * change
    if needs[2]:
        found = _transition_gradient(context, context.saved["transitions"])
        to_transitions = (gradient * found).astype(inputs[2].dtype).reshape(inputs[2].shape)
    return None, to_scores, to_transitions


@define_op(
    "CRF",
    inputs=3,
    infer=_infer_crf,
    complete=_complete,
    gradient=_crf_gradient,
    reduces_frames=True,
    role="criterion",
    reads_inputs=False,
    reads_output=False,
    differentiable=(False, True, True),
    unframed=frozenset({2}),
    along_sequences=frozenset({1}),
)
def CRF(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """-log of the probability of the label path of a linear chain; inputs: labels, scores, transitions [to x from]."""
    chains = _chains(context)
    values = samples(inputs[1], context.framed[1])
    scores = np.asarray(values, np.float64)[chains.rows]
    labels = best_columns(samples(inputs[0], context.framed[0]))[chains.rows]
    transitions = np.asarray(inputs[2], np.float64).reshape(scores.shape[1], scores.shape[1])
    ahead, behind = _ahead(chains, scores, transitions, labels), _behind(chains, scores, transitions)
    both = ahead + behind
    log_mass = _log_sum(both, 1)[:, None] if len(both) else np.zeros((0, 1))
    context.saved.update(
        chains=chains,
        scores=scores,
        labels=labels,
        transitions=transitions.copy(),
        ahead=ahead,
        behind=behind,
        log_mass=log_mass,
        posterior=np.exp(both - log_mass),
    )
    path = scores[np.arange(len(labels)), labels].sum() + transitions[_label_transitions(chains, labels)].sum()
    return scalar(xp, log_mass[chains.ends].sum() - path, values)


def _infer_decoder(shapes: Sequence[Shape], attributes: Any) -> Shape:
    _check(shapes)
    return shapes[1]


@define_op(
    "SequenceDecoder",
    inputs=3,
    infer=_infer_decoder,
    complete=_complete,
    guess=guess_first,
    differentiable=(False,),
    unframed=frozenset({2}),
    along_sequences=frozenset({1}),
)
def SEQUENCE_DECODER(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Best path of a linear chain between the first and the last label, one-hot; inputs: labels, scores, transitions.

    The labels are looked at in the first and the last frame of each sequence alone.
    """
    chains = _chains(context)
    best = np.asarray(samples(inputs[1], context.framed[1]), np.float64)[chains.rows]
    labels = best_columns(samples(inputs[0], context.framed[0]))[chains.rows]
    transitions = np.asarray(inputs[2], np.float64).reshape(best.shape[1], best.shape[1])
    before = np.zeros(best.shape, np.int64)
    start = best[chains.begins, labels[chains.begins]]
    best[chains.begins] = -np.inf
    best[chains.begins, labels[chains.begins]] = start
    for step in chains.steps:
        ways = best[step.before, :, None] + transitions
        before[step.known] = ways.argmax(axis=1)
        best[step.known] += ways.max(axis=1)
    path = labels.copy()
    for step in reversed(chains.steps):
        path[step.before] = before[np.arange(step.known.start, step.known.stop), path[step.known]]
    found = xp.zeros_like(inputs[1])
    found.reshape(best.shape)[chains.rows, path] = 1.0
    return found


OPS = (SEQUENCE_DECODER, CRF)
