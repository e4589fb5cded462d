"""The wheels of the workspace agree with each other. The lists that name them are tested in test_wheel_lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cntk_core

GROUPS = {
    "cntk.actions",
    "cntk.addresses",
    "cntk.aggregations",
    "cntk.builders",
    "cntk.communicators",
    "cntk.rank_variables",
    "cntk.datasets",
    "cntk.engines",
    "cntk.hooks",
    "cntk.initializers",
    "cntk.kernels",
    "cntk.launchers",
    "cntk.learners",
    "cntk.model_formats",
    "cntk.ops",
    "cntk.parallelizers",
    "cntk.readers",
    "cntk.schedules",
    "cntk.verbs",
    "cntk.writers",
}
KINDS = {
    "actions": "action",
    "builders": "builder",
    "engines": "engine",
    "hooks": "hook",
    "launchers": "launcher",
    "learners": "learner",
    "models": "model",
    "parallel": "parallel",
    "readers": "reader",
    "tools": "tool",
}

FRONTENDS = {
    "frontends/cntk": ("cntk-compat", "cntk"),
    "frontends/fit": ("cntk-fit", "cntk_fit"),
    "frontends/sklearn": ("cntk-sklearn", "cntk_sklearn"),
}
"""Wheels that programs import: name of the wheel, and what is imported."""

Projects = dict[str, dict[str, Any]]


def import_name(folder: str) -> str:
    if folder in FRONTENDS:
        return FRONTENDS[folder][1]
    kind, name = folder.split("/")
    return f"cntk_{KINDS[kind]}_{name}"


def test_there_are_plugins(plugins: Projects) -> None:
    assert "engines/cpu" in plugins


def test_wheels_are_named_after_their_folders(plugins: Projects) -> None:
    expected = {folder: import_name(folder).replace("_", "-") for folder in plugins}
    expected |= {folder: name for folder, (name, _) in FRONTENDS.items()}
    assert {folder: plugin["project"]["name"] for folder, plugin in plugins.items()} == expected


def test_all_wheels_have_one_version(core: dict[str, Any], wheels: Projects) -> None:
    version = core["project"]["version"]
    assert cntk_core.__version__ == version
    assert {folder: wheel["project"]["version"] for folder, wheel in wheels.items()} == dict.fromkeys(wheels, version)


def test_plugins_accept_the_minor_version_of_the_core(core: dict[str, Any], plugins: Projects) -> None:
    major, minor, *_ = (int(part) for part in core["project"]["version"].split("."))
    expected = f"cntk-core>={major}.{minor},<{major}.{minor + 1}"
    assert [folder for folder, plugin in plugins.items() if expected not in plugin["project"]["dependencies"]] == []


def test_all_wheels_need_the_same_python(core: dict[str, Any], wheels: Projects) -> None:
    needed = {project["project"]["requires-python"] for project in [core, *wheels.values()]}
    assert needed == {">=3.11"}


def test_every_plugin_is_complete(root: Path, plugins: Projects) -> None:
    missing = [
        path
        for folder in plugins
        for path in ("README.md", f"src/{import_name(folder)}/__init__.py", f"src/{import_name(folder)}/py.typed")
        if not (root / "plugins" / folder / path).is_file()
    ]
    assert missing == []


def test_entry_points_are_in_known_groups_and_lead_into_their_wheel(plugins: Projects) -> None:
    for folder, plugin in plugins.items():
        groups = plugin["project"].get("entry-points", {})
        assert groups or folder in FRONTENDS, folder
        assert set(groups) <= GROUPS, folder
        assert all(
            value.partition(":")[0].partition(".")[0] == import_name(folder)
            for group in groups.values()
            for value in group.values()
        ), folder
