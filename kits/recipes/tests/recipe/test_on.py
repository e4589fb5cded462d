"""``--on NAME``: a plugin starts the ranks."""

from __future__ import annotations

import sys

import pytest

from cntk_core.errors import MissingPluginError
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.launch.launcher import launch

STARTER = """\
import sys
from cntk_core.api.parallel import Launcher, RankLauncher

class Shouting(RankLauncher):
    requires_api = "1.0"
    communicator = "pigeons"

    def launcher(self, ranks, *, elastic=False):
        code = "import os, sys; print(os.environ['HERE'], *sys.argv[5:]); sys.exit(int(os.environ['CODE']))"
        return Launcher((sys.executable, "-c", code), {"HERE": f"{ranks} {elastic}"}, "Shouting")

    def ended(self, code):
        print(f"ended with {code}", flush=True)
"""


@pytest.fixture(autouse=True)
def starter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CODE", "7")
    (tmp_path / "s.py").write_text(STARTER, encoding="utf-8")


@pytest.mark.parametrize(
    ("named", "arguments"), [("", "train r.cntk communicator=pigeons"), ("sockets", "train r.cntk")]
)
def test_a_launcher_of_a_plugin(capfd, named, arguments):
    """It names what connects its ranks, unless the recipe does, and hears how they ended."""
    assert launch(3, ["train", "r.cntk"], ["s.py"], communicator=named, on="Shouting") == 7
    said = capfd.readouterr()
    assert said.out.splitlines() == [f"3 False {arguments}", "ended with 7"]
    assert said.err == "\na rank ended before the work was done, without a message (Shouting gave the code 7)\n"


def test_a_name_that_nothing_has():
    with pytest.raises(MissingPluginError, match=r"^no launcher named 'slurn'; did you mean 'slurm'\?"):
        launch(2, ["train", "r.cntk"], on="slurn")


def test_the_number_is_needed(capfd):
    assert main(["train", "r.cntk", "--on", "ray"]) == 2
    said = capfd.readouterr().err
    assert "--on ray starts ranks: it needs their number" in said
    assert "-n 4 --on ray" in said
    assert sys.executable not in said
