"""Patterns of node names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.errors import NetworkError
from cntk_core.network.network import Network
from cntk_core.network.node import Parameter
from cntk_kit_builders.patterns import NamePattern, find_nodes, paired_names

NAMES = ("L3.RL", "L3.BFF.B", "L3.BFF.W", "L3.BFF.FF.T", "L3.BFF.FF.P", "CE.W", "features")


@pytest.fixture
def network() -> Network:
    made = Network()
    for name in NAMES:
        made.add(Parameter.make(name, (2,)))
    return made


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("features", ["features"]),
        ("FEATURES", ["features"]),
        ("L3.*.P", ["L3.BFF.FF.P"]),
        ("*.w", ["L3.BFF.W", "CE.W"]),
        ("*", list(NAMES)),
        ("L3.*.FF.*", ["L3.BFF.FF.T", "L3.BFF.FF.P"]),
        ("CE*", ["CE.W"]),
    ],
)
def test_find_nodes(network: Network, pattern: str, found: list[str]) -> None:
    assert [node.name for node in find_nodes(network, pattern)] == found


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("feature", "the network has no node 'feature'; did you mean 'features'?"),
        ("L4.*", "the network has no node that fits 'L4.*'"),
        ("BBF.*", "the network has no node that fits 'BBF.*'; did you mean 'BFF'?"),
        ("CE.W*.W", "the network has no node that fits 'CE.W*.W'; did you mean 'CE.W'?"),
    ],
)
def test_nothing_found(network: Network, pattern: str, message: str) -> None:
    with pytest.raises(NetworkError) as error:
        find_nodes(network, pattern)
    assert str(error.value) == message


def test_head_and_tail_do_not_share_letters(network: Network) -> None:
    assert NamePattern("ab*ba").match("aba") is None
    assert NamePattern("ab*ba").match("abba") == ("",)


@pytest.mark.parametrize(
    ("source", "target", "names"),
    [
        ("L3.*", "L4.*", ["L4.RL", "L4.BFF.B", "L4.BFF.W", "L4.BFF.FF.T", "L4.BFF.FF.P"]),
        ("L3.*.P", "L4.*.Sum", ["L4.BFF.FF.Sum"]),
        ("*.*.W", "*.Deep.*.W", ["L3.Deep.BFF.W"]),
        ("CE.W", "V", ["V"]),
    ],
)
def test_paired_names(network: Network, source: str, target: str, names: list[str]) -> None:
    assert [name for _, name in paired_names(network, source, target)] == names


def test_patterns_that_do_not_go_together(network: Network) -> None:
    with pytest.raises(NetworkError) as error:
        paired_names(network, "L3.*", "L4")
    assert str(error.value) == (
        "'L3.*' and 'L4' do not go together: the one has 1 '*', the other 0\n"
        "    What a '*' stands for in the first name is put in place of the '*' in the second one."
    )


WORDS = st.text(alphabet="aAb.*", max_size=12)


@given(WORDS, st.text(alphabet="aAb.", max_size=12))
def test_a_match_fills_the_pattern_with_the_name(pattern: str, name: str) -> None:
    found = NamePattern(pattern).match(name)
    expression = ".*".join(re.escape(part) for part in pattern.split("*"))
    assert (found is not None) == bool(re.fullmatch(expression, name, re.IGNORECASE))
    if found is not None:
        assert NamePattern(pattern).fill(found).lower() == name.lower()
