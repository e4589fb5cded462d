"""Files of nnet1 as networks: each component computes what Kaldi's does, and is written back."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest
from cntk_reader_kaldi.nnet1_format import Nnet1Format
from kaldi_bytes import LENGTHS
from nnet1_networks import RANDOM, both_ways, lstm, lstm_arrays, softmax, splice
from test_transform import binary, component, integers, values, word

from cntk_core.api import (
    Input,
    Model,
    ModelFormatError,
    Network,
    NetworkError,
    Node,
    Parameter,
    UsageError,
    core_ops,
)
from cntk_kit_recipes.cli import main
from cntk_testing import ModelFormatContract
from cntk_testing.reference import ReferenceEngine

FRAMES = np.array([[1.0, 2], [3, 4], [-5, 6], [0.5, -1]])


def number(name: str, value: float, *, whole: bool = False) -> bytes:
    return f"<{name}> ".encode() + (word(int(value)) if whole else b"\4" + struct.pack("<f", value))


WEIGHTS = np.array([[1.0, 2], [0, 1], [-1, 0.5]])
SLOPES = np.array([0.5, 2.0]), np.array([0.25, -1.0])
LSTM = lstm_arrays(2, 3, 2)
BLSTM = lstm_arrays(2, 3, 2) + lstm_arrays(2, 3, 2)


def long(kind: str, output: int, arrays: list[np.ndarray], *numbers: bytes) -> bytes:
    return component(kind, output, 2, number("CellDim", 3, whole=True), *numbers, *map(values, arrays))


CASES = {
    "affine": (component("AffineTransform", 3, 2, number("LearnRateCoef", 0.5), number("BiasLearnRateCoef", 2),
                         number("MaxNorm", 0), values(WEIGHTS), values(np.array([1.0, 2, 3]))),
               lambda x: x @ WEIGHTS.T + [1, 2, 3]),
    "linear": (component("LinearTransform", 3, 2, values(WEIGHTS, b"D")), lambda x: x @ WEIGHTS.T),
    "splice": (component("Splice", 6, 2, integers(-9, 0, 2)), splice(-9, 0, 2)),
    "one frame": (component("Splice", 2, 2, integers(1)), splice(1)),
    "copy": (component("Copy", 3, 2, integers(2, 1, 2)), lambda x: x[:, [1, 0, 1]]),
    "shift": (component("AddShift", 2, 2, values(np.array([0.5, -2]))), lambda x: x + np.array([0.5, -2])),
    "scale": (component("Rescale", 2, 2, number("LearnRateCoef", 1), values(np.array([0.5, -2]))),
              lambda x: x * [0.5, -2]),
    "sigmoid": (component("Sigmoid", 2, 2), lambda x: 1 / (1 + np.exp(-x))),
    "tanh": (component("Tanh", 2, 2), np.tanh),
    "relu": (component("ReLU", 2, 2), lambda x: np.maximum(x, 0)),
    "softmax": (component("Softmax", 2, 2), softmax),
    "dropout": (component("Dropout", 2, 2, number("DropoutRate", 0.5)), lambda x: x),
    "length": (component("LengthNormComponent", 2, 2), lambda x: x / np.sqrt((x**2).sum(axis=1))[:, None]),
    "slopes": (component("ParametricRelu", 2, 2, number("AlphaLearnRateCoef", 1), values(SLOPES[0]), values(SLOPES[1])),
               lambda x: np.where(x > 0, SLOPES[0] * x, SLOPES[1] * x)),
    "lstm": (long("LstmProjected", 2, LSTM), lstm(LSTM, 50)),
    "clipped": (long("LstmProjectedStreams", 2, LSTM, number("CellClip", 0.25)), lstm(LSTM, 0.25)),
    "not clipped": (long("LstmProjected", 2, LSTM, number("CellClip", 0)), lstm(LSTM, 0)),
    "both ways": (long("BlstmProjected", 4, BLSTM, number("CellClip", 0.5)), both_ways(BLSTM, 0.5)),
}  # fmt: skip


def load(data: bytes, folder: Path) -> Network:
    path = folder / "net.nnet"
    path.write_bytes(data)
    return Nnet1Format().load(path, core_ops().find, np.float64)


def evaluate(network: Network, frames: np.ndarray = FRAMES) -> np.ndarray:
    (output,) = network.roots["output"]
    found = Model(network, engine=ReferenceEngine()).evaluate({"features": [frames]}, [output.name])
    return np.asarray(found[output.name][0])


@pytest.mark.parametrize("case", CASES)
def test_a_component(case: str, tmp_path: Path) -> None:
    data, wanted = CASES[case]
    network = load(binary(data), tmp_path)
    assert np.allclose(evaluate(network), wanted(FRAMES), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("case", [case for case in CASES if case != "dropout"])
@pytest.mark.parametrize("text", ["true", "false"])
def test_a_component_written_back(case: str, text: str, tmp_path: Path) -> None:
    """Between others, all values the same, in text form too; so is what it computes."""
    given = component("AffineTransform", 2, 2, values(WEIGHTS[:2]), values(np.array([0.25, 4])))
    before = load(binary(given, component("Sigmoid", 2, 2), CASES[case][0]), tmp_path)
    form = Nnet1Format()
    form.take_settings({"text": text})
    form.save(before, tmp_path / "back.nnet")
    after = Nnet1Format().load(tmp_path / "back.nnet", core_ops().find, np.float64)
    assert [node.describe() for node in after] == [node.describe() for node in before]
    for one, other in zip(after.parameters, before.parameters, strict=True):
        assert one.learning_rate_multiplier == other.learning_rate_multiplier
        assert np.array_equal(one.value, other.value)
    assert not (tmp_path / "back.nnet.unfinished").exists()


def test_rates(tmp_path: Path) -> None:
    network = load(binary(CASES["affine"][0], component("Rescale", 3, 3, values(np.ones(3)))), tmp_path)
    rates = {node.name: node.learning_rate_multiplier for node in network.parameters}
    assert rates == {"affine1.W": 0.5, "affine1.b": 2.0, "scale2.s": 0.0}


class TestNnet1Format(ModelFormatContract):
    format_class = Nnet1Format
    writes = True

    def model_file(self, folder: Path) -> Path:
        """An LSTM between layers."""
        path = folder / "contract.nnet"
        first = component("AffineTransform", 2, 2, values(WEIGHTS[:2]), values(np.array([0.25, 4])))
        path.write_bytes(binary(first, CASES["lstm"][0], CASES["affine"][0], component("Softmax", 3, 3)))
        return path


def test_dropout_is_not_written(tmp_path: Path) -> None:
    network = load(binary(component("Sigmoid", 2, 2), component("Dropout", 2, 2), component("Tanh", 2, 2)), tmp_path)
    Nnet1Format().save(network, tmp_path / "back.nnet")
    kinds = re.findall(rb"<(\w+)> ", (tmp_path / "back.nnet").read_bytes())
    assert kinds == [b"Nnet", b"Sigmoid", b"Tanh"]


def test_an_unknown_component(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError) as caught:
        load(binary(component("Sigmoid", 2, 2), component("Rbm", 2, 2)), tmp_path)
    assert "net.nnet', byte 29: the component <Rbm> is not known here" in str(caught.value)
    assert "These are known: Splice, Copy, AddShift" in str(caught.value)


def test_cells_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match="<LstmProjected> of 2 values cannot have 0 cells"):
        load(binary(component("LstmProjected", 2, 2, *map(values, LSTM))), tmp_path)


def test_settings() -> None:
    with pytest.raises(UsageError, match="files of nnet1 have no setting 'txt'; did you mean 'text'"):
        Nnet1Format().take_settings({"txt": "true"})
    with pytest.raises(UsageError, match="the setting text is true or false, not '1'"):
        Nnet1Format().take_settings({"text": "1"})


def with_statistics(tmp_path: Path) -> Network:
    """A network as recipes make it: normalized features, and scores less the logarithm of a prior."""
    network = Network(np.float64)
    ops = core_ops()

    def add(op_name: str, name: str, *inputs: Node, value: np.ndarray | None = None) -> Node:
        op = ops.find("", op_name)
        assert op is not None
        made = network.add(Node(name, op, list(inputs), op.attributes()))
        made.value = value
        return made

    features, labels = network.add(Input.make("features", (2,))), network.add(Input.make("labels", (3,)))
    mean = add("Mean", "mean", features, value=np.array([1.0, -2]))
    inverse = add("InvStdDev", "inverse", features, value=np.array([0.5, 4]))
    normed = add("PerDimMeanVarNormalization", "normed", features, mean, inverse)
    weights = network.add(Parameter.make("W", (2, 3), value=WEIGHTS.T.copy()))
    bias = network.add(Parameter.make("B", (1, 3), value=np.array([[1.0, 2, 3]])))
    scores = add("Plus", "scores", bias, add("Times", "product", weights, normed))
    prior = add("Mean", "prior", labels, value=np.array([0.5, 0.25, 0.25]))
    likelihood = add("Minus", "likelihood", scores, add("Log", "logs", prior))
    network.mark(likelihood, "output")
    network.infer()
    return network


def test_a_network_of_a_recipe(tmp_path: Path) -> None:
    Nnet1Format().save(with_statistics(tmp_path), tmp_path / "net.nnet")
    back = Nnet1Format().load(tmp_path / "net.nnet", core_ops().find, np.float64)
    normed = (FRAMES - [1, -2]) * [0.5, 4]
    assert np.allclose(evaluate(back), normed @ WEIGHTS.T + [1, 2, 3] - np.log([0.5, 0.25, 0.25]), rtol=1e-6)


def test_a_network_that_it_cannot_hold(tmp_path: Path) -> None:
    network = with_statistics(tmp_path)
    exp = core_ops().find("", "Exp")
    assert exp is not None
    last = network.add(Node("powers", exp, [network["likelihood"]], exp.attributes()))
    network.roots["output"] = [last]
    network.infer()
    with pytest.raises(NetworkError, match="Exp 'powers' cannot be written to a file of nnet1"):
        Nnet1Format().save(network, tmp_path / "net.nnet")
    network.roots["output"] = []
    with pytest.raises(NetworkError, match="the network does not say which node is its output"):
        Nnet1Format().save(network, tmp_path / "net.nnet")


RECIPE = """
command = Train ; modelPath = "m/net.dnn"
Train = [
    action = train
    BrainScriptNetworkBuilder = {
        transform = BS.Network.Load ("transform.nnet")
        start = BS.Network.Load ("start.nnet")
        spliced = BS.Network.CloneFunction (transform.features, transform.shift2, parameters = "constant")
        layers = BS.Network.CloneFunction (start.features, start.affine2)
        features = Input {2} ; labels = Input {2}
        z = layers (spliced (features))
        ce = CrossEntropyWithSoftmax (labels, z, tag = 'criterion')
        p = Softmax (z, tag = 'output')
    }
    SGD = [ maxEpochs = 2 ; minibatchSize = 20 ; learningRatesPerSample = 0.1 ]
    reader = [
        readerType = Kaldi2Reader ; frameMode = false
        features = [ dim = 2 ; scpFile = feats.scp ] ; labels = [ labelDim = 2 ; mlfFile = "ark:two.ark" ]
    ]
]
"""


def test_a_transform_and_a_start_inside_a_network(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The transform is not learned; all is written back as one file, and read again."""
    Path("two.ark").write_text("".join(f"{key} {'0 1 ' * 9}"[: 6 + 2 * n] + "\n" for key, n in LENGTHS.items()))
    splice_ = component("Splice", 6, 2, integers(-1, 0, 1)), component("AddShift", 6, 6, values(np.full(6, -200.0)))
    Path("transform.nnet").write_bytes(binary(*splice_))
    arrays = lstm_arrays(6, 3, 2)
    long_ = component("LstmProjected", 2, 6, number("CellDim", 3, whole=True), *map(values, arrays))
    last = component("AffineTransform", 2, 2, values(RANDOM.normal(size=(2, 2))), values(np.zeros(2)))
    Path("start.nnet").write_bytes(binary(long_, last))
    Path("r.cntk").write_text(RECIPE)
    assert main(["configFile=r.cntk"]) == 0
    assert main(["convert", "m/net.dnn", "-o", "back.nnet"]) == 0
    before, after = Model.load("m/net.dnn"), Model.load("back.nnet")
    given = {"features": [np.array([[100.0, 101], [200, 250], [300, 10]], np.float32)]}
    (wanted,), (found,) = before.evaluate(given, ["p"])["p"], next(iter(after.evaluate(given).values()))
    assert np.allclose(found, wanted, rtol=1e-5)
    kinds = re.findall(rb"<([A-Z]\w+)> \x04", Path("back.nnet").read_bytes())
    assert [kind.decode() for kind in kinds if b"Rate" not in kind and b"Cell" not in kind] == [
        "Splice", "AddShift", "LstmProjected", "AffineTransform", "Softmax"
    ]  # fmt: skip
