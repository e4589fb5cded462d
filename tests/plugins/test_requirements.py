"""Plugins that ask for another core, another kit or another interface are incompatible, whatever their kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_core.errors import IncompatiblePluginError, PluginError
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.requirements import _unmet
from cntk_kit_recipes.authoring.report import list_plugins
from cntk_kit_recipes.cli import main

HOOKS = """
from cntk_core.api import hookimpl

@hookimpl
def cntk_job_begin(job):
    pass
"""

OPS = """
from cntk_core.api import elementwise_op

@elementwise_op("Squash")
def squash(m, a, x):
    return x / (1 + m.abs(x))
"""


@pytest.fixture(autouse=True)
def _fresh():
    _unmet.cache_clear()
    yield
    _unmet.cache_clear()


@pytest.fixture
def requires(site, monkeypatch):
    """Let an installed wheel ask for something."""

    def ask(name: str, *requirements: str) -> None:
        (info,) = site.glob(f"{name.replace('-', '_')}-*.dist-info")
        with (info / "METADATA").open("a", encoding="utf-8") as file:
            file.writelines(f"Requires-Dist: {one}\n" for one in requirements)

    return ask


def record(wheel: str):
    (found,) = [one for one in list_plugins(check=True) if one.wheel == wheel]
    return found


def test_a_wheel_for_a_newer_core(install, requires, capsys):
    install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:Reader"}}, "raise ImportError('too new')\n")
    requires("cntk-reader-wav", "numpy>=99", "cntk-core>=0.3")
    message = "reader 'wav' from cntk-reader-wav 0.1.0 needs cntk-core>=0.3, but cntk-core 0.1.0 is installed"
    mend = 'pip install "cntk-core>=0.3", or another version of the plugin: pip install --upgrade cntk-reader-wav'
    found = record("cntk-reader-wav")
    assert (found.state, found.reason, found.mend) == ("incompatible", message, mend)
    with pytest.raises(IncompatiblePluginError) as caught:
        PluginManager().registry.readers.get("wav")
    assert str(caught.value) == f"{message}\n    {mend}"
    assert main(["plugins"]) == 0
    assert f"    {message}\n    {mend}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("requirement", "state"),
    [
        ("cntk-core", "usable"),
        ("cntk-core>=0.1", "usable"),
        ("cntk_core >=0.1,<0.2", "usable"),
        ("cntk-core>=0.1.0.0", "usable"),
        ("cntk-core>=0.1.0.0.1", "incompatible"),
        ("cntk-core<0", "incompatible"),
        ("cntk-core<0.1.0.1", "usable"),
        ("cntk-core>=0", "usable"),
        ("cntk-core<0.1", "incompatible"),
        ("cntk-core>=0.1,<0.1.0", "incompatible"),
        ("cntk-core~=0.1.0", "usable"),
        ("cntk-core==2.*", "incompatible"),
        ("cntk-core>=9; extra == 'gpu'", "usable"),
        ("cntk-core>=9; python_version > '3'", "incompatible"),
        ("cntk-core @ https://example.org/core.whl", "usable"),
        ("cntk-core!!", "usable"),
        ("cntk-core-extras>=9", "usable"),
        ("cntk-kit-readers>=0.1", "usable"),
        ("cntk-kit-readers>=9", "incompatible"),
        ("cntk-kit-of-nobody>=9", "usable"),
    ],
)
def test_requirements(install, requires, requirement, state):
    install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:Reader"}})
    requires("cntk-reader-wav", requirement)
    assert record("cntk-reader-wav").state == state


@pytest.mark.parametrize(
    ("version", "state", "reason"),
    [
        ("1.0", "usable", ""),
        ("1.7", "incompatible", "needs plugin interface 1.7, but cntk-core 0.1.0 has 1.0"),
        ("0.9", "incompatible", "needs plugin interface 0.9, but cntk-core 0.1.0 has 1.0"),
        ("one", "broken", "does not say which plugin interface it needs (requires_api is 'one')"),
    ],
)
@pytest.mark.parametrize("of_module", [True, False])
def test_ops_and_hooks_say_which_interface(install, version, state, reason, of_module):
    line = f'requires_api = "{version}"\n'
    op, hooks = ("cntk_op_good", "cntk_hook_good") if of_module else ("cntk_op_good:squash", "cntk_hook_good:Watch")
    in_class = "class Watch:\n" + "".join(f"    {text}\n" for text in (line + HOOKS).splitlines())
    install("cntk-op-good", {"cntk.ops": {"Squash": op}}, line + OPS)
    install("cntk-hook-good", {"cntk.hooks": {"watch": hooks}}, line + HOOKS if of_module else in_class)
    for wheel, title in (("cntk-op-good", "ops 'Squash'"), ("cntk-hook-good", "hooks 'watch'")):
        found = record(wheel)
        assert found.state == state
        assert reason in found.reason
        assert not reason or found.reason.startswith(f"{title} from {wheel} 0.1.0 ")


def test_without_a_version_they_are_taken(install):
    install("cntk-op-good", {"cntk.ops": {"Squash": "cntk_op_good"}}, OPS)
    install("cntk-hook-good", {"cntk.hooks": {"watch": "cntk_hook_good"}}, HOOKS)
    assert {record("cntk-op-good").state, record("cntk-hook-good").state} == {"usable"}


def test_a_file(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("soft.py").write_text('requires_api = "2.0"\n' + OPS, encoding="utf-8")
    with pytest.raises(PluginError) as caught:
        PluginManager(["soft.py"], discover=False)
    assert str(caught.value) == (
        "soft.py: the plugin file 'soft.py' needs plugin interface 2.0, but cntk-core 0.1.0 has 1.0\n"
        "    Upgrade the core: pip install --upgrade cntk-core"
    )
