"""Which plugins took part in a job, as models and checkpoints name them."""

from __future__ import annotations

import pytest

from cntk_core.network.network import Network
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.took_part import origins_of
from cntk_testing.wheels_in_a_folder import COMPONENTS

HOOKS = "from cntk_core.api import hookimpl\n@hookimpl\ndef {hook}({arguments}): pass\n"


def origins(manager: PluginManager) -> list[str]:
    return [f"{one.kind} {one.name} {one.wheel} {one.version}" for one in origins_of(manager, Network())]


@pytest.fixture
def wheels(install):
    install("my-engines", {"cntk.engines": {"one": "my_engines:Engine", "two": "my_engines:Engine"}})
    install("my-readers", {"cntk.readers": {"one": "my_readers:Reader", "two": "my_readers:Reader"}})


def test_of_engines_the_last_that_was_asked_for(wheels):
    manager = PluginManager()
    assert origins(manager) == []
    for name in ("one", "two", "two"):
        manager.registry.readers.get(name)
        manager.registry.engines.get(name)
    assert origins(manager) == [
        "engine two my-engines 0.1.0",
        "reader one my-readers 0.1.0",
        "reader two my-readers 0.1.0",
    ]
    manager.registry.asked.begin()
    assert origins(manager) == []


def test_a_job_forgets_nothing_that_it_asked_for_twice(wheels):
    manager = PluginManager()
    for name in ("one", "two", "one"):
        manager.registry.engines.get(name)
    assert origins(manager) == ["engine one my-engines 0.1.0"]


@pytest.mark.parametrize(
    ("hook", "arguments", "named"),
    [
        ("cntk_should_stop", "summary", True),
        ("cntk_minibatch_read", "minibatch", True),
        ("cntk_epoch_end", "job", False),
    ],
)
def test_hooks_that_may_change_what_comes_out(install, hook, arguments, named):
    install("my-hooks", {"cntk.hooks": {"mine": "my_hooks"}}, HOOKS.format(hook=hook, arguments=arguments))
    assert origins(PluginManager()) == ["hooks mine my-hooks 0.1.0"] * named
    assert origins(PluginManager(["-my-hooks"])) == []


def test_a_file_by_its_name(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(COMPONENTS, encoding="utf-8")
    manager = PluginManager([str(file)], discover=False)
    manager.registry.readers.get("Reader")
    assert origins(manager) == ["reader Reader mine.py "]
