"""The tools that make a release: what they write, what they find, and that a wheel is the same bytes twice."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZipFile

import pytest

HOME = "https://example.org/toolkit"
WHEEL = "plugins/learners/sgd"
TIME = 1_700_000_000

Load = Callable[[str], ModuleType]


@pytest.fixture(scope="module")
def staging(load_tool: Load) -> ModuleType:
    return load_tool("releasing.staging")


@pytest.fixture(scope="module")
def building(load_tool: Load) -> ModuleType:
    return load_tool("releasing.building")


@pytest.fixture(scope="module")
def checking(load_tool: Load) -> ModuleType:
    return load_tool("releasing.checking")


@pytest.fixture(scope="module")
def source(root: Path, staging: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel as it is staged."""
    folder = tmp_path_factory.mktemp("release")
    shutil.copytree(root / WHEEL, folder / "repository" / WHEEL)
    subprocess.run(["git", "init", "--quiet"], cwd=folder / "repository", check=True)
    page = folder / "repository" / WHEEL / "README.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n[More](../../../docs/training.md#rates)\n", encoding="utf-8")
    staging.stage(folder / "repository", folder / "source", [WHEEL], HOME, "0.1.0")
    return folder / "source"


@pytest.fixture(scope="module")
def built(source: Path, building: ModuleType) -> list[Path]:
    found: list[Path] = building.build(source, [WHEEL], source.parent / "dist", TIME)
    return found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a](../b/c.md#d)", f"[a]({HOME}/blob/v0.2.0/plugins/b/c.md#d)"),
        ("![a](curve.png)", f"![a]({HOME}/raw/v0.2.0/plugins/x/curve.png)"),
        ("[a]: ../../docs/b.md\n", f"[a]: {HOME}/blob/v0.2.0/docs/b.md\n"),
        ("[a](https://b.org/c) [d](#e) [f](mailto:g@h)", "[a](https://b.org/c) [d](#e) [f](mailto:g@h)"),
    ],
)
def test_links_lead_to_the_project(staging: ModuleType, text: str, said: str) -> None:
    assert staging.absolute_links(text, "plugins/x", HOME, "0.2.0") == said


def test_what_is_staged(source: Path) -> None:
    assert f"[More]({HOME}/blob/v0.1.0/docs/training.md#rates)" in (source / WHEEL / "README.md").read_text()
    assert (source / WHEEL / "pyproject.toml").is_file()


def test_git_has_to_know_the_files(staging: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    with pytest.raises(staging.ReleaseError, match="git does not list its files: "):
        staging.tracked_files(tmp_path)
    with pytest.raises(staging.ReleaseError, match="there is no commit whose time the files could have"):
        staging.when(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(TIME))
    assert staging.when(tmp_path) == TIME


def test_a_wheel_has_the_same_bytes_twice(source: Path, built: list[Path], building: ModuleType) -> None:
    for path in source.rglob("*.py"):
        path.touch()  # when a file was written does not matter
    again = building.build(source, [WHEEL], source.parent / "again", TIME)
    assert [path.suffix for path in again] == [".gz", ".whl"]
    assert building.differences(built, again) == []
    (later,) = building.build(source, [WHEEL], source.parent / "later", TIME + 86_400)[1:]
    assert building.differences([built[1]], [later]) == [later.name]
    assert building.differences(built, [built[0]]) == [built[1].name]


def test_a_wheel_says_all_that_an_index_shows(
    root: Path, built: list[Path], checking: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "_twine", lambda files: [])
    licence = (root / "LICENSE").read_text(encoding="utf-8")
    home = re.search(r'^home = "(.*?)"', (root / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert home is not None
    assert checking.problems(built, home[1], licence) == []
    assert len(checking.problems(built, "https://elsewhere.org", "No licence.")) == 2 * (1 + len(checking.LABELS))


def test_a_wheel_that_says_nothing(tmp_path: Path, checking: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "_twine", lambda files: ["twine is not content"])
    page = "[here](docs/a.md) [there](https://b.org) [below](#c)"
    with ZipFile(tmp_path / "a-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("a-1.dist-info/METADATA", f"Name: a\nVersion: 1\nClassifier: Nonsense :: 1\n\n{page}\n")
    name = "a-1-py3-none-any.whl: "
    assert checking.problems([tmp_path / "a-1-py3-none-any.whl"], HOME, "") == [
        *(f"{name}its metadata have no {key}" for key in ("Summary", "License-Expression", "License-File")),
        *(f"{name}its metadata have no {key}" for key in ("Keywords", "Requires-Python")),
        f"{name}its page is not said to be Markdown",
        *(f"{name}its address '{label}' does not begin with {HOME}" for label in checking.LABELS),
        f"{name}no index knows the classifier 'Nonsense :: 1'",
        f"{name}its page links to docs/a.md, which is nowhere on an index",
        f"{name}has not the text of the licence, once",
        "twine is not content",
    ]


def test_what_cannot_be_built_says_why(building: ModuleType, staging: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(staging.ReleaseError, match="/a: no sdist can be built: "):
        building.build(tmp_path, ["a"], tmp_path / "dist", TIME)


PROJECT = """\
version = "0.1.0"
dependencies = ["cntk-core>=0.1,<0.2", "cntk-kit-engines>=0.1", "numpy>=2.0", "cntk-engine-cpu[fast]>=0.1"]
"""


@pytest.mark.parametrize(("version", "least"), [("0.2.0", "0.2"), ("0.2.3", "0.2"), ("0.2.0rc1", "0.2.0rc1")])
def test_a_version_is_written(load_tool: Load, version: str, least: str) -> None:
    assert load_tool("releasing.versions").with_version(PROJECT, version) == (
        f'version = "{version}"\ndependencies = ["cntk-core>={least},<0.3", "cntk-kit-engines>={least}", "numpy>=2.0", '
        f'"cntk-engine-cpu[fast]>={least}"]\n'
    )


@pytest.mark.parametrize(
    ("text", "version", "said"),
    [
        (PROJECT, "0.2", "'0.2' is no version: one is 0.2.0 or 0.2.0rc1"),
        ("", "0.2.0", "a pyproject.toml has not one line with a version"),
    ],
)
def test_a_version_that_is_none(load_tool: Load, staging: ModuleType, text: str, version: str, said: str) -> None:
    with pytest.raises(staging.ReleaseError) as caught:
        load_tool("releasing.versions").with_version(text, version)
    assert str(caught.value) == said


def test_all_wheels_get_the_version(load_tool: Load, root: Path, wheels: dict[str, Any], tmp_path: Path) -> None:
    """And nothing else changes: the lists that name versions are those of the wheels afterwards."""
    names = ["pyproject.toml", *(f"{folder}/pyproject.toml" for folder in wheels)]
    for name in [*names, "cntk_core/__init__.py"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, tmp_path / name)
    versions = load_tool("releasing.versions")
    assert versions.set_version(tmp_path, names, "0.7.1") == [*names, "cntk_core/__init__.py"]
    assert '__version__ = "0.7.1"' in (tmp_path / "cntk_core/__init__.py").read_text()
    found = [wheel.version for wheel in load_tool("wheel_projects").find_wheels(tmp_path)]
    assert found == ["0.7.1"] * len(names)
    left = [name for name in names if re.search(r'"cntk-[^"]*[<>=]0\.[12]', (tmp_path / name).read_text())]
    assert left == []
    assert versions.set_version(tmp_path, names, "0.7.1") == []


@pytest.mark.skipif(os.name == "nt", reason="the interpreters are shell scripts")
def test_pythons_that_are_here(load_tool: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A launcher that fails is none; a path is taken for what it is."""
    pythons = load_tool("releasing.fresh").pythons
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    for name, line in {"python2.1": "exit 127", "python2.2": "echo 2.2", "python2.3": "echo 2.4"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert pythons(["2.1", "2.2", "2.3"]) == {"2.2": str(tmp_path / "python2.2")}
    installed = tmp_path / "pyenv/versions/2.1.5/bin"
    installed.mkdir(parents=True)
    (tmp_path / "python2.2").rename(installed / "python2.1")
    (installed / "python2.1").write_text("#!/bin/sh\necho 2.1\n", encoding="utf-8")
    assert pythons(["2.1"]) == {"2.1": str(installed / "python2.1")}
    assert pythons([sys.executable, "/no/python"]) == {here: sys.executable}


def test_the_first_program_is_that_of_the_readme(load_tool: Load, root: Path) -> None:
    """But for its last line, which prints there and asserts here."""
    page = (root / "README.md").read_text(encoding="utf-8")
    shown = [line for line in page.split("```python\n")[1].split("```")[0].splitlines() if line]
    start = load_tool("releasing.trying").START.splitlines()
    assert start[:-1] == shown[:-1]
    assert shown[-1].removeprefix("print(").removesuffix(")") in start[-1]


def test_what_a_wheel_offers_is_loaded(load_tool: Load) -> None:
    program = load_tool("releasing.trying").LOADS
    for words in (("cntk-learner-sgd", "cntk_learner_sgd"), ("cntk-toolkit", "")):
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


class _Installed:
    """Stands for an environment: notes what is run, and fails where it is told to."""

    def __init__(self, error: type[Exception], failing: str) -> None:
        self.error, self.failing, self.ran = error, failing, []  # type: ignore[var-annotated]

    def run(self, *words: str, folder: Path) -> str:
        self.ran.append((folder.name, *(word for word in words if word.endswith(".py"))))
        if self.failing in folder.name:
            raise self.error("1 failed")
        return "...\n3 passed in 1 s\n"


def test_contract_tests_come_from_the_source_distributions(
    load_tool: Load, staging: ModuleType, built: list[Path], tmp_path: Path
) -> None:
    trying = load_tool("releasing.trying")
    (tmp_path / "bare-1").mkdir()
    (tmp_path / "bare-1/pyproject.toml").write_text("[project]\nname = 'bare-wheel'\n", encoding="utf-8")
    with tarfile.open(tmp_path / "bare-1.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "bare-1", "bare-1")
    said: list[str] = []
    archives = [built[0], tmp_path / "bare-1.tar.gz"]
    installed = _Installed(staging.ReleaseError, "nothing")
    assert trying.run_contracts(archives, installed, tmp_path / "work", said.append) == []
    name = built[0].name
    assert said == [f"{name}: 3 passed in 1 s", "bare-1.tar.gz: 3 passed in 1 s"]
    (folder, *own), (bare, general) = installed.ran
    assert [Path(test) for test in own] == [tmp_path / "work" / folder / "tests/test_contract.py"]
    assert Path(own[0]).is_file()
    assert bare == "bare-1"
    assert "    distribution = 'bare-wheel'\n    module = ''\n" in Path(general).read_text(encoding="utf-8")
    failing = _Installed(staging.ReleaseError, "sgd")
    assert trying.run_contracts(archives, failing, tmp_path / "work", said.append) == [
        f"the contract tests of {name}: 1 failed"
    ]


class _Here:
    """This Python, in place of one of an environment."""

    def run(self, *words: str, folder: Path) -> str:
        done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def test_contract_tests_see_nothing_of_the_repository_around_them(load_tool: Load, tmp_path: Path) -> None:
    """They are unpacked below it, and pytest goes upwards for settings and conftest.py."""
    (tmp_path / "conftest.py").write_text("import no_such_module\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\naddopts = '--no-such-option'\n", encoding="utf-8"
    )
    tests = tmp_path / "one-1/tests"
    tests.mkdir(parents=True)
    (tests.parent / "pyproject.toml").write_text("[project]\nname = 'cntk-learner-sgd'\n", encoding="utf-8")
    (tests / "conftest.py").write_text("import pytest\n@pytest.fixture\ndef own():\n    return 1\n", encoding="utf-8")
    (tests / "test_contract.py").write_text("def test_own(own):\n    assert own == 1\n", encoding="utf-8")
    archive = tmp_path / "one-1.tar.gz"
    with tarfile.open(archive, "w:gz") as opened:
        opened.add(tests.parent, "one-1")
    said: list[str] = []
    assert load_tool("releasing.trying").run_contracts([archive], _Here(), tmp_path / "work", said.append) == []
    assert said[0].startswith("one-1.tar.gz: 5 passed in ")


def test_words_that_do_not_go_together(load_tool: Load, capsys: pytest.CaptureFixture[str]) -> None:
    release = load_tool("release")
    for words in (["version"], ["build", "0.2.0"]):
        with pytest.raises(SystemExit):
            release.main(words)
        assert "a version belongs to the step 'version', and to no other" in capsys.readouterr().err


def test_a_step_needs_the_files(
    load_tool: Load, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = load_tool("release")
    shutil.copy(root / "pyproject.toml", tmp_path)
    shutil.copy(root / "LICENSE", tmp_path)
    assert release.main(["check"], tmp_path) == 1
    assert capsys.readouterr().err == "tools/release.py: dist/ is empty: python tools/release.py build\n"
    assert release.main(["alone", "--python", "2.1"], tmp_path) == 1
    assert capsys.readouterr().err == "tools/release.py: none of Python 2.1 is here\n"
