"""Where something begins and ends in models of version 1: versions, sizes, marks, and what the format carries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bcn_writer import Model, dims, float32, int32, matrix, size, wide
from cntk_model_cntk1.bcn.attributes import READERS, Source
from cntk_model_cntk1.bcn.images import IMAGE_READERS
from cntk_model_cntk1.bcn.model_format import Cntk1Format
from cntk_model_cntk1.bcn.operations import carried
from cntk_model_cntk1.bcn.reader import BinaryReader
from cntk_model_cntk1.bcn.save import LEAST, save_bcn

from cntk_core.api import ModelFormatError, Network, Node, Parameter, UnsupportedError, core_ops
from cntk_testing.networks import Sketch

find_op = core_ops().find


def reader(content: bytes) -> BinaryReader:
    return BinaryReader(content, Path("old.dnn"))


def inputs_of(model: Model, path: Path) -> list[tuple[str, tuple[int, ...]]]:
    network = Cntk1Format().load(model.write(path / "old.dnn"), find_op)
    return [(node.name, node.known_shape) for node in network.inputs]


def test_images_of_the_oldest_files_are_three_long_numbers(tmp_path: Path) -> None:
    """Width, height and channels of 8 bytes each, before version 4."""
    old = Model(3).add("InputValue", "x", size(24, 1) + size(4, 3, 2)).add("Tanh", "y", b"", ("x",))
    assert inputs_of(old, tmp_path) == [("x", (3, 4, 2))]
    new = Model(4).add("InputValue", "x", size(2, 1) + dims(0)).add("Tanh", "y", b"", ("x",))
    assert inputs_of(new, tmp_path) == [("x", (2,))]


@pytest.mark.parametrize(("version", "shape"), [(3, (7, 5, 9)), (4, (0, 5))])
def test_images_of_reshapes(version: int, shape: tuple[int, ...]) -> None:
    begin = size(*shape[1:2], shape[0], shape[2]) if version == 3 else dims(*shape)
    source = Source(reader(size(6) + begin), version, np.dtype(np.float32))
    given = READERS["LegacyReshape"](source)
    assert given.image == ((9, 5, 7) if version == 3 else ())
    assert source.reader.left == 0


def test_numbers_may_be_as_large_as_is_said() -> None:
    assert reader(size(5)).amount("thing", 5) == 5
    with pytest.raises(ModelFormatError) as caught:
        reader(size(6)).amount("thing", 5)
    assert "6 is no sensible thing" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (wide("EList"), "here the section mark 'BList' must stand, not 'EList'"),
        (wide("EList")[:-1], "the file ends where the section mark 'BList' must stand"),
        (b"", "the file ends where the section mark 'BList' must stand"),
    ],
)
def test_marks_that_are_missing(content: bytes, message: str) -> None:
    with pytest.raises(ModelFormatError) as caught:
        reader(content).expect("BList")
    assert str(caught.value).endswith(message)


@pytest.mark.parametrize(
    ("op", "both"),
    [
        ("Plus", (True, True)),
        ("Times", (True, True)),
        ("Convolution", (True, True)),
        ("LearnableParameter", (True, True)),
        ("Erf", (False, False)),
        ("LegacyReshape", (True, True)),
    ],
)
def test_what_is_carried_in_and_out(op: str, both: tuple[bool, bool]) -> None:
    found = find_op("model", op)
    assert found is not None
    assert carried(found) == both


def test_unknown_ways_of_pooling_are_told_where_they_stand() -> None:
    source = Source(reader(dims(2, 2) + int32(7)), 26, np.dtype(np.float32))
    with pytest.raises(ModelFormatError) as caught:
        IMAGE_READERS["ROIPooling"](source)
    assert "byte 12" in str(caught.value)


def test_numbers_without_axes_are_written_as_matrices_of_one(tmp_path: Path) -> None:
    made = Sketch("float32")
    x = made.input("x", 2)
    number = made.network.add(Parameter.make("n", (), value=np.float32(2.5).reshape(())))
    network = made.finish(None, made.op("ElementTimes", x, number, name="y")).network
    network.roots["output"] = [network["y"]]
    save_bcn(network, tmp_path / "new.dnn", 26)
    content = (tmp_path / "new.dnn").read_bytes()
    assert matrix(np.array([[2.5]], np.float32)) in content
    again = Cntk1Format().load(tmp_path / "new.dnn", find_op)["n"]
    assert isinstance(again, Parameter)
    assert again.value is not None
    assert again.value.tolist() == 2.5
    assert float32(1.0) in content


def sum_of(network: Network, x: Node, **settings: object) -> Node:
    op = find_op("model", "ReduceElements")
    assert op is not None
    return network.add(Node("y", op, [x], op.attributes(**settings)))


@pytest.mark.parametrize(
    ("settings", "oldest"),
    [
        ({"axis": -1, "keep_dimensions": False}, True),
        ({"axis": -1, "keep_dimensions": True}, False),
    ],
)
def test_sums_that_all_versions_know(settings: dict[str, object], oldest: bool, tmp_path: Path) -> None:
    """A sum of everything is an operation of its own, without the axes that a reduction could keep."""
    made = Sketch("float32")
    root = sum_of(made.network, made.input("x", 2), **{"reduction_op": "Sum", **settings})
    network = made.finish(None, root).network
    network.roots["output"] = [root]
    if oldest:
        assert save_bcn(network, tmp_path / "new.dnn", LEAST) == LEAST
    else:
        with pytest.raises(UnsupportedError):
            save_bcn(network, tmp_path / "new.dnn", LEAST)
