"""Plugins that fail in the middle of a run, of every kind: what the command says."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest

from cntk_core.errors import BrokenPluginError
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.log import Log
from cntk_testing import VirtualRanks

HEAD = "from cntk_core.api import *\nimport numpy as np\n"
LEARNER = """
class Mine(Learner):
    def scalars(self, context): {scalars}
    def rule(self, m, value, gradient, slots, scalars): {rule}
"""
GOOD = {"scalars": "return {'rate': 0.1}", "rule": "return value - scalars['rate'] * gradient, {}"}


def learner(**bodies: str) -> str:
    return LEARNER.format(**{**GOOD, **bodies})


READER = """
class Mine(DataReader):
    @classmethod
    def configure(cls, block, what): return NoOptions()
    streams = (StreamInfo("features", (2,)), StreamInfo("labels", (2,)))
    def minibatches(self, epoch):
        {}
        yield
"""
ENGINE = """
class Mine(ExecutionEngine):
    def compile(self, plan, store, rule=None, *, seed=0):
        1 / 0
"""
BUILDER = """
class Mine(NetworkBuilder):
    def build(self, value, context):
        1 / 0
"""
WRITER = """
class Mine(DataWriter):
    @classmethod
    def configure(cls, block, what): return NoOptions()
    def write(self, outputs):
        1 / 0
    def close(self): pass
"""
AGGREGATION = """
class Mine(GradientAggregation):
    def aggregate(self, gradients, header, communicator):
        1 / 0
"""
OP = """
@elementwise_op("Mine", gradient=lambda m, a, g, y, x: {gradient})
def mine(m, a, x):
    {body}
"""
TWICE = """
@define_op("Twice", infer=lambda shapes, a: shapes[0], gradient=lambda xp, g, y, x, a, context, needs: [2 * g])
def twice(xp, inputs, attributes, context):
    {}
"""
SGD = "Train=[SGD=[gradUpdateType=Mine]]"
MEND = "\n    Mend the file. CNTK_TRACEBACK=1 shows how it was called.\n"


def failing(capsys: pytest.CaptureFixture[str], text: str, *arguments: str) -> str:
    """Run the recipe with a plugin file; return what is said at the end."""
    Path("p.py").write_text(HEAD + text, encoding="utf-8")
    assert main(["configFile=r.cntk", "--plugin", "p.py", *arguments]) == 1
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error.partition("EXCEPTION occurred: ")[2]


@pytest.mark.parametrize(
    ("text", "arguments", "first", "second"),
    [
        (
            READER.format("1 / 0"),
            ["Train=[reader=[readerType=Mine]]"],
            r"Mine\.minibatches of the plugin file 'p\.py' failed: ZeroDivisionError: division by zero",
            r"raised by .*/p\.py:9",
        ),
        (
            READER.format("np.loadtxt('nowhere.csv')"),
            ["Train=[reader=[readerType=Mine]]"],
            r"Mine\.minibatches of the plugin file 'p\.py' failed: FileNotFoundError: nowhere\.csv not found\.",
            r"raised by .*, called from .*/p\.py:9",
        ),
        (
            READER.format("raise SystemExit('enough')"),
            ["Train=[reader=[readerType=Mine]]"],
            r"Mine\.minibatches of the plugin file 'p\.py' failed: SystemExit: it ends the program with "
            r"sys\.exit\('enough'\)",
            r"raised by .*/p\.py:9",
        ),
        (
            ENGINE,
            ["engine=Mine"],
            r"Mine\.compile of the plugin file 'p\.py' failed: ZeroDivisionError: division by zero",
            r"raised by .*/p\.py:6",
        ),
        (
            WRITER,
            ["command=Train:Write", "Write=[writer=[writerType=Mine]]"],
            r"Mine\.write of the plugin file 'p\.py' failed: ZeroDivisionError: division by zero",
            r"raised by .*/p\.py:8",
        ),
        (
            learner(rule="return 1 / 0"),
            [SGD],
            r"Mine\.rule of the plugin file 'p\.py' failed: ZeroDivisionError: division by zero",
            r"raised by .*/p\.py:6",
        ),
        (
            learner(rule="pass"),
            [SGD],
            r"Mine\.rule of the plugin file 'p\.py' returned None, not the new value and a dict of the new slots",
            r"it is at .*/p\.py:6",
        ),
        (
            learner(rule="return value, {'speed': value}"),
            [SGD],
            r"Mine\.rule of the plugin file 'p\.py' returned a slot 'speed', which is none of the learner's slots",
            r"it is at .*/p\.py:6",
        ),
        (
            learner(scalars="pass"),
            [SGD],
            r"Mine\.scalars of the plugin file 'p\.py' returned None, not a dict of numbers",
            r"it is at .*/p\.py:5",
        ),
        (
            learner(scalars="return {'rate': None}"),
            [SGD],
            r"Mine\.scalars of the plugin file 'p\.py' returned {'rate': None}, not a dict of numbers",
            r"it is at .*/p\.py:5",
        ),
        (
            learner().replace("(self, context)", "(self)"),
            [SGD],
            r"Mine\.scalars of the plugin file 'p\.py' failed: TypeError: Mine\.scalars\(\) takes 1 positional .*",
            r"it is at .*/p\.py:5",
        ),
    ],
    ids=[
        *("reader", "library", "exit", "engine", "writer", "learner"),
        *("nothing returned", "no such slot", "no numbers", "no number", "missing argument"),
    ],
)
def test_it_is_named(recipe, capsys, text, arguments, first, second):
    said = failing(capsys, text, *arguments).splitlines()
    assert re.fullmatch(first, said[0])
    assert re.fullmatch(f"    {second}", said[1])
    assert "\n".join(["", *said]).endswith(MEND.rstrip("\n"))


def test_a_builder(recipe, capsys):
    text = recipe.read_text(encoding="utf-8").replace("NDLNetworkBuilder", "Mine")
    recipe.write_text(text, encoding="utf-8")
    said = failing(capsys, BUILDER)
    assert said.startswith("Mine.build of the plugin file 'p.py' failed: ZeroDivisionError: division by zero\n")
    assert said.endswith(MEND)


def test_what_gives_nothing(recipe, capsys):
    reader = "Train=[reader=[readerType=Mine]]"
    said = failing(capsys, READER.format("return None").replace("        yield\n", ""), reader).splitlines()
    assert said[0] == "Mine.minibatches of the plugin file 'p.py' returned None, not minibatches"
    text = recipe.read_text(encoding="utf-8")
    recipe.write_text(text.replace("NDLNetworkBuilder", "Mine"), encoding="utf-8")
    said = failing(capsys, BUILDER.replace("1 / 0", "pass")).splitlines()
    assert said[0] == "Mine.build of the plugin file 'p.py' returned None, not a network"
    recipe.write_text(text.replace("z = Times(W, features)", "z = Twice(Times(W, features))"), encoding="utf-8")
    for body, shown in (("pass", "None"), ("return np.ones((2, 3))", r"an array of \(2, 3\)")):
        said = failing(capsys, TWICE.format(body), "makeMode=false").splitlines()
        assert re.fullmatch(rf"twice of the plugin file 'p\.py' returned {shown}, not one of \(2, 2\)", said[0])
        assert said[1].endswith("p.py:4")


def test_a_verb_that_gives_something_else_than_a_status(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for answer, status in (("None", 0), ("3", 3), ("False", 0), ("'done'", 1)):
        text = f'class greet(Verb):\n    """Greet."""\n    def run(self, options): return {answer}\n'
        Path("p.py").write_text(HEAD + text, encoding="utf-8")
        assert main(["greet", "--plugin", "p.py"]) == status
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "error: greet.run of the plugin file 'p.py' returned 'done', not the exit status"
    assert said[1].endswith("p.py:5")


class TestOps:
    @pytest.fixture(autouse=True)
    def network(self, recipe):
        text = recipe.read_text(encoding="utf-8").replace("z = Times(W, features)", "z = Mine(Times(W, features))")
        recipe.write_text(text, encoding="utf-8")

    @pytest.mark.parametrize(
        ("body", "gradient", "advice"),
        [
            ("return x if x > 0 else 0 * x", "g", "Write m.where(m.greater(x, 0), a, b) in place of 'if x > 0: ...'."),
            ("return np.exp(x)", "g", "m.exp."),
            ("return x", "g if x > 0 else 0 * g", "Write m.where("),
        ],
    )
    def test_a_mistake_gets_a_sentence(self, capsys, body, gradient, advice):
        said = failing(capsys, OP.format(body=body, gradient=gradient))
        assert re.match(r"(mine|<lambda>) of the plugin file 'p\.py' failed: TypeError: ", said)
        assert "/p.py:" in said
        assert advice in said

    def test_nothing_returned(self, capsys):
        said = failing(capsys, OP.format(body="pass", gradient="g"))
        assert said.startswith("mine of the plugin file 'p.py' returned None, not an expression over m\n")

    def test_a_gradient_for_each_input(self, capsys):
        said = failing(capsys, OP.format(body="return x", gradient="(g, g)"))
        assert said.startswith(
            "mine of the plugin file 'p.py' has a gradient that returned 2 values, not one for each of 1 inputs\n"
        )


def test_an_aggregation_on_two_ranks(recipe, tmp_path):
    Path("p.py").write_text(HEAD + AGGREGATION, encoding="utf-8")
    parallel = "[parallelizationMethod=DataParallelSGD ; DataParallelSGD=[aggregation=Mine]]"

    def work(communicator):
        log = Log()
        try:
            with pytest.raises(BrokenPluginError) as caught:
                run_recipe(
                    ["configFile=r.cntk", f"Train=[SGD=[parallelTrain={parallel}]]"],
                    log,
                    plugin_files=["p.py"],
                    communicator=communicator,
                )
        finally:
            log.close()
        return str(caught.value)

    for said in VirtualRanks(2, deadline=60.0).run(work):
        assert said.startswith("Mine.aggregate of the plugin file 'p.py' failed: ZeroDivisionError: division by zero\n")


PARALLELIZER = """
class Mine(Parallelizer):
    reduces_gradients = True
    def begin(self, store, communicator): pass
    def train_epoch(self, epoch): return True
    def reduce(self, store, counts): 1 / 0
"""


def test_a_parallelizer_on_two_ranks(recipe):
    Path("p.py").write_text(HEAD + PARALLELIZER, encoding="utf-8")

    def work(communicator):
        arguments = ["configFile=r.cntk", "Train=[SGD=[parallelTrain=[parallelizationMethod=Mine]]]"]
        with closing(Log(quiet=True)) as log, pytest.raises(BrokenPluginError) as caught:
            run_recipe(arguments, log, plugin_files=["p.py"], communicator=communicator)
        return str(caught.value)

    for said in VirtualRanks(2, deadline=60.0).run(work):
        assert said.startswith("Mine.reduce of the plugin file 'p.py' failed: ZeroDivisionError: division by zero\n")


def test_the_traceback_is_there_for_who_wants_it(recipe, monkeypatch):
    Path("p.py").write_text(HEAD + learner(rule="return 1 / 0"), encoding="utf-8")
    monkeypatch.setenv("CNTK_TRACEBACK", "1")
    with pytest.raises(BrokenPluginError) as caught:
        main(["configFile=r.cntk", "--plugin", "p.py", SGD])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
