"""Names that have left a door: they work, they warn, and none outstays its version."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module

import pytest

from cntk_core.api.retired import RETIRED, Retired, retired

ROWS = [pytest.param(row, id=f"{row.now}-{row.since}") for row in RETIRED]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def version_of(door: str) -> str:
    module = import_module(door)
    return str(getattr(module, "API_VERSION", None) or module.KIT_VERSION)


@pytest.mark.parametrize("row", ROWS)
def test_old_names_lead_to_the_new_ones_with_a_warning(row: Retired) -> None:
    door, now = import_module(row.door), import_module(row.now)
    for old, new in row.names.items():
        assert old not in door.__all__
        told = f"has moved to {row.now}" if old == new else f"is {row.now}.{new} now"
        message = f"'{old}' {told}; it leaves {row.door} with version {row.until}"
        with pytest.warns(DeprecationWarning, match=f"^{re.escape(message)}$") as caught:
            assert getattr(door, old) is getattr(now, new)
        assert caught[0].filename == __file__


@pytest.mark.parametrize("row", ROWS)
def test_nothing_outstays_its_version(row: Retired) -> None:
    assert numbers(version_of(row.door)) < numbers(row.until), f"remove these names from {row.door}: {row.names}"


@pytest.mark.parametrize("row", ROWS)
def test_two_minor_versions_warn(row: Retired) -> None:
    since, until = numbers(row.since), numbers(row.until)
    assert until[0] > since[0] or until[1] >= since[1] + 2


def test_a_name_that_never_was() -> None:
    with pytest.raises(AttributeError, match=r"^module 'cntk_core\.api' has no attribute 'IReader'$"):
        retired("cntk_core.api", "IReader")
    with pytest.raises(ImportError, match=r"^cannot import name 'IReader' from 'cntk_core\.api'"):
        from cntk_core.api import IReader  # noqa: F401


def test_what_is_retired_costs_nothing() -> None:
    code = "import sys, cntk_core.api; print('cntk_core.api.retired' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"
