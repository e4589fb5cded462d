"""A final model that was damaged is written again from its checkpoint, or the message says what to do."""

from __future__ import annotations

import pytest
from small import Lines, make_session

from cntk_core.errors import CheckpointError, TrainingError
from cntk_kit_recipes.locks.lock import Lock, Locked


@pytest.fixture
def model(tmp_path):
    """A final model with its checkpoint."""
    make_session(tmp_path, max_epochs=2).run()
    return tmp_path / "net.dnn"


def again(model, **changes) -> Lines:
    lines = Lines()
    make_session(model.parent, lines, **{"max_epochs": 2, **changes}).run()
    return lines


def flipped(raw: bytes, place: int) -> bytes:
    return raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda raw: flipped(raw, len(raw) - 5), "its SHA-256 checksum does not match its contents"),
        (lambda raw: flipped(raw, 300), None),
        (lambda raw: flipped(raw, 8), "it is no model any more"),
        (lambda raw: raw[:-1], "its SHA-256 checksum does not match its contents"),
        (lambda raw: raw[:100], None),
        (lambda raw: raw + b"x", "its SHA-256 checksum does not match its contents"),
        (lambda raw: b"", "it is no model any more"),
        (lambda raw: b"\0" * len(raw), "it is no model any more"),
    ],
)
def test_a_damaged_model_is_written_again(model, damage, said):
    sound = model.read_bytes()
    model.write_bytes(damage(sound))
    lines = again(model)
    assert model.read_bytes() == sound
    [warning] = lines.with_text("Warning")
    assert warning.endswith(f"; it is written again from its checkpoint '{model}.ckp'.")
    if said is not None:
        assert warning.startswith(f"Warning: '{model}' is damaged: {said};")
    assert lines.with_text("Final model exists")
    assert not again(model).with_text("Warning")
    assert not list(model.parent.glob("*.lock"))


def test_training_goes_on_from_a_damaged_model(model):
    sound = model.read_bytes()
    straight = again(model, max_epochs=3, resume=True)
    assert not straight.with_text("Warning")
    longer = model.read_bytes()
    assert longer != sound
    for path in model.parent.glob("net.dnn*"):
        if path.is_file():
            path.unlink()
    again(model)
    model.write_bytes(flipped(sound, len(sound) - 5))
    assert again(model, max_epochs=3, resume=True).with_text("it is written again from its checkpoint")
    assert model.read_bytes() == longer


def test_its_checkpoint_is_gone_too(model):
    (model.parent / "net.dnn.ckp").unlink()
    model.write_bytes(damaged := flipped(model.read_bytes(), 300))
    with pytest.raises(CheckpointError) as caught:
        again(model)
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"the final model cannot be used: '{model}' is damaged: its ")
    assert first.endswith(
        "; and its checkpoint cannot restore it: "
        f"the checkpoint '{model}.ckp' cannot be read: No such file or directory"
    )
    assert second == (
        f"    Bring back a copy of '{model}', or remove it: then the same command goes on from the newest model "
        "before it."
    )
    assert model.read_bytes() == damaged


def test_a_model_in_another_format_is_believed(model):
    """It has no checksum, and nothing here says that it was ever ours."""
    (model.parent / "net.dnn.ckp").unlink()
    model.write_bytes(b"a model of another program")
    assert again(model).with_text("Final model exists")


def test_a_new_training_does_not_look_at_it(model):
    sound = model.read_bytes()
    model.write_bytes(b"\0")
    assert not again(model, make_mode=False).with_text("Warning")
    assert model.read_bytes() == sound


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), Locked("somebody has it")])
def test_a_model_that_is_complete_may_belong_to_somebody_else(model, monkeypatch, error):
    """Its folder cannot be written, or another run writes there."""

    def take(self, **given):
        raise error

    monkeypatch.setattr(Lock, "take", take)
    assert again(model).with_text("No further training is necessary.")
    with pytest.raises(TrainingError):
        again(model, max_epochs=3, resume=True)


def test_a_run_that_has_nothing_to_do_tidies_up(model):
    (model.parent / "net.dnn.ckp").unlink()
    assert again(model).with_text("No further training is necessary.")
    assert not (model.parent / "net.dnn.checkpoints").exists()


def test_a_folder_in_the_place_of_the_model(tmp_path):
    (tmp_path / "net.dnn").mkdir()
    with pytest.raises(TrainingError) as caught:
        make_session(tmp_path, max_epochs=1).run()
    assert str(caught.value) == f"the model '{tmp_path / 'net.dnn'}' cannot be saved: it is a folder"
