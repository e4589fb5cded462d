"""What authors of plugins test with: the reference engine, gradient checks, contract suites.

Names are imported when they are first used, so that pytest can load :mod:`cntk_core.testing.plugin` without the core.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cntk_core.testing.aggregation_contract import AggregationContract
    from cntk_core.testing.builder_contract import BuilderContract
    from cntk_core.testing.communicator_contract import CommunicatorContract, CommunicatorRecipe
    from cntk_core.testing.contract import Contract
    from cntk_core.testing.engine_contract import EngineContract
    from cntk_core.testing.gradients import check_gradients, check_op_gradients
    from cntk_core.testing.learner_contract import LearnerContract
    from cntk_core.testing.op_contract import OpContract, OpExample, check_op
    from cntk_core.testing.packaging import PackagingContract
    from cntk_core.testing.parallel_contract import ParallelizerContract
    from cntk_core.testing.reader_contract import ReaderContract
    from cntk_core.testing.recipes import README, ReaderRecipe, RecipeContract
    from cntk_core.testing.reference import ReferenceEngine
    from cntk_core.testing.virtual_ranks import VirtualRanks
    from cntk_core.testing.writer_contract import WriterContract

__all__ = [
    "README",
    "AggregationContract",
    "BuilderContract",
    "CommunicatorContract",
    "CommunicatorRecipe",
    "Contract",
    "EngineContract",
    "LearnerContract",
    "OpContract",
    "OpExample",
    "PackagingContract",
    "ParallelizerContract",
    "ReaderContract",
    "ReaderRecipe",
    "RecipeContract",
    "ReferenceEngine",
    "VirtualRanks",
    "WriterContract",
    "check_gradients",
    "check_op",
    "check_op_gradients",
]

_HOMES = {
    "aggregation_contract": ("AggregationContract",),
    "builder_contract": ("BuilderContract",),
    "communicator_contract": ("CommunicatorContract", "CommunicatorRecipe"),
    "contract": ("Contract",),
    "engine_contract": ("EngineContract",),
    "gradients": ("check_gradients", "check_op_gradients"),
    "learner_contract": ("LearnerContract",),
    "op_contract": ("OpContract", "OpExample", "check_op"),
    "packaging": ("PackagingContract",),
    "parallel_contract": ("ParallelizerContract",),
    "reader_contract": ("ReaderContract",),
    "recipes": ("README", "ReaderRecipe", "RecipeContract"),
    "reference": ("ReferenceEngine",),
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
