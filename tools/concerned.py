"""Says which tests a change concerns, for `make quick` and for `tools/mutants.py`.

    python tools/concerned.py --base main        # what differs from a commit, and what is not committed
    python tools/concerned.py cntk_core/plan/loops.py

A module concerns the tests of its room (the folder below ``tests`` that has its name) or of its wheel, those of wheels
that import it, other test files that import it or that speak the verbs and actions of its wheel, and the golden cases.
Who imports it is asked by name: a wheel that takes ``Plan`` from a door such as ``cntk_core.api`` uses the module that
``Plan`` comes from, not the whole door.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import grimp

ROOT = Path(__file__).resolve().parents[1]

Names: TypeAlias = "frozenset[str] | None"
"""Names of a module; None: all of them."""


class Workspace:
    """Wheels, modules and tests of the repository, as they lie on the disk.

    Args:
        root: its folder.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root

    def git(self, *arguments: str) -> list[str]:
        """Return the lines that git prints; an error of git ends the program."""
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout.splitlines()

    @cached_property
    def files(self) -> list[str]:
        """All files that git does not ignore."""
        return sorted({*self.git("ls-files"), *self.git("ls-files", "--others", "--exclude-standard")})

    @cached_property
    def packages(self) -> dict[str, Path]:
        """The folder of each wheel, relative to the root, by the name of its package."""
        projects = [Path(file) for file in self.files if Path(file).name == "pyproject.toml"]
        wheels = {file.parent for file in projects if "tests" not in file.parts}  # those are wheels to try
        found = {}
        for file in map(Path, self.files):
            above = file.parents[1] if len(file.parts) > 2 else Path()
            wheel = above.parent if above.name == "src" else above
            if file.name == "__init__.py" and wheel in wheels and file.parent.name not in ("tests", "tools"):
                found[file.parent.name] = wheel
        return found

    @cached_property
    def modules(self) -> dict[str, str]:
        """The modules of all wheels: their names, by file."""
        return {file: name for file in self.files if (name := self._module(Path(file)))}

    def _module(self, file: Path) -> str:
        parts = list(file.with_suffix("").parts)
        if file.suffix != ".py" or "tests" in parts:
            return ""
        for place, part in enumerate(parts):
            wheel = self.packages.get(part)
            if wheel is not None and Path(*parts[:place]) in (wheel, wheel / "src"):
                return ".".join(parts[place:]).removesuffix(".__init__")
        return ""

    @cached_property
    def graph(self) -> grimp.ImportGraph:
        """Who imports whom; imports for types alone too."""
        return grimp.build_graph(*self.packages, cache_dir=None)

    @cached_property
    def test_files(self) -> list[str]:
        """All files with tests."""
        return [file for file in self.files if Path(file).name.startswith("test_") and file.endswith(".py")]

    def room(self, file: str) -> str:
        """Return the folder with the tests of a module's room, or of its wheel; empty if there is none."""
        name = self.modules.get(file, "")
        wheel = self.packages.get(name.partition(".")[0])
        if wheel is None:
            return ""
        tests = wheel / "tests"
        if wheel != Path():
            return tests.as_posix() if (self.root / tests).is_dir() else ""
        rooms = name.split(".")[1:]
        for count in range(len(rooms), 0, -1):
            folder = tests.joinpath(*rooms[:count])
            if (self.root / folder).is_dir():
                return folder.as_posix()
        return ""

    def imports(self, file: str) -> dict[str, Names]:
        """Return what a file imports, everywhere in it: names by module."""
        found: dict[str, Names] = {}
        for node in ast.walk(ast.parse((self.root / file).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found.update((alias.name, None) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = frozenset(alias.name for alias in node.names)
                found.update((f"{node.module}.{name}", None) for name in names)
                before = found.get(node.module, frozenset())
                found[node.module] = None if before is None else before | names
        return found

    def reached(self, module: str) -> dict[str, Names]:
        """Return where the names of a module can be imported from: from itself, and from doors that hand them on."""
        files = {name: file for file, name in self.modules.items()}
        found: dict[str, Names] = {module: None}
        waiting = [module]
        while waiting:
            one = waiting.pop()
            if one not in self.graph.modules:
                continue
            for importer in self.graph.find_modules_that_directly_import(one):
                handed_on = self._exports(files[importer]) & _shared(self.imports(files[importer]).get(one), found[one])
                before = found.get(importer, frozenset())
                if before is not None and handed_on - before:
                    found[importer] = before | handed_on
                    waiting.append(importer)
        return found

    def _exports(self, file: str) -> frozenset[str]:
        """What is in ``__all__`` of a file: names as they stand there."""
        for node in ast.parse((self.root / file).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and any(getattr(one, "id", "") == "__all__" for one in node.targets):
                return frozenset(str(part.value) for part in ast.walk(node.value) if isinstance(part, ast.Constant))
        return frozenset()

    def concerned(self, changed: Iterable[str]) -> list[str]:
        """Return folders and files with the tests that a change of these files concerns."""
        found: set[str] = set()
        for file in changed:
            if file in self.modules:
                found |= self._of_module(file)
            elif "tests" in Path(file).parts:
                found.add(file if file in self.test_files else self._folder_of_tests(file))
            else:
                found |= self._naming(file)
        alive = {place for place in found if place and (self.root / place).exists()}
        return sorted(place for place in alive if not alive & {parent.as_posix() for parent in Path(place).parents})

    def _of_module(self, file: str) -> set[str]:
        reached = self.reached(self.modules[file])
        found = {self.room(file), "tests/golden"}
        if not self.room(file) and self.packages[package := self.modules[file].partition(".")[0]] != Path():
            # A wheel without tests of its own: those that import any of it.
            found |= {test for test in self.test_files if any(_within(one, package) for one in self.imports(test))}
        found |= self._of_room_elsewhere(file)
        for other in self.modules:
            if self.packages[self.modules[other].partition(".")[0]] != Path() and self._takes(other, reached):
                found.add(self.room(other))
        return found | self.taking(file) | self._speaking(self.modules[file].partition(".")[0])

    def _of_room_elsewhere(self, file: str) -> set[str]:
        """Return the folders of tests that go through a room of a kit which has none beside the kit.

        Such a room is tested with the core's room that it serves (``cntk_kit_recipes.session`` in ``tests/training``):
        by tests that import something of it, themselves or through a helper of theirs.
        """
        name = self.modules[file]
        package, room, *rest = [*name.split("."), ""]
        wheel = self.packages[package]
        if not rest or wheel.parts[:1] != ("kits",) or (self.root / wheel / "tests" / room).is_dir():
            return set()
        inside = f"{package}.{room}"
        helpers = [one for one in self.files if one.startswith("tests/") and one.endswith(".py")]
        takers = [one for one in helpers if any(f"{module}.".startswith(f"{inside}.") for module in self.imports(one))]
        return {Path(*Path(one).parts[:2]).as_posix() for one in takers if len(Path(one).parts) > 2}

    def _speaking(self, package: str) -> set[str]:
        """Return the test files that have a plugin's verb as an argument, or one of its actions in a recipe."""
        wheel = self.packages[package]
        if wheel.parts[:1] != ("plugins",):  # nearly all recipes train, test or write, with the kit's actions
            return set()
        project = tomllib.loads((self.root / wheel / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
        points = project.get("entry-points", {})
        verbs, actions = ("|".join(map(re.escape, points.get(f"cntk.{kind}", ()))) for kind in ("verbs", "actions"))
        said = [rf"""["'](?:{verbs})["']"""] if verbs else []
        said += [rf"""\baction *= *["']?(?:{actions})\b"""] if actions else []
        words = re.compile("|".join(said)) if said else None
        texts = ((one, (self.root / one).read_text(encoding="utf-8")) for one in self.test_files)
        return {one for one, text in texts if words is not None and words.search(text)}

    def taking(self, file: str) -> set[str]:
        """Return the test files that import something from a module, from wherever."""
        reached = self.reached(self.modules[file])
        return {test for test in self.test_files if self._takes(test, reached)}

    def _takes(self, file: str, reached: Mapping[str, Names]) -> bool:
        text = (self.root / file).read_text(encoding="utf-8")
        if not any(module.rpartition(".")[2] in text for module in reached):
            return False
        taken = self.imports(file)
        return any(_overlap(taken[module], names) for module, names in reached.items() if module in taken)

    def _folder_of_tests(self, file: str) -> str:
        """The room, or the wheel, of which a helper of tests is; what serves all tests is of the repository's."""
        parts = Path(file).parts
        place = parts.index("tests")
        if place:
            return Path(*parts[: place + 1]).as_posix()
        return Path(*parts[:2]).as_posix() if len(parts) > 2 else "tests/repo"

    def _naming(self, file: str) -> set[str]:
        """Tests that name a file which is no module, and those of the repository."""
        word = re.compile(rf"\b{re.escape(Path(file).stem)}\b")
        tests = {one for one in self.test_files if word.search((self.root / one).read_text(encoding="utf-8"))}
        return {"tests/repo", *tests}


def _within(module: str, package: str) -> bool:
    return module.partition(".")[0] == package


def _overlap(one: Names, other: Names) -> bool:
    return one is None or other is None or bool(one & other)


def _shared(taken: Names, offered: Names) -> frozenset[str]:
    if taken is None:
        return offered or frozenset()
    return taken if offered is None else taken & offered


def main() -> None:
    """Print the tests that a change concerns, a folder or file on each line."""
    parser = argparse.ArgumentParser(description="Say which tests a change concerns.")
    parser.add_argument("files", nargs="*", help="files that changed; by default what differs from the base")
    parser.add_argument("--base", default="HEAD", help="the commit to compare with")
    options = parser.parse_args()
    workspace = Workspace()
    changed = options.files
    if not changed:
        base = workspace.git("merge-base", options.base, "HEAD")[0]
        changed = workspace.git("diff", "--name-only", base)
        changed += workspace.git("ls-files", "--others", "--exclude-standard")
    print("\n".join(workspace.concerned(changed)))


if __name__ == "__main__":
    main()
