"""Data-parallel training: the gradients of all ranks are summed in each step."""

from cntk_parallel_data_parallel.full import FullPrecision
from cntk_parallel_data_parallel.strategy import DataParallel, DataParallelOptions

__all__ = ["DataParallel", "DataParallelOptions", "FullPrecision"]
