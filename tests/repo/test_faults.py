"""Faults that are put into sources to see whether tests notice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="module")
def tools(load_tool: Callable[[str], ModuleType]) -> dict[str, ModuleType]:
    return {name: load_tool(name) for name in ("concerned", "faults", "mutants")}


def faults(tools: dict[str, ModuleType], text: str) -> list[tuple[str, str, str]]:
    found = [site.fault(text) for site in tools["faults"].sites_of("a.py", text)]
    return [(fault.kind, fault.before, fault.after) for fault in found if fault is not None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = a < b", [("flip comparison", "a < b", "(a <= b)")]),
        ("x = a is None", [("flip comparison", "a is None", "(a is not None)")]),
        ("x = a * b", [("swap arithmetic", "a * b", "(a / b)")]),
        ("x = a and b", [("and/or", "a and b", "(a or b)")]),
        ("x = not a", [("drop not", "not a", "(a)")]),
        ("x = True", [("constant", "True", "(False)")]),
        ("x = 7", [("constant", "7", "(8)")]),
        ("x = y.reshape(2, z)", [("constant", "2", "(3)")]),
        ("x = y.sum(-1)", [("constant", "1", "(2)")]),
        ("if a:\n    b()", [("negate condition", "a", "(not a)"), ("remove statement", "b()", "pass")]),
        ("for x in y:\n    continue", [("continue->break", "continue", "break")]),
        ("x += y", [("swap arithmetic", "x += y", "x -= y"), ("remove statement", "x += y", "pass")]),
        ("x.y = z", [("remove statement", "x.y = z", "pass")]),
        ("x = range(n)", [("range off by one", "range(n)", "(range(n - 1))")]),
        ("x = f(a, b)", [("swap arguments", "f(a, b)", "(f(b, a))")]),
        ("def f(a, b=False): ...", [("constant", "False", "(True)")]),
    ],
)
def test_kinds_of_faults(tools: dict[str, ModuleType], text: str, expected: list[tuple[str, str, str]]) -> None:
    assert faults(tools, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        '"""What it is: 1 + 2."""',
        'raise ValueError(f"{a + 1} is not {b}")',
        "if TYPE_CHECKING:\n    x = 1",
        '__all__ = ["a"] + other',
        "made.__doc__ = text",
        'x = "a" + b',
        'log.line("a")',
        "x: Literal[1, 2]",
        "def __repr__(self):\n    return 1",
        "x = max(a, b)",
        "x = same_wheel(a, b)",
        "x = np.multiply(a, b)",
        "x = hmac.compare_digest(a, b)",
        "x = y.reshape(-1, *sizes)",
        "x = elements.plus(a, b)",
        "x = np.bitwise_or(a, b, a)",
        "x = m.equal(a, b)",
        "x = isinstance(a, b)",
        "x = map(a, b)",
        "x = zip(a, strict=True)",
        "x = field(repr=False)",
        'PATIENCE = 2.0\n"""Seconds that others have."""',
    ],
)
def test_what_is_for_people_or_for_types_has_none(tools: dict[str, ModuleType], text: str) -> None:
    assert faults(tools, text) == []


def test_all_else_stays_as_it_is_written(tools: dict[str, ModuleType]) -> None:
    text = "# größer\nx = (  # why\n    'ä' , a  <  b\n)\n"
    (site,) = tools["faults"].sites_of("a.py", text)
    fault = site.fault(text)
    assert fault.text == "# größer\nx = (  # why\n    'ä' , (a <= b)\n)\n"
    assert (fault.line, fault.key) == (
        3,
        "a.py: flip comparison: a < b -> (a <= b) in: 'ä' , a  <  b",
    )


FILES = {
    "pyproject.toml": "",
    "conftest.py": (
        "def pytest_addoption(parser):\n    parser.addoption('--tier')\n\n\n"
        "def pytest_configure(config):\n    config.addinivalue_line('markers', 'slow')\n\n\n"
        "def pytest_collection_modifyitems(config, items):\n    if config.getoption('tier') == 'quick':\n"
        "        items[:] = [item for item in items if not item.get_closest_marker('slow')]\n"
    ),
    "core/__init__.py": "",
    "core/sums.py": (
        "def add(a, b):\n    return a + b\n\n\ndef unseen(a):\n    return a * 2.0\n\n\n"
        "def late(a, b):\n    return a and b\n"
    ),
    "tests/sums/test_sums.py": (
        "import pytest\nfrom core.sums import add, late\n\n\n"
        "@pytest.mark.parametrize('a', [2], ids=['a b'])\ndef test_add(a):\n    assert add(a, 3) == 5\n\n\n"
        "@pytest.mark.slow\ndef test_late():\n    assert late(3, 5) == 5\n"
    ),
}


@pytest.mark.thorough  # each fault starts pytest; what is drawn, and which tests it meets, the others see
@pytest.mark.slow
def test_faults_meet_the_tests_of_their_room(
    tools: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a test notices is killed, by its name, in the end by a slow one; what none notices survives."""
    for name, text in FILES.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "tree"))
    workspace = tools["concerned"].Workspace(tmp_path / "tree")
    monkeypatch.setattr(type(workspace), "files", sorted(FILES))
    drawn = tools["mutants"].draw(workspace, 20, seed=3)
    assert {fault.kind for fault in drawn} == {"constant", "swap arithmetic", "and/or"}
    assert tools["mutants"].draw(workspace, 20, seed=3) == drawn
    copy = tools["mutants"].Copy(workspace, tmp_path / "copy")
    outcomes = {fault.before: copy.outcome(fault) for fault in drawn}
    found: dict[str, Any] = {before: (one.result, one.by) for before, one in outcomes.items()}
    assert found == {
        "a + b": ("killed", "tests/sums/test_sums.py::test_add[a b]"),
        "a and b": ("killed", "tests/sums/test_sums.py::test_late"),
        "a * 2.0": ("survived", ""),
        "2.0": ("survived", ""),
    }
    assert {name: (tmp_path / "tree" / name).read_text(encoding="utf-8") for name in FILES} == FILES


@pytest.mark.thorough
@pytest.mark.slow
def test_a_test_that_never_ends_notices_a_fault(
    tools: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long all tests take depends on the machine; that one of them does not end, on the fault."""
    files = {
        **FILES,
        "core/sums.py": "def add(a, b):\n    while a > b:\n        a -= 1\n    return a\n",
        "tests/sums/test_sums.py": "from core.sums import add\n\n\ndef test_add():\n    assert add(3, 1) == 1\n",
    }
    for name, text in files.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "tree"))
    workspace = tools["concerned"].Workspace(tmp_path / "tree")
    monkeypatch.setattr(type(workspace), "files", sorted(files))
    monkeypatch.setattr(tools["mutants"], "LIMIT", 3.0)
    (endless,) = (one for one in tools["mutants"].draw(workspace, 20, seed=3) if one.after == "pass")
    outcome = tools["mutants"].Copy(workspace, tmp_path / "copy").outcome(endless)
    assert (outcome.result, outcome.by) == ("killed", "tests/sums/test_sums.py::test_add")


def test_faults_that_change_nothing_still_exist(tools: dict[str, ModuleType]) -> None:
    """What is listed as changing nothing can still be made: the list does not outlive the code."""
    workspace, listed = tools["concerned"].Workspace(), tools["mutants"].equivalent()
    assert listed
    for line in listed:
        file, kind, rest = line.split(": ", 2)
        text = (workspace.root / file).read_text(encoding="utf-8")
        where = rest.rpartition(" in: ")[2]
        near = [
            site
            for site in tools["faults"].sites_of(file, text)
            if site.kind == kind and text.splitlines()[site.node.lineno - 1].strip() == where
        ]
        assert line in {fault.key for site in near if (fault := site.fault(text)) is not None}
