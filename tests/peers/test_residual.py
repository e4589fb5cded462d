"""ResNet-20 from a recipe against PyTorch: values, gradients and updates from the same first values.

PyTorch is that of this interpreter, or of the one that the environment variable ``CNTK_PEER_PYTHON`` names.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_engine_cpu import CpuEngine
from cntk_learner_sgd import SGD

from cntk_core.api import Minibatch, Network, ParameterStore, StreamData, UpdateContext
from cntk_core.api.engines import frame_layout, make_plan
from cntk_core.config import load_recipe
from cntk_core.training.loop.update import compose_update
from cntk_core.training.settings import SGDSettings
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.log import Log
from cntk_testing.reference import ReferenceEngine

RECIPE = Path(__file__).resolve().parents[2] / "benchmarks" / "recipes" / "resnet20.cntk"
PEER = Path(__file__).with_name("torch_residual.py")
STEPS, SAMPLES = 5, 4
RATE, MOMENTUM, TIME_CONSTANT = 0.001, 0.9, 4096.0


@pytest.fixture(scope="module")
def peer() -> str:
    """An interpreter that has PyTorch."""
    named = os.environ.get("CNTK_PEER_PYTHON")
    if named is None and importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not here; CNTK_PEER_PYTHON may name an interpreter that has it")
    return named or sys.executable


def resnet(dtype: Any) -> Network:
    """Return the network of the recipe with random first values, scales and biases included."""
    recipe = load_recipe([f"configFile={RECIPE}", f"precision={'double' if dtype == np.float64 else 'float'}"])
    network = ActionContext.create(recipe, Log(quiet=True)).describe_network(recipe.section("Train"))
    network.infer()
    rng = np.random.default_rng(1)
    for node in sorted(network.parameters, key=lambda node: node.name):
        shape = node.known_shape
        kind = node.name.rsplit(".", 1)[1]
        if kind == "W":
            fan_in = np.prod(shape[1:]) if len(shape) == 4 and node.name != "last.W" else shape[0]
            node.value = rng.normal(0, np.sqrt(2 / fan_in), shape).astype(dtype)
        elif kind.startswith("run"):
            node.value = np.zeros(shape, dtype)
        else:
            node.value = (rng.uniform(0.5, 1.5, shape) - (kind != "scale")).astype(dtype)
    return network


def minibatches(dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    images = rng.normal(size=(STEPS, SAMPLES, 3, 32, 32)).astype(dtype)
    return images, rng.integers(10, size=(STEPS, SAMPLES))


def by_peer(python: str, folder: Path, first: dict[str, np.ndarray], dtype: Any) -> dict[str, np.ndarray]:
    """Return what PyTorch makes of the same values and data."""
    images, classes = minibatches(dtype)
    given, result = folder / "given.npz", folder / "result.npz"
    settings = np.array([RATE, MOMENTUM, TIME_CONSTANT])
    np.savez(given, images=images, classes=classes, settings=settings, **first)
    done = subprocess.run([python, str(PEER), str(given), str(result)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(np.load(result))


def by_us(network: Network, engine: Any, dtype: Any) -> dict[str, np.ndarray]:
    """Return the same figures."""
    criterion = network["ce"]
    plan = make_plan(network, [criterion], criterion)
    store = ParameterStore(network.parameters, dtype)
    learner = SGD()
    store.add_slots(learner.slots)
    program = engine.compile(plan, store, compose_update(learner, SGDSettings(max_epochs=1)))
    context = UpdateContext(samples=1, learning_rate=RATE, momentum=MOMENTUM)
    scalars = [learner.scalars(context)] * len(plan.trained)
    layout = frame_layout(SAMPLES)
    found: dict[str, np.ndarray] = {}
    losses = []
    for step, (images, classes) in enumerate(zip(*minibatches(dtype), strict=True)):
        labels = np.eye(10, dtype=dtype)[classes]
        streams = {"features": StreamData(images, layout), "labels": StreamData(labels, layout)}
        program.train_step(Minibatch(streams, SAMPLES), scalars)
        losses.append(program.read_totals()["ce"])
        if step == 0:
            found |= {f"1:{node.name}": np.array(node.value) for node in plan.trained}
    found |= {f"n:{node.name}": np.array(node.value) for node in network.parameters}
    return found | {"losses": np.array(losses)}


def differences(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> dict[str, float]:
    """Relative differences by name; both must have the same."""
    assert ours.keys() == theirs.keys()
    return {name: float(np.linalg.norm(ours[name] - theirs[name]) / np.linalg.norm(theirs[name])) for name in ours}


def changes(found: dict[str, np.ndarray], first: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """How much each parameter changed in the first step, which is its gradient, and in all."""
    return {name: value - first[name[2:]] for name, value in found.items() if name != "losses"}


def worst(found: dict[str, float]) -> tuple[float, str]:
    return max((value, name) for name, value in found.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "dtype", "tolerance", "of_changes"),
    [
        (CpuEngine(CpuEngine.options(num_cpu_threads=1)), np.float64, 1e-9, 1e-9),
        # In single precision a ReLU that a rounding error turns on or off changes gradients much more than values.
        (CpuEngine(CpuEngine.options(num_cpu_threads=1)), np.float32, 1e-4, 1e-2),
        (ReferenceEngine(), np.float64, 1e-9, 1e-9),
    ],
    ids=["cpu-double", "cpu-float", "reference"],
)
def test_steps_agree(peer: str, tmp_path: Path, engine: Any, dtype: Any, tolerance: float, of_changes: float) -> None:
    """Losses, gradients, values and running statistics of five steps."""
    network = resnet(dtype)
    first = {node.name: np.array(node.value) for node in network.parameters}
    assert len(first) == 21 * 6 + 2  # weights, scale, bias and statistics of 21 convolutions, and the last layer
    theirs = by_peer(peer, tmp_path, first, dtype)
    ours = by_us(network, engine, dtype)
    assert worst(differences(ours, theirs)) < (tolerance,)
    assert worst(differences(changes(ours, first), changes(theirs, first))) < (of_changes,)
