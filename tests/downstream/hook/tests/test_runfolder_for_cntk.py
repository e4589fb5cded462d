import json
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from runfolder_for_cntk import RunFolder

from cntk_core.api import EpochSummary, Job, JobOutcome


def test_the_wheel_offers_the_hooks() -> None:
    (entry,) = entry_points(group="cntk.hooks", name="runfolder")
    assert entry.load() is RunFolder


@pytest.mark.parametrize(("rank", "files"), [(0, ["epochs.jsonl", "outcome.json", "run.json"]), (1, [])])
def test_a_training(tmp_path: Path, rank: int, files: list[str]) -> None:
    hooks = RunFolder()
    hooks.cntk_job_begin(Job("Train", "train", model_path=tmp_path / "net", epochs=2, rank=rank, ranks=2))
    hooks.cntk_epoch_end(EpochSummary(0, 100, 10, {"ce": 0.5}))
    hooks.cntk_job_end(JobOutcome(True))
    assert sorted(path.name for path in tmp_path.glob("net.run/*")) == files
    if files:
        line = (tmp_path / "net.run/epochs.jsonl").read_text(encoding="utf-8")
        assert json.loads(line) == {"epoch": 0, "samples": 100, "ce": 0.5}


@pytest.mark.parametrize(("value", "reason"), [(1.0, None), (float("inf"), "ce is no number")])
def test_it_stops(value: float, reason: str | None) -> None:
    assert RunFolder().cntk_should_stop(EpochSummary(0, 1, 1, {"ce": value})) == reason
