"""What a rank that fails leaves for the launcher."""

from __future__ import annotations

import signal

from cntk_core.errors import CntkError, TrainingError
from cntk_core.training.loop.stop_request import stopped
from cntk_kit_recipes.recipe import error_report, ranks


def test_a_rank_that_was_told_to_end_is_not_the_first_that_failed(monkeypatch):
    """Open MPI tells the others to end when a rank was killed: what they say of that is no reason."""
    told = {}
    monkeypatch.setattr(ranks, "detect", lambda: ranks.Launch(0, 2))
    monkeypatch.setattr(
        ranks, "end_all", lambda text, details="", *, consequence=False: told.update({text: consequence})
    )
    for error in (stopped("training", "after minibatch 1", signal.SIGTERM, saved=False), TrainingError("no luck")):
        try:
            raise error
        except CntkError:
            error_report.end_ranks(error.message)
    assert list(told.values()) == [True, False]
    assert "told to end" in next(iter(told))
