"""The lists of wheels are up to date, and the tool that writes them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

KNOWN = "cntk_core/plugins/known.json"
ROOT_PROJECT = """\
[project]
name = "cntk-core"
version = "0.3.1"
requires-python = ">=3.11"
classifiers = ["Old :: One"]

[project.optional-dependencies]
plot = ["matplotlib"]
all = ["cntk-toolkit[all]"]

[tool.cntk]
home = "https://example.org/toolkit"
offers = "the core"
keywords = ["core"]
classifiers = ["Environment :: Console"]

[tool.uv.workspace]
members = [
    # <wheels:members>
    "gone/*",
    # </wheels:members>
]

[tool.uv.sources]
# <wheels:sources>
# </wheels:sources>

[tool.hatch.build.targets.wheel]
packages = ["cntk_core"]

[tool.mypy]
files = [
    # <wheels:mypy>
    # </wheels:mypy>
]

[tool.pytest.ini_options]
testpaths = [
    # <wheels:tests>
    # </wheels:tests>
]

[tool.importlinter]
root_packages = [
    "cntk_core",
    # <wheels:packages>
    # </wheels:packages>
]
modules = [
    # <wheels:packages of plugins>
    # </wheels:packages of plugins>
]
"""


def project(name: str, offers: str, entry_points: str = "", rest: str = "") -> str:
    return f"""\
[project]
name = "{name}"
version = "0.3.0"
requires-python = ">=3.11"
{entry_points}
[tool.cntk]
offers = "{offers}"
{rest}
[tool.hatch.build.targets.wheel]
packages = ["src/{name.replace("-", "_")}"]
"""


XLA = project("cntk-engine-xla", "engine `xla`", '[project.entry-points."cntk.engines"]\nxla = "a:B"\n')
CPU = project(
    "cntk-engine-cpu",
    "engine `cpu`",
    '[project.optional-dependencies]\nfast = ["numba"]\n\n'
    '[project.entry-points."cntk.engines"]\ncpu = "a:B"\nCPU2 = "a:B"\n\n[project.entry-points.pytest11]\nx = "a"\n',
    'all = "fast"\nhint = "fast"\n',
)
KIT = project("cntk-kit-readers", "for authors of readers")
TOOLKIT = """\
[project]
name = "cntk-toolkit"
version = "0.3.2"
requires-python = ">=3.11"
dependencies = [
    "cntk-core[plot]", # by hand
    # <wheels:toolkit>
    # </wheels:toolkit>
]

[project.optional-dependencies]
all = [
    # <wheels:all>
    # </wheels:all>
]

[tool.cntk]
offers = "one name"

[tool.hatch.build.targets.wheel]
bypass-selection = true
"""


@pytest.fixture(scope="module")
def tool(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    return load_tool("wheels")


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A made-up workspace whose lists are all empty or wrong."""
    files = {
        "pyproject.toml": ROOT_PROJECT,
        "Makefile": "# <wheels:projects>\n# </wheels:projects>\nall:\n\ttrue\n",
        "LICENSE": "As you like.\n",
        "README.md": "Wheels:\n\n<!-- <wheels:table> -->\nold\n<!-- </wheels:table> -->\n\nEnd.\n",
        "packaging/conda/wheels.txt": "# <wheels:brought>\n# </wheels:brought>\n",
        "docs/index.md": "<!-- <wheels:pages> -->\n<!-- </wheels:pages> -->\n",
        "plugins/engines/xla/pyproject.toml": XLA,
        "plugins/engines/cpu/pyproject.toml": CPU,
        "kits/readers/pyproject.toml": KIT,
        "meta/toolkit/pyproject.toml": TOOLKIT,
        "plugins/engines/no_wheel/README.md": "",
        "cntk_core/plugins/known.py": "",
    }
    write(tmp_path, files)
    return tmp_path


def refused(tool: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What is said, without the tool's name, when it can do nothing."""
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    assert tool.main([], tree) == 1
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("tools/wheels.py: ")
    return said.err.removeprefix("tools/wheels.py: ").rstrip("\n")


def test_the_lists_of_the_workspace_are_up_to_date(
    tool: ModuleType, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (tool.main(["--check"], root), capsys.readouterr().err) == (0, "")


def test_check_names_the_files_and_the_command(
    tool: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main(["--check"], tree) == 1
    wheels = ["kits/readers", "plugins/engines/cpu", "plugins/engines/xla", "meta/toolkit"]
    stale = ["Makefile", "README.md", "docs/index.md", "meta/toolkit/pyproject.toml"]
    stale += ["packaging/conda/wheels.txt", "pyproject.toml"]
    stale += [f"{folder}/pyproject.toml" for folder in wheels[:-1]]
    stale += [KNOWN, *(f"{folder}/LICENSE" for folder in wheels)]
    lines = [f"{file}: the lists of wheels are out of date; write them anew: make wheels" for file in stale]
    assert capsys.readouterr().err.splitlines() == lines
    assert not (tree / KNOWN).exists()


def test_what_is_written_is_up_to_date(tool: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main([], tree) == 0
    assert "written: pyproject.toml" in capsys.readouterr().out
    assert tool.main(["--check"], tree) == 0
    write(tree, {"README.md": (tree / "README.md").read_text().replace("`cntk-engine-xla`", "`cntk-engine-xl`")})
    capsys.readouterr()
    assert tool.main(["--check"], tree) == 1
    assert capsys.readouterr().err == "README.md: the lists of wheels are out of date; write them anew: make wheels\n"


def test_lists_of_the_root_project(tool: ModuleType, tree: Path) -> None:
    tool.main([], tree)
    text = (tree / "pyproject.toml").read_text()
    data: dict[str, Any] = tomllib.loads(text)
    plugins = ["cntk_engine_cpu", "cntk_engine_xla"]
    assert data["tool"]["uv"]["workspace"]["members"] == ["kits/*", "plugins/*/*", "meta/*"]
    names = ["cntk-core", "cntk-kit-readers", "cntk-engine-cpu", "cntk-engine-xla", "cntk-toolkit"]
    assert list(data["tool"]["uv"]["sources"]) == names
    assert data["tool"]["mypy"]["files"] == ["kits/*/src", "plugins/*/*/src"]
    assert data["tool"]["pytest"]["ini_options"]["testpaths"] == ["kits", "plugins"]
    rules = data["tool"]["importlinter"]
    assert rules["root_packages"] == ["cntk_core", "cntk_kit_readers", *plugins]
    assert rules["modules"] == plugins


def test_lists_of_the_other_files(tool: ModuleType, tree: Path) -> None:
    tool.main([], tree)
    assert (tree / "README.md").read_text() == (
        "Wheels:\n\n<!-- <wheels:table> -->\n"
        "| wheel | what it offers |\n| --- | --- |\n| `cntk-core` | the core |\n"
        "| [`cntk-kit-readers`](kits/readers/README.md) | for authors of readers |\n"
        "| [`cntk-engine-cpu`](plugins/engines/cpu/README.md) | engine `cpu` |\n"
        "| [`cntk-engine-xla`](plugins/engines/xla/README.md) | engine `xla` |\n"
        "| [`cntk-toolkit`](meta/toolkit/README.md) | one name |\n"
        "<!-- </wheels:table> -->\n\nEnd.\n"
    )
    assert (tree / "docs/index.md").read_text().splitlines()[1:-1] == [
        "| | |",
        "| --- | --- |",
        "| kits | [readers](../kits/readers/README.md) |",
        "| engines | [cpu](../plugins/engines/cpu/README.md), [xla](../plugins/engines/xla/README.md) |",
        "| meta | [toolkit](../meta/toolkit/README.md) |",
    ]
    assert (tree / "Makefile").read_text().splitlines()[1] == (
        "PROJECTS := $(wildcard kits/*/pyproject.toml) $(wildcard plugins/*/*/pyproject.toml) "
        "$(wildcard meta/*/pyproject.toml)"
    )
    brought = (tree / "packaging/conda/wheels.txt").read_text().splitlines()[1:-1]
    assert brought == ["cntk-core==0.3.1", "cntk-toolkit==0.3.2"]
    assert json.loads((tree / "cntk_core/plugins/known.json").read_text()) == [
        {"name": "cntk-engine-cpu", "extra": "fast", "released": True, "offers": {"cntk.engines": ["cpu", "CPU2"]}},
        {"name": "cntk-engine-xla", "extra": "", "released": True, "offers": {"cntk.engines": ["xla"]}},
    ]


def test_paths(tool: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["--paths"], tree) == 0
    assert capsys.readouterr().out == "kits/readers\nplugins/engines/cpu\nplugins/engines/xla\nmeta/toolkit\n"


def needs(text: str, *requirements: str) -> str:
    return text.replace('version = "0.3.0"\n', f'version = "0.3.0"\ndependencies = {json.dumps(requirements)}\n')


def test_what_a_wheel_needs(tool: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Directly or not, with the extras that are asked for, and without what is not of the workspace."""
    with_extra = CPU.replace('fast = ["numba"]', 'fast = ["cntk-engine-xla>=0.3", "numba"]')
    write(tree, {"plugins/engines/cpu/pyproject.toml": needs(with_extra, "cntk-core>=0.3", "numpy")})
    write(tree, {"kits/readers/pyproject.toml": needs(KIT, "cntk-engine-cpu [fast] >=0.3", "cntk-kit-readers")})
    for wheel, folders in {
        "cntk-engine-cpu": "plugins/engines/cpu\n",
        "cntk-kit-readers": "kits/readers\nplugins/engines/cpu\n",
        "cntk-core": "\n",
    }.items():
        assert tool.main(["--needed-by", wheel], tree) == 0
        assert capsys.readouterr().out == folders
    write(tree, {"kits/readers/pyproject.toml": needs(KIT, "cntk-engine-cpu[fast]>=0.3")})
    wheels = tool.find_wheels(tree)
    found = [wheel.name for wheel in tool.needed_by(wheels, "cntk-kit-readers")]
    assert found == ["cntk-core", "cntk-kit-readers", "cntk-engine-cpu", "cntk-engine-xla"]
    assert tool.needed_by(wheels, "cntk-engine-cpu", ["fast"])[-1].name == "cntk-engine-xla"
    for wheel, extras, said in (
        ("cntk-engine-gpu", [], "there is no wheel 'cntk-engine-gpu'"),
        ("cntk-engine-cpu", ["slow"], "the wheel 'cntk-engine-cpu' has no extra 'slow'"),
    ):
        with pytest.raises(tool.WheelError) as caught:
            tool.needed_by(wheels, wheel, extras)
        assert str(caught.value) == said


def toolkit(tree: Path) -> tuple[list[str], list[str]]:
    """What it asks for by its list, and what its extra ``all`` does."""
    project = tomllib.loads((tree / "meta/toolkit/pyproject.toml").read_text())["project"]
    assert project["dependencies"][0] == "cntk-core[plot]"
    return project["dependencies"][1:], project["optional-dependencies"]["all"]


def test_what_a_wheel_says_of_itself_changes_the_lists(tool: ModuleType, tree: Path) -> None:
    tool.main([], tree)
    assert toolkit(tree) == ([], ["cntk-engine-cpu[fast]>=0.3,<0.4", "cntk-engine-xla>=0.3,<0.4"])
    assert '"cntk-core[plot]", # by hand\n' in (tree / "meta/toolkit/pyproject.toml").read_text()
    write(tree, {"kits/readers/pyproject.toml": KIT.replace('authors of readers"', 'all"\nin-all = true\n')})
    write(tree, {"plugins/engines/xla/pyproject.toml": XLA.replace('`"', '`"\nin-all = false\nreleased = false\n')})
    tool.main([], tree)
    assert toolkit(tree) == ([], ["cntk-kit-readers>=0.3,<0.4", "cntk-engine-cpu[fast]>=0.3,<0.4"])
    assert "| engine `xla` (not released yet) |" in (tree / "README.md").read_text()
    assert [row["released"] for row in json.loads((tree / tool.KNOWN).read_text())] == [True, False]


@pytest.mark.parametrize(
    ("brought", "base", "rest"),
    [
        ("fast", ["cntk-engine-cpu[fast]>=0.3,<0.4"], []),
        ("", ["cntk-engine-cpu>=0.3,<0.4"], ["cntk-engine-cpu[fast]>=0.3,<0.4"]),
    ],
)
def test_all_names_what_the_toolkit_does_not_bring(
    tool: ModuleType, tree: Path, brought: str, base: list[str], rest: list[str]
) -> None:
    write(tree, {"plugins/engines/cpu/pyproject.toml": CPU.replace("hint =", f'toolkit = "{brought}"\nhint =')})
    tool.main([], tree)
    assert toolkit(tree) == (base, [*rest, "cntk-engine-xla>=0.3,<0.4"])


def test_what_all_wheels_say_alike(tool: ModuleType, tree: Path) -> None:
    tool.main([], tree)
    core, xla, toolkit = (
        tomllib.loads((tree / folder / "pyproject.toml").read_text())["project"]
        for folder in (".", "plugins/engines/xla", "meta/toolkit")
    )
    home = "https://example.org/toolkit"
    for project in (core, xla, toolkit):
        assert project["license-files"] == ["LICENSE"]
        assert project["urls"] == {
            "Homepage": home,
            "Documentation": f"{home}/blob/main/docs/index.md",
            "Source": home,
            "Issues": f"{home}/issues",
            "Changelog": f"{home}/blob/main/CHANGELOG.md",
        }
        assert "Typing :: Typed" in project["classifiers"]
        assert project["classifiers"] == sorted(project["classifiers"])
    assert set(core["classifiers"]) - set(xla["classifiers"]) == {"Environment :: Console"}  # and the old ones are gone
    assert core["keywords"] == [*xla["keywords"], "core"]
    assert [(tree / folder / "LICENSE").read_text() for folder in ("kits/readers", "meta/toolkit")] == 2 * [
        "As you like.\n"
    ]


def test_what_a_wheel_says_of_its_own_stays(tool: ModuleType, tree: Path) -> None:
    """The keys of [tool.cntk] have the names of those in [project], from which a place for the lists is made."""
    tool.main([], tree)
    settings = tomllib.loads((tree / "pyproject.toml").read_text())["tool"]["cntk"]
    assert (settings["keywords"], settings["classifiers"]) == (["core"], ["Environment :: Console"])


def test_a_project_without_an_address(tool: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tree, {"pyproject.toml": ROOT_PROJECT.replace("home =", "# home =")})
    assert refused(tool, tree, capsys) == "pyproject.toml: [tool.cntk] home must be the address of the project"


XLA_FILE = "plugins/engines/xla/pyproject.toml"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            '[project]\nname = "',
            '[project\nname = "',
            f"{XLA_FILE}: cannot be read: Expected ']' at the end of a table",
        ),
        ('name = "cntk-engine-xla"', "", f"{XLA_FILE}: [project] says no name"),
        ('version = "0.3.0"', "version = 3", f"{XLA_FILE}: [project] says no version"),
        (
            'packages = ["src/',
            'packages = ["a", "src/',
            "[tool.hatch.build.targets.wheel] must name one package, not 2",
        ),
        (
            'offers = "',
            'offer = "',
            f"{XLA_FILE}: [tool.cntk] has no key 'offer'; there are offers, toolkit, all, in-all",
        ),
        ('offers = "engine `xla`"', "", "[tool.cntk] offers must say in one line, without |, what the wheel offers"),
        ('offers = "', 'offers = "a | b ', "[tool.cntk] offers must say in one line, without |, what the wheel offers"),
        ('offers = "', 'in-all = 1\noffers = "', f"{XLA_FILE}: [tool.cntk] in-all must be a bool"),
        ('offers = "', 'all = "x"\noffers = "', "[tool.cntk] names the extra 'x', which the wheel does not have"),
        ('offers = "', 'toolkit = "z"\noffers = "', "[tool.cntk] names the extra 'z', which the wheel does not have"),
        ('offers = "', 'keywords = [1]\noffers = "', f"{XLA_FILE}: [tool.cntk] keywords must be strings"),
        (
            "requires-python",
            "requires_python",
            f"{XLA_FILE}: the comments <wheels:about> and </wheels:about> are missing",
        ),
        ('offers = "', 'hint = "y"\noffers = "', "[tool.cntk] names the extra 'y', which the wheel does not have"),
        (
            "cntk-engine-xla",
            "cntk-engine-cpu",
            "the wheel 'cntk-engine-cpu' is claimed by plugins/engines/cpu and by plugins/engines/xla",
        ),
        (
            "cntk_engine_xla",
            "cntk_engine_cpu",
            "the package 'cntk_engine_cpu' is claimed by plugins/engines/cpu and by plugins/engines/xla",
        ),
        (
            'xla = "a:B"',
            'Cpu = "a:B"',
            "the name of cntk.engines 'cpu' is claimed by plugins/engines/cpu and by plugins/engines/xla",
        ),
    ],
)
def test_a_wheel_that_is_not_as_it_has_to_be(
    tool: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    assert old in XLA
    write(tree, {XLA_FILE: XLA.replace(old, new)})
    assert said in refused(tool, tree, capsys)


@pytest.mark.parametrize(
    ("readme", "said"),
    [
        ("", "README.md: the comments <wheels:table> and </wheels:table> are missing"),
        ("a\n# <wheels:table>\n", "README.md:2: <wheels:table> is not closed"),
        ("# <wheels:table>\n# <wheels:all>\n", "README.md:1: <wheels:table> is not closed before line 2"),
        ("# <wheels:table>\n# </wheels:all>\n", "README.md:2: </wheels:all> closes no list"),
        ("# </wheels:table>\n", "README.md:1: </wheels:table> closes no list"),
    ],
)
def test_comments_that_are_not_as_they_have_to_be(
    tool: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str], readme: str, said: str
) -> None:
    write(tree, {"README.md": readme})
    assert refused(tool, tree, capsys) == said


def test_a_wheel_that_brings_others_installs_no_package(
    tool: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = "meta/toolkit/pyproject.toml"
    write(tree, {file: TOOLKIT.replace("bypass-selection = true", 'packages = ["src/a"]')})
    said = refused(tool, tree, capsys)
    assert said == f"{file}: [tool.hatch.build.targets.wheel] must name no package, not 1"


def test_an_unknown_list(tool: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tree, {"Makefile": "\n# <wheels:engines>\n"})
    said = refused(tool, tree, capsys)
    assert said.startswith(
        "Makefile:2: there is no list 'engines'; there are all, brought, members, mypy, packages, packages of "
    )


def test_a_file_that_is_not_there(tool: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "docs/index.md").unlink()
    assert refused(tool, tree, capsys) == "docs/index.md: cannot be read: No such file or directory"
