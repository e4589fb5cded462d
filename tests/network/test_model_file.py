"""Model files: what was saved comes back, and nothing hostile or damaged gets through."""

from __future__ import annotations

import json
import math
import os
import struct
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cntk_core.errors import CntkError, ModelFormatError, UnsupportedError
from cntk_core.network.attribute_types import wrong_attribute
from cntk_core.network.model_file import ModelInfo, load_model, read_model_info, save_model
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.network.tensor_file import read_tensors, write_tensors
from cntk_core.ops.op import Op
from cntk_core.ops.table import core_ops

TABLE = core_ops()


@attrs.frozen
class OddAttributes:
    count: int = 3
    factor: float = 0.5
    name: str = "x"
    flag: bool = True
    nothing: int | None = None
    sizes: tuple[int, ...] = (1, 2)
    nested: tuple[tuple[float, ...], ...] = ((0.5,), ())


ODD = Op("Odd", (1, 1), lambda shapes, attributes: shapes[0], attributes=OddAttributes)


def find_op(language: str, name: str) -> Op | None:
    assert language == "model"
    return ODD if name == "Odd" else TABLE.find(language, name)


def make_network(dtype=np.float32) -> Network:
    network = Network(dtype)
    x = network.add(Input.make("features", (4,)))
    sparse = network.add(Input.make("words", (7,), sparse=True, axis="w"))
    w = Parameter.make("W", (4, 5), value=np.arange(20, dtype=dtype).reshape(4, 5), learning_rate_multiplier=0.25)
    w.needs_gradient, w.regularization_multiplier = False, 0.5
    network.add(w)
    mean = network.add(Node("mean", TABLE.find("model", "Mean"), [x]))
    mean.value = np.linspace(0, 1, 4, dtype=dtype)
    centred = network.add(Node("centred", TABLE.find("model", "Minus"), [x, mean]))
    z = network.add(Node("z", TABLE.find("model", "Times"), [w, centred], TABLE.find("model", "Times").attributes()))
    odd = network.add(Node("odd", ODD, [z], OddAttributes(factor=-math.inf, sizes=(), name="ü\n")))
    for node, role in ((x, "feature"), (sparse, "label"), (odd, "output"), (z, "output")):
        network.mark(node, role)
    network.infer()
    return network


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
    safetensors = pytest.importorskip("safetensors.numpy")
    arrays = safetensors.load(path.read_bytes())
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


def refused(path, find=find_op) -> str:
    with pytest.raises(ModelFormatError) as caught:
        load_model(path, find)
    return str(caught.value).replace(str(path), "net.dnn")


def rewrite(path, change) -> None:
    """Change the description of the network and seal the file again."""
    content = read_tensors(path)
    metadata = dict(content.metadata)
    graph = json.loads(metadata["network"])
    arrays = dict(content.arrays)
    change(graph, metadata, arrays)
    metadata.setdefault("network", "")
    if metadata["network"] == content.metadata["network"]:
        metadata["network"] = json.dumps(graph)
    write_tensors(path, arrays, metadata)


def node(graph, name):
    return next(entry for entry in graph["nodes"] if entry["name"] == name)


def test_a_missing_file(tmp_path):
    with pytest.raises(ModelFormatError) as caught:
        load_model(tmp_path / "no", find_op)
    assert str(caught.value) == f"the model '{tmp_path}/no' cannot be read: No such file or directory"


def test_an_original_model_is_recognised(path):
    path.write_bytes("BCN\0BVersion\0".encode("utf-16-le") + bytes(100))
    for read in (lambda: load_model(path, find_op), lambda: read_model_info(path)):
        with pytest.raises(UnsupportedError) as caught:
            read()
        assert str(caught.value) == (
            f"'{path}' is a model of the original CNTK (BCN), which cannot be read yet\n"
            "    Train the network again from its recipe."
        )


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
@settings(max_examples=200, deadline=None)
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


# -- large and odd networks -------------------------------------------------------------------------------


def sigmoid(name, *inputs):
    return Node(name, TABLE.find("model", "Sigmoid"), list(inputs))


@pytest.mark.slow
def test_a_chain_of_100_000_nodes(tmp_path):
    network = Network()
    node = network.add(Input.make("x", (1,)))
    for index in range(100_000):
        node = network.add(sigmoid(f"n{index}", node))
    network.mark(node, "output")
    network.infer()
    save_model(network, tmp_path / "deep")
    assert len(load_model(tmp_path / "deep", find_op)) == 100_001


def test_100_000_members_of_a_group(tmp_path):
    network = Network()
    for index in range(100_000):
        network.roots["feature"].append(network.add(Input.make(f"x{index}", (1,))))
    save_model(network, tmp_path / "wide")
    assert len(load_model(tmp_path / "wide", find_op).roots["feature"]) == 100_000


NAMES = ["a b", "W[0].x", "$RunDir$", "a/b\\c", "..", "", "__metadata__", "__metadata__x", "node:W", 'é\n\t"']
NAMES += ["\ud800", "\0"]


def test_names_with_any_characters(tmp_path):
    network = Network()
    for index, name in enumerate(NAMES):
        network.add(Parameter.make(name, (1,), value=np.full(1, index, np.float32)))
    network.mark(network["$RunDir$"], "output")
    network.mark(network["$RunDir$"], "evaluation")
    save_model(network, tmp_path / "a")
    found = load_model(tmp_path / "a", find_op)
    assert [(node.name, float(node.value[0])) for node in found] == [(name, index) for index, name in enumerate(NAMES)]
    assert found.roots["output"] == found.roots["evaluation"] == [found["$RunDir$"]]


def test_edit_save_load_edit(tmp_path):
    network = make_network()
    for step in range(3):
        network.rename(network["z"], f"z[{step}]")
        added = network.add(sigmoid(f"s.{step}", network[f"z[{step}]"]))
        network.mark(added, "output")
        network.mark(added, "evaluation")
        network["mean"].value = network["mean"].value + 1
        network.infer()
        save_model(network, tmp_path / "m")
        network = load_model(tmp_path / "m", find_op)
        network.rename(network[f"z[{step}]"], "z")
    assert [node.name for node in network.roots["output"]] == ["odd", "z", "s.0", "s.1", "s.2"]
    assert [node.name for node in network.roots["evaluation"]] == ["s.0", "s.1", "s.2"]
    assert network["mean"].value[0] == 3
    assert network["W"].learning_rate_multiplier == 0.25
    assert network["odd"].attributes == make_network()["odd"].attributes


def test_a_model_of_the_first_version_is_read(tmp_path):
    """The file was written when the format was new; it must be read for ever."""
    network = load_model(Path(__file__).parent / "model_v1.dnn", find_op)
    save_model(network, tmp_path / "now", ModelInfo(3, 129))
    save_model(make_network(), tmp_path / "new", ModelInfo(3, 129))
    assert (tmp_path / "now").read_bytes() == (tmp_path / "new").read_bytes()
    assert read_model_info(Path(__file__).parent / "model_v1.dnn") == ModelInfo(3, 129)


def mutated(value, data):
    """A copy of JSON with one thing in it replaced, removed or doubled."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 3)):
        key = data.draw(st.sampled_from(sorted(value)))
        return {**value, key: mutated(value[key], data)}
    if isinstance(value, list) and value and data.draw(st.integers(0, 3)):
        at = data.draw(st.integers(0, len(value) - 1))
        kind = data.draw(st.sampled_from(["inner", "removed", "doubled"]))
        inner = {"inner": [mutated(value[at], data)], "removed": [], "doubled": [value[at]] * 2}[kind]
        return [*value[:at], *inner, *value[at + 1 :]]
    simple = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
    names = st.sampled_from(["z", "odd", "W", "mean", "features", "PastValue", "Times", "Reshape", "Slice", "output"])
    return data.draw(simple | names | st.lists(simple | names, max_size=3) | st.dictionaries(names, simple, max_size=2))


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_any_description_is_a_network_or_a_typed_error(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "described"
    save_model(make_network(), path)

    def change(graph, metadata, arrays):
        for _ in range(data.draw(st.integers(1, 3))):
            graph = mutated(graph, data)
        metadata["network"] = json.dumps(graph)

    rewrite(path, change)
    try:
        load_model(path, find_op)
    except CntkError:
        return


def test_every_operation_comes_back_with_its_attributes(tmp_path):
    """Attributes of every op, as far as its class has defaults, are what they were before."""
    checked = 0
    for op in TABLE:
        try:
            attributes = op.attributes()
        except TypeError:
            continue
        network = Network()
        network.add(Node("n", op, [], attributes, shape=(2, 3)))
        given = {field.name: getattr(attributes, field.name) for field in attrs.fields(op.attributes)}
        assert wrong_attribute(op.attributes, given) == "", op.name
        checked += 1
    assert checked > 30


def test_what_has_no_shape_cannot_be_saved(tmp_path):
    network = Network()
    network.add(sigmoid("s", network.add(Input.make("x", (1,)))))
    with pytest.raises(ModelFormatError) as caught:
        save_model(network, tmp_path / "a")
    assert str(caught.value) == "Sigmoid 's' has no shape yet and cannot be saved"


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
