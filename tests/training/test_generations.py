"""Names of models and checkpoints: what is there when the power goes while they are removed."""

from __future__ import annotations

from cntk_kit_recipes.session import generations
from cntk_kit_recipes.session.generations import ModelPaths, checkpoint_of


def test_a_model_is_gone_for_good_before_its_checkpoint_is_removed(tmp_path, monkeypatch):
    """A model without a checkpoint is one that never had any: training would go on from it with a new learner."""
    paths = ModelPaths(tmp_path / "net", 9)
    model = paths.model(3)
    for file in (model, checkpoint_of(model)):
        file.write_text("text")
    seen = []
    monkeypatch.setattr(
        generations, "sync_folder", lambda folder: seen.append((folder, model.exists(), checkpoint_of(model).exists()))
    )
    paths.remove_epoch(3)
    assert seen == [(tmp_path, False, True)]
    assert not checkpoint_of(model).exists()
