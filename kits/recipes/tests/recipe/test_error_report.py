"""What a rank that fails leaves for the launcher."""

from __future__ import annotations

import signal

import pytest

from cntk_core.errors import CntkError, TrainingError
from cntk_kit_recipes import cli
from cntk_kit_recipes.recipe import error_report, ranks
from cntk_kit_recipes.session.stop_request import stopped


def test_a_rank_that_was_told_to_end_is_not_the_first_that_failed(monkeypatch):
    """Open MPI tells the others to end when a rank was killed: what they say of that is no reason."""
    told = {}
    monkeypatch.setattr(ranks, "detect", lambda: ranks.Launch(0, 2))
    monkeypatch.setattr(
        ranks, "end_all", lambda text, details="", *, consequence=False, say=None: told.update({text: consequence})
    )
    for error in (stopped("training", "after minibatch 1", signal.SIGTERM, saved=False), TrainingError("no luck")):
        try:
            raise error
        except CntkError:
            error_report.end_ranks(error.message)
    assert list(told.values()) == [True, False]
    assert "told to end" in next(iter(told))


@pytest.mark.parametrize(
    ("error", "is_shown"), [(TrainingError("no luck"), False), (ZeroDivisionError("nothing"), True)]
)
def test_where_a_defect_happened_is_left_and_where_a_mistake_was_found_is_not(monkeypatch, error, is_shown):
    left = []
    monkeypatch.setattr(ranks, "detect", lambda: ranks.Launch(0, 2))
    monkeypatch.setattr(ranks, "end_all", lambda text, details="", **others: left.append((text, details)))
    try:
        raise error
    except Exception:
        error_report.end_ranks("it went wrong")
    ((text, details),) = left
    assert text == "it went wrong"
    assert ("raise error" in details) == is_shown
    assert bool(details) == is_shown


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("started", "elastic", "folder_is_there", "said"),
    [(True, False, True, 0), (True, False, False, 1), (True, True, True, 1), (False, False, True, 1)],
)
def test_an_error_is_told_once(monkeypatch, tmp_path, capfd, rank, started, elastic, folder_is_there, said):
    """By the launcher, if there is one of ours; by the rank itself if not, or if the others go on without it."""
    monkeypatch.setattr(ranks, "detect", lambda: ranks.Launch(rank, 2))
    monkeypatch.setattr(error_report, "_PATIENCE", 0.0)
    for name, value in ((ranks.REPORTS, started), (ranks.ELASTIC, elastic)):
        monkeypatch.delenv(name, raising=False)
        if value:
            monkeypatch.setenv(name, str(tmp_path / ("there" if folder_is_there else "gone")))
    (tmp_path / "there").mkdir()

    def fail():
        raise TrainingError("no luck")

    assert cli._guarded(fail) == 1
    assert capfd.readouterr().err == "error: no luck\n" * said
    assert (tmp_path / "there" / f"rank-{rank}.txt").exists() == (started and folder_is_there)
