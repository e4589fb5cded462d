"""Units that the host computes, on arrays without padding."""

from __future__ import annotations

import numpy as np

from cntk_core.api.engines import GradientStep, LoopGradient
from cntk_engine_xla.desk import Desk
from cntk_engine_xla.units import Unit


def compute(desk: Desk, unit: Unit, *, training: bool) -> None:
    """Interpret the step of a unit."""
    (step,) = unit.steps
    values = desk.values
    for node in unit.reads:
        if node not in values:
            values[node] = np.array(desk.value(node))
    if isinstance(step, GradientStep | LoopGradient):
        _compute_gradients(desk, unit, step)
        return
    desk.interpreter.compute(step, training=training)
    for node in step.writes:
        if node in desk.totals.places:
            desk.totals.add(node, float(values[node].reshape(-1)[0]))
    if training and unit.updated:
        import jax.numpy as jnp

        desk.residence.change({parameter: jnp.array(values[parameter]) for parameter in unit.updated})


def _compute_gradients(desk: Desk, unit: Unit, step: GradientStep | LoopGradient) -> None:
    gradients, criterion = desk.gradients, desk.program.plan.criterion
    if unit.seeds and criterion is not None:
        gradients[criterion] = np.ones_like(desk.values[criterion])
    desk.interpreter.compute_gradients(step)
    for target in step.targets:
        gradients.changed(target.node)
