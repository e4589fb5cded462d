"""The files of changes/: each has a kind and a sentence, and the changelog takes them in."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

KINDS = ("added", "changed", "deprecated", "removed", "fixed")


def towncrier(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "towncrier", "build", "--version", "9.9", "--date", "2026-01-02", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.fixture
def release(root: Path, tmp_path: Path) -> Path:
    """A folder with the settings of the repository, a changelog, and no changes."""
    for name in ("pyproject.toml", "changes/README.md", "changes/template.md", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((root / name).read_bytes())
    return tmp_path


def test_each_change_is_listed(root: Path) -> None:
    listed = towncrier(root, "--draft")
    assert listed.returncode == 0, listed.stderr
    printed = " ".join(listed.stdout.split())
    for file in sorted((root / "changes").glob("*.*.md")):
        text = file.read_text(encoding="utf-8")
        assert text.strip(), f"{file.name} is empty"
        assert " ".join(text.split()) in printed, file.name


def test_what_a_kind_is(root: Path) -> None:
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    assert tuple(kind["directory"] for kind in settings["type"]) == KINDS


@pytest.mark.parametrize("name", ["my-change.md", "my-change.fixd.md", "notes.txt"])
def test_a_file_without_a_kind(release: Path, name: str) -> None:
    (release / "changes" / name).write_text("Something.\n", encoding="utf-8")
    refused = towncrier(release, "--draft")
    assert f"Error: Invalid news fragment name: {name}\n" in refused.stderr
    assert refused.returncode == 1


def test_a_release(release: Path) -> None:
    before, mark, after = (
        (release / "CHANGELOG.md").read_text(encoding="utf-8").partition("<!-- towncrier release notes start -->\n")
    )
    assert mark
    (release / "changes/b.fixed.md").write_text("Mended that.\n", encoding="utf-8")
    (release / "changes/a.fixed.md").write_text("Mended this,\nand more.\n", encoding="utf-8")
    (release / "changes/c.added.md").write_text("New.\n", encoding="utf-8")
    built = towncrier(release, "--yes")
    assert built.returncode == 0, built.stderr
    assert (release / "CHANGELOG.md").read_text(encoding="utf-8") == (
        f"{before}{mark}\n## 9.9 (2026-01-02)\n\n### Added\n\n- New.\n\n### Fixed\n\n"
        f"- Mended this,\n  and more.\n- Mended that.\n{after}"
    )
    assert sorted(file.name for file in (release / "changes").iterdir()) == ["README.md", "template.md"]
