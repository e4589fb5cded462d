"""Criteria over whole sequences: edit distance, connectionist temporal classification (CTC), lattices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.criteria import infer_criterion
from cntk_core.ops.define import declare_op, first_shape, guess_first
from cntk_core.ops.reshaping import ints
from cntk_core.ops.shapes import Shape, elements, show


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


EDIT_DISTANCE_ERROR = declare_op(
    "EditDistanceError",
    "Edit distance of the best classes of two sequences, each scaled to the whole length of the first.",
    inputs=2,
    infer=infer_criterion,
    reduces_frames=True,
    role="criterion",
    attributes=EditDistanceAttributes,
    differentiable=(False,),
)

LABELS_TO_GRAPH = declare_op(
    "LabelsToGraph",
    "Labels (1 inside a phone, 2 at its first frame) made ready for ForwardBackward.",
    infer=first_shape,
    guess=guess_first,
    differentiable=(False,),
)


@attrs.frozen
class ForwardBackwardAttributes:
    """Attributes of ForwardBackward: the class of the blank (-1: the last), how late a label may come (-1: any)."""

    blank_token_id: int = -1
    delay_constraint: int = -1


FORWARD_BACKWARD = declare_op(
    "ForwardBackward",
    "CTC: -log of the probability of the labels over all alignments; inputs: LabelsToGraph, scores before Softmax.",
    inputs=2,
    infer=infer_criterion,
    reduces_frames=True,
    role="criterion",
    attributes=ForwardBackwardAttributes,
)


def _infer_lattice(shapes: Sequence[Shape], attributes: Any) -> Shape:
    if len({elements(shape) for shape in shapes}) != 1:
        raise ShapeError(f"the inputs {', '.join(show(shape) for shape in shapes)} must have the same size")
    return (1,)


SEQUENCE_WITH_SOFTMAX = declare_op(
    "SequenceWithSoftmax",
    "Sequence training over lattices (MMI, sMBR); inputs: labels, scores, scaled log likelihoods.",
    inputs=3,
    infer=_infer_lattice,
    reduces_frames=True,
    role="criterion",
    differentiable=(False, True, False),
    aliases={"ndl": ("SEWithSM",)},
)

OPS = (EDIT_DISTANCE_ERROR, LABELS_TO_GRAPH, FORWARD_BACKWARD, SEQUENCE_WITH_SOFTMAX)
