"""Values of library definitions against formulas in NumPy, in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_builder_brainscript.builder import evaluate_network
from cntk_builder_brainscript.parser import parse_expression
from scipy.special import erf

from cntk_core.api import BuildContext, Location, Minibatch, Parameter, ParameterStore, StreamData, core_ops
from cntk_core.api.builders import SourceText, initialize_parameters
from cntk_core.api.engines import frame_layout, make_plan
from cntk_testing import ReferenceEngine

FRAMES = 6
INPUTS = """
x = Input {4}
y = Input {3, tag = 'label'}
a = Input {1}
b = Input {1}
m = Input {(3 : 2)}
"""


class Run:
    """A network in double precision, its data, and its values. Learned parameters that are random get other values."""

    def __init__(self, text):
        table = core_ops()
        names = lambda language: tuple(table.names(language))  # noqa: E731
        context = BuildContext(find_op=table.find, op_names=names, dtype=np.dtype(np.float64))
        source = SourceText.of("{" + INPUTS + text + "\n}", "net.bs")
        self.network = evaluate_network(parse_expression(source), context, Location("net.bs", 1, 1))
        self.network.infer()
        initialize_parameters(self.network)
        rng = np.random.default_rng(5)
        for parameter in self.network.parameters:
            if parameter.learning_rate_multiplier and np.ptp(parameter.value) > 0:
                parameter.value = rng.normal(size=parameter.value.shape)
        self.data = {
            "x": rng.normal(size=(FRAMES, 4)),
            "y": np.eye(3)[rng.integers(3, size=FRAMES)],
            "a": np.array([0.0, 0, 1, 1, 0, 1])[:, None],
            "b": np.array([0.0, 1, 0, 1, 1, 1])[:, None],
            "m": rng.normal(size=(FRAMES, 2, 3)),
        }

    def __getitem__(self, name):
        """A parameter's value, or the data of an input."""
        return self.data[name] if name in self.data else self.network[name].value

    def value(self, name="z"):
        node = self.network[name]
        if isinstance(node, Parameter):
            return node.value
        plan = make_plan(self.network, [node])
        program = ReferenceEngine().compile(plan, ParameterStore(self.network.parameters, np.float64), None, seed=0)
        layout = frame_layout(FRAMES)
        streams = {item.name: StreamData(self.data[item.name], layout) for item in self.network.inputs}
        program.evaluate(Minibatch(streams, FRAMES))
        return program.value(name)


def sigmoid(value):
    return 1 / (1 + np.exp(-value))


def softmax(value, axis=-1):
    shares = np.exp(value - value.max(axis, keepdims=True))
    return shares / shares.sum(axis, keepdims=True)


def assert_value(run, expected, name="z"):
    found = run.value(name)
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-12, atol=1e-12)


# Layers


def test_a_linear_layer():
    run = Run("f = LinearLayer {3, initBias = 0.5} ; z = f (x)")
    np.testing.assert_array_equal(run["f.b"], np.full(3, 0.5))
    assert_value(run, run["x"] @ run["f.W"] + 0.5)


def test_a_linear_layer_without_bias():
    run = Run("f = LinearLayer {3, bias = false} ; z = f (x)")
    assert "f.b" not in run.network
    assert_value(run, run["x"] @ run["f.W"])


def test_a_linear_layer_of_tensors():
    run = Run("f = LinearLayer {(5 : 2)} ; z = f (m)")
    assert run["f.W"].shape == (2, 3, 2, 5)
    assert_value(run, np.einsum("fcr,crkj->fkj", run["m"], run["f.W"]) + run["f.b"])


def test_a_linear_layer_that_is_repeated_over_the_last_axis():
    run = Run("f = LinearLayer {5, mapRank = 1} ; z = f (m)")
    assert run["f.W"].shape == (3, 5)
    product = run["m"] @ run["f.W"]
    assert_value(Run("f = LinearLayer {5, mapRank = 1, bias = false} ; z = f (m)"), product)


def test_dense_layers_one_after_the_other():
    run = Run("f = Sequential (DenseLayer {5, activation = Tanh} : LinearLayer {3}) ; z = f (x)")
    first, second = "f.arrayOfFunctions[0].arrayOfFunctions[0]", "f.arrayOfFunctions[1]"
    hidden = np.tanh(run["x"] @ run[f"{first}.W"] + run[f"{first}.b"])
    assert_value(run, hidden @ run[f"{second}.W"] + run[f"{second}.b"])


def test_a_layer_that_is_used_twice_has_one_set_of_parameters():
    run = Run("f = LinearLayer {4, bias = false} ; z = f (f (x))")
    assert len(run.network.parameters) == 1
    assert_value(run, run["x"] @ run["f.W"] @ run["f.W"])


@pytest.mark.parametrize("transposed", [False, True])
def test_an_embedding(transposed):
    run = Run(f"f = EmbeddingLayer {{5, transpose = {str(transposed).lower()}}} ; z = f (y)")
    assert_value(run, run["y"] @ (run["f.E"].T if transposed else run["f.E"]))


def test_layer_normalization():
    run = Run("f = LayerNormalizationLayer {initScale = 2, initBias = 0.25} ; z = f (x)")
    x = run["x"]
    assert_value(run, 2 * (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True) + 0.25)


def test_a_stabilizer_starts_at_one():
    run = Run("f = StabilizerLayer {} ; z = f (x)")
    np.testing.assert_allclose(run.value(), run["x"], rtol=1e-7)
    run.network["f.param"].value = np.array([0.3])
    assert_value(run, np.log1p(np.exp(4 * 0.3)) / 4 * run["x"])


def test_a_stabilizer_for_each_element():
    run = Run("z = BS.Parameters.StabilizeElements (x, inputDim = 4)")
    np.testing.assert_allclose(run.value(), run["x"], rtol=1e-7)
    assert [parameter.shape for parameter in run.network.parameters if parameter.learning_rate_multiplier] == [(4,)]


def test_parallel_layers():
    run = Run("f = Parallel ((Tanh : LinearLayer {2}), Splice) ; z = f (x)")
    product = run["x"] @ run["f.arrayOfFunctions[1].W"]
    assert_value(run, np.hstack([np.tanh(run["x"]), product]))


def test_two_layers_merged():
    run = Run("f = MergeBinary ((Sigmoid : LinearLayer {4}), Plus) ; z = f (x, y)")
    assert_value(run, sigmoid(run["x"]) + run["y"] @ run["f.arrayOfFunctions[1].W"] + run["f.arrayOfFunctions[1].b"])


def test_a_stack_of_layers():
    run = Run("f = LayerStack {3, i => DenseLayer {(5 : 4 : 3)[i], activation = Sigmoid}} ; z = f (x)")
    value = run["x"]
    for layer in range(3):
        name = f"f.arrayOfFunctions[{layer}].arrayOfFunctions[0]"
        value = sigmoid(value @ run[f"{name}.W"] + run[f"{name}.b"])
    assert_value(run, value)


def test_older_forms():
    run = Run("l = BFF (x, 3, 4) ; z = SBFF (x, 3, 4).Eh ; u = l.z")
    column = (run["x"] @ run["l.W"])[:, None, :] + run["l.B"]
    assert_value(run, column, "u")
    assert run.value("z").shape == (FRAMES, 1, 3)


# Operations

ELEMENTWISE = [
    ("Abs (x)", np.abs),
    ("Ceil (x)", np.ceil),
    ("Cosine (x)", np.cos),
    ("Exp (x)", np.exp),
    ("Floor (x)", np.floor),
    ("Log (Abs (x))", lambda x: np.log(np.abs(x))),
    ("Negate (x)", lambda x: -x),
    ("-x", lambda x: -x),
    ("Pass (x)", lambda x: x),
    ("Reciprocal (x)", lambda x: 1 / x),
    ("ReLU (x)", lambda x: np.maximum(x, 0)),
    ("Round (x)", lambda x: np.floor(x + 0.5)),
    ("Sigmoid (x)", sigmoid),
    ("Sin (x)", np.sin),
    ("Sqrt (Abs (x))", lambda x: np.sqrt(np.abs(x))),
    ("Tanh (x)", np.tanh),
    ("Softmax (x)", softmax),
    ("LogSoftmax (x)", lambda x: np.log(softmax(x))),
    ("Hardmax (x)", lambda x: np.eye(4)[x.argmax(1)]),
    ("CNTK2.Square (x)", np.square),
    ("CNTK2.Clip (x, -0.5, 0.5)", lambda x: np.clip(x, -0.5, 0.5)[:, None]),
    ("Clip (-0.5, 0.5, x)", lambda x: np.clip(x, -0.5, 0.5)[:, None]),
    ("ElementDivide (x, Exp (x))", lambda x: x / np.exp(x)),
    ("x .* x - 2 * x + 1", lambda x: x * x - 2 * x + 1),
    ("x / 4", lambda x: x / 4),
    ("1 / Exp (x)", lambda x: np.exp(-x)),
    ("LogPlus (x, -x)", lambda x: np.logaddexp(x, -x)),
    ("Less (x, -x)", lambda x: (x < -x) * 1.0),
    ("x >= 0", lambda x: (x >= 0) * 1.0),
    ("if x > 0 then x else 0.1 * x", lambda x: np.where(x > 0, x, 0.1 * x)),
    ("BS.Boolean.If (x > 0, Exp (x), x)", lambda x: np.where(x > 0, np.exp(x), x)),
    ("Slice (1, 3, x)", lambda x: x[:, 1:3]),
    ("Slice (-2, 0, x)", lambda x: x[:, -2:]),
    ("RowSlice (1, 2, x)", lambda x: x[:, 1:3]),
    ("RowRepeat (x, 2)", lambda x: np.tile(x, (1, 2))),
    ("Splice (x : Tanh (x))", lambda x: np.hstack([x, np.tanh(x)])),
    ("NewReshape (x, (2 : 2))", lambda x: x.reshape(-1, 2, 2)),
    ("ReduceSum (x)", lambda x: x.sum(1, keepdims=True)),
    ("ReduceMean (x)", lambda x: x.mean(1, keepdims=True)),
    ("ReduceMax (x)", lambda x: x.max(1, keepdims=True)),
    ("ReduceMin (x)", lambda x: x.min(1, keepdims=True)),
    ("ReduceLogSum (x)", lambda x: np.log(np.exp(x).sum(1, keepdims=True))),
    ("BS.Constants.OnesLike (x)", lambda x: np.ones((len(x), 1))),
    ("BS.Constants.ZeroesLike1 (x)", np.zeros_like),
    ("BS.Constants.OnesTensor (4) .* x", lambda x: x),
    ("CosDistance (x, Exp (x))", lambda x: cosine(x, np.exp(x))),
    ("Atan (x)", np.arctan),
    ("Asinh (Sinh (x))", lambda x: x),
    ("Erf (x)", erf),
    ("Gelu (x)", lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2)))),
    ("SoftPlus (x, steepness = 2)", lambda x: np.logaddexp(2 * x, 0) / 2),
    ("SoftSign (x)", lambda x: x / (1 + np.abs(x))),
    ("HardSigmoid (x, alpha = 0.5)", lambda x: np.clip(0.5 * x + 0.5, 0, 1)),
    ("ELU (x, alpha = 0.5)", lambda x: np.where(x < 0, 0.5 * np.expm1(x), x)),
    ("SELU (x, alpha = 0.5, gamma = 2)", lambda x: np.where(x < 0, np.expm1(x), 2 * x)),
    ("LeakyReLU (x, alpha = 0.2)", lambda x: np.where(x < 0, 0.2 * x, x)),
    ("PReLU (0.2, x)", lambda x: np.where(x < 0, 0.2 * x, x)[:, None]),
    ("PReLULayer {} (x)", lambda x: np.where(x < 0, 0.25 * x, x)),
    ("StraightThrough (x)", lambda x: np.where(x > 0, 1.0, -1.0)),
    ("ConstantOp (x, fillValue = 2)", lambda x: np.full_like(x, 2)),
    ("Cast (x, 'float16')", lambda x: x.astype(np.float16).astype(float)),
    ("Squeeze (ExpandDims (x, axis = 1), axes = 1)", lambda x: x),
    ("Pad (x, 1, 2, mode = 'reflect')", lambda x: np.pad(x, [(0, 0), (1, 2)], "reflect")),
    ("Pad (x, 1, 0, value = 3)", lambda x: np.pad(x, [(0, 0), (1, 0)], constant_values=3)),
    ("TopK (x, 2)", lambda x: -np.sort(-x)[:, :2]),
    ("TopK (x, 2, output = 'indices')", lambda x: np.argsort(-x)[:, :2]),
    (
        "LayerNormalization (x, ConstantTensor (2, (4)), ConstantTensor (1, (4)), epsilon = 0.1)",
        lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 0.1) * 2 + 1,
    ),
]


def cosine(x, y):
    return (x * y).sum(1, keepdims=True) / np.linalg.norm(x, axis=1)[:, None] / np.linalg.norm(y, axis=1)[:, None]


@pytest.mark.parametrize(("text", "formula"), ELEMENTWISE, ids=[text for text, _ in ELEMENTWISE])
def test_an_operation(text, formula):
    run = Run(f"z = {text}")
    assert_value(run, formula(run["x"]))


def test_operations_along_an_axis():
    run = Run(
        """
        sums = ReduceSum (m, axis = 1)
        shares = Softmax (m, axis = 2)
        turned = Transpose (m)
        flat = FlattenDimensions (m, 1, 2)
        split = SplitDimension (x, 1, 2)
        part = CNTK2.Slice (m, 1, 2, axis = 2)
        """
    )
    m = run["m"]
    assert_value(run, m.sum(2, keepdims=True), "sums")
    assert_value(run, softmax(m, 1), "shares")
    assert_value(run, m.transpose(0, 2, 1), "turned")
    assert_value(run, m.reshape(-1, 6), "flat")
    assert_value(run, run["x"].reshape(-1, 2, 2), "split")
    assert_value(run, m[:, 1:2], "part")


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("And (a, b)", [0, 0, 0, 1, 0, 1]),
        ("Or (a, b)", [0, 1, 1, 1, 1, 1]),
        ("Xor (a, b)", [0, 1, 1, 0, 1, 0]),
        ("Not (a)", [1, 1, 0, 0, 1, 0]),
    ],
)
def test_truth_values(text, table):
    assert_value(run := Run(f"z = BS.Boolean.{text}"), np.reshape(table, run.value().shape))


# Criteria


def test_cross_entropy_and_errors():
    run = Run(
        """
        f = LinearLayer {3} ; s = f (x)
        ce = CrossEntropyWithSoftmax (y, s)
        composed = CNTK2.CrossEntropyWithSoftmax_new (y, s)
        plain = CrossEntropy (y, Softmax (s))
        errors = ClassificationError (y, s)
        wrong = CNTK2.ClassificationError_new (y, s)
        square = SquareError (y, s)
        """
    )
    scores = run.value("s")
    losses = -np.log((softmax(scores) * run["y"]).sum(1))
    wrong = scores.argmax(1) != run["y"].argmax(1)
    assert_value(run, losses.sum(), "ce")
    assert_value(run, losses.sum(), "plain")
    assert_value(run, losses[:, None], "composed")
    assert_value(run, wrong.sum(), "errors")
    assert_value(run, wrong[:, None] * 1.0, "wrong")
    assert_value(run, ((scores - run["y"]) ** 2).sum(), "square")


def test_criteria_along_an_axis():
    run = Run(
        """
        l = Hardmax (m)
        ce = CrossEntropyWithSoftmax (l, m, axis = 1)
        errors = ClassificationError (l, m, axis = 1)
        """
    )
    m = run["m"]
    flat = m.reshape(-1, 6)
    labels = np.eye(6)[flat.argmax(1)].reshape(m.shape)
    assert_value(run, np.log(np.exp(m).sum(2, keepdims=True)) - (labels * m).sum(2, keepdims=True), "ce")
    wrong = (labels != (m == m.max(2, keepdims=True))).sum(2) >= 1
    assert_value(run, wrong.mean(1)[:, None], "errors")


def test_logistic_regression():
    run = Run("p = Sigmoid (ReduceSum (x)) ; z = Logistic (a, p)")
    p = run.value("p")
    assert_value(run, -np.log(np.where(run["a"] == 1, p, 1 - p)).sum())


def test_norms_of_parameters():
    run = Run("W = ParameterTensor {(3 : 4)} ; first = MatrixL1Reg (W) ; second = MatrixL2Reg (W)")
    assert_value(run, np.abs(run["W"]).sum(), "first")
    assert_value(run, np.linalg.norm(run["W"]), "second")


# Parameters and constants


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Constant (2.5)", [[2.5]]),
        ("Constant (2, rows = 2, cols = 3)", np.full((3, 2), 2.0)),
        ("ConstantTensor (3, (2 : 1))", [[3.0, 3]]),
        ("ConstantFromString ('1 2 3\n4 5 6')", [[1.0, 4], [2, 5], [3, 6]]),
        ("ParameterTensor {(2), initValue = 7}", [7.0, 7]),
        ("Parameter {1, 2, init = 'fixedValue', value = 4}", [[4.0], [4]]),
        (
            "ParameterTensor {(2 : 2), learningRateMultiplier = 0, init = 'fromLiteral', initFromLiteral = '1 2\n3 4'}",
            [[1.0, 3], [2, 4]],
        ),
        ("ParameterTensor {(2), init = 'zero'}", [0.0, 0]),
    ],
)
def test_first_values(text, value):
    run = Run(f"z = {text}")
    np.testing.assert_array_equal(run.value(), value)
    assert run.network["z"].learning_rate_multiplier == (0 if "Constant" in text or "Multiplier" in text else 1)
