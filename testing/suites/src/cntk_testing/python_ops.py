"""What every engine does with ops that have several outputs, functions and learners in Python, and assignments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from cntk_core.contract.engine import ExecutionEngine, Program
from cntk_core.contract.host_program import compile_plan
from cntk_core.contract.learner import Slot, UpdateContext, UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.contract.user_learner import ParameterUpdate, UserLearner
from cntk_core.network.node import Node
from cntk_core.ops.families.outputs import MultiplexerAttributes, define_outputs
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
}
"""Networks with an op that has two outputs and goes row by row over ``xp``."""

IN_PYTHON: Mapping[str, Callable[[str], Sample]] = {"python": _python, "python_recurrent": _python_recurrent}
"""Networks with a function in Python, which has two outputs and a state in a parameter."""


class PythonOpsContract(RecipeContract):
    """The part of the contract of engines that is about several outputs, Python, and assignments.

    Attributes:
        tolerance: largest error, by precision, relative to the largest element (at least 1).
        lengths: of the sequences of minibatches that follow each other.
    """

    supports_sequences: ClassVar[bool]
    tolerance: ClassVar[Mapping[str, float]]
    lengths: ClassVar[Sequence[list[int]]]

    @pytest.mark.parametrize("name", [*SEVERAL_OUTPUTS, *IN_PYTHON])
    def test_several_outputs(self, engine: ExecutionEngine, name: str, dtype: str) -> None:
        """The gradients of all outputs flow together; an op that says it can is computed where the core's are."""
        make = {**SEVERAL_OUTPUTS, **IN_PYTHON}[name]
        ours, reference = make(dtype), make(dtype)
        if not self.supports_sequences and name.endswith("recurrent"):
            pytest.skip("the engine computes no recurrent networks")
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
