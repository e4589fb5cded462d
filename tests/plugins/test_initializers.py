"""Initializers of plugins: in three languages, by their rules; wrong ones; CNTK's own by the same door."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cntk_core.contract.initializer import InitializerSettings, ParameterInitializer
from cntk_core.errors import CntkError
from cntk_core.network.initializers import initialize_parameters
from cntk_core.network.network import Network
from cntk_core.network.node import Parameter
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.markers import hookimpl
from cntk_core.plugins.model_formats import ModelFiles
from cntk_kit_builders.first_values.initializers import KINDS, initializer
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.initializers import make_initializer

RULE = """
import numpy as np
from cntk_core.api import *


class Ladder(ParameterInitializer):
    requires_api = "1.0"

    def values(self, shape, dtype, seed):
        fan_in, fan_out = self.fans(shape)
        return self.settings.scale * (np.arange(elements(shape)).reshape(shape) + seed * 100 + fan_in / 10)
"""
WHEEL = {"cntk.initializers": {"ladder": "my_ladder:Ladder"}}
NETWORKS = {
    "ndl": "NDLNetworkBuilder = [ run = net ; net = [ x = Input(2) ; y = Input(3)\n"
    ' A = Parameter(3, 2, init = "%s", initValueScale = 0.5) ; B = Parameter(3, 2, init = uniform, randomSeed = 7)\n'
    " C = Parameter(3, 2, init = ladder, randomSeed = 4)\n"
    " z = Plus(Plus(Times(A, x), Times(B, x)), Times(C, x)) ; ce = SquareError(y, z)\n"
    " FeatureNodes = (x) ; LabelNodes = (y) ; CriterionNodes = (ce) ] ]",
    "brainscript": "BrainScriptNetworkBuilder = { x = Input {2} ; y = Input {3, tag = 'label'}\n"
    " A = ParameterTensor {(3:2), init = '%s', initValueScale = 0.5}\n"
    " B = ParameterTensor {(3:2), init = 'uniform', randomSeed = 7}\n"
    " C = ParameterTensor {(3:2), init = 'ladder', randomSeed = 4}\n"
    " z = A * x + B * x + C * x ; ce = SquareError (y, z, tag = 'criterion') }",
    "python": "PythonNetworkBuilder = [ file = net.py ; function = build ; arguments = [ init = %s ] ]",
}
PYTHON = """
def build(graph, init):
    x, y = graph.input("x", 2), graph.input("y", 3)
    a = graph.parameter((2, 3), name="A", init=init, scale=0.5)
    b = graph.parameter((2, 3), name="B", init="uniform", seed=7)
    c = graph.parameter((2, 3), name="C", init="ladder", seed=4)
    times = [graph.apply("Times", w, x) for w in (a, b, c)]
    graph.criterion(graph.apply("SquareError", y, times[0] + times[1] + times[2]), name="ce")
"""
RECIPE = """command = T
modelPath = net.dnn
reader = [ readerType = CNTKTextFormatReader ; file = data.ctf
 input = [ x = [ dim = 2 ; format = dense ] ; y = [ dim = 3 ; format = dense ] ] ]
SGD = [ epochSize = 0 ; minibatchSize = 1 ; learningRatesPerSample = 0 ; maxEpochs = 1 ; momentumPerMB = 0
 minLearningRatePerSample = 0 ]
T = [ action = train ; %s ]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    Path("p.py").write_text(RULE.replace("class Ladder", "class ladder"), encoding="utf-8")
    Path("net.py").write_text(PYTHON, encoding="utf-8")
    Path("data.ctf").write_text("|x 1 2 |y 1 2 3\n", encoding="utf-8")


@pytest.mark.parametrize("language", NETWORKS)
def test_in_every_language(language):
    Path("r.cntk").write_text(RECIPE % (NETWORKS[language] % "Ladder"), encoding="utf-8")
    assert main(["train", "r.cntk", "--plugin", "p.py"]) == 0
    network = ModelFiles(PluginManager(load_hooks=False).registry).load("net.dnn")
    ladder = np.arange(6.0).reshape(2, 3)
    # A takes the first number of the network; those with a seed of their own take none.
    np.testing.assert_allclose(network["A"].value, 0.5 * (ladder + 100 + 0.2), rtol=1e-6)
    np.testing.assert_allclose(network["C"].value, ladder + 400 + 0.2, rtol=1e-6)
    np.testing.assert_array_equal(network["B"].value, initializer("uniform")((2, 3), np.dtype(np.float32), 7))


@pytest.mark.parametrize("language", NETWORKS)
def test_unknown_words(language, capsys):
    Path("r.cntk").write_text(RECIPE % (NETWORKS[language] % "lader"), encoding="utf-8")
    assert main(["train", "r.cntk", "--plugin", "p.py"]) == 1
    text = capsys.readouterr().err
    assert "there is no initializer 'lader'; did you mean 'ladder'?" in text
    assert f"Initializers: {', '.join(sorted([*KINDS, 'ladder'], key=str.casefold))}" in text


def test_from_a_wheel_and_a_broken_one(install):
    install("my-ladder", WHEEL, RULE)
    install("bad-rule", {"cntk.initializers": {"bad": "bad_rule:Bad"}}, "import missing_library\n")
    registry = PluginManager().registry
    made = make_initializer(registry, "LADDER", InitializerSettings(scale=2.0))
    assert made((1, 2), np.dtype(np.float64), 1).tolist() == [[200.2, 202.2]]
    with pytest.raises(CntkError, match=r"initializer 'bad' from bad-rule 0\.1\.0 could not be imported"):
        make_initializer(registry, "bad", InitializerSettings())


class Wrong(ParameterInitializer):
    """Gives what it is told to."""

    requires_api = "1.0"
    takes_seed = False
    given: object = 0

    def values(self, shape, dtype, seed):
        return self.given


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros(3), "the initializer 'wrong' gives [3] for a parameter [2]"),
        (np.array([1.0, np.nan]), "the initializer 'wrong' gives values that are no finite numbers"),
        (np.array(["a", "b"]), "the initializer 'wrong' gives values of the type <U1"),
    ],
)
def test_wrong_values(given, message):
    class Offers:
        @hookimpl
        def cntk_register(self, registry):
            registry.initializers.add("wrong", Wrong)

    Wrong.given = given
    made = make_initializer(PluginManager(listeners=[Offers()]).registry, "wrong", InitializerSettings())
    with pytest.raises(CntkError) as caught:
        made((2,), np.dtype(np.float32), 1)
    assert str(caught.value) == message


def test_rules_without_random_numbers_take_no_number_away():
    Wrong.given = np.ones(2)
    network = Network()
    rule = Wrong.make("wrong", InitializerSettings())
    for name, first in (("a", rule), ("b", initializer("uniform"))):
        network.add(Parameter.make(name, (2,), first))
    initialize_parameters(network)
    np.testing.assert_array_equal(network["b"].value, initializer("uniform")((2,), np.dtype(np.float32), 1))


def test_cntks_words_are_offered_by_the_same_door():
    registry = PluginManager(load_hooks=False).registry
    assert set(registry.initializers.names()) == set(KINDS)
    for word in registry.initializers.names():
        settings = InitializerSettings(scale=0.5, value=2.0, path=Path("m.txt"), literal="1 2", kernel=(2, 2))
        made = make_initializer(registry, word.upper(), settings)
        assert made == initializer(word, scale=0.5, value=2.0, path=Path("m.txt"), literal="1 2", kernel=(2, 2))
