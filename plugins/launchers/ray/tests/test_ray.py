"""Actors of Ray as ranks: for real, two of them on this machine, where Ray is installed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from cntk_launcher_ray import RayLauncher
from cntk_launcher_ray.job import variables_of
from cntk_launcher_ray.rank import CODE, ERROR, OUT, WORD, Event, Place, Rank

from cntk_core.api import Unavailable
from cntk_testing import LauncherContract, PackagingContract
from cntk_testing.launcher_contract import write_recipe


class TestRay(LauncherContract):
    launcher_class = RayLauncher


class TestPackaging(PackagingContract):
    distribution = "cntk-launcher-ray"
    kind = "launcher"


def actors():
    """The processes of Ray in which ranks are."""
    said = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in said.splitlines() if "ray::Rank" in line]


@pytest.mark.slow
def test_an_actor_is_lost_and_the_others_go_on(tmp_path):
    pytest.importorskip("ray")
    write_recipe(tmp_path)
    before = set(actors())
    words = ["train", "recipe.cntk", "-n", "2", "--on", "ray", "--elastic", "Train=[SGD=[maxEpochs=400]]"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    run = subprocess.Popen([sys.executable, "-m", "cntk_core", *words], cwd=tmp_path, **pipes)
    end = time.monotonic() + 240
    while not (tmp_path / "model/net.dnn.2").exists():
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < end
        time.sleep(0.1)
    mine = [each for each in actors() if each not in before and working_folder_of(each, tmp_path)]
    assert len(mine) == 2
    os.kill(mine[1], signal.SIGKILL)
    _, said = run.communicate(timeout=240)
    assert run.returncode == 0, said
    texts = [path.read_text(encoding="utf-8") for path in sorted(tmp_path.glob("log*"))]
    assert any("1 of 2 ranks go on" in text for text in [*texts, said]), said
    assert (tmp_path / "model/net.dnn").is_file()


def working_folder_of(actor, folder):
    """Whether a process that an actor has started works in a folder."""
    said = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in said.splitlines()[1:]]
    return any(parent == actor and os.path.realpath(f"/proc/{own}/cwd") == str(folder) for own, parent in pairs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("CNTK_RAY_GPUS", "1000", "2 ranks need 2000 GPUs, and the Ray cluster has "),
        ("CNTK_RAY_CPUS", "many", "CNTK_RAY_CPUS='many' in the environment makes no sense: it is a number"),
    ],
)
def test_what_cannot_be_had(tmp_path, monkeypatch, variable, text, said):
    monkeypatch.setenv(variable, text)
    write_recipe(tmp_path)
    done = TestRay().run(tmp_path)
    assert done.returncode == 1
    assert f"error: {said}" in done.stderr
    assert "Traceback" not in done.stderr


# -- without Ray ----------------------------------------------------------------------------------------------


def test_ray_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr("cntk_launcher_ray.find_spec", lambda name: None)
    assert RayLauncher.availability() == Unavailable("Ray is not installed", 'pip install "cntk-launcher-ray[ray]"')


def test_how_ranks_find_each_other():
    places = [Place("one", "10.0.0.1", 7000), Place("two", "10.0.0.2", 7001), Place("one", "10.0.0.1", 7002)]
    found = list(variables_of(places))
    assert [(each["RANK"], each["LOCAL_RANK"], each["LOCAL_WORLD_SIZE"]) for each in found] == [
        ("0", "0", "2"),
        ("1", "0", "1"),
        ("2", "1", "2"),
    ]
    assert {(each["WORLD_SIZE"], each["MASTER_ADDR"], each["MASTER_PORT"]) for each in found} == {
        ("3", "10.0.0.1", "7000")
    }


PROGRAM = """
import os, pathlib, sys
print("to the console")
print(os.environ["GIVEN"], file=sys.stderr)
folder = pathlib.Path(os.environ["CNTK_RANK_REPORTS"])
(folder / "rank-1.txt").write_text("why")
(folder / "rank-1.pid").write_text("4711")
sys.exit(3)
"""


def test_what_a_rank_tells_from_another_machine(tmp_path, monkeypatch):
    """Which process it is means nothing where it is told."""
    monkeypatch.delenv("CNTK_RANK_REPORTS", raising=False)
    events = list(Rank().run([sys.executable, "-c", PROGRAM], {"GIVEN": "x"}, str(tmp_path)))
    assert sorted(events[:2]) == [Event(ERROR, "", "x"), Event(OUT, "", "to the console")]
    assert events[2:] == [Event(WORD, "rank-1.txt", "why"), Event(CODE, "", "3")]


def test_the_python_of_another_machine(tmp_path):
    events = list(Rank().run(["/no/such/python", "-c", "print(1)"], {}, str(tmp_path)))
    assert events == [Event(OUT, "", "1"), Event(CODE, "", "0")]


def test_a_folder_that_is_not_there(tmp_path):
    found = list(Rank().run([sys.executable, "-c", ""], {}, str(tmp_path / "none")))
    assert [event.kind for event in found] == [ERROR, CODE]
    assert found[0].text.startswith(f"there is no folder {tmp_path / 'none'} on ")
    assert found[1].text == "1"


def test_a_rank_ends_with_its_actor(tmp_path):
    """The input of the process that keeps it is a pipe of the actor."""
    command = [sys.executable, "-m", "cntk_launcher_ray.keeper", sys.executable, "-c", "import time; time.sleep(600)"]
    kept = subprocess.Popen(command, stdin=subprocess.PIPE)
    kept.stdin.close()
    assert kept.wait(60) == 128 + signal.SIGKILL
