"""What every engine does with ops that have several outputs, functions and learners in Python, and assignments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from cntk_core.contract.engine import ExecutionEngine, Program
from cntk_core.contract.host_program import compile_plan
from cntk_core.contract.learner import Slot, UpdateContext, UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.contract.user_learner import ParameterUpdate, UserLearner
from cntk_core.network.node import Node
from cntk_core.ops.families.frame_moves import layout_of, pieces_of
from cntk_core.ops.families.ordering import TopKAttributes
from cntk_core.ops.families.outputs import MultiplexerAttributes, define_outputs
from cntk_core.ops.families.reductions import ReduceAttributes
from cntk_core.ops.families.sequences import UnpackAttributes
from cntk_core.ops.language.define import scalar_shape
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape
from cntk_core.ops.language.traits import BY_ROWS
from cntk_core.plan.make import make_plan
from cntk_kit_builders.user_function import UserFunction, op_of
from cntk_testing.networks import Sample
from cntk_testing.recipes import RecipeContract
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import FEATURES, HIDDEN, SequenceSketch, sequences_for


def _parts(xp: Any, sums: Array) -> tuple[Array, Array]:
    return 1.0 / (1.0 + xp.exp(-sums[..., :HIDDEN])), xp.tanh(sums[..., HIDDEN:])


def _cell_gradient(
    xp: Any,
    gradients: Sequence[Array],
    values: Sequence[Array],
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    (by_hidden, by_cell), (hidden, _) = gradients, values
    (gate, new), kept = _parts(xp, inputs[0]), inputs[1]
    total = by_cell + by_hidden * (1.0 - hidden * hidden)
    by_sums = xp.concatenate([total * kept * gate * (1.0 - gate), total * (1.0 - new * new)], axis=-1)
    return by_sums, total * gate


@define_outputs(
    "GatedCell",
    {"hidden": lambda shapes, attributes: shapes[1], "cell": lambda shapes, attributes: shapes[1]},
    inputs=2,
    gradient=_cell_gradient,
    traits=BY_ROWS,
)
def GATED_CELL(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Sequence[Array]:
    """The state of a recurrent cell with one gate, from the sums of its inputs and the cell before."""
    gate, new = _parts(xp, inputs[0])
    cell = gate * inputs[1] + new
    return xp.tanh(cell), cell


class Normed(UserFunction):
    """Divide samples by their norms, multiply them by weights without frames, and give the norms too."""

    outputs = ("scaled", "norm")
    updates = (2,)
    floor: float = 0.1

    def infer_outputs(self, x: Shape, weights: Shape, count: Shape) -> tuple[Shape, Shape]:
        """Return the shape of the samples, and one number."""
        return x, (1,)

    def forward(
        self, context: OpContext, x: NDArray[Any], weights: NDArray[Any], count: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Compute both, and count the frames in training."""
        norm = np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + self.floor)
        context.saved.update(x=np.array(x), weights=np.array(weights), norm=norm)
        if context.training:
            count += len(x)
        return x / norm * weights, norm

    def backward(
        self, context: OpContext, scaled: NDArray[Any], norm: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], None]:
        """Differentiate both by the samples and the weights."""
        x, weights, root = (context.saved[name] for name in ("x", "weights", "norm"))
        inner = np.sum(scaled * weights * x, axis=-1, keepdims=True)
        by_x = scaled * weights / root - x * inner / root**3 + norm * x / root
        return by_x, np.sum(scaled * x / root, axis=0), None


def _summary_shapes(shapes: Sequence[Shape], attributes: Any) -> Shape:
    return shapes[0]


def _pieces(context: OpContext) -> tuple[Any, Any]:
    """Which sequence each row belongs to, and how long they are."""
    pieces = pieces_of(layout_of(context, 0))
    return pieces.piece, pieces.lengths[:, None]


def _centred(x: Array, context: OpContext) -> tuple[Array, Array, Array]:
    """Frames without the mean of their sequence, that mean, and the sum of all squares."""
    piece, lengths = _pieces(context)
    means = np.zeros((len(lengths), x.shape[1]), x.dtype)
    np.add.at(means, piece, x)
    means /= lengths
    return x - means[piece], means, np.sum(x * x, keepdims=True).reshape(1) / x.dtype.type(100)


def _to_x(x: Array, context: OpContext, by_frames: Array, by_means: Array, by_sum: Array) -> Array:
    piece, lengths = _pieces(context)
    sums = np.zeros((len(lengths), x.shape[1]), x.dtype)
    np.add.at(sums, piece, by_frames)
    found: Array = by_frames + ((by_means - sums) / lengths)[piece] + 2 * x * by_sum / x.dtype.type(100)
    return found


def _summary_gradient(
    xp: Any,
    gradients: Sequence[Array],
    values: Sequence[Array],
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    return (_to_x(inputs[0], context, *gradients),)


SUMMARY = define_outputs(
    "TestingSummary",
    {"frames": _summary_shapes, "means": _summary_shapes, "sum": scalar_shape},
    axes={"means": "sequence", "sum": "minibatch"},
    gradient=_summary_gradient,
    doc="Frames without the mean of their sequence, that mean, and a sum over the minibatch.",
)(lambda xp, inputs, attributes, context: _centred(inputs[0], context))


class Summary(UserFunction):
    """The same in Python."""

    outputs = ("frames", "means", "sum")
    output_axes: ClassVar[Mapping[str, Literal["sequence", "minibatch"]]] = {"means": "sequence", "sum": "minibatch"}

    def infer_outputs(self, x: Any) -> Any:
        """Return those of the frames, twice, and a number."""
        return x, x, (1,)

    def forward(self, context: OpContext, /, *inputs: Any) -> Any:
        """Return all three."""
        context.saved["x"] = inputs[0]
        return _centred(inputs[0], context)

    def backward(self, context: OpContext, /, *gradients: Any) -> Any:
        """Add what comes from all three."""
        return _to_x(context.saved["x"], context, *gradients)


class _Signed(UserLearner):
    """Steps of one size, smoothed."""

    requires_api = "1.0"
    slots = (Slot("smoothed"),)

    def update(self, parameters: Sequence[ParameterUpdate]) -> None:
        """Go against the smoothed gradient of each."""
        for each in parameters:
            smoothed = each.slots["smoothed"]
            smoothed[...] = each.context.momentum * smoothed + each.gradient
            each.value -= each.context.learning_rate * smoothed


def _output(made: SequenceSketch, source: Node, index: int) -> Node:
    return made.op("OutputMultiplexer", source, attributes=MultiplexerAttributes(index))


def _cell(made: SequenceSketch, sums: Node, kept: Node) -> tuple[Node, Node]:
    cell = made.network.add(Node(f"cell{len(made.network)}", GATED_CELL, [sums, kept]))
    return _output(made, cell, 0), _output(made, cell, 1)


def _straight(dtype: str) -> Sample:
    made = SequenceSketch(dtype)
    sums, kept = made.weighted((made.x, FEATURES), size=2 * HIDDEN), made.weighted((made.x, FEATURES))
    hidden, cell = _cell(made, sums, kept)
    return made.classify(made.op("Plus", hidden, made.op("Tanh", cell)))


def _unread(dtype: str) -> Sample:
    """Nobody reads the second output, so that no gradient comes from it."""
    made = SequenceSketch(dtype)
    sums, kept = made.weighted((made.x, FEATURES), size=2 * HIDDEN), made.weighted((made.x, FEATURES))
    return made.classify(_cell(made, sums, kept)[0])


def _recurrent(dtype: str) -> Sample:
    made = SequenceSketch(dtype)
    past, close = made.delay()
    kept, close_cell = made.delay(default=0.0)
    hidden, cell = _cell(made, made.weighted((made.x, FEATURES), (past, HIDDEN), size=2 * HIDDEN), kept)
    close_cell(cell)
    return made.classify(close(hidden))


def _normed(made: SequenceSketch, x: Node) -> Node:
    weights = made.parameter("weights", HIDDEN)
    count = made.given("count", np.zeros(1), multiplier=0.0)
    source = made.network.add(Node("normed", op_of(Normed), [x, weights, count], Normed(0.2)))
    return made.op("Plus", _output(made, source, 0), _output(made, source, 1))


def _python(dtype: str) -> Sample:
    made = SequenceSketch(dtype)
    return made.classify(_normed(made, made.weighted((made.x, FEATURES))))


def _python_recurrent(dtype: str) -> Sample:
    made = SequenceSketch(dtype)
    past, close = made.delay()
    return made.classify(close(_normed(made, made.weighted((made.x, FEATURES), (past, HIDDEN)))))


def _largest(dtype: str) -> Sample:
    """Values and places of one sorting."""
    made = SequenceSketch(dtype)
    h = made.op("Tanh", made.weighted((made.x, FEATURES), size=2 * HIDDEN))
    top = made.op("TopK", h, attributes=TopKAttributes(HIDDEN, output="both"))
    values, places = _output(made, top, 0), _output(made, top, 1)
    return made.classify(made.op("Plus", values, made.op("Sigmoid", places)))


def _summed_up(made: SequenceSketch, source: Node) -> Sample:
    frames, means, total = (_output(made, source, index) for index in range(3))
    spread = made.op("ReconcileDynamicAxis", made.op("Exp", means), made.x)
    whole = made.op("Plus", made.op("Plus", frames, spread), made.op("Tanh", total))
    sample = made.classify(whole)
    sample.roots += [means, total]
    return sample


def _summary(dtype: str) -> Sample:
    made = SequenceSketch(dtype)
    source = made.network.add(Node("summary", SUMMARY, [made.op("Tanh", made.weighted((made.x, FEATURES)))]))
    return _summed_up(made, source)


def _summary_in_python(dtype: str) -> Sample:
    made = SequenceSketch(dtype)
    x = made.op("Tanh", made.weighted((made.x, FEATURES)))
    return _summed_up(made, made.network.add(Node("summary", op_of(Summary), [x], Summary())))


def _masked(dtype: str) -> Sample:
    """Whole sequences and which of their steps there are, of one computation."""
    made = SequenceSketch(dtype)
    keys = made.op("Tanh", made.weighted((made.x, FEATURES)))
    both = made.op("UnpackSequence", keys, attributes=UnpackAttributes(0.5, with_mask=True))
    memory, there = _output(made, both, 0), _output(made, both, 1)
    seen = made.op("AttentionSum", memory, made.op("AttentionWeights", memory, keys, there))
    counted = made.op("ReduceElements", there, attributes=ReduceAttributes("Sum"))
    return made.classify(made.op("Plus", seen, made.op("ReconcileDynamicAxis", counted, made.x)))


def assigned(dtype: str) -> Sample:
    """Add a network that keeps the mean of a hidden layer over the epoch, and looks at the one before."""
    made = SequenceSketch(dtype)
    hidden = made.op("Tanh", made.weighted((made.x, FEATURES)), name="hidden")
    kept = made.given("kept", np.full(HIDDEN, 0.5), multiplier=0.0)
    sample = made.classify(made.op("Minus", hidden, kept))
    mean = made.op("EpochAccumulator", hidden, name="mean")
    sample.roots.append(made.op("Assign", kept, mean, name="assign"))
    sample.network.infer()
    return sample


SEVERAL_OUTPUTS: Mapping[str, Callable[[str], Sample]] = {
    "straight": _straight,
    "unread": _unread,
    "recurrent": _recurrent,
    "largest": _largest,
}
"""Networks with an op that has two outputs and goes row by row over ``xp``."""

IN_PYTHON: Mapping[str, Callable[[str], Sample]] = {"python": _python, "python_recurrent": _python_recurrent}
"""Networks with a function in Python, which has two outputs and a state in a parameter."""


OWN_AXES: Mapping[str, Callable[[str], Sample]] = {
    "summary": _summary,
    "summary_in_python": _summary_in_python,
    "masked": _masked,
}
"""Networks with outputs for each frame, each sequence and the minibatch, or as long as the longest sequence."""


class PythonOpsContract(RecipeContract):
    """The part of the contract of engines that is about several outputs, Python, and assignments.

    Attributes:
        tolerance: largest error, by precision, relative to the largest element (at least 1).
        lengths: of the sequences of minibatches that follow each other.
    """

    supports_sequences: ClassVar[bool]
    tolerance: ClassVar[Mapping[str, float]]
    lengths: ClassVar[Sequence[list[int]]]

    @pytest.mark.parametrize("name", [*SEVERAL_OUTPUTS, *IN_PYTHON, *OWN_AXES])
    def test_several_outputs(self, engine: ExecutionEngine, name: str, dtype: str) -> None:
        """The gradients of all outputs flow together; an op that says it can is computed where the core's are."""
        make = {**SEVERAL_OUTPUTS, **IN_PYTHON, **OWN_AXES}[name]
        ours, reference = make(dtype), make(dtype)
        if not self.supports_sequences and (name.endswith("recurrent") or name in OWN_AXES):
            pytest.skip("the engine computes no networks of sequences")
        if name in SEVERAL_OUTPUTS:
            plan = make_plan(ours.network, ours.roots, ours.criterion)
            assert not engine.on_host(plan), "a step is computed on the host"
        programs = [started(maker, sample) for maker, sample in ((engine, ours), (ReferenceEngine(), reference))]
        for step, lengths in enumerate(self.lengths):
            for program, _ in programs:
                program.compute_gradients(sequences_for(ours, lengths, step))
            self._alike([store.gradients for _, store in programs], dtype, "gradients")
            self._alike([store.values for _, store in programs], dtype, "values")
        for program, _ in programs:
            program.evaluate(sequences_for(ours, self.lengths[0], 9))
        for node in ours.roots:
            self._alike([program.value(node.name) for program, _ in programs], dtype, node.name)

    def test_assignments(self, engine: ExecutionEngine, dtype: str) -> None:
        """A parameter has the value that was assigned when the next minibatch comes, also where nothing is trained."""
        ours, reference = assigned(dtype), assigned(dtype)
        programs = [started(maker, sample) for maker, sample in ((engine, ours), (ReferenceEngine(), reference))]
        for step, lengths in enumerate(self.lengths):
            for program, _ in programs:
                run = program.evaluate if step == 1 else program.compute_gradients
                run(sequences_for(ours, lengths, step))
            for node in ours.roots:
                self._alike([program.value(node.name) for program, _ in programs], dtype, node.name)
            self._alike([store.values for _, store in programs], dtype, "values")
            self._alike([store.gradients for _, store in programs], dtype, "gradients")

    def test_updates_in_python(self, engine: ExecutionEngine, dtype: str) -> None:
        """A learner in Python sees gradients and changes values, wherever the engine keeps them."""
        learner = _Signed()
        names = tuple(learner.scalars(UpdateContext(1, 0.1, 0.5)))
        rule = UpdateRule(
            learner.slots, names, learner.rule, on_host=lambda parameters, scalars: learner.update(parameters)
        )
        ours, reference = assigned(dtype), assigned(dtype)
        programs = [started(maker, made, rule) for maker, made in ((engine, ours), (ReferenceEngine(), reference))]
        for step, lengths in enumerate(self.lengths):
            numbers = dict(learner.scalars(UpdateContext(4, 0.1, 0.5, step)))
            for program, _ in programs:
                program.train_step(sequences_for(ours, lengths, step), [numbers] * len(program.plan.trained))
            self._alike([store.values for _, store in programs], dtype, "values")
            self._alike([store.slots["smoothed"] for _, store in programs], dtype, "slots")
        assert [program.step for program, _ in programs] == [len(self.lengths)] * 2

    def _alike(self, arrays: Sequence[NDArray[Any]], dtype: str, what: str) -> None:
        found, expected = arrays
        scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
        np.testing.assert_allclose(found, expected, rtol=0, atol=scale * self.tolerance[dtype], err_msg=what)


def started(engine: ExecutionEngine, sample: Sample, rule: UpdateRule | None = None) -> tuple[Program, ParameterStore]:
    """Compile a network with a store of its own."""
    store = ParameterStore(sample.network.parameters, sample.network.dtype)
    plan = make_plan(sample.network, sample.roots, sample.criterion)
    program = compile_plan(engine, plan, store, rule, seed=3)
    program.begin_epoch(0, sample.settings)
    return program, store
