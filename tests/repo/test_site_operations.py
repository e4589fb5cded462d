"""The pages of operations: each has a picture and an example, and what an example prints is what it computes."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from cntk_core.api import core_ops
from cntk_testing.op_examples import EXAMPLES

Load = Callable[[str], ModuleType]
QUICK = ("Abs", "Clip", "Times", "PastValue", "LegacyReshape", "SquareError", "TopK")
"""Operations whose examples are of different kinds: they are run in every tier."""


@pytest.fixture(scope="module")
def operations(load_tool: Load) -> ModuleType:
    return load_tool("docs_site.operations")


@pytest.fixture(scope="module")
def facts(load_tool: Load) -> ModuleType:
    return load_tool("docs_site.op_facts")


@pytest.fixture(scope="module")
def pictures(load_tool: Load) -> ModuleType:
    return load_tool("docs_site.op_pictures")


@pytest.mark.parametrize(
    "name",
    [
        *QUICK,
        *(pytest.param(op.name, marks=pytest.mark.thorough) for op in core_ops() if op.name not in QUICK),
    ],
)
def test_an_example_computes_what_its_page_prints(operations: ModuleType, name: str) -> None:
    op = core_ops().find("", name)
    sample = operations.sample_of(op)
    if sample is None:
        snippet = operations.SNIPPETS[name]
        assert snippet.remark or snippet.printed()
        return
    page = operations.page(op, "Products")
    assert f"```python\n{sample.program}\nprint(np.round({sample.shown}, 4))\n```" in page
    known: dict[str, Any] = {}
    exec(compile(sample.program, name, "exec"), known)
    found = np.asarray(eval(sample.shown, known))
    assert found.shape == sample.value.shape
    if sample.exact:
        np.testing.assert_allclose(found, sample.value, rtol=1e-3, atol=1e-4)


def test_each_operation_has_an_example_or_says_why_not(operations: ModuleType) -> None:
    others = {op.name for op in core_ops()} - set(EXAMPLES)
    assert set(operations.SNIPPETS) == others
    without = {name for name, snippet in operations.SNIPPETS.items() if not snippet.body}
    assert without == {"Mean", "InvStdDev", "SequenceWithSoftmax", "LatticeFreeMMI", "CustomProxyOp"}
    assert all(operations.SNIPPETS[name].remark for name in without)


@pytest.mark.parametrize("name", ["Abs", "Floor", "Plus", "Times", "Convolution", "InputValue", "Mean"])
def test_a_page_has_a_picture_and_the_formats(operations: ModuleType, name: str) -> None:
    op = core_ops().find("", name)
    page = operations.page(op, "Products")
    (drawn,) = re.findall(r"<svg.*</svg>", page)
    root = ElementTree.fromstring(drawn)
    assert root.get("role") == "img"
    assert name in str(root.get("aria-label"))
    assert page.startswith(f"# {name}\n\n{op.doc}")
    assert "| [engines](../model-operations.md) |" in page
    assert "| family | [Products](../ops.md#products) |" in page


def test_pages_and_navigation_are_of_the_same_operations(operations: ModuleType) -> None:
    listed = [
        name for part in operations.entries() for pages in part.values() for page in pages for name in page.values()
    ]
    assert listed == [f"operations/{op.name}.md" for op in core_ops()]


def test_the_list_of_operations_leads_to_their_pages(operations: ModuleType) -> None:
    text = "| `Abs` | of a `Tanh` |\n| `NoSuch` | x |\n"
    assert operations.with_links(text) == "| [`Abs`](operations/Abs.md) | of a `Tanh` |\n| `NoSuch` | x |\n"


@pytest.mark.parametrize(
    ("name", "formula", "gradient"),
    [
        ("Abs", "abs(x)", ["g · sign(x)"]),
        ("Minus", "x - y", ["g", "-g"]),
        ("Tanh", "tanh(x)", ["g · (1 - result · result)"]),
        ("Reciprocal", "(0 if x = 0 else 1 / x)", ["-g · result · result"]),
        ("StopGradient", "x", [""]),
        ("Times", "", []),
    ],
)
def test_formulas_are_those_that_are_computed(facts: ModuleType, name: str, formula: str, gradient: list[str]) -> None:
    op = core_ops().find("", name)
    assert facts.formula(op, op.attributes()) == formula
    assert facts.gradient_formulas(op, op.attributes()) == gradient


def test_brackets_of_formulas(facts: ModuleType) -> None:
    x, y, z = (facts.symbol(name) for name in "xyz")
    assert facts.written((x - (y - z)) * (x / (y / z))) == "(x - (y - z)) · x / (y / z)"
    assert facts.written(-(x + y) + 0.5 * z) == "-(x + y) + 0.5 · z"


def test_names_in_the_languages(facts: ModuleType) -> None:
    def spelt(name: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = facts.spellings(core_ops().find("", name))
        return found

    assert spelt("Cosine")["CNTK 2's Python"] == ["C.cos"]
    assert spelt("Cosine")["NDL"] == ["Cosine", "Cos"]
    assert spelt("PastValue")["CNTK 2's Python"] == ["C.sequence.past_value"]
    assert "CNTK 2's Python" not in spelt("Gelu")


def test_attributes_with_what_the_source_says(facts: ModuleType) -> None:
    (only,) = facts.attributes_of(core_ops().find("", "Gelu"))
    assert only == ("approximate", "'none'", "``none`` (by the error function) or ``tanh``.")


def test_a_number_in_a_cell(pictures: ModuleType) -> None:
    numbers = (0.0, -0.001, 1.0, -2.5, 0.126, 12345.6)
    assert [pictures.short(number) for number in numbers] == ["0", "0", "1", "-2.5", "0.13", "1.23e+04"]


def test_a_large_array_is_drawn_in_part(pictures: ModuleType) -> None:
    drawn = pictures.flow("Pass", [("x", np.ones((3, 9, 20)), False)], np.ones(2), False)
    assert drawn.count("<rect") == 2 * 6 * 8 + 2 + 1
    assert "x (3, 9, 20) (a part)" in drawn


def test_a_curve_is_broken_where_the_function_jumps(pictures: ModuleType) -> None:
    x = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    drawn = pictures.curves("Step", x, np.array([-3.0, -3.0, 3.0, 3.0, np.nan]), None)
    (path,) = re.findall(r'<path d="([^"]*)"', drawn)
    assert path.count("M") == 2
    assert path.count("L") == 2


def test_a_program_prints_its_numbers_as_they_are(load_tool: Load) -> None:
    samples = load_tool("docs_site.op_samples")
    with contextlib.redirect_stdout(io.StringIO()):
        assert samples.numbers(np.array([[1.0, -0.5], [0.0, 1e-7]])) == "[[1, -0.5], [0, 1e-07]]"
