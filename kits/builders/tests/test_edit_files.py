"""Names, groups, attributes and values survive edit -> save -> load -> edit, whatever the edits are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.errors import CntkError
from cntk_core.network.model_file import load_model, save_model
from cntk_core.network.network import Network
from cntk_core.network.node import ROLES, Input, Node, Parameter
from cntk_core.ops.table import core_ops
from cntk_kit_builders.edit import (
    complete_network,
    copy_nodes,
    copy_sub_tree,
    remove_nodes,
    rename_nodes,
    replace_node,
    set_input,
    set_learning_rate,
    set_role,
)
from cntk_testing.examples import examples

OPS = core_ops()
WORDS = ("a", "B.w", "x.Args[0]", "L1.FF.T", "W0*features+B0", "ü")


def make(name: str, op: str, *inputs: Node, **attributes: Any) -> Node:
    found = OPS.find("model", op)
    assert found is not None
    return Node(name, found, list(inputs), attributes=found.attributes(**attributes))


def make_network() -> Network:
    network = Network(np.float64)
    x = network.add(Input.make("x", (4,)))
    y = network.add(Input.make("y", (4,), sparse=True, axis=""))
    w = network.add(Parameter.make("W", (4, 4), value=np.arange(16.0).reshape(4, 4)))
    t = network.add(make("t", "Times", w, x))
    s = network.add(make("s", "Slice", t, begin=0, end=4, axis=1))
    z = network.add(make("z", "Plus", s, x))
    network.add(make("d", "Dropout", z))
    delay = network.add(make("delay", "PastValue", z, time_step=2))
    delay.inputs = [network.add(make("loop", "Plus", z, delay))]
    network.add(make("ce", "CrossEntropyWithSoftmax", y, z))
    network.mark(x, "feature")
    network.mark(network["ce"], "criterion")
    complete_network(network)
    return network


NODE = st.integers(0, 30)
EDITS = st.one_of(
    st.tuples(st.just("rename"), NODE, st.sampled_from(WORDS)),
    st.tuples(st.just("copy"), NODE, st.sampled_from(WORDS)),
    st.tuples(st.just("tree"), NODE, st.sampled_from(["p.", "q"])),
    st.tuples(st.just("input"), NODE, st.tuples(st.integers(0, 1), NODE)),
    st.tuples(st.just("replace"), NODE, NODE),
    st.tuples(st.just("remove"), NODE, st.none()),
    st.tuples(st.just("role"), NODE, st.tuples(st.sampled_from(ROLES), st.booleans())),
    st.tuples(st.just("rate"), NODE, st.sampled_from([0.0, 0.25, 2.0])),
)


def edit(network: Network, kind: str, number: int, how: Any) -> None:
    """Do one edit; one that is refused changes nothing."""
    nodes = list(network)
    node = nodes[number % len(nodes)]
    work = {
        "rename": lambda: rename_nodes(network, [(node, how)]),
        "copy": lambda: copy_nodes([(node, how)], network),
        "tree": lambda: copy_sub_tree([node], network, network, how),
        "input": lambda: set_input(network, node, how[0], nodes[how[1] % len(nodes)]),
        "replace": lambda: replace_node(network, node, nodes[how % len(nodes)]),
        "remove": lambda: remove_nodes(network, [node] if len(nodes) > 1 else []),
        "role": lambda: set_role(network, [node], *how),
        "rate": lambda: set_learning_rate([node], how),
    }[kind]
    before = facts(network)
    try:
        work()
    except CntkError:
        assert facts(network) == before


def facts(network: Network) -> dict[str, Any]:
    """Everything that a model file should carry, in a form that compares."""
    return {
        "nodes": [
            {
                **{
                    field.name: getattr(node, field.name)
                    for field in attrs.fields(type(node))
                    if field.name not in ("inputs", "op", "_value", "collect", "where", "initializer")
                },
                "op": node.op.name,
                "inputs": [child.name for child in node.inputs],
                "value": None if node.value is None else node.value.tolist(),
            }
            for node in network
        ],
        "roots": {role: [node.name for node in group] for role, group in network.roots.items()},
        "precision": str(network.dtype),
    }


@examples(150)
@given(st.lists(st.lists(EDITS, max_size=6), min_size=1, max_size=3))
def test_edits_survive_files(tmp_path_factory: Any, rounds: list[list[tuple[str, int, Any]]]) -> None:
    path: Path = tmp_path_factory.mktemp("models") / "net.dnn"
    network = make_network()
    for edits in rounds:
        for one in edits:
            edit(network, *one)
        try:
            complete_network(network)
        except CntkError:
            return  # not linked, a cycle, or shapes that do not fit: nothing that could be saved
        save_model(network, path)
        loaded = load_model(path, OPS.find)
        assert facts(loaded) == facts(network)
        network = loaded
