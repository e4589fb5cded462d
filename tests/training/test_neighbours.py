"""Two trainings of which one would write an epoch's model where the other has its final one."""

from __future__ import annotations

import re

import pytest
from small import make_session

from cntk_core.errors import TrainingError
from cntk_kit_recipes.locks.lock import Lock
from cntk_kit_recipes.session.generations import ModelPaths
from cntk_kit_recipes.session.neighbours import check_names_of_epochs, check_own_name, epoch_of


def train(folder, name="net.dnn", **changes):
    session = make_session(folder, **{"max_epochs": 2, "name": name, **changes})
    return session.run()


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("make_mode", [True, False])
def test_the_final_model_of_another_training_is_no_epoch_of_this_one(tmp_path, make_mode):
    train(tmp_path, "net.1")
    before = contents(tmp_path)
    with pytest.raises(TrainingError) as caught:
        train(tmp_path, "net", make_mode=make_mode)
    one, other = tmp_path / "net", tmp_path / "net.1"
    assert str(caught.value) == (
        f"the model after epoch 1 of the training of '{one}' would have the name of '{other}', which is the modelPath "
        f"of another training\n    Give another modelPath than '{one}', or move the files of '{other}' elsewhere."
    )
    assert contents(tmp_path) == before


def test_an_epoch_of_another_training_is_not_taken_for_a_final_model(tmp_path):
    train(tmp_path, "net")
    before = contents(tmp_path)
    with pytest.raises(TrainingError) as caught:
        train(tmp_path, "net.1")
    assert str(caught.value) == (
        f"modelPath '{tmp_path / 'net.1'}' is the name of the model after epoch 1 of the training of "
        f"'{tmp_path / 'net'}'\n    Give another modelPath, such as '{tmp_path / 'net-1'}'."
    )
    assert contents(tmp_path) == before
    assert train(tmp_path, "net").trained == 0


def test_names_beyond_the_last_epoch_are_free(tmp_path):
    train(tmp_path, "net.2")
    assert train(tmp_path, "net").epochs == 2
    assert train(tmp_path, "net.2").trained == 0
    before = (tmp_path / "net.2").read_bytes()
    with pytest.raises(TrainingError, match=re.escape(f"would have the name of '{tmp_path / 'net.2'}'")):
        train(tmp_path, "net", make_mode=False)  # which removes the models of all epochs
    with pytest.raises(TrainingError, match=re.escape(f"would have the name of '{tmp_path / 'net.2'}'")):
        train(tmp_path, "net", max_epochs=3, resume=True)
    assert (tmp_path / "net.2").read_bytes() == before


def test_a_model_that_no_training_left_is_an_epoch_to_go_on_from(tmp_path):
    train(tmp_path, "elsewhere")
    (tmp_path / "elsewhere").rename(tmp_path / "net.1")
    assert train(tmp_path, "net").trained == 1


def test_a_training_that_goes_on_has_its_names(tmp_path):
    held, other = tmp_path / "net", tmp_path / "net.1"
    with Lock(held, "the model").held(), pytest.raises(TrainingError, match="is the name of the model after epoch 1"):
        check_own_name(other)
    with Lock(other, "the model").held():
        check_own_name(other)
        with pytest.raises(TrainingError, match="which is the modelPath of another training"):
            check_names_of_epochs(ModelPaths(held, 2), all_of_them=False)
        check_names_of_epochs(ModelPaths(held, 1), all_of_them=False)
    check_own_name(other)


def test_names(tmp_path):
    for name, other, epoch in (
        ("net.1", "net", 1),
        ("net.12", "net", 12),
        ("net.dnn.3", "net.dnn", 3),
        ("net.0", "net", None),
        ("net.01", "net", None),
        ("net.1", "neu", None),
        ("net.1", "net.1", None),
        ("net", "net", None),
        ("other/net.1", "net", None),
    ):
        assert epoch_of(tmp_path / name, tmp_path / other) == epoch
