"""The documentation's links, and the checker that follows them."""

from __future__ import annotations

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
