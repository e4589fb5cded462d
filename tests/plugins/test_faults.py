"""Whose fault an error is, and what is said of it."""

from __future__ import annotations

import importlib
import re
import sys
from textwrap import dedent

import numpy as np
import pytest

from cntk_core.contract.learner import Learner, UpdateContext
from cntk_core.errors import BrokenPluginError, CntkError, WrongResult
from cntk_core.ops.language.expression import ArrayMath, TraceMath, symbol
from cntk_core.plugins.advice import Place, advice_for
from cntk_core.plugins.faults import fault_error, fault_of, plugins_named, took_part
from cntk_core.plugins.files import load_file
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.registering import register, unregister
from cntk_kit_recipes.recipe.error_report import text_of

REPORT = (
    "    Report it to those who made cntk-learner-lion, or leave it out: --no-plugin cntk-learner-lion. "
    "CNTK_TRACEBACK=1 shows how it was called."
)
OWN = "from cntk_core.api import *\n@elementwise_op('Swish')\ndef swish(m, a, x): return x\ndef own(x): pass\n"
MEND = "    Mend the file. CNTK_TRACEBACK=1 shows how it was called."


def error_of(call, *arguments, **named) -> BaseException:
    with pytest.raises(BaseException) as caught:
        call(*arguments, **named)
    return caught.value


@pytest.fixture(autouse=True)
def _forget_files(tmp_path):
    """The plugin files of a test are not those of the next: who was called with too few arguments is found by name."""
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def lion(install):
    """A learner of a stranger's wheel; ``fails`` is the body of its rule."""

    def make(body: str, scalars: str = "self, context"):
        text = f"""
            import math
            import numpy as np
            from cntk_core.api import Learner

            class Lion(Learner):
                requires_api = "1.0"
                def scalars({scalars}): return {{"rate": 1.0}}
                def rule(self, m, value, gradient, slots, scalars):
                    {body}
        """
        install("cntk-learner-lion", {"cntk.learners": {"lion": "cntk_learner_lion:Lion"}}, text)
        return PluginManager().registry.learners.get("lion")()

    return make


@pytest.fixture
def op(tmp_path):
    """An element-wise op of a plugin file, with this body and gradient."""

    def make(body: str, gradient: str = "g"):
        file = tmp_path / "swish.py"
        text = f"""
            import math
            import numpy as np
            from cntk_core.api import elementwise_op

            @elementwise_op("Swish", gradient=lambda m, a, g, y, x: {gradient})
            def swish(m, a, x):
                {body}
        """
        file.write_text(dedent(text), encoding="utf-8")
        found = PluginManager([str(file)], discover=False).registry.ops.find("ndl", "Swish")
        return lambda m, x: found.elementwise.forward(m, None, x)

    return make


class TestWhose:
    def test_a_wheel_with_version_line_and_remedy(self, lion):
        learner = lion("return 1 / 0")
        error = error_of(learner.rule, None, 1.0, 1.0, {}, {})
        assert text_of(error) == (
            "Lion.rule of cntk-learner-lion 0.1.0 failed: ZeroDivisionError: division by zero\n"
            f"    raised by site/cntk_learner_lion.py:10\n{REPORT}"
        )

    def test_the_line_of_the_plugin_where_a_library_raised_it(self, lion):
        learner = lion("return np.linalg.inv(np.zeros((2, 2)))")
        lines = text_of(error_of(learner.rule, None, 1.0, 1.0, {}, {})).splitlines()
        assert lines[0] == "Lion.rule of cntk-learner-lion 0.1.0 failed: LinAlgError: Singular matrix"
        assert lines[1].startswith("    raised by linalg/")
        assert lines[1].endswith(", called from site/cntk_learner_lion.py:10")

    def test_the_cause_of_another_error(self, lion):
        learner = lion("return 1 / 0")

        def compiled():
            try:
                learner.rule(None, 1.0, 1.0, {}, {})
            except ZeroDivisionError as error:
                raise RuntimeError("the engine cannot compile this") from error

        assert text_of(error_of(compiled)).startswith(
            "Lion.rule of cntk-learner-lion 0.1.0 failed: ZeroDivisionError: division by zero\n"
        )

    def test_ours_is_a_defect_of_the_program(self, install):
        install("cntk-learner-sgd", {"cntk.learners": {"sgd": "cntk_learner_ours:fails"}}, "")
        install("cntk-learner-ours", {}, "def fails(): 1 / 0\n")
        fails = importlib.import_module("cntk_learner_ours").fails
        error = error_of(fails)
        assert fault_of(error) is None
        assert text_of(error).startswith("this is a defect of the program: ZeroDivisionError: division by zero\n")

    def test_our_own_errors_say_it_themselves(self):
        assert text_of(CntkError("enough")) == "enough"

    def test_what_a_program_has_registered(self):
        class Mine(Learner):
            def scalars(self, context):
                return helps()

            def rule(self, m, value, gradient, slots, scalars):
                return value, {}

        def helps():
            raise KeyError("lost")

        register(Mine)
        try:
            text = text_of(error_of(lambda: Mine().scalars(None)))
            assert text_of(error_of(helps)).startswith("this is a defect of the program: ")
        finally:
            unregister(Mine)
        first, second, third = text.splitlines()
        assert first.endswith("Mine.scalars of this program failed: KeyError: 'lost'")
        assert re.fullmatch(
            r"    raised by plugins/test_faults\.py:\d+, called from plugins/test_faults\.py:\d+", second
        )
        assert third == "    Mend the program. CNTK_TRACEBACK=1 shows how it was called."

    def test_leaving_is_nobodys_fault(self, lion):
        learner = lion("raise KeyboardInterrupt")
        with pytest.raises(KeyboardInterrupt), plugins_named():
            learner.rule(None, 1.0, 1.0, {}, {})

    def test_ending_the_program_is(self, lion):
        learner = lion("raise SystemExit(3)")
        with pytest.raises(BrokenPluginError) as caught, plugins_named():
            learner.rule(None, 1.0, 1.0, {}, {})
        assert caught.value.message == (
            "Lion.rule of cntk-learner-lion 0.1.0 failed: SystemExit: it ends the program with sys.exit(3)"
        )
        assert isinstance(caught.value.__cause__, SystemExit)

    def test_others_pass(self):
        with pytest.raises(ZeroDivisionError), plugins_named():
            raise ZeroDivisionError

    def test_who_took_part(self, lion):
        lion("return value, {}")
        assert "cntk-learner-lion 0.1.0" in took_part()
        assert (
            text_of(ZeroDivisionError("x"))
            .splitlines()[2]
            .startswith("    It may also come from cntk-learner-lion 0.1.0")
        )


class TestArguments:
    def test_a_method_that_takes_too_few(self, lion):
        learner = lion("return value, {}", scalars="self")
        error = error_of(lambda: learner.scalars(UpdateContext(1, 1.0, 0.0)))
        assert text_of(error) == (
            "Lion.scalars of cntk-learner-lion 0.1.0 failed: "
            "TypeError: Lion.scalars() takes 1 positional argument but 2 were given\n"
            "    it is at site/cntk_learner_lion.py:8\n"
            f"    It is called as scalars(self, context).\n{REPORT}"
        )

    def test_a_function_of_a_file(self, tmp_path):
        file = tmp_path / "two.py"
        file.write_text(OWN, encoding="utf-8")
        assert text_of(error_of(TestFirstMistakes.own(file))) == (
            f"own of the plugin file '{file}' failed: TypeError: own() missing 1 required positional argument: 'x'\n"
            f"    it is at {tmp_path.name}/two.py:4\n{MEND}"
        )

    def test_the_one_of_several_files_that_was_called(self, tmp_path):
        """The message of Python has the name alone, and both have a function and a class of this name."""
        both = OWN.replace("'Swish'", "'Swish{}'") + "class Rule:\n    def scalars(self): pass\n"
        for number in (1, 2):
            (tmp_path / f"file{number}.py").write_text(both.format(number), encoding="utf-8")
        functions = [TestFirstMistakes.own(tmp_path / f"file{number}.py") for number in (1, 2)]
        for number, function in enumerate(functions, 1):
            assert fault_of(error_of(function)).source.name == str(tmp_path / f"file{number}.py")
            rule = function.__globals__["Rule"]()
            assert fault_of(error_of(lambda rule=rule: rule.scalars(1))).source.name.endswith(f"file{number}.py")
            assert fault_of(error_of(rule.scalars, 1)).source.name.endswith(f"file{number}.py")
        # Nobody is blamed where it cannot be told: here the function is in a list.
        assert fault_of(error_of(lambda: functions[0]())) is None

    def test_a_call_that_is_wrong_in_the_plugin_itself_is_at_its_line(self, lion):
        learner = lion("return (lambda x: x)()")
        text = text_of(error_of(learner.rule, None, 1.0, 1.0, {}, {}))
        assert "\n    raised by site/cntk_learner_lion.py:10\n" in text


TRACE, ARRAYS = TraceMath(), ArrayMath(np)
X = np.array([1.0, -1.0])
CHOICE = (
    "    It runs on whole arrays, and on a trace of it: there is no single number to compare.\n"
    "    Write m.where(m.greater(x, 0), a, b) in place of 'if x > 0: ...'.\n"
)
LOOP = (
    "    It is written for one element and applied to all frames at once: leave the loop and the index out.\n"
    "    An op that needs whole sequences or arrays is made with @define_op.\n"
)
LIBRARY = (
    "    It runs on arrays of any library, and on a trace of it: "
    "use the functions of m in place of those of NumPy or math"
)


class TestFirstMistakes:
    """What every author of an op or a rule writes once, traced by an engine or run on arrays."""

    @pytest.mark.parametrize(
        ("body", "m", "x", "advice"),
        [
            ("return x if x > 0 else 0 * x", TRACE, symbol("x"), CHOICE),
            ("return x if x > 0 else 0 * x", ARRAYS, X, CHOICE),
            ("return max(x, 0)", TRACE, symbol("x"), CHOICE),
            ("return max(x, 0)", ARRAYS, X, CHOICE),
            ("return sum(one for one in x)", TRACE, symbol("x"), LOOP),
            ("return x[0]", TRACE, symbol("x"), LOOP),
            ("return [x[i] for i in range(len(x))]", TRACE, symbol("x"), LOOP),
            ("return np.exp(x)", TRACE, symbol("x"), f"{LIBRARY}: m.exp.\n"),
            ("return np.maximum(x, 0)", TRACE, symbol("x"), f"{LIBRARY}: m.maximum.\n"),
            ("return math.exp(x)", TRACE, symbol("x"), f"{LIBRARY}: m.exp.\n"),
            ("return math.exp(x)", ARRAYS, X, f"{LIBRARY}: m.exp.\n"),
            ("return np.linalg.norm(x)", TRACE, symbol("x"), f"{LIBRARY}; it has exp, log,"),
            (
                "return m.sigmiod(x)",
                TRACE,
                symbol("x"),
                "    m has no 'sigmiod'; did you mean 'sigmoid'?; it has exp, log,",
            ),
            ("return m.relu(x)", ARRAYS, X, "    m has no 'relu'"),
        ],
    )
    def test_a_sentence_that_helps(self, op, body, m, x, advice):
        text = text_of(error_of(op(body), m, x))
        assert text.startswith("swish of the plugin file '")
        assert advice in text
        assert "/swish.py:8" in text
        assert text.endswith(MEND)

    def test_in_a_learners_rule(self, lion):
        learner = lion("return value - (gradient if gradient > 0 else 0), {}")
        text = text_of(error_of(learner.rule, TRACE, symbol("v"), symbol("g"), {}, {}))
        assert CHOICE in text
        assert text.endswith(REPORT)

    def test_nothing_is_said_where_nothing_is_known(self, op):
        text = text_of(error_of(op("return {}['key']"), TRACE, symbol("x")))
        assert len(text.splitlines()) == 3

    def test_a_function_that_has_no_m_gets_no_advice_about_it(self, tmp_path):
        file = tmp_path / "loads.py"
        file.write_text(OWN.replace("pass", "return 1 if x > 0 else 2"), encoding="utf-8")
        assert text_of(error_of(self.own(file), X)).splitlines()[1:] == [
            f"    raised by {tmp_path.name}/loads.py:4",
            MEND,
        ]

    @staticmethod
    def own(file):
        PluginManager([str(file)], discover=False)
        return next(module for name, module in sys.modules.items() if name.endswith(f"_{file.stem}")).own


class TestResults:
    def test_of_a_plugin(self, lion):
        learner = lion("return value, {}")
        assert text_of(WrongResult(learner.rule, "returned None, not two things")) == (
            "Lion.rule of cntk-learner-lion 0.1.0 returned None, not two things\n"
            f"    it is at site/cntk_learner_lion.py:9\n{REPORT}"
        )

    def test_of_ours(self):
        error = WrongResult(text_of, "returned None")
        assert str(error) == "text_of returned None"
        assert fault_error(error) is None
        assert text_of(error).startswith("this is a defect of the program: WrongResult: text_of returned None\n")


class TestAdvice:
    """How a method ought to look is said of methods of the core's interfaces, and of no other function."""

    @pytest.mark.parametrize(
        ("base", "said"), [("Learner", ["It is called as scalars(self, context)."]), ("object", []), ("dict", [])]
    )
    def test_methods(self, tmp_path, base, said):
        module = self.module(tmp_path, f"class Mine({base}):\n    def scalars(self): return {{}}\n")
        assert advice_for(TypeError(), Place("x.py:1", "Mine.scalars", called=module.Mine.scalars)) == said

    def test_a_function_of_the_same_name(self, tmp_path):
        module = self.module(tmp_path, "def scalars(): return {}\n")
        assert advice_for(TypeError(), Place("x.py:1", "scalars", called=module.scalars)) == []

    def test_a_plugin_of_several_files_of_which_one_has_the_function(self, tmp_path):
        self.module(tmp_path, "x = 1\n", "without.py")
        module = self.module(tmp_path, "class Mine(Learner):\n    def scalars(self): return {}\n")
        fault = fault_of(error_of(lambda: module.Mine.scalars(None, None)))
        assert (fault.source.name, fault.place.function) == (str(tmp_path / "mine.py"), "Mine.scalars")

    @staticmethod
    def module(folder, text, name="mine.py"):
        (folder / name).write_text("from cntk_core.api import *\n" + text, encoding="utf-8")
        return load_file(str(folder / name))
