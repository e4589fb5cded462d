"""The languages: mutated texts of a corpus. Each gives a tree or one of our errors; nobody else judges them here."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import attrs

from cntk_core.api import BuildContext, CntkError, Config, Location, Network, core_ops, raise_problems
from cntk_core.api.builders import SourceText, complete_network, copy_nodes, parse_text
from cntk_core.config.source import strip_comments
from fuzzing.engine import Fuzzer

CORPUS = Path(__file__).resolve().parents[2] / "tests" / "fuzz" / "corpus"
MAX_LENGTH = 20_000

Check = Callable[[str], None]
"""Reads a text as far as the language goes. Raises CntkError for what is wrong with the text."""


def brainscript() -> Check:
    """Lex, parse and evaluate every member, with a budget of steps."""
    from cntk_builder_brainscript.evaluate import Evaluator
    from cntk_builder_brainscript.parser import parse
    from cntk_builder_brainscript.values import Array, Record

    library = parse(SourceText.of(_BRAINSCRIPT_LIBRARY, "<library>/fuzz.bs"))

    def check(text: str) -> None:
        tree = parse(SourceText.of(text))
        machine = Evaluator(_Nodes(), max_steps=5_000)
        record = machine.record(tree, machine.record(library))

        def visit(name: str) -> None:
            value = record.get(name)
            if isinstance(value, Array):
                value.values()
            elif isinstance(value, Record):
                for inner in value.names():
                    value.own(inner)

        problem: CntkError | None = None
        for name in record.names():
            try:
                machine.run(lambda name=name: visit(name))  # type: ignore[misc] # bound now, not later
            except CntkError as error:
                str(error)
                problem = error
        if problem is not None:
            raise problem

    return check


_BRAINSCRIPT_LIBRARY = """
Op (x, tag='') = new Node [ kind = 'Op' ; inputs = x ]
Two (left, right) = new Node [ kind = 'Two' ; inputs = left : right ]
Criterion (a, b) = Two (a, b)
Sigmoid (x) = Op (x)
Parameter {size, init = '', scale = 1} = new Node [ kind = 'Parameter' ; inputs = [| |] ; dims = size ]
Input {size, tag = ''} = new Node [ kind = 'Input' ; inputs = [| |] ; dims = size ]
Delay (x) = new Node [ kind = 'Delay' ; inputs = x ]
Length (x) = new NumericFunction [ what = 'Length' ; arg = x ]
"""


@attrs.frozen(eq=False)
class _Node:
    name: str


class _Nodes:
    """A network side of BrainScript that reads arguments and keeps nothing."""

    kinds = ("Node",)

    def names_from_root(self, kind: str) -> bool:
        return True

    def make(self, kind: str, arguments: object, path: str, where: object) -> object:
        from cntk_builder_brainscript.values import Record

        assert isinstance(arguments, Record)
        if arguments.text("kind") != "Delay":
            arguments.flat("inputs")
        return _Node(path)

    def definition(self, name: str) -> None:
        return None

    def further_names(self) -> tuple[str, ...]:
        return ()

    def is_node(self, value: object) -> bool:
        return isinstance(value, _Node)

    def operate(self, operator: str, operands: object, path: str, where: object) -> object:
        return _Node(path)

    def member(self, value: object, name: str) -> object:
        return value.name if isinstance(value, _Node) and name == "name" else None

    def members(self, value: object) -> tuple[str, ...]:
        return ("name",)

    def describe(self, value: object) -> str:
        return "a node"

    def say(self, text: str) -> None:
        assert isinstance(text, str)


def mel() -> Check:
    """Parse a script and run it on copies of a small model; what it saves and dumps goes nowhere."""
    from cntk_builder_ndl.mel import Script, parse
    from cntk_builder_ndl.statements import Statements

    table = core_ops()
    context = BuildContext(find_op=table.find, op_names=lambda language: tuple(table.names(language)))
    model = Network(context.dtype)
    Statements(model, context).add(SourceText.of(_MEL_MODEL))
    complete_network(model)

    def load(path: str, where: Location | None = None) -> Network:
        copy = Network(model.dtype)
        copy_nodes([(node, node.name) for node in model], copy)
        for role, nodes in model.roots.items():
            for node in nodes:
                copy.mark(copy[node.name], role)
        return copy

    files = attrs.evolve(
        context, load_model=load, save_model=lambda network, path, where: None, trace=lambda line: None
    )

    def check(text: str) -> None:
        steps, problems = parse(strip_comments(text))
        script = Script(files, dump=lambda nodes, path, *, values: None)
        try:
            script.run(steps)  # what can be read is run all the same
        finally:
            raise_problems(problems)

    return check


def ndl() -> Check:
    """Read the sections, expand macros, make the nodes and infer their shapes."""
    from cntk_builder_ndl import Statements
    from cntk_builder_ndl.files import sections_of

    table = core_ops()
    names = tuple(table.names("ndl"))
    context = BuildContext(find_op=table.find, op_names=lambda language: names, trace=lambda line: None)

    def check(text: str) -> None:
        network = Network()
        Statements(network, context).add(*sections_of(SourceText.of(text), None))
        network.infer()

    return check


_MEL_MODEL = """
BFF(a, rows, cols) { W=Parameter(rows, cols) ; B=Parameter(rows, 1) ; T=Times(W, a) ; P=Plus(T, B) }
Layer(a, rows, cols) { FF=BFF(a, rows, cols) ; S=Sigmoid(FF) }
features=Input(4, tag=feature)
labels=Input(3, tag=label)
L1=Layer(features, 5, 4)
OL=BFF(L1, 3, 5)
ce=CrossEntropyWithSoftmax(labels, OL.P, tag=criterion)
err=ClassificationError(labels, OL.P, tag=eval)
OutputNodes=(OL.P)
"""


def config() -> Check:
    """Read a recipe, every value of it, and the networks of its SimpleNetworkBuilder sections."""
    from cntk_builder_simple import SimpleNetworkBuilder

    table = core_ops()
    names = tuple(table.names(""))
    context = BuildContext(find_op=table.find, op_names=lambda language: names, trace=lambda line: None)

    def visit(section: Config, problems: list[CntkError]) -> None:
        for key in section.keys():  # noqa: SIM118 # a section is no mapping
            value = section.own(key)
            assert value is not None
            for read in (value.string, value.array, value.real, value.boolean):
                with suppress(CntkError):
                    read()
            try:
                if key.lower() == "simplenetworkbuilder":
                    SimpleNetworkBuilder().build(value, context).infer()
                elif value.is_block:
                    visit(value.config(), problems)
            except CntkError as error:
                problems.append(error)

    def check(text: str) -> None:
        recipe = parse_text(text)
        recipe.dump(resolved=False)
        problems: list[CntkError] = []
        visit(recipe, problems)
        raise_problems(problems)

    return check


LANGUAGES: dict[str, Callable[[], Check]] = {
    "brainscript": brainscript,
    "config": config,
    "mel": mel,
    "ndl": ndl,
}
"""Language, which is also the folder of its corpus, to the function that makes its check."""


_PIECE = re.compile(r"[A-Za-z_]\w*|\d+\.?\d*|'[^'\n]*'|\"[^\"\n]*\"|\s+|.", re.DOTALL)
_EXTRA = [
    "\x00", "\t", "\r\n", "\u00e9", "\ufeff", "\u2028", "\U0001f600", "$v$", "'", '"', "/*", "*/", "#", "//", "\\",
    "-1", "0", "1e999", "99999999999999999999", "nan", "0.5", "..", "[|", "|]", "=", ";", ",", ":", "\n",
]  # fmt: skip
_BRACKETS = ["(", ")", "[", "]", "{", "}"]


class Mutator:
    """Makes texts from a corpus; the text of a number is always the same."""

    def __init__(self, texts: list[str], seed: int) -> None:
        self._texts = [_PIECE.findall(text) for text in texts]
        self._words = [
            *{piece for pieces in self._texts for piece in pieces if not piece.isspace()},
            *_EXTRA,
            *_BRACKETS,
        ]
        self._words.sort()
        self._seed = seed

    def text(self, number: int) -> str:
        """Return an input."""
        pick = random.Random(self._seed * 1_000_003 + number)
        if pick.random() < 0.02:
            return "".join(pick.choice(self._words) for _ in range(pick.randrange(60)))
        pieces = list(pick.choice(self._texts))
        for _ in range(pick.choice((1, 1, 2, 3, 5, 10))):
            self._mutate(pieces, pick)
        return "".join(pieces)[:MAX_LENGTH]

    def _mutate(self, pieces: list[str], pick: random.Random) -> None:
        at = pick.randrange(len(pieces) + 1)
        end = min(at + pick.choice((1, 1, 2, 5, 20)), len(pieces))
        match pick.randrange(8):
            case 0:
                del pieces[at:end]
            case 1:
                pieces[at:at] = [pick.choice(self._words)]
            case 2:
                pieces[at:end] = [pick.choice(self._words)]
            case 3:
                pieces[at:at] = pieces[at:end] * pick.choice((1, 2, 3, 100))
            case 4:
                other = pick.choice(self._texts)
                start = pick.randrange(len(other))
                pieces[at:at] = other[start : start + pick.choice((3, 10, 50))]
            case 5:
                pieces[at:at] = [pick.choice(_BRACKETS)] * pick.choice((1, 1, 2, 200, 3000))
            case 6:
                target = pick.randrange(len(pieces) + 1)
                moved = pieces[at:end]
                del pieces[at:end]
                pieces[target:target] = moved
            case _:
                piece = pieces[at] if at < len(pieces) else ""
                spot = pick.randrange(len(piece) + 1)
                pieces[at : at + 1] = [
                    piece[:spot] + chr(pick.choice((33, 34, 39, 64, 91, 124, 160, 955))) + piece[spot:]
                ]


def corpus(language: str) -> list[str]:
    """Return the texts of a language's corpus, in the order of their names."""
    files = sorted(path for path in (CORPUS / language).iterdir() if path.is_file())
    return [path.read_text(encoding="utf-8") for path in files]


def fuzzer(language: str) -> Fuzzer:
    """Return the fuzzer of a language."""
    check = LANGUAGES[language]()
    mutator = Mutator(corpus(language), seed=1)

    def decoded(data: bytes) -> None:
        check(data.decode("utf-8", "replace"))

    return Fuzzer(language, lambda pick: mutator.text(pick.getrandbits(48)).encode("utf-8", "replace"), decoded)
