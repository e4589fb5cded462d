"""The exact text of mistakes, as the command line prints them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from cntk_core.plugins.manager import PluginManager
from cntk_kit_recipes import cli
from cntk_kit_recipes.cli import main

NAMES = PluginManager(load_hooks=False).registry.actions.names()

TRAIN = """\
command = Train
Train = [
    action = train
    modelPath = "m.dnn"
]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "CNTK_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def failed(capsys: pytest.CaptureFixture[str], *arguments: str, recipe: str | None = None) -> str:
    """The message that a failing command line ends with."""
    if recipe is not None:
        Path("r.cntk").write_text(recipe, encoding="utf-8")
        arguments = ("configFile=r.cntk", *arguments)
    assert main(list(arguments)) == 1
    text = capsys.readouterr().err
    assert "Traceback" not in text
    return text.partition("EXCEPTION occurred: ")[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["precision=half"],
            '<command line>:2:1: Invalid precision string: "half", must be "float" or "double"\n',
        ),
        (
            ["deviceId=gpu"],
            "<command line>:2:10: deviceId must be a device, not 'gpu'\n"
            "    Accepted: auto, cpu, -1 (CPU), or the number of a GPU.\n",
        ),
        (
            ["type=float"],
            "<command line>:2:1: the parameter 'type' is called 'precision' now\n    precision = float\n",
        ),
        (
            ["command=Trian"],
            "<command line>:2:9: required parameter missing: Trian\n    Is 'Train' (r.cntk:2:1) meant for it?\n",
        ),
        (
            ["timestamping=perhaps"],
            "<command line>:2:14: timestamping must be true or false, not 'perhaps'\n"
            "    Accepted: true, True, TRUE, t, T, 1, false, False, FALSE, f, F, 0.\n",
        ),
        (
            ["currentDirectory=nowhere", "precision=double"],
            "<command line>:2:1: currentDirectory 'nowhere' cannot be entered: No such file or directory\n",
        ),
        (
            ["Train=[action=trian]"],
            "<command line>:2:15: unknown action: trian  in command set: Train; did you mean 'train'?\n"
            f"    Actions: {', '.join(NAMES)}\n",
        ),
    ],
)
def test_mistakes_on_the_command_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert failed(capsys, *arguments, recipe=TRAIN) == message


def test_all_unknown_actions_are_named_together(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = "command = A:B:C\nA = [ action = plto ]\nB = [ x = 1 ]\nC = [ action = frobnicate ]\n"
    assert failed(capsys, recipe=recipe) == (
        "r.cntk:2:16: unknown action: plto  in command set: A; did you mean 'plot'?\n"
        f"    Actions: {', '.join(NAMES)}\n"
        "r.cntk:3:1: required parameter missing: B:action\n"
        "    Add action=... to the section B.\n"
        "r.cntk:4:16: unknown action: frobnicate  in command set: C\n"
        f"    Actions: {', '.join(NAMES)}\n"
        "3 problems found\n"
    )


def test_unknown_variable(capsys: pytest.CaptureFixture[str]) -> None:
    assert failed(capsys, recipe='modelDir = "m"\nmodelPath = "$modelDri$/m.dnn"\n') == (
        "r.cntk:2:14: unknown variable $modelDri$; did you mean 'modelDir'?\n"
        "    Set it at the top level of the recipe or on the command line: modelDri=...\n"
    )


def test_log_file_that_cannot_be_written(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "file").write_text("", encoding="utf-8")
    assert failed(capsys, "stderr=file/log.txt", recipe=TRAIN) == (
        "<command line>:2:8: the log file 'file/log.txt' cannot be written: File exists\n"
    )


def test_a_gpu_without_an_engine_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    message = failed(capsys, "deviceId=0", recipe=TRAIN)
    assert message.startswith(
        "<command line>:2:10: deviceId=0 asks for a GPU, and no engine can compute on one here\n"
        "    Give deviceId=-1 (CPU) or deviceId=auto.\n"
    )


def test_error_goes_to_the_log_file_and_to_the_console(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    message = failed(capsys, "stderr=logs/log.txt", "deviceId=3", recipe=TRAIN)
    assert message.startswith("<command line>:3:10: deviceId=3 asks for a GPU")
    assert (folder / "logs/log.txt").read_text(encoding="utf-8").endswith(f"\nEXCEPTION occurred: {message}")


def test_missing_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert failed(capsys, "configFile=nothing.cntk") == (
        "<command line>:1:12: cannot read the config file 'nothing.cntk': No such file or directory\n"
        "    Relative paths count from currentDirectory, or from where the command was started.\n"
    )


def test_no_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["precision=float"]) == 2
    assert capsys.readouterr().err.endswith(
        "EXCEPTION occurred: no config file is named\n    cntk configFile=recipe.cntk [key=value ...]\n"
    )


@pytest.mark.parametrize("text", ["\0", "\ufeffcommand=a\n"])
def test_a_recipe_that_is_no_text(capsys: pytest.CaptureFixture[str], text: str) -> None:
    Path("r.cntk").write_bytes(text.encode("utf-16-le" if len(text) > 1 else "utf-8"))
    hint = "    Is it a text in UTF-16? Save it in UTF-8.\n" if len(text) > 1 else ""
    assert failed(capsys, "configFile=r.cntk") == (
        f"<command line>:1:12: the config file 'r.cntk' is no text: it has bytes that are 0\n{hint}"
    )


@pytest.mark.parametrize(
    ("error", "said", "status"),
    [
        (BrokenPipeError(), "the reader of the output has gone away", 1),
        (KeyboardInterrupt(), "interrupted", 130),
    ],
)
def test_other_ranks_hear_of_an_end(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, said: str, status: int
) -> None:
    """They would wait for ever for this one."""
    ended: list[str] = []

    def dispatch(arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr(cli, "_dispatch", dispatch)
    monkeypatch.setattr(cli, "end_ranks", ended.append)
    apart = SimpleNamespace(open=os.open, devnull=os.devnull, O_WRONLY=os.O_WRONLY, dup2=lambda one, _: os.close(one))
    monkeypatch.setattr(cli, "os", apart)  # standard output is not ours
    assert cli.main(["train"]) == status
    assert ended == [said]
