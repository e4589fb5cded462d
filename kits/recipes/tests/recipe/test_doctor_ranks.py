"""What ``cntk doctor`` says of several ranks."""

from __future__ import annotations

from types import SimpleNamespace

from cntk_core.contract.component import Unavailable
from cntk_core.contract.parallel import Launcher
from cntk_core.errors import UnsupportedError
from cntk_core.plugins.registry import Registry
from cntk_kit_recipes.authoring.doctor import ranks
from cntk_testing.virtual_ranks import VirtualCommunicator


class Starts(VirtualCommunicator):
    @classmethod
    def launcher(cls, ranks):
        return Launcher(("start", str(ranks)), {}, "a launcher")


class CannotStart(VirtualCommunicator):
    @classmethod
    def launcher(cls, ranks):
        raise UnsupportedError("there is no mpiexec", hint="Install one.")


class CannotRun(Starts):
    @classmethod
    def availability(cls):
        return Unavailable("there is no GPU", "Buy one.")


def test_launchers_are_those_of_communicators_that_have_one():
    registry = Registry()
    for kind in (Starts, CannotStart, CannotRun, VirtualCommunicator):
        registry.communicators.add(kind.__name__, kind)
    found = list(ranks(SimpleNamespace(registry=registry)))
    assert [(one.state, one.name, one.detail, one.mend) for one in found if one.name.startswith("launcher")] == [
        ("missing", "launcher of 'CannotStart'", "there is no mpiexec", "Install one."),
        ("ok", "launcher of 'Starts'", "start (a launcher)", ""),
    ]
    assert ["there is no GPU" in one.detail for one in found].count(True) == 1
