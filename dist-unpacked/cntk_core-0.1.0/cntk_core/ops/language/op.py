"""The Op record: one description of an operation that every engine uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import attrs
import numpy as np

from cntk_core.errors import PluginError
from cntk_core.ops.language.shapes import Shape
from cntk_core.ops.language.traits import BY_ELEMENTS, NO_TRAITS, Traits

if TYPE_CHECKING:
    from cntk_core.ops.language.placement import Placement
    from cntk_core.records.layout import SequenceLayout

Array = Any
"""A NumPy array, or one of a module like it (CuPy)."""


LATER = {"later": True}
"""Metadata of an attribute that an op gained later: files have it where it is not the default, so that older programs
read the others."""


@attrs.frozen
class NoAttributes:
    """Attributes of an op that has none."""


@attrs.define
class OpContext:
    """What an op is told beside its inputs. One per node and run; ``saved`` goes from forward to gradient.

    Attributes:
        framed: for each input, whether it has the dynamic axis (its first axis is then frames).
        frames: rows of the minibatch on this node's dynamic axis.
        training: dropout and the like are on.
        layout: the sequences of the dynamic axis; None for values without one.
        layouts: those of each input, where they differ from it.
        random: makes the generator of this node and minibatch (counter-based, the same on every engine).
        saved: what forward keeps for gradient.
        settings: numbers that training changes from outside, by name (``dropoutRate``).
        carried: what the node keeps from one minibatch to the next (the end of a sequence that goes on).
        new_layout: the sequences of the axis that an op with ``new_axis`` makes; its ``forward`` sets it.
        first: in a loop, the row of ``layouts`` at which the rows of the present time step begin.
    """

    framed: tuple[bool, ...]
    frames: int
    training: bool = False
    layout: SequenceLayout | None = None
    layouts: tuple[SequenceLayout | None, ...] = ()
    random: Callable[[], np.random.Generator] = np.random.default_rng
    saved: dict[str, Any] = attrs.field(factory=dict)
    settings: Mapping[str, float] = attrs.field(factory=dict)
    carried: dict[str, Any] = attrs.field(factory=dict)
    new_layout: SequenceLayout | None = None
    first: int = 0


@attrs.frozen
class Elementwise:
    """An element-wise op as scalar expressions over a math namespace ``m``.

    Attributes:
        forward: ``(m, attributes, *inputs) -> output``.
        gradient: ``(m, attributes, g, y, *inputs) -> one expression per input``, None where the gradient is zero.
            ``g`` is the gradient of the output ``y``. Sums over broadcast axes are the caller's work.
    """

    forward: Callable[..., Any]
    gradient: Callable[..., Sequence[Any]]


class Accumulator(Protocol):
    """Gathers the value of a precomputed node (a mean, say) in one pass over the data."""

    def add(self, values: Array) -> None:
        """Take the frames of one minibatch, ``(frames, *shape)``."""
        ...

    def result(self) -> Array:
        """Return the value, float64, in the sample shape. Raises NetworkError if there was no data."""
        ...


@attrs.frozen(eq=False)
class Op:
    """An operation of the network.

    An op without ``elementwise``, ``forward`` and ``accumulator`` is only declared: networks with it can be built,
    checked, saved, edited and drawn, but not run.

    Copies are the op itself, and pickles its name: what is compared and looked up is the object.

    Attributes:
        name: CNTK's operation name (``LearnableParameter``, ``Times``), as model files and dumps write it.
        arity: fewest and most inputs; None is any number.
        infer: ``(input shapes, attributes) -> output shape``, memory order; raises ShapeError.
        attributes: attrs class of the op's settings.
        elementwise: scalar expressions; then ``forward`` and ``gradient`` are derived from them.
        forward: ``(xp, inputs, attributes, context) -> output``. Inputs with a dynamic axis are ``(frames, *shape)``.
        gradient: ``(xp, grad, output, inputs, attributes, context, needs) -> gradients``, one per input, None where
            ``needs`` is False or it is zero. Each has the shape of its input value: an input without dynamic axis
            gets the sum over frames.
        reads_inputs, reads_output: whether the gradient looks at input values and at the output value (liveness).
            Where it does not, it is given arrays of the right shapes whose contents may be overwritten already.
        differentiable: for each input (the last repeats), whether a gradient can flow to it.
        complete: ``(input shapes, attributes) -> input shapes`` with dimensions 0 of parameters filled in.
        guess: ``(input shapes or None, attributes) -> output shape or None`` for inputs in a loop whose shape is not
            known yet: what the output will be as far as the known inputs tell. Without it nothing is guessed.
        reduces_frames: the result has no dynamic axis although inputs have one (criteria, Mean).
        axis_of: the input whose dynamic axis the result has; the others may have other axes. None: all have the same.
        new_axis: the result has a dynamic axis of its own; or ``(shape of the first input, attributes) -> bool``. Where
            it has not, and the input's last axis is the samples of a dynamic axis, it has that one.
        relayout: ``(layout and shape of the first input, attributes) -> layout`` of that axis, where it does not depend
            on values. Without it ``forward`` puts the sequences into the context.
        unpacks: the result has one static axis more than ``infer`` says, CNTK's last and our first: as long as the
            longest sequence of the first input's dynamic axis; with ``reduces_frames`` as that has samples.
        limits: ``attributes -> text or None``: what of the op
            nodes with such attributes need that cannot run yet (``of a further output``).
        aliases: language (``ndl``, ``brainscript``, ``model``) to further names.
        role: ``operation``, ``input``, ``parameter``, ``axis``, ``criterion`` (scalar, sums of frames), ``precompute``.
        random: draws random numbers, so that it is never computed twice nor folded.
        sparse_inputs: inputs whose value may be a ``scipy.sparse`` matrix ``(frames, dim)``; others are given dense.
        unframed: inputs that cannot have a dynamic axis (weights of a convolution), by index.
        updates: parameters among the inputs that computing the op in training changes (running statistics), by index.
        accumulator: for a precomputed value, makes the object that gathers it in one pass over the data.
        outputs: of an op with several (:mod:`~cntk_core.ops.families.outputs`): their names with their shape rules.
        located: ``(attributes, op of the first input, its attributes, shapes of its inputs or None) -> attributes``: of
            an op that has to know more of its first input than the shape.
        placement: ``(input shapes, attributes, index of an input) -> Placement or None``: how width and height of that
            input lie on those of the output. Element-wise ops keep them and need none.
        remark: ``(input shapes, attributes) -> text or None``: what is legal with such inputs, but hardly meant.
        traits: what else is true of it, from which planners and engines conclude what they may do. Those of an
            element-wise op are known; any other has only what it states.
        doc: one line for the reference page.
        along_sequences: inputs along whose sequences it looks, by index, so that these must have some. Those of delays
            are known.
        form: ``attributes -> op``: the record of the same name that nodes with such attributes have in place of this,
            for an op that is quite another one with some settings. All forms have the same attributes and ``form``.
        whole: inputs of which an op with ``axis_of`` looks, for each frame, at what belongs to the frame's sequence. It
            can be in a loop, where it is given these inputs whole in each time step, as they are outside it.
        output_axes: outputs that have not the dynamic axis of the op: one value for each ``sequence``, or for the whole
            ``minibatch``. An op with such ones is not in loops.
    """

    name: str
    arity: tuple[int, int | None]
    infer: Callable[[Sequence[Shape], Any], Shape]
    attributes: type = NoAttributes
    elementwise: Elementwise | None = None
    forward: Callable[..., Array] | None = None
    gradient: Callable[..., Sequence[Array | None]] | None = None
    reads_inputs: bool = True
    reads_output: bool = True
    differentiable: tuple[bool, ...] = (True,)
    complete: Callable[[Sequence[Shape], Any], Sequence[Shape]] | None = None
    guess: Callable[[Sequence[Shape | None], Any], Shape | None] | None = None
    reduces_frames: bool = False
    axis_of: int | None = None
    new_axis: bool | Callable[[Shape, Any], bool] = False
    relayout: Callable[[SequenceLayout, Shape, Any], SequenceLayout] | None = None
    unpacks: bool = False
    limits: Callable[[Any], str | None] | None = None
    aliases: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    role: str = "operation"
    random: bool = False
    sparse_inputs: frozenset[int] = frozenset()
    unframed: frozenset[int] = frozenset()
    updates: frozenset[int] = frozenset()
    accumulator: Callable[[Shape], Accumulator] | None = None
    placement: Callable[[Sequence[Shape], Any, int], Placement | None] | None = None
    remark: Callable[[Sequence[Shape], Any], str | None] | None = None
    doc: str = ""
    outputs: Mapping[str, Callable[[Sequence[Shape], Any], Shape]] = attrs.field(factory=dict)
    located: Callable[[Any, Op, Any, Sequence[Shape | None]], Any] | None = None
    traits: Traits = attrs.field(
        default=attrs.Factory(lambda op: NO_TRAITS if op.elementwise is None else BY_ELEMENTS, takes_self=True)
    )
    along_sequences: frozenset[int] = frozenset()
    form: Callable[[Any], Op] | None = None
    whole: frozenset[int] = frozenset()
    output_axes: Mapping[str, Literal["sequence", "minibatch"]] = attrs.field(factory=dict)

    def __copy__(self) -> Op:
        return self

    def __deepcopy__(self, memo: Any) -> Op:
        return self

    def __reduce__(self) -> tuple[Callable[[str], Op], tuple[str]]:
        try:
            found = OpNames.find(self.name)
        except PluginError:
            found = None
        is_form = found is not None and self.form is not None and found.form is self.form  # inference finds it again
        if found is not self and not is_form:
            raise PluginError(
                f"the operation {self.name} cannot be pickled: it is not found by its name",
                hint="Register it with cntk_core.api.register, here and where it is read; or make a plugin of it.",
            )
        return OpNames.find, (self.name,)

    def flows_to(self, index: int) -> bool:
        """Whether a gradient can flow to input ``index``."""
        return self.differentiable[min(index, len(self.differentiable) - 1)]

    def makes_axis(self, shape: Shape | None, attributes: Any) -> bool:
        """Whether the result has a dynamic axis of its own; ``shape`` is that of the first input, None if unknown."""
        if callable(self.new_axis):
            return shape is not None and self.new_axis(shape, attributes)
        return self.new_axis

    def form_of(self, attributes: Any) -> Op:
        """Return the record that nodes with such attributes have: mostly this one."""
        return self if self.form is None else self.form(attributes)

    @property
    def computable(self) -> bool:
        """Whether networks with it can run: it is more than declared."""
        return (
            self.elementwise is not None
            or self.forward is not None
            or self.accumulator is not None
            or self.role in ("input", "parameter", "axis")
        )

    def missing(self, attributes: Any) -> str | None:
        """Why a node with these attributes cannot run yet, None if it can."""
        if not self.computable:
            return f"the operation {self.name} is not there yet"
        reason = self.limits(attributes) if self.limits is not None else None
        return None if reason is None else f"{self.name} {reason} is not there yet"


class OpNames:
    """How pickles find ops by name.

    Attributes:
        find: raises PluginError if there is none. It knows the core's ops, and those of plugins as soon as there is a
            plugin manager.
    """

    find: ClassVar[Callable[[str], Op]]
