"""``cntk train -n --elastic``: how the ranks are started, and what the launcher makes of those that end."""

from __future__ import annotations

import os
import signal
import sys
from types import SimpleNamespace

import pytest

from cntk_core.contract.parallel import Launcher
from cntk_core.errors import CntkError, UnsupportedError
from cntk_core.plugins.registry import Registry
from cntk_kit_recipes.launch.launcher import launch
from cntk_kit_recipes.recipe.ranks import (
    DONE,
    ELASTIC,
    REPORTS,
    Launch,
    disconnect,
    end_all,
    exchange_active,
    note_joined,
)
from cntk_testing import VirtualRanks
from cntk_testing.virtual_ranks import VirtualCommunicator


class Alone(VirtualCommunicator):
    """Starts a program in the place of the ranks."""

    def __init__(self):
        super().__init__(VirtualRanks(1), 0)

    @classmethod
    def launcher(cls, ranks, *, elastic=False):
        command = (sys.executable, "-c", "import os, sys; exec(os.environ['DO'])")
        return Launcher(command, {"LAUNCHED": str(elastic)}, "Python")


class Useless(Alone):
    @classmethod
    def launcher(cls, ranks, *, elastic=False):
        if elastic:
            raise UnsupportedError("MPICH cannot go on without a rank (--elastic)", hint="Take another one.")
        return super().launcher(ranks)


@pytest.fixture
def launched(monkeypatch):
    """Run a program in the place of three ranks: ``launched(program, kinds of communicators)``."""

    def run(program, elastic="1", **kinds):
        registry = Registry()
        for name, kind in (kinds or {"mpi": Alone}).items():
            registry.communicators.add(name, kind)
        monkeypatch.setattr(
            "cntk_kit_recipes.recipe.run_plugins.make_plugins", lambda *_: SimpleNamespace(registry=registry)
        )
        monkeypatch.setenv("DO", program)
        return launch(3, ["train", "r.cntk"], (), elastic)

    return run


FINISHED = f"open(os.path.join(os.environ['{REPORTS}'], '{DONE}'), 'w').close()\n"


def test_ranks_are_told(launched, capfd):
    check = f"assert (os.environ['{ELASTIC}'], os.environ['LAUNCHED']) == ('2', 'True')\n"
    assert launched(check + FINISHED, elastic="2") == 0
    assert launched(f"assert '{ELASTIC}' not in os.environ and os.environ['LAUNCHED'] == 'False'\n" + FINISHED, "") == 0
    assert capfd.readouterr().err == ""


def test_what_the_launcher_says_of_lost_ranks_does_not_count(launched, capfd):
    assert launched(FINISHED + "sys.exit(137)") == 0
    assert launched("sys.exit(7)") == 7
    said = "\na rank ended before the work was done, without a message (Python gave the code 7)\n"
    assert capfd.readouterr().err == said
    assert launched(FINISHED + "sys.exit(7)", elastic="") == 7


LOST = f"""
import time
folder = os.environ['{REPORTS}']
child = os.fork()
if not child:
    time.sleep(60)
open(os.path.join(folder, 'rank-2.pid'), 'w').write(str(child))
if JOINED:
    open(os.path.join(folder, 'joined-2'), 'w').close()
time.sleep(0.5)
os.kill(child, {int(signal.SIGKILL)})
os.wait()
time.sleep(1 if JOINED else 120)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.slow
def test_the_others_go_on_if_they_are_connected(launched, capfd):
    assert launched("JOINED = True" + LOST + FINISHED) == 0
    assert capfd.readouterr().err == ""
    assert launched("JOINED = False" + LOST + FINISHED) == 1
    assert capfd.readouterr().err == "\nrank 2 ended before the ranks were connected, without a message\n"


def test_all_are_told_to_end(launched, capfd):
    """A launcher that lets the others go on ends with 0 when all have gone."""
    told = (
        "import signal, time\n"
        "heard = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: heard.append(1))\n"
        f"open(os.path.join(os.environ['{REPORTS}'], 'joined-0'), 'w').close()\n"
        f"open(os.path.join(os.environ['{REPORTS}'], 'rank-0.pid'), 'w').write(str(os.getpid()))\n"
        f"os.kill(os.getppid(), {int(signal.SIGTERM)})\n"
        "while not heard:\n    time.sleep(0.01)\n"
    )
    saved = f"open(os.path.join(os.environ['{REPORTS}'], 'rank-0.txt'), 'w').write('It is saved')\n"
    assert launched(told + saved) == 143
    assert capfd.readouterr().err == "\nIt is saved\n"
    assert launched(told + FINISHED) == 0  # they had come to the end before they heard of it


def test_where_mpi_cannot_the_ranks_meet_on_sockets(launched, capfd):
    assert launched(FINISHED, mpi=Useless, sockets=Alone) == 0
    said = "MPICH cannot go on without a rank (--elastic): the ranks are connected by this program\n"
    assert capfd.readouterr().err == said
    assert launched(FINISHED, sockets=Alone) == 0
    assert capfd.readouterr().err == ""
    with pytest.raises(UnsupportedError) as caught:
        launched(FINISHED, mpi=Useless)
    assert str(caught.value) == "MPICH cannot go on without a rank (--elastic)\n    Take another one."
    with pytest.raises(CntkError, match="no communicator that could be taken is installed"):
        launched(FINISHED, other=VirtualCommunicator)


def test_a_failing_rank_leaves_and_the_first_one_of_the_end_is_done(monkeypatch, tmp_path):
    monkeypatch.setenv(REPORTS, str(tmp_path))
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "2")
    said = []

    class Listening(Alone):
        is_elastic = True

        def leave(self, reason):
            said.append(reason)

        def close(self):
            said.append("closed")

    first, following = Listening(), Listening()
    active = [first]
    monkeypatch.setattr("cntk_kit_recipes.recipe.ranks._ACTIVE", active)
    exchange_active(first, following)
    assert active == [following]
    exchange_active(first, first)  # it is not active any more
    assert active == [following]
    end_all("no luck\nat all")
    assert said == ["no luck"]
    note_joined(Launch(1, 2))
    assert (tmp_path / "joined-1").exists()
    active[:] = [following]
    disconnect(1)
    assert not (tmp_path / DONE).exists()
    disconnect(0)
    assert (tmp_path / DONE).exists()
    assert said == ["no luck", "closed"]
