"""LatticeFreeMMI: maximum mutual information without lattices, against a graph of all that may be said.

D. Povey et al., "Purely sequence-trained neural networks for ASR based on lattice-free MMI", Interspeech 2016: with the
scores ``z`` of a network taken for log likelihoods::

    F = log(sum over all paths of the denominator graph of exp(sum_t z_t[path_t])) - sum_t z_t[y_t]

The graph is a hidden Markov model made of a phone language model, whose states have classes. It is the same for all
utterances, so that forward and backward are products of a matrix, for all utterances of a minibatch at once. With a
small probability it goes from any state to any other (leaky HMM), section 3.4 of the paper. Probabilities are scaled in
each frame, and the frames' factors add up to the value. ``y`` are the labels, an alignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import DataError, ShapeError
from cntk_core.ops.families.criteria import infer_criterion
from cntk_core.ops.families.frame_moves import layout_of, need_whole
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import samples, scalar
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.rows import sequence_table
from cntk_core.ops.language.shapes import Shape
from cntk_core.ops.language.sparse_rows import best_columns, is_sparse

Numbers = NDArray[np.float64]
WHO = "LatticeFreeMMI"

_LEAST = 1e-300
"""A frame that no path fits has at least this factor."""

_LINES = "A line is: start STATE PROBABILITY, class STATE CLASS, or arc FROM TO PROBABILITY; # begins a comment."


@attrs.frozen(eq=False)
class DenominatorGraph:
    """A hidden Markov model of all that may be said.

    Attributes:
        start: probability of each state in the first frame. Shape ``(states,)``.
        arcs: probability to go from a state (row) to a state. Shape ``(states, states)``.
        classes: row of the scores that each state has. Shape ``(states,)``.
    """

    start: Numbers
    arcs: Numbers
    classes: NDArray[np.int64]


_GRAPHS: dict[tuple[str, int, int], DenominatorGraph] = {}


def read_graph(path: str) -> DenominatorGraph:
    """Read a graph; a file that has not changed is read once.

    Raises:
        DataError: it cannot be read, or has a line that is wrong.
    """
    try:
        found = Path(path).stat()
        key = str(Path(path).resolve()), found.st_mtime_ns, found.st_size
        if key not in _GRAPHS:
            _GRAPHS.clear()
            _GRAPHS[key] = _parse(path, Path(path).read_text(encoding="utf-8"))
        return _GRAPHS[key]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        hint = "A relative name starts at the directory in which the command runs."
        raise DataError(f"{WHO}: cannot read the graph '{path}': {str(reason).lower()}", hint=hint) from None


def _parse(path: str, text: str) -> DenominatorGraph:
    lines: dict[str, list[tuple[float, ...]]] = {"start": [], "class": [], "arc": []}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        try:
            if words:
                lines[words[0]].append(_numbers(words))
        except (KeyError, ValueError):
            raise DataError(f"{path}:{number}: '{line.strip()[:60]}' is no line of a graph", hint=_LINES) from None
    classes = {int(state): int(own) for state, own in lines["class"]}
    count = len(classes)
    named = {int(state) for row in lines["arc"] for state in row[:2]} | {int(row[0]) for row in lines["start"]}
    if not count or sorted(classes) != list(range(count)) or not named <= set(classes) or not lines["start"]:
        raise DataError(f"{path}: the states of the graph are not 0, 1, 2, ... with a class each, or none is a start")
    start, arcs = np.zeros(count), np.zeros((count, count))
    for state, chance in lines["start"]:
        start[int(state)] += chance
    for begin, end, chance in lines["arc"]:
        arcs[int(begin), int(end)] += chance
    return DenominatorGraph(start / start.sum(), arcs, np.array([classes[state] for state in range(count)]))


def _numbers(words: Sequence[str]) -> tuple[float, ...]:
    """Return the numbers of a line. Raises ValueError if there are others."""
    whole = 1 if words[0] == "start" else 2
    if len(words) != (4 if words[0] == "arc" else 3) or not all(word.isdecimal() for word in words[1 : 1 + whole]):
        raise ValueError(words)
    chances = [float(word) for word in words[1 + whole :]]
    if not all(0.0 < chance <= 1.0 for chance in chances):
        raise ValueError(words)
    return tuple(float(word) for word in words[1:])


@attrs.frozen
class LatticeFreeAttributes:
    """Attributes of LatticeFreeMMI: the file of the denominator graph, and the probability of going anywhere."""

    graph_file: str = ""
    leaky_coefficient: float = 1e-5


def _infer(shapes: Sequence[Shape], attributes: LatticeFreeAttributes) -> Shape:
    if not attributes.graph_file:
        raise ShapeError("graphFile is missing", hint="It names the file of the denominator graph.")
    if not 0.0 <= attributes.leaky_coefficient < 1.0:
        raise ShapeError(f"leakyCoefficient must be at least 0 and below 1, not {attributes.leaky_coefficient:g}")
    return infer_criterion(shapes, attributes)


@attrs.frozen(eq=False)
class _Step:
    """A frame of all sequences that are so long: rows of the minibatch, and their places in the order of lengths."""

    rows: NDArray[np.int64]
    count: int


def _steps(context: OpContext) -> list[_Step]:
    """Return the frames of all sequences, longest first."""
    layout = layout_of(context, 1)
    need_whole(layout, WHO)
    table = sequence_table(layout)
    order = np.argsort(-table.length, kind="stable")
    lengths = table.length[order]
    steps = []
    for step in range(int(lengths[0]) if len(lengths) else 0):
        count = int(np.searchsorted(-lengths, -step, side="left"))
        steps.append(_Step(table.rows(layout, order[:count], np.full(count, step)), count))
    return steps


def sum_graph(graph: DenominatorGraph, scores: Numbers, steps: Sequence[_Step], leak: float) -> tuple[float, Numbers]:
    """Sum over all paths of the graph for all sequences.

    Args:
        graph: the denominator.
        scores: log likelihoods ``(rows, classes)``.
        steps: the frames.
        leak: probability of going from any state to any other as in the first frame.

    Returns:
        The log sum of all sequences together, and the posterior of each class in each row.
    """
    tops = scores.max(axis=1, initial=-np.inf)
    seen = np.exp(scores[:, graph.classes] - tops[:, None])
    total, ahead, scales = float(tops.sum()), np.zeros_like(seen), np.ones(len(scores))
    for number, step in enumerate(steps):
        now = before_of(graph, ahead, steps, number) * seen[step.rows]
        if leak:
            now = now + leak * now.sum(axis=1, keepdims=True) * graph.start
        scales[step.rows] = np.maximum(now.sum(axis=1), _LEAST)
        ahead[step.rows] = now / scales[step.rows, None]
    total += float(np.log(scales).sum())
    occupied = np.zeros_like(seen)
    after = np.ones((0, len(graph.start)))
    for number in range(len(steps) - 1, -1, -1):
        step = steps[number]
        behind = np.ones((step.count, len(graph.start)))
        behind[: len(after)] = after
        # What comes behind a state is the same wherever the leak came from.
        spread = behind + leak * (behind @ graph.start)[:, None] if leak else behind
        ways = before_of(graph, ahead, steps, number)
        flow = ways * seen[step.rows] * spread / scales[step.rows, None]
        occupied[step.rows] = flow
        after = (seen[step.rows] * spread / scales[step.rows, None]) @ graph.arcs.T
    posterior = np.zeros_like(scores)
    np.add.at(posterior.T, graph.classes, occupied.T)
    return total, posterior


def before_of(graph: DenominatorGraph, ahead: Numbers, steps: Sequence[_Step], number: int) -> Numbers:
    """Return the probability to come to each state of a frame, before the frame is looked at."""
    count = steps[number].count
    if not number:
        return np.broadcast_to(graph.start, (count, len(graph.start)))
    found: Numbers = ahead[steps[number - 1].rows[:count]] @ graph.arcs
    return found


def _gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: LatticeFreeAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    change = context.saved["change"]
    return None, (gradient * xp.asarray(change, dtype=inputs[1].dtype)).reshape(inputs[1].shape)


@define_op(
    WHO,
    inputs=2,
    infer=_infer,
    gradient=_gradient,
    reduces_frames=True,
    role="criterion",
    reads_inputs=False,
    reads_output=False,
    differentiable=(False, True),
    attributes=LatticeFreeAttributes,
    along_sequences=frozenset({1}),
    sparse_inputs=frozenset({0}),
)
def LATTICE_FREE_MMI(xp: Any, inputs: Sequence[Array], attributes: LatticeFreeAttributes, context: OpContext) -> Array:
    """MMI against a graph of all that may be said, in place of lattices; inputs: labels (an alignment), scores."""
    graph = read_graph(attributes.graph_file)
    values = samples(inputs[1], context.framed[1])
    scores = np.asarray(values, np.float64)
    if graph.classes.max() >= scores.shape[1]:
        top = int(graph.classes.max())
        raise DataError(f"{WHO}: the graph has the class {top}, and there are {scores.shape[1]} scores")
    labels = best_columns(inputs[0] if is_sparse(inputs[0]) else samples(inputs[0], context.framed[0]))
    total, change = sum_graph(graph, scores, _steps(context), attributes.leaky_coefficient)
    at_label = np.arange(len(labels)), labels
    value = total - float(scores[at_label].sum())
    change[at_label] -= 1.0
    context.saved["change"] = change
    return scalar(xp, value, values)
