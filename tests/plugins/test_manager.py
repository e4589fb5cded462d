"""Hooks, who listens, engines by name, one-off files."""

from __future__ import annotations

import itertools
from string import ascii_letters
from textwrap import dedent

import pytest

from cntk_core.contract.events import EpochSummary, Job
from cntk_core.errors import BrokenPluginError, CntkError, MissingPluginError, PluginError, PluginUnavailableError
from cntk_core.plugins.manager import PluginManager, hook_names
from cntk_core.plugins.markers import hookimpl

JOB = Job("Train", "train")
SUMMARY = EpochSummary(0, 10, 1, {"ce": 1.0})


class Recorder:
    def __init__(self, answer=None):
        self.seen = []
        self.answer = answer

    @hookimpl
    def cntk_epoch_end(self, summary):
        self.seen.append(summary)

    @hookimpl
    def cntk_should_stop(self):
        return self.answer


class TestListeners:
    def test_nobody(self):
        manager = PluginManager(discover=False)
        silent = set(hook_names()) - {"cntk_choose_engine", "cntk_register"}
        assert all(manager.listeners(name) == () for name in silent)

    def test_they_take_all_arguments_and_want_fewer(self):
        recorder = Recorder()
        for listener in PluginManager(listeners=[recorder], discover=False).listeners("cntk_epoch_end"):
            listener(job=JOB, summary=SUMMARY)
        assert recorder.seen == [SUMMARY]

    def test_the_last_registered_decides_first(self):
        manager = PluginManager(listeners=[Recorder("first"), Recorder("second")], discover=False)
        answers = [one(job=JOB, summary=SUMMARY) for one in manager.listeners("cntk_should_stop")]
        assert answers == ["second", "first"]
        assert manager.hook.cntk_should_stop(job=JOB, summary=SUMMARY) == "second"

    def test_the_order_does_not_matter_to_events(self):
        for order in itertools.permutations([Recorder(), Recorder(), Recorder()]):
            manager = PluginManager(listeners=order, discover=False)
            for listener in manager.listeners("cntk_epoch_end"):
                listener(job=JOB, summary=SUMMARY)
            assert all(recorder.seen for recorder in order)
            for recorder in order:
                recorder.seen.clear()

    def test_one_that_does_not_listen_now_is_left_out(self):
        class Sometimes(Recorder):
            asked: list[str] = []

            def listens_to(self, hook):
                self.asked.append(hook)
                return len(self.asked) > 1

        recorder = Sometimes()
        manager = PluginManager(listeners=[recorder], discover=False)
        assert manager.listeners("cntk_epoch_end") == ()
        (listener,) = manager.listeners("cntk_epoch_end")
        listener(job=JOB, summary=SUMMARY)
        assert recorder.seen == [SUMMARY]
        assert recorder.asked == ["cntk_epoch_end", "cntk_epoch_end"]

    def test_a_watcher_that_fails_is_reported_once_however_often_it_is_looked_up(self):
        class Failing:
            @hookimpl
            def cntk_epoch_end(self):
                raise OSError("disk full")

        told: list[str] = []
        manager = PluginManager(watchers=[Failing()], discover=False, report=told.append)
        for _ in range(3):
            for listener in manager.listeners("cntk_epoch_end"):
                listener(job=JOB, summary=SUMMARY)
        (text,) = told
        assert text.startswith("hook cntk_epoch_end of Failing failed: OSError: disk full")
        assert text.endswith("It is not called again in this run.")

    def test_errors_of_the_program_itself_pass(self):
        class Failing:
            @hookimpl
            def cntk_epoch_end(self):
                raise KeyError("mine")

        (listener,) = PluginManager(listeners=[Failing()], discover=False).listeners("cntk_epoch_end")
        with pytest.raises(KeyError):
            listener(job=JOB, summary=SUMMARY)

    def test_a_hook_that_is_none(self):
        class Misspelt:
            @hookimpl
            def cntk_epoch_ends(self):
                pass

        with pytest.raises(BrokenPluginError) as caught:
            PluginManager(listeners=[Misspelt()], discover=False)
        assert str(caught.value) == (
            "listener Misspelt implements cntk_epoch_ends, which is no hook; did you mean 'cntk_epoch_end'?\n"
            "    A hook of a newer core is marked with @hookimpl(optionalhook=True)."
        )

    def test_a_hook_of_a_newer_core(self):
        class Newer:
            @hookimpl(optionalhook=True)
            def cntk_something_new(self):
                pass

        PluginManager(listeners=[Newer()], discover=False)

    def test_an_argument_that_is_none(self):
        class Odd:
            @hookimpl
            def cntk_epoch_end(self, summry):
                pass

        with pytest.raises(BrokenPluginError, match=r"^listener Odd does not fit its hook\n(.|\n)*summry"):
            PluginManager(listeners=[Odd()], discover=False)


class TestHooksOfWheels:
    GOOD = """
        from cntk_core.api import hookimpl
        seen = []

        @hookimpl
        def cntk_epoch_end(summary):
            seen.append(summary)
    """

    def test_they_are_loaded_at_the_start(self, install):
        install("cntk-hook-curve", {"cntk.hooks": {"curve": "cntk_hook_curve"}}, self.GOOD)
        (listener,) = PluginManager().listeners("cntk_epoch_end")
        listener(job=JOB, summary=SUMMARY)
        import cntk_hook_curve

        assert cntk_hook_curve.seen == [SUMMARY]

    def test_a_broken_one_is_left_out(self, install, capsys):
        install("cntk-hook-bad", {"cntk.hooks": {"bad": "cntk_hook_bad"}}, "import missing_library\n")
        install("cntk-hook-curve", {"cntk.hooks": {"curve": "cntk_hook_curve"}}, self.GOOD)
        assert len(PluginManager().listeners("cntk_epoch_end")) == 1
        assert capsys.readouterr().err == (
            "warning: hooks 'bad' from cntk-hook-bad 0.1.0 could not be imported: No module named 'missing_library'\n"
            "    raised by site/cntk_hook_bad.py:1: ModuleNotFoundError\n"
            "    Install what it needs (pip install missing_library), or remove it: pip uninstall cntk-hook-bad\n"
            "    It is left out.\n"
        )

    def test_strict(self, install, monkeypatch):
        install("cntk-hook-bad", {"cntk.hooks": {"bad": "cntk_hook_bad"}}, "import missing_library\n")
        monkeypatch.setenv("CNTK_PLUGINS_STRICT", "1")
        with pytest.raises(BrokenPluginError, match=r"^hooks 'bad' from cntk-hook-bad 0\.1\.0 could not be imported"):
            PluginManager()

    def test_a_module_without_hooks(self, install):
        install("cntk-hook-none", {"cntk.hooks": {"none": "cntk_hook_none"}}, "")
        warnings = []
        PluginManager(report=warnings.append)
        assert warnings == [
            "hooks 'none' from cntk-hook-none 0.1.0 has no hooks: "
            "the module cntk_hook_none has no function marked with @hookimpl\n    It is left out."
        ]

    def test_one_that_fails_is_reported_once(self, install):
        text = self.GOOD.replace("seen.append(summary)", "raise ValueError('lost')")
        install("cntk-hook-bad", {"cntk.hooks": {"bad": "cntk_hook_bad"}}, text)
        warnings = []
        (listener,) = PluginManager(report=warnings.append).listeners("cntk_epoch_end")
        for _ in range(3):
            listener(job=JOB, summary=SUMMARY)
        assert warnings == [
            "hook cntk_epoch_end of cntk-hook-bad 0.1.0 failed: ValueError: lost\n"
            "    raised by site/cntk_hook_bad.py:7\n    It is not called again in this run."
        ]

    def test_one_that_decides_and_fails_ends_the_run(self, install):
        text = """
            from cntk_core.api import CntkError, hookimpl
            @hookimpl
            def cntk_should_stop(summary):
                raise ValueError('lost')
        """
        install("cntk-hook-bad", {"cntk.hooks": {"bad": "cntk_hook_bad"}}, text)
        (listener,) = PluginManager().listeners("cntk_should_stop")
        with pytest.raises(BrokenPluginError, match=r"^hook cntk_should_stop of cntk-hook-bad 0\.1\.0 failed: Value"):
            listener(job=JOB, summary=SUMMARY)

    def test_errors_of_ours_pass(self, install):
        text = self.GOOD.replace("seen.append(summary)", "raise CntkError('enough')").replace(
            "hookimpl\n", "CntkError, hookimpl\n", 1
        )
        install("cntk-hook-stop", {"cntk.hooks": {"stop": "cntk_hook_stop"}}, text)
        (listener,) = PluginManager().listeners("cntk_epoch_end")
        with pytest.raises(CntkError, match=r"^enough$"):
            listener(job=JOB, summary=SUMMARY)

    def test_registering(self, install):
        text = """
            from cntk_core.api import hookimpl
            from cntk_reader_base import Reader

            @hookimpl
            def cntk_register(registry):
                registry.readers.add("wav", Reader)
        """
        install("cntk-reader-base", {})
        install("cntk-hook-reader", {"cntk.hooks": {"reader": "cntk_hook_reader"}}, text)
        (offer,) = PluginManager().registry.readers.offers()
        assert offer.title == "reader 'wav' from cntk-hook-reader 0.1.0"

    def test_registering_that_fails(self, install):
        text = """
            from cntk_core.api import hookimpl

            @hookimpl
            def cntk_register(registry):
                registry.reader.add("wav", None)

            @hookimpl
            def cntk_epoch_end(summary):
                pass
        """
        install("cntk-hook-bad", {"cntk.hooks": {"bad": "cntk_hook_bad"}}, text)
        warnings = []
        manager = PluginManager(report=warnings.append)
        assert manager.listeners("cntk_epoch_end") == ()
        assert warnings == [
            "hooks 'bad' from cntk-hook-bad 0.1.0 failed when it was asked what it offers: "
            "AttributeError: 'Registry' object has no attribute 'reader'\n"
            "    raised by site/cntk_hook_bad.py:6\n    It is left out."
        ]


class TestTrace:
    def test_calls_are_printed(self, monkeypatch, capsys):
        monkeypatch.setenv("CNTK_TRACE_PLUGINS", "1")
        manager = PluginManager(listeners=[Recorder("enough")], discover=False)
        capsys.readouterr()
        for listener in manager.listeners("cntk_should_stop"):
            listener(job=JOB, summary=SUMMARY)
        manager.hook.cntk_choose_engine(requested="auto", available=("cpu",))
        assert capsys.readouterr().err == (
            "plugins: cntk_should_stop(job, summary) of this program gave 'enough'\n"
            "plugins: cntk_choose_engine(requested, available) of cntk-core gave 'cpu'\n"
        )


class TestEngines:
    @pytest.mark.parametrize(
        ("names", "chosen"),
        [
            (("one", "two20", "three"), "two20"),
            (("one10", "three"), "one10"),
            (("xla", "tpu"), "tpu"),
            (("a10", "b20", "c20"), "b20"),
        ],
    )
    def test_auto(self, install, names, chosen):
        install(
            "cntk-engine-all", {"cntk.engines": {name: f"cntk_engine_all:{name}" for name in names}}, self.module(names)
        )
        assert PluginManager().engine("Auto").__name__ == chosen

    @staticmethod
    def module(names):
        classes = "".join(f"class {name}(Engine): priority = {name.strip(ascii_letters) or 0}\n" for name in names)
        return (
            "from cntk_core.api import ExecutionEngine\n"
            "class Engine(ExecutionEngine):\n    requires_api = '1.0'\n    def compile(self): pass\n" + classes
        )

    def test_a_hook_chooses(self, install):
        class Choice:
            @hookimpl
            def cntk_choose_engine(self, available):
                return available[-1]

        install(
            "cntk-engine-all",
            {"cntk.engines": {n: f"cntk_engine_all:{n}" for n in ("cpu", "xla")}},
            self.module(("cpu", "xla")),
        )
        assert PluginManager(listeners=[Choice()]).engine("auto").__name__ == "xla"

    def test_a_device_chooses_among_engines(self, install):
        module = self.module(("cpu", "cuda")) + "    @classmethod\n    def devices(cls): return (0, 1)\n"
        module = module.replace("class cuda(Engine): priority = 0", "class cuda(Engine):")
        install("cntk-engine-all", {"cntk.engines": {n: f"cntk_engine_all:{n}" for n in ("cpu", "cuda")}}, module)
        manager = PluginManager()
        assert manager.engine("auto", device=1).__name__ == "cuda"
        assert manager.engine("auto", device="cpu").__name__ == "cpu"
        assert manager.engine("cuda", device=0).__name__ == "cuda"
        for name, device, message in [
            ("auto", 2, "there is no device 2 here\n    Devices: 0, 1."),
            (
                "cuda",
                "cpu",
                "the engine 'cuda' cannot compute on deviceId=cpu\n    Its devices: 0, 1; or give deviceId=auto.",
            ),
            (
                "cpu",
                0,
                "the engine 'cpu' cannot compute on deviceId=0\n"
                "    It computes on the processor: give deviceId=cpu or deviceId=auto.",
            ),
        ]:
            with pytest.raises(PluginUnavailableError) as caught:
                manager.engine(name, device=device)
            assert str(caught.value) == message

    def test_what_cannot_run_here_is_not_chosen(self, install):
        install("cntk-engine-far", {"cntk.engines": {"cuda": "cntk_engine_far:Away"}})
        install("cntk-engine-cpu", {"cntk.engines": {"cpu": "cntk_engine_cpu_2:Engine"}})
        install("cntk-engine-cpu-2", {})
        assert PluginManager().engine("auto").__name__ == "Engine"

    def test_none_is_installed(self, site):
        with pytest.raises(MissingPluginError) as caught:
            PluginManager().engine("auto")
        assert str(caught.value) == (
            "no engine that could be taken is installed: install one of ours\n"
            "    pip install cntk-engine-cpu\n"
            "    pip install cntk-engine-xla\n"
            '    pip install "cntk-engine-cuda[cuda13]"\n'
            "    no engine is installed"
        )

    def test_none_can_run(self, install):
        install("cntk-engine-far", {"cntk.engines": {"far": "cntk_engine_far:Away"}})
        install("cntk-engine-bad", {"cntk.engines": {"bad": "cntk_engine_bad:Engine"}}, "import missing_library")
        with pytest.raises(PluginUnavailableError) as caught:
            PluginManager().engine("auto")
        assert str(caught.value) == (
            "no engine can run here\n"
            "    engine 'bad' from cntk-engine-bad 0.1.0 could not be imported: No module named 'missing_library'\n"
            "    engine 'far' from cntk-engine-far 0.1.0 cannot run here: no device Use engine = \"cpu\"."
        )


class TestFiles:
    @pytest.fixture
    def load(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

        def write(text):
            (tmp_path / "mine.py").write_text(dedent(text), encoding="utf-8")
            return PluginManager(["mine.py"], discover=False)

        return write

    def test_components_ops_and_hooks(self, load):
        manager = load(
            """
            from cntk_core.api import *

            class Base(DataReader):
                streams = ()
                def minibatches(self, epoch):
                    return iter(())

            class Wav(Base):
                name = "wav"

            class Mp3Reader(Base):
                pass

            @elementwise_op("Double", gradient=lambda m, a, g, y, x: g * 2)
            def double(m, a, x):
                return x * 2

            @hookimpl
            def cntk_epoch_end(summary):
                pass
            """
        )
        assert manager.registry.readers.names() == ("Base", "Mp3Reader", "wav")
        assert manager.registry.readers.get("mine.py:Wav").__name__ == "Wav"
        assert manager.registry.ops.find("ndl", "double").name == "Double"
        assert len(manager.listeners("cntk_epoch_end")) == 1

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("x = 1\ny = x +\n", "mine.py:2: the plugin file cannot be loaded: SyntaxError: invalid syntax"),
            (
                "x = {}\n\nx['key']\n",
                "mine.py:3: the plugin file cannot be loaded: KeyError: 'key'",
            ),
            (
                "import missing_library",
                "mine.py:1: the plugin file cannot be loaded: ModuleNotFoundError: No module named 'missing_library'\n"
                "    Install what it needs: pip install missing-library",
            ),
            (
                "x = 1",
                "mine.py: the plugin file has nothing that can be used\n"
                "    It needs a class of a component, an op, a kernel, a function or a method marked with @hookimpl.",
            ),
            (
                "from cntk_core.api import *\n@elementwise_op('Sigmoid')\ndef f(m, a, x): return x",
                "mine.py: the name 'Sigmoid' of the op 'Sigmoid' already means 'Sigmoid' of the core\n"
                "    Give the op another name.",
            ),
            (
                "from cntk_core.api import *\n@hookimpl\ndef cntk_epoch_and(): pass",
                "mine.py: plugin file 'mine.py' implements cntk_epoch_and, which is no hook; "
                "did you mean 'cntk_epoch_end'?\n"
                "    A hook of a newer core is marked with @hookimpl(optionalhook=True).",
            ),
        ],
    )
    def test_what_can_be_wrong(self, load, text, message):
        with pytest.raises(PluginError) as caught:
            load(text)
        assert str(caught.value) == message

    def test_no_file(self, load, tmp_path):
        (tmp_path / "my_ops.py").touch()
        with pytest.raises(MissingPluginError) as caught:
            PluginManager(["my_op.py"], discover=False)
        assert str(caught.value) == "there is no plugin file 'my_op.py'; did you mean 'my_ops.py'?"
