"""Every operation that is written, as onnxruntime computes it, on the examples of all operations."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from cntk_model_onnx.check import session_of
from cntk_model_onnx.export.choose import OF_TRAINING
from cntk_model_onnx.export.exporter import looks_along
from cntk_model_onnx.export.table import ALIASES, REFUSED, WRITERS
from judge import difference, written
from op_table import LEAVES, PAGE, with_table

from cntk_core.api import CntkError, core_ops
from cntk_core.api.training import Model
from cntk_testing.networks import Sketch
from cntk_testing.op_cases import FRAMES, ExampleCase
from cntk_testing.op_examples import EXAMPLES
from cntk_testing.op_networks import cases_together, network_of
from cntk_testing.reference import ReferenceEngine

ROUNDED = {"QuantizedTimes": 2e-3}
"""What is written as another operation, which differs by so much."""

RANDOM = {"RandomDistribution"}
PARTLY = {"MaxUnpooling", "Shift", "LegacyReshape"}
"""Operations of which some forms are refused; the others are in test_sequences.py."""

OPS = [name for name in WRITERS if name in EXAMPLES and name not in RANDOM | PARTLY]


def largest_difference(cases: list[ExampleCase], folder: Path) -> float:
    made, minibatch = network_of(cases, "float32", learned=False)
    network = made.network
    network.roots["output"] = list(made.roots)
    session = session_of(written(network, folder / "op.onnx"))
    sequential = any(looks_along(node) for node in network)
    rows = {name: np.asarray(stream.data) for name, stream in minibatch.streams.items()}
    rows = {name: data.reshape(len(data), *network[name].known_shape) for name, data in rows.items()}
    feeds = {name: data[:, None] if sequential else data for name, data in rows.items()}
    names = [each.name for each in session.get_inputs()]
    feeds |= {name: np.ones(FRAMES, np.int64) for name in names if name not in feeds}
    found = session.run(None, {name: feeds[name] for name in names})
    given = {name: list(data[:, None]) if sequential else data for name, data in rows.items()}
    wanted = Model(network, engine=ReferenceEngine()).evaluate(given)
    gaps = []
    for node, value in zip(made.roots, found, strict=True):
        right = np.asarray(wanted[node.name]).reshape(value.shape)
        gaps.append(float((np.abs(right - value) / np.maximum(1.0, np.abs(right))).max(initial=0.0)))
    return max(gaps)


@pytest.mark.parametrize("name", OPS)
def test_onnxruntime_computes_the_same(name: str, tmp_path: Path) -> None:
    op = core_ops().find("", name)
    assert op is not None
    for cases in cases_together(op, EXAMPLES[name]):
        assert largest_difference(cases, tmp_path) < ROUNDED.get(name, 1e-5)


EDGES = [-3.0, -1.0, -1e-31, -9e-38, 0.0, 9e-38, 1e-31, 0.5, 1.0, 2.0]
"""Numbers beside which operations are defined in another way."""


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((name, 1) for name in ("Log", "Sqrt", "Reciprocal", "StraightThrough", "SoftPlus", "HardSigmoid")),
        *((name, 2) for name in ("Pow", "PReLU", "LogPlus", "Equal", "NotEqual", "GreaterEqual")),
        *((name, 3) for name in ("If", "Clip", "PerDimMeanVarNormalization", "PerDimMeanVarDeNormalization")),
    ],
)
def test_numbers_at_the_edges(name: str, count: int, tmp_path: Path) -> None:
    made = Sketch("float32")
    root = made.op(name, *(made.input(f"x{place}", 1) for place in range(count)), name="y")
    network = made.finish(None, root).network
    network.roots["output"] = [root]
    rows = np.array(list(itertools.product(EDGES, repeat=count)), np.float32)
    given = {f"x{place}": rows[:, place : place + 1] for place in range(count)}
    with np.errstate(all="ignore"):
        wanted = np.asarray(Model(network, engine=ReferenceEngine()).evaluate(given)["y"]).astype(np.float32)
    (found,) = session_of(written(network, tmp_path / "op.onnx")).run(None, given)
    np.testing.assert_allclose(found, wanted.reshape(found.shape), rtol=1e-5)


@pytest.mark.parametrize("ends", [(2, 1), (1, 0), (0, 3), (3, 3)])
@pytest.mark.parametrize("mode", ["constant", "reflect", "symmetric"])
def test_borders(mode: str, ends: tuple[int, int], tmp_path: Path) -> None:
    op, made = core_ops().find("", "Pad"), Sketch("float32")
    assert op is not None
    settings = op.attributes(head=(0, ends[0]), foot=(1, ends[1]), mode=mode, value=2.5)
    root = made.op("Pad", made.input("x", 4, 2), attributes=settings, name="y")
    network = made.finish(None, root).network
    network.roots["output"] = [root]
    assert difference(network, tmp_path / "op.onnx") == 0


def test_unpooling(tmp_path: Path) -> None:
    op = core_ops().find("", "MaxUnpooling")
    assert op is not None
    refused = 0
    for cases in cases_together(op, EXAMPLES[op.name]):
        for case in cases:
            try:
                assert largest_difference([case], tmp_path) < 1e-6
            except CntkError:
                refused += 1
    assert refused == 5


def test_regions_have_the_borders_of_the_original(tmp_path: Path) -> None:
    """The last of 7 bins of 57 elements ends after 58, as single precision rounds; halves go away from 0."""
    op, made = core_ops().find("", "ROIPooling"), Sketch("float32")
    assert op is not None
    settings = op.attributes(roi_output_shape=(7, 5), spatial_scale=0.5)
    root = made.op("ROIPooling", made.input("x", 2, 60, 60), made.input("r", 4, 4), attributes=settings, name="y")
    network = made.finish(None, root).network
    network.roots["output"] = [root]
    corners = [[0, 0, 112, 112], [5, 3, 31, 97], [-9, -3, 40, 50], [80, 90, 118, 130]]
    image = np.broadcast_to(np.arange(60, dtype=np.float32), (3, 2, 60, 60)).copy()
    given = {"x": image, "r": np.tile(np.array(corners, np.float32), (3, 1, 1))}
    wanted = np.asarray(Model(network, engine="cpu").evaluate(given)["y"])
    (found,) = session_of(written(network, tmp_path / "op.onnx")).run(None, given)
    np.testing.assert_array_equal(found, wanted.reshape(found.shape))
    assert found[0, 0, 0, 0].tolist() == [8, 16, 24, 32, 40, 48, 57]


def test_random_numbers_are_of_the_distribution(tmp_path: Path) -> None:
    op = core_ops().find("", "RandomDistribution")
    assert op is not None
    for cases in cases_together(op, EXAMPLES[op.name]):
        made, minibatch = network_of(cases, "float32", learned=False)
        made.network.roots["output"] = list(made.roots)
        session = session_of(written(made.network, tmp_path / "op.onnx"))
        feeds = {each.name: np.asarray(minibatch.streams[each.name].data) for each in session.get_inputs()}
        feeds = {
            name: np.repeat(data.reshape(FRAMES, *made.network[name].known_shape), 400, axis=0)
            for name, data in feeds.items()
        }
        means = [float(value.mean()) for value in session.run(None, feeds)]
        wanted = {"uniform": 0.5, "normal": 1.0, "gumbel": 0.5772, "bernoulli": 0.4}
        for case, mean in zip(cases, means, strict=True):
            assert abs(mean - wanted[case.attributes.type]) < 0.1


TABLE = {
    "D": """
        Abs Cosine Sin Exp Negate Floor Pass StopGradient RectifiedLinear ExponentialLinearUnit Sigmoid
        StableSigmoid Tanh Plus Minus ElementTimes Pow DiagTimes ReduceElements SumColumnElements MatrixL1Reg
        MatrixL2Reg Softmax LogSoftmax Hardmax Reshape TransposeDimensions Slice RowStack RowRepeat OneHot Dropout
        Gather Convolution BatchNormalization LocalResponseNormalization Trace
    """,
    "C": """
        Log Sqrt Reciprocal Clip LogPlus Less LessEqual Equal NotEqual Greater GreaterEqual If Times TransposeTimes
        KhatriRaoProduct CosDistance SumElements LegacyReshape Diagonal PerDimMeanVarNormalization
        PerDimMeanVarDeNormalization QuantizedTimes LookupTable RandomDistribution RandomSampleInclusionFrequency
        GMMLogLikelihood Shift OutputMultiplexer Pooling MaxPooling AveragePooling ROIPooling Crop
    """,
    "S": """
        PastValue FutureValue OptimizedRNNStack Where PackedIndex GatherPacked ScatterPacked ReconcileDynamicAxis
        ToSequence ToSequenceLike UnpackSequence SequenceDecoder
    """,
    "I": """
        InputValue SparseInputValue LearnableParameter DynamicAxis EnvironmentInput Mean InvStdDev
    """,
    "X": """
        CosDistanceWithNegativeSamples SquareError CrossEntropyWithSoftmax CrossEntropy ClassificationError Logistic
        DummyCriterion ClassBasedCrossEntropyWithSoftmax NoiseContrastiveEstimation LambdaRank NDCG1Eval CRF
        EditDistanceError LabelsToGraph ForwardBackward SequenceWithSoftmax EpochAccumulator
    """,
    "R": """
        RandomSample MaxUnpooling Assign
    """,
}
"""The original's operations, by how ONNX has them: as one node, as some, along sequences, as what is given, not at
all as it belongs to training, and not at all."""

EXCEPT = {"MaxUnpooling"}
"""Those of the last row that are written in part."""


@pytest.mark.parametrize("kind", TABLE)
def test_the_table_of_the_original_is_complete(kind: str) -> None:
    """Each operation is written, or what is said of it is why not."""
    assert sum(len(names.split()) for names in TABLE.values()) == 109
    for name in TABLE[kind].split():
        if name in EXCEPT:
            assert name in WRITERS
        elif kind in "DCS":
            assert name in WRITERS or name in ALIASES, name
            assert name not in REFUSED
        elif kind == "X":
            assert name in OF_TRAINING
        elif kind == "R":
            assert REFUSED[name][0]
        else:
            assert name in LEAVES or name in WRITERS


def test_every_operation_is_written_or_there_is_a_reason() -> None:
    leaves = {"InputValue", "SparseInputValue", "LearnableParameter", "Mean", "InvStdDev"}
    aliases = {"Pass", "StopGradient", "Dropout", "Trace"}
    named = set(WRITERS) | OF_TRAINING | set(REFUSED) | leaves | aliases
    assert {op.name for op in core_ops()} <= named


@pytest.mark.slow
def test_the_table_of_the_page_is_what_the_graphs_have() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page, "run python plugins/models/onnx/tests/op_table.py"
