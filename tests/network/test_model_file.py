"""Model files: what was saved comes back, and nothing hostile or damaged gets through."""

from __future__ import annotations

import json
import os
import struct

import attrs
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from model_files import TABLE, OddAttributes, find_op, make_network, node, refused, rewrite

from cntk_core.errors import CntkError, ModelFormatError
from cntk_core.network.model_file import (
    ModelInfo,
    load_model,
    read_model_info,
    read_model_origins,
    save_model,
)
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.network.tensor_file import read_tensors, write_tensors
from cntk_core.ops.language.op import Op
from cntk_core.records.origin import Origin
from cntk_testing.examples import examples


@pytest.fixture
def path(tmp_path):
    save_model(make_network(), tmp_path / "net.dnn", ModelInfo(3, 129))
    return tmp_path / "net.dnn"


def test_everything_comes_back(path):
    old, new = make_network(), load_model(path, find_op)
    assert new.dtype == np.float32
    assert [node.describe() for node in new] == [node.describe() for node in old]
    assert {role: [n.name for n in nodes] for role, nodes in new.roots.items()} == {
        role: [n.name for n in nodes] for role, nodes in old.roots.items()
    }
    assert new["odd"].attributes == old["odd"].attributes
    assert type(new["odd"].attributes.flag) is bool
    w = new["W"]
    assert isinstance(w, Parameter)
    assert (w.learning_rate_multiplier, w.needs_gradient, w.regularization_multiplier) == (0.25, False, 0.5)
    np.testing.assert_array_equal(w.value, old["W"].value)
    np.testing.assert_array_equal(new["mean"].value, old["mean"].value)
    words = new["words"]
    assert isinstance(words, Input)
    assert (words.sparse, words.axis) == (True, "w")
    w.value[...] = 0  # can be written to


def test_the_same_network_gives_the_same_bytes(path, tmp_path):
    save_model(make_network(), tmp_path / "again", ModelInfo(3, 129))
    save_model(load_model(path, find_op), tmp_path / "copy", ModelInfo(3, 129))
    assert path.read_bytes() == (tmp_path / "again").read_bytes() == (tmp_path / "copy").read_bytes()


def test_precision_can_be_chosen_when_loading(path):
    network = load_model(path, find_op, np.float64)
    assert network.dtype == network["W"].value.dtype == network["mean"].value.dtype == np.float64


def test_how_far_training_had_come(path, tmp_path):
    assert read_model_info(path) == ModelInfo(3, 129)
    save_model(make_network(), tmp_path / "other")
    assert read_model_info(tmp_path / "other") == ModelInfo(None, 0)


def test_the_files_are_safetensors(path):
    arrays = safetensors.numpy.load(path.read_bytes())
    assert set(arrays) == {"W", "mean"}
    np.testing.assert_array_equal(arrays["W"], make_network()["W"].value)


def test_a_scalar_and_an_empty_array_come_back(tmp_path):
    arrays = {"scalar": np.float64(2.5).reshape(()), "empty": np.zeros((0, 3), np.float32)}
    write_tensors(tmp_path / "a", arrays, {})
    found = read_tensors(tmp_path / "a").arrays
    assert found["scalar"].shape == ()
    assert found["scalar"] == 2.5
    assert found["empty"].shape == (0, 3)


# -- what must not get through ----------------------------------------------------------------------------


def test_a_missing_file(tmp_path):
    with pytest.raises(ModelFormatError) as caught:
        load_model(tmp_path / "no", find_op)
    assert str(caught.value) == f"the model '{tmp_path}/no' cannot be read: No such file or directory"


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x04K\x01.", bytes(64), b"\xff" * 64])
def test_other_files_are_not_models(path, content):
    path.write_bytes(content)
    assert refused(path) == "'net.dnn' is not a model or checkpoint file of this program"


def test_a_truncated_file(path):
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert refused(path).startswith("'net.dnn' is truncated: the array 'mean' ends at byte 96, 95 are there")
    path.write_bytes(content[:200])
    assert "is truncated: its header has" in refused(path)


def test_a_flipped_bit_is_noticed_wherever_it_is(path):
    content = path.read_bytes()
    for at in [*range(9, len(content), 37), len(content) - 1]:
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(CntkError):
            load_model(path, find_op)
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert refused(path) == "'net.dnn' is damaged: its SHA-256 checksum does not match its contents"


def test_a_newer_version(path):
    rewrite(path, lambda graph, metadata, arrays: metadata.update(version="7"))
    assert refused(path) == (
        "'net.dnn' has format version 7; this program reads version 1\n"
        "    Read it with the version of the program that wrote it, or a newer one."
    )


def test_another_kind_of_file(path):
    rewrite(path, lambda graph, metadata, arrays: metadata.update(format="x"))
    assert refused(path) == "'net.dnn' is not a model file of this program"


def test_operations_that_are_not_there(path):
    message = refused(path, find=lambda language, name: None if name in ("Odd", "Mean") else TABLE.find(language, name))
    assert message == (
        "'net.dnn' uses operations that are not there: Mean, Odd\n    Install the plugin that they come from."
    )


@pytest.mark.parametrize(
    ("origins", "message"),
    [
        (
            [("op", "Odd", "cntk-op-odd", "1.2"), ("op", "Mean", "cntk-op-mean", "0.3")],
            "Mean of cntk-op-mean 0.3, Odd of cntk-op-odd 1.2\n    pip install cntk-op-mean cntk-op-odd",
        ),
        (
            [("op", "Odd", "cntk-op-odd", "1.2"), ("learner", "Mean", "cntk-learner-mean", "1")],
            "Mean, Odd of cntk-op-odd 1.2\n    pip install cntk-op-odd\n    Install the plugins of the others.",
        ),
        (
            [("op", "Odd", "odd.py", ""), ("op", "Mean", "cntk-op-odd", "1.2")],
            "Mean of cntk-op-odd 1.2, Odd of odd.py\n    pip install cntk-op-odd\n    --plugin odd.py",
        ),
    ],
)
def test_operations_that_are_not_there_and_what_has_them(path, origins, message):
    network = load_model(path, find_op)
    network.origins = tuple(Origin(*origin) for origin in origins)
    save_model(network, path)
    find = lambda language, name: None if name in ("Odd", "Mean") else TABLE.find(language, name)  # noqa: E731
    assert refused(path, find=find) == f"'net.dnn' uses operations that are not there: {message}"


def test_of_many_operations_that_are_not_there_ten_are_named(tmp_path):
    names = [f"Odd{number:02d}" for number in range(12)]
    network = Network()
    x = network.add(Input.make("x", (3,)))
    for name in names:
        network.add(Node(name.lower(), attrs.evolve(TABLE.find("", "Sigmoid"), name=name), [x]))
    network.infer()
    save_model(network, tmp_path / "net.dnn")
    for there, said in (([], f"{', '.join(names[:10])} and 2 more"), (names[:2], ", ".join(names[2:]))):

        def find(language, name, there=there):
            return TABLE.find("", "Sigmoid") if name in there else None

        words = refused(tmp_path / "net.dnn", find=find).splitlines()[0]
        assert words == f"'net.dnn' uses operations that are not there: {said}"


def test_who_took_part(path):
    assert read_model_origins(path) == ()
    before = path.read_bytes()
    network = load_model(path, find_op)
    network.origins = (Origin("engine", "cpu", "cntk-engine-cpu", "0.1.0"), Origin("op", "Odd", "odd.py"))
    save_model(network, path)
    assert read_model_origins(path) == network.origins == load_model(path, find_op).origins
    network.origins = ()
    save_model(network, path, ModelInfo(3, 129))
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "7", '[{"kind": "op"}, 3, {"kind": 1}]'])
def test_who_took_part_makes_no_sense(path, text):
    rewrite(path, lambda graph, metadata, arrays: metadata.update(plugins=text))
    assert load_model(path, find_op).origins == read_model_origins(path) == ()


def test_a_cycle(path):
    rewrite(path, lambda graph, metadata, arrays: node(graph, "centred").update(inputs=["odd", "mean"]))
    assert refused(path) == (
        "'net.dnn' holds no sound network: the nodes centred -> odd -> z -> centred form a cycle without a delay"
    )


def test_an_input_that_does_not_exist(path):
    rewrite(path, lambda graph, metadata, arrays: node(graph, "odd").update(inputs=["zz"]))
    assert refused(path) == "'net.dnn' holds no sound network: the network has no node 'zz'"


def test_a_name_that_is_used_twice(path):
    rewrite(path, lambda graph, metadata, arrays: graph["nodes"].append(dict(node(graph, "z"), name="Z")))
    assert refused(path).startswith("'net.dnn' holds no sound network: the node name 'Z' is already used")


def test_shapes_that_do_not_fit(path):
    rewrite(path, lambda graph, metadata, arrays: node(graph, "z").update(shape=[6]))
    assert refused(path) == "'net.dnn' holds no sound network: 'z' is [6] in the file, but its inputs make it [5]"


def test_values_of_another_shape(path):
    rewrite(path, lambda graph, metadata, arrays: arrays.update(W=np.zeros((5, 4), np.float32)))
    assert refused(path) == "'net.dnn' is damaged: 'W' is [5 x 4], but its values are [4 x 5]"


def test_values_that_are_missing(path):
    rewrite(path, lambda graph, metadata, arrays: arrays.pop("W"))
    assert refused(path) == "'net.dnn' is damaged: it has no values for 'W'"


def test_an_unknown_attribute(path):
    rewrite(path, lambda graph, metadata, arrays: node(graph, "odd")["attributes"].update(color=3))
    assert refused(path) == (
        "'net.dnn': Odd 'odd' has the unknown attribute 'color'\n    The model was probably written by a newer version."
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda graph, metadata, arrays: metadata.update(network="{}"),
        lambda graph, metadata, arrays: metadata.update(network="[" * 100_000),
        lambda graph, metadata, arrays: metadata.update(network="3"),
        lambda graph, metadata, arrays: metadata.pop("network"),
        lambda graph, metadata, arrays: graph.update(nodes=7),
        lambda graph, metadata, arrays: graph.update(precision="half"),
        lambda graph, metadata, arrays: graph["nodes"].append({}),
        lambda graph, metadata, arrays: node(graph, "W").update(learningRateMultiplier="x"),
        lambda graph, metadata, arrays: node(graph, "odd").update(attributes={"sizes": {"float": "big"}}),
        lambda graph, metadata, arrays: graph["roots"].update(output=5),
    ],
)
def test_descriptions_that_make_no_sense(path, change):
    rewrite(path, change)
    assert refused(path) == "'net.dnn' is damaged: its description of the network makes no sense"


def header_file(path, header, payload=b"") -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + payload)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{" * 50, "is damaged: its header is not valid JSON"),
        (b'{"a": {}, "a": {}}', "is damaged: its header is not valid JSON"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "is damaged: its header is not valid JSON"),
        (b'{"a":' * 50_000, "is damaged: its header is not valid JSON"),
        ({"__metadata__": 3}, "is damaged: its metadata are not texts by name"),
        ({"__metadata__": {"a": 1}}, "is damaged: its metadata are not texts by name"),
        ({"a": 3}, "is damaged: the entry of the array 'a' makes no sense"),
        (
            {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
            "is damaged: the entry of the array 'a' makes no sense",
        ),
        (
            {"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 8]}},
            "is damaged: the entry of the array 'a' makes no sense",
        ),
        (
            {"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}},
            "is truncated: the array 'a' ends at byte 4398046511104, 8 are there",
        ),
        (
            {"a": {"dtype": "O", "shape": [1], "data_offsets": [0, 8]}},
            "is damaged: the entry of the array 'a' makes no sense",
        ),
        (
            {name: {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]} for name in "ab"},
            "is damaged: the array 'b' overlaps another one, or bytes belong to none",
        ),
        (
            {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}},
            "is damaged: 4 bytes at its end belong to no array",
        ),
    ],
)
def test_hostile_headers(path, header, message):
    header_file(path, header, bytes(8))
    assert refused(path) == f"'net.dnn' {message}"


@given(data=st.data())
@examples(200)
def test_any_damage_is_a_typed_error(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp()
    path = folder / "fuzzed"
    if not (folder / "sound").exists():
        save_model(make_network(), folder / "sound")
    content = bytearray((folder / "sound").read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at : at + data.draw(st.integers(0, 12))] = data.draw(st.binary(max_size=12))
    path.write_bytes(bytes(content))
    try:
        load_model(path, find_op)
    except CntkError:
        return
    assert bytes(content) == (folder / "sound").read_bytes()


@pytest.mark.parametrize("shape", [["a"], [-1], [1.5], [True], 5, [1] * 33, [2**62]])
def test_dimensions_that_make_no_sense(path, shape):
    rewrite(path, lambda graph, metadata, arrays: node(graph, "z").update(shape=shape))
    assert refused(path) == "'net.dnn' is damaged: the dimensions of 'z' make no sense"


@pytest.mark.parametrize(
    ("name", "value"),
    [("count", "3"), ("count", 1.5), ("name", 7), ("flag", 1), ("sizes", [1, "2"]), ("sizes", 1), ("nested", [[[1]]])],
)
def test_attributes_of_another_type(path, name, value):
    rewrite(path, lambda graph, metadata, arrays: node(graph, "odd")["attributes"].update({name: value}))
    assert refused(path) == f"'net.dnn' is damaged: Odd 'odd' has a wrong '{name}'"


def test_an_operation_that_trips_over_its_shapes(path):
    def trip(shapes, attributes):
        raise AssertionError("a shape rule that does not expect this")

    odd = Op("Odd", (1, 1), trip, attributes=OddAttributes)
    message = refused(path, find=lambda language, name: odd if name == "Odd" else TABLE.find(language, name))
    assert message == "'net.dnn' is damaged: its description of the network makes no sense"


def test_long_messages_are_cut(path):
    rewrite(path, lambda graph, metadata, arrays: node(graph, "odd").update(inputs=["x" * 10_000]))
    assert len(refused(path)) < 500


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "net.dnn")
    for read in (lambda path: load_model(path, find_op), read_model_info, read_tensors):
        with pytest.raises(ModelFormatError) as caught:
            read(tmp_path / "net.dnn")
        assert str(caught.value).endswith(f"'{tmp_path / 'net.dnn'}' cannot be read: it is no file")


def test_a_name_with_a_zero_character():
    with pytest.raises(ModelFormatError) as caught:
        load_model("a\0b", find_op)
    assert str(caught.value) == r"the model 'a\x00b' cannot be read: the name has a zero character"


def test_what_cannot_be_saved_is_named(tmp_path):
    network = make_network()
    network["W"].value = None
    with pytest.raises(ModelFormatError) as caught:
        save_model(network, tmp_path / "a")
    assert str(caught.value) == "the parameter 'W' has no value that could be saved"
    network = make_network()
    network["odd"].attributes = OddAttributes(name=b"bytes")
    with pytest.raises(ModelFormatError) as caught:
        save_model(network, tmp_path / "a")
    assert str(caught.value) == (
        "Odd 'odd' has an attribute of type bytes, which cannot be saved\n"
        "    Attributes of an op are numbers, texts, truth values, and tuples of them."
    )
    assert not (tmp_path / "a").exists()
