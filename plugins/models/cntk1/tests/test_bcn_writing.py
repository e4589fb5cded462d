"""Models in version 1 of the original's format: what is written reads back as the same, byte by byte where it can."""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import pytest
from bcn_writer import Model, dims, flag, float64, int32, size, small_model, wide
from cntk_model_cntk1.bcn.model_format import Cntk1Format
from cntk_model_cntk1.bcn.operations import STORED
from cntk_model_cntk1.bcn.save import LEAST, NEWEST, save_bcn
from cntk_model_cntk1.bcn.write_attributes import WRITERS, Target, needed_version, swaps
from cntk_model_cntk1.bcn.writer import BinaryWriter
from test_bcn_attributes import CASES, read

from cntk_core.api import CntkError, Network, Node, Problems, UnsupportedError, UsageError, core_ops
from cntk_core.api.builders import BATCH
from cntk_core.api.training import Model as Evaluated
from cntk_testing.networks import Sketch
from cntk_testing.reference import ReferenceEngine

find_op = core_ops().find

LOSSY = ("Dropout", "RandomSample", "RandomSampleInclusionFrequency", "Pooling", "MaxUnpooling", "LegacyReshape")
"""What has parts in a file that mean nothing: positions of random numbers, maps of poolings, images of size 0."""


def load(path: Path) -> Network:
    return Cntk1Format().load(path, find_op)


def refused(network: Network, path: Path, version: int = 0) -> str:
    with pytest.raises(CntkError) as caught:
        save_bcn(network, path, version)
    assert not path.exists()
    return str(caught.value)


# -- bytes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float", "double"])
@pytest.mark.parametrize("version", range(LEAST, 27))
def test_a_file_of_every_version_is_written_again_byte_by_byte(version: int, precision: str, tmp_path: Path) -> None:
    content = small_model(version, precision).in_order().content()
    if version >= 14:
        content = content.replace(wide("ErrorPrediction"), wide("ClassificationError"))
    path = tmp_path / "old.dnn"
    path.write_bytes(content)
    assert save_bcn(load(path), tmp_path / "again.dnn", version) == version
    assert (tmp_path / "again.dnn").read_bytes() == content


LATER = {"ExponentialLinearUnit", "EyeLikeOp"}
"""Operations that CNTK 2 writes into such files, and does not read from them."""

BEGIN = {"OptimizedRNNStack": 14}
WRITTEN = [case for case in CASES if case[0] in STORED and BEGIN.get(case[0], LEAST) <= case[1] <= NEWEST]


@pytest.mark.parametrize(("operation", "version", "data", "expected"), WRITTEN)
def test_attributes(operation: str, version: int, data: bytes, expected: object) -> None:
    op = find_op("model", operation)
    assert op is not None
    node = Node("n", op, [Node("x", op)], expected)
    writer = BinaryWriter()
    WRITERS[operation](Target(writer, version, np.dtype(np.float32), node))
    written = b"".join(map(bytes, writer.pieces))
    wanted = attrs.evolve(expected, image=(60,)) if expected == CASES[17][3] else expected  # type: ignore[misc]
    assert read(operation, written, version) == wanted
    flag_of_count = operation == "BatchNormalization" and version == 19  # of the input that is not there
    assert operation in LOSSY or flag_of_count or written == data


def test_every_operation_that_stores_something_is_written() -> None:
    assert set(WRITERS) == {case[0] for case in CASES} - {"ToSequence", "UnpackSequence", *LATER}
    stores = {name for name in STORED if attrs.fields(op_of(name).attributes)}
    assert stores == set(WRITERS) | {"CosDistanceWithNegativeSamples", "SequenceWithSoftmax"}


def op_of(name: str):
    op = find_op("model", name)
    assert op is not None
    return op


def test_the_oldest_version_that_can_say_everything(tmp_path: Path) -> None:
    path = small_model(26).write(tmp_path / "old.dnn")
    network = load(path)
    assert save_bcn(network, path) == 14
    network["err"].op = op_of("NDCG1Eval")
    network["err"].inputs.append(network["labels"])
    assert save_bcn(network, path) == 15


NEEDS = [
    ("Slice", {"begin": (0, 0), "end": (1, 1), "axis": (1, 2)}, 22),
    ("ReduceElements", {"axis": 1, "keep_dimensions": False}, 24),
    ("ReduceElements", {"axis": 1, "keep_dimensions": True}, 14),
    ("Pooling", {"kernel_shape": (2, 2), "ceil_out_dim": True}, 21),
    ("Pooling", {"kernel_shape": (2, 2), "include_pad": True}, 23),
    ("Dropout", {"seed": 3}, 17),
    ("Dropout", {}, 14),
    ("TransposeDimensions", {"permutation": (2, 1)}, 14),
]


@pytest.mark.parametrize(("operation", "settings", "version"), NEEDS)
def test_versions_that_operations_need(
    operation: str, settings: dict[str, object], version: int, tmp_path: Path
) -> None:
    made = Sketch("float32")
    x = made.input("x", 4, 4)
    op = op_of(operation)
    node = made.network.add(Node("y", op, [x], op.attributes(**settings)))
    made.network.mark(node, "output")
    made.network.infer()
    assert save_bcn(made.network, tmp_path / "net.dnn") == version
    again = load(tmp_path / "net.dnn")
    assert again["y"].shape == node.shape
    if version > 14:
        assert refused(made.network, tmp_path / "not.dnn", 14) == (
            f"{operation} 'y' says what version 14 cannot say; version {version} can"
        )


@pytest.mark.parametrize(
    ("operation", "settings", "version"),
    [
        *NEEDS[:1],
        ("Convolution", {"kernel_shape": (2, 2), "map_count": (1,), "output_shape": (3, 3)}, 20),
        ("Convolution", {"kernel_shape": (2, 2), "map_count": (1,)}, 0),
        ("Pooling", {"kernel_shape": (2, 2)}, 0),
        ("RandomSample", {"num_samples": 2, "seed": 0}, 17),
        ("RandomSample", {"num_samples": 2}, 0),
        ("RandomSampleInclusionFrequency", {"num_samples": 2, "seed": 0}, 17),
        ("RandomSampleInclusionFrequency", {"num_samples": 2}, 0),
        ("Dropout", {"seed": 0}, 17),
        ("ROIPooling", {"roi_output_shape": (2, 2), "spatial_scale": 0.5}, 26),
        ("ROIPooling", {"roi_output_shape": (2, 2)}, 0),
        ("Where", {"dynamic_axis_name": "steps"}, 11),
        ("Where", {}, 0),
        ("Times", {"infer_input_rank_to_map": 0}, 12),
        ("Times", {}, 0),
        ("OptimizedRNNStack", {"hidden_size": 2}, 14),
        ("LambdaRank", {}, 15),
        ("Sigmoid", {}, 0),
    ],
)
def test_the_oldest_version_that_can_say_what_a_node_says(
    operation: str, settings: dict[str, object], version: int
) -> None:
    op = op_of(operation)
    assert needed_version(Node("y", op, [], op.attributes(**settings))) == version


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"sequential": True}, "runs along sequences"),
        ({"groups": 2}, "has groups"),
        ({"dilation": (1, 2)}, "is dilated"),
    ],
)
def test_convolutions_that_no_version_can_say(settings: dict[str, object], what: str) -> None:
    op = op_of("Convolution")
    with pytest.raises(UnsupportedError) as caught:
        needed_version(Node("y", op, [], op.attributes(kernel_shape=(2, 2), map_count=(1,), **settings)))
    assert str(caught.value) == f"Convolution 'y' {what}, which version 1 cannot say"


@pytest.mark.parametrize("operation", ["Times", "TransposeTimes"])
def test_products_that_every_version_can_say(operation: str, tmp_path: Path) -> None:
    """Not those that keep axes of their right operand when the left one is inferred."""
    made = Sketch("float32")
    op = op_of(operation)
    node = made.network.add(Node("y", op, [made.parameter("W", 4, 4), made.input("x", 4)], op.attributes()))
    made.network.mark(node, "output")
    made.network.infer()
    assert save_bcn(made.network, tmp_path / "net.dnn", LEAST) == LEAST
    node.attributes = op.attributes(infer_input_rank_to_map=0)
    assert refused(made.network, tmp_path / "not.dnn", LEAST) == (
        f"{operation} 'y' says what version {LEAST} cannot say; version 12 can"
    )


# -- what is written otherwise ----------------------------------------------------------------------------


def normalization(version: int) -> Model:
    model = Model(version).input("x", 2)
    for name in ("scale", "bias", "mean", "spread"):
        model.parameter(name, [[0.5], [2.0]], 0.0)
    inputs: tuple[str, ...] = ("x", "scale", "bias", "mean", "spread")
    if version >= 19:
        model.parameter("count", [[7]], 0.0, (1,))
        inputs += ("count",)
    state = flag(False) if version == 19 else size(7)
    data = flag(False) + float64(100.0, 5.0) + int32(1) + state + float64(0.25) + flag(True)
    return model.add("BatchNormalization", "bn", data, inputs).root("OutputNodes", "bn")


@pytest.mark.parametrize("version", [13, 14, 18, 19, 20, 26])
def test_counts_of_normalizations(version: int, tmp_path: Path) -> None:
    path = normalization(version).write(tmp_path / "old.dnn")
    for other in (13, 18, 19, 20, 26):
        assert save_bcn(load(path), tmp_path / "new.dnn", other) == other
        again = load(tmp_path / "new.dnn")
        assert again["bn"].inputs[5].value.tolist() == [7]  # type: ignore[union-attr]
        assert len(again) == 7


def test_statistics_need_version_13(tmp_path: Path) -> None:
    network = load(normalization(26).write(tmp_path / "old.dnn"))
    assert refused(network, tmp_path / "new.dnn", 12) == (
        "BatchNormalization 'bn' says what version 12 cannot say; version 13 can"
    )


def test_a_count_that_others_read_stays_a_parameter(tmp_path: Path) -> None:
    model = normalization(26).add("Negate", "less", b"", ("count",)).root("OutputNodes", "bn", "less")
    save_bcn(load(model.write(tmp_path / "old.dnn")), tmp_path / "new.dnn", 14)
    again = load(tmp_path / "new.dnn")
    assert again["count"].value.tolist() == [7]  # type: ignore[union-attr]
    assert [child.name for child in again["bn"].inputs][-1] == "bn.run_sample_count"


def test_a_permutation_becomes_exchanges(tmp_path: Path) -> None:
    made = Sketch("float32")
    x = made.input("x", 2, 3, 4)
    op = op_of("TransposeDimensions")
    node = made.network.add(Node("y", op, [x], op.attributes(permutation=(3, 1, 2))))
    made.network.mark(node, "output")
    made.network.infer()
    data = {"x": np.arange(48, dtype=np.float32).reshape(2, 2, 3, 4)}
    expected = Evaluated(made.network, engine=ReferenceEngine()).evaluate(data, ["y"])["y"]
    for version, nodes in ((14, 3), (25, 2)):
        save_bcn(made.network, tmp_path / "new.dnn", version)
        again = load(tmp_path / "new.dnn")
        assert len(again) == nodes
        found = Evaluated(again, engine=ReferenceEngine()).evaluate(data, ["y"])["y"]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("permutation", [(1, 2, 3), (2, 1, 3), (2, 3, 1), (4, 3, 1, 2)])
def test_exchanges(permutation: tuple[int, ...]) -> None:
    held = list(range(1, len(permutation) + 1))
    for first, second in swaps(permutation):
        held[first - 1], held[second - 1] = held[second - 1], held[first - 1]
    assert tuple(held) == permutation


def test_numbers_of_negative_samples_are_constants(tmp_path: Path) -> None:
    made = Sketch("float32")
    x, y = made.input("x", 2), made.input("y", 2)
    op = op_of("CosDistanceWithNegativeSamples")
    made.network.mark(made.network.add(Node("c", op, [x, y], op.attributes(2, 5))), "output")
    made.network.infer()
    save_bcn(made.network, tmp_path / "new.dnn")
    again = load(tmp_path / "new.dnn")
    assert (again["c"].attributes.shift, again["c"].attributes.negatives) == (2, 5)
    assert [again[f"c.{name}"].value.tolist() for name in ("shift", "negatives")] == [[[2.0]], [[5.0]]]  # type: ignore[union-attr]


def test_constants_that_a_recipe_has_kept_are_not_written_twice(tmp_path: Path) -> None:
    made = Sketch("float32")
    inputs = [made.input("x", 2), made.input("y", 2), *(made.given(name, np.ones(1)) for name in ("shift", "count"))]
    op = op_of("CosDistanceWithNegativeSamples")
    made.network.mark(made.network.add(Node("c", op, inputs, op.attributes(2, 5))), "output")
    made.network.infer()
    save_bcn(made.network, tmp_path / "new.dnn")
    again = load(tmp_path / "new.dnn")
    assert (again["c"].attributes.shift, again["c"].attributes.negatives) == (2, 5)


def test_axes_of_inputs(tmp_path: Path) -> None:
    made = Sketch("float32")
    made.input("one", 2).axis = BATCH
    made.input("steps", 2).axis = "words"
    made.input("plain", 2)
    made.network.infer()
    save_bcn(made.network, tmp_path / "new.dnn")
    again = load(tmp_path / "new.dnn")
    assert [again[name].axis for name in ("one", "steps", "plain")] == [BATCH, "words", ""]
    assert {node.name for node in again if node.op.name == "DynamicAxis"} == {"__noSequenceAxis", "words"}


def test_statistics_that_are_not_there_yet(tmp_path: Path) -> None:
    model = Model(14).input("x", 2).add("Mean", "m", flag(False) + _empty(), ("x",))
    save_bcn(load(model.write(tmp_path / "old.dnn")), tmp_path / "new.dnn")
    assert load(tmp_path / "new.dnn")["m"].value is None


def _empty() -> bytes:
    return b"d" + wide("BMAT") + size(4) + wide("unnamed") + int32(0) + size(2, 1) + bytes(8) + wide("EMAT")


# -- what cannot be said ----------------------------------------------------------------------------------


def test_all_that_cannot_be_said_is_named(tmp_path: Path) -> None:
    made = Sketch("float32")
    x = made.input("x", 3)
    weights = made.parameter("w", 3)
    weights.value = None
    convolution = op_of("Convolution")
    for name in ("Gelu", "Erf"):
        made.network.mark(made.network.add(Node(name.lower(), op_of(name), [x])), "output")
    kernel = made.parameter("k", 3)
    kernel.value = np.zeros(3, np.float32)
    dilated = convolution.attributes(kernel_shape=(3,), dilation=(2,))
    made.network.add(Node("d", convolution, [kernel, x], dilated))
    with pytest.raises(Problems) as caught:
        save_bcn(made.network, tmp_path / "not.dnn")
    assert [error.message for error in caught.value.errors] == [
        "the parameter 'w' has no value",
        "version 1 of CNTK's models has no operation Gelu, which is that of 'gelu'",
        "version 1 of CNTK's models has no operation Erf, which is that of 'erf'",
        "Convolution 'd' is dilated, which version 1 cannot say",
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"versoin": "14"}, "CNTK-1 files have no setting 'versoin'; did you mean 'version'?\n    Settings: version"),
        ({"version": "new"}, "the setting version cannot be 'new'\n    It is a number such as 14."),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Cntk1Format().take_settings(settings)
    assert str(caught.value) == message


def test_a_version_that_is_asked_for(tmp_path: Path) -> None:
    network = load(small_model().write(tmp_path / "old.dnn"))
    form = Cntk1Format()
    form.take_settings({"version": "23"})
    form.save(network, tmp_path / "new.dnn")
    assert size(23) in (tmp_path / "new.dnn").read_bytes()[:40]
    assert refused(network, tmp_path / "not.dnn", 27) == "there is no version 27 to write\n    Versions: 10 to 26."


def test_dims_and_numbers() -> None:
    writer = BinaryWriter()
    writer.dims((2, 3))
    writer.size(-1)
    assert b"".join(map(bytes, writer.pieces)) == dims(2, 3) + b"\xff" * 8
