"""``cntk sweep``."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import pytest
from cntk_tool_curves.sweep import sweep
from cntk_tool_curves.sweep.grid import Axis, Point, grid, split_values, split_words
from cntk_tool_curves.sweep.places import moved
from cntk_tool_curves.sweep.point_file import PointFile
from cntk_tool_curves.sweep.pool import Task, run_tasks, shared_out

from cntk_core.api import CntkError, ConfigError, DataError, UsageError, hookimpl
from cntk_core.api.builders import parse_text
from cntk_core.api.recipes import Log, run_recipe
from cntk_kit_recipes.cli import main

RATE = "learningRatesPerSample=0.1,0.5"


@pytest.fixture
def here(monkeypatch) -> list[list[str]]:
    """Trainings run in this process, one after the other; their command lines are kept."""
    commands: list[list[str]] = []

    def run(tasks: Sequence[Task], jobs: int, processes: int) -> None:
        for task in tasks:
            task.begun()
            commands.append(list(task.command))
            assert list(task.command[:4]) == [sys.executable, "-P", "-m", "cntk_core"]
            with task.output.open("a", encoding="utf-8") as output, redirect_stdout(output), redirect_stderr(output):
                code = main(task.command[4:])
            task.ended(code)

    monkeypatch.setattr(sweep, "run_tasks", run)
    return commands


def results(folder: str = "sweep") -> list[dict]:
    return json.loads(Path(folder, "results.json").read_text(encoding="utf-8"))


def epochs(folder: str) -> list[int]:
    lines = Path(folder, "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [told["epoch"] for told in map(json.loads, lines) if told["event"] == "epoch_end"]


# -- as it is used ----------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_two_trainings_beside_each_other(recipe, capfd):
    assert main(["sweep", "r.cntk", RATE, "-j", "2"]) == 0
    assert {row["state"] for row in results()} == {"done"}
    assert {path.name for path in Path("sweep").iterdir() if path.is_dir()} == {
        "learningRatesPerSample=0.1",
        "learningRatesPerSample=0.5",
    }
    out, err = capfd.readouterr()
    assert err == ""
    assert (
        len(re.findall(r"^\[[12]/2\] learningRatesPerSample=0.[15]: errs = \S+ at epoch [12] \(", out, re.MULTILINE))
        == 2
    )


def test_every_point_has_a_folder_with_its_model_and_log(recipe, here, capsys):
    assert main(["sweep", "r.cntk", RATE, "minibatchSize=1,2", "Train:SGD:maxEpochs=3", "-o", "out/s"]) == 0
    for rate in ("0.1", "0.5"):
        for size in ("1", "2"):
            folder = Path("out/s", f"learningRatesPerSample={rate},minibatchSize={size}")
            assert (folder / "run/net.dnn").is_file()
            assert epochs(str(folder)) == [1, 2, 3]
            assert (folder / "output.txt").read_text(encoding="utf-8").endswith("COMPLETED.\n")
            told = json.loads((folder / "point.json").read_text(encoding="utf-8"))
            assert told["values"] == {"Train:SGD:learningRatesPerSample": rate, "Train:SGD:minibatchSize": size}
            assert (told["state"], told["code"], told["version"]) == ("done", 0, 1)
    assert not Path("run").exists()


def test_the_table_has_the_best_point_first(recipe, here, capsys):
    assert main(["sweep", "r.cntk", RATE, "--criterion", "ce"]) == 0
    rows = results()
    assert [row["Train:SGD:learningRatesPerSample"] for row in rows] == ["0.5", "0.1"]
    assert rows[0]["ce"] < rows[1]["ce"]
    assert rows[0]["folder"] == "sweep/learningRatesPerSample=0.5"
    shown = capsys.readouterr().out.split("\n\n")[1].splitlines()
    assert shown[0].split() == ["learningRatesPerSample", "state", "epochs", "best", "epoch", "ce", "errs", "time"]
    assert [line.split()[0] for line in shown[1:]] == ["0.5", "0.1"]
    with Path("sweep/results.csv").open(encoding="utf-8", newline="") as file:
        assert [row["ce"] for row in csv.DictReader(file)] == [str(row["ce"]) for row in rows]
    assert main(["sweep", "r.cntk", RATE, "--criterion", "ce", "--maximize"]) == 0
    assert [row["Train:SGD:learningRatesPerSample"] for row in results()] == ["0.1", "0.5"]


def test_what_is_done_is_not_trained_again_and_a_larger_grid_adds_to_it(recipe, here, capsys):
    assert main(["sweep", "r.cntk", RATE]) == 0
    capsys.readouterr()
    assert main(["sweep", "r.cntk", "learningRatesPerSample=0.1,0.5,0.9"]) == 0
    assert len(here) == 3
    out = capsys.readouterr().out
    assert out.startswith("3 points in sweep, 2 done before\n[3/3] learningRatesPerSample=0.9: ")
    assert len(results()) == 3


def test_an_error_of_one_point_does_not_stop_the_others(recipe, here, capsys):
    assert main(["sweep", "r.cntk", "minibatchSize=none,2"]) == 1
    out = capsys.readouterr().out
    message = "failed: <command line>:2:27: Train:SGD:minibatchSize[0] must be a whole number, not 'none'\n"
    assert f"[1/2] minibatchSize=none: {message}" in out
    assert out.endswith(
        "1 point failed; what each of them printed is in its output.txt. The same command tries them again, and goes "
        "on from what they have saved.\n"
    )
    assert [(row["Train:SGD:minibatchSize"], row["state"]) for row in results()] == [("2", "done"), ("none", "failed")]
    assert main(["sweep", "r.cntk", "minibatchSize=none,2"]) == 1
    assert len(here) == 3


def test_a_killed_training_goes_on(recipe, here, monkeypatch):
    class Killed:
        @hookimpl
        def cntk_epoch_end(self, job, summary):
            if summary.epoch == 1:
                raise CntkError("killed")

    def stop(tasks: Sequence[Task], jobs: int, processes: int) -> None:
        tasks[0].begun()
        words = [word if word != "r.cntk" else "configFile=r.cntk" for word in tasks[0].command[5:]]
        with pytest.raises(CntkError, match="killed"):
            run_recipe(words, Log(quiet=True), only="train", listeners=[Killed()])

    words = ["sweep", "r.cntk", RATE, "Train:SGD:maxEpochs=4", "Train=[makeMode=false]"]
    run = sweep.run_tasks
    monkeypatch.setattr(sweep, "run_tasks", stop)
    assert main(words) == 1
    assert results() == [
        {**results()[0], "state": "begun"},
        {"Train:SGD:learningRatesPerSample": "0.5", "state": "waiting", "epochs": None, "bestEpoch": None}
        | {"seconds": None, "folder": "sweep/learningRatesPerSample=0.5"},
    ]
    monkeypatch.setattr(sweep, "run_tasks", run)
    assert main(words) == 0
    assert epochs("sweep/learningRatesPerSample=0.1") == [1, 2, 3, 4]


def test_another_recipe_does_not_go_on_where_this_one_was(recipe, here, capsys):
    assert main(["sweep", "r.cntk", RATE]) == 0
    assert main(["sweep", "r.cntk", RATE, "Train:SGD:maxEpochs=3"]) == 1
    assert capsys.readouterr().err == (
        "error: 'sweep/learningRatesPerSample=0.1' has been trained with another recipe, or with other key=value\n"
        "    Give another folder with -o, or remove this one.\n"
    )


def test_a_recipe_that_failed_may_be_mended(recipe, here):
    text = recipe.read_text(encoding="utf-8")
    recipe.write_text(text.replace("Times(", "Tmies("), encoding="utf-8")
    assert main(["sweep", "r.cntk", RATE]) == 1
    recipe.write_text(text, encoding="utf-8")
    assert main(["sweep", "r.cntk", RATE]) == 0


def test_words_for_each_training(recipe, here):
    hook = "from cntk_core.api import hookimpl\n\n@hookimpl\ndef cntk_job_begin(job):\n    pass\n"
    Path("mine.py").write_text(hook, encoding="utf-8")
    arguments = ["sweep", "r.cntk", RATE, "--plugin", "mine.py", "--no-plugin", "learner:adam", "--safe"]
    assert main([*arguments, "--random", "1"]) == 0
    ((*_, plugin, path, leave_out, name, safe),) = here
    assert [plugin, path, leave_out, name] == ["--plugin", "mine.py", "--no-plugin", "learner:adam"]
    assert safe.startswith("--safe=")


@pytest.mark.thorough
@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_the_picture(recipe, here, capsys):
    assert main(["sweep", "r.cntk", RATE, "--plot", "out/sweep.svg"]) == 0
    assert capsys.readouterr().out.endswith("\nout/sweep.svg\n")
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", Path("out/sweep.svg").read_text(encoding="utf-8"))
    assert {f"learningRatesPerSample={rate}: training" for rate in ("0.1", "0.5")} <= set(shown)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["minibatchSize=2"], 2, "no key has several values\n    cntk sweep recipe.cntk key=a,b,c [key2=d,e] "),
        ([RATE, "-j", "0"], 2, "--jobs 0 makes no sense: it is the number of trainings at a time\n"),
        ([RATE, "--random", "-1"], 2, "--random -1 makes no sense: it is the number of points\n"),
        ([RATE, "--plot", "x.gif"], 2, "'x.gif' cannot be drawn: the suffix of the file says what is written\n"),
        ([RATE, "-o", "train.ctf"], 1, "the folder 'train.ctf' cannot be written: "),
        ([RATE, "modelPath=$x$/net"], 1, "<command line>:2:11: unknown variable $x$\n"),
    ],
)
def test_mistakes(recipe, here, capsys, arguments, code, message):
    assert main(["sweep", "r.cntk", *arguments]) == code
    assert capsys.readouterr().err.startswith(f"error: {message}")
    assert not here


# -- points -----------------------------------------------------------------------------------------------


RECIPE = """\
hidden = 8
Train = [ action = train ; SGD = [ rate = 1 ; both = 1 ] ; Net = [ $hidden$ = broken ; both = 2 ] ]
"""


def test_keys_are_found_where_the_recipe_has_them():
    config = parse_text(RECIPE, file="r.cntk")
    axes, fixed = split_words(
        ["hidden=8,16", "RATE=1,2", "train:sgd:new=a,b", "x=1", "Train:SGD:rate=3", "Train=[SGD=[y=1]]"], config
    )
    assert axes == [
        Axis(("hidden",), ("8", "16")),
        Axis(("Train", "SGD", "rate"), ("1", "2")),
        Axis(("train", "sgd", "new"), ("a", "b")),
    ]
    assert fixed == ["x=1", "Train=[SGD=[rate=3]]", "Train=[SGD=[y=1]]"]


@pytest.mark.parametrize(
    ("word", "kind", "message"),
    [
        ("rat=1,2", ConfigError, r"the recipe has no key 'rat'; did you mean 'rate'\?"),
        ("both=1,2", ConfigError, r"the recipe has 'both' in several places\n.*: Train:SGD:both, Train:Net:both"),
        ("Train:SDG:x=1,2", ConfigError, r"the recipe has no block 'Train:SDG'; did you mean 'SGD'\?"),
        ("Train:SDG:x=1", ConfigError, r"the recipe has no block 'Train:SDG'; did you mean 'SGD'\?"),
        ("rate=1,2,1", UsageError, "'rate=1,2,1' has the value '1' twice"),
        ("rate=1,", UsageError, "'rate=1,' has an empty value between its commas"),
    ],
)
def test_words_that_are_wrong(word, kind, message):
    config = parse_text(RECIPE.replace("$hidden$ = broken ; ", ""), file="r.cntk")
    with pytest.raises(kind, match=message):
        split_words([word], config)


def test_a_key_that_is_there_twice():
    config = parse_text("a=1", file="r.cntk")
    with pytest.raises(UsageError, match="'A' is there twice"):
        split_words(["a=1,2", "A=3,4"], config)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2", ["1", "2"]),
        ("0.1*3:0.05, 0.2", ["0.1*3:0.05", "0.2"]),
        ('"a,b",c', ['"a,b"', "c"]),
        ("[x=f(1,2)],{3,4}", ["[x=f(1,2)]", "{3,4}"]),
        ("", [""]),
    ],
)
def test_commas_part_values(text, values):
    assert list(split_values(text)) == values


AXES = [Axis(("a",), ("1", "2", "3")), Axis(("B", "c"), ("x", "y"))]


def test_the_grid():
    points = [point.overrides for point in grid(AXES)]
    assert points == [[f"a={a}", f"B=[c={c}]"] for a in "123" for c in "xy"]
    assert grid(AXES, 6) == grid(AXES)
    assert grid(AXES, 7) == grid(AXES)


def test_some_points_by_chance():
    some = grid(AXES, 4, seed=3)
    assert len({point.folder for point in some}) == 4
    assert {point.folder for point in some} < {point.folder for point in grid(AXES)}
    assert grid(AXES, 2, seed=3) == some[:2]
    assert grid(AXES, 4, seed=4) != some


def test_folders_of_points():
    assert Point({("a",): "1", ("B", "c"): "x*3"}).folder.startswith("a=1,c=x_3-")
    assert Point({("a",): "x*3"}).folder != Point({("a",): "x:3"}).folder
    assert Point({("a",): "1", ("B", "a"): "2"}).folder != Point({("C", "a"): "1", ("B", "a"): "2"}).folder
    long = Point({("a",): "1" * 300}).folder
    assert len(long) == 87
    assert long != Point({("a",): "1" * 301}).folder


# -- where a recipe writes --------------------------------------------------------------------------------


def test_what_is_written_goes_into_the_folder_and_is_found_there():
    text = """\
out = "run"
modelPath = "$out$/net.dnn"
stderr = "log"
Pre = [ modelPath = "../pre/net.dnn" ; SGD = [ jsonLog = "own.jsonl" ; resume = never ] ; makeMode = false ]
Train = [
    initModel = "../pre/net.dnn" ; start = "run/net.dnn.3" ; other = "run/net.dnn.x" ; file = "train.ctf"
    NDLNetworkBuilder = [ outputPath = "inside" ]
]
Write = [ outputPath = "-" ]
"""
    assert moved(parse_text(text), Path("s/p")) == [
        "makeMode=true",
        "stderr=-",
        'jsonLog="s/p/log.jsonl"',
        'modelPath="s/p/run/net.dnn"',
        'Pre=[modelPath="s/p/pre/net.dnn"]',
        'Pre=[SGD=[jsonLog="s/p/log.jsonl"]]',
        "Pre=[SGD=[resume=auto]]",
        "Pre=[makeMode=true]",
        'Train=[initModel="s/p/pre/net.dnn"]',
        'Train=[start="s/p/run/net.dnn.3"]',
        'Write=[outputPath="-"]',
    ]


def test_a_run_that_goes_somewhere_else_writes_into_the_folder_all_the_same(recipe, here):
    folder = Path("elsewhere")
    folder.mkdir()
    Path("train.ctf").rename(folder / "train.ctf")
    assert main(["sweep", "r.cntk", RATE, "--random", "1", f"currentDirectory={folder}"]) == 0
    (model,) = recipe.parent.rglob("net.dnn")
    assert model.relative_to(recipe.parent).parts[0] == "sweep"


# -- files and processes ----------------------------------------------------------------------------------


def test_a_file_that_is_none_of_ours(tmp_path):
    (tmp_path / "point.json").write_text("[]", encoding="utf-8")
    with pytest.raises(DataError, match=r"point\.json' is no file of a sweep: TypeError: .*\n.*Remove the folder"):
        PointFile.read(tmp_path)


def task(tmp_path: Path, name: str, code: str, told: list[str]) -> Task:
    def ended(status: int) -> None:
        told.append(f"{name} {status}")

    command = [sys.executable, "-S", "-c", code]
    return Task(command, tmp_path / f"{name}.txt", lambda: told.append(name), ended)


def test_so_many_at_a_time(tmp_path):
    told: list[str] = []
    wait = "import pathlib, time\nwhile not pathlib.Path({!r}).exists(): time.sleep(0.01)"
    first = task(tmp_path, "a", wait.format(str(tmp_path / "go")), told)
    second = task(tmp_path, "b", f"open({str(tmp_path / 'go')!r}, 'w'); print('here'); raise SystemExit(3)", told)
    run_tasks([first, second, task(tmp_path, "c", "", told)], 2)
    assert told[:2] == ["a", "b"]
    assert sorted(told[2:]) == ["a 0", "b 3", "c", "c 0"]
    assert (tmp_path / "b.txt").read_text(encoding="utf-8") == "here\n"


@pytest.mark.skipif(sys.platform == "win32", reason="has no such signals")
def test_tasks_are_ended_with_the_process_that_runs_them(tmp_path):
    code = f"""
from pathlib import Path
from cntk_tool_curves.sweep.pool import Task, run_tasks
import sys
wait = "import signal, sys, time; signal.signal(15, lambda *a: (print('told'), sys.exit(0))); print('up', flush=True)"
command = [sys.executable, "-S", "-c", wait + "; time.sleep(60)"]
run_tasks([Task(command, Path({str(tmp_path / "out.txt")!r}), lambda: None, print)], 1)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    output = tmp_path / "out.txt"
    while not output.exists() or output.read_text(encoding="utf-8") != "up\n":
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (143, b"")
    assert output.read_text(encoding="utf-8") == "up\ntold\n"


def test_processors_are_shared_out(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert shared_out(3)["OMP_NUM_THREADS"] == "2"
    assert shared_out(9)["OMP_NUM_THREADS"] == "1"
    assert "OMP_NUM_THREADS" not in shared_out(1)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "5")
    assert shared_out(3)["NUMBA_NUM_THREADS"] == "5"
