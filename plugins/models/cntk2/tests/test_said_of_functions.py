"""What files say of single functions: settings that are left out, and those that make no sense."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cntk_model_cntk2.encode import encode
from cntk_model_cntk2.load import load_model
from cntk_model_cntk2.model_format import Cntk2Format
from cntk_model_cntk2.records import read_dictionary
from cntk_model_cntk2.save import NUMBERS
from cntk_model_cntk2.values import Axis, NDShape, SizeT

from cntk_core.api import CntkError, ModelFormatError, Network, UnsupportedError, core_ops
from cntk_testing.networks import Sketch
from cntk_testing.op_examples import EXAMPLES
from cntk_testing.op_networks import cases_together, network_of

find_op = core_ops().find


def examples(op: str, folder: Path) -> Iterator[tuple[Path, dict[str, Any], dict[str, Any]]]:
    """Files with one example of an operation each: the path, all that it says, and what it says of the function."""
    path = folder / "x.model"
    found = find_op("", op)
    assert found is not None
    for cases in cases_together(found, EXAMPLES[op]):
        for case in cases:
            network = network_of([case], "float32", learned=False)[0].network
            network.roots["output"] = [node for node in network if node.op.name == op][-1:]
            try:
                Cntk2Format().save(network, path)
            except UnsupportedError:
                continue
            values = read_dictionary(path)
            own = [each for each in values["primitive_functions"] if each["op"] == NUMBERS[op]]
            yield path, values, own[-1]


def changed(path: Path, values: dict[str, Any]) -> Network:
    path.write_bytes(b"".join(map(bytes, encode(values))))
    return load_model(path, find_op).network


LEFT_OUT: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
    ("Pooling", ("ceilOutDim", "includePad"), {"ceil_out_dim": False, "include_pad": False}),
    ("ROIPooling", ("spatialScale",), {"spatial_scale": 1.0}),
    (
        "Convolution",
        ("sequential", "groups", "maxTempMemSizeInSamples", "dilation"),
        {"sequential": False, "groups": 1, "max_temp_mem_size_in_samples": 0, "dilation": (1,)},
    ),
    ("Times", ("inferInputRankToMap",), {"infer_input_rank_to_map": -1}),
    ("TransposeTimes", ("inferInputRankToMap",), {"infer_input_rank_to_map": -1}),
    ("BatchNormalization", ("disableRegularization",), {"disable_regularization": False}),
    ("Pad", ("paddingConstantValue", "paddingMode"), {"value": 0.0, "mode": "constant"}),
    ("Dropout", ("rngSeed",), {"seed": -1}),
    ("TopK", ("axis",), {"axis": 1}),
    ("Slice", ("sliceStrides",), {}),
]


@pytest.mark.parametrize(("op", "keys", "settings"), LEFT_OUT, ids=[each[0] for each in LEFT_OUT])
def test_what_a_file_leaves_out(op: str, keys: tuple[str, ...], settings: dict[str, Any], tmp_path: Path) -> None:
    loaded = 0
    for path, values, function in examples(op, tmp_path):
        for key in keys:
            function["attributes"].pop(key, None)
        try:
            network = changed(path, values)
        except ModelFormatError:  # of other sizes then
            continue
        loaded += 1
        node = next(node for node in network if node.op.name == op)
        assert {name: getattr(node.attributes, name) for name in settings} == settings
    assert loaded


HUGE = 2**31
SENSELESS: list[tuple[str, str, Any, str]] = [
    ("Pooling", "strides", NDShape((-7,)), "has dimensions in its 'strides' that make no sense"),
    ("Pooling", "strides", NDShape((HUGE,)), "has dimensions in its 'strides' that make no sense"),
    (
        "Pooling",
        "poolingWindowShape",
        NDShape((-7, 2)),
        "has dimensions in its 'poolingWindowShape' that make no sense",
    ),
    ("Pooling", "poolingType", SizeT(2), "pools in the unknown way 2"),
    ("MaxUnpooling", "poolingType", SizeT(7), "pools in the unknown way 7"),
    ("Times", "outputRank", -1, "has a 'outputRank' of -1, which makes no sense"),
    ("Times", "outputRank", SizeT(HUGE), f"has a 'outputRank' of {HUGE}, which makes no sense"),
    ("Reshape", "newShape", NDShape((HUGE,)), "has dimensions in its 'newShape' that make no sense"),
    ("Pad", "paddingMode", SizeT(3), "pads in the unknown way 3"),
    ("Pad", "paddingHead", [SizeT(HUGE)], "pads by sizes that make no sense"),
    ("Pad", "paddingFoot", [-1], "pads by sizes that make no sense"),
    ("Crop", "offset", [SizeT(1)], "has an 'offset' that is not one of two axes"),
    ("Crop", "offset", [SizeT(1)] * 3, "has an 'offset' that is not one of two axes"),
    ("Slice", "sliceStrides", 0, "has steps that make no sense"),
    ("TransposeDimensions", "axisVec", [Axis(5, "", True)], "permutes axes that are not there"),
    ("TransposeDimensions", "axisVec", [Axis(-2, "", True)], "permutes axes that are not there"),
    ("TopK", "numItems", -1, "has a 'numItems' of -1, which makes no sense"),
    ("PastValue", "offset", -1, "has a 'offset' of -1, which makes no sense"),
]
UNREAD: list[tuple[str, str, Any, str]] = [
    ("ROIPooling", "poolingType", SizeT(1), "pools regions by their average, which cannot be read"),
    ("Convolution", "sequential", True, "runs along sequences, which cannot be read"),
    ("Cast", "newDataType", 3, "makes numbers of the unknown type 3"),
]
ALL = [(*each, ModelFormatError) for each in SENSELESS] + [(*each, UnsupportedError) for each in UNREAD]


@pytest.mark.parametrize(("op", "key", "value", "message", "kind"), ALL, ids=[f"{each[0]} {each[1]}" for each in ALL])
def test_what_makes_no_sense(
    op: str, key: str, value: Any, message: str, kind: type[CntkError], tmp_path: Path
) -> None:
    path, values, function = next(examples(op, tmp_path))
    function["attributes"][key] = value
    with pytest.raises(kind) as caught:
        changed(path, values)
    assert message in str(caught.value)
    assert f"'{function['uid']}'" in str(caught.value)


@pytest.mark.parametrize("op", ["Plus", "Times", "PastValue", "BatchNormalization", "Convolution"])
def test_functions_with_too_few_inputs(op: str, tmp_path: Path) -> None:
    path, values, function = next(examples(op, tmp_path))
    del function["inputs"][1:]
    with pytest.raises(ModelFormatError) as caught:
        changed(path, values)
    assert "has 1 inputs" in str(caught.value)


def test_normalizations_of_the_time_before_counts(tmp_path: Path) -> None:
    """Before version 4 of functions they have no count, which is 0 then and does not learn."""
    path, values, function = next(examples("BatchNormalization", tmp_path))
    function["version"] = SizeT(3)
    del function["inputs"][5:]
    network = changed(path, values)
    (node,) = (node for node in network if node.op.name == "BatchNormalization")
    count = node.inputs[5]
    assert count.value.tolist() == [0.0]
    assert not count.learned


BEGINS = [
    (b"\x08\x01\x12\x05\x0a\x01", True),
    (b"\x08\x7f\x12\x05\x0a", False),
    (b"\x08\x7f\x12\x05\x0a\x00", True),
    (b"\x08\x80\x12\x05\x0a\x00", False),
    (b"\x08\x00\x12\x05\x0a\x00", False),
    (b"\x09\x01\x12\x05\x0a\x00", False),
    (b"\x08\x01\x13\x05\x0a\x00", False),
    (b"\x08\x01\x12\x85\x01\x0a", True),
    (b"\x08\x01\x12\x85\x01\x0b", False),
    (b"\x08\x01\x12" + b"\x85" * 9 + b"\x01\x0a", True),
    (b"\x08\x01\x12" + b"\x85" * 10 + b"\x01\x0a", False),
    (b"\x08\x01\x12\x85\x85\x85", False),
    (b"\x0a" * 12, False),
]


@pytest.mark.parametrize(("begin", "known"), BEGINS)
def test_how_files_begin(begin: bytes, known: bool, tmp_path: Path) -> None:
    assert Cntk2Format().recognizes(begin, tmp_path / "x") == known


def test_counts_that_are_there_stay(tmp_path: Path) -> None:
    """Of a function of version 4 or later nothing is added, and what it says is an input."""
    path, values, function = next(examples("BatchNormalization", tmp_path))
    function["version"] = SizeT(4)
    (node,) = (node for node in changed(path, values) if node.op.name == "BatchNormalization")
    assert len(node.inputs) == len(function["inputs"])
    assert not any(each.name.endswith("run_sample_count") for each in node.inputs)


@pytest.mark.parametrize("needed", [True, False])
def test_inputs_that_need_gradients(needed: bool, tmp_path: Path) -> None:
    path, values, _ = next(examples("Exp", tmp_path))
    for variable in values["inputs"]:
        variable["needs_gradient"] = needed
    assert [node.needs_gradient for node in changed(path, values).inputs] == [needed]


def test_seeds_that_somebody_chose_are_written_and_others_are_not(tmp_path: Path) -> None:
    """From 2 ** 31 on they are those that nobody has chosen; each function has another one."""
    seeds = []
    for chosen in (0, 7, -1):
        made = Sketch("float32")
        x = made.input("x", 3)
        settings = find_op("", "Dropout").attributes(dropout_rate=0.5, seed=chosen)
        for name in ("first", "second"):
            x = made.op("Dropout", x, name=name, attributes=settings)
        network = made.finish(None, x).network
        network.roots["output"] = [x]
        Cntk2Format().save(network, tmp_path / "x.model")
        functions = read_dictionary(tmp_path / "x.model")["primitive_functions"]
        seeds.append([int(each["attributes"]["rngSeed"]) for each in functions])
        again = load_model(tmp_path / "x.model", find_op).network
        assert [node.attributes.seed for node in again if node.op.name == "Dropout"] == [chosen] * 2
    assert seeds[:2] == [[0, 0], [7, 7]]
    assert all(2**31 <= seed < 2**32 for seed in seeds[2])
    assert len(set(seeds[2])) == 2


def test_single_windows_over_all_of_an_image(tmp_path: Path) -> None:
    """A pooling without a window has that of its input, but for the channels."""
    made = Sketch("float32")
    settings = find_op("", "Pooling").attributes(kernel_shape=(), pool_kind="average", auto_padding=(False,))
    root = made.op("Pooling", made.input("x", 2, 3, 4), name="y", attributes=settings)
    network = made.finish(None, root).network
    network.roots["output"] = [root]
    Cntk2Format().save(network, tmp_path / "x.model")
    (function,) = read_dictionary(tmp_path / "x.model")["primitive_functions"]
    assert function["attributes"]["poolingWindowShape"].dims == (4, 3)
    assert load_model(tmp_path / "x.model", find_op).network["y"].known_shape == root.known_shape
