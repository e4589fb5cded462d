"""The operation of a plugin file in NDL, BrainScript and Python: by its name, with its attributes, the same network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.model_formats import ModelFiles
from cntk_kit_recipes.cli import main

OP = """
import attrs
from cntk_core.api import elementwise_op


@attrs.frozen
class SlopeAttributes:
    negative_slope: float = 0.25


def gradient(m, a, g, y, x):
    return g * m.where(m.less(x, 0.0), a.negative_slope, 1.0)


@elementwise_op("TestSlope", attributes=SlopeAttributes, gradient=gradient)
def slope(m, a, x):
    return m.where(m.less(x, 0.0), a.negative_slope * x, x)
"""
NETWORKS = {
    "ndl": """NDLNetworkBuilder = [ run = net
      net = [
       features = Input(2)
       labels = Input(3)
       W = Parameter(3, 2, init = fixedValue, value = 0.5)
       z = TestSlope(Times(W, features), negativeSlope = 0.5)
       ce = CrossEntropyWithSoftmax(labels, z)
       FeatureNodes = (features)
       LabelNodes = (labels)
       CriterionNodes = (ce)
       OutputNodes = (z)
      ]
    ]""",
    "brainscript": """BrainScriptNetworkBuilder = {
      features = Input {2}
      labels = Input {3, tag = 'label'}
      W = ParameterTensor {(3:2), init = 'fixedValue', value = 0.5}
      z = TestSlope (W * features, negativeSlope = 0.5)
      ce = CrossEntropyWithSoftmax (labels, z, tag = 'criterion')
      outputNodes = (z)
    }""",
    "python": "PythonNetworkBuilder = [ file = net.py ; function = build ]",
}
PYTHON = """
def build(graph):
    features, labels = graph.input("features", 2), graph.input("labels", 3)
    w = graph.parameter((2, 3), name="W", init=0.5)
    z = graph.apply("TestSlope", graph.apply("Times", w, features), negative_slope=0.5)
    graph.criterion(graph.apply("CrossEntropyWithSoftmax", labels, z), name="ce")
    graph.output(z, name="z")
"""
RECIPE = """command = Train
modelPath = net.dnn
reader = [ readerType = CNTKTextFormatReader ; file = data.ctf ; randomize = none
 input = [ features = [ dim = 2 ; format = dense ] ; labels = [ dim = 3 ; format = dense ] ] ]
SGD = [ epochSize = 0 ; minibatchSize = 4 ; learningRatesPerSample = 0.1 ; momentumPerSample = 0 ; maxEpochs = 1 ]
Train = [ action = train ; %s ]
"""


@pytest.mark.parametrize("language", NETWORKS)
def test_the_same_network(language, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("op.py").write_text(OP, encoding="utf-8")
    Path("net.py").write_text(PYTHON, encoding="utf-8")
    Path("data.ctf").write_text("|features 1 -2 |labels 0 1 0\n|features -3 1 |labels 1 0 0\n", encoding="utf-8")
    Path("r.cntk").write_text(RECIPE % NETWORKS[language], encoding="utf-8")
    assert main(["train", "r.cntk", "--plugin", "op.py"]) == 0
    network = ModelFiles(PluginManager(["op.py"]).registry).load("net.dnn")
    (node,) = [one for one in network if one.op.name == "TestSlope"]
    assert node.attributes.negative_slope == 0.5
    (weights,) = network.parameters
    # z = [-.5, -.5, -.5] * .5 and [-1, -1, -1] * .5, so p is 1/3 everywhere and dz = (p - labels), times the slope.
    step = 0.1 * 0.5
    dz = np.array([[1 / 3, -2 / 3, 1 / 3], [-2 / 3, 1 / 3, 1 / 3]])
    features = np.array([[1.0, -2.0], [-3.0, 1.0]])
    np.testing.assert_allclose(weights.value, 0.5 - step * (features.T @ dz), rtol=1e-5)
