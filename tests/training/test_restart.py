"""Restarts: which files training goes on from, and what it says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from small import Lines, make_session

from cntk_core.network.files import remove


def train(folder: Path, epochs: int, **changes) -> Lines:
    lines = Lines()
    make_session(folder, lines, max_epochs=epochs, **changes).run()
    return lines


def stop_after(folder: Path, epochs: int, **changes) -> None:
    """Leave what a longer training would leave if it were stopped after some epochs."""
    train(folder, epochs, **changes)
    (folder / "net.dnn").replace(folder / f"net.dnn.{epochs}")
    (folder / "net.dnn.ckp").replace(folder / f"net.dnn.{epochs}.ckp")


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("straight")
    train(folder, 4)
    return (folder / "net.dnn").read_bytes()


def starts(lines: Lines) -> list[str]:
    return [line.split(":")[0] for line in lines.with_text("Starting Epoch")]


def test_a_restart_ends_in_the_same_bytes(tmp_path, straight):
    stop_after(tmp_path, 2)
    lines = train(tmp_path, 4)
    assert (tmp_path / "net.dnn").read_bytes() == straight
    assert starts(lines) == ["Starting Epoch 3", "Starting Epoch 4"]
    assert f"Starting from checkpoint. Loading network from '{tmp_path}/net.dnn.2'." in lines.all
    assert f"Restored from '{tmp_path}/net.dnn.2.ckp': 2 epochs, 86 samples, smoothed_gradient." in lines.all
    assert "totalSamplesSeen = 172;" in lines.with_text("[Training]")[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "net.dnn", "net.dnn.0", "net.dnn.1", "net.dnn.2", "net.dnn.3", "net.dnn.checkpoints", "net.dnn.ckp",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "changes", [{"use_nag": True}, {"gaussian_noise_inject_std": 0.1}, {"epoch_size": 30}, {"l1_reg_weight": 0.01}]
)
def test_so_does_one_with_other_rules(tmp_path, changes):
    train(tmp_path / "a", 3, **changes)
    stop_after(tmp_path / "b", 1, **changes)
    train(tmp_path / "b", 3, **changes)
    assert (tmp_path / "a/net.dnn").read_bytes() == (tmp_path / "b/net.dnn").read_bytes()


def test_nothing_is_done_twice(tmp_path):
    train(tmp_path, 2)
    before = (tmp_path / "net.dnn").read_bytes()
    assert train(tmp_path, 2).all == [
        f"Final model exists: {tmp_path}/net.dnn",
        "No further training is necessary.",
    ]
    assert (tmp_path / "net.dnn").read_bytes() == before


def test_more_epochs_than_the_final_model_has(tmp_path, straight):
    train(tmp_path, 2)
    assert train(tmp_path, 4).all == [
        f"Final model exists: {tmp_path}/net.dnn",
        "It was trained for 2 of 4 epochs. Give resume=auto to go on from there.",
        "No further training is necessary.",
    ]
    lines = train(tmp_path, 4, resume=True)
    assert starts(lines) == ["Starting Epoch 3", "Starting Epoch 4"]
    assert (tmp_path / "net.dnn").read_bytes() == straight


def test_without_the_final_model_the_last_epoch_is_trained_again(tmp_path, straight):
    train(tmp_path, 4, keep_check_point_files=True)
    (tmp_path / "net.dnn").unlink()
    remove(tmp_path / "net.dnn.ckp")
    lines = train(tmp_path, 4, keep_check_point_files=True)
    assert starts(lines) == ["Starting Epoch 4"]
    assert (tmp_path / "net.dnn").read_bytes() == straight
    assert sorted(path.name for path in tmp_path.glob("*.ckp")) == [
        "net.dnn.1.ckp", "net.dnn.2.ckp", "net.dnn.3.ckp", "net.dnn.ckp",
    ]  # fmt: skip


def test_without_a_checkpoint_the_momentum_starts_anew(tmp_path, straight):
    stop_after(tmp_path, 2)
    remove(tmp_path / "net.dnn.2.ckp")
    lines = train(tmp_path, 4)
    warning = "Warning: Checkpoint file is missing. Parameter-learning state (such as momentum) will be reset."
    assert warning in lines.all
    assert "totalSamplesSeen = 43;" in lines.with_text("[Training]")[0]
    assert (tmp_path / "net.dnn").read_bytes() != straight


def test_an_initial_model_is_gone_on_from(tmp_path):
    train(tmp_path, 1)
    (tmp_path / "net.dnn").unlink()
    remove(tmp_path / "net.dnn.ckp")
    lines = train(tmp_path, 1, seed=99)
    assert f"Starting from checkpoint. Loading network from '{tmp_path}/net.dnn.0'." in lines.all
    assert not lines.with_text("Warning")


def test_without_make_mode_training_begins_anew(tmp_path):
    train(tmp_path, 2)
    lines = train(tmp_path, 3, make_mode=False)
    assert starts(lines) == ["Starting Epoch 1", "Starting Epoch 2", "Starting Epoch 3"]
    first, last = (
        f"makeMode=false: training begins anew. The files of an earlier training of '{tmp_path}/net.dnn' are removed "
        "when the first model of this one is saved.",
        f"makeMode=false: removed 3 files of an earlier training of '{tmp_path}/net.dnn'.",
    )
    begins = lines.all.index(lines.with_text("Starting Epoch 1")[0])
    assert lines.all.index(first) < begins < lines.all.index(last)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "net.dnn", "net.dnn.0", "net.dnn.1", "net.dnn.2", "net.dnn.checkpoints", "net.dnn.ckp",
    ]  # fmt: skip


def arrays_of(checkpoint: Path) -> Path:
    generation = json.loads(checkpoint.read_text())["generation"]
    return checkpoint.parent / generation / "arrays.safetensors"


def damage(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def leave_three_generations(folder: Path) -> None:
    train(folder, 4, keep_check_point_files=True)
    (folder / "net.dnn").unlink()
    remove(folder / "net.dnn.ckp")


def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, straight):
    leave_three_generations(tmp_path)
    damage(arrays_of(tmp_path / "net.dnn.3.ckp"))
    lines = train(tmp_path, 4)
    assert (
        f"Warning: the checkpoint '{tmp_path}/net.dnn.3.ckp' is damaged: "
        "the SHA-256 of 'arrays.safetensors' does not match" in lines.all
    )
    assert starts(lines) == ["Starting Epoch 3", "Starting Epoch 4"]
    assert (tmp_path / "net.dnn").read_bytes() == straight


def test_a_damaged_model_comes_back_from_its_checkpoint(tmp_path, straight):
    leave_three_generations(tmp_path)
    damage(tmp_path / "net.dnn.3")
    lines = train(tmp_path, 4)
    assert (
        f"Warning: '{tmp_path}/net.dnn.3' is damaged: its SHA-256 checksum does not match its contents; "
        "its parameters come from the checkpoint" in lines.all
    )
    assert starts(lines) == ["Starting Epoch 4"]
    assert (tmp_path / "net.dnn").read_bytes() == straight


def test_a_damaged_generation_falls_back_to_the_one_before(tmp_path, straight):
    leave_three_generations(tmp_path)
    damage(tmp_path / "net.dnn.3")
    damage(arrays_of(tmp_path / "net.dnn.3.ckp"))
    assert starts(train(tmp_path, 4)) == ["Starting Epoch 3", "Starting Epoch 4"]
    assert (tmp_path / "net.dnn").read_bytes() == straight


def test_if_no_checkpoint_is_sound_the_newest_model_is_taken(tmp_path):
    leave_three_generations(tmp_path)
    for epoch in (1, 2, 3):
        damage(arrays_of(tmp_path / f"net.dnn.{epoch}.ckp"))
    lines = train(tmp_path, 4)
    assert starts(lines) == ["Starting Epoch 4"]
    assert lines.with_text("Checkpoint file is not usable. Parameter-learning state (such as momentum) will be reset.")


def test_a_checkpoint_of_another_epoch_is_not_used(tmp_path):
    leave_three_generations(tmp_path)
    remove(tmp_path / "net.dnn.3.ckp")
    shutil.copy(tmp_path / "net.dnn.1.ckp", tmp_path / "net.dnn.3.ckp")
    lines = train(tmp_path, 4)
    assert f"Warning: the checkpoint '{tmp_path}/net.dnn.3.ckp' is of epoch 1, not of epoch 3" in lines.all
    assert starts(lines) == ["Starting Epoch 3", "Starting Epoch 4"]


def test_other_settings_are_noticed(tmp_path):
    stop_after(tmp_path, 1)
    lines = train(tmp_path, 2, l2_reg_weight=0.5, seed=3)
    at = lines.all.index(
        "Warning: the recipe is not the one that the checkpoint was written with; it counts from now on:"
    )
    assert lines.all[at + 1] == "    SGD.L2RegWeight: was 0.0, is 0.5"
    assert not lines.all[at + 2].startswith("    ")
    assert "Warning: the random seed was 0, now it is 3." in lines.all


def test_two_generations_are_kept_while_training_runs(tmp_path):
    seen: list[list[str]] = []

    class Watcher:
        def listeners(self, name):
            def look(**told):
                seen.append(sorted(path.name for path in tmp_path.glob("*.ckp")))
                assert len(list((tmp_path / "net.dnn.checkpoints").iterdir())) == len(seen[-1])

            return [look] if name == "cntk_checkpoint_saved" else []

    train(tmp_path, 4, hooks=Watcher())
    assert seen == [
        ["net.dnn.1.ckp"],
        ["net.dnn.1.ckp", "net.dnn.2.ckp"],
        ["net.dnn.2.ckp", "net.dnn.3.ckp"],
        ["net.dnn.ckp"],
    ]


def test_a_disk_that_fills_up_leaves_the_old_generation(tmp_path, straight, monkeypatch):
    from cntk_core.errors import TrainingError
    from cntk_core.network import files

    stop_after(tmp_path, 2)
    with monkeypatch.context() as patch:

        def full(file, chunks):
            file.write(b"half")
            raise OSError(28, "No space left on device")

        patch.setattr(files, "_write", full)
        with pytest.raises(TrainingError, match="No space left on device"):
            train(tmp_path, 4)
    names = ["net.dnn.0", "net.dnn.1", "net.dnn.2", "net.dnn.2.ckp", "net.dnn.checkpoints"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert len(list((tmp_path / "net.dnn.checkpoints").iterdir())) == 1
    assert starts(train(tmp_path, 4)) == ["Starting Epoch 3", "Starting Epoch 4"]
    assert (tmp_path / "net.dnn").read_bytes() == straight


def test_removing_a_checkpoint_removes_its_contents_at_the_next_start(tmp_path):
    stop_after(tmp_path, 1)
    (tmp_path / "net.dnn.1.ckp").unlink()
    folder = tmp_path / "net.dnn.checkpoints"
    assert len(list(folder.iterdir())) == 1
    seen: list[bool] = []

    class Watcher:
        def listeners(self, name):
            return [lambda **told: seen.append(folder.exists())] if name == "cntk_job_begin" else []

    train(tmp_path, 2, hooks=Watcher())
    assert seen == [False]


def test_checkpoints_of_other_models_in_the_folder_stay(tmp_path):
    stop_after(tmp_path, 1)
    (tmp_path / "net.dnn.1").replace(tmp_path / "other")
    (tmp_path / "net.dnn.1.ckp").replace(tmp_path / "other.ckp")
    train(tmp_path, 2)
    assert arrays_of(tmp_path / "other.ckp").is_file()
    (tmp_path / "foreign.ckp").write_bytes(b"B\0C\0K\0P\0")
    train(tmp_path, 2, make_mode=False)
    assert arrays_of(tmp_path / "net.dnn.ckp").is_file()
