"""Checkpoints inside an epoch: a run that is stopped between two minibatches ends in the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import attrs
import numpy as np
import pytest
from killed_run import RECIPES
from small import Lines, ListReader, make_data, make_network, make_session, settings

from cntk_core.contract.reader import EpochSpec
from cntk_core.errors import CntkError
from cntk_core.records.minibatch import Minibatch
from cntk_kit_recipes.session.generations import ModelPaths
from cntk_kit_recipes.session.periodic_saving import InsideKeeper
from cntk_kit_recipes.session.run_log import RunLog
from cntk_testing.reference import ReferenceEngine, ReferenceProgram

GIVEN = {
    "dropout_rate": 0.25,
    "gaussian_noise_inject_std": 0.01,
    "minibatch_size": 8,
    "max_epochs": 4,
    "checkpoint_every_samples": 8,
    "network": partial(make_network, normalized=True, dropout=True),
}
OTHERS = {
    **RECIPES,
    "parts": {"num_subminibatches": 2},
    "epoch_size": {"epoch_size": 30},
    "norm": {"clipping_threshold_per_sample": 0.1, "gradient_clipping_with_truncation": False},
    "rare": {"checkpoint_every_samples": 17, "num_mbs_to_show_result": 3},
}
RECIPE_CHANGED = "Warning: the recipe is not the one that the checkpoint was written with; it counts from now on:"


class Stop(BaseException):
    """Ends a run as somebody at the keyboard would."""


@attrs.define
class StopAfter:
    """A listener that ends the run after so many minibatches."""

    minibatches: int

    def listeners(self, name):
        def count(**told):
            self.minibatches -= 1
            if self.minibatches == 0:
                raise Stop

        return [count] if name == "cntk_minibatch_end" else []


def train(folder: Path, lines: Lines | None = None, **changes) -> Lines:
    lines = lines or Lines()
    make_session(folder, lines, **{**GIVEN, **changes}).run()
    return lines


def stop_in(folder: Path, minibatches: int, **changes) -> Lines:
    lines = Lines()
    with pytest.raises(Stop):
        train(folder, lines, hooks=StopAfter(minibatches), **changes)
    return lines


def model(folder: Path) -> bytes:
    return (folder / "net.dnn").read_bytes()


def without_times(lines: Lines) -> list[str]:
    """What the log says of learning, from the second epoch on."""
    kept = [line for line in lines.all if "Minibatch[" in line or "[Training]" in line]
    return [line.split("time = ")[0].split("epochTime=")[0] for line in kept]


@pytest.mark.parametrize("recipe", OTHERS)
@pytest.mark.sampled(4, later=2)
def test_a_run_that_is_stopped_ends_in_the_same_bytes(tmp_path, recipe):
    changes = OTHERS[recipe]
    unsaved = {**changes, "checkpoint_every_samples": 0}
    straight = train(tmp_path / "straight", **unsaved)
    for minibatches in (1, 6, 11) if recipe == "sizes" else (1, 3, 9, 14):  # sizes grow, so that there are fewer
        folder = tmp_path / str(minibatches)
        stop_in(folder, minibatches, **changes)
        lines = train(folder, **(changes if minibatches == 3 else unsaved))
        assert model(folder) == model(tmp_path / "straight"), minibatches
        assert without_times(straight)[-len(without_times(lines)) :] == without_times(lines)
        assert not list(folder.glob("net.dnn.*.*.ckp"))
        assert len(list((folder / "net.dnn.checkpoints").iterdir())) == 1


def test_what_it_says_and_leaves(tmp_path):
    stop_in(tmp_path, 10)
    assert sorted(path.name for path in tmp_path.glob("*.ckp")) == [
        "net.dnn.1.2.ckp", "net.dnn.1.3.ckp", "net.dnn.1.ckp",
    ]  # fmt: skip
    lines = train(tmp_path)
    assert (
        f"Restored from '{tmp_path}/net.dnn.1.3.ckp': 1 epochs, 43 samples, 3 minibatches of the next epoch, "
        "smoothed_gradient." in lines.all
    )
    assert "Epoch[ 2 of 4]-Minibatch[   3-   4" in lines.with_text("Minibatch[")[0]


def test_a_damaged_one_is_passed_over(tmp_path):
    train(tmp_path / "straight")
    folder = tmp_path / "stopped"
    stop_in(folder, 10)
    pointer = json.loads((folder / "net.dnn.1.3.ckp").read_text())
    arrays = folder / pointer["generation"] / "arrays.safetensors"
    content = bytearray(arrays.read_bytes())
    content[-1] ^= 1
    arrays.write_bytes(content)
    lines = train(folder)
    assert (
        f"Warning: the checkpoint '{folder}/net.dnn.1.3.ckp' is damaged: "
        "the SHA-256 of 'arrays.safetensors' does not match" in lines.all
    )
    assert lines.with_text(f"Restored from '{folder}/net.dnn.1.2.ckp'")
    assert model(folder) == model(tmp_path / "straight")


def test_one_of_another_place_is_passed_over(tmp_path):
    train(tmp_path / "straight")
    folder = tmp_path / "stopped"
    stop_in(folder, 10)
    (folder / "net.dnn.1.3.ckp").rename(folder / "net.dnn.1.4.ckp")
    lines = train(folder)
    assert f"Warning: the checkpoint '{folder}/net.dnn.1.4.ckp' is of another place in training" in lines.all
    assert model(folder) == model(tmp_path / "straight")


def test_a_damaged_model_before_it(tmp_path):
    train(tmp_path / "straight")
    folder = tmp_path / "stopped"
    stop_in(folder, 10)
    (folder / "net.dnn.1").write_bytes(b"nothing")
    lines = train(folder)
    assert lines.with_text("its parameters come from the checkpoint")
    assert lines.with_text("3 minibatches of the next epoch")
    assert model(folder) == model(tmp_path / "straight")


def test_an_epoch_of_another_size_begins_again(tmp_path):
    stop_in(tmp_path, 10)
    lines = train(tmp_path, epoch_size=24)
    assert (
        f"Warning: the checkpoint '{tmp_path}/net.dnn.1.3.ckp' inside epoch 2 is not used: "
        "the epoch has other minibatches now (SGD.epochSize: was 0, is 24)" in lines.all
    )
    assert lines.with_text(f"Restored from '{tmp_path}/net.dnn.1.ckp'")
    assert lines.with_text("Epoch[ 2 of 4]-Minibatch[   1-   2")


def test_other_data_are_noticed(tmp_path):
    stop_in(tmp_path, 10)
    with pytest.raises(CntkError) as caught:
        train(tmp_path, reader=ListReader(make_data(11)))
    assert str(caught.value) == (
        "the data are not those of the checkpoint: it had read 24 samples of the epoch in 3 minibatches, "
        "now these have 11\n"
        "    Give the data that training began with, or remove the checkpoints inside the epoch (MODEL.n.m.ckp) to "
        "begin the epoch again."
    )


class Sparing(ListReader):
    """Gives nothing of what was learned. The second minibatch cannot be read: its samples count in the third one."""

    spared = 0

    def minibatches(self, epoch: EpochSpec) -> Iterator[Minibatch]:
        left, lost = epoch.learned_samples, 0
        for number, whole in enumerate(super().minibatches(epoch)):
            if whole.samples <= left:
                left -= whole.samples
                self.spared += 1
                yield Minibatch({}, whole.samples)
            elif number == 1:
                lost = whole.samples
            else:
                yield attrs.evolve(whole, samples=whole.samples + lost)
                lost = 0


def test_what_was_learned_is_not_read_again(tmp_path):
    train(tmp_path / "straight", reader=Sparing())
    folder, reader = tmp_path / "stopped", Sparing()
    stop_in(folder, 8, reader=Sparing())
    lines = train(folder, reader=reader)
    assert lines.with_text("2 minibatches of the next epoch")
    assert reader.spared == 3
    assert model(folder) == model(tmp_path / "straight")


def test_a_new_rate_counts_at_once_and_a_new_size_from_the_next_epoch_on(tmp_path):
    stop_in(tmp_path, 10)
    lines = train(tmp_path, learning_rates_per_sample=0.5, minibatch_size=16)
    at = lines.all.index(RECIPE_CHANGED)
    assert lines.all[at + 1 : at + 3] == [
        "    SGD.minibatchSize: was 8, is 16",
        "    SGD.learningRatesPerSample: was 0.0625, is 0.5",
    ]
    assert "learning rate per sample = 0.500000" in lines.with_text("Starting Epoch 2")[0]
    assert len([line for line in lines.with_text("Minibatch[") if "Epoch[ 2 of" in line]) == 2
    assert len([line for line in lines.with_text("Minibatch[") if "Epoch[ 3 of" in line]) == 1


def test_an_earlier_life_is_no_start(tmp_path):
    """Somebody removed the models from an epoch on; what lies inside later epochs must not come back."""
    train(tmp_path / "straight", learning_rates_per_sample=0.125)
    folder = tmp_path / "stopped"
    stop_in(folder, 10, learning_rates_per_sample=0.5)
    for name in ("net.dnn.1", "net.dnn.1.ckp"):
        (folder / name).unlink()
    stop_in(folder, 5, learning_rates_per_sample=0.125)
    assert sorted(path.name for path in folder.glob("*.ckp")) == ["net.dnn.0.3.ckp", "net.dnn.0.4.ckp"]
    train(folder, learning_rates_per_sample=0.125)
    assert model(folder) == model(tmp_path / "straight")


def test_without_make_mode_those_of_an_earlier_training_go(tmp_path):
    stop_in(tmp_path, 10, learning_rates_per_sample=0.5)
    stop_in(tmp_path, 2, make_mode=False)
    assert sorted(path.name for path in tmp_path.glob("*.ckp")) == ["net.dnn.0.1.ckp"]
    assert not (tmp_path / "net.dnn.1").exists()


def test_one_beyond_a_final_model(tmp_path):
    train(tmp_path / "straight")
    folder = tmp_path / "stopped"
    train(folder, max_epochs=2)
    stop_in(folder, 4, resume=True)
    lines = train(folder, resume=True)
    assert lines.with_text(f"Restored from '{folder}/net.dnn.2.3.ckp'")
    assert model(folder) == model(tmp_path / "straight")


def test_values_that_are_not_numbers_are_not_saved(tmp_path):
    data = make_data()
    data["features"][20, 0] = np.nan
    with pytest.raises(CntkError):
        train(tmp_path, Lines(), reader=ListReader(data), num_mbs_to_show_result=0, network=make_network)
    assert sorted(path.name for path in tmp_path.glob("*.ckp")) == ["net.dnn.0.1.ckp", "net.dnn.0.2.ckp"]


def test_an_engine_that_cannot_tell_its_state(tmp_path, monkeypatch):
    monkeypatch.setattr(ReferenceProgram, "state", lambda self: None)
    lines = train(tmp_path, engine=ReferenceEngine())
    assert (
        lines.with_text("Warning")
        == ["Warning: this engine cannot be saved inside an epoch; checkpoints are of whole epochs."] * 4
    )


def test_a_disk_that_is_full_does_not_end_training(tmp_path, monkeypatch):
    import cntk_kit_recipes.session.saving as module

    train(tmp_path / "straight")
    real = module.save_checkpoint

    def full(path, *given, **more):
        if more.get("position") is not None:
            raise OSError(28, "No space left on device")
        real(path, *given, **more)

    monkeypatch.setattr(module, "save_checkpoint", full)
    lines = train(tmp_path / "full", max_epochs=4)
    assert lines.with_text("Warning")[0] == (
        f"Warning: the checkpoint '{tmp_path}/full/net.dnn.0.1.ckp' cannot be saved: No space left on device. "
        "Training goes on, and earlier checkpoints are untouched. Make room, or give another modelPath."
    )
    assert model(tmp_path / "full") == model(tmp_path / "straight")


def test_by_the_clock():
    now = [100.0]
    saved: list[int] = []

    class Store:
        values = np.zeros(1)

    keeper = InsideKeeper(
        lambda position: saved.append(position.read), Store(), RunLog(Lines()), seconds=60.0, clock=lambda: now[0]
    )
    due = []
    for seconds in (100.0, 159.9, 160.0):
        now[0] = seconds
        due.append(keeper.is_due(1))
    assert due == [False, False, True]


@pytest.mark.parametrize(("read", "due"), [(99, False), (100, True), (199, True), (40, False)])
def test_by_samples(read, due):
    keeper = InsideKeeper(lambda position: None, None, RunLog(Lines()), samples=100, read=30)
    assert keeper.is_due(read) == due


def test_what_all_ranks_have_read_counts():
    class Store:
        values = np.zeros(1)

    @attrs.frozen
    class Place:
        read: int = 35
        read_by_all: int = 105
        sums: dict = attrs.field(factory=dict)
        totals: dict = attrs.field(factory=dict)

        @property
        def program(self):
            return self

    keeper = InsideKeeper(lambda position: True, Store(), RunLog(Lines()), samples=100)
    assert keeper.is_due(105)
    assert keeper.keep(Place())
    assert not keeper.is_due(140)
    assert keeper.is_due(210)


def test_minutes_are_minutes(tmp_path):
    lines = train(tmp_path, checkpoint_every_samples=0, checkpoint_every_minutes=1e-9)
    assert len(lines.with_text("Saving checkpoint '")) == 24  # 6 minibatches in each of 4 epochs


def test_names(tmp_path):
    paths = ModelPaths(tmp_path / "net", 9)
    for name in ("net.0.12.ckp", "net.3.1.ckp", "net.3.ckp", "net.3.0.ckp", "other.3.1.ckp", "net.10.2.ckp"):
        (tmp_path / name).touch()
    assert paths.existing_inside() == [(10, 2), (3, 1), (0, 12)]
    assert paths.existing() == [3]


def test_settings_that_only_say_when_to_save_make_no_difference(tmp_path):
    first = make_session(tmp_path, checkpoint_every_samples=5)
    other = make_session(tmp_path, checkpoint_every_minutes=5.0, max_epochs=9)
    assert first.parts.recipe == other.parts.recipe
    assert settings(checkpoint_every_samples=5).checkpoint_every_samples == 5
