"""Model files of large and odd networks, of edited ones, and of earlier versions; descriptions changed at random."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_files import TABLE, find_op, make_network, mutated, rewrite

from cntk_core.errors import CntkError, ModelFormatError
from cntk_core.network.attribute_types import wrong_attribute
from cntk_core.network.model_file import ModelInfo, load_model, read_model_info, save_model
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_testing.examples import examples


def sigmoid(name, *inputs):
    return Node(name, TABLE.find("model", "Sigmoid"), list(inputs))


@pytest.mark.slow
def test_a_chain_of_20_000_nodes(tmp_path):
    network = Network()
    node = network.add(Input.make("x", (1,)))
    for index in range(20_000):
        node = network.add(sigmoid(f"n{index}", node))
    network.mark(node, "output")
    network.infer()
    save_model(network, tmp_path / "deep")
    assert len(load_model(tmp_path / "deep", find_op)) == 20_001


@pytest.mark.slow
def test_20_000_members_of_a_group(tmp_path):
    network = Network()
    for index in range(20_000):
        network.roots["feature"].append(network.add(Input.make(f"x{index}", (1,))))
    save_model(network, tmp_path / "wide")
    assert len(load_model(tmp_path / "wide", find_op).roots["feature"]) == 20_000


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


@given(data=st.data())
@examples(120)
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
