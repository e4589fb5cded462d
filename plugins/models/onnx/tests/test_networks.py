"""Whole networks: the recipes of examples/, models of the golden cases, and one of the size of ResNet-50."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from judge import difference, gap_between, load, same, written

from cntk_core.api import Network, Node
from cntk_core.api.builders import initialize_parameters
from cntk_core.api.recipes import ModelFiles, PluginManager, open_recipe
from cntk_testing.inside import BatchNormalizationAttributes, ConvolutionAttributes
from cntk_testing.networks import Sketch

ROOT = Path(__file__).parents[4]
RECIPES = [
    "acoustic_ctc/acoustic.cntk",
    "char_lm/charlm.cntk",
    "delay_compensation/digits.cntk",
    "digits_convnet/autoencoder.cntk",
    "digits_convnet/convnet.cntk",
    "digits_convnet/regression.cntk",
    "g2p/g2p.cntk",
    "rate_search/digits.cntk",
    "reasoning/reasoning.cntk",
    "resnet_cifar/resnet.cntk",
    "scaling/speech.cntk",
    "slot_tagger/tagger.cntk",
    "two-spirals/spirals.cntk",
]
"""Those of examples/ that describe a network by themselves, in their first section that does."""

GOLDEN = sorted(path.parents[1].name for path in (ROOT / "tests/golden/cases").glob("*/*/data/model.dnn"))


def network_of(recipe: str, monkeypatch: pytest.MonkeyPatch) -> Network:
    path = ROOT / "examples" / recipe
    monkeypatch.chdir(path.parent)
    context, sections = open_recipe([f"configFile={path.name}"], None, [])
    section = next(section for section in sections if context.builder_value(section) is not None)
    network = context.describe_network(section)
    network.infer()
    initialize_parameters(network, 1)
    rng = np.random.default_rng(0)
    for node in network:
        if node.op.role == "precompute":
            node.value = (rng.random(node.known_shape) + 0.5).astype(network.dtype)
        elif node.op.name == "BatchNormalization":
            for statistic in node.inputs[4:]:
                assert statistic.value is not None
                statistic.value[...] = 1.0
    return network


LARGE = {"char_lm/charlm.cntk", "resnet_cifar/resnet.cntk", "scaling/speech.cntk", "slot_tagger/tagger.cntk"}
"""Those with millions of weights."""


@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(recipe, marks=[pytest.mark.slow, *([pytest.mark.thorough] if recipe in LARGE else [])])
        for recipe in RECIPES
    ],
)
def test_recipes_of_the_examples(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = network_of(recipe, monkeypatch)
    path = tmp_path / "net.onnx"
    assert difference(network, path) < 1e-5
    back = load(path)
    same(back, network)
    assert gap_between(network, back) == 0


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", GOLDEN)
def test_models_of_the_golden_cases(name: str, tmp_path: Path) -> None:
    (path,) = (ROOT / "tests/golden/cases").glob(f"*/{name}/data/model.dnn")
    files = ModelFiles(PluginManager().registry)
    network = files.load(path)
    single = files.load(path, np.float32)  # onnxruntime has few operations for double
    assert difference(single, tmp_path / "single.onnx") < 1e-5
    same(load(written(network, tmp_path / "net.onnx")), network)


def bottlenecks(blocks: tuple[int, ...], width: int) -> Network:
    """A network with the shapes of ResNet-50 (He et al., arXiv:1512.03385): ``(3, 4, 6, 3)`` blocks, width 64."""
    made = Sketch("float32")

    def convolution(x: Node, channels: int, maps: int, size: int, stride: int) -> Node:
        number = len(made.network)
        weights = made.given(f"W{number}", np.zeros((maps, channels, size, size)))
        attributes = ConvolutionAttributes(
            (size, size), (maps,), (stride, stride, channels), auto_padding=(True, True, False)
        )
        found = made.op("Convolution", weights, x, attributes=attributes)
        statistics = [made.given(f"s{number}.{index}", np.ones(maps)) for index in range(4)]
        return made.op("BatchNormalization", found, *statistics, attributes=BatchNormalizationAttributes(spatial=True))

    x: Node = convolution(made.input("image", 3, 64, 64), 3, width, 7, 2)
    channels = width
    for stage, count in enumerate(blocks):
        inner = width << stage
        for block in range(count):
            stride = 2 if stage and not block else 1
            y = made.op("RectifiedLinear", convolution(x, channels, inner, 1, stride))
            y = made.op("RectifiedLinear", convolution(y, inner, inner, 3, 1))
            y = convolution(y, inner, 4 * inner, 1, 1)
            short = convolution(x, channels, 4 * inner, 1, stride) if not block else x
            x, channels = made.op("RectifiedLinear", made.op("Plus", y, short)), 4 * inner
    made.finish(None, x)
    made.network.roots["output"] = [x]
    return made.network


def test_bottlenecks(tmp_path: Path) -> None:
    network = bottlenecks((1, 1), 4)
    path = tmp_path / "net.onnx"
    assert difference(network, path) < 1e-5
    same(load(path), network)


@pytest.mark.slow
@pytest.mark.thorough
def test_the_memory_of_a_large_network(tmp_path: Path) -> None:
    network = bottlenecks((3, 4, 6, 3), 64)
    size = sum(parameter.value.nbytes for parameter in network.parameters if parameter.value is not None)
    assert size > 9e7
    tracemalloc.start()
    path = written(network, tmp_path / "net.onnx")
    assert tracemalloc.get_traced_memory()[1] < 0.5 * size  # beside the network itself
    tracemalloc.reset_peak()
    back = load(path)
    assert tracemalloc.get_traced_memory()[1] < 2.5 * size
    tracemalloc.stop()
    same(back, network)
