"""What the doors promise: their snapshots, their pages, and the tool that compares."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

OLD = """\
# cntk_core.api 1.0
# What this version promises.
class Reader(Component) [abstract]
method Reader.read(count: int) -> None [abstract]
class Network
constructor Network(dtype: Any = 'float32')
method Network.add(node: Node) -> Node
function show(shape: Shape) -> str
function save(path: Path, *, name: str = '') -> None
constant LIMIT = 3
hook cntk_begin(job: Job) -> None
"""

PLOT = """\
class Plot(Component) [abstract]
constructor Plot(options: Any)
method Plot.draw() -> None [abstract]
"""


@pytest.fixture(scope="module")
def api(root: Path) -> Iterator[ModuleType]:
    """The tool as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "tools"))
        yield importlib.import_module("api")


def test_promises_and_pages(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, root / "tools/api.py", "--check"], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_every_name_stands_in_a_page(api: ModuleType, root: Path) -> None:
    for door in api.api_names.DOORS:
        headings = set((root / f"docs/api/{door.name}.md").read_text(encoding="utf-8").splitlines())
        assert [name for name in door.load().__all__ if f"### {name}" not in headings] == []


def test_a_snapshot_tells_everything_of_a_name(api: ModuleType) -> None:
    contract = api.api_names.DOORS[0]
    lines = api.api_names.lines_of(contract)
    assert "class DataReader(Component) [abstract]" in lines
    assert "constructor DataReader(options: Any, context: ReaderContext)" in lines
    assert "method DataReader.minibatches(epoch: EpochSpec) -> Iterator[Minibatch] [abstract]" in lines
    assert "property DataReader.streams: tuple[StreamInfo, ...] [abstract]" in lines
    assert "field Location.line: int" in lines
    assert "hook cntk_should_stop(job: Job, summary: EpochSummary) -> str | None [firstresult]" in lines
    assert "group cntk.readers: DataReader" in lines
    assert not [line for line in lines if " at 0x" in line]


@pytest.mark.parametrize(
    ("old", "new", "change", "need"),
    [
        ("constant LIMIT = 3\n", "", "removed: constant LIMIT = 3", "MAJOR"),
        ("LIMIT = 3", "LIMIT = 4", "changed: constant LIMIT = 3\n     to: constant LIMIT = 4", "MAJOR"),
        ("(shape: Shape)", "(shape: Shape, sep: str = ' x ')", "changed: function show", "MINOR"),
        ("(shape: Shape)", "(shape: Shape, sep: str)", "changed: function show", "MAJOR"),
        ("(shape: Shape)", "(sep: str = '', shape: Shape = ())", "changed: function show", "MAJOR"),
        ("-> Node", "-> None", "changed: method Network.add", "MAJOR"),
        ("(node: Node)", "(node: Node, *, late: bool = False)", "changed: method Network.add", "MINOR"),
        ("'float32')", "'float32', name: str = '')", "changed: constructor Network", "MINOR"),
        ("*, name: str = ''", "*, more: int = 0, name: str = ''", "changed: function save", "MINOR"),
        ("*, name: str = ''", "*, name: str", "changed: function save", "MAJOR"),
        ("*, name: str = ''", "name: str = ''", "changed: function save", "MAJOR"),
        # Readers of others do not take the argument.
        ("(count: int)", "(count: int, late: bool = False)", "changed: method Reader.read", "MAJOR"),
        ("(job: Job)", "(job: Job, epoch: int)", "changed: hook cntk_begin", "MINOR"),
        ("(job: Job)", "()", "changed: hook cntk_begin", "MAJOR"),
        ("constant", "function more() -> None\nconstant", "added: function more() -> None", "MINOR"),
        # Readers of others have no such method.
        ("class Network\n", "class Network\nmethod Reader.seek() -> None [abstract]\n", "added: method", "MAJOR"),
        ("constant", f"{PLOT}constant", "added: class Plot", "MINOR"),
        ("class Network\n", "class Network [abstract]\n", "changed: class Network", "MAJOR"),
    ],
)
def test_what_a_change_needs(api: ModuleType, old: str, new: str, change: str, need: str) -> None:
    assert old in OLD
    found = list(api.changes(api.Snapshot.of(OLD), api.Snapshot.of(OLD.replace(old, new, 1))))
    assert [needed for _, needed in found] == [getattr(api, need)]
    assert found[0][0].startswith(change)


@pytest.mark.parametrize(
    ("before", "now", "minor", "major"),
    [
        ("1.0", "1.0", False, False),
        ("1.0", "1.1", True, False),
        ("1.9", "1.10", True, False),
        ("1.1", "1.0", False, False),
        ("1.4", "2.0", True, True),
        ("0.1", "0.2", True, True),
        ("0.1", "0.1", False, False),
    ],
)
def test_what_a_version_allows(api: ModuleType, before: str, now: str, minor: bool, major: bool) -> None:
    assert (api.allowed(before, now, api.MINOR), api.allowed(before, now, api.MAJOR)) == (minor, major)


def test_a_broken_promise_says_what_to_do(api: ModuleType) -> None:
    contract = api.api_names.DOORS[0]
    new = api.Snapshot.of(OLD.replace("constant LIMIT = 3\n", ""))
    assert api.broken_promises(contract, api.Snapshot.of(OLD), new) == (
        "cntk_core.api 1.0 promised otherwise:\n"
        "  removed: constant LIMIT = 3\n"
        "  Take it back, or let API_VERSION be a new major version (docs/stability.md says when)."
    )
    moved = api.Snapshot.of(OLD.replace("constant LIMIT = 3\n", "").replace("api 1.0", "api 2.0"))
    assert api.broken_promises(contract, api.Snapshot.of(OLD), moved) == ""
