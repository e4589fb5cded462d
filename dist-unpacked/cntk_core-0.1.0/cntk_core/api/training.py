"""The kit of authors of front ends that train without a recipe: the trainer, its learners, its parts."""

from __future__ import annotations

from cntk_core.model import Model
from cntk_core.trainer import (
    Criterion,
    LearnerSettings,
    Parallel,
    ParallelSettings,
    StepResult,
    Trainer,
    TrainingPoint,
    piecewise,
)

KIT_VERSION = "0.1"
"""Version of this kit. Below 1.0 names may change with its minor."""

__all__ = [
    "KIT_VERSION",
    "Criterion",
    "LearnerSettings",
    "Model",
    "Parallel",
    "ParallelSettings",
    "StepResult",
    "Trainer",
    "TrainingPoint",
    "piecewise",
]
