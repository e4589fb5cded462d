"""Parallel training that merges models now and then: block momentum and model averaging."""

from cntk_parallel_bmuf.averaging import ModelAveraging, ModelAveragingOptions
from cntk_parallel_bmuf.blocks import BlockOptions, BlockScheme
from cntk_parallel_bmuf.momentum import BlockMomentum, BlockMomentumOptions

__all__ = [
    "BlockMomentum",
    "BlockMomentumOptions",
    "BlockOptions",
    "BlockScheme",
    "ModelAveraging",
    "ModelAveragingOptions",
]
