"""An engine of the kit: kernels that it is given are asked, and everything else is computed all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cntk_core.api import NetworkError, PluginError, kernel
from cntk_core.api.engines import NodeKernel, StepEngine, StepProgram, is_elementwise, kernel_tables, kernels
from cntk_testing.engine_contract import MOMENTUM, Run, start
from cntk_testing.networks import SAMPLES, classifier
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES, sequences_for


def same_as_reference(ours: Run, minibatches: list[Any], sample: Any) -> None:
    reference = start(ReferenceEngine(), sample, rule=MOMENTUM)
    for step, data in enumerate(minibatches):
        for run in (ours, reference):
            run.program.train_step(data, run.scalars(MOMENTUM, step))
    for one, other in zip(ours.values(), reference.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def engine(*own: Any, program: type[StepProgram] = StepProgram) -> StepEngine:
    return type("Engine", (StepEngine,), {"own": own, "program": program})()


def test_a_kernel_computes_values_and_gradients_in_loops_and_outside() -> None:
    asked: list[tuple[str, int]] = []

    def forward(node: Any, inputs: Any, context: Any) -> Any:
        asked.append(("value", context.frames))
        context.saved["made"] = 1 / (1 + np.exp(-inputs[0]))
        return context.saved["made"]

    def gradient(node: Any, arriving: Any, value: Any, inputs: Any, needs: Any, context: Any) -> Any:
        asked.append(("gradient", context.frames))
        np.testing.assert_array_equal(context.saved["made"], value)
        return [arriving * value * (1 - value)]

    sample = SEQUENCE_SAMPLES["lstm"]("float64")
    ours = start(engine(*kernels("any", ["Sigmoid"], forward, gradient)), sample, rule=MOMENTUM)
    same_as_reference(ours, [sequences_for(ours.sample, [5, 3, 1], step) for step in range(2)], sample)
    assert {"value", "gradient"} == {what for what, _ in asked}
    assert {frames for _, frames in asked} == {1, 2, 3}  # rows of time steps


def test_a_kernel_that_declines_leaves_a_node_to_the_next_one_and_at_last_to_the_op() -> None:
    asked = []

    def decline(node: Any, inputs: Any, context: Any) -> None:
        asked.append("first")

    def decline_as_well(node: Any, inputs: Any, context: Any) -> None:
        asked.append("second")

    own = kernels("any", ["Times"], decline_as_well)
    found = engine(*own)
    found.kernels = (kernel("any", "Times")(decline), *own)
    sample = classifier("float64")
    same_as_reference(start(found, sample, rule=MOMENTUM), [sample.minibatch(4)], sample)
    assert asked[:4] == ["first", "second"] * 2


def test_a_kernel_without_a_gradient_is_not_asked_where_the_op_has_to_keep_something() -> None:
    """An op's own gradient may look at what its own forward function has kept."""
    sample = SAMPLES["dropout"]("float64")
    asked = []
    own = kernels("any", ["Dropout"], lambda node, inputs, context: asked.append(node))
    run = start(engine(*own), sample, rule=MOMENTUM)
    same_as_reference(run, [sample.minibatch(6)], sample)
    assert asked == []
    run = start(engine(*own), sample, training=False)
    run.program.evaluate(sample.minibatch(6))
    assert asked


def test_a_program_takes_whole_steps() -> None:
    taken = []

    class Noting(StepProgram):
        def run_step(self, step: Any, *, training: bool) -> None:
            taken.append(step)
            super().run_step(step, training=training)

        def run_gradient_step(self, step: Any) -> None:
            taken.append(step)
            super().run_gradient_step(step)

    run = start(engine(program=Noting), classifier("float32"))
    run.program.compute_gradients(run.sample.minibatch(3))
    assert taken == [*run.plan.steps, *run.plan.gradients]
    assert run.program.memory() == sum(
        array.nbytes for kept in (run.program.values, run.program.gradients) for array in kept.values()
    )


def test_gradients_of_steps_that_somebody_else_has_computed() -> None:
    """They look at the values that the plan keeps, and at nothing else."""

    class Other(StepProgram):
        def run_step(self, step: Any, *, training: bool) -> None:
            super().run_step(step, training=training)
            for node in step.nodes if is_elementwise(step) else ():
                del self.interpreter.contexts[node]
                if node not in step.writes:
                    del self.values[node]

    for made in (SAMPLES["chain"], SAMPLES["shared"], classifier):
        sample = made("float64")
        same_as_reference(start(engine(program=Other), sample, rule=MOMENTUM), [sample.minibatch(4)], sample)


def test_parameters_are_views_where_the_store_has_the_precision_of_the_program() -> None:
    for dtype, shared in (("float64", True), ("float32", False)):
        run = start(type("Double", (StepEngine,), {"dtype": np.float64})(), classifier(dtype))
        run.program.evaluate(run.sample.minibatch(3))
        parameter = run.plan.trained[0]
        assert np.shares_memory(run.program.values[parameter], run.store.value(parameter)) == shared
        assert run.program.values[parameter].dtype == np.float64


def test_an_update_needs_a_rule() -> None:
    run = start(engine(), classifier("float32"))
    with pytest.raises(NetworkError) as caught:
        run.program.update([])
    assert caught.value.message == "the program was compiled without an update rule"


def test_a_setting_that_these_programs_do_not_know() -> None:
    with pytest.raises(PluginError) as caught:
        kernel_tables((), kernels("tiles", ["Times"], print, width=3), NodeKernel)
    assert caught.value.message == "a kernel of the engine 'tiles' for Times has the unknown setting 'width'"
    assert caught.value.hint == "This engine has none."


def test_an_evaluation_leaves_a_store_of_more_digits_as_it_is() -> None:
    """Running statistics are written back after a step of training alone: they are rounded on the way."""
    single = type("Single", (StepEngine,), {"dtype": np.float32})()
    run = start(single, SEQUENCE_SAMPLES["normalized"]("float64"), training=False)
    data = sequences_for(run.sample, [3, 2])
    run.program.store.values[...] = np.random.default_rng(1).uniform(0.5, 1.0, run.program.store.values.shape)
    before = run.program.store.values.copy()
    run.program.evaluate(data)
    np.testing.assert_array_equal(run.program.store.values, before)
    run.program.run_forward(data, training=True)
    assert (run.program.store.values != before).any()
