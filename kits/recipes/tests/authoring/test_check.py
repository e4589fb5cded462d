"""``cntk plugins check``: which plugin is meant, and what is said about it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cntk_core.errors import CntkError
from cntk_core.plugins.manager import PluginManager
from cntk_kit_recipes.authoring.check import KIND_WORDS, check_plugin, contract_module, find_offers


@pytest.fixture
def wheels(install):
    install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:Reader"}})
    install("cntk-both", {"cntk.readers": {"far": "cntk_both:Reader"}, "cntk.engines": {"far": "cntk_both:Away"}})
    install("cntk-engine-near", {"cntk.engines": {"near": "cntk_engine_near:Engine"}})


@pytest.mark.parametrize(
    ("name", "titles"),
    [
        ("wav", ["reader 'wav'"]),
        ("reader:wav", ["reader 'wav'"]),
        ("cntk-reader-wav:WAV", ["reader 'wav'"]),
        ("cntk_both", ["engine 'far'", "reader 'far'"]),
        ("far", ["engine 'far'", "reader 'far'"]),
        ("engine:far", ["engine 'far'"]),
    ],
)
def test_what_is_meant(wheels, name, titles):
    assert [offer.title.partition(" from")[0] for offer in find_offers(PluginManager(), name)] == titles


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wave", "no plugin named 'wave' is installed; did you mean 'wav'?\n    cntk plugins lists what there is."),
        (
            "reader:MNISTReader",
            "no reader named 'MNISTReader'. It lives in cntk-reader-mnist:\n    pip install cntk-reader-mnist\n"
            "    installed readers: far (cntk-both 0.1.0), wav (cntk-reader-wav 0.1.0)",
        ),
        (
            "engine:far",
            "engine 'far' from cntk-both 0.1.0 is installed but cannot run here: no device\n    Use engine = \"cpu\".",
        ),
    ],
)
def test_what_cannot_be_checked(wheels, name, message):
    with pytest.raises(CntkError) as caught:
        check_plugin(name)
    assert str(caught.value) == message


def test_an_unknown_kind(wheels):
    with pytest.raises(CntkError) as caught:
        check_plugin("wav", kind="raeder")
    assert str(caught.value) == (
        f"there is no kind of plugin 'raeder'; did you mean 'reader'?\n    Kinds: {', '.join(KIND_WORDS)}"
    )


def test_the_test_module_names_the_contract(wheels):
    (offer,) = find_offers(PluginManager(), "near")
    text = contract_module(offer)
    assert "class TestContract(testing.EngineContract):\n    engine_class = PLUGIN\n" in text
    assert "distribution = 'cntk-engine-near'\n    kind = 'engine'\n    module = 'cntk_engine_near'\n" in text


def test_the_test_module_of_ops_has_a_contract_for_each(install):
    install("cntk-ops-soft", {"cntk.ops": {"soft": "cntk_ops_soft:OPS"}})
    (offer,) = find_offers(PluginManager(), "soft")
    one, two = SimpleNamespace(name="One", arity=(1, 1)), SimpleNamespace(name="Two", arity=(2, None))
    text = contract_module(offer)
    assert "class TestContract" not in text
    names = {
        "PLUGIN": [one, two],
        "Op": type(None),
        "ops_of": lambda found: found,
        "testing": SimpleNamespace(OpExample=lambda shapes: shapes, OpContract=object),
    }
    exec(text[text.index("ops = ") :], names)
    assert names["Test0"].op is one
    assert names["Test0"].examples == (((4,),),)
    assert names["Test1"].op is two
    assert names["Test1"].examples == (((4,), (4,)),)


def test_a_plugin_file(site, tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(
        "from cntk_core.api import *\nclass Mine(DataReader):\n    streams = ()\n    def minibatches(self, e): ...\n",
        encoding="utf-8",
    )
    assert check_plugin("Mine", plugin_files=[str(file)]) == 0
    assert capsys.readouterr().out.endswith(
        f"reader 'Mine' from {file} passes the tests of its class; its ReaderContract was not run: "
        "write test_mine.py beside it, with a class of ReaderContract (docs/testing-plugins.md)\n"
    )


MINE = """
from cntk_core.api import *
class Even(EpochSchedule):
    requires_api = '1.0'
    def value(self, epoch, epochs): return 2.0
class Odd(EpochSchedule):
    requires_api = '1.0'
    def value(self, epoch, epochs): return float(epoch)
class Alone(EpochSchedule):
    requires_api = '1.0'
    def value(self, epoch, epochs): return 3.0
"""
TEST = """
from cntk_testing import ScheduleContract
from mine import Even, Odd
class TestEven(ScheduleContract):
    schedule_class, expected = Even, (2.0, 2.0)
class TestOdd(ScheduleContract):
    schedule_class, expected = Odd, (1.0, 2.0)
def test_that_is_not_asked_for(): raise AssertionError
"""


@pytest.mark.slow  # it runs pytest in a process of its own
@pytest.mark.parametrize(
    ("name", "code", "outcome"),
    [
        pytest.param(
            "Even",
            0,
            "keeps its contract (its class and ScheduleContract of its own tests)",
            marks=pytest.mark.thorough,  # docs/plugins.md has a learner checked that does
        ),
        ("Odd", 1, "does not keep its contract (its class and ScheduleContract of its own tests)"),
        pytest.param(
            "Alone",
            0,
            "passes the tests of its class; its ScheduleContract was not run: no class of {} gives it this plugin: "
            "write test_mine.py beside it, with a class of ScheduleContract (docs/testing-plugins.md)",
            marks=pytest.mark.thorough,  # without any tests it says nearly the same, above
        ),
    ],
)
def test_the_classes_of_its_own_tests_that_are_about_it(site, tmp_path, capsys, monkeypatch, name, code, outcome):
    file, tests = tmp_path / "mine.py", tmp_path / "test_mine.py"
    file.write_text(MINE, encoding="utf-8")
    tests.write_text(TEST, encoding="utf-8")
    assert check_plugin(name, plugin_files=[str(file)]) == code
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"schedule '{name}' from {file} {outcome.format(tests)}"


RULES = """
from cntk_core.api import *

class Good(Learner):
    def scalars(self, context): return {"rate": context.learning_rate}
    def rule(self, m, value, gradient, slots, scalars): return value - scalars["rate"] * gradient, {}

class Alone(Learner):
    def scalars(self, context): return {"rate": context.learning_rate}
    def rule(self, m, value, gradient, slots, scalars): return value - gradient.mean(), {}

@elementwise_op("Half", gradient=lambda m, a, g, y, x: 0.5 * g)
def half(m, a, x): return 0.5 * x

@elementwise_op("Wrong", gradient=lambda m, a, g, y, x: g)
def wrong(m, a, x): return 0.5 * x
"""


@pytest.mark.slow  # each runs pytest in a process of its own
@pytest.mark.parametrize(
    ("name", "code", "outcome"),
    [
        pytest.param(
            "Good",
            0,
            "learner 'Good' from {} keeps its contract (its class and LearnerContract)",
            marks=pytest.mark.thorough,  # docs/plugins.md has a learner checked
        ),
        pytest.param(
            "Alone",
            1,
            "learner 'Alone' from {} does not keep its contract (its class and LearnerContract)",
            marks=pytest.mark.thorough,
        ),
        pytest.param("Half", 0, "ops 'Half' from {} keeps its contract (OpContract)", marks=pytest.mark.thorough),
        ("op:Wrong", 1, "ops 'Wrong' from {} does not keep its contract (OpContract)"),
    ],
)
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.thinned(2)
def test_plugins_of_a_file_are_tested(site, tmp_path, capsys, name, code, outcome, last):
    from cntk_kit_recipes.cli import main

    file = tmp_path / "rules.py"
    file.write_text(RULES, encoding="utf-8")
    option = ["--plugin", str(file)]
    words = ["plugins", "check", name, *option] if last else ["plugins", *option, "check", name]
    assert main(words) == code
    assert capsys.readouterr().out.splitlines()[-1] == outcome.format(file)
