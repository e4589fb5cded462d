"""Model averaging: at the end of a block each worker takes the mean of all models."""

from __future__ import annotations

from typing import ClassVar

from cntk_core.api import ParameterStore, options
from cntk_parallel_bmuf.blocks import BlockOptions, BlockScheme


@options
class ModelAveragingOptions(BlockOptions):
    """Options of the block ``ModelAveragingSGD``."""

    default_block_size_per_worker: ClassVar[int] = 40000


class ModelAveraging(BlockScheme):
    """Averages the workers' models, weighted with the samples that each has learned in the block."""

    requires_api = "1.0"
    options = ModelAveragingOptions
    settings: ModelAveragingOptions

    def begin_epoch(self, epoch: int) -> None:
        """Say how the epoch is trained."""
        super().begin_epoch(epoch)
        self.say(
            f"Parallel training ({self.workers} workers) using ModelAveraging with "
            f"block size per worker = {self._block} samples."
        )

    def merge(self, store: ParameterStore, samples: int, total: int) -> None:
        """Average. The learner's momentum stays what it is on each worker, as in the original."""
        if total == 0:
            self._between.broadcast(self._learned)  # the model of the last merge, which all should have
            return
        mean = self._learned * self._learned.dtype.type(samples / total)
        self._between.allreduce(mean)
        self._learned[...] = mean
