"""A recipe that names a Python function."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cntk_builder_python import PythonNetworkBuilder

from cntk_core.api import BuildContext, BuildError, CntkError, Network, core_ops
from cntk_core.api.builders import parse_text

GOOD = """
from cntk_builder_python import Dense, cross_entropy_with_softmax

def build(graph, hidden=4, wide=False):
    x = graph.input("x", 3)
    z = Dense(2)(Dense(hidden)(x))
    graph.criterion(cross_entropy_with_softmax(z, graph.label("y", 2)), "ce")

def broken(graph):
    raise ValueError("no luck")

def silent(graph):
    graph.input("x", 3)

def told(graph, **given):
    raise ValueError(repr(given))
"""


@pytest.fixture
def build(tmp_path: Path):
    (tmp_path / "net.py").write_text(GOOD, encoding="utf-8")

    def run(text: str) -> Network:
        table = core_ops()
        context = BuildContext(table.find, table.names, np.dtype(np.float32), tmp_path)
        config = parse_text(f"PythonNetworkBuilder=[{text}]", file="recipe.cntk")
        return PythonNetworkBuilder().build(config.require("PythonNetworkBuilder"), context)

    return run


def test_a_function_of_a_file_builds_the_network(build):
    network = build("file=net.py ; arguments=[ hidden=7 ; wide=true ]")
    assert network["dense.W"].shape == (3, 7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "function=build",
            "recipe.cntk:1:1: PythonNetworkBuilder needs either 'file' or 'module'\n"
            '    Write PythonNetworkBuilder=[ file="net.py" ; function=build ].',
        ),
        ("file=other.py", "recipe.cntk:1:23: there is no Python file 'other.py'"),
        ("file=net.py ; function=buil", "recipe.cntk:1:37: 'net.py' has no function 'buil'; did you mean 'build'?"),
        ("module=no_such_module_here", "recipe.cntk:1:23: No module named 'no_such_module_here'"),
        (
            "file=net.py ; arguments=[ width=7 ]",
            "recipe.cntk:1:37: the function 'build' does not take these arguments: "
            "got an unexpected keyword argument 'width'\n    It is build(graph, hidden=4, wide=False).",
        ),
        (
            "file=net.py ; function=silent",
            "recipe.cntk:1:1: the function 'silent' marked no criterion, evaluation or output\n"
            "    Call graph.criterion(term), graph.evaluation(term) or graph.output(term).",
        ),
    ],
)
def test_mistakes(build, text: str, message: str):
    with pytest.raises(CntkError) as error:
        build(text)
    assert str(error.value) == message


def test_an_exception_of_the_function_names_its_line(build):
    with pytest.raises(BuildError) as error:
        build("file=net.py ; function=broken")
    assert str(error.value).endswith("net.py:10: ValueError: no luck")


def test_a_syntax_error_names_its_line(build, tmp_path: Path):
    (tmp_path / "net.py").write_text("def build(graph:\n    pass\n", encoding="utf-8")
    with pytest.raises(BuildError) as error:
        build("file=net.py")
    assert str(error.value).startswith("net.py:1:10: SyntaxError: ")


def test_arguments_are_numbers_truths_or_texts(build):
    with pytest.raises(BuildError) as error:
        build("file=net.py ; function=told ; arguments=[ a=7 ; b=-0.5 ; c=true ; d=False ; e=abc ; f=1e3 ]")
    told = "{'a': 7, 'b': -0.5, 'c': True, 'd': False, 'e': 'abc', 'f': 1000.0}"
    assert str(error.value).endswith(f"ValueError: {told}")
