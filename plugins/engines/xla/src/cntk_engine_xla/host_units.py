"""Units that the host computes, on arrays without padding."""

from __future__ import annotations

import numpy as np

from cntk_core.api.engines import GradientStep, LoopGradient
from cntk_engine_xla.execution_state import ExecutionState
from cntk_engine_xla.transfers import on_device
from cntk_engine_xla.units import Unit


def compute(state: ExecutionState, unit: Unit, *, training: bool) -> None:
    """Interpret the step of a unit."""
    (step,) = unit.steps
    values = state.values
    for node in unit.reads:
        if node not in values:
            values[node] = np.array(state.value(node))
    if isinstance(step, GradientStep | LoopGradient):
        _compute_gradients(state, unit, step)
        return
    state.interpreter.compute(step, training=training)
    for node in step.writes:
        if node in state.totals.places:
            state.totals.add(node, float(values[node].reshape(-1)[0]))
    if training and unit.updated:
        state.parameters.change({parameter: on_device(values[parameter]) for parameter in unit.updated})


def _compute_gradients(state: ExecutionState, unit: Unit, step: GradientStep | LoopGradient) -> None:
    gradients, criterion = state.gradients, state.program.plan.criterion
    if unit.seeds and criterion is not None:
        gradients[criterion] = np.ones_like(state.values[criterion])
    state.interpreter.compute_gradients(step)
    for target in step.targets:
        gradients.changed(target.node)
