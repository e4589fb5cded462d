"""One generation of a checkpoint: complete, verified, and nothing less."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from small import make_network

from cntk_core.contract.learner import Slot
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import CheckpointError
from cntk_core.training.files import checkpoint as ckp

PROGRESS = ckp.Progress(epochs=2, samples=86, epoch_samples=43, learning_rate=0.1, criterion=1.5, seed=4, settings="ab")


def stored():
    network = make_network(normalized=True)
    for name in ("mean", "invStdDev"):
        network[name].value = np.arange(4.0)
    store = ParameterStore(network.parameters, np.float64)
    store.add_slots([Slot("smoothed"), Slot("scratch")])
    for parameter in store.parameters:
        store.slot("smoothed", parameter)[...] = store.value(parameter) * 2
    return network, store


@pytest.fixture
def path(tmp_path):
    network, store = stored()
    made = tmp_path / "net.dnn.2.ckp"
    ckp.save_checkpoint(made, tmp_path / "net.dnn.checkpoints", network, store, PROGRESS, leave_out=("scratch",))
    return made


def generation(path):
    return path.parent / json.loads(path.read_text())["generation"]


def change_manifest(path, text) -> None:
    """Change the manifest of a generation and seal it again."""
    manifest = generation(path) / "manifest.json"
    manifest.write_text(text)
    pointer = json.loads(path.read_text())
    path.write_text(json.dumps({**pointer, "sha256": hashlib.sha256(manifest.read_bytes()).hexdigest()}))


def test_everything_comes_back(path):
    found = ckp.load_checkpoint(path)
    assert found.progress == PROGRESS
    assert found.slots == ("smoothed",)
    network, store = stored()
    for slot in store.slots.values():
        slot.fill(0)
    assert ckp.restore_slots(found, store) == ("smoothed",)
    for parameter in store.parameters:
        np.testing.assert_array_equal(store.slot("smoothed", parameter), store.value(parameter) * 2)
    blank = make_network(normalized=True)
    for parameter in blank.parameters:
        parameter.value = None
    ckp.restore_values(found, blank)
    np.testing.assert_array_equal(blank["W0"].value, network["W0"].value)
    np.testing.assert_array_equal(blank["mean"].value, np.arange(4.0))


def test_a_learners_numbers_come_back_and_no_others_stay(tmp_path):
    network, store = stored()
    store.state = {"count": 1 / 3, "bias": 0.5}
    made = tmp_path / "net.dnn.2.ckp"
    ckp.save_checkpoint(made, tmp_path / "net.dnn.checkpoints", network, store, PROGRESS)
    store.state = {"count": 7.0, "later": 1.0}
    ckp.restore_store(ckp.load_checkpoint(made), store)
    assert store.state == {"count": 1 / 3, "bias": 0.5}


def test_checkpoints_of_the_first_releases(path):
    """They say nothing of steps, of adjusted rates, of recipes, of places inside epochs, or of ranks."""
    manifest = json.loads((generation(path) / "manifest.json").read_text())
    for name in ("steps", "control", "recipe", "inside", "ranks"):
        del manifest["progress"][name]
    change_manifest(path, json.dumps(manifest))
    found = ckp.load_checkpoint(path).progress
    assert found == PROGRESS
    assert (found.steps, found.control, found.recipe, found.inside, found.ranks) == (0, {}, {}, {}, {})


def test_a_generation_is_a_folder_with_two_files(path):
    folder = generation(path)
    assert folder.parent.name == "net.dnn.checkpoints"
    assert sorted(found.name for found in folder.iterdir()) == ["arrays.safetensors", "manifest.json"]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["progress"]["epochs"] == 2
    assert len(manifest["files"]["arrays.safetensors"]) == 64


def test_the_same_state_gives_the_same_generation(path, tmp_path):
    network, store = stored()
    ckp.save_checkpoint(
        tmp_path / "b.ckp", tmp_path / "net.dnn.checkpoints", network, store, PROGRESS, leave_out=["scratch"]
    )
    assert generation(tmp_path / "b.ckp") == generation(path)
    assert ckp.load_checkpoint(path).progress == PROGRESS


def test_generations_without_a_name_are_removed(path, tmp_path):
    folder = tmp_path / "net.dnn.checkpoints"
    for name in ("1-0123456789abcdef", "new.tmp"):
        (folder / name).mkdir()
    path.replace(tmp_path / "moved.ckp")
    ckp.remove_unnamed(folder)
    assert list(folder.iterdir()) == [generation(tmp_path / "moved.ckp")]
    (tmp_path / "moved.ckp").unlink()
    ckp.remove_unnamed(folder)
    assert not folder.exists()
    ckp.remove_unnamed(folder)


def test_nothing_is_removed_while_a_file_cannot_be_read(path, tmp_path):
    path.write_bytes(b"?")
    ckp.remove_unnamed(tmp_path / "net.dnn.checkpoints")
    assert len(list((tmp_path / "net.dnn.checkpoints").iterdir())) == 1


def refused(path) -> str:
    with pytest.raises(CheckpointError) as caught:
        ckp.load_checkpoint(path)
    return str(caught.value).replace(str(path), "P")


def test_what_is_missing(path, tmp_path):
    assert refused(tmp_path / "no") == "the checkpoint 'P' cannot be read: No such file or directory"
    (generation(path) / "arrays.safetensors").unlink()
    assert refused(path) == "the checkpoint 'P' is damaged: 'arrays.safetensors' is missing"
    (generation(path) / "manifest.json").unlink()
    assert refused(path) == "the checkpoint 'P' is damaged: its generation is missing"


@pytest.mark.parametrize("name", ["arrays.safetensors", "manifest.json"])
def test_a_flipped_bit_is_noticed(path, name):
    file = generation(path) / name
    content = file.read_bytes()
    at = len(content) - 9
    file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    assert refused(path) == f"the checkpoint 'P' is damaged: the SHA-256 of '{name}' does not match"


def test_a_newer_version(path):
    manifest = json.loads((generation(path) / "manifest.json").read_text())
    change_manifest(path, json.dumps({**manifest, "version": 9}))
    assert refused(path) == "the checkpoint 'P' has format version 9; this program reads 1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"progress": 3}, "its manifest makes no sense"),
        ({"progress": {"epochs": 2}}, "its manifest makes no sense"),
        ({"files": []}, "its manifest makes no sense"),
        ({"format": "x"}, "its manifest makes no sense"),
        ({"files": {"arrays.safetensors": "0" * 64, "../x": "0" * 64}}, "its manifest names other files"),
        ({"files": {}}, "its manifest names other files"),
    ],
)
def test_manifests_that_make_no_sense(path, change, message):
    manifest = json.loads((generation(path) / "manifest.json").read_text())
    change_manifest(path, json.dumps({**manifest, **change}))
    assert refused(path) == f"the checkpoint 'P' is damaged: {message}"


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_what_is_no_json(path, text):
    change_manifest(path, text)
    assert refused(path) == "the checkpoint 'P' is damaged: its manifest is not valid JSON"
    path.write_text(text)
    assert refused(path) == "the checkpoint 'P' is damaged: it is not valid JSON"


@pytest.mark.parametrize(
    "name",
    ["../secret", "a/b", "x.checkpoints/../b", "/etc.checkpoints/x", "x.checkpoints/.b", "x.checkpoints/a\\b", 3],
)
def test_a_generation_lies_where_generations_lie(path, name):
    path.write_text(json.dumps({**json.loads(path.read_text()), "generation": name}))
    assert refused(path) == "the checkpoint 'P' is damaged: it names no generation"


def test_a_file_that_is_no_object(path):
    path.write_text("[1]")
    assert refused(path) == "the checkpoint 'P' is damaged: it makes no sense"


def test_arrays_of_another_shape(path):
    found = ckp.load_checkpoint(path)
    network, store = stored()
    bad = ckp.Checkpoint(found.progress, {**found.arrays, "slot/smoothed/W0": np.zeros((5, 4))})
    with pytest.raises(CheckpointError) as caught:
        ckp.restore_slots(bad, store)
    assert str(caught.value) == "the checkpoint does not fit the model: smoothed of 'W0' is (5, 4), not (4, 5)"
    arrays = {name: array for name, array in found.arrays.items() if name != "value/b1"}
    with pytest.raises(CheckpointError) as caught:
        ckp.restore_values(ckp.Checkpoint(found.progress, arrays), network)
    assert str(caught.value) == "the checkpoint has no parameter 'b1'"


@pytest.mark.parametrize("files", [{}, {"other": ""}, {"../arrays": ""}, {".hidden": ""}, {"a\\b": ""}])
def test_a_manifest_that_names_other_files(path, files):
    manifest = json.loads((generation(path) / "manifest.json").read_text())
    known = manifest["files"] if files and "other" not in files else {}
    change_manifest(path, json.dumps({**manifest, "files": {**known, **files}}))
    with pytest.raises(CheckpointError) as caught:
        ckp.load_checkpoint(path)
    assert str(caught.value) == f"the checkpoint '{path}' is damaged: its manifest names other files"


@pytest.mark.parametrize("change", [{"files": []}, {"files": None}, {"progress": {}}, {"progress": 3}])
def test_a_manifest_that_makes_no_sense(path, change):
    manifest = json.loads((generation(path) / "manifest.json").read_text())
    change_manifest(path, json.dumps({**manifest, **change}))
    with pytest.raises(CheckpointError) as caught:
        ckp.load_checkpoint(path)
    assert str(caught.value) == f"the checkpoint '{path}' is damaged: its manifest makes no sense"
