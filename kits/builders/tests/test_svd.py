"""Low-rank factors: how many singular values stay, and how the network is relinked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.errors import NetworkError
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.table import core_ops
from cntk_kit_builders.svd import choose_rank, matrices, reduce_network, reduce_parameter

OPS = core_ops()


def node(name: str, op: str, *inputs: Node) -> Node:
    found = OPS.find("", op)
    assert found is not None
    return Node(name, found, list(inputs), attributes=found.attributes())


def network_with(weights: Parameter, *, dim: int = 4) -> tuple[Network, Input]:
    network = Network(np.float64)
    features = Input.make("features", (dim,))
    network.add(features)
    network.add(weights)
    return network, features


def weights(name: str = "W", shape: tuple[int, ...] = (4, 6), seed: int = 0) -> Parameter:
    return Parameter.make(name, shape, value=np.random.default_rng(seed).standard_normal(shape))


@pytest.mark.parametrize(
    ("ratio", "aligned", "rank"),
    [
        (0.0, 1, 1),
        (0.4, 1, 1),
        (0.5, 1, 2),
        (0.79, 1, 2),
        (0.8, 1, 3),
        (0.4, 2, 2),
        (0.8, 2, 4),
        (0.8, 8, 4),
        (1.0, 1, 4),
    ],
)
def test_rank(ratio: float, aligned: int, rank: int) -> None:
    assert choose_rank([5.0, 3.0, 1.0, 1.0], ratio, aligned) == rank


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=20).map(lambda values: sorted(values, reverse=True)),
    st.floats(0, 1),
    st.integers(1, 9),
)
def test_rank_is_aligned_or_full(values: list[float], ratio: float, aligned: int) -> None:
    rank = choose_rank(values, ratio, aligned)
    assert 1 <= rank <= len(values)
    assert rank % aligned == 0 or rank == len(values)


def test_product_with_data_becomes_two_products() -> None:
    network, features = network_with(weights())
    z = network.add(node("z", "Times", network["W"], features))
    network.mark(z, "output")
    network.infer()
    done = reduce_parameter(network, network.parameters[0], 1.0)
    network.infer()
    assert (done.rows, done.columns, done.rank) == (6, 4, 4)
    assert [child.name for child in z.inputs] == ["W_U", "W_SVD"]
    assert [child.name for child in network["W_SVD"].inputs] == ["W_V", "features"]
    assert "W" not in network
    assert network.roots["output"] == [z]
    assert z.shape == (6,)
    expected = weights().value
    assert expected is not None
    np.testing.assert_allclose(network["W_V"].value @ network["W_U"].value, expected)  # memory order: x V^T U^T


def test_any_other_use_becomes_a_product_of_the_factors() -> None:
    network, features = network_with(weights())
    product = network.add(node("p", "TransposeTimes", weights("A", (6, 6), 1), features))
    network.remove(product)
    minus = network.add(node("minus", "Minus", network["W"], network["W"]))
    network.infer()
    reduce_parameter(network, network.parameters[0], 0.5)
    network.infer()
    assert [child.name for child in minus.inputs] == ["W_SVD", "W_SVD"]
    assert minus.shape == (4, 6)


def test_several_users() -> None:
    network, features = network_with(weights())
    first = network.add(node("a", "Times", network["W"], features))
    second = network.add(node("b", "Times", network["W"], features))
    other = network.add(node("s", "Sigmoid", features))
    third = network.add(node("c", "Times", network["W"], other))
    plain = network.add(node("d", "Sigmoid", network["W"]))
    network.infer()
    reduce_parameter(network, network.parameters[0], 0.9)
    network.infer()
    assert first.inputs[1] is second.inputs[1]  # the same V * x
    assert third.inputs[1].name == "W_SVD2"
    assert plain.inputs[0].name == "W_SVD3"
    assert [shape.shape for shape in (first, second, third, plain)] == [(6,), (6,), (6,), (4, 6)]


def test_weights_of_more_than_two_dimensions() -> None:
    network = Network(np.float64)
    image = network.add(Input.make("image", (2, 3)))
    tensor = network.add(weights("W", (2, 3, 5)))
    z = network.add(node("z", "Times", tensor, image))
    network.infer()
    reduce_network(network, {"W": 1.0})
    assert network["W_V"].shape == (2, 3, 5)
    assert network["W_U"].shape == (5, 5)
    assert z.shape == (5,)


def test_factors_learn_as_the_parameter_did() -> None:
    network, features = network_with(weights())
    network.add(node("z", "Times", network["W"], features))
    parameter = network.parameters[0]
    parameter.learning_rate_multiplier, parameter.needs_gradient = 0.5, False
    network.infer()
    reduce_network(network, {"": 0.4})
    assert [(p.name, p.learning_rate_multiplier, p.needs_gradient) for p in network.parameters] == [
        ("W_U", 0.5, False),
        ("W_V", 0.5, False),
    ]


def test_which_parameters_are_matrices() -> None:
    network = Network()
    for name, shape in (("w1", (3, 4)), ("W0", (2, 2)), ("b", (4,)), ("column", (1, 4)), ("row", (4, 1)), ("x", ())):
        network.add(Parameter.make(name, shape, value=np.zeros(shape)))
    assert [parameter.name for parameter in matrices(network, "")] == ["W0", "w1"]
    assert [parameter.name for parameter in matrices(network, "W.*")] == ["W0"]
    assert matrices(network, "0") == []


def test_parameter_belongs_to_the_first_pattern() -> None:
    network, features = network_with(weights())
    network.add(node("z", "Times", network["W"], features))
    network.infer()
    done = reduce_network(network, {"W.*": 1.0, "W": 0.1})
    assert [[reduction.keep_ratio for reduction in group] for group in done] == [[0.1], []]


def test_name_of_a_factor_is_taken() -> None:
    network, features = network_with(weights())
    network.add(node("w_u", "Times", network["W"], features))
    network.infer()
    with pytest.raises(NetworkError) as caught:
        reduce_network(network, {"W": 1.0})
    assert caught.value.message == "the node name 'W_U' is already used: 'w_u' differs only in case"


def test_shapes_of_new_nodes_are_known() -> None:
    network, features = network_with(weights())
    network.add(node("z", "Times", network["W"], features))
    network.add(node("twice", "ElementTimes", network["W"], network["W"]))
    network.infer()
    reduce_network(network, {"W": 1.0})
    assert all(one.shape is not None for one in network)
