"""ReferenceEngine: a plan computed with NumPy in double precision, slowly and obviously. The oracle of every engine."""

from __future__ import annotations

import numpy as np

from cntk_kit_engines.step_program import StepEngine, StepProgram


class ReferenceProgram(StepProgram):
    """A plan with the values of its last run, by node."""


class ReferenceEngine(StepEngine):
    """Interprets a plan node by node, in float64 whatever the precision of the parameter store is."""

    requires_api = "1.0"
    program = ReferenceProgram
    dtype = np.float64
