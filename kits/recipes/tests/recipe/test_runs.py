"""Whole runs through the command line: logs, files, verbs."""

from __future__ import annotations

import re
import sys
from contextlib import closing
from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.log import Log


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """The error stream of a command line."""
    assert main(list(arguments)) == code
    return capsys.readouterr().err


class TestLog:
    def test_banner_titles_and_end(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        lines = run(capsys, "configFile=r.cntk", "traceLevel=1").splitlines()
        assert lines[0].startswith("CNTK 2.0+ (cntk-core ")
        assert lines[2] == "cntk  configFile=r.cntk  traceLevel=1"
        title = lines.index("# Train command (train action)                                               #")
        assert [len(line) for line in lines[title - 2 : title + 3]] == [78] * 5
        assert lines[lines.index("Commands: Train") + 1] == 'precision = "double"'
        assert lines[-5:] == ["", 'Action "train" complete.', "", "__COMPLETED__", "COMPLETED."]

    def test_trace_level_0_says_less(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        text = run(capsys, "configFile=r.cntk")
        assert "Minibatch[" not in text
        assert "__COMPLETED__" not in text
        assert text.count("Finished Epoch[") == 2
        assert text.endswith("\nCOMPLETED.\n")

    def test_stderr_may_be_the_console(self, recipe: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        console = run(capsys, "configFile=r.cntk", "stderr=-", "timestamping=true", "command=Train")
        assert "Finished Epoch[ 1 of" in console
        assert not [path.name for path in tmp_path.iterdir() if path.name.startswith("-")]

    def test_stderr_goes_to_a_file(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        console = run(capsys, "configFile=r.cntk", "stderr=logs/a/log.txt", "traceLevel=1")
        log = Path("logs/a/log.txt").read_text(encoding="utf-8")
        assert console.splitlines()[-2:] == ["Redirecting stderr to file logs/a/log.txt", "COMPLETED."]
        assert log.startswith("CNTK 2.0+")
        assert log.endswith("__COMPLETED__\n")
        assert log.count("Finished Epoch[") == 2

    def test_time_stamps(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        lines = run(capsys, "configFile=r.cntk", "timestamping=true").splitlines()
        stamp = r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d: "
        finished = [line for line in lines if "Finished Epoch" in line]
        assert len(finished) == 2
        assert all(re.match(stamp + "Finished Epoch", line) for line in finished)
        assert re.fullmatch(stamp + "__COMPLETED__", lines[-2])

    def test_log_file_with_time_stamps_is_named_after_the_commands(
        self, recipe: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run(capsys, "configFile=r.cntk", "stderr=log", "timestamping=true", "command=Train:Test")
        assert "Final Results" in Path("log_Train_Test.log").read_text(encoding="utf-8")

    def test_done_file(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        run(capsys, "configFile=r.cntk", "doneFile=done/now.txt")
        text = Path("done/now.txt").read_text(encoding="utf-8")
        assert re.fullmatch(r"Successfully finished at \d{4}/\d\d/\d\d \d\d:\d\d:\d\d on \S+\n", text)

    def test_no_done_file_after_a_failure(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        run(capsys, "configFile=r.cntk", "doneFile=done.txt", "command=Test", code=1)
        assert not Path("done.txt").exists()

    def test_progress_tracing(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        lines = run(capsys, "configFile=r.cntk", "progressTracing=true").splitlines()
        assert [line for line in lines if line.startswith("CNTK") and ":" in line and "Command" in line] == [
            "CNTKCommandTrainInfo: Train : 2",
            "CNTKCommandTrainInfo: CNTKNoMoreCommands_Total : 2",
            "CNTKCommandTrainBegin: Train",
            "CNTKCommandTrainEnd: Train",
        ]
        assert "CNTKModelPath: run/net.dnn" in lines

    def test_current_directory(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        Path("elsewhere").mkdir()
        Path("train.ctf").rename("elsewhere/train.ctf")
        text = run(capsys, f"configFile={recipe}", "currentDirectory=elsewhere")
        assert "Changed current directory to elsewhere\n" in text
        assert (recipe.parent / "elsewhere/run/net.dnn").exists()


class TestVerbs:
    def test_train_test_and_write(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "Finished Epoch[ 1 of 1]" in run(capsys, "train", "r.cntk", "Train=[SGD=[maxEpochs=1]]")
        assert "Final Results: Minibatch[1-1]: errs = " in run(capsys, "test", "r.cntk")
        assert run(capsys, "write", "r.cntk").endswith("Total Samples Evaluated = 4\n\nCOMPLETED.\n")
        rows = Path("run/out.z").read_text(encoding="utf-8").splitlines()
        assert [len(row.split()) for row in rows] == [2, 2, 2, 2]

    def test_write_to_standard_output(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        run(capsys, "train", "r.cntk")
        assert main(["write", "r.cntk", "Write=[outputPath=-;outputNodeNames=labels:z;minibatchSize=2]"]) == 1
        capsys.readouterr()
        assert main(["write", "r.cntk", "Write=[outputPath=-;outputNodeNames=features;minibatchSize=2]"]) == 0
        assert capsys.readouterr().out == "1.000 0.000\n0.000 1.000\n\n2.000 1.000\n1.000 3.000\n\n"

    def test_options_and_overrides_may_be_mixed(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        Path("p.py").write_text(
            "from cntk_core.api import hookimpl\n\n"
            "@hookimpl\ndef cntk_epoch_end(summary):\n    print('heard', summary.epoch)\n",
            encoding="utf-8",
        )
        assert main(["train", "r.cntk", "precision=float", "--plugin", "p.py", "Train=[SGD=[maxEpochs=1]]"]) == 0
        assert capsys.readouterr().out == "heard 0\n"

    @pytest.mark.parametrize(
        ("progress", "only", "banners"), [(False, None, 1), (False, "train", 1), (True, None, 1), (True, "train", 0)]
    )
    def test_a_single_action_on_a_terminal_has_no_banner(
        self, recipe: Path, capsys: pytest.CaptureFixture[str], progress: bool, only: str | None, banners: int
    ) -> None:
        with closing(Log()) as log:
            run_recipe(["configFile=r.cntk", "Train=[SGD=[maxEpochs=1]]"], log, only=only, progress=progress)
        assert capsys.readouterr().err.count("CNTK 2.0+ (cntk-core ") == banners

    def test_config_file_prefix_is_accepted(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "COMPLETED." in run(capsys, "train", "configFile=r.cntk")

    def test_check_data(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["check-data", "r.cntk"]) == 0
        assert capsys.readouterr().out == "Train:reader: features [2], labels [2]\nno problems found\n"

    def test_check_data_finds_everything(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        Path("train.ctf").write_text("|features y 1 |labels 1 0\n|features 1 x |labels 0 1\n", encoding="utf-8")
        assert main(["check-data", "r.cntk", "--section", "Train"]) == 1
        out = capsys.readouterr().out
        assert re.search(r"^train.ctf:1(:\d+)?: ", out, re.MULTILINE)
        assert re.search(r"^train.ctf:2(:\d+)?: ", out, re.MULTILINE)
        assert out.endswith("problems found\n")

    def test_explain(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", "r.cntk", "--frames", "7"]) == 0
        out = capsys.readouterr().out
        assert out.startswith("Train: 6 nodes\n  features = InputValue () : [2 x *]\n")
        assert "Gradients of ce," in out
        assert "Buffers for 7 frames:" in out
        assert "on the host" not in out

    def test_explain_says_what_runs_on_the_host(
        self, recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from cntk_core.contract.engine import ExecutionEngine

        monkeypatch.setattr(ExecutionEngine, "on_host", lambda engine, plan: (plan.steps[0], plan.gradients[-1]))
        assert main(["explain", "r.cntk", "engine=cpu"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines if line.endswith(" (on the host)")] == ["0", "1"]
        assert sum(line.endswith(" steps, 1 of them on the host:") for line in lines) == 2
        assert lines[-1] == "On the host with engine=cpu: 2 steps"

    def test_explain_without_the_engine(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", "r.cntk", "engine=cqu"]) == 0
        last = capsys.readouterr().out.splitlines()[-1]
        assert last.startswith("Which steps run on the host is not known: ")
        assert "cqu" in last

    def test_doctor(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["doctor"]) == 0
        out = capsys.readouterr().out
        assert re.search(r"^  ok  engine cpu +cntk-engine-cpu ", out, re.MULTILINE)
        assert out.endswith("\nRecipes can be trained here.\n")

    def test_plugins(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for arguments, state in ((["list", "--names"], "installed"), ([], "usable")):
            assert main(["plugins", *arguments]) == 0
            row = rf"^engine +cpu +cntk-engine-cpu +\S+ +{state}$"
            assert re.search(row, capsys.readouterr().out, re.MULTILINE)

    @pytest.mark.thorough  # docs/plugins.md checks a learner in tests/docs
    @pytest.mark.slow
    def test_plugins_check(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["plugins", "check", "reader:CNTKTextFormatReader"]) == 0
        assert capsys.readouterr().out.endswith(
            "keeps its contract (its wheel cntk-reader-cntk-text and ReaderContract and ReaderRecipe "
            "of its own tests)\n"
        )
        assert main(["plugins", "check", "NoSuchReader"]) == 1

    def test_new_plugin(self, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["plugins", "new", "reader", "wav", "--folder", "."]) == 0
        assert Path("cntk-reader-wav/pyproject.toml").is_file()
        assert capsys.readouterr().out.startswith("A new reader:\n")


class TestUsage:
    def test_nothing(self, capsys: pytest.CaptureFixture[str]) -> None:
        text = run(capsys, code=1)
        assert text.startswith("No command-line argument given.\n-----")
        assert "Usage: cntk configFile=yourConfigFile" in text

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["trian", "r.cntk"], "there is no verb 'trian'; did you mean 'train'?; see cntk --help"),
            (["train"], "the following arguments are required: recipe"),
            (["train", "r.cntk", "x"], "'x' is not of the form key=value"),
            (["train", "r.cntk", "--fast"], "unrecognized arguments: --fast"),
            (["doctor", "x"], "unrecognized arguments: x"),
        ],
    )
    def test_wrong_usage(self, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 2
        assert capsys.readouterr().err.rstrip().endswith(message)

    def test_recipe_that_is_no_recipe(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(capsys, "train", "a=b", code=2) == (
            "error: 'a=b' is no recipe\n    cntk train recipe.cntk [key=value ...]\n"
        )

    def test_help_names_every_verb(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as stop:
            main(["--help"])
        assert stop.value.code == 0
        out = capsys.readouterr().out
        assert [
            verb
            for verb in ("train", "test", "write", "check-data", "explain", "plugins", "doctor", "demo")
            if verb not in out
        ] == []

    def test_interrupt(self, recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        def interrupted(*arguments: object, **options: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("cntk_kit_recipes.recipe.driver.run_recipe", interrupted)
        assert run(capsys, "configFile=r.cntk", code=130).startswith("\ninterrupted: what was saved before is kept")

    def test_defect_is_one_message(
        self, recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def broken(*arguments: object, **options: object) -> None:
            raise ZeroDivisionError("by zero")

        for name in [name for name in sys.modules if name.startswith("cntk_plugin_file_")]:  # of other tests
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr("cntk_kit_recipes.recipe.driver.run_recipe", broken)
        assert run(capsys, "configFile=r.cntk", code=1) == (
            "\nEXCEPTION occurred: this is a defect of the program: ZeroDivisionError: by zero\n"
            "    Please report it with what CNTK_TRACEBACK=1 shows.\n"
        )
        monkeypatch.setenv("CNTK_TRACEBACK", "1")
        with pytest.raises(ZeroDivisionError):
            main(["configFile=r.cntk"])


def test_help_imports_nothing_heavy(recipe: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys\nfrom cntk_kit_recipes.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'numpy', 'scipy', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.endswith("\n[]\n")
