"""The documentation's links, and the checker that follows them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


def check(checker: Path, *folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, checker, *folder], capture_output=True, text=True, timeout=60)


@pytest.fixture
def checker(root: Path) -> Path:
    return root / "tools/check_docs.py"


def test_links_of_the_repository(checker: Path) -> None:
    result = check(checker)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "link",
    ["b.md", "b.md#second-part", "#top", "https://example.org/x", "mailto:a@example.org", '<b.md> "title"', "folder/"],
)
def test_good_links(checker: Path, tmp_path: Path, link: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.md").write_text(f"# Top\n\nSee [this]({link}).\n", encoding="utf-8")
    (tmp_path / "b.md").write_text("## Second `part`\n", encoding="utf-8")
    result = check(checker, tmp_path)
    assert (result.stdout, result.returncode) == ("2 Markdown files, all links lead somewhere\n", 0)


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("c.md", "link to c.md leads nowhere"),
        ("b.md#third", "link to b.md#third: b.md has no such heading"),
        ("#nowhere", "link to #nowhere: a.md has no such heading"),
        ("/etc/hosts", "link to /etc/hosts is absolute"),
        ("../x.md", "link to ../x.md leaves the repository"),
    ],
)
def test_bad_links(checker: Path, tmp_path: Path, link: str, problem: str) -> None:
    (tmp_path / "a.md").write_text(f"# Top\n\nSee [this]({link}).\n", encoding="utf-8")
    (tmp_path / "b.md").write_text("## Second\n", encoding="utf-8")
    result = check(checker, tmp_path)
    assert (result.stdout, result.returncode) == (f"a.md:3: {problem}\n", 1)


def test_code_is_no_link(checker: Path, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("`[x](y)`\n\n```\n[x](y)\n```\n", encoding="utf-8")
    assert check(checker, tmp_path).returncode == 0


@pytest.mark.parametrize("reference", ["docs/b.md", "docs/b.md#second-part", "docs/b.md#second-part and #b"])
def test_good_references_of_code(checker: Path, tmp_path: Path, reference: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/b.md").write_text("# B\n\n## Second part\n", encoding="utf-8")
    (tmp_path / "a.py").write_text(f'"""A module ({reference})."""\n', encoding="utf-8")
    assert check(checker, tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("docs/c.md", "docs/c.md is not there"),
        ("docs/b.md#third", "docs/b.md has no heading #third"),
        ("docs/b.md#b and #third", "docs/b.md has no heading #third"),
    ],
)
def test_bad_references_of_code(checker: Path, tmp_path: Path, reference: str, problem: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/b.md").write_text("# B\n", encoding="utf-8")
    (tmp_path / "a.py").write_text(f'\n"""A module ({reference})."""\n', encoding="utf-8")
    result = check(checker, tmp_path)
    assert (result.stdout, result.returncode) == (f"a.py:2: {problem}\n", 1)


def test_no_document_elsewhere_is_named(root: Path, tracked_files: list[Path]) -> None:
    elsewhere = re.compile(r"\bINV \d|cntk-inventory|CNTK's inventory|\bquirks\.md")
    here = Path(__file__).relative_to(root)
    texts = [file for file in tracked_files if file.suffix in (".py", ".md", ".toml") and file != here]
    assert [str(file) for file in texts if elsewhere.search((root / file).read_text(encoding="utf-8"))] == []
    rules = [file for file in texts if "original-rules.md#" in (root / file).read_text(encoding="utf-8")]
    assert len(rules) >= 25
