"""Wrappers of hooks, of both styles, around implementations that fail, and in which order they all come."""

from __future__ import annotations

import warnings

import numpy as np
import pluggy
import pytest

from cntk_core.contract.events import EpochSummary, Job
from cntk_core.errors import BrokenPluginError, CntkError
from cntk_core.plugins.answers import rate
from cntk_core.plugins.listening import gathered, passed_on
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.markers import RetiredHookWarning, hookimpl, hookspec, retired
from cntk_core.plugins.wrapping import Wrapper, around

TOLD = {"job": Job("Train", "train"), "summary": EpochSummary(0, 10, 1, {"ce": 1.0})}

FAILING = """
    from cntk_core.api import hookimpl

    @hookimpl
    def cntk_epoch_end(summary):
        1 / 0
"""
GOOD = """
    from cntk_core.api import hookimpl
    seen = []

    @hookimpl
    def cntk_epoch_end(summary):
        seen.append(summary)
"""
NEW = """
    from cntk_core.api import hookimpl
    seen = []

    @hookimpl(wrapper=True)
    def cntk_epoch_end(summary):
        seen.append("before")
        result = yield
        seen.append(result)
        return result
"""
OLD = """
    from cntk_core.api import hookimpl
    seen = []

    @hookimpl(hookwrapper=True)
    def cntk_epoch_end(job, summary):
        seen.append("before")
        outcome = yield
        seen.append(outcome.get_result())
"""


def call(manager: PluginManager, hook: str = "cntk_epoch_end") -> list[object]:
    return [listener(**TOLD) for listener in manager.listeners(hook)]


@pytest.mark.parametrize("wrapper", [NEW, OLD], ids=["new style", "old style"])
class TestAroundOneThatFails:
    @pytest.fixture
    def wheels(self, install, wrapper):
        install("cntk-hook-aaa", {"cntk.hooks": {"a": "cntk_hook_aaa"}}, FAILING)
        install("cntk-hook-bbb", {"cntk.hooks": {"b": "cntk_hook_bbb"}}, GOOD)
        install("cntk-hook-www", {"cntk.hooks": {"w": "cntk_hook_www"}}, wrapper)

    def test_it_is_reported_once_and_the_others_go_on(self, wheels):
        told: list[str] = []
        manager = PluginManager(report=told.append)
        for _ in range(2):
            call(manager)
        assert told == [
            "hook cntk_epoch_end of cntk-hook-aaa 0.1.0 failed: ZeroDivisionError: division by zero\n"
            "    raised by site/cntk_hook_aaa.py:6\n    It is not called again in this run."
        ]
        import cntk_hook_bbb
        import cntk_hook_www

        assert cntk_hook_bbb.seen == [TOLD["summary"]] * 2
        assert cntk_hook_www.seen == ["before", []] * 2


BEFORE = "raise KeyError('lost')\n        yield"
AFTER = "yield\n        raise KeyError('lost')"
NEVER = "return\n        yield"
TWICE = "yield\n        yield"


@pytest.mark.parametrize("style", ["wrapper", "hookwrapper"])
@pytest.mark.parametrize(
    ("body", "reason", "line"),
    [
        (BEFORE, "KeyError: 'lost'", 6),
        (AFTER, "KeyError: 'lost'", 7),
        (NEVER, "WrapperError: it did not yield", 4),
        (TWICE, "WrapperError: it yields more than once", 4),
    ],
    ids=["before", "after", "never", "twice"],
)
def test_a_wrapper_that_fails_itself(install, style, body, reason, line):
    text = f"""
    from cntk_core.api import hookimpl

    @hookimpl({style}=True)
    def cntk_epoch_end(summary):
        {body}
"""
    install("cntk-hook-bbb", {"cntk.hooks": {"b": "cntk_hook_bbb"}}, GOOD)
    install("cntk-hook-www", {"cntk.hooks": {"w": "cntk_hook_www"}}, text)
    told: list[str] = []
    manager = PluginManager(report=told.append)
    for _ in range(2):
        call(manager)
    place = "raised by" if reason.startswith("Key") else "it is at"
    assert told == [
        f"hook cntk_epoch_end (a wrapper) of cntk-hook-www 0.1.0 failed: {reason}\n"
        f"    {place} site/cntk_hook_www.py:{line}\n    It is not called again in this run."
    ]
    import cntk_hook_bbb

    assert len(cntk_hook_bbb.seen) == 2


def test_a_plugin_that_fails_when_asked_whether_it_listens(install):
    text = (
        GOOD
        + """
    def listens_to(name):
        1 / 0
    """
    )
    install("cntk-hook-bad", {"cntk.hooks": {"b": "cntk_hook_bad"}}, text)
    told: list[str] = []
    assert PluginManager(report=told.append).listeners("cntk_epoch_end") == ()
    (said,) = told
    assert said.startswith("hook listens_to of cntk-hook-bad 0.1.0 failed: ZeroDivisionError: division by zero\n")


class TestAnswers:
    def test_a_wrapper_changes_the_answer(self):
        class Plain:
            @hookimpl
            def cntk_should_stop(self):
                return "enough"

        class Louder:
            @hookimpl(wrapper=True)
            def cntk_should_stop(self):
                answer = yield
                return answer.upper()

        class Older:
            @hookimpl(hookwrapper=True)
            def cntk_should_stop(self):
                outcome = yield
                outcome.force_result(outcome.get_result() + "!")

        manager = PluginManager(listeners=[Plain(), Older(), Louder()], discover=False)
        assert call(manager, "cntk_should_stop") == ["ENOUGH!"]

    def test_keys_are_put_together_inside_a_wrapper(self):
        class One:
            @hookimpl
            def cntk_sgd_keys(self):
                return ("a", "b")

        class Two:
            @hookimpl
            def cntk_sgd_keys(self):
                return ["c"]

        class Around:
            @hookimpl(wrapper=True)
            def cntk_sgd_keys(self):
                found = yield
                return [*found, ("d",)]

        plain = PluginManager(listeners=[One(), Two()], discover=False)
        assert gathered(plain.listeners("cntk_sgd_keys")) == ["c", "a", "b"]
        wrapped = PluginManager(listeners=[One(), Two(), Around()], discover=False)
        assert gathered(wrapped.listeners("cntk_sgd_keys")) == ["c", "a", "b", "d"]

    def test_an_error_of_ours_passes_through_wrappers_and_may_be_taken(self):
        class Ending:
            @hookimpl
            def cntk_epoch_end(self):
                raise CntkError("enough")

        class Watching:
            def __init__(self):
                self.seen = []

            @hookimpl(wrapper=True)
            def cntk_epoch_end(self):
                try:
                    return (yield)
                except CntkError as error:
                    self.seen.append(error.message)
                    raise

        class Taking:
            @hookimpl(wrapper=True)
            def cntk_epoch_end(self):
                try:
                    return (yield)
                except CntkError:
                    return "taken"

        watching = Watching()
        with pytest.raises(CntkError, match=r"^enough$"):
            call(PluginManager(listeners=[Ending(), watching], discover=False))
        assert watching.seen == ["enough"]
        assert call(PluginManager(listeners=[Ending(), Taking()], discover=False)) == ["taken"]

    def test_a_wrapper_of_a_hook_that_decides_ends_the_run(self, install):
        text = """
            from cntk_core.api import hookimpl

            @hookimpl(wrapper=True)
            def cntk_should_stop(summary):
                yield
                raise ValueError("lost")
        """
        install("cntk-hook-www", {"cntk.hooks": {"w": "cntk_hook_www"}}, text)
        closed = []

        class Outer:
            @hookimpl(wrapper=True)
            def cntk_should_stop(self):
                try:
                    return (yield)
                finally:
                    closed.append(True)

        with pytest.raises(BrokenPluginError) as caught:
            call(PluginManager(listeners=[Outer()]), "cntk_should_stop")
        assert str(caught.value) == (
            "hook cntk_should_stop (a wrapper) of cntk-hook-www 0.1.0 failed: ValueError: lost\n"
            "    raised by site/cntk_hook_www.py:7\n"
            "    Report it to those who made cntk-hook-www, or leave it out: --no-plugin cntk-hook-www. "
            "CNTK_TRACEBACK=1 shows how it was called."
        )
        assert closed == [True]


class TestOrder:
    def test_tryfirst_last_registered_trylast_with_wrappers_outside(self):
        order: list[str] = []

        def plugin(name: str, **how: bool) -> object:
            class Plain:
                @hookimpl(**how)
                def cntk_epoch_end(self):
                    order.append(name)

            class Around:
                @hookimpl(**how)
                def cntk_epoch_end(self):
                    order.append(f"{name} begins")
                    yield
                    order.append(f"{name} ends")

            return Around() if "wrapper" in how or "hookwrapper" in how else Plain()

        plugins = [
            plugin("one"),
            plugin("last", trylast=True),
            plugin("first", tryfirst=True),
            plugin("two"),
            plugin("inner", wrapper=True),
            plugin("outer", hookwrapper=True),
            plugin("three"),
        ]
        call(PluginManager(listeners=plugins, discover=False))
        assert order == [
            *("outer begins", "inner begins"),
            *("first", "three", "two", "one", "last"),
            *("inner ends", "outer ends"),
        ]

    def test_it_is_pluggys(self):
        order: list[str] = []

        class Plugin:
            def __init__(self, name: str) -> None:
                self.name = name

        def plugins() -> list[object]:
            found: list[object] = []
            for number, how in enumerate([{}, {"tryfirst": True}, {}, {"trylast": True}, {"tryfirst": True}, {}]):

                class One(Plugin):
                    @hookimpl(**how)
                    def cntk_epoch_end(self):
                        order.append(self.name)

                found.append(One(str(number)))
            return found

        manager = PluginManager(listeners=plugins(), discover=False)
        call(manager)
        ours, order[:] = list(order), []
        manager.hook.cntk_epoch_end(**TOLD)
        assert ours == order
        assert sorted(ours) == list("012345")


class TestChain:
    class Adding:
        def __init__(self, number):
            self.number = number

        @hookimpl
        def cntk_learning_rate(self, rate):
            return rate + self.number

    class Silent:
        @hookimpl
        def cntk_learning_rate(self, rate):
            return None

    def rate(self, *listeners):
        manager = PluginManager(listeners=listeners, discover=False)
        return passed_on(manager.listeners("cntk_learning_rate"), "rate", job=TOLD["job"], epoch=0, rate=1.0)

    def test_each_gets_what_the_one_before_answered(self):
        assert self.rate(self.Adding(1), self.Silent(), self.Adding(2)) == 4.0
        assert self.rate(self.Silent()) == 1.0
        assert self.rate() == 1.0

    @pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, int])
    def test_numbers_of_numpy_are_rates(self, kind):
        assert self.rate(self.Adding(kind(2))) == 3.0
        assert rate({}, kind(2)) == ""

    def test_inside_a_wrapper(self):
        class Doubling:
            @hookimpl(wrapper=True)
            def cntk_learning_rate(self, rate):
                return 2 * (yield)

        assert self.rate(self.Adding(1), self.Adding(2), Doubling()) == 8.0

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            ("'fast'", "it answered 'fast', which is no learning rate"),
            ("-1", "it answered -1, which is no learning rate"),
            ("float('nan')", "it answered nan, which is no learning rate"),
            ("True", "it answered True, which is no learning rate"),
        ],
    )
    def test_an_answer_that_cannot_be_used_is_the_plugins_fault(self, install, answer, reason):
        text = f"""
            from cntk_core.api import hookimpl

            @hookimpl
            def cntk_learning_rate(rate):
                return {answer}
        """
        install("cntk-hook-bad", {"cntk.hooks": {"b": "cntk_hook_bad"}}, text)
        with pytest.raises(BrokenPluginError) as caught:
            passed_on(PluginManager().listeners("cntk_learning_rate"), "rate", job=None, epoch=0, rate=1.0)
        assert str(caught.value) == (
            f"hook cntk_learning_rate of cntk-hook-bad 0.1.0 failed: WrongAnswer: {reason}\n"
            "    it is at site/cntk_hook_bad.py:4\n"
            "    Report it to those who made cntk-hook-bad, or leave it out: --no-plugin cntk-hook-bad. "
            "CNTK_TRACEBACK=1 shows how it was called."
        )


class TestRetirement:
    class Specs:
        @hookspec(warn_on_impl=retired("cntk_old_end", "1.1", "1.3", "Use cntk_epoch_end."))
        def cntk_old_end(self, job):
            """What was there before."""

        @hookspec(
            warn_on_impl_args={
                "engine": retired("the argument 'engine' of cntk_old_begin", "1.2", "1.4", "job.engine has it.")
            }
        )
        def cntk_old_begin(self, job, engine):
            """A hook one of whose arguments goes."""

    @pytest.fixture
    def specs(self, monkeypatch):
        add = pluggy.PluginManager.add_hookspecs
        monkeypatch.setattr(
            pluggy.PluginManager,
            "add_hookspecs",
            lambda self, found: (add(self, found), add(self, TestRetirement.Specs)),
        )

    def test_whoever_implements_it_is_named_and_goes_on_working(self, install, specs):
        text = """
            from cntk_core.api import hookimpl
            seen = []

            @hookimpl
            def cntk_old_end(job):
                seen.append(job)

            @hookimpl
            def cntk_old_begin(job, engine):
                seen.append(engine)
        """
        install("cntk-hook-old", {"cntk.hooks": {"old": "cntk_hook_old"}}, text)
        told: list[str] = []
        manager = PluginManager(report=told.append)
        title = "hooks 'old' from cntk-hook-old 0.1.0"
        assert sorted(told, reverse=True) == [
            f"{title}: the argument 'engine' of cntk_old_begin is retired since plugin interface 1.2 and will be gone "
            "in 1.4. job.engine has it.\n    site/cntk_hook_old.py:9",
            f"{title}: cntk_old_end is retired since plugin interface 1.1 and will be gone in 1.3."
            " Use cntk_epoch_end.\n    site/cntk_hook_old.py:5",
        ]
        for listener in manager.listeners("cntk_old_end"):
            listener(job="a job")
        import cntk_hook_old

        assert cntk_hook_old.seen == ["a job"]

    def test_an_argument_that_nobody_wants_is_not_told_of(self, install, specs):
        text = "from cntk_core.api import hookimpl\n@hookimpl\ndef cntk_old_begin(job): pass\n"
        install("cntk-hook-old", {"cntk.hooks": {"old": "cntk_hook_old"}}, text)
        told: list[str] = []
        PluginManager(report=told.append)
        assert told == []

    def test_other_warnings_are_left_as_they_are(self, specs):
        class Warning_:
            @hookimpl
            def cntk_register(self, registry):
                warnings.warn("mine", UserWarning, stacklevel=1)

        with pytest.warns(UserWarning, match=r"^mine$"):
            PluginManager(listeners=[Warning_()], discover=False)
        assert issubclass(RetiredHookWarning, DeprecationWarning)


def test_what_is_begun_is_ended_when_a_wrapper_inside_cannot_begin():
    ended = []

    def outer():
        try:
            yield
        except CntkError:
            ended.append("outer")
            raise

    def inner():
        raise CntkError("no")
        yield

    def failed(error):
        raise AssertionError from error

    call = around([Wrapper(outer, False, failed), Wrapper(inner, False, failed)], lambda: None)
    with pytest.raises(CntkError, match=r"^no$"):
        call()
    assert ended == ["outer"]
