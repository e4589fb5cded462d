"""A training goes on with another engine: the same minibatches, dropped values, averages and smoothed gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cntk_core.training.files.checkpoint import load_checkpoint
from cntk_kit_recipes.cli import main

RECIPE = """
command = Train
deviceId = cpu
precision = double
Train = [
    action = train
    BrainScriptNetworkBuilder = {
        features = Input (6)
        labels = Input (3, tag = 'label')
        h = Dropout (Sigmoid (BatchNormalizationLayer {} (LinearLayer {20} (features))))
        z = LinearLayer {3} (h)
        ce = CrossEntropyWithSoftmax (labels, z, tag = 'criterion')
    }
    SGD = [ minibatchSize = 16 ; learningRatesPerSample = 0.01 ; momentumPerMB = 0.9 ; dropoutRate = 0.3 ]
    reader = [
        file = data.txt
        input = [ features = [ dim = 6 ; format = dense ] ; labels = [ dim = 3 ; format = dense ] ]
    ]
]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    random = np.random.default_rng(8)
    rows = [
        f"|features {' '.join(f'{value:.3f}' for value in x)} |labels {' '.join(map(str, np.eye(3, dtype=int)[label]))}"
        for x, label in zip(random.normal(size=(100, 6)), random.integers(0, 3, 100), strict=True)
    ]
    (tmp_path / "data.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "r.cntk").write_text(RECIPE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(name: str, *engines: str) -> dict[str, np.ndarray]:
    """Train an epoch with each engine in turn."""
    for epoch, engine in enumerate(engines, 1):
        given = [f"modelPath={name}", f"engine={engine}", "resume=auto", f"Train=[SGD=[maxEpochs={epoch}]]"]
        assert main(["configFile=r.cntk", *given]) == 0
    return load_checkpoint(Path(f"{name}.ckp")).arrays


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_engines_take_turns():
    pytest.importorskip("jax")
    expected = train("alone", "cpu", "cpu", "cpu")
    found = train("turns", "cpu", "xla", "cpu")
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-9, atol=1e-12, err_msg=name)
