"""DBN files: reading, writing, and files that are damaged or hostile."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import attrs
import numpy as np
import pytest
from cntk_model_cntk1.dbn_file import Dbn, DbnLayer, read_dbn, write_dbn
from cntk_model_cntk1.from_dbn import Conversion, network_of
from cntk_model_cntk1.to_dbn import dbn_of
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.api import (
    CntkError,
    DataError,
    Input,
    ModelFormatError,
    Network,
    NetworkError,
    Node,
    Parameter,
    core_ops,
)
from cntk_core.api.builders import initialize_parameters, reduce_network
from cntk_testing.examples import examples

KINDS = ("rbmgaussbernoulli", "rbmbernoullibernoulli", "perceptron")


def layer(kind: str, outputs: int, inputs: int) -> DbnLayer:
    weights = np.arange(outputs * inputs, dtype=np.float32).reshape(outputs, inputs) / 8
    return DbnLayer(kind, weights, np.arange(outputs, dtype=np.float32))


def example(kinds: tuple[str, ...] = KINDS, prior: bool = True) -> Dbn:
    """Two features, three frames of them, layers of 4, 3 and 2."""
    sizes = (6, 4, 3, 2)
    layers = [layer(kind, sizes[number + 1], sizes[number]) for number, kind in enumerate(kinds)]
    outputs = sizes[len(kinds)]
    return Dbn(
        np.array([1, 2], np.float32),
        np.array([0.5, 4], np.float32),
        layers,
        np.full(outputs, 1 / outputs, np.float32) if prior else None,
    )


def matrix(name: bytes, rows: int, columns: int, values: list[float]) -> bytes:
    data = struct.pack(f"<{len(values)}f", *values)
    return b"BMAT" + name + b"\0" + struct.pack("<ii", rows, columns) + data + b"EMAT"


def written(dbn: Dbn, folder: Path) -> bytes:
    write_dbn(dbn, folder / "x.dbn")
    return (folder / "x.dbn").read_bytes()


SMALL = Dbn(
    np.array([1.5], np.float32),
    np.array([2], np.float32),
    [DbnLayer("perceptron", np.array([[1, 2], [3, 4], [5, 6]], np.float32), np.array([7, 8, 9], np.float32))],
    np.array([0.25, 0.25, 0.5], np.float32),
)
SMALL_BYTES = (
    b"DBN\0BDBN" + struct.pack("<ii", 0, 1)
    + matrix(b"gmean", 1, 1, [1.5]) + matrix(b"gstddev", 1, 1, [2]) + b"BNET"
    + b"perceptron\0" + matrix(b"W", 2, 3, [1, 2, 3, 4, 5, 6]) + matrix(b"a", 3, 1, [7, 8, 9]) + matrix(b"b", 0, 0, [])
    + b"ENET" + matrix(b"Pu", 3, 1, [0.25, 0.25, 0.5]) + b"EDBN"
)  # fmt: skip


def test_every_byte_of_a_file(tmp_path: Path) -> None:
    assert written(SMALL, tmp_path) == SMALL_BYTES


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_dbn(example(), tmp_path / "x.dbn")
    read = read_dbn(tmp_path / "x.dbn")
    assert [item.kind for item in read.layers] == list(KINDS)
    for one, other in zip(read.layers, example().layers, strict=True):
        assert np.array_equal(one.weights, other.weights)
        assert np.array_equal(one.bias, other.bias)
    assert np.array_equal(read.mean, [1, 2])
    assert np.array_equal(read.deviation, [0.5, 4])
    assert np.array_equal(read.prior, [0.5, 0.5])
    assert read.complete


def test_header_with_a_comment(tmp_path: Path) -> None:
    (tmp_path / "x.dbn").write_bytes(SMALL_BYTES.replace(b"DBN\0", b"DBN\nsome words\0", 1))
    assert read_dbn(tmp_path / "x.dbn").complete


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"DBN\0", b"DBM\0", "it does not begin with DBN (byte 4)"),
        (b"BDBN", b"BDBM", "b'BDBM' is where the tag BDBN should be (byte 8)"),
        (b"BDBN\0\0\0\0\1", b"BDBN\0\0\0\0\0", "it has 0 layers (byte 16)"),
        (b"gmean", b"Gmean", "the matrix 'Gmean' is where 'gmean' should be (byte 26)"),
        (b"perceptron", b"perceptrum", "layer 0 is of the unknown kind 'perceptrum' (byte 85)"),
        (b"W\0\2\0\0\0", b"W\0\xff\xff\xff\xff", "the matrix W has the size -1 x 3 (byte 99)"),
        (b"W\0\2\0\0\0", b"W\0\xff\xff\xff\x7f", "it ends within the matrix W of 2147483647 x 3 (byte 99)"),
        (b"a\0\3\0\0\0\1", b"a\0\1\0\0\0\3", None),
        (b"\0\0\0\x40EMATBNET", b"\0\0\0\0EMATBNET", "a deviation of a feature is 0 (byte 214)"),
        (b"EDBN", b"", "it ends within the tag EDBN (byte 210)"),
    ],
)  # fmt: skip
def test_damaged_files(old: bytes, new: bytes, message: str | None, tmp_path: Path) -> None:
    path = tmp_path / "x.dbn"
    path.write_bytes(SMALL_BYTES.replace(old, new, 1))
    assert path.read_bytes() != SMALL_BYTES
    if message is None:
        assert len(read_dbn(path).layers[0].bias) == 3
        return
    with pytest.raises(ModelFormatError) as error:
        read_dbn(path)
    assert str(error.value).splitlines()[0] == f"{path}: not a DBN file that can be read: {message}"


@pytest.mark.parametrize(
    ("dbn", "message"),
    [
        (Dbn(SMALL.mean, np.ones(2, np.float32), SMALL.layers), "there are 1 means and 2 deviations"),
        (
            Dbn(np.ones(4, np.float32), np.ones(4, np.float32), example().layers),
            "the 6 inputs are no multiple of the 4 features of a frame",
        ),
        (
            Dbn(SMALL.mean, SMALL.deviation, [layer(KINDS[0], 4, 6), layer(KINDS[2], 3, 5)]),
            "layer 1 is [3 x 5] behind 4 values",
        ),
        (
            Dbn(SMALL.mean, SMALL.deviation, [layer("perceptron", 4, 6), layer(KINDS[1], 3, 4)]),
            "layer 0 of the kind perceptron is not the last one",
        ),
        (
            Dbn(SMALL.mean, SMALL.deviation, [DbnLayer("perceptron", np.ones((2, 2), np.float32), SMALL.mean)]),
            "layer 0 has 2 outputs and 1 biases",
        ),
        (
            Dbn(SMALL.mean, SMALL.deviation, SMALL.layers, np.ones(2, np.float32)),
            "there are 3 outputs and 2 priors",
        ),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit(dbn: Dbn, message: str, tmp_path: Path) -> None:
    write_dbn(dbn, tmp_path / "x.dbn")
    with pytest.raises(ModelFormatError) as error:
        read_dbn(tmp_path / "x.dbn")
    assert f"can be read: {message} (byte" in str(error.value)


def test_no_such_file() -> None:
    with pytest.raises(DataError) as error:
        read_dbn("nowhere.dbn")
    assert str(error.value) == "the DBN file 'nowhere.dbn' cannot be read: No such file or directory"


@examples(200)
@given(
    cut=st.integers(0, len(SMALL_BYTES)),
    place=st.integers(0, len(SMALL_BYTES) - 1),
    byte=st.integers(0, 255),
    tail=st.binary(max_size=8),
)
def test_any_bytes_are_a_network_or_an_error(
    cut: int, place: int, byte: int, tail: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    damaged = bytearray(SMALL_BYTES)
    damaged[place] = byte
    path = tmp_path_factory.mktemp("dbn") / "x.dbn"
    path.write_bytes(bytes(damaged[:cut]) + tail)
    try:
        dbn = read_dbn(path)
    except CntkError:
        return
    assert network_of(dbn, Conversion(output_size=2))["HLast"].op.name == "Plus"


# -- networks --------------------------------------------------------------------------------------------------------


def lines(network: Network) -> list[str]:
    return [
        f"{node.name} = {node.op.name}({', '.join(child.name for child in node.inputs)})"
        for node in network
        if not isinstance(node, Parameter)
    ]


def test_nodes_of_a_complete_network() -> None:
    network = network_of(example(), Conversion(dropout=True, layer_types=("Sigmoid", "None")))
    assert lines(network) == [
        "features = InputValue()",
        "MeanOfFeatures = Mean(features)",
        "InvStdOfFeatures = InvStdDev(features)",
        "MVNormalizedFeatures = PerDimMeanVarNormalization(features, MeanOfFeatures, InvStdOfFeatures)",
        "W0*H0 = Times(W0, MVNormalizedFeatures)",
        "W0*H0+B0 = Plus(W0*H0, B0)",
        "H1 = Sigmoid(W0*H0+B0)",
        "DropH1 = Dropout(H1)",
        "W1*H1 = Times(W1, DropH1)",
        "H2 = Plus(W1*H1, B1)",
        "DropH2 = Dropout(H2)",
        "W2*H2 = Times(W2, DropH2)",
        "HLast = Plus(W2*H2, B2)",
        "labels = InputValue()",
        "CrossEntropyWithSoftmax = CrossEntropyWithSoftmax(labels, HLast)",
        "EvalClassificationError = ClassificationError(labels, HLast)",
        "Prior = Mean(labels)",
        "LogOfPrior = Log(Prior)",
        "ScaledLogLikelihood = Minus(HLast, LogOfPrior)",
    ]
    network.infer()
    assert np.array_equal(network["MeanOfFeatures"].value, [1, 2, 1, 2, 1, 2])
    assert np.array_equal(network["InvStdOfFeatures"].value, [2, 0.25, 2, 0.25, 2, 0.25])
    assert np.array_equal(network["W0"].value, example().layers[0].weights.T)
    assert [node.name for node in network.roots["output"]] == ["ScaledLogLikelihood"]


def test_a_network_that_was_only_pre_trained_gets_an_output_layer() -> None:
    dbn = example(("rbmgaussbernoulli", "rbmisalinearbernoulli"), prior=False)
    network = network_of(dbn, Conversion(output_size=5, need_prior=True), np.float64)
    assert lines(network)[6:11] == [
        "H1 = Sigmoid(W0*H0+B0)",
        "W1*H1 = Times(W1, H1)",
        "W1*H1+B1 = Plus(W1*H1, B1)",
        "W2*H2 = Times(W2, W1*H1+B1)",
        "HLast = Plus(W2*H2, B2)",
    ]
    network.infer()
    initialize_parameters(network)
    assert network["W2"].shape == (3, 5)
    assert network["Prior"].value is None
    assert network["W0"].value is not None
    assert network["W0"].value.dtype == np.float64
    with pytest.raises(NetworkError) as error:
        network_of(dbn, Conversion())
    assert str(error.value) == (
        "the DBN file has no output layer, and the recipe does not say how large it must be\n    Set outputLayerSize."
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_there_and_back(dtype: type, tmp_path: Path) -> None:
    network = network_of(example(), Conversion(), dtype)
    network.infer()
    assert written(dbn_of(network), tmp_path) == written(example(), tmp_path)


def test_products_of_two_matrices_are_two_layers() -> None:
    network = network_of(example(), Conversion())
    network.infer()
    reduce_network(network, {"W1": 1.0}, 1)
    dbn = dbn_of(network)
    assert [item.kind for item in dbn.layers] == [
        "rbmgaussbernoulli", "rbmisalinearbernoulli", "rbmbernoullibernoulli", "perceptron",
    ]  # fmt: skip
    product = dbn.layers[2].weights @ dbn.layers[1].weights
    assert np.allclose(product, example().layers[1].weights, atol=1e-5)
    assert not dbn.layers[1].bias.any()


def test_a_product_of_two_parameters_is_two_layers() -> None:
    network = network_of(example(), Conversion())
    whole = network["W1"]
    (reader,) = (node for node in network if whole in node.inputs)
    assert whole.value is not None
    first, second = np.linalg.qr(whole.value)
    left = network.add(Parameter.make("left", second.shape, value=second))
    right = network.add(Parameter.make("right", first.shape, value=first))
    product = network.add(Node("product", reader.op, [left, right], reader.op.attributes()))
    reader.inputs = [product if node is whole else node for node in reader.inputs]
    network.infer()
    layers = dbn_of(network).layers
    assert len(layers) == len(example().layers) + 1
    assert np.allclose(layers[2].weights @ layers[1].weights, example().layers[1].weights, atol=1e-5)


def test_features_that_are_not_normalized() -> None:
    network = Network()
    find = core_ops().find
    value = network.add(Input.make("features", (3,)))
    weights = network.add(Parameter.make("W", (3, 2), value=np.ones((3, 2))))
    times = find("", "Times")
    assert times is not None
    output = network.add(Node("z", times, [weights, value], times.attributes()))
    network.mark(output, "output")
    dbn = dbn_of(network)
    assert (dbn.mean.tolist(), dbn.deviation.tolist(), dbn.prior) == ([0.0], [1.0], None)
    assert dbn.layers[0].kind == "perceptron"
    assert dbn.layers[0].bias.tolist() == [0, 0]


def test_networks_that_a_dbn_file_cannot_hold() -> None:
    network = network_of(example(), Conversion(layer_types=("Tanh",)))
    network.infer()
    with pytest.raises(NetworkError) as error:
        dbn_of(network)
    assert str(error.value) == (
        "Tanh 'H2' cannot be written to a DBN file: it is no product of a matrix and a vector\n"
        "    A DBN file holds layers W * x + B, with or without Sigmoid, above normalized features."
    )
    network = network_of(example(), Conversion())
    network["MeanOfFeatures"].value = None
    with pytest.raises(NetworkError) as error:
        dbn_of(network)
    assert str(error.value) == "the statistics MeanOfFeatures are not computed yet\n    Train it first."


HINT = "\n    A DBN file holds layers W * x + B, with or without Sigmoid, above normalized features."


class Layers:
    """A network to put together: features of 3 values, and parameters W (3 to 2), V (2 to 3), b (2)."""

    def __init__(self) -> None:
        self.network = Network()
        self.x = self.network.add(Input.make("features", (3,)))
        self.W = self.network.add(Parameter.make("W", (3, 2), value=np.arange(6.0).reshape(3, 2)))
        self.V = self.network.add(Parameter.make("V", (2, 3), value=np.arange(6.0).reshape(2, 3)))
        self.b = self.network.add(Parameter.make("b", (2,), value=np.array([7.0, 8.0])))

    def op(self, name: str, *inputs: Node) -> Node:
        op = core_ops().find("", name)
        assert op is not None
        return self.network.add(Node(name.lower(), op, list(inputs), op.attributes()))

    def dbn(self, output: Node) -> Dbn:
        self.network.mark(output, "output")
        return dbn_of(self.network)


FORMS: dict[str, tuple[Callable[[Layers], Node], str]] = {
    "a sigmoid at the end": (
        lambda n: n.op("Sigmoid", n.op("Times", n.W, n.x)),
        f"Times 'times' cannot be written to a DBN file: the output layer must be linear{HINT}",
    ),
    "no bias": (
        lambda n: n.op("Plus", n.op("Times", n.W, n.x), n.op("Sigmoid", n.x)),
        f"Plus 'plus' cannot be written to a DBN file: one of its inputs must be a bias{HINT}",
    ),
    "two biases": (
        lambda n: n.op("Plus", n.b, n.W),
        f"Plus 'plus' cannot be written to a DBN file: one of its inputs must be a bias{HINT}",
    ),
    "no matrix": (
        lambda n: n.op("Times", n.op("Sigmoid", n.W), n.x),
        f"Times 'times' cannot be written to a DBN file: its first input must be a parameter{HINT}",
    ),
    "a bias of another size": (
        lambda n: n.op("Plus", n.op("Times", n.W, n.x), n.V),
        "Times 'times' cannot be written to a DBN file: the dimensions of its matrix and its bias are not those of a "
        f"layer{HINT}",
    ),
    "a vector for a matrix": (
        lambda n: n.op("Times", n.b, n.x),
        "Times 'times' cannot be written to a DBN file: the dimensions of its matrix and its bias are not those of a "
        f"layer{HINT}",
    ),
    "no layer": (lambda n: n.x, f"the network has no layer that a DBN file could hold{HINT}"),
    "features that are computed": (
        lambda n: n.op("Times", n.W, n.op("PerDimMeanVarNormalization", n.op("Abs", n.x), n.b, n.b)),
        f"PerDimMeanVarNormalization 'perdimmeanvarnormalization' cannot be written to a DBN file: its first input "
        f"must be an input of the network{HINT}",
    ),
}


@pytest.mark.parametrize("case", FORMS)
def test_forms_that_a_dbn_file_cannot_hold(case: str) -> None:
    make, message = FORMS[case]
    layers = Layers()
    with pytest.raises(NetworkError) as error:
        layers.dbn(make(layers))
    assert str(error.value) == message


def test_the_output_must_be_known() -> None:
    layers = Layers()
    output = layers.op("Times", layers.W, layers.x)
    with pytest.raises(NetworkError) as error:
        dbn_of(layers.network)
    assert str(error.value) == f"the network has no criterion that shows which node is its output{HINT}"
    layers.network.mark(output, "output")
    layers.network.mark(layers.op("Abs", output), "output")
    with pytest.raises(NetworkError, match="no criterion"):
        dbn_of(layers.network)


def test_parameters_must_have_values() -> None:
    layers = Layers()
    layers.W.value = None
    with pytest.raises(NetworkError) as error:
        layers.dbn(layers.op("Times", layers.W, layers.x))
    assert str(error.value) == "the parameter 'W' has no value"


def test_a_bias_on_either_side_and_dropout_on_the_way() -> None:
    for swap in (False, True):
        layers = Layers()
        product = layers.op("Times", layers.W, layers.op("Dropout", layers.x))
        dbn = layers.dbn(layers.op("Plus", *((layers.b, product) if swap else (product, layers.b))))
        assert dbn.layers[0].bias.tolist() == [7, 8]
        assert dbn.layers[0].weights.tolist() == [[0, 2, 4], [1, 3, 5]]


@pytest.mark.parametrize(
    ("inverse", "frames"),
    [([1.0, 2.0] * 3, 3), ([1.0, 2.0] * 2, 1), ([2.0] * 4, 1), ([2.0] * 9, 9), ([2.0] * 51, 51), ([2.0] * 53, 1)],
)
def test_one_of_an_odd_number_of_frames_is_kept(inverse: list[float], frames: int) -> None:
    layers = Layers()
    size = len(inverse)
    x = layers.network.add(Input.make("x", (size,)))
    mean = layers.network.add(Parameter.make("mean", (size,), value=np.arange(float(size))))
    deviation = layers.network.add(Parameter.make("inverse", (size,), value=np.array(inverse)))
    matrix = layers.network.add(Parameter.make("M", (size, 2), value=np.ones((size, 2))))
    dbn = layers.dbn(layers.op("Times", matrix, layers.op("PerDimMeanVarNormalization", x, mean, deviation)))
    assert dbn.mean.tolist() == list(range(size // frames))
    assert dbn.deviation.tolist() == [1 / one for one in inverse[: size // frames]]


def test_the_prior_is_the_one_that_is_called_so() -> None:
    layers = Layers()
    layers.network.add(Parameter.make("logPrior", (2, 1), value=np.array([[0.25], [0.75]])))
    output = layers.op("Times", layers.W, layers.x)
    dbn = layers.dbn(output)
    assert dbn.prior is not None
    assert dbn.prior.tolist() == [0.25, 0.75]
    layers.network.add(Parameter.make("otherprior", (2,), value=np.ones(2)))
    assert dbn_of(layers.network).prior is None


@pytest.mark.parametrize(
    ("evaluation", "roles"),
    [
        ("ClassificationError", ["CrossEntropyWithSoftmax", "EvalClassificationError"]),
        ("SquareError", ["CrossEntropyWithSoftmax", "SquareError"]),
        ("CrossEntropyWithSoftmax", ["CrossEntropyWithSoftmax", "CrossEntropyWithSoftmax"]),
    ],
)
def test_the_groups_of_a_network(evaluation: str, roles: list[str]) -> None:
    network = network_of(example(), Conversion(evaluation=evaluation))
    assert {role: [node.name for node in group] for role, group in network.roots.items()} == {
        "feature": ["features"],
        "label": ["labels"],
        "criterion": roles[:1],
        "evaluation": roles[1:],
        "output": ["ScaledLogLikelihood"],
    }


@pytest.mark.parametrize(
    ("prior", "complete", "wanted", "scaled"),
    [
        (True, True, False, True),
        (True, True, True, True),
        (False, True, True, False),
        (False, True, False, False),
        (False, False, True, True),
        (False, False, False, False),
    ],
)
def test_when_an_output_is_scaled(prior: bool, complete: bool, wanted: bool, scaled: bool) -> None:
    """A prior of the file is used; one is counted where an output layer is new and somebody wants it."""
    kinds = KINDS if complete else KINDS[:2]
    network = network_of(example(kinds, prior), Conversion(need_prior=wanted, output_size=5))
    assert [node.name for node in network.roots["output"]] == ["ScaledLogLikelihood" if scaled else "HLast"]


@pytest.mark.parametrize("frames", [1, 2, 3, 5, 11])
def test_statistics_of_several_frames_are_those_of_one(frames: int) -> None:
    """As many as repeat, if that is an odd number; what does not repeat stays as it is."""
    dbn = attrs.evolve(example(), layers=[layer("perceptron", 2, 2 * frames)])
    again = dbn_of(network_of(dbn, Conversion()))
    assert len(again.mean) == (2 * frames if frames % 2 == 0 else 2)
    np.testing.assert_allclose(again.mean, np.tile(dbn.mean, frames)[: len(again.mean)])
