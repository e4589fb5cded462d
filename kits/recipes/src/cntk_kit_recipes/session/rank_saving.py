"""Files of a training on several ranks: rank 0 writes them, with what every rank needs to go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from cntk_core.contract.store import ParameterStore
from cntk_core.training.files.checkpoint import Progress
from cntk_core.training.files.position import Position
from cntk_core.training.loop.rank_state import collect_state
from cntk_core.training.loop.ranks import Ranks
from cntk_kit_recipes.session.saving import Saver


@attrs.define(eq=False)
class RankSaver:
    """A :class:`Saver` for each rank of a training.

    All ranks call the same methods. The state of each goes into the checkpoints; all of them wait until these are
    written.

    Attributes:
        saver: writes the files, on rank 0.
        store: parameters and the learner's slots of this rank.
        ranks: who trains together.
        steps: updates of this rank; set before saving.
    """

    saver: Saver
    store: ParameterStore
    ranks: Ranks
    steps: int = 0

    def initial(self, epochs: int, samples: int) -> None:
        """See :meth:`Saver.initial`."""
        if self.ranks.is_main:
            self.saver.initial(epochs, samples)
        self.ranks.meet("waiting for rank 0 to save the first model")
        self.saver.parts.begun.set()

    def save(self, progress: Progress, *, final: bool) -> None:
        """See :meth:`Saver.save`."""
        of_ranks = collect_state(self.ranks, self.store, self.steps)
        if self.ranks.is_main:
            self.saver.save(self._named(progress), final=final, of_ranks=of_ranks)
        self.ranks.meet("waiting for rank 0 to save the model")

    def save_inside(self, progress: Progress, position: Position) -> bool:
        """See :meth:`Saver.save_inside`. Ranks other than 0 do not hear of a failure."""
        saved = True
        of_ranks = collect_state(self.ranks, self.store, self.steps, position)
        if self.ranks.is_main:
            saved = self.saver.save_inside(self._named(progress), position, of_ranks)
        self.ranks.meet("waiting for rank 0 to save a checkpoint")
        return saved

    def revise(self, progress: Progress, since: int) -> None:
        """See :meth:`Saver.revise`."""
        of_ranks = collect_state(self.ranks, self.store, self.steps)
        if self.ranks.is_main:
            self.saver.revise(self._named(progress), since, of_ranks)
        self.ranks.meet("waiting for rank 0 to save a checkpoint")

    def copy_best(self, best: Mapping[str, tuple[float, int]], done: int) -> None:
        """See :meth:`Saver.copy_best`."""
        if self.ranks.is_main:
            self.saver.copy_best(best, done)

    def save_copies(self, criteria: Sequence[str], progress: Progress) -> None:
        """See :meth:`Saver.save_copies`."""
        if self.ranks.is_main:
            self.saver.save_copies(criteria, progress)

    def _named(self, progress: Progress) -> Progress:
        return attrs.evolve(progress, ranks=self.ranks.entries())
