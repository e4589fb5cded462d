"""OptimizedRNNStack: layers of recurrent cells whose weights are one array, as cuDNN lays them out.

The array holds first the matrices, then the biases: layer by layer from the lowest, in each layer first the direction
forward in time, then the one backward; of each the matrix of the input, ``(gates * hidden) x inputs``, and that of
the state, ``(gates * hidden) x hidden``, row by row, the gates' blocks of rows one below the other. The biases follow
in the same order, two vectors of ``gates * hidden`` for each layer and direction: of the input, of the state. Gates
stand in the order of :mod:`cntk_core.ops.families.recurrent_cells`. Source: NVIDIA, "cuDNN API reference",
``cudnnGetRNNLinLayerMatrixParams`` and ``cudnnGetRNNLinLayerBiasParams``; the original's converter of such stacks to
its own layers reads the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.errors import DataError, ShapeError
from cntk_core.ops.families.recurrent_cells import CELLS, Cell, Step, Weights, steps_of
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.ops.language.op import Array, Op, OpContext
from cntk_core.ops.language.rows import SequenceTable, sequence_rows, sequence_table
from cntk_core.ops.language.shapes import Shape, elements, show
from cntk_core.ops.language.traits import Traits
from cntk_core.records.layout import IntArray, SequenceLayout

OVER_TIME, OVER_COLUMNS = -1, 2
"""Axes along which a stack runs: the dynamic one, or the second static one."""


@attrs.frozen
class RNNStackAttributes:
    """Attributes of OptimizedRNNStack.

    Attributes:
        hidden_size: state size of a layer and direction.
        num_layers: layers, each fed by the one below.
        bidirectional: every layer runs in both directions and joins their results.
        recurrent_op: ``lstm``, ``gru``, ``rnnTanh`` or ``rnnReLU``.
        axis: -1 runs along the dynamic axis, 2 along the second static one.
    """

    hidden_size: int
    num_layers: int = 1
    bidirectional: bool = False
    recurrent_op: str = "lstm"
    axis: int = OVER_TIME

    @property
    def directions(self) -> int:
        """1, or 2 if bidirectional."""
        return 2 if self.bidirectional else 1


def _cell(attributes: RNNStackAttributes) -> Cell:
    found = CELLS.get(attributes.recurrent_op.lower())
    if found is None:
        raise ShapeError(
            f"there is no recurrent op '{attributes.recurrent_op}'", hint="Ops: lstm, gru, rnnTanh, rnnReLU"
        )
    return found


def _input_sizes(input_size: int, attributes: RNNStackAttributes) -> list[int]:
    """The size of each layer's input."""
    return [input_size] + [attributes.directions * attributes.hidden_size] * (attributes.num_layers - 1)


def stack_weights(input_size: int, attributes: RNNStackAttributes) -> int:
    """Weights of a stack: for each layer and direction the matrices of input and state, and two biases.

    Raises:
        ShapeError: there is no such recurrent op.
    """
    rows = _cell(attributes).gates * attributes.hidden_size
    each = (rows * (size + attributes.hidden_size + 2) for size in _input_sizes(input_size, attributes))
    return attributes.directions * sum(each)


def split_weights(weights: Array, input_size: int, attributes: RNNStackAttributes) -> list[list[Weights]]:
    """Return views of each layer's and direction's matrices and biases in an array of all; see above for the order."""
    flat = weights.reshape(-1)
    hidden = attributes.hidden_size
    rows = _cell(attributes).gates * hidden
    place = 0

    def take(*shape: int) -> Array:
        nonlocal place
        begin, place = place, place + elements(shape)
        return flat[begin:place].reshape(shape)

    sizes = _input_sizes(input_size, attributes)
    directions = range(attributes.directions)
    matrices = [[(take(rows, size), take(rows, hidden)) for _ in directions] for size in sizes]
    biases = [[(take(rows), take(rows)) for _ in directions] for _ in sizes]
    return [
        [Weights(*pair, *vectors) for pair, vectors in zip(layer, offsets, strict=True)]
        for layer, offsets in zip(matrices, biases, strict=True)
    ]


def _infer_stack(shapes: Sequence[Shape], attributes: RNNStackAttributes) -> Shape:
    weights, data = shapes
    _check(data, attributes)
    wanted = stack_weights(data[-1], attributes)
    if elements(weights) != wanted:
        raise ShapeError(
            f"the weights {show(weights)} have {elements(weights)} elements, not {wanted}",
            hint="ParameterTensor {(Inferred : Inferred)} takes the right number by itself.",
        )
    return (*data[:-1], attributes.directions * attributes.hidden_size)


def _check(data: Shape, attributes: RNNStackAttributes) -> None:
    if attributes.axis not in (OVER_TIME, OVER_COLUMNS):
        raise ShapeError(f"a recurrent stack cannot run along axis {attributes.axis}", hint="Axes: -1 (time), 2")
    if attributes.num_layers < 1 or attributes.hidden_size < 1:
        raise ShapeError(
            f"a recurrent stack of {attributes.num_layers} layers with {attributes.hidden_size} values is empty"
        )
    rank = 2 if attributes.axis == OVER_COLUMNS else 1
    if len(data) != rank:
        raise ShapeError(f"the input {show(data)} must have {rank} axes for axis {attributes.axis}")


def _complete_stack(shapes: Sequence[Shape], attributes: RNNStackAttributes) -> Sequence[Shape]:
    weights, data = shapes
    if 0 not in weights:
        return shapes
    _check(data, attributes)
    total = stack_weights(data[-1], attributes)
    if len(weights) == 2:
        hidden = weights[1] or attributes.hidden_size
        return [(weights[0] or total // hidden, hidden), data]
    return [tuple(dim or total for dim in weights), data]


def _guess_stack(shapes: Sequence[Shape | None], attributes: RNNStackAttributes) -> Shape | None:
    data = shapes[1]
    return None if data is None else (*data[:-1], attributes.directions * attributes.hidden_size)


# -- rows: one sequence to a slot -------------------------------------------------------------------------


@attrs.frozen(eq=False)
class _Packing:
    """How the input is seen: as packed sequences, each in a slot of its own.

    Attributes:
        layout: of these sequences.
        rows: the row of the input for each row of the layout; None if they are the same.
        columns: columns of a sample that are the steps; 0 if frames are.
    """

    layout: SequenceLayout
    rows: IntArray | None = None
    columns: int = 0

    def pack(self, xp: Any, values: Array) -> Array:
        if self.columns:
            return xp.ascontiguousarray(values.swapaxes(0, 1)).reshape(-1, values.shape[-1])
        return values if self.rows is None else values[self.rows]

    def unpack(self, xp: Any, values: Array) -> Array:
        if self.columns:
            return xp.ascontiguousarray(values.reshape(self.columns, -1, values.shape[-1]).swapaxes(0, 1))
        if self.rows is None:
            return values
        out = xp.empty_like(values)
        out[self.rows] = values
        return out

    def steps(self, *, backward: bool) -> list[Step]:
        return steps_of(self.layout.start.tolist(), self.layout.alive.tolist(), backward=backward)


def _packing(context: OpContext, data: Array, attributes: RNNStackAttributes) -> _Packing:
    if not context.framed[1]:
        raise DataError("OptimizedRNNStack needs an input with a dynamic axis")
    if attributes.axis == OVER_COLUMNS:
        frames, columns = data.shape[:2]
        return _Packing(sequence_layout([columns] * frames), columns=columns)
    layout = context.layouts[1] if len(context.layouts) > 1 else context.layout
    if layout is None:
        raise DataError("OptimizedRNNStack needs the sequences of its input")
    return _one_to_a_slot(layout)


def whole_sequences(layout: SequenceLayout) -> SequenceTable:
    """Return the sequences of a minibatch, none of which is cut.

    Raises:
        DataError: one is.
    """
    table = sequence_table(layout)
    if layout.continues or int(table.length.sum()) != layout.frames:
        raise DataError(
            "OptimizedRNNStack needs whole sequences, but those of this minibatch are cut",
            hint="Read without truncation (truncated = false), or use layers with delays (RecurrentLSTMLayer).",
        )
    return table


def _one_to_a_slot(layout: SequenceLayout) -> _Packing:
    table = whole_sequences(layout)
    if len(table.number) == np.count_nonzero(layout.lengths):
        return _Packing(layout)
    made = sequence_layout(table.length)
    own = sequence_rows(made)
    return _Packing(made, table.rows(layout, own.number, own.step))


# -- the op -----------------------------------------------------------------------------------------------


def _directions(layer: Sequence[Weights], packing: _Packing) -> Iterator[tuple[int, Weights, list[Step]]]:
    for index, weights in enumerate(layer):
        yield index, weights, packing.steps(backward=index == 1)


def _stack_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: RNNStackAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> list[Array | None]:
    cell, hidden = _cell(attributes), attributes.hidden_size
    packing: _Packing = context.saved["packing"]
    size = inputs[1].shape[-1]
    layers = split_weights(inputs[0], size, attributes)
    to_weights = xp.empty(inputs[0].shape, inputs[0].dtype)
    into = split_weights(to_weights, size, attributes)
    arriving = packing.pack(xp, gradient)
    for number in reversed(range(attributes.num_layers)):
        x, kept = context.saved["inputs"][number], context.saved["kept"][number]
        below = xp.zeros_like(x)
        for index, weights, steps in _directions(layers[number], packing):
            states, saved = kept[index]
            own = arriving[:, index * hidden : (index + 1) * hidden]
            below += cell.backward(xp, own, x, states, saved, weights, steps, into[number][index])
        arriving = below
    return [to_weights, packing.unpack(xp, arriving).reshape(inputs[1].shape)]


def _form_of_stack(attributes: RNNStackAttributes) -> Op:
    """Along a static axis it takes samples as well as frames."""
    return OVER_COLUMNS_STACK if attributes.axis == OVER_COLUMNS else OPTIMIZED_RNN_STACK


@define_op(
    "OptimizedRNNStack",
    inputs=2,
    infer=_infer_stack,
    gradient=_stack_gradient,
    complete=_complete_stack,
    guess=_guess_stack,
    attributes=RNNStackAttributes,
    reads_output=False,
    unframed=frozenset({0}),
    along_sequences=frozenset({1}),
    form=_form_of_stack,
    aliases={"ndl": ("RNN", "RNNStack"), "brainscript": ("RNN", "RNNStack"), "model": ("RNN", "RNNStack")},
    traits=Traits(pure_xp=True, in_place="value"),
)
def OPTIMIZED_RNN_STACK(xp: Any, inputs: Sequence[Array], attributes: RNNStackAttributes, context: OpContext) -> Array:
    """A stack of LSTM, GRU or plain recurrent layers; inputs: all weights in one matrix, data."""
    cell = _cell(attributes)
    packing = _packing(context, inputs[1], attributes)
    x = xp.ascontiguousarray(packing.pack(xp, inputs[1]))
    layer_inputs, kept = [], []
    for layer in split_weights(inputs[0], inputs[1].shape[-1], attributes):
        layer_inputs.append(x)
        found = [cell.forward(xp, x, weights, steps) for _, weights, steps in _directions(layer, packing)]
        kept.append(found)
        x = found[0][0] if len(found) == 1 else xp.concatenate([states for states, _ in found], axis=1)
    context.saved.update(packing=packing, inputs=layer_inputs, kept=kept)
    return packing.unpack(xp, x)


OVER_COLUMNS_STACK = attrs.evolve(OPTIMIZED_RNN_STACK, along_sequences=frozenset())

OPS = (OPTIMIZED_RNN_STACK,)
