"""Builds every network that the recipes in a folder describe, and prints a table of what came of it.

    python tools/walk_recipes.py DIR [DIR ...] [--verbose] [--json FILE]

Looks at each .cntk, .ndl, .mel and .bs file. Nothing is trained and no data is read. A file that is part of recipes
(macros, a network description, an editing script) is judged by the recipes that name it; one that none names is tried
alone. Variables that a recipe leaves to the command line get sensible values. The exit status is 0 unless a file led to
a Python traceback or took too long.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import re
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import attrs
from cntk_action_classic import edit

from cntk_core.config import Config, Value, load_recipe
from cntk_core.contract.builder import BuildContext, Document
from cntk_core.errors import CntkError, Location, PluginError, Problems, UnsupportedError
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.registry import Registry
from cntk_kit_recipes.recipe.context import ActionContext, precision_of
from cntk_kit_recipes.recipe.descriptions import languages, network_words
from cntk_kit_recipes.recipe.document import recipe_builder
from cntk_kit_recipes.recipe.log import Log

SUFFIXES = {".cntk": "recipes", ".ndl": "NDL", ".mel": "MEL", ".bs": "BrainScript"}
"""What is looked at, and how the table calls it."""

NOTHING, BUILT, FILES, OPERATORS, OTHER, TRACEBACK, TIMEOUT = OUTCOMES = (
    "no network",
    "built",
    "missing files",
    "missing operators",
    "other error",
    "traceback",
    "timeout",
)
"""What can come of a file, from good to bad."""

_SCRIPTS = {"edit"}
_UNKNOWN_VARIABLE = re.compile(r"(?:unknown variable|variables that need each other:) \$([^$]+)\$")
_NO_FILE = re.compile(r"No such file|does not exist|cannot read|cannot be read|cannot be found")
_NO_OPERATOR = re.compile(r"not there yet|not supported yet|no function|unknown (function|identifier|operation)")
_WHOLE = re.compile(r"\bnew\s+TrainAction\b")
_MOST_VARIABLES = 40


@attrs.frozen
class Result:
    """What came of one description.

    Attributes:
        what: section and key, or the kind of file.
        outcome: one of ``OUTCOMES``.
        message: why, if it was not built; number of nodes if it was.
    """

    what: str
    outcome: str
    message: str = ""


@attrs.frozen
class Report:
    """What came of a file: all its descriptions."""

    path: str
    kind: str
    results: Sequence[Result]

    @property
    def outcome(self) -> str:
        """The worst of all."""
        return max((result.outcome for result in self.results), key=OUTCOMES.index, default=NOTHING)


# -- what is in a recipe ----------------------------------------------------------------------------------


class Recipe:
    """A recipe, loaded so that as much of it as possible makes sense."""

    def __init__(self, files: Sequence[Path], plugins: PluginManager) -> None:
        self.files = files
        self.plugins = plugins
        self.variables = _folders(files[-1].parent)

    def load(self) -> Config:
        """Read the files, with a value for every variable that they do not set themselves."""
        names = "+".join(str(file) for file in self.files)
        given = load_recipe([f"configFile={names}"])
        added = [f"{name}={value}" for name, value in self.variables.items() if _is_open(given, name)]
        return load_recipe([f"configFile={names}", *added])

    def attempt(self, step: Callable[[Config], Result]) -> Result:
        """Do something with the recipe; each variable that turns out to be unknown gets a value."""
        for _ in range(_MOST_VARIABLES):
            try:
                return step(self.load())
            except CntkError as error:
                unknown = set(_UNKNOWN_VARIABLE.findall(str(error))) - set(self.variables)
                if not unknown:
                    raise
                self.variables |= {name: _guess(name, self.files[-1].parent) for name in unknown}
        raise CntkError(f"more than {_MOST_VARIABLES} variables are unknown")

    def context(self, config: Config) -> ActionContext:
        """Return what builders need."""
        return ActionContext(config, Log(quiet=True), self.plugins, precision_of(config))


class WholeRecipe(Recipe):
    """A recipe that is BrainScript as a whole."""

    def load(self) -> Config:
        """Read the files as they are."""
        registry = self.plugins.registry
        context = BuildContext(find_op=registry.ops.find, op_names=registry.ops.names, trace=lambda text: None)
        document = Document(tuple((str(file), Location(str(file))) for file in self.files))
        return recipe_builder(registry, document)().read_recipe(document, context)


def _is_open(config: Config, name: str) -> bool:
    """Whether a recipe leaves a variable to the command line: it does not set it, or only to itself."""
    value = config.own(name)
    return value is None or f"${name.lower()}$" in value.raw.text.lower()


def _folders(folder: Path) -> dict[str, str]:
    scratch = tempfile.gettempdir()
    data = next((path for path in (folder / "Data", folder.parent / "Data") if path.is_dir()), folder)
    return {
        "ConfigDir": str(folder),
        "DataDir": str(data),
        "RunDir": scratch,
        "OutputDir": scratch,
        "ModelDir": scratch,
        "WorkDir": scratch,
        "DeviceId": "cpu",
    }


def _guess(name: str, folder: Path) -> str:
    """Return a value for a variable that nothing sets."""
    lower = name.lower()
    if any(part in lower for part in ("dir", "path", "root", "folder")):
        return str(folder)
    if any(part in lower for part in ("file", "macro", "ndl", "mel", "model", "list")):
        return str(folder / f"{name}-of-the-command-line")
    return {"precision": "float", "devicenum": "cpu", "devicenumber": "cpu"}.get(lower, "1")


@attrs.frozen
class Description:
    """A network description, or an editing script, in a recipe: where it stands and its key.

    It is not used where another builder's key, which is looked for first, stands in the same section.
    """

    section: str
    key: str
    is_used: bool = True

    @property
    def name(self) -> str:
        """As the listing shows it."""
        return f"{self.section}/{self.key}" if self.section else self.key


@functools.cache
def _registry() -> Registry:
    return PluginManager(load_hooks=False).registry


@functools.cache
def _words() -> list[str]:
    """The words of network descriptions in lower case, those first that are looked for first."""
    return [word.lower() for word in network_words(_registry())]


def _sections(config: Config) -> tuple[Config, ...]:
    return config.sections(leave_out=languages(_registry(), config.keys()))


def descriptions(config: Config) -> list[Description]:
    """Return all that a recipe describes."""
    found = _described(config)
    for section in _sections(config):
        found += _described(section)
        actions = section.own("action")
        if actions is not None and actions.string().lower() in _SCRIPTS and not _builder_keys(section):
            found.append(Description(section.name, "edit"))
    return found


def _described(section: Config) -> list[Description]:
    keys = sorted(_builder_keys(section), key=lambda key: _words().index(key.lower()))
    return [Description(section.name, key, is_used=key is keys[0]) for key in keys]


def _builder_keys(config: Config) -> list[str]:
    return [key for key in config.keys() if key.lower() in _words()]  # noqa: SIM118 - a Config is no dict


def _value(config: Config, wanted: Description) -> tuple[Config, Value]:
    section = config.section(wanted.section) if wanted.section else _user_of(config)
    value = section.get(wanted.key)
    assert value is not None
    return section, value


def _user_of(config: Config) -> Config:
    """The section for which a description at the top level is meant: the first with an action."""
    return next((section for section in _sections(config) if section.own("action") is not None), config)


def build(recipe: Recipe, wanted: Description) -> Result:
    """Build one description; one that no action looks at has no outcome."""
    if not wanted.is_used:
        result = _build(recipe, attrs.evolve(wanted, is_used=True))
        return attrs.evolve(result, outcome=NOTHING, message=f"not used ({result.outcome}: {result.message})")
    return _build(recipe, wanted)


def _build(recipe: Recipe, wanted: Description) -> Result:

    def step(config: Config) -> Result:
        context = recipe.context(config)
        if wanted.key == "edit":
            edit.EditAction().check(context, config.section(wanted.section))
            return Result(wanted.name, BUILT, "script")
        _, value = _value(config, wanted)
        builder = context.plugins.registry.builders.get(value.short_name, where=value.key_where)()
        network = builder.build(value, context.build_context())
        network.infer()
        return Result(wanted.name, BUILT, f"{len(network)} nodes")

    return judged(wanted.name, lambda: recipe.attempt(step))


def judged(what: str, step: Callable[[], Result]) -> Result:
    """Run a step and say what came of it."""
    try:
        return step()
    except CntkError as error:
        return Result(what, classify(error), str(error))
    except Exception:
        return Result(what, TRACEBACK, traceback.format_exc())


def classify(error: CntkError) -> str:
    """Return the outcome that an error means; of several, other errors count most."""
    kinds = {_kind(each) for each in (error.errors if isinstance(error, Problems) else [error])}
    return max(kinds, key=OUTCOMES.index)


def _kind(error: CntkError) -> str:
    if isinstance(error, UnsupportedError | PluginError) or _NO_OPERATOR.search(error.message):
        return OPERATORS
    return FILES if _NO_FILE.search(error.message) else OTHER


# -- files ------------------------------------------------------------------------------------------------


class Walker:
    """Looks at files; made once, so that plugins are found once."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self.plugins = PluginManager()
        self.plugins.registry.ops.names("")
        self.roots = roots
        self.files = sorted({path.resolve() for root in roots for path in _files(root)})
        self.texts = {path: path.read_text(encoding="latin-1") for path in self.files}

    def examine(self, path: Path) -> list[Result]:
        """Return what comes of each description in a file."""
        os.chdir(path.parent)
        if path.suffix == ".cntk" or not self._is_overlay(path):
            return self._recipe(Recipe([path], self.plugins))
        if path.suffix == ".bs" and _WHOLE.search(self.texts[path]):
            return self._recipe(WholeRecipe([path], self.plugins))
        users = self._users(path)
        if users:
            return [result for user in users for result in self._mentions(user, path)]
        return self._alone(path)

    def _recipe(self, recipe: Recipe) -> list[Result]:
        files = recipe.files
        found: list[Description] = []

        def step(config: Config) -> Result:
            found.extend(descriptions(config))
            return Result("recipe", NOTHING)

        result = judged("recipe", lambda: recipe.attempt(step))
        if result.outcome != NOTHING:
            return self._on_a_base(files) or [result]
        results = [build(recipe, wanted) for wanted in found]
        if any(result.outcome in (OTHER, FILES) for result in results) and self._is_overlay(files[-1]):
            return self._on_a_base(files) or results
        return results

    def _is_overlay(self, path: Path) -> bool:
        """Whether a recipe names no commands, so that it was made to be read after another one."""
        return re.search(r"^\s*command\s*=", self.texts.get(path, ""), re.MULTILINE | re.IGNORECASE) is None

    def _on_a_base(self, files: Sequence[Path]) -> list[Result]:
        """Results of the recipe read after one beside it or above it that can be its base."""
        path = files[-1]
        if len(files) > 1 or not self._is_overlay(path):
            return []
        near = [other for other in self.files if other.suffix == ".cntk" and other.parent in path.parents]
        for base in sorted(near, key=lambda other: -len(other.parts)):
            if base != path and not self._is_overlay(base):
                results = self._recipe(Recipe([base, path], self.plugins))
                if results and all(result.outcome == BUILT for result in results):
                    return results
        return []

    def _users(self, path: Path, depth: int = 2) -> list[Path]:
        """Recipes that name a file, themselves or through another file."""
        near = [
            other for other in self.files if _near(other, path) and path.name in self.texts[other] and other != path
        ]
        users = [other for other in near if other.suffix == ".cntk"]
        if not users and depth:
            users = [user for other in near for user in self._users(other, depth - 1)]
        return list(dict.fromkeys(users))

    def _mentions(self, user: Path, path: Path) -> Iterator[Result]:
        """Results of those descriptions of a recipe that name the file; of all, if none does so itself."""
        os.chdir(user.parent)
        results = self._recipe(Recipe([user], self.plugins))
        named = [result for result in results if path.name in self._text_of(user, result.what)]
        for result in named or results:
            yield attrs.evolve(result, what=f"{user.name}: {result.what}")

    def _text_of(self, user: Path, what: str) -> str:
        recipe = Recipe([user], self.plugins)
        for wanted in descriptions(recipe.load()):
            if wanted.name == what:
                section, value = _value(recipe.load(), wanted) if wanted.key != "edit" else (None, None)
                own = section or recipe.load().section(wanted.section)
                return value.raw.text if value is not None else str([own.raw(key) for key in own.keys()])  # noqa: SIM118
        return ""

    def _alone(self, path: Path) -> list[Result]:
        """Results of a file that no recipe names."""
        attempts = {
            ".ndl": (
                f'X = [ action = train ; NDLNetworkBuilder = [ networkDescription = "{path}" ] ]',
                f'X = [ action = train ; NDLNetworkBuilder = [ ndlMacros = "{path}" ; run = n ; n = [ x = Input(2) ; '
                "s = Sigmoid(x) ; FeatureNodes = (x) ; OutputNodes = (s) ] ] ]",
            ),
            ".mel": (f'X = [ action = edit ; editPath = "{path}" ]',),
            ".bs": (
                f"X = [ action = train ; BrainScriptNetworkBuilder = [ include '{path}' ; x = Input {{2}} ; "
                "s = Sigmoid (x) ] ]",
            ),
        }
        results: list[Result] = []
        for text in attempts[path.suffix]:
            with tempfile.TemporaryDirectory() as folder:
                wrapper = Path(folder) / "alone.cntk"
                wrapper.write_text(text + "\n", encoding="utf-8")
                results = self._recipe(Recipe([wrapper], self.plugins))
            if all(result.outcome == BUILT for result in results):
                break
        return [attrs.evolve(result, what=f"alone: {result.what}") for result in results]


def _files(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for path in root.rglob("*"):
        if path.suffix in SUFFIXES and path.is_file():
            yield path


def _near(other: Path, path: Path) -> bool:
    """Whether a file is in the folder of another, around it, or in it."""
    return other.parent in (path.parent, *list(path.parent.parents)[:2]) or path.parent in other.parent.parents


# -- one process for each file ----------------------------------------------------------------------------


def examine(walker: Walker, path: Path, limit: float) -> Report:
    """Look at a file in a process of its own, for at most so many seconds."""
    kind = SUFFIXES[path.suffix]
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if "fork" in methods else None)
    mine, its = context.Pipe(duplex=False)
    process = context.Process(target=_examine_there, args=(walker, path, its), daemon=True)
    process.start()
    its.close()
    try:
        results = mine.recv() if mine.poll(limit) else [Result("file", TIMEOUT, f"more than {limit:g} seconds")]
    except EOFError:
        results = [Result("file", TRACEBACK, "the process ended without a result")]
    if process.is_alive():
        process.kill()
    process.join()
    mine.close()
    return Report(str(path), kind, results)


def _examine_there(walker: Walker, path: Path, answer: Connection) -> None:
    try:
        results = walker.examine(path)
    except CntkError as error:
        results = [Result("file", classify(error), str(error))]
    except Exception:
        results = [Result("file", TRACEBACK, traceback.format_exc())]
    answer.send(results)


def table(reports: Iterable[Report]) -> list[str]:
    """Return the table with totals."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in SUFFIXES.values()}
    for report in reports:
        counts[report.kind][report.outcome] += 1
    counts["all"] = sum(counts.values(), Counter())
    widths = [len(outcome) for outcome in OUTCOMES]
    lines = ["  ".join([f"{'':11}", "files", *OUTCOMES])]
    for kind, count in counts.items():
        cells = [f"{count[outcome]:{width}d}" for outcome, width in zip(OUTCOMES, widths, strict=True)]
        lines.append("  ".join([f"{kind:11}", f"{count.total():5d}", *cells]))
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, help="folders (or files) to look at")
    parser.add_argument("--verbose", action="store_true", help="also what came of each description")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    parser.add_argument("--limit", type=float, default=10, help="seconds for each file (default: 10)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only files with this text in their path")
    options = parser.parse_args(arguments)
    walker = Walker(options.folders)
    reports = []
    for path in walker.files:
        if options.only not in str(path):
            continue
        reports.append(examine(walker, path, options.limit))
        if options.verbose:
            print("\n".join(_lines(reports[-1])), flush=True)
    print("\n".join(table(reports)))
    if options.json:
        text = json.dumps([attrs.asdict(report) | {"outcome": report.outcome} for report in reports], indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    return 1 if any(report.outcome in (TRACEBACK, TIMEOUT) for report in reports) else 0


def _lines(report: Report) -> Iterator[str]:
    yield f"{report.path}: {report.outcome}"
    for result in report.results:
        message = result.message.strip().replace("\n", "\n        ")
        yield f"    {result.what}: {result.outcome}: {message}"


if __name__ == "__main__":
    sys.exit(main())
