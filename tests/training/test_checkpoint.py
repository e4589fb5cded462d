"""One generation of a checkpoint: complete, verified, and nothing less."""

from __future__ import annotations

import json

import numpy as np
import pytest
from small import make_network

from cntk_core.errors import CheckpointError
from cntk_core.interfaces.learner import Slot
from cntk_core.training import checkpoint as ckp
from cntk_core.training.store import ParameterStore

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
    ckp.save_checkpoint(tmp_path / "net.dnn.2.ckp", network, store, PROGRESS, leave_out=("scratch",))
    return tmp_path / "net.dnn.2.ckp"


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


def test_a_generation_is_a_folder_with_two_files(path):
    assert sorted(found.name for found in path.iterdir()) == ["arrays.safetensors", "manifest.json"]
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["progress"]["epochs"] == 2
    assert len(manifest["files"]["arrays.safetensors"]) == 64


def refused(path) -> str:
    with pytest.raises(CheckpointError) as caught:
        ckp.load_checkpoint(path)
    return str(caught.value).replace(str(path), "P")


def test_what_is_missing(path, tmp_path):
    assert refused(tmp_path / "no") == "the checkpoint 'P' has no manifest (No such file or directory)"
    (path / "arrays.safetensors").unlink()
    assert refused(path) == "the checkpoint 'P' is damaged: 'arrays.safetensors' is missing"
    (tmp_path / "file").write_bytes(b"x")
    assert refused(tmp_path / "file") == "the checkpoint 'P' is not a folder"


def test_a_flipped_bit_is_noticed(path):
    arrays = path / "arrays.safetensors"
    content = arrays.read_bytes()
    arrays.write_bytes(content[:-3] + bytes([content[-3] ^ 4]) + content[-2:])
    assert refused(path) == "the checkpoint 'P' is damaged: the SHA-256 of 'arrays.safetensors' does not match"


def test_a_newer_version(path):
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "version": 9}))
    assert refused(path) == "the checkpoint 'P' has format version 9; this program reads 1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"progress": 3}, "its manifest makes no sense"),
        ({"progress": {"epochs": 2}}, "its manifest makes no sense"),
        ({"files": []}, "its manifest makes no sense"),
        ({"files": {"arrays.safetensors": "0" * 64, "../x": "0" * 64}}, "its manifest names other files"),
        ({"files": {}}, "its manifest names other files"),
    ],
)
def test_manifests_that_make_no_sense(path, change, message):
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, **change}))
    assert refused(path) == f"the checkpoint 'P' is damaged: {message}"


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_manifests_that_are_no_json(path, text):
    (path / "manifest.json").write_text(text)
    assert refused(path) == "the checkpoint 'P' is damaged: its manifest is not valid JSON"


def test_a_manifest_that_is_no_object(path):
    (path / "manifest.json").write_text("[1]")
    assert refused(path) == "the checkpoint 'P' is damaged: its manifest makes no sense"


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
