"""Functions in Python: operations of a network that are a class with ``forward`` and ``backward`` on arrays.

Such a class becomes an op (:func:`op_of`), an object of it the attributes of a node. So its fields are kept in model
files, and an op of its name is looked for when one is read. Every engine computes it on the host.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Literal, dataclass_transform

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import PluginError, WrongResult
from cntk_core.ops.families.frame_moves import layout_of, pieces_of
from cntk_core.ops.families.outputs import Outputs, define_outputs, first_rows
from cntk_core.ops.language.framing import sample_shape
from cntk_core.ops.language.op import Op, OpContext
from cntk_core.ops.language.shapes import Shape

Array = NDArray[Any]


@dataclass_transform(eq_default=False, field_specifiers=(attrs.field,))
class UserFunction(ABC):
    """A function of a network, written in Python.

    Subclasses say what they compute. Annotated variables are their settings: numbers, texts, truth values and tuples of
    them, which are saved with the model. Whatever else an object keeps is forgotten with the process. Shapes are in
    NumPy's order and without the frame axis; arrays with a dynamic axis are ``(frames, *shape)``.

    Attributes:
        outputs: names of the outputs.
        updates: which inputs, by number, ``forward`` changes in place in training: parameters that are not learned.
            They are kept in model files and checkpoints, and all ranks end an epoch with those of rank 0.
        reduces_frames: the outputs have no dynamic axis although inputs have one.
        output_axes: outputs with an axis of their own: ``{"summary": "sequence"}`` has one value for each sequence, in
            the reader's order, ``"minibatch"`` one for all of it. Shapes and arrays of ``backward`` are those, too.
    """

    outputs: ClassVar[tuple[str, ...]] = ("output",)
    output_axes: ClassVar[Mapping[str, Literal["sequence", "minibatch"]]] = {}
    updates: ClassVar[tuple[int, ...]] = ()
    reduces_frames: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Make fields of the annotated variables."""
        super().__init_subclass__(**options)
        attrs.define(cls, slots=False, eq=False)

    @classmethod
    def as_op(cls) -> Op:
        """Return the op that the class is: plugins and ``register`` offer it by itself."""
        return op_of(cls)

    def infer_outputs(self, *shapes: Any) -> Any:
        """Return the shape of the output, or of several a tuple of shapes; by default those of the first input.

        Raises:
            ShapeError: the inputs do not fit.
        """
        return shapes[0] if len(self.outputs) == 1 else (shapes[0],) * len(self.outputs)

    @staticmethod
    def sequences_of(context: OpContext, frames: Array) -> list[Array]:
        """Return the frames of each sequence, ``(steps, *shape)`` each, in the reader's order.

        Args:
            context: of ``forward`` or ``backward``.
            frames: ``(frames, *shape)`` on the dynamic axis of the function.
        """
        pieces = pieces_of(layout_of(attrs.evolve(context, layouts=(context.layout,)), 0))
        return np.split(frames[pieces.rows], pieces.starts[1:])

    @staticmethod
    def frames_of(context: OpContext, sequences: Sequence[Array]) -> Array:
        """Return the frames of all sequences as the function has them: the inverse of :meth:`sequences_of`."""
        pieces = pieces_of(layout_of(attrs.evolve(context, layouts=(context.layout,)), 0))
        joined = np.concatenate(list(sequences))
        found = np.empty_like(joined)
        found[pieces.rows] = joined
        return found

    @abstractmethod
    def forward(self, context: OpContext, /, *inputs: Any) -> Any:
        """Return the output for the inputs, or of several a tuple.

        Args:
            context: takes along to ``backward`` what is put into ``context.saved``; has the sequences
                (``context.layout``, and ``context.layouts`` by input), whether it trains (``context.training``), and
                random numbers that every engine draws alike (``context.random()``, a generator of NumPy's).
            inputs: their values, which only those of :attr:`updates` may be changed of.
        """

    def backward(self, context: OpContext, /, *gradients: Any) -> Any:
        """Return the gradient by the input, or of several a tuple; None where it is zero.

        A gradient has the shape of the input's value: that of an input without dynamic axis is the sum over frames. A
        class that does not have this method lets no gradient through.

        Args:
            context: of ``forward``.
            gradients: of the outputs; zeros of one that nobody reads.
        """
        raise NotImplementedError


@cache
def op_of(function: type[UserFunction]) -> Op:
    """Return the op of a class, the same each time; its name is that of the class.

    Raises:
        PluginError: ``forward`` has no inputs, or named ones that have to be given.
    """
    fewest, most = _arity(function)
    names = function.outputs
    backward = _backward(function) if function.backward is not UserFunction.backward else None
    rules: Outputs = {name: _rule(function, index) for index, name in enumerate(names)}
    unknown = sorted(set(function.output_axes) - set(names))
    if unknown:
        raise PluginError(f"{function.__name__} has no output '{unknown[0]}', which its output_axes name")
    if function.output_axes and function.reduces_frames:
        raise PluginError(
            f"{function.__name__} has output_axes and reduces_frames", hint='Say "minibatch" of each output.'
        )
    if len(names) > 1 or function.output_axes:
        fields = _fields(function, fewest, most)
        return define_outputs(function.__name__, rules, gradient=backward, axes=function.output_axes, **fields)(
            _forward(function)
        )
    forward = _forward(function)
    return Op(
        name=function.__name__,
        arity=(fewest, most),
        infer=rules[names[0]],
        forward=lambda *given: forward(*given)[0],
        gradient=None if backward is None else lambda xp, g, y, *given: backward(xp, [g], [y], *given),
        differentiable=(backward is not None,),
        **{name: value for name, value in _fields(function, fewest, most).items() if name != "inputs"},
    )


def _fields(function: type[UserFunction], fewest: int, most: int | None) -> dict[str, Any]:
    return {
        "inputs": (fewest, most),
        "attributes": function,
        "updates": frozenset(function.updates),
        "reduces_frames": function.reduces_frames,
        # What draws or keeps something is computed once in each minibatch, with a stream of its own.
        "random": True,
        "reads_output": False,
        "doc": (inspect.getdoc(function) or "").partition("\n")[0],
    }


def _arity(function: type[UserFunction]) -> tuple[int, int | None]:
    kinds = inspect.Parameter
    given = list(inspect.signature(function.forward).parameters.values())[2:]  # after self and the context
    needed = [one for one in given if one.default is kinds.empty]
    fixed = [one for one in needed if one.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    several = any(one.kind is kinds.VAR_POSITIONAL for one in given)
    if any(one.kind is kinds.KEYWORD_ONLY for one in needed) or not (fixed or several):
        raise PluginError(
            f"{function.__name__}.forward takes no inputs that could be given by their order",
            hint="Write def forward(self, context, x), or with several inputs def forward(self, context, x, y).",
        )
    return max(len(fixed), 1), None if several else len(fixed)


def _rule(function: type[UserFunction], index: int) -> Callable[[Sequence[Shape], Any], Shape]:
    """The shape rule of an output."""

    def rule(shapes: Sequence[Shape], attributes: Any) -> Shape:
        given = attributes.infer_outputs(*map(tuple, shapes))
        several = len(function.outputs) > 1
        found = given if several else (given,)
        if not isinstance(found, Sequence) or len(found) != len(function.outputs) or not all(map(_is_shape, found)):
            wanted = "a tuple of as many shapes as outputs" if several else "a shape"
            raise WrongResult(function.infer_outputs, f"returned {given!r}, not {wanted}")
        return tuple(int(dim) for dim in found[index])

    return rule


def _is_shape(found: Any) -> bool:
    return isinstance(found, tuple | list) and all(isinstance(dim, int | np.integer) for dim in found)


def _forward(function: type[UserFunction]) -> Callable[..., list[Array]]:
    rules = [_rule(function, index) for index in range(len(function.outputs))]

    def forward(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> list[Array]:
        results = attributes.forward(context, *inputs)
        results = [results] if len(function.outputs) == 1 else results
        if not isinstance(results, Sequence) or len(results) != len(function.outputs):
            raise WrongResult(function.forward, f"returned no tuple of {len(function.outputs)} arrays")
        shapes = [sample_shape(value, framed) for value, framed in zip(inputs, context.framed, strict=True)]
        frames = (context.frames,) if any(context.framed) and not function.reduces_frames else ()
        rows: dict[str, tuple[int, ...]] = {"minibatch": ()}
        if "sequence" in function.output_axes.values():
            rows["sequence"] = (len(first_rows(context.layout)),)
        leads = [rows.get(function.output_axes.get(name, ""), frames) for name in function.outputs]
        wanted = [(*lead, *rule(shapes, attributes)) for lead, rule in zip(leads, rules, strict=True)]
        return [
            _fitting(function.forward, result, shape, inputs[0].dtype, f"output '{name}'")
            for name, result, shape in zip(function.outputs, results, wanted, strict=True)
        ]

    return forward


def _backward(function: type[UserFunction]) -> Callable[..., list[Array | None]]:
    def backward(
        xp: Any,
        gradients: Sequence[Array],
        values: Sequence[Array],
        inputs: Sequence[Array],
        attributes: Any,
        context: OpContext,
        needs: Sequence[bool],
    ) -> list[Array | None]:
        results = attributes.backward(context, *gradients)
        results = [results] if len(inputs) == 1 and not isinstance(results, tuple | list) else results
        if not isinstance(results, Sequence) or len(results) != len(inputs):
            raise WrongResult(function.backward, f"returned no tuple of {len(inputs)} gradients, one for each input")
        return [
            None
            if result is None
            else _fitting(function.backward, result, value.shape, value.dtype, f"gradient by input {index + 1}")
            for index, (result, value) in enumerate(zip(results, inputs, strict=True))
        ]

    return backward


def _fitting(function: Any, result: Any, shape: tuple[int, ...], dtype: Any, what: str) -> Array:
    """Return a result as an array, if it has the shape that it has to have."""
    try:
        array = np.asarray(result, dtype)
    except (TypeError, ValueError):
        raise WrongResult(function, f"returned a {type(result).__name__} as {what}, not an array") from None
    if array.shape != tuple(shape):
        raise WrongResult(function, f"returned an array {array.shape} as {what}, which has to be {tuple(shape)}")
    return array
