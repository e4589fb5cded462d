"""What the wheels of the core and its kits offer, however they are installed."""

from __future__ import annotations

from importlib import metadata

import pytest

from cntk_core import __version__
from cntk_core.errors import BrokenPluginError
from cntk_core.plugins.discovery import OWN_WHEELS, CoreParts
from cntk_core.plugins.markers import PROJECT


@pytest.fixture
def installed(monkeypatch):
    """Let only these of our own wheels be installed, each as version 7."""

    def only(*names: str) -> None:
        def found(name: str):
            if name not in names:
                raise metadata.PackageNotFoundError(name)
            return type("Wheel", (), {"version": "7", "entry_points": points(name)})

        def points(name: str) -> metadata.EntryPoints:
            of = [metadata.EntryPoint(f"{name} {group}", "a:b", group) for group in ("cntk.verbs", "other")]
            return metadata.EntryPoints(of)

        monkeypatch.setattr("cntk_core.plugins.discovery.metadata.distribution", found)

    return only


def entries(group: str) -> list[tuple[str, str]]:
    return [(name, str(source)) for name, _, source in CoreParts().entries(group)]


def test_the_core_has_its_own_version_whatever_the_metadata_say(installed):
    installed(*OWN_WHEELS)
    assert entries("cntk.verbs") == [
        ("cntk-core cntk.verbs", f"cntk-core {__version__}"),
        ("cntk-kit-builders cntk.verbs", "cntk-kit-builders 7"),
        ("cntk-kit-recipes cntk.verbs", "cntk-kit-recipes 7"),
    ]
    assert entries("other") == entries(f"{PROJECT}.nothing") == []


def test_a_kit_may_be_missing_and_the_core_may_not(installed):
    installed("cntk-core")
    assert [name for name, _ in entries("cntk.verbs")] == ["cntk-core cntk.verbs"]
    installed("cntk-kit-recipes")
    with pytest.raises(BrokenPluginError) as caught:
        entries("cntk.verbs")
    assert str(caught.value).startswith("cntk-core is not installed: its own parts are found by its metadata\n")
