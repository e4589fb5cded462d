"""Data that ``--check`` draws fit the network, and what is random by itself is left out by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_model_onnx.check import Difference, check, compare
from cntk_model_onnx.data import LONGEST, SHORTEST, RandomData
from cntk_model_onnx.export.choose import outputs_of
from cntk_model_onnx.settings import ExportSettings
from judge import difference, written

from cntk_core.api import DataError, Input, Network, Node, core_ops
from cntk_core.api.builders import BATCH
from cntk_testing.networks import Sketch

SETTINGS = ExportSettings()


def op(made: Sketch, kind: str, *inputs: Any, name: str = "", **settings: Any) -> Any:
    found = core_ops().find("", kind)
    assert found is not None
    return made.op(kind, *inputs, name=name, attributes=found.attributes(**settings))


def of_samples(made: Sketch, name: str, *shape: int) -> Node:
    return made.network.add(Input.make(name, shape, axis=BATCH))


def network_of(made: Sketch, *roots: Any) -> Network:
    network = made.finish(None, *roots).network
    network.roots["output"] = list(roots)
    return network


def drawn(network: Network) -> dict[str, Any]:
    return RandomData(network, network.roots["output"], SETTINGS, np.random.default_rng(1)).ours


def test_numbers_of_classes(tmp_path: Path) -> None:
    made = Sketch("float32")
    which = op(made, "Reshape", made.input("which", 1, 1), dims=(1,))
    table = made.parameter("table", 5, 2)
    network = network_of(made, op(made, "Gather", which, table), op(made, "OneHot", which, num_class=4))
    found = np.asarray(drawn(network)["which"])
    assert set(found.reshape(-1).tolist()) <= {0.0, 1.0, 2.0, 3.0}, "below the least of both"
    assert difference(network, tmp_path / "net.onnx") < 1e-6


def test_conditions_and_chosen_frames(tmp_path: Path) -> None:
    made = Sketch("float32")
    flag, frames = made.input("flag", 1), made.input("frames", 2)
    chosen = op(made, "GatherPacked", op(made, "PackedIndex", frames, op(made, "Where", flag)), frames)
    network = network_of(made, chosen, op(made, "If", flag, frames, op(made, "Negate", frames)))
    sequences = drawn(network)["flag"]
    assert all(set(one.reshape(-1).tolist()) <= {0.0, 1.0} for one in sequences)
    assert all(one[0] == 1 for one in sequences)
    assert difference(network, tmp_path / "net.onnx") < 1e-6


def test_lengths_that_an_axis_has_room_for(tmp_path: Path) -> None:
    made = Sketch("float32")
    frames = made.input("frames", 2)
    network = network_of(
        made, op(made, "Plus", op(made, "ToSequenceLike", of_samples(made, "x", 3, 2), frames), frames)
    )
    assert SHORTEST <= max(map(len, drawn(network)["frames"])) <= 3 < LONGEST - 1
    assert difference(network, tmp_path / "net.onnx") < 1e-6


def test_lengths_that_are_data(tmp_path: Path) -> None:
    made = Sketch("float32")
    network = network_of(made, op(made, "ToSequence", of_samples(made, "x", 4, 2), of_samples(made, "length", 1)))
    assert set(np.asarray(drawn(network)["length"]).reshape(-1).tolist()) <= {1.0, 2.0, 3.0, 4.0}
    assert difference(network, tmp_path / "net.onnx") < 1e-6


def test_regions_inside_of_the_image() -> None:
    made = Sketch("float32")
    pooled = op(made, "ROIPooling", made.input("x", 1, 8, 6), made.input("r", 9, 4), roi_output_shape=(2, 2))
    x1, y1, x2, y2 = np.moveaxis(np.asarray(drawn(network_of(made, pooled))["r"]), -1, 0)
    assert ((x1 <= x2) & (y1 <= y2) & (x2 <= 6 * 16) & (y2 <= 8 * 16)).all()
    assert (y2 > 6 * 16).any()


@pytest.mark.parametrize("quantize", ["none", "int8"])
def test_random_outputs_are_left_out_by_name(quantize: str, tmp_path: Path) -> None:
    made = Sketch("float32")
    x = made.input("x", 3)
    noise = op(made, "RandomDistribution", x, name="noise", type="normal", args=(0.0, 1.0))
    noisy, calm = op(made, "Plus", x, noise, name="noisy"), op(made, "Exp", x, name="calm")
    network, settings = network_of(made, noisy, calm), ExportSettings(quantize=quantize)
    path = written(network, tmp_path / "net.onnx", quantize=quantize)
    told = check(network, path, settings)
    assert told.startswith(f"{path}: onnxruntime differs by ")
    assert ", in 'calm' of up to " in told
    assert told.endswith("; random, and not compared: 'noisy'")
    network.roots["output"] = [noisy]
    told = check(network, written(network, path), SETTINGS)
    assert told == f"{path}: onnxruntime runs it; all of its outputs are random, and not compared: 'noisy'"


@pytest.mark.parametrize("far", [1e-4, 2e-3])
def test_the_output_that_is_furthest_off_for_its_size_is_told(
    far: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [Difference("large", 1e-2, 1e3), Difference("small", far, 0.5), Difference("same", 0.0, 1.0)]
    monkeypatch.setattr("cntk_model_onnx.check.compare", lambda *arguments: found)
    made = Sketch("float32")
    network, path = network_of(made, op(made, "Exp", made.input("x", 3))), tmp_path / "net.onnx"
    text = f"{path}: onnxruntime differs by {far:.2g} at most, in 'small' of up to 0.5"
    if far < 1e-3:
        assert check(network, path, SETTINGS) == text
        return
    with pytest.raises(DataError) as caught:
        check(network, path, SETTINGS)
    assert str(caught.value) == f"{text}\n    Please report the network; its file should not be used."
    assert check(network, path, ExportSettings(quantize="int8")) == text


def test_what_criteria_look_at_beside_what_others_did_is_an_output() -> None:
    made = Sketch("float32")
    x, labels = made.input("x", 3), made.input("labels", 3)
    plain, shares = op(made, "Exp", x, name="plain"), op(made, "Softmax", x, name="shares")
    criteria = [op(made, "SquareError", labels, one) for one in (plain, shares)]
    network = made.finish(None, *criteria).network
    network.roots["label"], network.roots["output"] = [labels], []
    network.roots["criterion"], network.roots["evaluation"] = criteria[:1], criteria[1:]
    assert outputs_of(network) == [plain, shares]


def test_samples_as_an_axis_and_back(tmp_path: Path) -> None:
    made = Sketch("float32")
    every = op(made, "UnpackBatch", made.input("x", 3), name="all")
    network = network_of(made, every, op(made, "ToBatch", op(made, "Exp", every), name="again"))
    assert difference(network, tmp_path / "net.onnx") < 1e-6


@pytest.mark.parametrize("sequences", ["batch", "one"])
def test_values_of_another_shape_differ(sequences: str, tmp_path: Path) -> None:
    """Although they are the same numbers."""
    row, column = Sketch("float32"), Sketch("float32")
    network = network_of(row, op(row, "Reshape", row.input("x", 3), dims=(1, 3)))
    other = network_of(column, op(column, "Reshape", column.input("x", 3), dims=(3, 1)))
    settings = ExportSettings.of({"sequences": sequences})
    path = written(other, tmp_path / "net.onnx", sequences=sequences)
    assert [each.largest for each in compare(other, path, settings)] == [0.0]
    assert [each.largest for each in compare(network, path, settings)] == [np.inf]


def values_drawn(network: Network, name: str) -> set[float]:
    """All numbers that an input gets with forty seeds."""
    outputs = network.roots["output"]
    drawn = (RandomData(network, outputs, SETTINGS, np.random.default_rng(seed)).ours[name] for seed in range(40))
    return {
        value
        for given in drawn
        for one in (given if isinstance(given, list) else [given])
        for value in np.asarray(one).reshape(-1).tolist()
    }


@pytest.mark.parametrize("room", [2, 4])
def test_all_lengths_that_there_is_room_for_are_drawn(room: int) -> None:
    made = Sketch("float32")
    network = network_of(made, op(made, "ToSequence", of_samples(made, "x", room, 2), of_samples(made, "length", 1)))
    assert values_drawn(network, "length") == set(range(1, room + 1))


def test_all_places_and_truths_that_may_be_asked_for_are_drawn() -> None:
    """Places are those of the shortest sequence."""
    places = {float(place) for place in range(SHORTEST)}
    made = Sketch("float32")
    frames, index = made.input("frames", 2), made.input("index", 1)
    picked = op(made, "GatherPacked", index, frames)
    assert values_drawn(network_of(made, picked), "index") == places
    made = Sketch("float32")
    target, index, parts = made.input("target", 2), made.input("index", 1), made.input("parts", 2)
    put = op(made, "ScatterPacked", target, index, parts)
    assert values_drawn(network_of(made, put), "index") == places
    made = Sketch("float32")
    table, which = made.parameter("table", 5, 2), made.input("which", 1)
    found = network_of(made, op(made, "Gather", op(made, "RowStack", which, which), table))
    assert values_drawn(found, "which") == {0, 1, 2, 3, 4}


def test_what_stands_behind_others_may_be_any_number() -> None:
    """Only of a stack all inputs become elements."""
    made = Sketch("float32")
    which, like = made.input("which", 1), made.input("like", 1)
    chosen = op(made, "Reshape", op(made, "ReconcileDynamicAxis", which, like), dims=(1,))
    drawn = values_drawn(network_of(made, op(made, "OneHot", chosen, num_class=3)), "which")
    assert drawn == {0, 1, 2}
