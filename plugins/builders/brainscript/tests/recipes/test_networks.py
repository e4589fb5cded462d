"""Networks that stand in recipes which are BrainScript as a whole."""

from __future__ import annotations

import pytest
from cntk_builder_brainscript import BrainScriptNetworkBuilder

from cntk_core.api import CntkError
from cntk_core.api.builders import parse_text

NET = "x = Input {dim} ; h = Sequential (DenseLayer {3} : LinearLayer {2}) (x) ; outputNodes = (h)"
HEAD = "actions = train\ndim = 4\n"


@pytest.mark.parametrize(
    "text",
    [
        f"train = new TrainAction [ BrainScriptNetworkBuilder = {{ {NET} }} ]",
        f"train = new TrainAction [ BrainScriptNetworkBuilder = [ {NET} ] ]",
        f"train = [ action = 'train' ; ExperimentalNetworkBuilder = {{ {NET} }} ]",
        f"train = [ action = 'train' ; BrainScriptNetworkBuilder = (new ComputationNetwork {{ {NET} }}) ]",
        f"train = [ action = 'train' ; createNetwork () = new ComputationNetwork [ {NET} ] ]",
        f"train = [ action = 'train' ; createNetwork () = make (1) ] ; make (n) = new ComputationNetwork [ {NET} ]",
        f"train = [ action = 'train' ] ; BrainScriptNetworkBuilder = {{ {NET} }}",
        f"train = [ action = 'train' ; BrainScriptNetworkBuilder = net ] ; net = new ComputationNetwork {{ {NET} }}",
    ],
)
def test_the_forms_of_a_description(read, context, text):
    section = read(HEAD + text).section("train")
    value = section.get("BrainScriptNetworkBuilder", "ExperimentalNetworkBuilder")
    network = BrainScriptNetworkBuilder().build(value, context)
    BrainScriptNetworkBuilder().check(value, context)
    network.infer()
    assert network["x"].known_shape == (4,)
    plain = parse_text(f"BrainScriptNetworkBuilder = {{ dim = 4 ; {NET} }}", file="r.cntk")
    ordinary = BrainScriptNetworkBuilder().build(plain.own("BrainScriptNetworkBuilder"), context)
    assert [node.name for node in network] == [node.name for node in ordinary]


def test_definitions_reach_networks(read, build):
    text = HEAD + f"train = new TrainAction [ BrainScriptNetworkBuilder = {{ {NET} }} ]"
    assert build(read(text, "dim = 7").section("train"))["x"].known_shape == (7,)
    inner = "train = [ BrainScriptNetworkBuilder = [ dim = 8 ] ]"
    assert build(read(text, inner).section("train"))["x"].known_shape == (8,)


def test_each_network_has_nodes_of_its_own(read, build):
    section = read(HEAD + f"train = new TrainAction [ BrainScriptNetworkBuilder = {{ {NET} }} ]").section("train")
    first, second = build(section), build(section)
    assert [node.describe() for node in first] == [node.describe() for node in second]
    assert not set(first) & set(second)


def test_sections_of_a_function_have_their_own_network(read, build):
    config = read(
        "actions = array[1..2] (i => make (i))\n"
        "make (n) = new TrainAction [ BrainScriptNetworkBuilder = { x = Input {n} ; z = Tanh (x) } ]"
    )
    shapes = [build(config.section(name))["x"].known_shape for name in config.strings("command")]
    assert shapes == [(1,), (2,)]


def test_a_description_that_is_no_network(read, build):
    section = read(HEAD + "train = new TrainAction [\n BrainScriptNetworkBuilder = dim ]").section("train")
    with pytest.raises(CntkError) as caught:
        build(section)
    assert str(caught.value).endswith(
        "r.bs:4:30: 'BrainScriptNetworkBuilder' must give a network, not the number 4\n"
        "    Write { ... } with the members of a network, or BS.Network.Load (...), BS.Network.Edit (...)."
    )


def test_a_mistake_in_a_network_has_its_place(read, build):
    text = HEAD + "train = new TrainAction [ BrainScriptNetworkBuilder = {\n  x = Inptu {4}\n} ]"
    section = read(text).section("train")
    with pytest.raises(CntkError) as caught:
        build(section)
    assert str(caught.value).endswith("r.bs:4:7: unknown identifier 'Inptu'; did you mean 'Input'?")
