"""What every engine does with the ops of somebody else: it concludes from their traits where it may compute them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest

from cntk_core.contract.engine import ExecutionEngine
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import WrongResult
from cntk_core.network.node import Node
from cntk_core.ops.language.define import define_op, elementwise_op, first_shape, guess_first, scalar_shape
from cntk_core.ops.language.framing import columns
from cntk_core.ops.language.op import Array, Op, OpContext
from cntk_core.ops.language.traits import BY_ROWS, Traits
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import Loop
from cntk_core.records.minibatch import Minibatch
from cntk_testing.networks import Sample
from cntk_testing.python_ops import PythonOpsContract, started
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import FEATURES, HIDDEN, SequenceSketch, sequences_for

Seen = set[str]
"""The names of the modules with which an op's functions were called."""


def _shares_gradient(xp: Any, g: Array, y: Array, x: Array) -> Array:
    width = 1.0 + xp.sum(xp.abs(x), axis=1, keepdims=True)
    return (g - xp.sign(x) * xp.sum(g * y, axis=1, keepdims=True)) / width


def shares(seen: Seen) -> Op:
    """Make an op of each sample ``x / (1 + sum |x|)``; it says that it goes row by row, and over ``xp`` alone."""

    def gradient(
        xp: Any,
        arriving: Array,
        output: Array,
        inputs: Sequence[Array],
        attributes: Any,
        context: OpContext,
        needs: Sequence[bool],
    ) -> Sequence[Array | None]:
        seen.add(xp.__name__)
        g, y, x = (columns(array, context.framed[0]) for array in (arriving, output, inputs[0]))
        return (_shares_gradient(xp, g, y, x).reshape(inputs[0].shape),)

    @define_op("ForeignShares", infer=first_shape, guess=guess_first, gradient=gradient, traits=BY_ROWS)
    def op(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
        seen.add(xp.__name__)
        x = columns(inputs[0], context.framed[0])
        return (x / (1.0 + xp.sum(xp.abs(x), axis=1, keepdims=True))).reshape(inputs[0].shape)

    return op


def tail(seen: Seen) -> Op:
    """Make an op that is 0 but in the last half of a sample; its gradient writes in place, which it says."""

    def gradient(
        xp: Any,
        arriving: Array,
        output: Array,
        inputs: Sequence[Array],
        attributes: Any,
        context: OpContext,
        needs: Sequence[bool],
    ) -> Sequence[Array | None]:
        result = xp.zeros_like(arriving)
        half = result.shape[-1] // 2
        result[..., half:] = 2.0 * arriving[..., half:]
        return (result,)

    traits = Traits(row_wise=True, pure_xp=True, in_place="gradient", keeps_nothing=True)

    @define_op(
        "ForeignTail", infer=first_shape, guess=guess_first, gradient=gradient, reads_inputs=False, traits=traits
    )
    def op(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
        seen.add(xp.__name__)
        half = inputs[0].shape[-1] // 2
        return xp.concatenate([xp.zeros_like(inputs[0][..., :half]), 2.0 * inputs[0][..., half:]], axis=-1)

    return op


def energy(seen: Seen) -> Op:
    """Make a criterion ``sum(x^4)``, to which rows of zeros add nothing."""

    def gradient(
        xp: Any,
        arriving: Array,
        output: Array,
        inputs: Sequence[Array],
        attributes: Any,
        context: OpContext,
        needs: Sequence[bool],
    ) -> Sequence[Array | None]:
        seen.add(xp.__name__)
        return (4.0 * inputs[0] * inputs[0] * inputs[0] * arriving.reshape(()),)

    traits = Traits(pure_xp=True, keeps_nothing=True, ignores_zero_rows=True)

    @define_op(
        "ForeignEnergy", infer=scalar_shape, gradient=gradient, reduces_frames=True, role="criterion", traits=traits
    )
    def op(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
        seen.add(xp.__name__)
        squares = inputs[0] * inputs[0]
        return xp.sum(squares * squares).reshape(1)

    return op


def narrow(seen: Seen, *, value: bool, traits: Traits) -> Op:
    """Make an op of which the value, or else the gradient, has one element where it should have a whole sample."""

    def gradient(
        xp: Any,
        arriving: Array,
        output: Array,
        inputs: Sequence[Array],
        attributes: Any,
        context: OpContext,
        needs: Sequence[bool],
    ) -> Sequence[Array | None]:
        return (arriving if value else arriving[:, :1],)

    @define_op("ForeignNarrow", infer=first_shape, guess=guess_first, gradient=gradient, traits=traits)
    def op(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
        seen.add(xp.__name__)
        return inputs[0][:, :1] if value else inputs[0]

    return op


def softsign(seen: Seen) -> Op:
    """Make an element-wise op."""
    return elementwise_op(
        "ForeignSoftsign", gradient=lambda m, attributes, g, y, x: g / ((1 + m.abs(x)) * (1 + m.abs(x)))
    )(lambda m, attributes, x: x / (1 + m.abs(x)))


def _below(make: Callable[[Seen], Op]) -> Callable[[str, Seen], Sample]:
    """A classifier of frames with such an op in its middle."""

    def build(dtype: str, seen: Seen) -> Sample:
        made = SequenceSketch(dtype)
        hidden = made.weighted((made.x, FEATURES))
        return made.classify(made.network.add(Node("foreign", make(seen), [hidden])))

    return build


def _in_a_loop(make: Callable[[Seen], Op]) -> Callable[[str, Seen], Sample]:
    """The same with the op in a recurrent layer."""

    def build(dtype: str, seen: Seen) -> Sample:
        made = SequenceSketch(dtype)
        past, close = made.delay()
        inner = made.weighted((made.x, FEATURES), (past, HIDDEN))
        return made.classify(close(made.network.add(Node("foreign", make(seen), [inner]))))

    return build


def _criterion(dtype: str, seen: Seen) -> Sample:
    made = SequenceSketch(dtype)
    hidden = made.op("Tanh", made.weighted((made.x, FEATURES)))
    return made.finish(made.network.add(Node("foreign", energy(seen), [hidden])), hidden)


FOREIGN: Mapping[str, Callable[[str, Seen], Sample]] = {
    "by_elements": _below(softsign),
    "by_elements_in_a_loop": _in_a_loop(softsign),
    "by_rows": _below(shares),
    "by_rows_in_a_loop": _in_a_loop(shares),
    "in_place_gradient": _below(tail),
    "in_place_gradient_in_a_loop": _in_a_loop(tail),
    "sum_of_rows": _criterion,
}
"""Networks with an op that is none of the core's."""

BY_ELEMENTS = {"by_elements", "by_elements_in_a_loop"}
"""Those of an element-wise op; which module computes it is the engine's own business."""


WRONG: Mapping[str, Callable[[str, Seen], Sample]] = {
    f"{part}{where}{how}": place(partial(narrow, value=part == "value", traits=traits))
    for part in ("value", "gradient")
    for where, place in (("", _below), ("_in_a_loop", _in_a_loop))
    for how, traits in (("", Traits()), ("_by_rows", BY_ROWS))
}
"""Networks with an op that gives an array of another shape than it should."""


def refusal(maker: ExecutionEngine, name: str, dtype: str) -> str:
    """Return what is said of the op of one of the :data:`WRONG` networks, which NumPy would broadcast in silence.

    Raises:
        AssertionError: nothing is said.
    """
    sample = WRONG[name](dtype, set())
    program = started(maker, sample)[0]
    with pytest.raises(WrongResult) as caught:
        program.compute_gradients(sequences_for(sample, [4, 3], 0))
    return caught.value.message


class ForeignOpsContract(PythonOpsContract):
    """The part of the contract of engines that is about the ops of others.

    Attributes:
        array_module: the name of the module whose arrays ops that are pure over ``xp`` are given.
        tolerance: largest error, by precision, relative to the largest element (at least 1).
        lengths: of the sequences of minibatches that follow each other.
    """

    array_module: ClassVar[str] = "numpy"
    supports_sequences: ClassVar[bool]
    tolerance: ClassVar[Mapping[str, float]]
    lengths: ClassVar[Sequence[list[int]]]

    @pytest.mark.parametrize("name", FOREIGN)
    def test_ops_of_others(self, engine: ExecutionEngine, name: str, dtype: str) -> None:
        """An op that says it can is computed where the core's are: on the engine's own arrays, not on the host."""
        seen: Seen = set()
        ours, reference = FOREIGN[name](dtype, seen), FOREIGN[name](dtype, set())
        plan = make_plan(ours.network, ours.roots, ours.criterion)
        if not self.supports_sequences and any(isinstance(step, Loop) for step in plan.steps):
            pytest.skip("the engine computes no recurrent networks")
        assert not engine.on_host(plan), "a step is computed on the host"
        runs = [(engine, ours), (ReferenceEngine(), reference)]
        programs = [started(maker, sample) for maker, sample in runs]
        for step, lengths in enumerate(self.lengths):
            data: Minibatch = sequences_for(ours, lengths, step)
            for program, _ in programs:
                program.compute_gradients(data)
            self._compare([store for _, store in programs], dtype)
        expected = set() if name in BY_ELEMENTS else {self.array_module}
        assert seen == expected, f"the op was given arrays of {', '.join(sorted(seen))}"

    def _compare(self, stores: Sequence[ParameterStore], dtype: str) -> None:
        for one, other in zip(*(store.parameters for store in stores), strict=True):
            found, expected = stores[0].gradient(one), stores[1].gradient(other)
            scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
            np.testing.assert_allclose(found, expected, rtol=0, atol=scale * self.tolerance[dtype], err_msg=one.name)
