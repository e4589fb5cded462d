"""For data of each format a recipe is written, whose data have no fault, which trains for an epoch, and is tested."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from samples import SAMPLES

from cntk_kit_recipes.cli import main

NEEDS = {"parquet": "pyarrow", "pictures": "PIL", "map_file": "PIL"}
FINAL = re.compile(r"Final Results: .*? \* (\d+)")


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_written_runs(name, tmp_path, capfd, monkeypatch):
    if name in NEEDS and find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    make, title, task = SAMPLES[name]
    paths = [path.relative_to(tmp_path).as_posix() for path in make(tmp_path)]
    assert main(["init", "new", "--yes", "--data", *paths]) == 0
    said = capfd.readouterr().out
    assert said.startswith(f"{title}:\n")
    written = re.search(r"written to new: (.*)", said)
    assert written is not None
    assert {*written[1].split(", ")} <= {path.name for path in Path("new").iterdir()}
    readme = Path("new/README.md").read_text(encoding="utf-8")
    assert all(line.strip() in readme for line in said.partition("\n\n")[0].splitlines()[1:])
    monkeypatch.chdir("new")
    for words in (["config", "check", "recipe.cntk"], ["check-data", "recipe.cntk"]):
        assert main(words) == 0
    assert capfd.readouterr().out.endswith("no problems found\n")
    assert main(["train", "recipe.cntk", "Train=[SGD=[maxEpochs=1]]"]) == 0
    assert Path("run/model.dnn").is_file()
    capfd.readouterr()
    assert main(["test", "recipe.cntk"]) == 0
    told = capfd.readouterr()
    assert (final := FINAL.search(told.err + told.out)) is not None
    assert int(final[1]) >= 6  # held out samples
    if task == "regress":
        assert "SquareError" in Path("recipe.cntk").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SAMPLES)
def test_what_data_look_like(name, tmp_path, capsys):
    if name in NEEDS and find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    from cntk_tool_init.found import Wishes
    from cntk_tool_init.sniff import look

    make, title, task = SAMPLES[name]
    data = look(make(tmp_path), Wishes())
    assert (data.title, data.tasks[0]) == (title, task)


@pytest.mark.slow
def test_the_check_that_is_written(tmp_path, capfd):
    import subprocess
    import sys

    assert main(["init", "new", "--yes", "--data", str(SAMPLES["ctf"][0](tmp_path)[0])]) == 0
    done = subprocess.run([sys.executable, "check.py"], cwd="new", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "all is well")
    assert not Path("new/run").exists()
    train = Path("new/train.ctf")
    train.write_text(train.read_text(encoding="utf-8") + "|class 7:1 |x 1 2 3 4\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "check.py"], cwd="new", capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "cntk check-data found something wrong" in done.stderr
