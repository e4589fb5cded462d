"""Block momentum: what the workers have learned in a block is one step of a descent that has a momentum of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Communicator, ParameterStore, option, options
from cntk_parallel_bmuf.blocks import BlockOptions, BlockScheme

Array = NDArray[Any]

CNTK, PAPER = "cntk", "paper"

_GLOBAL, _VELOCITY = "global", "velocity"


@options
class BlockMomentumOptions(BlockOptions):
    """Options of the block ``BlockMomentumSGD``."""

    default_block_size_per_worker: ClassVar[int] = 120000

    block_momentum_per_sync: float | None = option(
        default=None, doc="how much of a step goes on in the next one; by default 1 - 1 / workers"
    )
    block_momentum_as_time_constant: float | None = option(
        default=None, doc="the same, by the samples of all workers after which 1/e of a step is left"
    )
    block_learning_rate: float = option(default=1.0, doc="how much of what a block has taught is taken")
    use_nesterov_momentum: bool = option(default=True, doc="begin a block where its momentum will lead to")
    reset_sgd_momentum: bool = option(
        default=True, key="resetSGDMomentum", doc="the learner begins anew in each block, its momentum with it"
    )
    variant: Literal["cntk", "paper"] = option(default="cntk", doc="whose formulas")

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        momentum, constant = self.block_momentum_per_sync, self.block_momentum_as_time_constant
        if momentum is not None and constant is not None:
            raise ValueError(
                "blockMomentumPerSync and blockMomentumAsTimeConstant are two ways to say the same; give one of them"
            )
        if momentum is not None and not 0 <= momentum < 1:
            raise ValueError("blockMomentumPerSync must be at least 0 and less than 1")
        if constant is not None and constant < 0:
            raise ValueError("blockMomentumAsTimeConstant must not be negative")
        if self.block_learning_rate <= 0:
            raise ValueError("blockLearningRate must be more than 0")

    def rule(self, workers: int) -> BlockRule:
        """Return the rule for so many workers."""
        momentum = self._momentum(workers)
        if self.variant == PAPER:
            return BlockRule(momentum, self.block_learning_rate, None, self.use_nesterov_momentum, False)
        rate = (1 - momentum) * self.block_learning_rate
        return BlockRule(momentum, rate, 1.0, self.use_nesterov_momentum, True)

    def _momentum(self, workers: int) -> float:
        if self.block_momentum_per_sync is not None:
            return self.block_momentum_per_sync
        constant = self.block_momentum_as_time_constant
        if constant is None:
            return 1 - 1 / workers
        samples = self.block_size if self.block_size is not None else workers * self.samples_per_worker(workers)
        return math.exp(-samples / constant) if constant else 0.0


@attrs.frozen
class BlockRule:
    """How a block changes the model, with numbers filled in.

    With d the weighted sum over the workers of (model at the beginning of the block - their model)::

        velocity = momentum * velocity + rate * d
        model    = model - velocity                              without Nesterov's momentum
        model    = model - rate * d - momentum * velocity        with it, as in the paper
        model    = model - velocity - momentum * velocity        with it, as CNTK has it

    The paper writes the third line with two models: W(t) = W(t-1) - velocity is what is found, and a block begins at
    W(t) - momentum * velocity. Their difference gives the line above, where only the latter is kept. CNTK takes the
    place where a block began for W(t-1), so a step goes ahead from where the one before had gone ahead to.

    Attributes:
        momentum: eta in the paper.
        rate: zeta in the paper.
        weight: of each worker in the sum; None for its share of the samples of the block.
        nesterov: whether the model goes ahead.
        as_cntk: it goes ahead as in CNTK, where the end of an epoch is a step even if no sample was left for it.
    """

    momentum: float
    rate: float
    weight: float | None
    nesterov: bool
    as_cntk: bool

    def gain(self, workers: int) -> float:
        """Return how much of the mean of what the workers have learned a step takes at once."""
        return self.rate * (1.0 if self.weight is None else self.weight * workers)

    def take_step(self, model: Array, velocity: Array, learned: Array) -> None:
        """Change model and velocity in place.

        Args:
            model: where the block began.
            velocity: of the step before.
            learned: the weighted sum over the workers; it is lost.
        """
        learned *= self.rate
        velocity *= self.momentum
        velocity += learned
        if not self.nesterov:
            model -= velocity
            return
        model -= velocity if self.as_cntk else learned
        np.multiply(velocity, self.momentum, out=learned)
        model -= learned


class BlockMomentum(BlockScheme):
    """Blockwise model-update filtering (Chen and Huo, ICASSP 2016): model averaging with a momentum.

    Each worker keeps the model with which the block began, and the velocity. Both are equal on all workers.
    """

    requires_api = "1.0"
    options = BlockMomentumOptions
    settings: BlockMomentumOptions

    def begin(self, store: ParameterStore, communicator: Communicator) -> None:
        """Begin without velocity."""
        super().begin(store, communicator)
        self._rule = self.settings.rule(self.workers)
        self._global = self._learned.copy()
        self._velocity = np.zeros_like(self._learned)
        self._difference = np.empty_like(self._learned)
        if self.workers == 1:
            return
        if self._rule.momentum == 0:
            self.say("WARNING: the block momentum is 0: this is model averaging.")
        if self._rule.gain(self.workers) >= 2:
            self.say(
                f"WARNING: a block takes {self._rule.gain(self.workers):.4g} times what its workers have learned on "
                "average; it is possible to overshoot. Reduce blockLearningRate."
            )

    def begin_epoch(self, epoch: int) -> None:
        """Say how the epoch is trained. Where training went back to another model there is no velocity."""
        super().begin_epoch(epoch)
        if not np.array_equal(self._global, self._learned):
            self._global[...] = self._learned
            self._velocity[...] = 0.0
        self.say(self._describe())

    def _describe(self) -> str:
        given, momentum = self.settings, self._rule.momentum
        constant = -self._block / math.log(momentum) if momentum else 0.0
        text = (
            f"Parallel training ({self.workers} workers) using BlockMomentumSGD with block momentum = {momentum:.4f}, "
            f"block momentum time constant (per worker) = {constant:.4f}, "
            f"block learning rate = {given.block_learning_rate:.4f}, block size per worker = {self._block} samples"
        )
        text += ", using Nesterov-style block momentum" if given.use_nesterov_momentum else ""
        text += ", resetting SGD momentum after sync" if given.reset_sgd_momentum else ""
        return text + (", with the formulas of the paper." if given.variant == PAPER else ".")

    def merge(self, store: ParameterStore, samples: int, total: int) -> None:
        """Take a step with what all workers have learned."""
        if total == 0 and not self._rule.as_cntk:
            self._learned[...] = self._global
            return
        difference, weight = self._difference, self._rule.weight
        np.subtract(self._global, self._learned, out=difference)
        if weight is None:
            difference *= samples / total
        self._between.allreduce(difference)
        self._rule.take_step(self._global, self._velocity, difference)
        self._learned[...] = self._global
        if self.settings.reset_sgd_momentum:
            store.reset_slots()

    # -- state --------------------------------------------------------------------------------------------

    def state(self) -> Mapping[str, Array]:
        """The part that is this worker's of the model and the velocity, which all workers have."""
        return {
            **super().state(),
            _GLOBAL: self.part(self._global),
            _VELOCITY: self.part(self._velocity),
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Get the parts together again."""
        super().restore(state)
        for name, target in ((_GLOBAL, self._global), (_VELOCITY, self._velocity)):
            target[...] = self.gather(state, name)

    def adopt(self, states: Sequence[Mapping[str, Array]]) -> str:
        """Take over model and velocity."""
        said = [super().adopt(states)]
        workers, firsts = self.workers_of(states)
        for name, target in ((_GLOBAL, self._global), (_VELOCITY, self._velocity)):
            target[...] = np.concatenate([one[name] for one in firsts])
        before = self.settings.rule(workers)
        if before.momentum != self._rule.momentum:
            said.append(f"the block momentum is {self._rule.momentum:.4g} instead of {before.momentum:.4g}")
        return "; ".join(filter(None, said))
