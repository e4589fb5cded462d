"""What `cntk doctor` finds of components and of a GPU, and the table of what is installed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cntk_core.api import Available, PluginError, Unavailable
from cntk_kit_recipes.authoring import doctor
from cntk_kit_recipes.authoring.doctor import Finding, components, extras, gpu
from cntk_kit_recipes.authoring.report import PluginRecord, show_table
from cntk_kit_recipes.recipe.error_report import text_of


def offering(*answers: Any) -> Any:
    """A manager that has components of a kind with these answers."""
    offers = [
        SimpleNamespace(name=f"c{number}", source="wheel 1.0", availability=lambda answer=answer: answer)
        for number, answer in enumerate(answers)
    ]
    return SimpleNamespace(registry=SimpleNamespace(table=lambda word: SimpleNamespace(offers=lambda: offers)))


def test_components_with_what_keeps_them_from_work() -> None:
    found = components(
        offering(
            Available(""),
            Available("8 cores"),
            Unavailable("no GPU", "buy one"),
            PluginError("it fails", hint="mend it"),
            PluginError("it fails"),
        ),
        "engine",
    )
    assert list(found) == [
        Finding("ok", "engine c0", "wheel 1.0"),
        Finding("ok", "engine c1", "wheel 1.0: 8 cores"),
        Finding("missing", "engine c2", "wheel 1.0: no GPU", "buy one"),
        Finding("broken", "engine c3", "wheel 1.0: it fails", "mend it"),
        Finding("broken", "engine c4", "wheel 1.0: it fails", ""),
    ]


def test_a_kind_of_which_there_is_none() -> None:
    assert list(components(offering(), "reader")) == [
        Finding("broken", "no reader is installed", mend="pip install cntk-toolkit")
    ]


@pytest.mark.parametrize(
    ("place", "first"),
    [
        ("/usr/bin/nvidia-smi", Finding("ok", "NVIDIA driver", "")),
        (None, Finding("missing", "NVIDIA driver", "not found (no nvidia-smi)")),
    ],
)
def test_a_gpu_and_the_engines_on_it(place: str | None, first: Finding, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: place)
    engine = SimpleNamespace(devices=lambda: ("cpu", "gpu0"))
    engines = SimpleNamespace(usable=lambda: ["e"], get=lambda name: engine)
    assert list(gpu(SimpleNamespace(registry=SimpleNamespace(engines=engines)))) == [  # type: ignore[arg-type]
        first,
        Finding("ok", "deviceId=cpu", "engine 'e'"),
        Finding("ok", "deviceId=gpu0", "engine 'e'"),
    ]


def test_what_pictures_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_EXTRAS", (("PIL", "pictures", "pip install x"), ("mat", "curves", "pip install y")))
    monkeypatch.setattr(doctor, "find_spec", lambda module: module if module == "PIL" else None)
    assert list(extras()) == [
        Finding("ok", "PIL", "pictures", ""),
        Finding("missing", "mat", "not installed; it is needed for curves", "pip install y"),
    ]


def test_the_table_of_plugins() -> None:
    rows = [
        PluginRecord("reader", "R", "wheel", "1.0", "usable", "", "", 0.25),
        PluginRecord("engine", "long", "w", "", "unavailable", "no GPU\nand no driver", "buy one", 0.0),
    ]
    assert show_table(rows, ("a note",)).splitlines() == [
        "kind    name  wheel  version  state",
        "reader  R     wheel  1.0      usable",
        "engine  long  w      -        unavailable",
        "    no GPU",
        "    and no driver",
        "    buy one",
        "a note",
    ]
    assert [line.split()[-2:] for line in show_table(rows, times=True).splitlines()[:3]] == [
        ["state", "import"],
        ["0.250", "s"],
        ["unavailable", "-"],
    ]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device", "run/model.dnn"), "'run/model.dnn': No space left on device"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("odd"), "odd"),
        (MemoryError(), "there is not enough memory"),
        (MemoryError("3 GiB"), "there is not enough memory: 3 GiB"),
    ],
)
def test_errors_of_the_system(error: Exception, said: str) -> None:
    assert text_of(error) == said
