"""What the tests of model files share: a network with something of everything, and ways to damage a file."""

from __future__ import annotations

import json
import math

import attrs
import numpy as np
import pytest
from hypothesis import strategies as st

from cntk_core.errors import ModelFormatError
from cntk_core.network.model_file import load_model
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.network.tensor_file import read_tensors, write_tensors
from cntk_core.ops.language.op import Op
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
