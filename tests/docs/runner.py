"""Runs a page of the documentation from top to bottom, as a reader would who has only the page.

What a block is, its language says. Where the line above it ends in the name of a file, as in
"This is `net.py`:", the block is the content of that file: of a file of the repository it has to be a quotation, any
other is written, and later blocks can use it. A block that cannot be run has a line above it that says why, with one
of the reasons of ``REASONS``: ``*(Not run here: needs a GPU.)*``. How the others are run is told in ``commands`` and
``recipes``.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from sybil import Document, Example, Region
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import PythonCodeBlockParser
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer

from tests.docs.commands import Shell
from tests.docs.recipes import check_brainscript, is_whole, try_piece

FILES = ("bs", "cntk", "csv", "ctf", "list", "mel", "mlf", "ndl", "nnet", "py", "scp", "txt")
"""Ends of the names of files that a page gives the content of."""

DEMO = ("digits.cntk", "train.ctf", "test.ctf")
"""What ``cntk demo`` makes, and a page may use if it says so."""

ON_THREADS = (
    "docs/parallel.md",
    *(f"plugins/parallel/{name}/README.md" for name in ("asgd", "bmuf", "data_parallel", "mpi", "onebit", "simulated")),
)
"""Pages about how ranks learn together, not about processes: that of the communicator of sockets starts real ones, and
what ``mpiexec`` starts on that of MPI are processes, too."""

REASONS = (
    "needs a GPU",
    "needs several machines",
    "needs a machine without MPI",
    "needs Slurm",
    "needs PyTorch",
    "needs Ray",
    "needs TensorBoard",
    "needs MLflow",
    "needs Weights & Biases",
    "needs a notebook",
    "needs a file that you have",
    "needs a data set that you download",
    "takes minutes",
    "serves until it is told to end",
    "uploads a wheel",
)
"""Why a block may not be run here."""

_NOT_RUN = re.compile(r"\*\(Not run here: (.*)\.\)\*")
_TO_BE_RUN = re.compile(r"(?:\$ )?(?:cntk|pip|python|make|mpiexec|pytest) [\w-]|\w+ *= *[\[{]")
_NAMED = re.compile(rf"`([\w./-]+\.(?:{'|'.join(FILES)}))`\]?(?:\([^)]*\))?:$")


class PageError(Exception):
    """A page says something that does not hold."""


class Page:
    """A page, and the folder in which it is followed.

    Args:
        path: the page.
        root: the repository.
        folder: where files are written and commands run; it may have files that the page assumes.
        thorough: commands are run as they stand; otherwise some are made quicker, see ``commands``.

    Raises:
        PageError: a block has no language, or no reason why it is not run.
    """

    def __init__(self, path: Path, root: Path, folder: Path, *, thorough: bool = False) -> None:
        self.path = path
        self.title = str(path.relative_to(root)) if path.is_relative_to(root) else path.name
        self.root = root
        self.folder = folder
        self.shell = Shell(root, folder, processes=self.title not in ON_THREADS, thorough=thorough)
        self._written: list[str] = []
        self._texts: list[str] = []
        self._python = PythonEvaluator(["annotations"])
        self._evaluators: dict[str, Callable[[Example], None]] = {
            "brainscript": self._definitions,
            "cntk": self._recipe,
            "console": self._session,
            "mel": self._nameless,
            "ndl": self._nameless,
            "python": self._run_python,
            "sh": self._commands,
            "text": self._text,
        }
        self.document = Document.parse(str(path), self._blocks)
        # Classes with annotations look for their module.
        self.document.namespace["__name__"] = "builtins"

    def follow(self) -> int:
        """Do what the page says, and return how many blocks were run.

        Raises:
            Exception: whatever went wrong, with a note of the page and the line.
        """
        done = 0
        for example in self.document.examples():
            self._texts.append(str(example.parsed))
            try:
                example.evaluate()
            except Exception as error:
                error.add_note(f"{self.title}:{example.line}")
                raise
            done += 1
        self._check_files()
        return done

    def _check_files(self) -> None:
        """What a page writes is used by it, and what it uses of the demo it says to be that."""
        for name in self._written:
            if not any(re.search(rf"\b{re.escape(part)}\b", text) for text in self._texts for part in _words_for(name)):
                raise PageError(f"{self.title}: nothing on the page uses what it writes: {name}")
        used = {name for name in DEMO for text in self._texts if re.search(rf"\b{re.escape(name)}", text)}
        if used - set(self._written) and "cntk demo" not in self.document.text:
            raise PageError(f"{self.title}: nothing says that `cntk demo` makes {', '.join(sorted(used))}")

    def _blocks(self, document: Document) -> Iterator[Region]:
        """The blocks that are to be run, with the functions that do it."""
        doctests = {region.start: region for region in PythonCodeBlockParser()(document)}
        python = [(region.start, region.end) for region in doctests.values()]
        for region in FencedCodeBlockLexer(language=".*")(document):
            language = region.lexemes["language"]
            above = _line_above(document, region)
            where = f"{self.title}:{document.line_column(region.start)}"
            if language not in self._evaluators:
                raise PageError(
                    f"{where}: a block of the language '{language}'; there are {', '.join(self._evaluators)}"
                )
            reason = _NOT_RUN.fullmatch(above)
            if reason is not None:
                if reason[1] not in REASONS:
                    raise PageError(f"{where}: '{reason[1]}' is no reason; there are {', '.join(REASONS)}")
                continue
            if region.lexemes["source"].startswith(">>>"):
                inner = [place for place in python if region.start <= place[0] < region.end]
                yield from (doctests[start] for start, _ in inner)
                continue
            region.parsed = region.lexemes["source"]
            region.evaluator = self._evaluators[language]
            named = _NAMED.search(above)
            if named is not None:
                region.evaluator = self._write
                region.lexemes["name"] = named[1]
            yield region

    def _write(self, example: Example) -> None:
        """Write the file that the page names, or find its text in the repository."""
        name, text = example.region.lexemes["name"], str(example.parsed)
        original = (self.path.parent / name).resolve()
        if not original.is_relative_to(self.root):
            original = self.root / name
        if original.is_file():
            check_quotation(text, original)
            return
        target = self.shell.here / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        if target.suffix == ".py":
            compile(text, name, "exec")
        self._written += [name]

    def _recipe(self, example: Example) -> None:
        """Try a piece of a recipe. A whole one on the page of a wheel is run by the contract suite in its tests."""
        if is_whole(example.parsed):
            tests = self.path.with_name("tests").rglob("test_*.py")
            if not any("recipe = README" in file.read_text(encoding="utf-8") for file in tests):
                raise PageError("a whole recipe needs a name, and a command that runs it")
            return
        try_piece(example.parsed, example.line, self.shell.here)

    def _commands(self, example: Example) -> None:
        self.shell.run(example.parsed)

    def _session(self, example: Example) -> None:
        self.shell.session(example.parsed)

    def _definitions(self, example: Example) -> None:
        check_brainscript(example.parsed)

    def _run_python(self, example: Example) -> None:
        with contextlib.chdir(self.shell.here), _importable(self.shell.here):
            self._python(example)

    def _nameless(self, example: Example) -> None:
        raise PageError("such a text needs a name, and a command that uses it")

    def _text(self, example: Example) -> None:
        """Drawings, formulas, what a program says: nothing to run, and so nothing that looks like it."""
        for line in str(example.parsed).splitlines():
            if _TO_BE_RUN.match(line):
                raise PageError(f"a text has a command or a recipe, which has to be run: {line}")


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let a block import the modules that the page has written; they are gone afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]


def _words_for(name: str) -> tuple[str, ...]:
    """What speaks of a file: its name, or that of a module."""
    path = Path(name)
    return (path.name, path.stem) if path.suffix == ".py" else (path.name,)


def _line_above(document: Document, region: Region) -> str:
    lines = document.text[: region.start].rstrip().splitlines()
    return lines[-1] if lines else ""


def check_quotation(text: str, original: Path) -> None:
    """Compare a block with a file of the repository; ``...`` stands for lines that are left out.

    Raises:
        PageError: a line does not follow the one before it in the file.
    """
    lines = [line.split() for line in original.read_text(encoding="utf-8").splitlines() if line.strip()]
    place, skipping = 0, True
    for line in filter(str.strip, text.splitlines()):
        if line.strip() == "...":
            skipping = True
            continue
        found = [number for number in range(place, len(lines)) if lines[number] == line.split()]
        if not found or (not skipping and found[0] != place):
            raise PageError(f"{original.name} does not go on with: {line.strip()}")
        place, skipping = found[0] + 1, False
