"""What authors of plugins test with: the reference engine, gradient checks, contract suites.

Names are imported when they are first used, so that pytest can load :mod:`cntk_testing.plugin` without the core.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cntk_testing.action_contract import ActionContract
    from cntk_testing.aggregation_contract import AggregationContract
    from cntk_testing.builder_contract import BuilderContract
    from cntk_testing.communicator_contract import CommunicatorContract, CommunicatorRecipe
    from cntk_testing.contract import Contract
    from cntk_testing.dataset_contract import DatasetContract
    from cntk_testing.engine_contract import EngineContract
    from cntk_testing.gradients import check_gradients, check_op_gradients
    from cntk_testing.initializer_contract import InitializerContract
    from cntk_testing.launcher_contract import LauncherContract
    from cntk_testing.learner_contract import LearnerContract
    from cntk_testing.model_format_contract import ModelFormatContract
    from cntk_testing.op_cases import OpExample
    from cntk_testing.op_contract import OpContract, check_op
    from cntk_testing.packaging import PackagingContract, WheelContract
    from cntk_testing.parallel_contract import ParallelizerContract
    from cntk_testing.reader_contract import ReaderContract
    from cntk_testing.recipes import README, ReaderRecipe, RecipeContract
    from cntk_testing.reference import ReferenceEngine
    from cntk_testing.schedule_contract import ScheduleContract
    from cntk_testing.verb_contract import VerbContract
    from cntk_testing.virtual_ranks import VirtualRanks
    from cntk_testing.writer_contract import WriterContract

__all__ = [
    "README",
    "ActionContract",
    "AggregationContract",
    "BuilderContract",
    "CommunicatorContract",
    "CommunicatorRecipe",
    "Contract",
    "DatasetContract",
    "EngineContract",
    "InitializerContract",
    "LauncherContract",
    "LearnerContract",
    "ModelFormatContract",
    "OpContract",
    "OpExample",
    "PackagingContract",
    "ParallelizerContract",
    "ReaderContract",
    "ReaderRecipe",
    "RecipeContract",
    "ReferenceEngine",
    "ScheduleContract",
    "VerbContract",
    "VirtualRanks",
    "WheelContract",
    "WriterContract",
    "check_gradients",
    "check_op",
    "check_op_gradients",
]

_HOMES = {
    "action_contract": ("ActionContract",),
    "aggregation_contract": ("AggregationContract",),
    "builder_contract": ("BuilderContract",),
    "communicator_contract": ("CommunicatorContract", "CommunicatorRecipe"),
    "contract": ("Contract",),
    "dataset_contract": ("DatasetContract",),
    "engine_contract": ("EngineContract",),
    "gradients": ("check_gradients", "check_op_gradients"),
    "initializer_contract": ("InitializerContract",),
    "launcher_contract": ("LauncherContract",),
    "learner_contract": ("LearnerContract",),
    "model_format_contract": ("ModelFormatContract",),
    "op_cases": ("OpExample",),
    "op_contract": ("OpContract", "check_op"),
    "packaging": ("PackagingContract", "WheelContract"),
    "parallel_contract": ("ParallelizerContract",),
    "reader_contract": ("ReaderContract",),
    "recipes": ("README", "ReaderRecipe", "RecipeContract"),
    "reference": ("ReferenceEngine",),
    "schedule_contract": ("ScheduleContract",),
    "verb_contract": ("VerbContract",),
    "virtual_ranks": ("VirtualRanks",),
    "writer_contract": ("WriterContract",),
}


def __getattr__(name: str) -> Any:
    """Import a public name from its module.

    Raises:
        AttributeError: there is no such name.
    """
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
