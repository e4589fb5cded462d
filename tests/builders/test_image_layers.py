"""Python's layers for images compute what BrainScript's do: the same parameters give the same values and gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cntk_core.config import parse_text
from cntk_core.contract.store import ParameterStore
from cntk_core.network.network import Network
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.log import Log
from cntk_testing import ReferenceEngine

FRAMES = 3
# name: BrainScript's layers, which make h of x; Python's, as a function; the shape of x
LAYERS: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "convolution": (
        "f = ConvolutionalLayer {4, (5:3), pad = true, activation = ReLU, stride = (1:2)} ; h = f (x)",
        "Convolution((3, 5), 4, relu, pad=True, strides=(2, 1), name='f')",
        (2, 6, 7),
    ),
    "without bias, without padding along one axis": (
        "f = ConvolutionalLayer {4, (3:3), pad = (true:false), bias = false} ; h = f (x)",
        "Convolution2D(3, 4, pad=(False, True), bias=False, name='f')",
        (2, 6, 7),
    ),
    "one axis": (
        "f = ConvolutionalLayer {4, 3, pad = true} ; h = f (x)",
        "Convolution1D(3, 4, pad=True, name='f')",
        (2, 7),
    ),
    "three axes": (
        "f = ConvolutionalLayer {3, (2:3:2)} ; h = f (x)",
        "Convolution3D((2, 3, 2), 3, name='f')",
        (2, 3, 4, 5),
    ),
    "transposed": (
        "f = ConvolutionTransposeLayer {3, (3:5), 2, stride = (2:2:1), pad = (true:true:false), "
        "outputShape = (8:6:3)} ; h = f (x)",
        "ConvolutionTranspose((5, 3), 3, strides=2, pad=True, output_shape=(6, 8), name='f')",
        (2, 3, 4),
    ),
    "transposed without padding": (
        "f = ConvolutionTransposeLayer {3, (2:2), 2, stride = (2:2:1), bias = false} ; h = f (x)",
        "ConvolutionTranspose2D(2, 3, strides=2, bias=False, name='f')",
        (2, 3, 4),
    ),
    "max pooling": (
        "p = MaxPoolingLayer {(2:3), stride = 2, pad = true} ; h = p (x)",
        "MaxPooling((3, 2), strides=2, pad=True)",
        (2, 5, 6),
    ),
    "incomplete windows": (
        "p = MaxPoolingLayer {(2:2), stride = 2, ceilOutDim = true} ; h = p (x)",
        "MaxPooling((2, 2), strides=2, ceil_out_dim=True)",
        (2, 5, 7),
    ),
    "average pooling": (
        "p = AveragePoolingLayer {(3:2), stride = (2:1), pad = true, includePad = true} ; h = p (x)",
        "AveragePooling((2, 3), strides=(1, 2), pad=True, include_pad=True)",
        (2, 5, 6),
    ),
    "global average": (
        "p = AveragePoolingLayer {(6:5)} ; h = p (x)",
        "GlobalAveragePooling()",
        (2, 5, 6),
    ),
    "global maximum": (
        "p = MaxPoolingLayer {(6:5)} ; h = p (x)",
        "GlobalMaxPooling()",
        (2, 5, 6),
    ),
    "unpooling": (
        "p = MaxPoolingLayer {(2:2), stride = 2} ; u = MaxUnpoolingLayer {(2:2), stride = 2} ; q = p (x) "
        "; h = u (q .* q, x)",
        "lambda x: MaxUnpooling((2, 2), 2)((lambda p: p * p)(MaxPooling((2, 2), 2)(x)), x)",
        (2, 4, 6),
    ),
    "batch normalization of channels": (
        "f = BatchNormalizationLayer {spatialRank = 2, initialScale = 2} ; h = f (x)",
        "BatchNormalization(map_rank=1, init_scale=2, name='f')",
        (2, 5, 6),
    ),
    "batch normalization of elements": (
        "f = BatchNormalizationLayer {normalizationTimeConstant = 64, blendTimeConstant = 8, epsilon = 0.01} "
        "; h = f (x)",
        "BatchNormalization(normalization_time_constant=64, blend_time_constant=8, epsilon=0.01, name='f')",
        (5,),
    ),
    "layer normalization": (
        "f = LayerNormalizationLayer {initScale = 2, initBias = 1} ; h = f (x)",
        "LayerNormalization(2, 1, epsilon=0, name='f')",
        (2, 3, 3),
    ),
    "dense": (
        "f = DenseLayer {4, activation = Tanh} ; h = f (x)",
        "Dense(4, tanh, name='f')",
        (2, 3, 3),
    ),
    "dense to a tensor": (
        "f = LinearLayer {(4:2)} ; h = f (x)",
        "Dense((2, 4), name='f')",
        (2, 3, 3),
    ),
    "dense of the last axes": (
        "f = LinearLayer {4, inputRank = 2} ; h = f (x)",
        "Dense(4, input_rank=2, name='f')",
        (2, 3, 4),
    ),
    "dense of all but the first axis": (
        "f = LinearLayer {4, mapRank = 1} ; h = f (x)",
        "Dense(4, map_rank=1, name='f')",
        (2, 3, 4),
    ),
    "residual block": (
        "f = ConvolutionalLayer {2, (3:3), pad = true, bias = false} ; h = f (x) + x",
        "ResNetBlock(Convolution((3, 3), 2, pad=True, bias=False, name='f'))",
        (2, 4, 4),
    ),
}
RENAMED = {"f.gain": "f.scale", "f.arrayOfFunctions[0].W": "f.W", "f.arrayOfFunctions[0].b": "f.b"}
"""Parameters of BrainScript's layers that have other names in Python."""


def built(text: str) -> Network:
    config = parse_text(f"precision = double\n{text}", file="r.cntk")
    return ActionContext.create(config, Log(quiet=True)).build_network(config)


def brainscript(layers: str, shape: tuple[int, ...]) -> Network:
    dims = ":".join(str(size) for size in shape[::-1])
    return built(
        f"BrainScriptNetworkBuilder = {{ i = Input {{({dims})}} ; s = ParameterTensor {{({dims}), initValue = 2}}\n"
        f"x = i .* s ; {layers} ; w = Input {{1}}\n"
        "ce = SumElements (h .* h .* w, tag = 'criterion') ; outputNodes = (h) }"
    )


def python(layers: str, shape: tuple[int, ...]) -> Network:
    Path("net.py").write_text(
        "from cntk_builder_python import *\n\n\ndef build(graph):\n"
        f"    x = graph.input('i', {shape}) * graph.parameter({shape}, init=2, name='s')\n"
        f"    h = ({layers})(x).named('h')\n"
        "    w = graph.input('w', 1)\n"
        "    graph.criterion(graph.apply('SumElements', h * h * w), 'ce')\n    graph.output(h)\n",
        encoding="utf-8",
    )
    return built("PythonNetworkBuilder = [ file = net.py ]")


def outcome(network: Network, batch: Minibatch) -> dict[str, Any]:
    """What a step of training finds: result, criterion, gradients and counted statistics, by name."""
    (criterion,) = network.roots["criterion"]
    plan = make_plan(network, [criterion, network["h"]], criterion)
    store = ParameterStore(network.parameters, np.float64)
    program = ReferenceEngine().compile(plan, store)
    program.compute_gradients(batch)
    found = {"h": program.value("h").copy(), "ce": program.value("ce").copy()}
    for parameter in network.parameters:
        name = RENAMED.get(parameter.name, parameter.name)
        if name == "s" or name.startswith("f."):
            found[name] = store.value(parameter).copy()
            if parameter in plan.trained:
                found[f"gradient of {name}"] = store.gradient(parameter).copy()
    return found


@pytest.mark.parametrize("name", LAYERS)
def test_same_as_brainscript(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script, layers, shape = LAYERS[name]
    first, second = brainscript(script, shape), python(layers, shape)
    random = np.random.default_rng(4)
    twins = {parameter.name: parameter for parameter in second.parameters}
    for parameter in first.parameters:
        name = RENAMED.get(parameter.name, parameter.name)
        if name != "s" and not name.startswith("f."):
            continue  # numbers of BrainScript's library
        twin = twins.pop(name)
        assert twin.learned == parameter.learned
        assert twin.known_shape in (parameter.known_shape, parameter.known_shape[-1:])
        if name == "s" or parameter.value.std() > 0:
            parameter.value = random.standard_normal(parameter.known_shape)
        else:
            assert np.unique(twin.value).tolist() == np.unique(parameter.value).tolist()
        twin.value = parameter.value.reshape(twin.known_shape).copy()
    assert not [name for name in twins if name.startswith("f.")]
    layout = frame_layout(FRAMES)
    data = {"i": random.standard_normal((FRAMES, *shape)), "w": random.standard_normal((FRAMES, 1))}
    batch = Minibatch({key: StreamData(value, layout) for key, value in data.items()}, FRAMES)
    wanted, found = outcome(first, batch), outcome(second, batch)
    assert found["h"].any()
    assert found["gradient of s"].any()
    for key, value in found.items():
        assert np.array_equal(wanted[key].reshape(value.shape), value), key


def test_first_values_are_drawn_as_brainscript_draws_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both networks number their random parameters from 1."""
    monkeypatch.chdir(tmp_path)
    script, layers, shape = LAYERS["convolution"]
    first, second = brainscript(script, shape), python(layers, shape)
    assert np.array_equal(first["f.W"].value, second["f.W"].value)
    assert first["f.W"].value.std() > 0
