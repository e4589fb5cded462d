"""The builder keeps the contract of builders."""

from __future__ import annotations

import pytest
from cntk_builder_python import PythonNetworkBuilder

from cntk_testing import BuilderContract, PackagingContract

SOURCE = """
from cntk_builder_python import Dense, cross_entropy_with_softmax

def build(graph, hidden=4):
    x = graph.input("x", 3)
    z = Dense(2)(Dense(hidden)(x))
    graph.criterion(cross_entropy_with_softmax(z, graph.label("y", 2)), "ce")

def broken(graph):
    raise ValueError("no luck")

def mixed(graph):
    x = graph.input("x", 3)
    graph.criterion(cross_entropy_with_softmax(Dense(2)(x), graph.label("y", 4)), "ce")
"""


class TestPython(BuilderContract):
    builder_class = PythonNetworkBuilder
    good = "file = net.py\narguments = [ hidden = 5 ]"
    bad = (
        "function = build",
        "file = nets.py",
        "file = net.py ; function = buil",
        "file = net.py ; function = broken",
        "file = net.py ; function = mixed",
        "file = net.py ; arguments = [ hiden = 5 ]",
    )

    @pytest.fixture
    def directory(self, tmp_path):
        (tmp_path / "net.py").write_text(SOURCE, encoding="utf-8")
        return tmp_path


class TestPackaging(PackagingContract):
    distribution = "cntk-builder-python"
    kind = "builder"
