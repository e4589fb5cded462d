"""Files of PyTorch's exporters, with what PyTorch computes: read, written anew, read again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from judge import DATA, difference, load, values

NAMES = sorted(path.stem for path in DATA.glob("*.onnx"))


@pytest.mark.thinned(5)
@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_pytorch(name: str, tmp_path: Path) -> None:
    network = load(DATA / f"{name}.onnx")
    with np.load(DATA / f"{name}.npz") as data:
        x, y = data["x"].astype(np.float32), data["y"]
    if name.startswith("lstm-last"):  # steps come first there
        x = x.swapaxes(0, 1)
    (output,) = network.roots["output"]
    assert output.name == "y"
    found = values(network, {network.inputs[0].name: x}, ["y"])["y"]
    np.testing.assert_allclose(np.asarray(found).reshape(y.shape), y, atol=1e-5)
    assert difference(network, tmp_path / "again.onnx") < 1e-5


def test_weights_keep_their_names_and_are_learned() -> None:
    network = load(DATA / "resnet.script.onnx")
    learned = {parameter.name for parameter in network.parameters if parameter.learned}
    assert "fc.weight" in learned
    normalized = load(DATA / "normalized.script.onnx")
    statistics = [node for node in normalized.parameters if "running" in node.name]
    assert len(statistics) == 4
    assert not any(node.learned for node in statistics)
